"""The rounding bound holds: no float32 score leaves its bracket around the float64 one."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings

from tests.ranking.cpu.problems import Array, Problem, gaussian_problem, problems
from tests.reference.exact_counts import exact_score, literal_score
from truerank.ranking.cpu.counts import Side, brackets, pair_scores, score_block, spreads, weights


def sides(problem: Problem) -> tuple[Side, Side]:
    ones = None if problem.bias is None else np.ones(len(problem.users))
    bias = None if problem.bias is None else problem.bias.astype(np.float64)
    return Side.prepare("user", problem.users, ones), Side.prepare("item", problem.items, bias)


def thresholds(user: Side, item: Side, rows: Array, codes: Array, scores: Array) -> tuple[Array, Array]:
    """Return what the tile compares with, for groups of one item."""
    low, high = brackets(user, item, scores)
    margin = spreads(user)[rows] * weights(item, 1)[codes]
    return low - margin, high + margin


def float32_score(user: Array, item: Array) -> np.float32:
    """Sum in float32 with a rounding of every product and sum, in the order of the coordinates."""
    total = np.float32(0)
    for left, right in zip(user, item, strict=True):
        total = np.float32(total + np.float32(left * right))
    return total


@settings(max_examples=60, deadline=None)
@given(problem=problems(most_rows=4, most_items=12))
def test_float32_scores_stay_in_their_bracket(problem: Problem) -> None:
    """The bracket of every pair holds its own float32 score, and its exact score after scaling."""
    user, item = sides(problem)
    rows, codes = (grid.ravel() for grid in np.indices((len(problem.users), len(problem.items))))
    scores = pair_scores(problem.users, problem.items, problem.bias, rows, codes)
    low, high = thresholds(user, item, rows, codes, scores)
    scale = Fraction(2) ** (user.exponent + item.exponent)
    for at, (row, code) in enumerate(zip(rows, codes, strict=True)):
        assert low[at] <= float32_score(user.fast[row], item.fast[code]) <= high[at]
        bias = None if problem.bias is None else float(problem.bias[code])
        exact = scale * exact_score(problem.users[row].tolist(), problem.items[code].tolist(), bias)
        assert low[at] == np.finfo(np.float32).min or Fraction(float(low[at])) <= exact
        assert np.isinf(high[at]) or exact <= Fraction(float(high[at]))


def test_the_bracket_is_tight() -> None:
    """Negative control: a bracket a thousand times narrower loses scores."""
    problem = gaussian_problem(40, 200, 64)
    user, item = sides(problem)
    rows, codes = (grid.ravel() for grid in np.indices((40, 200)))
    scores = pair_scores(problem.users, problem.items, None, rows, codes)
    low, high = thresholds(user, item, rows, codes, scores)
    fast = (problem.users @ problem.items.T).ravel()
    assert ((low <= fast) & (fast <= high)).all()
    assert (np.abs(fast - scores) > (high - scores) / 1000).any()


@given(problem=problems(most_rows=3, most_items=9))
@settings(max_examples=40, deadline=None)
def test_all_forms_of_the_score_agree_bit_for_bit(problem: Problem) -> None:
    """Pairs, blocks and the literal sum give the same float64."""
    rows, codes = (grid.ravel() for grid in np.indices((len(problem.users), len(problem.items))))
    pairs = pair_scores(problem.users, problem.items, problem.bias, rows, codes)
    block = score_block(problem.users, problem.items, problem.bias)
    literal = [
        literal_score(
            problem.users[row].astype(float).tolist(),
            problem.items[code].astype(float).tolist(),
            None if problem.bias is None else float(problem.bias[code]),
        )
        for row, code in zip(rows, codes, strict=True)
    ]
    assert pairs.tolist() == block.ravel().tolist() == literal


def test_good_float32_factors_are_not_copied() -> None:
    factors = np.random.default_rng(0).standard_normal((50, 8)).astype(np.float32)
    side = Side.prepare("item", factors, None)
    assert side.fast is factors
    assert side.exponent == 0


@pytest.mark.parametrize("magnitude", [1e30, 1e-30, 1e-44])
def test_others_are_scaled_exactly(magnitude: float) -> None:
    """By a power of two, to a largest magnitude between a half and one."""
    factors = (np.random.default_rng(0).standard_normal((50, 8)) * magnitude).astype(np.float32)
    side = Side.prepare("item", factors, None)
    assert 0.5 <= np.abs(side.fast).max() < 1
    assert (np.ldexp(side.fast.astype(np.float64), -side.exponent) == factors).all()
