"""Identification bounds of sampled ranks: valid for any ranks, whatever the design."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Literal

import numpy as np
import pytest
from scipy.stats import binom

from truerank.core.errors import CannotEstimate, InvalidData, InvalidParameter
from truerank.core.ranks import Design, Ranks, SampledRanks, Stopping
from truerank.core.types import BoolArray, FloatArray, IntArray
from truerank.data.catalogue import find_local, load
from truerank.estimation.adaptive_law import AdaptiveLaw
from truerank.estimation.law import make_law
from truerank.estimation.tally import Contexts, tally
from truerank.inference.bounds.identify import IdentificationBound, identification_bounds, unbinned_tally
from truerank.inference.bounds.problem import BoundProblem, Shape
from truerank.inference.bounds.region import SampledRankEvents, binomial_limits, make_events, make_region
from truerank.inference.bounds.sample_size import CUTOFFS, resolution
from truerank.metrics.registry import make_metrics
from truerank.models.registry import MODELS
from truerank.ranking.exact import exact_ranks
from truerank.ranking.simulate import simulate_adaptive, simulate_sample
from truerank.split.base import make_split

METRICS = "recall@1,recall@10,recall@50,ndcg@10,ap,auc"
NAMES = METRICS.split(",")
RULE = Stopping((20, 60, 140))


def contexts_of(sizes: Sequence[int], m: int) -> Contexts:
    size = np.array(sizes)
    zeros = np.zeros_like(size)
    return Contexts(zeros + m, size, zeros, zeros + 1, size + 1)


def probabilities_of(
    events: SampledRankEvents, size: int, m: int, replacement: bool, stopping: Stopping | None
) -> FloatArray:
    """Return the probabilities of the events for every J, (size + 1, n_events)."""
    if stopping is not None:
        law = AdaptiveLaw(size, stopping, replacement)
        happen = events.indicators(law.outcome_sizes, law.outcome_above)
        return np.asarray(law.pmf(np.arange(size + 1)) @ happen)
    rows = make_law(size, m, replacement=replacement).pmf(np.arange(size + 1))
    return np.asarray(rows @ events.indicators(np.full(m + 1, m), np.arange(m + 1)))


def uniforms(table: FloatArray) -> FloatArray:
    """Return the means over the first 1, 2, ... rows."""
    return np.asarray(np.cumsum(table, axis=0) / np.arange(1, len(table) + 1)[:, None])


CASES = [
    ([3000], 99, False, None, None),
    ([3000], 99, True, None, None),
    ([3000], 99, False, None, "decreasing"),
    ([800, 803, 811, 819, *range(820, 840)], 50, False, None, None),
    ([800, 803, 811, 819, *range(820, 840)], 50, True, None, None),
    ([800, 803, 811, 819, *range(820, 840)], 50, True, None, "decreasing"),
    ([800, 803, 811, 819, *range(820, 840)], 50, False, None, "decreasing"),
    ([70, 500, 2000], 60, False, None, None),
    ([3000], 140, False, RULE, None),
    ([3000], 140, True, RULE, "decreasing"),
    ([120], 100, False, None, None),
]


@pytest.mark.parametrize(("sizes", "m", "replacement", "stopping", "shape"), CASES)
def test_no_rank_is_left_out(
    sizes: list[int], m: int, replacement: bool, stopping: Stopping | None, shape: Shape | None
) -> None:
    """The probabilities and gains of every single rank lie between the interpolated coefficients.

    So all users at one rank inside a stretch, or any mixture of such, stay within the program. The lines are
    also close: the width allowed for is below 0.004. Without it (negative control) ranks would be left out.
    """
    problem = BoundProblem.of(contexts_of(sizes, m), Design(replacement=replacement), stopping, shape)
    metrics = make_metrics("recall@10,ndcg@25,ap,auc")
    points = problem.grid_points(metrics, 0.2)
    lower, upper = problem.probabilities(points)
    gains = [problem.gains(metric, points) for metric in metrics]
    missed = 0.0
    for context, size in enumerate(sizes):
        group = problem.group[context]
        truth = probabilities_of(problem.events, size, m, replacement, stopping)
        at = np.arange(size + 1) * (problem.last_position / size)
        if shape:
            truth, at = uniforms(truth), np.arange(1, size + 2) * (problem.last_position / (size + 1))
        for event in range(truth.shape[1]):
            below, above = (np.interp(at, points, side[group, :, event]) for side in (lower, upper))
            assert (below <= truth[:, event] + 1e-12).all() and (truth[:, event] <= above + 1e-12).all()
            middle = np.interp(at, points, (lower + upper)[group, :, event] / 2)
            missed = max(missed, float(np.abs(truth[:, event] - middle).max()))
        for metric, (low, high) in zip(metrics, gains, strict=True):
            gain = metric.gain(np.arange(1, size + 2), np.array(0), np.array(1), np.array(size + 1))[:, None]
            value = uniforms(gain)[:, 0] if shape else gain[:, 0]
            assert (np.interp(at, points, low[group]) <= value + 1e-12).all(), metric
            assert (value <= np.interp(at, points, high[group]) + 1e-12).all(), metric
    if len(sizes) == 1:
        assert (upper - lower).max() < 0.004
        assert missed > 1e-5 or problem.last_position < 500


@pytest.mark.parametrize("n_above", [0, 3, 77, 401, 1203, 2890, 2999])
@pytest.mark.parametrize("replacement", [True, False])
def test_all_users_at_one_rank(n_above: int, replacement: bool) -> None:
    """A population on a single rank fits limits drawn a hair around its own probabilities."""
    problem = BoundProblem.of(contexts_of([2999], 99), Design(replacement=replacement), None, None)
    truth = probabilities_of(problem.events, 2999, 99, replacement, None)[n_above]
    region = make_region(truth, 10**9, level=0.95, method="binomial")
    metrics = make_metrics(METRICS)
    exact = Ranks.single([n_above], n_pool=3000)
    limits = problem.limits(metrics, region, np.ones(1))
    for metric, (low, high) in zip(metrics, limits, strict=True):
        assert low - 1e-9 <= metric.per_user(exact)[0] <= high + 1e-9


def population(n_users: int, n_pool: int | IntArray, seed: int = 0) -> Ranks:
    """Ranks of which many are small, each user's own."""
    share = np.random.default_rng(seed).beta(0.4, 2, n_users)
    return Ranks.single((share * (np.zeros(n_users) + n_pool)).astype(np.int64), n_pool=n_pool)


