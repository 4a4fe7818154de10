"""Curves: literal twins, the two dual views, the sampling theorem, and the exact map."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reference.law import literal_pmf
from truerank.core.errors import CannotEstimate, InvalidData, InvalidParameter
from truerank.core.ranks import Design, RankDistribution, Ranks, SampledRanks
from truerank.core.types import FloatArray
from truerank.estimation.law import Binomial, Hypergeometric
from truerank.estimation.mapping.functions import MAPPINGS, BetaMapping, LinearMapping
from truerank.metrics.registry import make_metrics, values
from truerank.papers.mapping_errors import (
    exact_map,
    expected_curve,
    global_at_sampled,
    hit_curve,
    hoeffding_bound,
    mapping_error,
    sampled_at_global,
    sampled_hit_ratios,
)


@st.composite
def single_ranks(draw: st.DrawFn) -> Ranks:
    n_users = draw(st.integers(1, 12))
    pool = np.array(draw(st.lists(st.integers(4, 15), min_size=n_users, max_size=n_users)))
    above = np.array([draw(st.integers(0, int(size) - 1)) for size in pool])
    tied = np.array([draw(st.integers(0, int(size - 1 - j))) for size, j in zip(pool, above, strict=True)])
    return Ranks.single(above, n_pool=pool, n_tied=tied)


def distribution(weights: FloatArray) -> RankDistribution:
    return RankDistribution(weights / weights.sum(), method="given")


@settings(deadline=None)
@given(single_ranks(), st.sampled_from(["expected", "best", "worst"]))
def test_curve_is_the_recall(ranks: Ranks, ties: str) -> None:
    """With one target per user the curve is recall at every cut-off, under each tie policy."""
    curve = hit_curve(ranks, ties=ties)  # type: ignore[arg-type]
    cutoffs = np.arange(1, int(ranks.n_pool.max()) + 1)
    recalls = values(make_metrics([f"recall@{k}" for k in cutoffs]), ranks, ties=ties).mean(axis=0)  # type: ignore[arg-type]
    np.testing.assert_allclose(curve.at(cutoffs), recalls, atol=1e-12)
    between = (curve.at(cutoffs[:-1]) + curve.at(cutoffs[1:])) / 2
    np.testing.assert_allclose(curve.at(cutoffs[:-1] + 0.5), between, atol=1e-12)
    assert curve.at([0]).tolist() == pytest.approx([0.0], abs=1e-12)


def test_several_targets_count_irrelevant_items() -> None:
    """User 0 has targets at ranks 1 and 3: the second is beaten by one irrelevant item only."""
    ranks = Ranks(*(np.array(column) for column in zip(*ROWS, strict=True)))
    assert hit_curve(ranks).at([1, 2, 4, 5]).tolist() == [0.25, 0.5, 0.5, 1.0]


#: user, item, n_above, n_tied, n_pool, n_relevant, n_relevant_above, n_relevant_tied
ROWS = [(0, 0, 0, 0, 10, 2, 0, 0), (0, 1, 2, 0, 10, 2, 1, 0), (1, 0, 4, 0, 10, 1, 0, 0)]


def test_random_ties_stay_in_their_block() -> None:
    ranks = Ranks.single([2] * 4000, n_pool=10, n_tied=3)
    curve = hit_curve(ranks, ties="random", seed=1)
    assert curve.at([2, 6]).tolist() == pytest.approx([0, 1])
    assert set(np.unique(curve.first)) == {3, 4, 5, 6}
    assert np.array_equal(curve.first, hit_curve(ranks, ties="random", seed=1).first)
    assert not np.array_equal(curve.at([3]), hit_curve(ranks, ties="random", seed=2).at([3]))
    with pytest.raises(InvalidParameter, match="ties must be one of expected, best, worst, random"):
        hit_curve(ranks, ties="won")  # type: ignore[arg-type]


@settings(deadline=None)
@given(single_ranks(), st.sampled_from(["linear", "bound", "beta", "beta(round=interpolate)"]))
def test_global_curve_at_sampled_locations(ranks: Ranks, written: str) -> None:
    """Each user's own pool in f, or one N for all; twin by a loop over users."""
    f, n = MAPPINGS.make(written), 4
    for n_items in (None, 20):
        found = global_at_sampled(ranks, f, n, n_items=n_items)
        twin = np.zeros(n)
        for above, tied, pool in zip(ranks.n_above, ranks.n_tied, ranks.n_pool, strict=True):
            at = f.rounded_locations(np.arange(1, n + 1), n, int(n_items or pool))
            whole = np.arange(at.max() + 2)
            alone = np.clip((whole - above) / (tied + 1), 0, 1)
            twin += np.interp(at, whole, alone) / len(ranks)
        np.testing.assert_allclose(found, twin, atol=1e-12)
    assert global_at_sampled(ranks, f, n, n_items=20)[-1] == pytest.approx(1)


