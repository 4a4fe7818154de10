"""Float64 sums side by side have the bits of sums one by one, and float32 sums keep within their bound."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numba import njit

from tests.ranking.cpu.problems import KINDS, Problem, draw_factors, draw_lists, rows_of
from tests.reference.exact_counts import literal_score
from truerank.ranking.cpu import factor_job
from truerank.ranking.cpu.counts import Side, spreads, weights
from truerank.ranking.cpu.exact_compiled import PAIRS, score_targets, sum_pairs
from truerank.ranking.cpu.factors import count_factors
from truerank.ranking.cpu.sums import SUMS, lowest_bit

Array = np.ndarray[Any, Any]
place_of: Any = njit(lambda bits: lowest_bit(bits))


@pytest.mark.parametrize("bits", [1, 2, 12, 1 << 31, (1 << 40) + (1 << 33), -(1 << 62)])
def test_lowest_bit(bits: int) -> None:
    assert place_of(bits) == (bits & -bits).bit_length() - 1


@pytest.mark.parametrize("width", [1, 7, 8, 9, 64, 67])
@pytest.mark.parametrize(
    "dtypes", [(np.float32, np.float32), (np.float32, np.float64), (np.float64, np.float64)]
)
@pytest.mark.parametrize("n", [1, SUMS - 1, SUMS, SUMS + 1, 3 * SUMS + 5])
def test_sums_have_the_bits_of_one_after_another(width: int, dtypes: tuple[type, type], n: int) -> None:
    """Whatever the kind of numbers, rows that pairs share or not, with a bias or not."""
    draw = np.random.default_rng(width + n)
    for kind in KINDS:
        users, items = (draw_factors(draw, (9, width), kind, dtype) for dtype in dtypes)
        rows, codes = draw.integers(0, 9, n), draw.integers(0, 9, n)
        rows[n // 3 : n // 2] = 4
        for bias in (np.zeros(0), draw.standard_normal(9)):
            scores = np.full(n, np.nan)
            sum_pairs(n, users, rows, items, codes, bias, scores)
            literal = [
                literal_score(
                    users[row].astype(float).tolist(),
                    items[item].astype(float).tolist(),
                    float(bias[item]) if len(bias) else None,
                )
                for row, item in zip(rows, codes, strict=True)
            ]
            assert scores.tolist() == literal


@pytest.mark.parametrize("most_targets", [1, 3, PAIRS])
def test_scores_of_targets_are_those_of_their_rows(most_targets: int) -> None:
    """Rows that end within a group, and one with more targets than are scored together."""
    draw = np.random.default_rng(most_targets)
    users, items = (draw.standard_normal((n, 11)).astype(np.float32) for n in (40, 2 * PAIRS))
    sizes = draw.integers(1, most_targets + 1, 40)
    sizes[7] = most_targets + 1
    indptr, rows = np.concatenate([[0], np.cumsum(sizes)]), np.repeat(np.arange(40), sizes)
    targets = draw.integers(0, len(items), indptr[-1])
    scores, literal = np.empty(len(rows)), np.zeros(len(rows))
    score_targets(users, items, np.zeros(0), indptr, targets, scores)
    for k in range(11):
        literal += users[rows, k].astype(float) * items[targets, k]
    assert (scores == literal).all()


def _float32_sum(x: Array, y: Array) -> np.float32:
    total = np.float32(0)
    for left, right in zip(x, y, strict=True):
        total = total + left * right
    return total


def _exact_sum(x: Array, y: Array) -> Fraction:
    pairs = zip(x.tolist(), y.tolist(), strict=True)
    return sum((Fraction(left) * Fraction(right) for left, right in pairs), Fraction(0))


def _rows(kind: str, n: int, draw: np.random.Generator) -> Array:
    rows: Array = draw.standard_normal((20, n)).astype(np.float32)
    if kind == "positive":
        rows = np.abs(rows)
    elif kind in ("first", "last"):
        rows *= np.float32(1e-3)
        rows[:, 0 if kind == "first" else -1] = 1
    elif kind == "falling":
        rows *= np.float32(0.9) ** np.arange(n, dtype=np.float32)
    return rows


@pytest.mark.parametrize("n", [1, 5, 64, 300])
@pytest.mark.parametrize("kind", ["gaussian", "positive", "first", "last", "falling"])
def test_float32_sums_keep_within_the_bound(kind: str, n: int) -> None:
    draw = np.random.default_rng(n)
    users, items = _rows(kind, n, draw), _rows(kind, n, draw)
    user, item = Side.prepare("user", users, None), Side.prepare("item", items, None)
    bounds = spreads(user)[:, None].astype(float) * weights(item, 1)
    norms = [np.sqrt((rows.astype(float) ** 2).sum(axis=1)) for rows in (users, items)]
    assert (bounds < 1.03 * 2.0**-24 * (n + 4) * norms[0][:, None] * norms[1]).all()
    for row in range(20):
        for code in range(0, 20, 5):
            x, y = users[row], items[code]
            error = abs(Fraction(float(_float32_sum(x, y))) - _exact_sum(x, y))
            assert error <= Fraction(bounds[row, code])


def test_a_bound_half_as_wide_would_be_wrong() -> None:
    """Negative control: after a first product of 1, every other one is rounded off, n times nearly 2^-24."""
    n = 200
    x, y = np.full(n, 0.99 * 2.0**-24, np.float32), np.ones(n, np.float32)
    x[0], y[1:] = 1, 1
    y[1:] *= np.float32(2.0**-12)
    x[1:] *= np.float32(2.0**12)
    error = abs(Fraction(float(_float32_sum(x, y))) - _exact_sum(x, y))
    sides = [Side.prepare(name, rows[None], None) for name, rows in (("user", x), ("item", y))]
    bound = Fraction(float(spreads(sides[0])[0])) * Fraction(float(weights(sides[1], 1)[0]))
    assert bound / 2 < error <= bound


@pytest.mark.parametrize("close_tiles", [1, 3, 32])
@pytest.mark.parametrize("kind", ["last bit", "rounded off"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_near_pairs_of_many_tiles(
    kind: str, dtype: type, close_tiles: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All pairs are near, so that those of a tile are decided in several goes."""
    monkeypatch.setattr(factor_job, "CLOSE_TILES", close_tiles)
    draw = np.random.default_rng(close_tiles)
    users = draw_factors(draw, (70, 21), "gaussian", dtype)
    items = draw_factors(draw, (400, 21), "last bit", dtype)
    if kind == "rounded off":
        users, items = np.ones_like(users), (items * 2.0**-25).astype(dtype)
        users[:, 1:] += draw.standard_normal((70, 20)).astype(dtype)
        items[:, 0] = 1
    lists = draw_lists(draw, 70, 400, most_targets=20, seen="some")
    problem = Problem(users, items, None, lists)
    counts = count_factors(*problem.arguments, path="compiled", n_threads=2)
    assert rows_of(counts) == rows_of(count_factors(*problem.arguments, path="numpy"))
    assert counts.n_recomputed > PAIRS
