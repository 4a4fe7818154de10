"""Priors fitted to the sample: what they equal, that nothing stale is served, and runs at once."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from tests.estimation.corrections.test_adaptive import simulated
from truerank.core.errors import InvalidData, InvalidParameter, UnknownName
from truerank.core.ranks import Design, SampledRanks, Stopping
from truerank.estimation.base import Estimator
from truerank.estimation.corrections.bias_variance import BiasVariance
from truerank.estimation.corrections.priors import (
    BetaPrior,
    BinnedPrior,
    FittedPrior,
    TablePrior,
    UniformPrior,
    averaged_prior,
    fitted_prior,
    make_prior,
)
from truerank.estimation.distribution.likelihood import RankGrid
from truerank.estimation.distribution.mle import MaximumLikelihood
from truerank.estimation.registry import ESTIMATORS
from truerank.estimation.tally import Tally, tally
from truerank.metrics.registry import make_metrics

MEASURED = make_metrics("recall@1,recall@10,ndcg@20,ap@5,ap,auc")
RULE = Stopping((10, 20, 40))
FITTING = ["bv(prior=mle)", "bv(prior=mle(iterations=20), gamma=0.01)", "mn(prior=mle)", "ls(prior=mle)"]
FIXED = ["bv", "bv(prior=beta, gamma=0.01)", "mn", "mn(prior=beta, users=9)", "cls", "naive", "rank-estimate"]


def fixed_sample(seed: int, *, replacement: bool = True, n_pool: int = 150, n_users: int = 300) -> Tally:
    draw = np.random.default_rng(seed)
    above = np.minimum(np.exp(draw.normal(2.5, 1.5, n_users)), n_pool - 1).astype(np.int64)
    design = Design(replacement=replacement)
    j = (
        draw.binomial(15, above / (n_pool - 1))
        if replacement
        else draw.hypergeometric(above, n_pool - 1 - above, 15)
    )
    return tally(SampledRanks.single(j, n_negatives=15, n_pool=n_pool, design=design))


def adaptive_sample(seed: int, *, replacement: bool = True) -> Tally:
    return simulated(RULE, n_pool=150, n_users=300, replacement=replacement, seed=seed)


@pytest.mark.parametrize("written", FITTING)
def test_specs_read_back(written: str) -> None:
    estimator = ESTIMATORS.make(written)
    assert str(estimator) == written
    assert ESTIMATORS.make(str(estimator)) == estimator
    assert pickle.loads(pickle.dumps(estimator)) == estimator
    assert hash(estimator) == hash(ESTIMATORS.make(written))


def test_every_estimator_of_a_distribution_can_be_a_prior() -> None:
    """Whatever the registry holds that fits one, with its default parameters."""
    from truerank.estimation.distribution.base import MixtureEstimator

    names = [name for name in ESTIMATORS.table if issubclass(ESTIMATORS.type_of(name), MixtureEstimator)]
    assert "mle" in names
    counted = fixed_sample(1)
    for name in names:
        for written in (f"bv(prior={name})", f"mn(prior={name})"):
            estimator = ESTIMATORS.make(written)
            assert str(estimator) == written
            assert np.isfinite(estimator.estimate(counted, MEASURED).value).all()


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize("written", ["bv(prior={}, gamma=0.05)", "mn(prior={})"])
def test_a_fitted_prior_is_the_fitted_distribution(written: str, replacement: bool) -> None:
    """The same values as with the distribution given as an array."""
    counted = fixed_sample(2, replacement=replacement)
    fitted = ESTIMATORS.make(written.format("mle(iterations=30)"))
    weights = MaximumLikelihood(iterations=30).distribution(counted).weights
    given = ESTIMATORS.make(written.format("uniform"))
    given = type(given)(**{**vars(given), "prior": TablePrior(weights)})
    np.testing.assert_allclose(
        fitted.estimate(counted, MEASURED).value, given.estimate(counted, MEASURED).value, rtol=1e-9
    )
    np.testing.assert_allclose(
        fitted.distribution(counted).weights, given.distribution(counted).weights, rtol=1e-7, atol=1e-12
    )


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize("is_adaptive", [True, False])
def test_gamma_one_is_one_more_step_of_em(is_adaptive: bool, replacement: bool) -> None:
    """The mean given the outcome under EM's masses is what the next step takes; no stopping factor enters."""
    sample = adaptive_sample if is_adaptive else fixed_sample
    counted = sample(3, replacement=replacement)
    found = ESTIMATORS.make("bv(prior=mle(iterations=20, grid=0), gamma=1)").estimate(counted, MEASURED).value
    wanted = ESTIMATORS.make("mle(iterations=21, grid=0)").estimate(counted, MEASURED).value
    np.testing.assert_allclose(found, wanted, rtol=1e-9)


