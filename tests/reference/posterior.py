"""Prior and posterior of rank distributions from their definitions: integrals by quadrature, many draws."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from truerank.core.types import FloatArray, IntArray
from truerank.estimation.distribution.likelihood import RankGrid
from truerank.inference.posterior.curves import Evidence
from truerank.inference.posterior.prior import SCALES, SHAPES, RankPrior, SeenItems, shape_heights


def logistic(x: float) -> float:
    """1 / (1 + exp(-x))."""
    return 1 / (1 + math.exp(-x))


def place(rank: float, n_ranks: int) -> float:
    """u, the log-odds of a rank."""
    return math.log((rank - 0.5) / (n_ranks - rank + 0.5))


def slope_mean(prior: RankPrior, u: float) -> float:
    """The mean of the slope of the log-density."""
    bulk = logistic((u + 2.5) / 0.7)
    return prior.top_slope * (1 - bulk) + prior.bulk_slope * bulk


def slope_covariance(prior: RankPrior, u: float, v: float) -> float:
    """The covariance of the slopes at two places."""
    top_u, top_v = 1 - logistic((u + 1.5) / 0.5), 1 - logistic((v + 1.5) / 0.5)
    sd_u = prior.top_sd * top_u + prior.bulk_sd * (1 - top_u)
    sd_v = prior.top_sd * top_v + prior.bulk_sd * (1 - top_v)
    decaying = sd_u * sd_v * math.exp(-abs(u - v) / prior.range)
    return decaying + prior.common_sd**2 * top_u * top_v


def midpoints(a: float, b: float, n: int) -> tuple[list[float], float]:
    """The nodes and the common weight of the midpoint rule from a to b."""
    width = (b - a) / n
    return [a + (i + 0.5) * width for i in range(n)], width


def mean_difference(prior: RankPrior, u: float, v: float, n: int = 400) -> float:
    """The mean of f(v) - f(u)."""
    nodes, width = midpoints(u, v, n)
    return sum(slope_mean(prior, node) for node in nodes) * width


def smooth_covariance(
    prior: RankPrior, first: tuple[float, float], second: tuple[float, float], n: int = 150
) -> float:
    """The covariance of f(b) - f(a) and f(d) - f(c), of the integrated slope alone."""
    left, wide = midpoints(*first, n)
    right, high = midpoints(*second, n)
    return sum(slope_covariance(prior, u, v) for u in left for v in right) * wide * high


def rough_covariance(prior: RankPrior, ranks: Sequence[float], widths: Sequence[float], n: int) -> FloatArray:
    """What is added to the covariance of the integrated slope."""
    result = np.zeros((len(ranks), len(ranks)))
    for i, j in itertools.product(range(len(ranks)), repeat=2):
        apart = abs(place(ranks[i], n) - place(ranks[j], n))
        result[i, j] = prior.local_sd**2 * math.exp(-apart / prior.local_range)
        if i == j:
            result[i, j] += prior.rank_sd**2 / widths[i] + (prior.first_sd**2 if ranks[i] == 1 else 0)
    return result


@dataclass(frozen=True)
class PriorCurves:
    """Distributions drawn from the prior, (n_bins, n), with the numbers of their scales and shapes."""

    masses: FloatArray
    scale: IntArray
    shape: IntArray


def draw_prior(
    prior: RankPrior, grid: RankGrid, seen: SeenItems, size: int, generator: np.random.Generator
) -> PriorCurves:
    """Draw scale, shape and curve, one after the other."""
    mean, covariance = prior.moments(grid)
    factor = np.linalg.cholesky(covariance + 1e-10 * np.eye(len(mean)))
    scale = generator.choice(len(SCALES), size, p=prior.scale_weights())
    shape = generator.choice(len(SHAPES), size, p=prior.shape_weights(seen))
    shapes = np.stack([shape_heights(grid, *each) for each in SHAPES])
    heights = mean[:, None] + shapes[shape].T + np.log(np.diff(grid.edges))[:, None]
    heights = heights + SCALES[scale] * (factor @ generator.standard_normal((len(mean), size)))
    masses = np.exp(heights - heights.max(axis=0))
    return PriorCurves(masses / masses.sum(axis=0), scale, shape)


def likelihoods(evidence: Evidence, masses: FloatArray) -> FloatArray:
    """The likelihood of each drawn distribution, relative to the largest."""
    log: FloatArray = np.zeros(masses.shape[1])
    for row, count in zip(evidence.matrix, evidence.counts, strict=True):
        log += count * np.log(row @ masses)
    relative: FloatArray = np.exp(log - log.max())
    return relative
