"""The law of adaptive samples: all paths enumerated, one round, sizes, and a simulation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tests.reference.adaptive import literal_adaptive, literal_table, stopped
from truerank.core.errors import InvalidParameter
from truerank.core.ranks import Stopping
from truerank.core.types import FloatArray
from truerank.estimation.adaptive_law import AdaptiveLaw
from truerank.estimation.law import TINY, make_law

PAPER = Stopping((99, 199, 399, 799, 1599, 3199))
RULES = [
    Stopping((1, 2, 4)),
    Stopping((2, 5)),
    Stopping((1, 3, 4), 2),
    Stopping((1, 2, 5), 3),
    Stopping((3,)),
]


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize("rule", RULES, ids=str)
@pytest.mark.parametrize("n_candidates", [1, 3, 4, 5])
def test_every_path_is_counted(rule: Stopping, n_candidates: int, replacement: bool) -> None:
    """P(m, j | J) equals the share of sequences of draws that end so, for every J."""
    law = AdaptiveLaw(n_candidates, rule, replacement)
    outcomes, rows = literal_table(n_candidates, rule, replacement)
    found = list(zip(law.outcome_sizes.tolist(), law.outcome_above.tolist(), strict=True))
    assert set(outcomes) <= set(found)
    pmf = law.pmf(np.arange(n_candidates + 1))
    at = [found.index(end) for end in outcomes]
    np.testing.assert_allclose(pmf[:, at], np.array(rows, float), rtol=1e-13, atol=0)
    np.testing.assert_allclose(np.delete(pmf, at, axis=1), 0, atol=0)


@pytest.mark.slow
@pytest.mark.parametrize("replacement", [True, False])
def test_outcomes_the_rule_can_end_with(replacement: bool) -> None:
    """The mask of possible cells is the set of outcomes that some sequence has."""
    rule = Stopping((2, 3, 5), 2)
    law = AdaptiveLaw(9, rule, replacement)
    seen = {end for J in range(10) for end in literal_adaptive(9, rule, J, replacement) if end[0] < 5}
    for size in (2, 3):
        marked = {(size, int(j)) for j in np.flatnonzero(law.is_possible(size))}
        assert marked == {end for end in seen if end[0] == size}
    assert np.flatnonzero(law.is_possible(5)).tolist() == [0, 1, 2, 3]
    assert law.outcome_index(3).tolist() == [0 + 1, 1, 1, 1 + 0]  # (2, 2) is outcome 0, (3, 2) is outcome 1


@given(st.integers(1, 60), st.integers(1, 20), st.booleans())
@settings(deadline=None, max_examples=40)
def test_one_size_is_the_fixed_law(n_candidates: int, m: int, replacement: bool) -> None:
    law = AdaptiveLaw(n_candidates, Stopping((m,)), replacement)
    fixed = make_law(n_candidates, m if replacement else min(m, n_candidates), replacement=replacement)
    every = np.arange(n_candidates + 1)
    np.testing.assert_array_equal(law.pmf(every), fixed.pmf(every))


@given(
    st.integers(2, 400),
    st.lists(st.integers(1, 60), min_size=1, max_size=4),
    st.integers(1, 5),
    st.booleans(),
)
@settings(deadline=None, max_examples=60)
def test_rows_are_distributions(n_candidates: int, steps: list[int], rank: int, replacement: bool) -> None:
    law = AdaptiveLaw(n_candidates, Stopping(tuple(np.cumsum(steps).tolist()), rank), replacement)
    rows = law.pmf(np.arange(n_candidates + 1))
    assert rows.min() >= 0
    np.testing.assert_allclose(rows.sum(axis=1), 1, rtol=1e-12)


@pytest.mark.parametrize("replacement", [True, False])
def test_the_stopping_factor_has_no_rank_in_it(replacement: bool) -> None:
    """P(m, j | J) over the law of a fixed sample of m is the same for all J that can have j above."""
    law = AdaptiveLaw(500, Stopping((20, 40, 80), 2), replacement)
    J = np.arange(60, 200, 7)
    rows = law.pmf(J)
    for place in (25, 60, law.n_outcomes - 3):
        m, j = int(law.outcome_sizes[place]), int(law.outcome_above[place])
        ratio = rows[:, place] / make_law(500, m, replacement=replacement).pmf(J)[:, j]
        np.testing.assert_allclose(ratio, ratio[0], rtol=1e-10)


@pytest.mark.parametrize("replacement", [True, False])
def test_most_outcomes_of_the_paper_never_happen(replacement: bool) -> None:
    """Of 3,200 outcomes 403 have more than 1e-20 at some rank; rows still sum to 1."""
    law = AdaptiveLaw(25_814, PAPER, replacement)
    assert law.n_outcomes == 403
    np.testing.assert_allclose(law.pmf(np.arange(0, 25_815, 101)).sum(axis=1), 1, rtol=1e-14)


@pytest.mark.parametrize("replacement", [True, False])
def test_mean_size_is_the_formula(replacement: bool) -> None:
    """m_1 plus each further round times the chance that no item above was drawn before."""
    law = AdaptiveLaw(3_705, PAPER, replacement)
    J = np.array([0, 1, 5, 40, 700, 3_705])
    wanted = np.full(len(J), float(law.sizes[0]))
    for earlier, size in zip(law.sizes, law.sizes[1:], strict=False):
        stays = make_law(3_705, earlier, replacement=replacement).pmf(J)[:, 0]
        wanted += (size - earlier) * stays
    np.testing.assert_allclose(law.mean_size(J), wanted, rtol=1e-12)


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize("rank", [1, 3])
def test_sums_over_rows_equal_the_dense_ones(rank: int, replacement: bool) -> None:
    """The rows that a round leaves out hold less than 1e-30 of it: all sums are those over all rows."""
    law = AdaptiveLaw(2_000, Stopping((20, 40, 80, 160, 320), rank), replacement)
    rows = law.pmf(np.arange(2_001))
    peaked = np.diff((np.arange(2_002) / 2_001) ** 0.2)
    gap = np.where(np.arange(2_001) < 1_200, 0.0, 1.0) / 801
    for prior in (np.full(2_001, 1 / 2_001), peaked, gap):
        limits = law.limits_of(prior)
        wanted = prior @ rows
        held = np.repeat(np.add.reduceat(wanted, law.offsets[:-1]), np.diff(law.offsets))
        found = law.add(prior[None, :], limits)[0]
        assert (np.abs(found - wanted) <= 1e-30 * held + 1e-11 * wanted).all()
        dense = (rows * prior[:, None]).T @ rows
        gram = law.gram(prior, floor=TINY)
        assert (np.abs(gram - dense) <= 1e-30 * np.minimum(held, held[:, None]) + 1e-11 * dense).all()
        dual = np.random.default_rng(0).normal(size=law.n_outcomes)
        np.testing.assert_allclose(prior * law.dot(dual, limits), prior * (rows @ dual), atol=1e-13)
    assert law.limits_of(peaked)[-1] < 1_000  # late rounds go through less than half of the rows


def test_moments_are_those_of_the_outcomes() -> None:
    law = AdaptiveLaw(4, Stopping((1, 2)), True)
    mean, variance = law.moments(np.array([4.0, 0.0, 16.0]), [1])
    assert mean.tolist() == [4.0]  # 1/4 * 4 + 3/16 * 16
    assert variance.tolist() == [36.0]  # 1/4 * 16 + 3/16 * 256 - 16


def test_bad_sizes() -> None:
    with pytest.raises(InvalidParameter, match="n_candidates must be an integer >= 1, got 0"):
        AdaptiveLaw(0, PAPER, True)
    with pytest.raises(InvalidParameter, match=r"n_above must lie in 0\.\.4, got 5\.\.5"):
        AdaptiveLaw(4, Stopping((1, 2)), True).pmf([5])


@pytest.mark.stat
def test_simulated_outcomes_follow_the_adaptive_law() -> None:
    """Chi-square of 40,000 drawn sequences; finds 2 % too many stops in the first round with 99 %.

    Negative control: the same counts against the law without the stopping factor, and against its neighbour.
    """
    rule, L, J, runs = Stopping((5, 10, 20)), 60, 9, 40_000
    draw = np.random.default_rng(20)
    above = draw.permuted(np.tile(np.arange(L), (runs, 1)), axis=1)[:, :20] < J
    law = AdaptiveLaw(L, rule, False)
    index = {
        end: place
        for place, end in enumerate(zip(law.outcome_sizes.tolist(), law.outcome_above.tolist(), strict=True))
    }
    counts = np.zeros(law.n_outcomes)
    for row in above.tolist():
        counts[index[stopped(row, rule.sizes, rule.rank)]] += 1

    def level(expected: FloatArray) -> float:
        kept = expected * runs >= 5
        observed = np.array([*counts[kept], counts[~kept].sum()])
        wanted = np.array([*expected[kept], expected[~kept].sum()])
        return float(stats.chisquare(observed, runs * wanted / wanted.sum())[1])

    assert level(law.pmf([J])[0]) > 1e-6
    assert level(law.pmf([J + 1])[0]) < 1e-6
    fixed = np.array([make_law(L, int(m), replacement=False).pmf(J)[int(j)] for m, j in index])
    assert level(fixed / fixed.sum()) < 1e-6
