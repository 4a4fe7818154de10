"""Posterior intervals of metrics: names, fallbacks, targets and designs of all kinds, and calibration."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np
import pytest
from scipy.stats import norm

from tests.inference.estimate_interval.samples import estimated, population, several, values_of
from tests.reference.posterior import draw_prior
from truerank.core.errors import CannotEstimate, InvalidParameter
from truerank.core.ranks import Ranks, SampledRanks, Stopping
from truerank.core.types import FloatArray
from truerank.estimation.distribution.likelihood import RankGrid
from truerank.estimation.tally import tally
from truerank.inference.estimate_interval.registry import TARGETS, UNCERTAINTIES, Target
from truerank.inference.posterior.interval import (
    PosteriorInterval,
    metric_posterior,
    resolved_rank,
    weighted_quantiles,
)
from truerank.inference.posterior.prior import learnt_prior
from truerank.metrics.registry import make_metrics
from truerank.ranking.simulate import simulate_adaptive, simulate_sample

METRICS = "recall@1,recall@10,ndcg@10"
QUICK = PosteriorInterval(draws=400)
RANKS = population(300, 400)
POOLS = population(300, np.arange(300) % 90 + 320)


def tied(ranks: Ranks) -> Ranks:
    """Return ranks in which every third target is tied with two items."""
    room = (np.arange(len(ranks)) % 3 == 0) & (ranks.n_above + 3 < ranks.n_pool)
    return Ranks.single(ranks.n_above, n_pool=ranks.n_pool, n_tied=2 * room.astype(np.int64))


DESIGNS = {
    "without replacement": simulate_sample(RANKS, 39),
    "with replacement": simulate_sample(RANKS, 39, replacement=True),
    "adaptive": simulate_adaptive(RANKS, Stopping((19, 39, 79))),
    "pools": simulate_sample(POOLS, 39),
    "ties": simulate_sample(tied(RANKS), 39),
    "several targets": several(150, 20),
}


@pytest.mark.slow
@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("target", TARGETS)
def test_all_designs_have_intervals_that_hold_the_fitted_value(design: str, target: str) -> None:
    found = estimated(DESIGNS[design], "smooth", METRICS)
    band = QUICK.band(found, target=cast(Target, target))
    assert all(method.startswith("posterior") for method in band.method)
    assert (band.low >= 0).all() and (band.high <= 1).all()
    assert (band.low <= found.value).all() and (found.value <= band.high).all()
    assert (band.high - band.low > 0.001).all()
    wide = UNCERTAINTIES.make("bounds").band(found, target=cast(Target, target))
    assert (band.high - band.low < wide.high - wide.low).all()


@pytest.mark.slow
def test_names_say_below_which_rank_the_prior_decides() -> None:
    def name(sample: SampledRanks) -> str:
        return QUICK.band(estimated(sample, "smooth", "recall@10")).method[0]

    assert name(DESIGNS["without replacement"]) == "posterior; below rank 10 the prior decides"
    assert name(DESIGNS["adaptive"]) == "posterior; below rank 5 the prior decides"
    assert name(simulate_sample(RANKS, 380)) == "posterior"


def test_resolved_rank_is_that_of_the_median_pool() -> None:
    """One user with a short list does not decide; in adaptive samples the largest sample does."""
    pools = np.array([100, 3701, 3702, 3703, 3704])
    assert resolved_rank(tally(SampledRanks.single([0] * 5, n_negatives=99, n_pool=pools), width=0)) == 37
    sizes = np.array([99, 99, 99, 99, 199])
    mixed = SampledRanks.single([0] * 5, n_negatives=sizes, n_pool=4000)
    assert resolved_rank(tally(mixed, width=0)) == 20


def test_the_same_seed_gives_the_same_digits() -> None:
    found = estimated(DESIGNS["pools"], "smooth", METRICS)
    one, same, other = (QUICK.band(found, seed=seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal([one.low, one.high], [same.low, same.high])
    assert (one.low != other.low).any()
    np.testing.assert_allclose([one.low, one.high], [other.low, other.high], atol=0.03)


def test_intervals_do_not_depend_on_the_estimator_but_hold_the_default_one() -> None:
    sample = DESIGNS["without replacement"]
    by_smooth, by_naive = (QUICK.band(estimated(sample, name, METRICS)) for name in ("smooth", "naive"))
    assert (by_smooth.low <= by_naive.low).all() and (by_smooth.high >= by_naive.high).all()
    inside = (estimated(sample, "smooth", METRICS).value > by_naive.low) & (
        estimated(sample, "smooth", METRICS).value < by_naive.high
    )
    np.testing.assert_array_equal(by_smooth.low[inside], by_naive.low[inside])


def test_higher_levels_and_more_users_to_speak_for_are_wider() -> None:
    found = estimated(DESIGNS["without replacement"], "smooth", METRICS)
    low, high = (QUICK.band(found, level=level) for level in (0.8, 0.99))
    assert (high.low <= low.low).all() and (high.high >= low.high).all()
    counted, metrics = found.tally, found.metrics
    part = replace(found.ranks, design=replace(found.ranks.design, n_test_users=3000))
    spreads = []
    for of, target in ((counted, "test-users"), (tally(part), "test-users"), (counted, "population")):
        made = metric_posterior(of, metrics, target=cast(Target, target))
        mean = made.values @ made.weights
        spreads.append(np.sqrt((made.values - mean[:, None]) ** 2 @ made.weights))
        assert made.unit.any() == (of is counted and target == "test-users")
    assert (spreads[0][1:] < spreads[1][1:]).all() and (spreads[0][1:] < spreads[2][1:]).all()


def test_seen_items_that_stay_in_the_list_take_the_first_ranks() -> None:
    """Where they are kept, rank 1 is thought to be rarer; unknown lies between."""
    counted = tally(DESIGNS["without replacement"])
    means = []
    for seen in ("removed", "unknown", "kept"):
        made = metric_posterior(counted, make_metrics("recall@1"), seen=seen)
        means.append(float(made.values[0] @ made.weights))
    assert means[0] > means[1] > means[2]


def test_lists_of_different_lengths_are_taken_as_without_seen_items() -> None:
    found, metrics = tally(DESIGNS["pools"]), make_metrics("recall@1")
    default, removed = (metric_posterior(found, metrics, seen=seen).values for seen in (None, "removed"))
    np.testing.assert_array_equal(default, removed)
    found = tally(DESIGNS["without replacement"])
    default, unknown = (metric_posterior(found, metrics, seen=seen).values for seen in (None, "unknown"))
    np.testing.assert_array_equal(default, unknown)


def test_few_users_get_bounds_and_the_reason() -> None:
    found = estimated(simulate_sample(population(49, 400), 39), "smooth", METRICS)
    band, bounds = QUICK.band(found), UNCERTAINTIES.make("bounds").band(found)
    reason = "identification bounds: there is no posterior with fewer than 50 users"
    assert band.method == (reason,) * 3
    np.testing.assert_array_equal([band.low, band.high], [bounds.low, bounds.high])
    with pytest.raises(CannotEstimate, match=r"fewer than 50 users. Use bounds \(got 49 users\)"):
        metric_posterior(found.tally, found.metrics)


def test_negatives_that_are_not_uniform_have_neither_posterior_nor_bounds() -> None:
    """They do not say where a target stands among all items; the interval is all that is possible."""
    sample = DESIGNS["without replacement"]
    found = estimated(replace(sample, design=replace(sample.design, law="popularity")), "naive", METRICS)
    with pytest.raises(CannotEstimate, match=r"not drawn uniformly. .*\(got design 'popularity'\)"):
        metric_posterior(found.tally, found.metrics)
    band = QUICK.band(found)
    assert all(method.startswith("possible range: ") for method in band.method)
    assert all("negatives that were not drawn uniformly" in method for method in band.method)
    np.testing.assert_array_equal([band.low, band.high], [[0] * 3, [1] * 3])


def test_ranks_rougher_than_all_known_get_bounds_and_the_reason() -> None:
    """All targets at two ranks far from each other and from the first."""
    ranks = Ranks.single(np.where(np.arange(3000) % 2, 150, 300), n_pool=400)
    band = QUICK.band(estimated(simulate_sample(ranks, 99), "smooth", METRICS))
    assert all(method.startswith("identification bounds: there is no posterior") for method in band.method)


def test_everything_ranked_is_exact() -> None:
    found = estimated(SampledRanks.single([0, 3] * 40, n_negatives=9, n_pool=10), "smooth", METRICS)
    band = QUICK.band(found)
    assert band.method == ("exact",) * 3
    np.testing.assert_array_equal(band.low, band.high)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (
            "posterior(seen=maybe)",
            r"posterior\(seen=...\) must be removed or kept or unknown or none, got 'maybe'",
        ),
        ("posterior(draws=399)", r"draws must be .*400, got 399"),
    ],
)
def test_parameters_are_checked(written: str, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        UNCERTAINTIES.make(written)


def test_spec_strings_are_read_as_they_are_written() -> None:
    for written in ("posterior", "posterior(seen=kept)", "posterior(draws=800)"):
        assert str(UNCERTAINTIES.make(written)) == written


def test_quantiles_of_weighted_values() -> None:
    """Equal weights: the middle of n values, and values themselves at the middles of their weights."""
    values, weights = np.array([4.0, 1.0, 3.0, 2.0]), np.full(4, 0.25)
    np.testing.assert_allclose(weighted_quantiles(values, weights, [0.125, 0.5, 0.875]), [1, 2.5, 4])
    np.testing.assert_allclose(weighted_quantiles(values, weights, [0, 1]), [1, 4])


def places(n_repeats: int, grid: RankGrid) -> tuple[FloatArray, FloatArray]:
    """Return where the true value lies in its posterior, and in one with a third of the spread, (n,) each."""
    prior, metrics = learnt_prior(), make_metrics("ndcg@10")
    generator = np.random.default_rng(8)
    curves = draw_prior(prior, grid, "unknown", n_repeats, generator)
    found, narrow = [], []
    for repeat, masses in enumerate(curves.masses.T):
        ranks = Ranks.single(generator.choice(grid.n_ranks, 300, p=masses), n_pool=grid.n_ranks)
        sample = tally(simulate_sample(ranks, 9, repeat=repeat))
        try:
            posterior = metric_posterior(sample, metrics, seen="unknown", seed=repeat, n_draws=400)
        except CannotEstimate:  # chosen by the data alone, so that the others are still calibrated
            continue
        values, truth = posterior.values[0], values_of(ranks, "ndcg@10")[0]
        mean = values @ posterior.weights
        found.append(posterior.weights @ (values < truth))
        narrow.append(posterior.weights @ (mean + (values - mean) / 3 < truth))
    return np.array(found), np.array(narrow)


@pytest.mark.stat
@pytest.mark.slow
def test_posterior_is_calibrated_over_its_own_prior() -> None:
    """Of models drawn from the prior, the share whose value lies below a quantile is that quantile's level.

    Simulation-based calibration: N = 200, 9 negatives, 300 users, so that the prior decides below rank 20.
    The distance of the place from one half, times two, is uniform on (0, 1); its mean over 120 models has a
    standard error of 0.026 and is rejected beyond 4.9 of them (level 1e-6). Finds a posterior with half the
    spread (mean 0.70) with 99 %. Negative control: a third of the spread.
    """
    found, narrow = places(120, RankGrid(np.arange(201)))
    assert len(found) > 100
    limit = norm.isf(0.5e-6) * np.sqrt(1 / 12 / len(found))
    assert abs(np.abs(2 * found - 1).mean() - 0.5) < limit
    assert abs(found.mean() - 0.5) < limit
    assert np.abs(2 * narrow - 1).mean() - 0.5 > limit
