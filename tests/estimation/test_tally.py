"""Counting sampled ranks: contexts, tied blocks, bins."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tests.reference.law import literal_block
from tests.reference.world import World
from truerank.core.errors import InvalidData, InvalidParameter
from truerank.core.ranks import Design, SampledRanks
from truerank.estimation.law import make_law
from truerank.estimation.registry import ESTIMATORS
from truerank.estimation.tally import tally
from truerank.metrics.registry import make_metrics
from truerank.metrics.ties import block_weights


@pytest.mark.parametrize(("n_targets", "n_tied"), [(1, 0), (1, 3), (2, 1), (2, 3), (3, 2), (4, 1), (5, 0)])
def test_block_weights_count_orders(n_targets: int, n_tied: int) -> None:
    """The weight of (k, j) is the share of orders of the block with k targets and j negatives before."""
    found = block_weights(n_targets, n_tied)
    twin = literal_block(n_targets, n_tied)
    for k, j in np.ndindex(found.shape):
        assert found[k, j] == pytest.approx(float(twin.get((k, j), 0)), rel=1e-13)


def test_block_weights_of_huge_blocks() -> None:
    weights = block_weights(400, 1000)
    assert np.isfinite(weights).all()
    np.testing.assert_allclose(weights.sum(axis=1), 1 / 400, rtol=1e-12)


def test_rows_without_ties_fill_one_cell() -> None:
    sample = SampledRanks.single([0, 2, 2, 4], n_negatives=4, n_pool=30)
    counted = tally(sample)
    assert counted.counts(0).tolist() == [1, 0, 2, 0, 1]
    assert (counted.n_users, counted.n_rows, counted.n_cells, counted.ties) == (4, 4, 5, "expected")


def test_contexts_are_what_a_correction_depends_on() -> None:
    """Sample size, candidates, targets above, targets and pool; nothing else splits a group."""
    sample = SampledRanks.single(
        [0, 1, 1, 0], n_negatives=np.array([2, 2, 3, 2]), n_pool=np.array([9, 9, 9, 8])
    )
    contexts = tally(sample).contexts
    assert contexts.n_negatives.tolist() == [2, 2, 3]
    assert contexts.n_candidates.tolist() == [7, 8, 8]
    assert [(m, size, rows.tolist()) for m, size, rows in contexts.laws()] == [
        (2, 7, [0]),
        (2, 8, [1]),
        (3, 8, [2]),
    ]


@pytest.mark.parametrize(("ties", "cells"), [("best", [1, 0, 0, 0]), ("worst", [0, 0, 1, 0])])
def test_best_and_worst(ties: str, cells: list[float]) -> None:
    sample = SampledRanks.single([0], n_negatives=3, n_pool=9, n_tied=2)
    assert tally(sample, ties=ties).counts(0).tolist() == cells  # type: ignore[arg-type]


def test_tied_targets_follow_each_other() -> None:
    """Two tied targets cannot both be first: best puts them at places 1 and 2, in the order of items."""
    (sample,) = World(targets=[5, 5], candidates=[1]).sampled(1, False)
    counted = tally(sample, ties="best")
    assert counted.contexts.n_relevant_above.tolist() == [0, 1]
    assert counted.cell_weights.tolist() == [1, 0, 1, 0]


def test_a_missing_tied_target_is_named() -> None:
    (sample,) = World(targets=[5, 5], candidates=[1]).sampled(1, False)
    with pytest.raises(InvalidData, match=r"n_relevant_tied of row 0 .* must count the other rows"):
        tally(sample.take(np.array([0])), ties="worst")


@given(st.integers(0, 2**32), st.permutations(range(6)))
def test_random_ties_depend_on_the_pair_alone(seed: int, order: list[int]) -> None:
    """Whatever the order of the users, each gets the same place."""
    sample = SampledRanks.single([0] * 6, n_negatives=5, n_pool=30, n_tied=4)
    moved = dataclasses.replace(sample, user=sample.user[order])
    places = dict(zip(sample.user.tolist(), tally(sample, ties="random", seed=seed).cell, strict=True))
    again = dict(zip(moved.user.tolist(), tally(moved, ties="random", seed=seed).cell, strict=True))
    assert places == again


@pytest.mark.stat
def test_random_ties_follow_the_block_law() -> None:
    """Level 1e-6: places of 20,000 users in blocks of two targets and three negatives, chi-square, 6 degrees.

    Power 0.99 against a law whose cells are off by 4.2 % each. Negative control: places that ignore how many
    targets come first, uniform over the negatives.
    """
    n_users, negatives = 20_000, 3
    two = np.repeat(np.arange(n_users), 2)
    ones, zeros = np.ones_like(two), np.zeros_like(two)
    sample = SampledRanks(
        user=two,
        item=np.tile([0, 1], n_users),
        n_above=zeros,
        n_tied=ones + negatives,
        n_pool=50 * ones,
        n_relevant=2 * ones,
        n_relevant_above=zeros,
        n_relevant_tied=ones,
        n_negatives=5 * ones,
        n_candidates=48 * ones,
    )
    counted = tally(sample, ties="random", seed=11)
    found = counted.cell_weights.reshape(2, 6)[:, : negatives + 1]
    wanted = block_weights(2, negatives) * 2 * n_users
    assert stats.chi2.sf(((found - wanted) ** 2 / wanted).sum(), 6) > 1e-6
    wrong = np.full((2, negatives + 1), 2 * n_users / 8)
    assert stats.chi2.sf(((found - wrong) ** 2 / wrong).sum(), 6) < 1e-6


@given(
    st.lists(st.integers(200, 5000), min_size=1, max_size=40),
    st.sampled_from([0.005, 0.01, 0.1]),
    st.booleans(),
)
@settings(deadline=None)
def test_bins_move_pools_by_less_than_their_width(pools: list[int], width: float, replacement: bool) -> None:
    """|L'/L - 1| <= width; one size alone in its bin stays; the pool moves with its candidates."""
    pool = np.array(pools)
    sample = SampledRanks.single(
        [0] * len(pools), n_negatives=20, n_pool=pool, design=Design(replacement=replacement)
    )
    counted = tally(sample, width=width)
    which = np.searchsorted(counted.offsets, counted.cell, side="right") - 1
    binned = counted.contexts.n_candidates[which]
    assert (np.abs(binned / (pool - 1) - 1) <= width).all()
    assert (counted.contexts.n_pool == counted.contexts.n_candidates + 1).all()
    if len(set(pools)) == 1:
        assert (binned == pool - 1).all()


