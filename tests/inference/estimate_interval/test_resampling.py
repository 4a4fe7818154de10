"""Resamples against a loop that draws users one by one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import truerank.inference.estimate_interval.resampling as module
from tests.inference.estimate_interval.samples import METRICS, estimated, population, several
from truerank.core.errors import CannotEstimate, InvalidData, InvalidParameter
from truerank.core.random import stream
from truerank.core.ranks import SampledRanks, Stopping
from truerank.core.types import FloatArray, IntArray
from truerank.estimation.tally import tally
from truerank.inference.estimate_interval.linear import LinearisedEstimate
from truerank.inference.estimate_interval.registry import PointEstimates, Target
from truerank.inference.estimate_interval.resampling import (
    NegativeResamples,
    UserResamples,
    resample_estimates,
)
from truerank.metrics.registry import make_metrics
from truerank.ranking.simulate import simulate_adaptive, simulate_sample

RULE = Stopping((5, 12, 30))


def pick(sample: SampledRanks, users: IntArray) -> SampledRanks:
    """Return the rows of some users, each under a number of its own."""
    ends = np.append(sample.starts, len(sample))
    rows = [np.arange(ends[user], ends[user + 1]) for user in users]
    number = np.repeat(np.arange(len(users)), [len(part) for part in rows])
    columns = {name: column[np.concatenate(rows)] for name, column in sample.columns().items()}
    return replace(sample, **{**columns, "user": number})


def by_loop(found: PointEstimates, resamples: int, seed: int) -> FloatArray:
    """Slow twin: draw users, tally them, estimate."""
    n_users = found.tally.n_users
    values = []
    for number in range(resamples):
        users = stream(seed, "bootstrap/users", number).integers(0, n_users, n_users, dtype=np.int32)
        counted = tally(pick(found.ranks, users), width=0.0)
        values.append(found.estimator.estimate(counted, found.metrics).value)
    return np.array(values)


FITTED = ["mle", "mle(solver=exact)", "mes", "smooth", "beta-binomial"]


@pytest.mark.parametrize(
    ("design", "estimator"),
    [
        *((design, name) for design in ("one", "several") for name in ["naive", "bv", *FITTED]),
        *(("adaptive", name) for name in ["bv", *FITTED]),
    ],
)
def test_users_are_resampled_as_in_a_loop(design: str, estimator: str) -> None:
    """Fits are the same to rounding; those of ``smooth``, which start warm, mostly to 1e-3 of the spread.

    Its penalty may have two local maxima in a resample of a few users.
    """
    if design == "several":
        sample = several(40, 20)
    else:
        ranks = population(60, 100)
        sample = simulate_sample(ranks, 20) if design == "one" else simulate_adaptive(ranks, RULE)
    found = estimated(sample, estimator, width=0.0)
    values, expected = (
        resample_estimates(found, target="population", resamples=6, seed=3),
        by_loop(found, 6, 3),
    )
    if estimator == "smooth":
        off = np.abs(values - expected).max(axis=1) / expected.std(axis=0).max()
        assert np.sort(off)[-2] < 1e-3 and off.max() < 0.5
    else:
        np.testing.assert_allclose(values, expected, atol=1e-7)


def test_seeds_repeat_to_the_digit_and_blocks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    found = estimated(several(30, 20), "mle")
    for target in ("population", "test-users"):
        first = resample_estimates(found, target=target, resamples=7, seed=1)
        assert np.array_equal(first, resample_estimates(found, target=target, resamples=7, seed=1))
        assert not np.array_equal(first, resample_estimates(found, target=target, resamples=7, seed=2))
        with monkeypatch.context() as patch:
            patch.setattr(module, "_RUNS", 2)
            np.testing.assert_allclose(
                first, resample_estimates(found, target=target, resamples=7, seed=1), atol=1e-12
            )


def test_models_are_resampled_with_the_same_users() -> None:
    """Differences of linear estimates are those of the same users' values."""
    one, two = (estimated(simulate_sample(population(50, 100, seed), 20), "bv") for seed in (0, 1))
    both = resample_estimates([one, two], target="population", resamples=20, seed=4)
    assert both.shape == (2, 20, 3)
    values = [found.estimator.per_user(found.tally, found.metrics) for found in (one, two)]
    for number in range(20):
        users = stream(4, "bootstrap/users", number).integers(0, 50, 50, dtype=np.int32)
        expected = (values[0] - values[1])[users].mean(axis=0)
        np.testing.assert_allclose(both[0, number] - both[1, number], expected, atol=1e-12)
    alone = resample_estimates(one, target="population", resamples=20, seed=4)
    np.testing.assert_array_equal(alone, both[0])