def test_one_pool_must_hold_all() -> None:
    with pytest.raises(InvalidParameter, match="n_items must be at least the largest pool, 10, got 9"):
        global_at_sampled(Ranks.single([1], n_pool=10), LinearMapping(), 3, n_items=9)


def test_sampled_curve_at_global_cutoffs() -> None:
    """The views are dual: at f(k) the sampled curve has its value SHR@k."""
    sample = SampledRanks.single([0, 0, 1, 3, 4], n_negatives=4, n_pool=101)
    shr = sampled_hit_ratios(sample)
    assert shr.tolist() == pytest.approx([0.4, 0.6, 0.6, 0.8, 1.0])
    for written in ("linear", "bound", "beta", "beta(a=1)"):
        f = MAPPINGS.make(written)
        back = sampled_at_global(shr, f, 101, f.locations(np.arange(1, 5), 5, 101))
        np.testing.assert_allclose(back, shr[:4], atol=1e-9)
    assert sampled_at_global(shr, BetaMapping(1.0), 101, [1.0, 11.0]).tolist() == pytest.approx([0.0, 0.2])


def test_sampled_curve_needs_one_size() -> None:
    sample = SampledRanks.single([0, 1], n_negatives=np.array([3, 4]), n_pool=9)
    with pytest.raises(CannotEstimate, match="needs one number of negatives for all targets, got 2"):
        sampled_hit_ratios(sample)


def test_errors_by_hand() -> None:
    shr = np.linspace(0.1, 1.0, 12)
    found = mapping_error(shr + np.r_[0.05, np.full(9, -0.01), 0, 0], shr)
    assert found.abs == pytest.approx((0.05 + 0.09) / 12)
    assert found.abs_at_1 == pytest.approx(0.05)
    assert found.rel_at_1 == pytest.approx(0.5)
    assert found.abs_to_10 == pytest.approx(0.01)
    assert found.rel_to_10 == pytest.approx(np.mean(0.01 / shr[1:10]))
    assert found.rel == pytest.approx((0.5 + np.sum(0.01 / shr[1:10])) / 12)
    undefined = mapping_error(np.array([0.1, 0.5, 1.0]), np.array([0.0, 0.5, 1.0]))
    assert (undefined.rel, undefined.n_undefined) == (0.0, 1)
    assert np.isnan(undefined.rel_at_1)
    with pytest.raises(InvalidData, match=r"one value per k = 1\.\.n"):
        mapping_error(shr, shr[:-1])


def test_hoeffding() -> None:
    assert hoeffding_bound(30_000, 0.01) == pytest.approx(0.00496, abs=5e-6)
    assert hoeffding_bound(1, 0.01) == 1
    with pytest.raises(InvalidParameter, match="distance must be greater than 0"):
        hoeffding_bound(10, 0)


@pytest.mark.parametrize("replacement", [True, False])
def test_expected_curve_against_the_law(replacement: bool) -> None:
    weights = np.array([5.0, 3, 0, 2, 1, 1, 0, 4])
    literal = np.array([[float(p) for p in literal_pmf(7, 3, above, replacement)] for above in range(8)])
    expected = np.cumsum(weights / weights.sum() @ literal)
    np.testing.assert_allclose(
        expected_curve(distribution(weights), 4, replacement=replacement), expected, atol=1e-12
    )


mixtures = st.lists(st.floats(0, 1), min_size=12, max_size=12).filter(lambda w: sum(w) > 0.01)