def test_other_pools_get_the_stretched_distribution() -> None:
    """A pool half as large has the same distribution of R/N."""
    prior = BinnedPrior(RankGrid(np.array([0, 1, 2, 6, 8])), np.array([0.4, 0.3, 0.2, 0.1]))
    np.testing.assert_allclose(prior.weights(8), [0.4, 0.3, 0.05, 0.05, 0.05, 0.05, 0.05, 0.05])
    np.testing.assert_allclose(prior.weights(4), [0.7, 0.1, 0.1, 0.1])
    np.testing.assert_allclose(prior.weights(16).reshape(8, 2).sum(axis=1), prior.weights(8))
    pools = np.array([8, 8, 4, 4])
    sample = SampledRanks.single([0, 2, 0, 1], n_negatives=3, n_pool=pools, design=Design(replacement=True))
    together = BiasVariance(prior=prior).estimate(tally(sample), MEASURED).value
    alone = [
        BiasVariance(prior=TablePrior(prior.weights(n))).estimate(
            tally(SampledRanks.single([j], n_negatives=3, n_pool=n, design=Design(replacement=True))),
            MEASURED,
        )
        for j, n in zip([0, 2, 0, 1], pools.tolist(), strict=True)
    ]
    np.testing.assert_allclose(together, np.mean([one.value for one in alone], axis=0), rtol=1e-12)


@pytest.mark.parametrize("written", FITTING)
def test_nothing_stale_is_served(written: str) -> None:
    """Samples with the same sizes and other ranks have other values, and the first keeps its own."""
    estimator = ESTIMATORS.make(written)
    one, other = fixed_sample(4), fixed_sample(5)
    first = estimator.corrected(one, MEASURED)
    second = estimator.corrected(other, MEASURED)
    assert not np.allclose(first, second)
    np.testing.assert_array_equal(estimator.corrected(one, MEASURED), first)
    np.testing.assert_array_equal(ESTIMATORS.make(written).corrected(fixed_sample(4), MEASURED), first)


def test_a_fingerprint_tells_masses_and_bins_apart() -> None:
    masses = np.array([0.5, 0.5])
    priors = [
        BinnedPrior(RankGrid(np.array([0, 1, 3])), masses),
        BinnedPrior(RankGrid(np.array([0, 2, 3])), masses),
        BinnedPrior(RankGrid(np.array([0, 1, 3])), masses[::-1] + np.array([0.1, -0.1])),
    ]
    assert len({prior.fingerprint() for prior in priors}) == 3
    assert len(set(priors)) == 3
    again = BinnedPrior(RankGrid(np.array([0, 1, 3])), masses)
    assert again == priors[0]
    assert hash(again) == hash(priors[0])
    assert str(again).startswith("binned(digest=")


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize("written", [*FIXED, *FITTING, "cls(prior=mle)"])
def test_runs_at_once_equal_runs_apart(written: str, replacement: bool) -> None:
    estimator = ESTIMATORS.make(written)
    runs = [fixed_sample(seed, replacement=replacement) for seed in range(3)]
    wanted = Estimator.estimate_runs(estimator, runs, MEASURED)
    found = estimator.estimate_runs(runs, MEASURED)
    assert found.shape == (3, len(MEASURED))
    np.testing.assert_allclose(found, wanted, rtol=1e-7, atol=1e-7 if "ls" in written else 1e-10)


@pytest.mark.parametrize("written", ["bv(gamma=0.01)", "mn", *FITTING[:3]])
def test_adaptive_runs_at_once_equal_runs_apart(written: str) -> None:
    estimator = ESTIMATORS.make(written)
    runs = [adaptive_sample(seed) for seed in range(3)]
    wanted = Estimator.estimate_runs(estimator, runs, MEASURED)
    np.testing.assert_allclose(estimator.estimate_runs(runs, MEASURED), wanted, rtol=1e-8)