@pytest.mark.parametrize("design", ["one", "pools", "adaptive", "several"])
def test_new_negatives_vary_as_the_closed_form_says(design: str) -> None:
    """Linear estimates of 400 new samples: the spread is that of ``delta``, and of no more users' part."""
    pools = np.where(np.arange(300) % 3, 200, 150)
    ranks = population(300, 200 if design != "pools" else pools)
    if design == "several":
        sample = several(150, 20)
    else:
        sample = simulate_adaptive(ranks, RULE) if design == "adaptive" else simulate_sample(ranks, 30)
    found = estimated(sample, "bv")
    values = resample_estimates(found, resamples=400)
    np.testing.assert_allclose(values.mean(axis=0), found.value, atol=1e-12)
    ratio = values.std(axis=0) / LinearisedEstimate.of(found).sampling_error()
    low = 0.75 if design == "several" else 0.85  # values are not wholly monotone in the rank
    assert (ratio > low).all() and (ratio < 1.15).all()


def test_a_whole_pool_leaves_nothing_to_redraw() -> None:
    found = estimated(simulate_sample(population(40, 60), 59), "naive")
    draws = NegativeResamples.of(found.tally, 0)
    for number in range(3):
        np.testing.assert_array_equal(draws.weights(number), found.tally.cell_weights)
    assert UserResamples.of(found.tally, 0).weights(0).sum() == 40


def test_some_of_the_test_users() -> None:
    """Both parts are put together by the share of users; all of them is the same as none missing."""
    sample = simulate_sample(population(80, 100), 20)

    def with_users(n: int | None) -> PointEstimates:
        return estimated(replace(sample, design=replace(sample.design, n_test_users=n)), "mle")

    plain = resample_estimates(with_users(None), resamples=30)
    users = resample_estimates(with_users(None), target="population", resamples=30)
    np.testing.assert_array_equal(plain, resample_estimates(with_users(80), resamples=30))
    value, part = with_users(None).value, resample_estimates(with_users(320), resamples=30)
    expected = value + np.sqrt(0.75) * (users - value) + np.sqrt(0.25) * (plain - value)
    np.testing.assert_allclose(part, expected, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["test-users", "population"])
def test_many_sizes_of_pools_are_put_together(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """The spread is that of all sizes apart, within 5 %, half of what 40 resamples tell it to.

    Ranks are drawn from other posteriors, so that single resamples differ.
    """
    found = estimated(simulate_sample(population(300, np.arange(200, 500)), 20), "mle", width=0.0)
    wide = resample_estimates(found, target=target, resamples=40)
    assert module._coarser(found) is not found
    monkeypatch.setattr(module, "_OUTCOMES", 10**9)
    assert module._coarser(found) is found
    fine = resample_estimates(found, target=target, resamples=40)
    np.testing.assert_allclose(wide.std(axis=0), fine.std(axis=0), rtol=0.05)
    np.testing.assert_allclose(wide.mean(axis=0), fine.mean(axis=0), atol=0.1 * fine.std(axis=0).max())


def test_what_cannot_be_resampled_is_said() -> None:
    sample = simulate_sample(population(30, 100), 20)
    found = estimated(sample, "naive")
    with pytest.raises(InvalidParameter, match="target must be one of test-users, population"):
        resample_estimates(found, target="users")  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="resamples must be at least 2"):
        resample_estimates(found, resamples=1)
    with pytest.raises(InvalidData, match="at least one estimate"):
        resample_estimates([])
    fewer = estimated(simulate_sample(population(29, 100), 20), "naive")
    with pytest.raises(InvalidData, match="the same users in the same order"):
        resample_estimates([found, fewer])
    other = PointEstimates(sample, found.tally, found.estimator, make_metrics("auc"), found.value[2:])
    with pytest.raises(InvalidData, match="the same metrics"):
        resample_estimates([found, other])
    given = estimated(replace(sample, design=replace(sample.design, law="given")), "naive", METRICS)
    with pytest.raises(CannotEstimate, match="Use delta, or target 'population'"):
        resample_estimates(given)
    assert resample_estimates(given, target="population", resamples=5).shape == (5, 3)
