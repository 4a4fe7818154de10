"""Draws from the posterior of rank distributions, against draws from the prior weighted by likelihoods."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.reference.posterior import draw_prior, likelihoods
from truerank.core.ranks import Ranks, SampledRanks
from truerank.core.types import FloatArray
from truerank.estimation.distribution.likelihood import RankGrid
from truerank.estimation.tally import tally
from truerank.inference.posterior.curves import (
    Draws,
    Evidence,
    draw_curves,
    find_mode,
    informed_basis,
    normalised,
)
from truerank.inference.posterior.prior import SCALES, SHAPES, RankPrior, learnt_prior, make_curves
from truerank.inference.posterior.values import SampleGains
from truerank.ranking.simulate import simulate_sample

N = 30
GRID = RankGrid(np.arange(N + 1))
SAMPLE = SampledRanks.single([0] * 9 + [1, 1, 1, 1, 2, 2, 3, 3, 4, 5], n_negatives=5, n_pool=N)


def evidence_of(sample: SampledRanks) -> Evidence:
    gains = SampleGains.of(tally(sample), ())
    assert gains.likelihood.grid.n_bins == N
    return gains.evidence


def alone(scale: int, shape: int) -> RankPrior:
    """Return the prior of one scale and one shape."""
    learnt = learnt_prior()
    weights = tuple(1.0 if at == shape else 1e-9 for at in range(len(SHAPES)))
    spread = 0.05 if SCALES[scale] == 1 else learnt.spread
    return replace(learnt, removed=weights, kept=weights, spread=spread)


def moments(masses: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return mean and standard deviation of the share of targets among the first K, for all K < N."""
    shares = np.cumsum(masses, axis=0)[:-1]
    mean = shares @ weights / weights.sum()
    return mean, np.sqrt((shares - mean[:, None]) ** 2 @ weights / weights.sum())


def posteriors(
    prior: RankPrior,
) -> tuple[Draws, tuple[FloatArray, FloatArray], tuple[FloatArray, FloatArray]]:
    """Return the draws, and the moments by them and by brute force."""
    evidence, generator = evidence_of(SAMPLE), np.random.default_rng(4)
    drawn = draw_curves(evidence, make_curves(prior, GRID), prior, "removed", 20_000, generator)
    curves = draw_prior(prior, GRID, "removed", 200_000, generator)
    weights = likelihoods(evidence, curves.masses)
    assert weights.sum() ** 2 / (weights**2).sum() > 4000
    return drawn, moments(drawn.masses, drawn.weights), moments(curves.masses, weights)


@pytest.mark.slow
def test_one_component_is_the_exact_posterior() -> None:
    """With scale and shape given, all errors are Monte Carlo: means to 0.06 sd (4 errors), spreads to 6 %."""
    drawn, (mean, sd), (wanted, wanted_sd) = posteriors(alone(1, 0))
    assert (np.abs(mean - wanted) < 0.06 * wanted_sd).all()
    np.testing.assert_allclose(sd, wanted_sd, rtol=0.06)
    assert drawn.scale_weights[1] > 0.999 and drawn.shape_weights[0] > 0.999


@pytest.mark.slow
def test_mixture_is_close_to_the_posterior() -> None:
    """Weights of scales and shapes are Laplace's: means to 0.1 standard deviations, spreads to 10 %."""
    prior = learnt_prior()
    drawn, (mean, sd), (wanted, wanted_sd) = posteriors(prior)
    assert (np.abs(mean - wanted) < 0.1 * wanted_sd).all()
    np.testing.assert_allclose(sd, wanted_sd, rtol=0.1)
    assert drawn.weights.sum() == pytest.approx(1) and drawn.effective_size > 1000
    np.testing.assert_allclose(drawn.masses.sum(axis=0), 1)


@pytest.mark.slow
def test_weights_of_shapes_are_their_marginal_likelihoods() -> None:
    """Posterior probabilities of scales and shapes by brute force, to 0.03."""
    prior, evidence = learnt_prior(), evidence_of(SAMPLE)
    drawn = draw_curves(evidence, make_curves(prior, GRID), prior, "kept", 400, np.random.default_rng(1))
    curves = draw_prior(prior, GRID, "kept", 200_000, np.random.default_rng(2))
    weights = likelihoods(evidence, curves.masses)
    for found, which, n in (
        (drawn.scale_weights, curves.scale, len(SCALES)),
        (drawn.shape_weights, curves.shape, len(SHAPES)),
    ):
        wanted = np.bincount(which, weights, minlength=n) / weights.sum()
        np.testing.assert_allclose(found, wanted, rtol=0, atol=0.03)


def test_mode_is_a_maximum() -> None:
    """No step along the basis raises the log-posterior by more than the tolerance of the search."""
    evidence, curves = evidence_of(SAMPLE), make_curves(learnt_prior(), GRID)
    offset = curves.mean + curves.log_widths
    mode = find_mode(evidence, offset, curves.vectors)

    def height(x: FloatArray) -> float:
        masses = normalised(offset + curves.vectors @ x)
        return float(evidence.log_likelihood(masses)) - float(x @ x) / 2

    best = height(mode.x)
    np.testing.assert_allclose(mode.masses, normalised(offset + curves.vectors @ mode.x))
    for direction in np.eye(len(mode.x)):
        for size in (-0.3, -0.03, 0.03, 0.3):
            assert height(mode.x + size * direction) < best + 1e-3
    again = find_mode(evidence, offset, curves.vectors, mode.x + 0.5)
    assert height(again.x) == pytest.approx(best, abs=2e-3)


def test_informed_and_free_combinations_make_up_the_basis() -> None:
    evidence, curves = evidence_of(SAMPLE), make_curves(learnt_prior(), GRID)
    informed, free = informed_basis(evidence, curves)
    assert 0 < informed.shape[1] < curves.vectors.shape[1]
    together = informed @ informed.T + free @ free.T
    np.testing.assert_allclose(together, curves.vectors @ curves.vectors.T, atol=1e-10)


def test_more_data_narrow_what_they_inform_about() -> None:
    """With a hundred times the users the mean rank, which samples identify, is known ten times as well.

    Rank 1, a matter of the prior, gains less than half of that.
    """
    prior = learnt_prior()
    curves = make_curves(prior, GRID)
    usual = normalised(curves.mean + curves.log_widths)
    spread = np.empty((2, 2))
    for row, n_users in enumerate((200, 20_000)):
        generator = np.random.default_rng(0)
        ranks = Ranks.single(generator.choice(N, n_users, p=usual), n_pool=N)
        evidence = evidence_of(simulate_sample(ranks, 5))
        drawn = draw_curves(evidence, curves, prior, "removed", 2000, generator)
        for column, gain in enumerate((np.arange(N), np.arange(N) == 0)):
            values = gain @ drawn.masses
            spread[row, column] = np.sqrt(drawn.weights @ (values - drawn.weights @ values) ** 2)
    narrowed = spread[0] / spread[1]
    assert narrowed[0] > 7 and narrowed[1] < narrowed[0] / 2