def test_runs_that_differ_are_estimated_apart() -> None:
    estimator = ESTIMATORS.make("mn")
    runs = [fixed_sample(0, n_users=100), fixed_sample(1, n_users=200)]
    wanted = [estimator.estimate(run, MEASURED).value for run in runs]
    np.testing.assert_array_equal(estimator.estimate_runs(runs, MEASURED), wanted)


def test_runs_with_many_contexts() -> None:
    """Pools and sample sizes that only some runs have."""
    design = Design(replacement=True)
    runs = [
        tally(SampledRanks.single(above, n_negatives=np.array(m), n_pool=np.array(pool), design=design))
        for above, m, pool in (
            ([0, 1, 2], [3, 3, 5], [20, 40, 40]),
            ([1, 0, 0], [5, 3, 5], [20, 20, 40]),
        )
    ]
    for written in ("bv", "mn", "bv(prior=mle)", "cls"):
        estimator = ESTIMATORS.make(written)
        wanted = Estimator.estimate_runs(estimator, runs, MEASURED)
        np.testing.assert_allclose(estimator.estimate_runs(runs, MEASURED), wanted, rtol=1e-9)


def test_an_averaged_prior_is_the_mean_of_the_runs() -> None:
    runs = [fixed_sample(seed) for seed in range(4)]
    estimator = MaximumLikelihood(iterations=25)
    prior = averaged_prior(estimator, runs)
    wanted = np.mean([estimator.distribution(run).weights for run in runs], axis=0)
    np.testing.assert_allclose(prior.weights(150), wanted, rtol=1e-9)
    assert averaged_prior("mle(iterations=25)", runs) == prior
    assert averaged_prior(FittedPrior(estimator), runs) == prior
    averaged = BiasVariance(prior=prior, gamma=0.01)
    shared = averaged.estimate_runs(runs, MEASURED)
    per_run = BiasVariance(prior=FittedPrior(estimator), gamma=0.01).estimate_runs(runs, MEASURED)
    assert shared.std(axis=0)[1] < per_run.std(axis=0)[1]  # one x for all runs, made of all of them


def test_which_priors_are_fitted() -> None:
    assert fitted_prior(ESTIMATORS.make("mn(prior=mle)")) == FittedPrior(MaximumLikelihood())
    assert fitted_prior(BiasVariance(prior=MaximumLikelihood())) == FittedPrior(MaximumLikelihood())  # type: ignore[arg-type]
    for written in ("bv", "bv(prior=beta)", "naive", "mle"):
        assert fitted_prior(ESTIMATORS.make(written)) is None


def test_priors_that_are_none() -> None:
    with pytest.raises(UnknownName, match=r"unknown prior 'mel'\. Did you mean 'mle'"):
        ESTIMATORS.make("bv(prior=mel)")
    with pytest.raises(InvalidParameter, match=r"and 'naive' fits none\. Use .*mle"):
        ESTIMATORS.make("bv(prior=naive)")
    with pytest.raises(InvalidParameter, match=r"and 'bv\(gamma=1\)' fits none"):
        ESTIMATORS.make("mn(prior=bv(gamma=1))")
    with pytest.raises(InvalidParameter, match="iterations must be an integer >= 1"):
        ESTIMATORS.make("bv(prior=mle(iterations=0))")
    assert make_prior(BetaPrior(0.3)) == BetaPrior(0.3)
    assert make_prior(ESTIMATORS.make("bv").prior) == UniformPrior()  # type: ignore[attr-defined]


def test_a_fitted_prior_needs_a_sample() -> None:
    prior = FittedPrior(MaximumLikelihood())
    for call in (lambda: prior.weights(3), prior.fingerprint):
        with pytest.raises(InvalidParameter, match="prior 'mle' is fitted to sampled ranks"):
            call()
    for estimator in (ESTIMATORS.make("bv(prior=mle)"), ESTIMATORS.make("bv")):
        with pytest.raises(InvalidData, match="an estimate needs at least one user"):
            estimator.estimate_runs([], MEASURED)


@pytest.mark.parametrize("masses", [[0.5], [0.5, 0.6], [1.5, -0.5], [np.nan, 1.0]])
def test_bad_masses(masses: list[float]) -> None:
    with pytest.raises(InvalidData, match=r"(a prior over 2 bins needs|masses of a prior must sum to 1)"):
        BinnedPrior(RankGrid(np.array([0, 1, 3])), np.array(masses))