def values_of(ranks: Ranks, metrics: str = METRICS) -> FloatArray:
    return np.array([metric.per_user(ranks).mean() for metric in make_metrics(metrics)])


def assert_contains(bounds: Sequence[IdentificationBound], values: FloatArray) -> None:
    for bound, value in zip(bounds, values, strict=True):
        assert bound.low - 1e-9 <= value <= bound.high + 1e-9, (bound, value)


@pytest.mark.slow
@pytest.mark.parametrize("design", ["fixed", "replacement", "adaptive", "sizes", "pools", "shared"])
def test_designs(design: str) -> None:
    """The exact value lies within; assumptions only narrow."""
    n_pool = 900 if design in ("fixed", "replacement", "adaptive", "sizes") else np.arange(600, 1200)
    ranks = population(600, n_pool)
    if design == "adaptive":
        sample = simulate_adaptive(ranks, RULE)
    elif design == "sizes":
        one, two = simulate_sample(ranks, 30), simulate_sample(ranks, 90)
        is_first = np.arange(600) < 200
        sample = SampledRanks.single(
            np.where(is_first, one.n_above, two.n_above), n_negatives=np.where(is_first, 30, 90), n_pool=900
        )
    else:
        sample = simulate_sample(ranks, 60, replacement=design == "replacement")
    pools: Literal["free", "shared"] = "shared" if design == "shared" else "free"
    free, found = identification_bounds(sample, METRICS), identification_bounds(sample, METRICS, pools=pools)
    assert_contains(free, values_of(ranks))
    assert_contains(found, values_of(ranks))
    assert {bound.method for bound in found} == {"binomial"}
    for wide, narrow in zip(free, found, strict=True):
        assert narrow.high - narrow.low <= wide.high - wide.low + 1e-5
    for bound in identification_bounds(sample, "recall@10,recall@50", shape="decreasing"):
        wide = free[NAMES.index(bound.metric)]
        assert wide.low - 1e-3 <= bound.low <= bound.high <= wide.high + 1e-3


