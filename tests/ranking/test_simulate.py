"""Simulated samples follow the exact law."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from truerank.core.errors import InvalidData
from truerank.core.ranks import Ranks
from truerank.ranking.simulate import simulate_sample

ROWS = 40_000


def counts_of(above: int, tied: int, pool: int, m: int, replacement: bool) -> np.ndarray:
    ranks = Ranks.single([above] * ROWS, n_pool=pool, n_tied=tied)
    sample = simulate_sample(ranks, m, replacement=replacement)
    cells = sample.n_above * (m + 1) + sample.n_tied
    return np.bincount(cells, minlength=(m + 1) ** 2)


def law(above: int, tied: int, pool: int, m: int, replacement: bool) -> np.ndarray:
    candidates = np.array([above, tied, pool - 1 - above - tied])
    chance = np.zeros((m + 1) ** 2)
    for a in range(m + 1):
        for t in range(m + 1 - a):
            drawn = [a, t, m - a - t]
            if replacement:
                p = stats.multinomial.pmf(drawn, m, candidates / candidates.sum())
            else:
                p = stats.multivariate_hypergeom.pmf(drawn, candidates, m)
            chance[a * (m + 1) + t] = p
    return chance


@pytest.mark.stat
def test_simulated_counts_follow_the_law() -> None:
    """Two chi-square tests at 1e-6; a cell of probability 0.1 that is off by 0.015 is found with 99 %."""
    for replacement in (True, False):
        found = counts_of(5, 4, 15, 4, replacement)
        expected = ROWS * law(5, 4, 15, 4, replacement)
        possible = expected > 0
        assert found[~possible].sum() == 0
        assert stats.chisquare(found[possible], expected[possible]).pvalue > 1e-6
        other = ROWS * law(5, 4, 15, 4, not replacement)[possible]  # the wrong law must be rejected
        other *= found[possible].sum() / other.sum()
        assert stats.chisquare(found[possible], other).pvalue < 1e-6


def test_ends_and_relevant_items() -> None:
    """Two targets of one user: what lies above the second is the first and three irrelevant items."""
    ranks = Ranks(
        user=np.array([7, 7]),
        item=np.array([1, 2]),
        n_above=np.array([0, 4]),
        n_tied=np.array([0, 0]),
        n_pool=np.array([5, 5]),
        n_relevant=np.array([2, 2]),
        n_relevant_above=np.array([0, 1]),
        n_relevant_tied=np.array([0, 0]),
    )
    sample = simulate_sample(ranks, 3)
    assert sample.n_above.tolist() == [0, 4]
    assert sample.n_candidates.tolist() == [3, 3]


def test_seed_repeat_and_label_matter() -> None:
    ranks = Ranks.single([500] * 50, n_pool=1000)
    base = simulate_sample(ranks, 100).n_above
    assert np.array_equal(simulate_sample(ranks, 100).n_above, base)
    for other in ({"seed": 1}, {"repeat": 1}, {"label": "x"}):
        assert not np.array_equal(simulate_sample(ranks, 100, **other).n_above, base)


def test_too_many_negatives() -> None:
    ranks = Ranks.single([0], n_pool=10)
    assert len(simulate_sample(ranks, 20, replacement=True)) == 1
    with pytest.raises(InvalidData, match="at most 9 negatives can be sampled for user 0, got 10"):
        simulate_sample(ranks, 10)
    with pytest.raises(InvalidData, match="must hold at least one irrelevant item"):
        simulate_sample(Ranks.single([0], n_pool=1), 1, replacement=True)
