"""Estimates of graded metrics: weights of targets are known, ranks are estimated."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

from tests.metrics.test_grades import GradedUser, graded_counts
from truerank.core.errors import CannotEstimate
from truerank.core.ranks import Design, Ranks, SampledRanks, TiePolicy
from truerank.core.types import FloatArray
from truerank.estimation.corrections.bias_variance import BiasVariance
from truerank.estimation.registry import ESTIMATORS
from truerank.estimation.tally import tally
from truerank.inference.bounds.identify import identification_bounds
from truerank.inference.estimate_interval.registry import UNCERTAINTIES, PointEstimates
from truerank.metrics.registry import make_metrics, values
from truerank.ranking.simulate import simulate_adaptive, simulate_sample
from truerank.workflows.estimate import estimate

METRICS = make_metrics("ndcg@5,err@5,recall@5,ndcg,err,ndcg(ideal=all)@2")
GRADED = make_metrics("ndcg@5,err@5")
SPECS = (
    *("naive", "rank-estimate", "bv", "cls", "mn", "ls", "bv(prior=mle)", "mapping"),
    *("mle", "smooth", "mes", "beta-binomial"),
)


def graded_ranks(n_users: int = 60, *, n_items: int = 40, most: int = 6, seed: int = 0) -> Ranks:
    """Users with several targets, tied with each other and with other items; high grades rank higher."""
    draw = np.random.default_rng(seed)
    users: list[GradedUser] = []
    for _ in range(n_users):
        gains = np.zeros(n_items)
        chosen = draw.choice(n_items, draw.integers(1, most), replace=False)
        gains[chosen] = draw.integers(1, 6, len(chosen))
        scores = np.floor(draw.random(n_items) * 12 + 0.8 * gains)
        users.append((scores.tolist(), gains.tolist()))
    return graded_counts(users)


def all_items(ranks: Ranks) -> SampledRanks:
    """Return the ranks as a sample of every candidate."""
    candidates = ranks.n_pool - ranks.n_relevant
    return SampledRanks(**ranks.columns(), n_negatives=candidates, n_candidates=candidates)


@pytest.mark.parametrize("ties", ["expected", "best", "worst"])
def test_samples_of_all_items_are_exact(ties: TiePolicy) -> None:
    """Whatever the estimator, also over orders in which targets of different grades tie."""
    ranks = graded_ranks()
    counted = tally(all_items(ranks), ties=ties, metrics=METRICS)
    wanted = values(METRICS, ranks, ties=ties).mean(axis=0)
    for spec in ("naive", "smooth", "bv"):
        found = ESTIMATORS.make(spec).estimate(counted, METRICS).value
        assert found == pytest.approx(wanted, rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("spec", SPECS)
def test_without_grades_and_with_equal_ones(spec: str) -> None:
    """Gains of 1 are no gains, and metrics that do not use gains are what they were."""
    estimator = ESTIMATORS.make(spec)
    sample = simulate_sample(graded_ranks(), 20, seed=1)
    plain = replace(sample, gain=None)
    ones = replace(sample, gain=np.ones(len(sample)))
    without = estimator.estimate(tally(plain), METRICS).value
    assert estimator.estimate(tally(ones, metrics=METRICS), METRICS).value == pytest.approx(without, rel=1e-9)
    both = estimate(sample, METRICS, spec, uncertainty="delta").value("recall@5")
    alone = estimate(plain, METRICS, spec, uncertainty="delta").value("recall@5")
    assert both == pytest.approx(alone, rel=1e-14)


@pytest.mark.parametrize("spec", ["bv", "cls", "rank-estimate", "naive"])
def test_linear_estimates_are_weighted_sums(spec: str) -> None:
    """One target per user: ERR is the sum of p x(j), x being corrected values without grades over 1/2."""
    estimator, metrics = ESTIMATORS.make(spec), make_metrics("err@5")
    plain = SampledRanks.single([0, 2, 5, 9, 0], n_negatives=12, n_pool=100)
    gain = np.array([1.0, 4.0, 2.0, 3.0, 5.0])
    counted = tally(replace(plain, gain=gain), metrics=metrics)
    each = tally(plain).per_user(estimator.corrected(tally(plain), metrics))[:, 0]
    wanted = (gain / 6 * each / 0.5).mean()
    assert estimator.estimate(counted, metrics).value.tolist() == [pytest.approx(wanted, rel=1e-9)]
    assert counted.per_user(estimator.corrected(counted, metrics))[:, 0] == pytest.approx(gain / 3 * each)


@pytest.mark.slow
def test_estimates_come_close_to_exact_values() -> None:
    """Half of all items sampled: the mean of a few estimates is near; ranks depend on grades."""
    ranks = graded_ranks(300)
    wanted = values(GRADED, ranks).mean(axis=0)
    for spec in ("bv(prior=mle)", "cls", "mle", "smooth"):
        estimator = ESTIMATORS.make(spec)
        samples = [tally(simulate_sample(ranks, 20, seed=2, repeat=r), metrics=GRADED) for r in range(5)]
        found = estimator.estimate_runs(samples, GRADED)
        apart = np.stack([estimator.estimate(one, GRADED).value for one in samples])
        assert found == pytest.approx(apart, rel=1e-6)
        assert found.mean(axis=0) == pytest.approx(wanted, abs=0.03), spec


@pytest.mark.slow
@pytest.mark.parametrize(
    "uncertainty", ["delta", "bootstrap(resamples=50)", "bias-aware", "bounds", "posterior"]
)
def test_every_interval_takes_grades(uncertainty: str) -> None:
    """Each holds the exact values of a sample of half of all items, and bounds hold them too."""
    ranks = graded_ranks(80, most=3)
    wanted = values(GRADED, ranks).mean(axis=0)
    sample = simulate_sample(ranks, 25, seed=3)
    result = estimate(sample, GRADED, "bv(prior=mle),smooth", uncertainty=uncertainty)
    for found in result.estimates:
        value = wanted[[str(metric) for metric in GRADED].index(found.metric)]
        assert found.low is not None and found.high is not None
        assert found.low <= value <= found.high and found.high - found.low < 0.6, found
    for bound, value in zip(identification_bounds(sample, GRADED), wanted, strict=True):
        assert bound.low <= value <= bound.high


@pytest.mark.slow
def test_adaptive_samples_take_grades() -> None:
    ranks = graded_ranks(100, most=3)
    sample = simulate_adaptive(ranks, "adaptive(start=8, max=32)", seed=1)
    for spec in ("mle", "bv"):
        found = estimate(sample, GRADED, spec, uncertainty="delta", ties="best")
        wanted = values(GRADED, ranks, ties="best").mean(axis=0)
        for one, value in zip(found.estimates, wanted, strict=True):
            assert one.value == pytest.approx(value, abs=0.08)
            assert one.low is not None and one.high is not None and one.low < one.high


def covered(wanted: FloatArray, ranks: Ranks, shrink: float, repeats: int) -> FloatArray:
    """Return how often delta intervals, shrunk to a part of their width, hold the exact values."""
    estimator, interval, hits = BiasVariance(gamma=0.01), UNCERTAINTIES.make("delta"), np.zeros(len(wanted))
    for repeat in range(repeats):
        sample = simulate_sample(ranks, 10, seed=5, repeat=repeat)
        counted = tally(sample, metrics=GRADED)
        value = estimator.estimate(counted, GRADED).value
        band = interval.band(PointEstimates(sample, counted, estimator, GRADED, value))
        hits += np.abs(value - wanted) <= shrink * (band.high - band.low) / 2
    return hits


@pytest.mark.stat
@pytest.mark.slow
def test_coverage_of_graded_intervals() -> None:
    """Level 1e-6. Intervals of a tenth of the width, which hold about 1 time in 4, are rejected with 99 %."""
    ranks, repeats = graded_ranks(120, most=4, seed=4), 40
    wanted = values(GRADED, ranks).mean(axis=0)
    least = binom.ppf(5e-7, repeats, 0.9)  # 95 % less what a bias of half a standard error costs
    assert (covered(wanted, ranks, 1.0, repeats) >= least).all()
    assert (covered(wanted, ranks, 0.1, repeats) < least).all()


def test_counts_made_without_a_metric_refuse_it() -> None:
    sample = replace(SampledRanks.single([0, 2], n_negatives=9, n_pool=30), gain=np.array([1.0, 2.0]))
    with pytest.raises(CannotEstimate, match="'err@5' of graded targets needs their weights, which are not"):
        ESTIMATORS.make("bv").estimate(tally(sample), make_metrics("err@5"))
    assert ESTIMATORS.make("naive").estimate(tally(sample), make_metrics("recall@5")).value.tolist() == [1.0]


def test_many_weights_are_put_into_bins() -> None:
    """Of thousands of different weights neighbours share their mean; estimates move by less than 1 %."""
    draw = np.random.default_rng(0)
    plain = SampledRanks.single(draw.integers(0, 20, 6000), n_negatives=20, n_pool=500, design=Design())
    sample = replace(plain, gain=draw.random(6000) + 0.2)
    metrics = make_metrics("err@50")
    exact, binned = tally(sample, metrics=metrics, width=0), tally(sample, metrics=metrics)
    assert len(exact.contexts) > 5000 > 400 > len(binned.contexts)
    naive = ESTIMATORS.make("bv")
    found = [naive.estimate(counted, metrics).value[0] for counted in (exact, binned)]
    assert found[1] == pytest.approx(found[0], rel=1e-2)