def test_bounds_widen_with_the_level() -> None:
    sample = simulate_sample(population(300, 500), 40)
    found = [identification_bounds(sample, "recall@10,auc", level=level) for level in (0.5, 0.9, 0.99, 0.999)]
    for narrow, wide in pairwise(found):
        for a, b in zip(narrow, wide, strict=True):
            assert b.low <= a.low + 1e-6 and a.high <= b.high + 1e-6 and b.high - b.low > a.high - a.low


@pytest.mark.parametrize("n_tied", [0, 2])
def test_the_whole_pool_is_exact(n_tied: int) -> None:
    """Targets whose whole pool was drawn are known; others are bounded beside them."""
    exact = Ranks.single([0, 3, 7, 11], n_pool=20, n_tied=n_tied)
    whole = simulate_sample(exact, 19)
    for bound, value in zip(
        identification_bounds(whole, METRICS.replace("50", "15")),
        values_of(exact, METRICS.replace("50", "15")),
        strict=True,
    ):
        assert bound.low == bound.high == pytest.approx(value, abs=1e-12) and bound.method == "exact"
    half = np.array([20, 20, 20, 200])
    mixed = SampledRanks.single([0, 3, 7, 2], n_negatives=19, n_pool=half)
    bound = identification_bounds(mixed, "recall@10")[0]
    assert bound.low == pytest.approx(3 / 4) and bound.high == pytest.approx(1.0, abs=1e-6)


def several(n_users: int, m: int, *, dependent: bool, seed: int) -> tuple[Ranks, SampledRanks]:
    """Two or three targets per user, ranked against the same negatives when dependent."""
    draw = np.random.default_rng(seed)
    counts = np.where(np.arange(n_users) % 2, 2, 3)
    user = np.repeat(np.arange(n_users), counts)
    place = np.concatenate([np.arange(c) for c in counts])
    size = 300
    own = (np.repeat(draw.beta(0.5, 2, n_users), counts) * size + 12 * place).astype(np.int64)
    above = np.minimum(own, size)
    sampled = np.empty_like(above)
    for row in range(len(above)):
        if place[row] == 0 or not dependent:
            drawn = draw.permutation(size)[:m]
        sampled[row] = (drawn < above[row]).sum()
    zeros = np.zeros_like(above)
    relevant = np.repeat(counts, counts)
    common = {"user": user, "item": place, "n_tied": zeros, "n_relevant_tied": zeros}
    pool = size + relevant
    ranks = Ranks(n_above=above + place, n_pool=pool, n_relevant=relevant, n_relevant_above=place, **common)
    sample = SampledRanks(
        n_above=sampled + place,
        n_pool=pool,
        n_relevant=relevant,
        n_relevant_above=place,
        n_negatives=zeros + m,
        n_candidates=zeros + size,
        **common,
    )
    return ranks, sample


@pytest.mark.parametrize("dependent", [True, False])
def test_several_targets_per_user(dependent: bool) -> None:
    ranks, sample = several(200, 60, dependent=dependent, seed=3)
    found = identification_bounds(sample, "recall@10,ndcg@10,ap@20,auc")
    assert_contains(found, values_of(ranks, "recall@10,ndcg@10,ap@20,auc"))
    assert {bound.method for bound in found} == {"chernoff"}
    assert found[0].high < 0.75


def test_ties_count_by_their_places() -> None:
    exact = Ranks.single(np.arange(300) % 60, n_pool=400, n_tied=np.arange(300) % 5)
    found = identification_bounds(simulate_sample(exact, 80), METRICS)
    assert_contains(found, values_of(exact))
    assert found[0].method == "chernoff"


