"""Variances of linear estimates against enumeration."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from tests.inference.estimate_interval.samples import METRICS, estimated, population, several
from truerank.core.ranks import Ranks, Stopping
from truerank.estimation.distribution.likelihood import RankGrid
from truerank.estimation.distribution.smooth import Smooth
from truerank.estimation.tally import tally
from truerank.inference.estimate_interval.linear import LinearisedEstimate, VarianceComponents
from truerank.inference.estimate_interval.outcomes import complete_tally, possible_outcomes
from truerank.metrics.registry import make_metrics
from truerank.ranking.simulate import simulate_adaptive, simulate_sample

RULE = Stopping((5, 12, 30))


def test_sampling_variance_is_that_of_all_samples() -> None:
    """Slow twin: every sample of 3 of 7 candidates, weighted by the posterior of each user's rank."""
    size, m = 7, 3
    sample = simulate_sample(Ranks.single([0, 0, 1, 2, 4, 6, 7], n_pool=size + 1), m)
    found = estimated(sample, "naive", "recall@2,ap")
    linear = LinearisedEstimate.of(found)
    likelihood, fit = Smooth().fit_tallies([found.tally])
    assert likelihood.grid.n_bins == size + 1  # a rank each
    posterior = likelihood.posterior(fit.masses[0])
    expected = np.zeros(2)
    for cell in found.tally.cell:
        for above in range(size + 1):
            drawn = [sum(item < above for item in picked) for picked in combinations(range(size), m)]
            variance = linear.x[drawn].var(axis=0)
            expected += posterior[likelihood.cells[0][cell], above] * variance / len(sample)
    np.testing.assert_allclose(linear.components.sampling, expected, rtol=1e-9)
    values = linear.x[found.tally.cell]
    np.testing.assert_allclose(linear.components.total, values.var(axis=0, ddof=1))
    assert (linear.components.sampling < linear.components.total).all()


def test_targets_of_a_user_add_their_standard_deviations() -> None:
    """A user with the same target three times has nine times the variance, not three times."""
    sample = several(60, 20)
    found = estimated(sample, "naive", "auc", width=0.0)
    linear = LinearisedEstimate.of(found)
    posterior = Smooth().fit_tallies([found.tally])
    likelihood, masses = posterior[0], posterior[1].masses[0]
    weights = likelihood.posterior(masses)
    spread = np.zeros(found.tally.n_users)
    for user, cell in zip(found.tally.user, found.tally.cell, strict=True):
        row = int(np.searchsorted(found.tally.offsets, cell, side="right")) - 1
        (outcomes,) = [o for o in possible_outcomes(found.tally) if row in o.contexts]
        probabilities = outcomes.probabilities(likelihood.grid)
        x = linear.x[found.tally.offsets[row] : found.tally.offsets[row + 1], 0]
        variance = probabilities @ x**2 - (probabilities @ x) ** 2
        spread[user] += np.sqrt(weights[likelihood.cells[0][cell]] @ variance)
    np.testing.assert_allclose(linear.components.sampling, [(spread**2).mean()], rtol=1e-9)


def test_parts_of_the_variance() -> None:
    noise = VarianceComponents(np.array([1.0]), np.array([4.0]), np.zeros(1))
    assert noise.variance("test-users", 10, None) == pytest.approx(0.1)
    assert noise.variance("test-users", 10, 10) == pytest.approx(0.1)
    assert noise.variance("population", 10, 20) == pytest.approx(0.4)
    assert noise.variance("test-users", 10, 20) == pytest.approx((1 + 0.5 * 3) / 10)


@pytest.mark.parametrize("replacement", [True, False])
def test_completed_adaptive_samples(replacement: bool) -> None:
    """Every size has cells, those seen keep their rows, and probabilities are those of the law."""
    ranks = population(5, np.where(np.arange(5) % 2, 80, 25))
    counted = tally(simulate_adaptive(ranks, RULE, replacement=replacement), width=0.0)
    whole = complete_tally(counted)
    for law in possible_outcomes(whole):
        grid = RankGrid(np.arange(law.law.n_candidates + 2))
        np.testing.assert_allclose(
            law.probabilities(grid), law.law.pmf(np.arange(law.law.n_candidates + 1)), atol=1e-15
        )
        assert whole.cell_weights[law.cells].sum() == (ranks.n_pool - 1 == law.law.n_candidates).sum()
    assert whole.n_rows == counted.n_rows and len(whole.contexts) > len(counted.contexts)
    metrics = make_metrics(METRICS)
    found = estimated(simulate_adaptive(ranks, RULE, replacement=replacement), width=0.0)
    values = found.estimator.corrected(whole, metrics)
    np.testing.assert_allclose(
        whole.per_user(values), counted.per_user(found.estimator.corrected(counted, metrics)), atol=1e-12
    )
    fixed = tally(simulate_sample(ranks, 10))
    assert complete_tally(fixed) is fixed


@pytest.mark.parametrize("estimator", ["bv", "bv(gamma=0.001)"])
@pytest.mark.parametrize("adaptive", [False, True])
def test_sampling_variance_is_near_that_of_the_true_ranks(adaptive: bool, estimator: str) -> None:
    """The mean over ten samples of the variance said is within a fifth of the true one."""
    ranks = population(400, 300, seed=3)
    said = []
    for repeat in range(10):
        if adaptive:
            sample = simulate_adaptive(ranks, RULE, repeat=repeat)
        else:
            sample = simulate_sample(ranks, 30, repeat=repeat)
        linear = LinearisedEstimate.of(estimated(sample, estimator))
        said.append(linear.components.sampling)
        assert (linear.components.sampling <= linear.components.total).all()
    (outcomes,) = possible_outcomes(linear.counted)
    x = linear.x[outcomes.cells[0]]
    true = [outcomes.law.moments(x[:, column], ranks.n_above)[1].mean() for column in range(3)]
    np.testing.assert_allclose(np.mean(said, axis=0), true, rtol=0.2)


def test_designs_without_a_law_take_the_whole_variance() -> None:
    sample = simulate_sample(population(50, 200), 30)
    given = estimated(replace(sample, design=replace(sample.design, law="given")), "naive")
    noise = LinearisedEstimate.of(given).components
    np.testing.assert_array_equal(noise.sampling, noise.total)
    assert np.isnan(noise.bias).all()
