"""Shares of targets by rank against literal twins."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from truerank.core.ranks import Ranks, SampledRanks, TiePolicy
from truerank.estimation.distribution.mle import MaximumLikelihood
from truerank.estimation.distribution.smooth import Smooth
from truerank.estimation.tally import tally
from truerank.report.charts.ranks import exact_below, inferred_below, per_doubling, rank_edges, sampled_below


def several(*, n_users: int = 30, seed: int = 0) -> SampledRanks:
    """Sampled ranks of users with two targets each, from pools of three sizes."""
    draw = np.random.default_rng(seed)
    rows = []
    for user in range(n_users):
        pool, m = int(draw.choice([40, 41, 90])), 9
        above = np.sort(draw.integers(0, m + 1, 2))
        for place, j in enumerate(above.tolist()):
            rows.append((user, place, j + place, 0, pool, 2, place, 0, m, pool - 2))
    names = (
        *("user", "item", "n_above", "n_tied", "n_pool", "n_relevant", "n_relevant_above"),
        *("n_relevant_tied", "n_negatives", "n_candidates"),
    )
    return SampledRanks(**dict(zip(names, np.array(rows).T, strict=True)))


@given(st.integers(1, 100_000))
def test_edges_cover_all_ranks(n_ranks: int) -> None:
    edges = rank_edges(n_ranks)
    assert edges[0] == 1
    assert edges[-1] == n_ranks + 1
    assert (np.diff(edges) > 0).all()
    assert (edges[1:] / edges[:-1]).max() <= 2


@pytest.mark.parametrize("ties", ["expected", "best", "worst"])
def test_exact_shares_are_counted_rank_by_rank(ties: TiePolicy) -> None:
    ranks = Ranks.single([0, 3, 9, 2], n_pool=20, n_tied=np.array([4, 0, 10, 1]))
    edges = rank_edges(20)
    mass = np.zeros(21)
    for above, tied in zip(ranks.n_above, ranks.n_tied, strict=True):
        places = list(range(above + 1, above + tied + 2))
        places = {"expected": places, "best": places[:1], "worst": places[-1:]}[ties]
        for place in places:
            mass[place] += 1 / len(places) / len(ranks)
    twin = [mass[:edge].sum() for edge in edges]
    np.testing.assert_allclose(exact_below(ranks, edges, ties), twin, atol=1e-12)


def test_sampled_shares_are_spread_row_by_row() -> None:
    ranks = several()
    edges = rank_edges(90)
    twin = np.zeros(len(edges))
    for row in range(len(ranks)):
        j = ranks.n_above[row] - ranks.n_relevant_above[row]
        width = (ranks.n_candidates[row] + 1) / (ranks.n_negatives[row] + 1)
        first = 1 + ranks.n_relevant_above[row] + j * width
        for place, edge in enumerate(edges.tolist()):
            part = math.log(edge / first) / math.log((first + width) / first)
            twin[place] += min(max(part, 0), 1) / len(ranks)
    found = sampled_below(tally(ranks, width=0.0), edges)
    np.testing.assert_allclose(found, twin, atol=1e-12)
    assert found[0] == 0
    assert found[-1] == pytest.approx(1)


def test_a_sample_of_everything_shows_the_exact_ranks() -> None:
    above = np.array([0, 3, 7, 7, 18])
    exact = Ranks.single(above, n_pool=20)
    whole = SampledRanks.single(above, n_negatives=19, n_pool=20)
    edges = rank_edges(20)
    np.testing.assert_allclose(sampled_below(tally(whole), edges), exact_below(exact, edges), atol=1e-12)
    inferred = inferred_below(tally(whole), edges, Smooth())
    np.testing.assert_allclose(inferred, exact_below(exact, edges), atol=1e-12)


@pytest.mark.parametrize("estimator", [Smooth(), MaximumLikelihood(grid=0)])
def test_inferred_shares_sum_the_weights_of_every_rank(estimator: Smooth | MaximumLikelihood) -> None:
    counted = tally(several())
    edges = rank_edges(90)
    mass = np.zeros(92)
    for context, weights in enumerate(estimator.weights(counted)):
        first = 1 + int(counted.contexts.n_relevant_above[context])
        mass[first : first + len(weights)] += weights * counted.n_users / counted.n_rows
    twin = [mass[:edge].sum() for edge in edges]
    np.testing.assert_allclose(inferred_below(counted, edges, estimator), twin, atol=1e-9)


def test_areas_are_shares() -> None:
    edges = rank_edges(500)
    below = exact_below(Ranks.single([0, 4, 70, 499], n_pool=500), edges)
    area = per_doubling(below, edges) @ np.diff(np.log2(edges))
    assert area == pytest.approx(1)