def test_what_cannot_be_bounded_is_said() -> None:
    tied = SampledRanks.single([0, 1], n_negatives=5, n_pool=50, n_tied=1, design=Design(replacement=True))
    with pytest.raises(CannotEstimate, match="with replacement need ties 'best' or 'worst'"):
        identification_bounds(tied, "recall@1")
    assert identification_bounds(tied, "recall@1", ties="best")[0].high == pytest.approx(1.0)
    adaptive = SampledRanks.single([1, 2], n_negatives=20, n_pool=500, n_tied=1, design=Design(stopping=RULE))
    with pytest.raises(CannotEstimate, match="adaptive samples need ties 'best'"):
        identification_bounds(adaptive, "recall@1")
    given = SampledRanks.single([0], n_negatives=5, n_pool=50, design=Design(law="popularity"))
    with pytest.raises(CannotEstimate, match="drawn uniformly, got design 'popularity'"):
        identification_bounds(given, "recall@1")
    plain = SampledRanks.single([0], n_negatives=5, n_pool=500)
    with pytest.raises(
        InvalidParameter, match=r"got one with bins of width=0\.01\. Use its attribute unbinned"
    ):
        identification_bounds(tally(plain), "recall@1")
    with pytest.raises(
        InvalidParameter, match="cutoff of recall@501 must be at most the largest pool of 500"
    ):
        identification_bounds(plain, "recall@501")
    with pytest.raises(InvalidParameter, match="shape must be one of decreasing, got 'convex'"):
        identification_bounds(plain, "recall@1", shape="convex")  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match=r"step must lie in \(0, 1\], got 0"):
        identification_bounds(plain, "recall@1", step=0)
    with pytest.raises(InvalidData, match="at least one user"):
        identification_bounds(SampledRanks.single([], n_negatives=5, n_pool=500), "recall@1")
    with pytest.raises(CannotEstimate, match="no rank distribution fits"):
        identification_bounds(SampledRanks.single([0, 10] * 2000, n_negatives=20, n_pool=1000), "recall@1")


def test_resolution_in_words_and_numbers() -> None:
    """The number of negatives said does resolve a new sample of it, give or take a fifth."""
    ranks = population(2000, 1000, seed=1)
    found, easy = resolution(simulate_sample(ranks, 50), "recall@10,auc", half_width=0.08)
    assert not found.is_resolved and easy.is_resolved and easy.n_negatives is None
    assert found.n_negatives is not None and found.smallest_cutoff is not None and found.smallest_cutoff > 10
    assert str(found).startswith("K = 10 is below what this sample can resolve: any recall@10 from 0.")
    size = found.n_negatives
    before, after = (
        identification_bounds(simulate_sample(ranks, m, seed=5), "recall@10")[0].half_width
        for m in (round(size * 0.8), min(round(size * 1.2), 998))
    )
    assert after <= 0.08 * 1.05 and before >= 0.08 * 0.95
    narrow = resolution(simulate_sample(ranks, 50), "recall@10", half_width=0.08, shape="decreasing")[0]
    assert narrow.bound.half_width < found.bound.half_width


@pytest.mark.slow
def test_the_smallest_resolved_cut_off_is_the_first_of_a_scan() -> None:
    sample = simulate_sample(population(1500, 800, seed=3), 60)
    for half_width in (0.05, 0.08, 0.12):
        for metric, found in zip(
            ("recall@3", "ndcg@10", "ap@5"),
            resolution(sample, "recall@3,ndcg@10,ap@5", half_width=half_width),
            strict=True,
        ):
            name, _, own = metric.partition("@")
            wider = [k for k in CUTOFFS if int(own) < k <= 800]
            bounds = identification_bounds(sample, [f"{name}@{k}" for k in wider])
            scan = [k for k, one in zip(wider, bounds, strict=True) if one.half_width <= half_width]
            expected = None if found.is_resolved or not scan else scan[0]
            assert found.smallest_cutoff == expected, (metric, half_width)


@pytest.mark.slow
def test_metrics_that_differ_only_in_their_cut_offs() -> None:
    sample = simulate_sample(population(400, 200, seed=3), 20)
    both = resolution(sample, "recall@1,recall@3", half_width=0.1)
    alone = [resolution(sample, metric, half_width=0.1)[0] for metric in ("recall@1", "recall@3")]
    assert [one.smallest_cutoff for one in both] == [one.smallest_cutoff for one in alone]
    assert all(one.smallest_cutoff is not None for one in both)


