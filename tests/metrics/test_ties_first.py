"""The first relevant item of a tied block, against exact fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from truerank.metrics.ties import (
    _backward,
    _direct,
    _forward,
    discount_sums,
    mean_reciprocal,
    miss_probability,
    reciprocal_sum,
)


def exact(above: int, size: int, relevant: int, slots: int) -> Fraction:
    """Sum C(size - j, relevant - 1) / C(size, relevant) / (above + j) over j = 1..slots."""
    terms = (Fraction(math.comb(size - j, relevant - 1), above + j) for j in range(1, slots + 1))
    return sum(terms, Fraction(0)) / math.comb(size, relevant)


CASES = [
    (above, size, relevant, slots)
    for above in (0, 1, 7, 150, 3000)
    for size in (2, 3, 70, 333, 800)
    for relevant in (1, 2, 3, 20, 69, 200, 800)
    if relevant <= size
    for slots in sorted({0, 1, min(size, 10), min(size, 300), size})
]


def test_mean_reciprocal_equals_fractions() -> None:
    """All ways of summing agree with exact arithmetic to 1e-12."""
    columns = np.array(CASES, dtype=np.int64).T
    found = mean_reciprocal(*columns)
    wanted = [float(exact(*case)) for case in CASES]
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=0)


@pytest.mark.parametrize(("above", "size", "relevant"), [(0, 900, 40), (5, 2000, 300), (500, 500, 30)])
def test_ways_of_summing_agree(above: int, size: int, relevant: int) -> None:
    """Each recurrence is exact where it is used; the backward one forgets where it started."""
    A, b, s = np.array([above]), np.array([size]), np.array([relevant])
    direct = _direct(A, b, s, b)
    np.testing.assert_allclose(_backward(A, b, s, b), direct, rtol=1e-12)
    if above / size * relevant < 7:
        np.testing.assert_allclose(_forward(A, b, s, s), direct, rtol=1e-11)


def test_huge_blocks_take_few_steps() -> None:
    """Blocks of a million items with many relevant ones agree with the plain sum to 1e-11."""
    cases = [(0, 10**6, 2), (0, 10**6, 2000), (10**4, 10**6, 900), (10**5, 10**5, 50), (10**6, 10**5, 3)]
    A, b, s = np.array(cases, dtype=np.int64).T
    found = mean_reciprocal(A, b, s, b)
    for case, value in zip(cases, found, strict=True):
        above, size, relevant = case
        j = np.arange(1, size - relevant + 2)
        chance = np.exp(np.concatenate([[0], np.cumsum(np.log1p(-(relevant - 1) / (size - j[:-1])))]))
        plain = math.fsum(chance * relevant / size / (above + j))
        assert value == pytest.approx(plain, rel=1e-9)


def test_miss_probability_equals_fractions() -> None:
    for size, relevant, slots in [(5, 2, 2), (9, 4, 6), (100, 3, 50), (100, 50, 3), (6, 6, 1), (6, 2, 0)]:
        wanted = Fraction(math.comb(size - slots, relevant), math.comb(size, relevant))
        found = miss_probability(np.array([size]), np.array([relevant]), np.array([slots]))
        assert found.tolist() == [pytest.approx(float(wanted), rel=1e-13)]


def test_reciprocal_sum_keeps_digits_deep_in_the_list() -> None:
    """Relative error below 1e-14, from the top of the list to rank ten million."""
    for start in (0, 1, 5, 31, 32, 33, 1000, 10**7):
        for count in (0, 1, 2, 31, 40, 500):
            wanted = sum((Fraction(1, start + j) for j in range(1, count + 1)), Fraction(0))
            found = float(reciprocal_sum(np.array(start), np.array(count)))
            assert found == pytest.approx(float(wanted), rel=1e-14, abs=0)


def test_discount_sums() -> None:
    table = discount_sums(3, "log2")
    assert float(table[3]) == pytest.approx(1 + 1 / math.log2(3) + 1 / 2, rel=1e-15)
    assert float(discount_sums(3, "clip")[3]) == pytest.approx(2 + 1 / math.log2(3), rel=1e-15)