@settings(max_examples=60, deadline=None)
@given(mixtures, mixtures, st.integers(2, 12), st.booleans())
def test_sampling_theorem(first: list[float], second: list[float], n: int, replacement: bool) -> None:
    """A curve that dominates globally dominates in expectation under both laws."""
    curves = np.cumsum([np.array(w) / np.sum(w) for w in (first, second)], axis=1)
    above, below = curves.max(axis=0), curves.min(axis=0)
    higher, lower = (
        expected_curve(distribution(np.diff(np.minimum(c, 1.0), prepend=0.0)), n, replacement=replacement)
        for c in (above, below)
    )
    assert (higher >= lower - 1e-12).all()


def test_domination_is_needed() -> None:
    """Negative control: crossing curves need not keep their order."""
    first, second = np.zeros(12), np.zeros(12)
    first[[0, 11]] = 0.5
    second[2] = 1.0
    gaps = expected_curve(distribution(first), 6) - expected_curve(distribution(second), 6)
    assert gaps.min() < -0.1
    assert gaps.max() > 0.1
    assert np.cumsum(first)[1] > np.cumsum(second)[1]


def test_exact_map_of_beta_ranks() -> None:
    """For ranks that follow Beta(a, 1) the exact map is ``beta``, up to the width of a rank."""
    n_pool, n = 20_000, 50
    for a in (0.3, 0.5, 1.0, 2.0):
        steps = (np.arange(n_pool + 1) / n_pool) ** a
        found = exact_map(distribution(np.diff(steps)), n)
        np.testing.assert_allclose(found, BetaMapping(a).locations(np.arange(1, n + 1), n, n_pool), atol=1.5)


@pytest.mark.parametrize("replacement", [True, False])
def test_exact_map_is_exact(replacement: bool) -> None:
    """HR at f(k) is E[SHR@k], whatever the distribution; no fixed mapping does that."""
    rng = np.random.default_rng(3)
    ranks = rng.integers(0, 200, 40)
    counted = distribution(np.bincount(ranks, minlength=200).astype(float))
    n = 20
    expected = expected_curve(counted, n, replacement=replacement)
    curve = hit_curve(Ranks.single(ranks, n_pool=200))
    np.testing.assert_allclose(curve.at(exact_map(counted, n, replacement=replacement)), expected, atol=1e-12)
    assert abs(curve.at(BetaMapping().locations(np.arange(1, n + 1), n, 200)) - expected).max() > 1e-3


@settings(max_examples=60, deadline=None)
@given(mixtures, st.floats(0.1, 1.0), st.integers(2, 12))
def test_concave_change_of_the_curve_reads_earlier(weights: list[float], power: float, n: int) -> None:
    """Arrow and Pratt: F = G^b with b <= 1 gives f_F <= f_G, up to the whole rank f_G lies in."""
    base = np.minimum(np.cumsum(np.array(weights) / np.sum(weights)), 1.0)
    base[-1] = 1.0
    later = exact_map(distribution(np.diff(base, prepend=0.0)), n)
    earlier = exact_map(distribution(np.diff(base**power, prepend=0.0)), n)
    assert (earlier[:-1] <= np.ceil(later[:-1] - 1e-9) + 1e-6).all()


def test_refusals_of_the_exact_map() -> None:
    signed = RankDistribution(np.array([1.5, -0.5]), method="bv", signed=True)
    with pytest.raises(CannotEstimate, match="those of 'bv' are signed"):
        exact_map(signed, 2)
    with pytest.raises(InvalidParameter, match="n and n_pool must be at least 2, got 1 and 3"):
        exact_map(distribution(np.ones(3)), 1)
    with pytest.raises(InvalidParameter, match="without replacement n_negatives must be at most the 2"):
        exact_map(distribution(np.ones(3)), 4, replacement=False)


def test_laws_of_a_whole_sample() -> None:
    """Without replacement and n = N nothing is lost: the sampled curve is the global one."""
    counted = distribution(np.array([4.0, 3, 2, 1, 6]))
    np.testing.assert_allclose(
        expected_curve(counted, 5, replacement=False), np.cumsum(counted.weights), atol=1e-14
    )
    assert Hypergeometric(4, 4).pmf([2])[0, 2] == pytest.approx(1)
    assert Binomial(4, 4).pmf([2])[0, 2] < 0.5
    assert Design().stopping is None