class ThresholdsAlone(SampledRankEvents):
    """The events below thresholds, without those between two of them."""

    def __len__(self) -> int:
        return len(self.n_above)

    def indicators(self, n_negatives: IntArray, n_above: IntArray) -> BoolArray:
        return super().indicators(n_negatives, n_above)[:, : len(self)]


@pytest.mark.parametrize("m", [99, 299])
def test_events_between_thresholds_narrow_the_bounds(m: int) -> None:
    """Near the top and at its end, at the same level, although it is split over twice as many limits."""
    sample = simulate_sample(population(4000, 2000), m)
    counted = unbinned_tally(sample)
    is_known, metrics = np.zeros(1, dtype=np.bool_), make_metrics("recall@1,recall@10,ap@10")
    both = BoundProblem.of_tally(counted, is_known, None)
    alone = replace(both, events=ThresholdsAlone(both.events.largest, both.events.n_above))
    narrow, wide = (
        problem.sample_limits(metrics, counted, is_known, level=0.95)[0] for problem in (both, alone)
    )
    assert (np.diff(narrow) < np.diff(wide)).all()
    found = identification_bounds(sample, metrics)
    np.testing.assert_allclose([[b.low, b.high] for b in found], np.maximum(narrow, 0), atol=1e-9)


def misses(n_repeats: int, *, alone: bool) -> tuple[int, int]:
    """Return how often the region of 90 % missed a mean probability, and bounds that missed when it did not.

    Ranks differ little, so that counts vary nearly as much as they can. ``alone`` gives each event the whole
    10 %, as if the others were not there.
    """
    size, m, n_users = 60, 10, 120
    above = 18 + np.arange(n_users) % 5
    events = make_events(m)
    truth = probabilities_of(events, size, m, False, None)[above].mean(axis=0)
    draw = np.random.default_rng(17)
    counts = draw.hypergeometric(above, size - above, m, (n_repeats, n_users))
    wanted = values_of(Ranks.single(above, n_pool=size + 1), "recall@20,auc")
    missed = wrong = 0
    for repeat, row in enumerate(counts):
        share = events.indicators(np.full(n_users, m), row).mean(axis=0)
        region = make_region(share, n_users, level=0.9, method="binomial")
        low, high = binomial_limits(share, n_users, 0.05) if alone else (region.low, region.high)
        is_missed = bool(((truth < low) | (truth > high)).any())
        missed += is_missed
        if repeat < 40 and not is_missed and not alone:
            sample = SampledRanks.single(row, n_negatives=m, n_pool=size + 1)
            found = identification_bounds(sample, "recall@20,auc", level=0.9)
            wrong += any(not b.low <= v <= b.high for b, v in zip(found, wanted, strict=True))
    return missed, wrong


@pytest.mark.stat
def test_coverage_of_bounds() -> None:
    """All limits hold at once in at least 90 % of samples from users who are not alike.

    4,000 repeats; more misses than a binomial with 10 % has once in 1e6 are an error, which finds a coverage
    of 86 % with 99 %. Where the limits hold, the exact value lies within the bounds: always. Negative
    control: limits that hold with 90 % for each event alone are rejected.
    """
    most = binom.isf(1e-6, 4000, 0.1)
    assert binom.sf(most, 4000, 0.14) > 0.99
    missed, wrong = misses(4000, alone=False)
    assert missed <= most and wrong == 0
    assert misses(4000, alone=True)[0] > most


@pytest.mark.data
def test_movielens_trial() -> None:
    """With 99 negatives nearly nothing is known of Recall@10 among 3,706 items; with 499 a little more."""
    if find_local("ml-1m") is None:
        pytest.skip("needs ml-1m")
    split = make_split(load("ml-1m"), "leave-last-out")
    above = exact_ranks(MODELS.make("item-knn").fit(split.train), split).n_above
    ranks = Ranks.single(np.minimum(above, 3705), n_pool=3706)
    value = values_of(ranks, "recall@10")[0]
    few, more = (identification_bounds(simulate_sample(ranks, m), "recall@10")[0] for m in (99, 499))
    assert len(ranks) == 6040 and few.low <= more.low <= value <= more.high <= few.high
    assert few.low < 0.001 and 0.2 < few.high < 0.3
    assert 0.0 < more.low < 0.06 and 0.14 < more.high < 0.22
