r"""Posterior of the curve of ranks given a sample: modes, their weights, and weighted draws.

A curve is a log-density over bins of ranks, offset + basis @ x with x standard normal a priori. The sampled
ranks are a mixture over bins, so the posterior of x is not Gaussian; it is approximated by a Gaussian at its
mode (Laplace), once for every scale and shape of the prior. These approximations give the weights of the
scales and shapes, and the draws, which are then reweighted to the exact posterior (importance sampling).

Only a few dozen combinations of the basis are informed by a sample; they are found once, at the first mode.
In all others the posterior is the prior.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve, eigh, solve_triangular

from truerank.core.types import FloatArray
from truerank.inference.posterior.prior import SCALES, CurveBasis, RankPrior, SeenItems

_STEPS = 60
_NEAR = 1e-3  # log-posterior that a Newton step may still gain at the mode
_INFORMED = 0.01  # information, relative to the prior, from which a combination counts as informed
_RARE = 0.004  # components of smaller posterior probability are not drawn from
_FEWEST = 60  # draws of a component
_FLOOR = 1e-300


@dataclass(frozen=True, eq=False)
class Evidence:
    """Groups of sampled ranks: how many targets have each, and how probable each is in each bin.

    Parameters
    ----------
    matrix : (n_groups, n_bins) P(group | bin) up to a factor per group
    counts : (n_groups,) targets, positive
    """

    matrix: FloatArray
    counts: FloatArray

    @property
    def n_rows(self) -> float:
        """The number of targets."""
        return float(self.counts.sum())

    def log_likelihood(self, masses: FloatArray) -> FloatArray:
        """Return the log-likelihood of masses (n_bins, ...), up to a constant."""
        predicted = np.maximum(self.matrix @ masses, _FLOOR)
        height: FloatArray = self.counts @ np.log(predicted)
        return height


def normalised(heights: FloatArray) -> FloatArray:
    """Return the masses whose logarithms are the heights up to a constant, along the first axis."""
    masses: FloatArray = np.exp(heights - heights.max(axis=0))
    masses /= masses.sum(axis=0)
    return masses


@dataclass(frozen=True, eq=False)
class Mode:
    """The most probable curve and the precision of the posterior around it.

    Parameters
    ----------
    x : (n,) coordinates in the basis
    masses : (n_bins,) the distribution
    factor : lower Cholesky factor of the precision
    log_marginal : of the data, by Laplace's approximation, up to a constant
    """

    x: FloatArray
    masses: FloatArray
    factor: FloatArray
    log_marginal: float


def find_mode(
    evidence: Evidence, offset: FloatArray, basis: FloatArray, start: FloatArray | None = None
) -> Mode:
    """Return the mode: Fisher scoring with steps halved until the posterior rises."""
    n, counts = evidence.n_rows, evidence.counts
    x = np.zeros(basis.shape[1]) if start is None else start
    unit = np.eye(len(x))
    masses, predicted, height = _evaluate(evidence, offset, basis, x)
    for _ in range(_STEPS):
        scores = _scores(evidence, basis, masses, predicted)
        gradient = counts @ scores - x
        precision = (scores * counts[:, None]).T @ scores + unit
        factor, _ = cho_factor(precision, lower=True, check_finite=False)
        direction = cho_solve((factor, True), gradient, check_finite=False)
        gain = float(gradient @ direction) / 2
        if gain < _NEAR:
            break
        size = 1.0
        moved = _evaluate(evidence, offset, basis, x + direction)
        while not moved[2] >= height + 0.2 * size * gain and size > 1e-6:
            size /= 2
            moved = _evaluate(evidence, offset, basis, x + size * direction)
        if not moved[2] > height:
            break
        x = x + size * direction
        masses, predicted, height = moved
    # observed information, where it is positive definite; the Fisher information otherwise
    weighted = masses[:, None] * basis
    mean = weighted.sum(axis=0)
    given = evidence.matrix @ weighted / predicted[:, None]
    expected = masses * ((counts / predicted) @ evidence.matrix)
    observed = unit + basis.T @ ((n * masses - expected)[:, None] * basis)
    observed += (given * counts[:, None]).T @ given - n * np.outer(mean, mean)
    with suppress(np.linalg.LinAlgError):
        factor, _ = cho_factor(observed, lower=True, check_finite=False)
    return Mode(x, masses, np.tril(factor), height - float(np.log(np.diag(factor)).sum()))


def _evaluate(
    evidence: Evidence, offset: FloatArray, basis: FloatArray, x: FloatArray
) -> tuple[FloatArray, FloatArray, float]:
    """Return masses, their probabilities of the groups, and the log-posterior."""
    masses = normalised(offset + basis @ x)
    predicted = np.maximum(evidence.matrix @ masses, _FLOOR)
    return masses, predicted, float(evidence.counts @ np.log(predicted)) - float(x @ x) / 2


def _scores(evidence: Evidence, basis: FloatArray, masses: FloatArray, predicted: FloatArray) -> FloatArray:
    """Return the derivatives of the log-probability of each group, (n_groups, n)."""
    weighted = masses[:, None] * basis
    scores: FloatArray = evidence.matrix @ weighted / predicted[:, None] - weighted.sum(axis=0)
    return scores


@dataclass(frozen=True, eq=False)
class Draws:
    """Weighted draws from the posterior.

    Parameters
    ----------
    masses : (n_bins, n_draws) distributions over bins
    weights : (n_draws,) they sum to 1
    scale_weights : (n_scales,) posterior probabilities of ``SCALES``
    shape_weights : (n_shapes,) and of ``SHAPES``
    """

    masses: FloatArray
    weights: FloatArray
    scale_weights: FloatArray
    shape_weights: FloatArray

    @property
    def effective_size(self) -> float:
        """How many unweighted draws would be as precise."""
        return 1 / float((self.weights**2).sum())


def draw_curves(
    evidence: Evidence,
    curves: CurveBasis,
    prior: RankPrior,
    seen: SeenItems,
    n_draws: int,
    generator: np.random.Generator,
) -> Draws:
    """Return draws of the distribution over bins, given the evidence."""
    informed, free = informed_basis(evidence, curves)
    base = curves.mean + curves.log_widths
    shape_weights = prior.shape_weights(seen)
    shapes = np.flatnonzero(shape_weights)
    log_prior = np.log(prior.scale_weights())[:, None] + np.log(shape_weights[shapes])
    modes: list[list[Mode]] = []
    for scale in SCALES:
        row: list[Mode] = []
        for shape in curves.shapes[shapes]:
            start = row[-1].x if row else modes[-1][0].x * SCALES[len(modes) - 1] / scale if modes else None
            row.append(find_mode(evidence, base + shape, scale * informed, start))
        modes.append(row)
    log_weights = log_prior + np.array([[mode.log_marginal for mode in row] for row in modes])
    weights = np.zeros((len(SCALES), len(shape_weights)))
    weights[:, shapes] = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    masses, shares = [], []
    for (i, j), weight in np.ndenumerate(weights):
        if weight < _RARE:
            continue
        size = 2 * max(round(n_draws * weight / 2), _FEWEST // 2)
        mode, scale = modes[i][int(np.searchsorted(shapes, j))], SCALES[i]
        z = _antithetic(generator, len(mode.x), size)
        x = mode.x[:, None] + solve_triangular(mode.factor.T, z, lower=False, check_finite=False)
        heights = (base + curves.shapes[j])[:, None] + scale * (informed @ x)
        heights += scale * (free @ _antithetic(generator, free.shape[1], size))
        drawn = normalised(heights)
        ratio = evidence.log_likelihood(drawn) - ((x**2).sum(axis=0) - (z**2).sum(axis=0)) / 2
        share = np.exp(ratio - ratio.max())
        share = np.minimum(share, share.mean() * np.sqrt(size))
        masses.append(drawn)
        shares.append(share * (weight / share.sum()))
    drawn_weights = np.concatenate(shares)
    return Draws(
        np.concatenate(masses, axis=1),
        drawn_weights / drawn_weights.sum(),
        weights.sum(axis=1),
        weights.sum(axis=0),
    )


def informed_basis(evidence: Evidence, curves: CurveBasis) -> tuple[FloatArray, FloatArray]:
    """Return the combinations of the basis that the sample informs about, and the others, (n_bins, ...)."""
    mode = find_mode(evidence, curves.mean + curves.log_widths, curves.vectors)
    predicted = np.maximum(evidence.matrix @ mode.masses, _FLOOR)
    scores = _scores(evidence, curves.vectors, mode.masses, predicted)
    information = (scores * evidence.counts[:, None]).T @ scores
    values, rotation = eigh(information, check_finite=False)
    is_informed = values > _INFORMED
    return curves.vectors @ rotation[:, is_informed], curves.vectors @ rotation[:, ~is_informed]


def _antithetic(generator: np.random.Generator, n: int, size: int) -> FloatArray:
    """Return standard normal columns, the second half the negative of the first, (n, size)."""
    half = generator.standard_normal((n, size // 2))
    return np.concatenate([half, -half], axis=1)