@given(
    st.lists(st.tuples(st.integers(200, 900), st.integers(0, 3)), min_size=1, max_size=40),
    st.sampled_from([0.01, 0.1, 0.3]),
)
@settings(deadline=None)
def test_a_bin_has_the_mean_of_its_rows(rows: list[tuple[int, int]], width: float) -> None:
    """Row by row, whatever ties spread a row over; binning a tally gives what binning the ranks gives."""
    size, tied = (np.array(column) for column in zip(*rows, strict=True))
    sample = SampledRanks.single([5] * len(rows), n_negatives=20, n_pool=size + 1, n_tied=tied)
    bins = np.floor(np.log(size) / np.log1p(width))
    expected = np.array([int(np.rint(size[bins == own].mean())) for own in bins])
    expected = np.where(size * width >= 1, expected, size)
    counted = tally(sample, ties="expected", width=width)
    np.testing.assert_array_equal(counted.contexts.n_candidates[counted.context], expected[counted.user])
    again = tally(sample, ties="expected", width=0.05).binned(width)
    np.testing.assert_array_equal(again.cell, counted.cell)
    assert counted.unbinned.width == 0 and counted.binned(0) is counted.unbinned


@pytest.mark.parametrize("replacement", [True, False])
def test_a_binned_row_has_the_law_of_a_nearby_rank(replacement: bool) -> None:
    """With replacement exactly that of J' = J L'/L; without, the same mean and nearly the same variance."""
    J, L, binned, m = 400, 4000, 4040, 100
    law, other = (make_law(size, m, replacement=replacement) for size in (L, binned))
    if replacement:
        np.testing.assert_allclose(law.pmf(J), other.pmf(J * binned // L), rtol=1e-12)
    assert float(law.mean(J)) == pytest.approx(float(other.mean(J * binned // L)), rel=1e-14)
    ratio = float(law.variance(J) / other.variance(J * binned // L))
    assert abs(ratio - 1) <= 0.02


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ["bv", "bv(gamma=0.01)", "cls", "rank-estimate"])
def test_bins_hardly_move_an_estimate(estimator: str) -> None:
    """1 % bins of pools of 3,000 to 3,700 change estimates by less than 1 % and a quarter of their error."""
    draw = np.random.default_rng(5)
    pool = draw.integers(3000, 3700, 3000)
    above = draw.binomial(100, draw.beta(0.3, 1, 3000))
    sample = SampledRanks.single(above, n_negatives=100, n_pool=pool, design=Design(replacement=True))
    metrics = make_metrics("recall@10,ndcg@10,ap,auc")
    method = ESTIMATORS.make(estimator)
    exact, binned = (method.estimate(tally(sample, width=width), metrics) for width in (0.001, 0.01))
    difference = np.abs(exact.value - binned.value)
    assert (difference <= 0.01 * exact.value).all()
    assert (difference <= 0.25 * exact.standard_error).all()


@pytest.mark.parametrize("width", [-0.1, 0.5, float("nan")])
def test_bad_width(width: float) -> None:
    with pytest.raises(InvalidParameter, match=r"width must lie in \[0, 0.5\)"):
        tally(SampledRanks.single([0], n_negatives=1, n_pool=9), width=width)


def test_no_rows() -> None:
    empty = tally(SampledRanks.single([], n_negatives=1, n_pool=9))
    assert (empty.n_rows, empty.n_cells, len(empty.contexts)) == (0, 0, 0)
    with pytest.raises(InvalidData, match="an estimate needs at least one user"):
        ESTIMATORS.make("naive").estimate(empty, make_metrics("recall@1"))
