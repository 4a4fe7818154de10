"""Sums that lose nothing."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from truerank.core.errors import InvalidData
from truerank.distributed.rank_job import UNIT, MetricSums, exact_sum, normal_band
from truerank.inference.user_interval import INTERVALS

finite = st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(finite, max_size=30))
def test_equals_the_sum_of_fractions(values: list[float]) -> None:
    assert Fraction(exact_sum(np.array(values, float)), 2**UNIT) == sum(map(Fraction, values))


@given(st.lists(st.floats(0, 1), min_size=2, max_size=40), st.integers(1, 7))
def test_cuts_do_not_matter(values: list[float], size: int) -> None:
    array = np.array(values)
    parts = [MetricSums.of(array[start : start + size]) for start in range(0, len(array), size)]
    read = [MetricSums.from_list(part.to_list()) for part in parts[::-1]]
    total = sum(read, MetricSums.of(np.zeros(0)))
    assert total == MetricSums.of(array)
    assert total.mean == float(Fraction(sum(map(Fraction, values))) / len(values))
    assert total.mean == pytest.approx(math.fsum(values) / len(values), rel=1e-15, abs=0)


@pytest.mark.parametrize("level", [0.5, 0.95])
def test_intervals_are_those_of_the_values(level: float) -> None:
    values = np.random.default_rng(0).random((500, 3)) ** 4
    values[:, 2] = 0.25
    ours = normal_band([MetricSums.of(column) for column in values.T], level)
    theirs = INTERVALS.make("normal").band(values, level=level)
    np.testing.assert_allclose(ours.low, theirs.low, rtol=1e-12)
    np.testing.assert_allclose(ours.high, theirs.high, rtol=1e-12)
    assert ours.method == theirs.method == ("normal", "normal", "constant")


def test_no_cancellation() -> None:
    """Values 0.7 +- 1e-12: a textbook sum of squares in float64 leaves no digit of the deviation."""
    values = 0.7 + 1e-12 * np.tile([-1.0, 1.0], 5000)
    naive = (values**2).sum() - values.sum() ** 2 / len(values)
    assert abs(naive / 9999) ** 0.5 > 1e-9
    assert MetricSums.of(values).deviation == pytest.approx(values.std(ddof=1), rel=1e-2, abs=1e-8)


def test_one_user_has_no_deviation() -> None:
    assert MetricSums.of(np.array([0.3])).deviation == 0


def test_not_a_number() -> None:
    with pytest.raises(InvalidData, match="values per user must be finite"):
        exact_sum(np.array([0.0, np.nan]))
