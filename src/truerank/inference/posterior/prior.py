r"""Prior distribution of a recommender's ranks, learnt from exact ranks of real models on real data sets.

The logarithm of the density of global ranks is a random curve over log-rank. Its slope is a Gaussian process:
where a sample says nothing about ranks, the slope returns to a mean and the curve becomes a power law, with
an uncertainty that grows with every factor of ranks. Roughness from rank to rank is added to it, and at the
first ranks the curve may be pushed down, as it is by seen items that stay in the list. How rough a curve is
as a whole, and how far it is pushed down, are mixed over.

The constants are data: ``rank_prior.json`` beside this module, written by ``python -m benchmarks.rank_prior``
together with the data sets and models they were learnt from.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from functools import cache, lru_cache
from importlib import resources
from typing import Any, Literal, TypeAlias

import numpy as np
from scipy.special import expit

from truerank.core.types import FloatArray, frozen
from truerank.estimation.distribution.likelihood import RankGrid

#: Whether items that users already know stay in the list; ``unknown`` averages the weights of both.
SeenItems: TypeAlias = Literal["removed", "kept", "unknown"]
#: Roughness of a curve relative to the usual one: the grid that is summed over.
SCALES = np.exp(np.array([-0.6, 0.0, 0.6, 1.2, 1.8]))
#: Shapes of the first ranks, beyond what the smooth curve has; see ``shape_heights``. Seen items that stay in
#: the list take the first ranks from the targets, in part (``drop``) or wholly (``shift``).
SHAPES: tuple[tuple[str, float, float], ...] = (
    ("none", 0, 0),
    ("drop", 4, 1),
    ("drop", 15, 1),
    ("drop", 15, 3),
    ("drop", 25, 6),
    ("shift", 1, 0),
    ("shift", 2, 0.5),
    ("shift", 5, 0.5),
    ("shift", 15, 0.5),
    ("first", 2, 0),
    ("first", -1.5, 0),
    ("second", 2, 0),
)
#: Unresolved ranks, N/(m + 1), up to which and from which on the level of intervals is that of few and many.
FEW, MANY = 30, 150
_STEP = 0.1  # of the grid over which slopes are integrated, in log-rank
_RANK = 96  # eigenvectors of the covariance that are kept
_EMPTY = 0.01  # density, relative to the curve, where a shape leaves nothing
_LEAST = 1e-4  # smallest eigenvalue that is kept: a standard deviation of 1 % in one bin


@dataclass(frozen=True)
class RankPrior:
    r"""Constants of the prior of a distribution of global ranks.

    With u = log((R - 1/2)/(N - R + 1/2)) for rank R of N, the log-density is

    .. math:: f(u) = \int_{-1}^u s(v) dv + \text{roughness} + \text{shape of the first ranks} - c

    where s is a Gaussian process with exponentially decaying correlation.

    Parameters
    ----------
    top_slope, bulk_slope : mean of s at the first ranks and elsewhere
    top_sd, bulk_sd : its standard deviation there
    range : distance in u over which its correlation falls by e
    common_sd : standard deviation of a constant that is added to s at the first ranks
    rank_sd : of independent noise at each rank
    local_sd, local_range : of short-range roughness, and its range in u
    first_sd : of what rank 1 has of its own
    spread : standard deviation of the logarithm of the scale that multiplies all deviations
    removed, kept : weights of ``SHAPES`` where seen items are removed from the list, or kept
    widening_removed, widening_kept : an interval of level 1 - a is the central 1 - widening a of the
        posterior, where seen items are removed, and where they are kept or it is not known
    widening_many : the same for samples that leave ``MANY`` ranks or more unresolved; see ``widening``
    sharing : correlation of the errors of two models that were tested on the same users; see ``difference``
    """

    top_slope: float
    bulk_slope: float
    top_sd: float
    bulk_sd: float
    range: float
    common_sd: float
    rank_sd: float
    local_sd: float
    local_range: float
    first_sd: float
    spread: float
    removed: tuple[float, ...]
    kept: tuple[float, ...]
    widening_removed: float
    widening_kept: float
    widening_many: float
    sharing: float = field(default=0.0, repr=False)  # posteriors of single models do not depend on it

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> RankPrior:
        """Return the prior with the constants of a JSON object."""
        constants: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list | tuple) else float(value)
            for name, value in values.items()
        }
        return cls(**constants)

    def to_json(self) -> dict[str, Any]:
        """Return the constants as a JSON object."""
        return asdict(self)

    def scale_weights(self) -> FloatArray:
        """Return the prior probabilities of ``SCALES``."""
        height = np.exp(-((np.log(SCALES) / self.spread) ** 2) / 2)
        weights: FloatArray = height / height.sum()
        return weights

    def shape_weights(self, seen: SeenItems) -> FloatArray:
        """Return the prior probabilities of ``SHAPES``."""
        removed, kept = np.array(self.removed), np.array(self.kept)
        weights: FloatArray = {"removed": removed, "kept": kept, "unknown": (removed + kept) / 2}[seen]
        weights /= weights.sum()
        return weights

    def widening(self, seen: SeenItems, resolved: float) -> float:
        """Return which part of 1 - level an interval leaves outside, given the first rank that is resolved.

        Up to ``FEW`` unresolved ranks the roughness of single ranks matters most. Data sets differ in it more
        than the prior can say, so intervals are wider than their level. With ``MANY`` the slope of the curve
        matters, about which the prior is right more often. In between the logarithm is interpolated.
        """
        few = self.widening_removed if seen == "removed" else self.widening_kept
        logs = np.interp(np.log(max(resolved, 1)), np.log([FEW, MANY]), np.log([few, self.widening_many]))
        return float(np.exp(logs))

    def moments(self, grid: RankGrid) -> tuple[FloatArray, FloatArray]:
        """Return mean (n_bins,) and covariance of the log-density in the bins of a grid, at scale 1."""
        n, middle, widths = grid.n_ranks, middle_ranks(grid), np.diff(grid.edges)
        edge = float(log_odds(np.array([1.0]), n)[0]) - 2 * _STEP
        points = np.arange(edge, -edge + _STEP, _STEP)
        near_top = 1 - expit((points + 1.5) / 0.5)
        sd = self.bulk_sd + (self.top_sd - self.bulk_sd) * near_top
        slope = np.exp(-np.abs(points[:, None] - points) / self.range) * np.outer(sd, sd)
        slope += np.outer(near_top, near_top) * self.common_sd**2
        bulk = expit((points + 2.5) / 0.7)
        mean_slope = self.top_slope * (1 - bulk) + self.bulk_slope * bulk
        u = log_odds(middle, n)
        integral = _integrals(points, u)
        covariance = integral @ slope @ integral.T
        covariance += self.local_sd**2 * np.exp(-np.abs(u[:, None] - u) / self.local_range)
        covariance += np.diag(self.rank_sd**2 / widths + self.first_sd**2 * (middle == 1))
        return integral @ mean_slope, covariance


def middle_ranks(grid: RankGrid) -> FloatArray:
    """Return the mean rank of each bin."""
    middle: FloatArray = (grid.edges[:-1] + 1 + grid.edges[1:]) / 2
    return middle


def log_odds(rank: FloatArray, n_ranks: int) -> FloatArray:
    """Return u(R) = log((R - 1/2)/(N - R + 1/2)): log-rank at the first ranks, symmetric about the middle."""
    u: FloatArray = np.log((rank - 0.5) / (n_ranks - rank + 0.5))
    return u


def _integrals(points: FloatArray, u: FloatArray) -> FloatArray:
    """Return the matrix that integrates values at the points from -1 to each u, (len(u), len(points))."""
    sums = np.tril(np.full((len(points), len(points)), _STEP)) - np.eye(len(points)) * _STEP / 2
    sums -= sums[np.argmin(np.abs(points + 1))]
    left = np.clip(((u - points[0]) / _STEP).astype(np.int64), 0, len(points) - 2)
    part = ((u - points[left]) / _STEP)[:, None]
    result: FloatArray = sums[left] * (1 - part) + sums[left + 1] * part
    return result


def shape_heights(grid: RankGrid, kind: str, size: float, more: float) -> FloatArray:
    """Return what a shape of the first ranks adds to the log-density in each bin.

    ``drop`` divides the density at rank R by 1 + (size/R)^more. ``shift`` pushes the list down by about
    ``size`` items, by a log-normal number with standard deviation ``more`` over users: where h items come
    first, the density at R > h is that of rank R - h, a factor (R/(R - h))^(1/2) for curves with the usual
    slope. ``first`` multiplies the density at rank 1 by e^size; ``second`` that at rank 2, and leaves rank 1
    empty. ``none`` adds nothing.
    """
    rank = middle_ranks(grid)
    heights: FloatArray = np.zeros(len(rank))
    if kind == "drop":
        heights = -np.log1p((size / rank) ** more)
    if kind == "first":
        heights[rank == 1] = size
    if kind == "second":
        heights[rank == 1], heights[rank == 2] = np.log(_EMPTY), size
    if kind == "shift":
        z = np.linspace(-1.5, 1.5, 13)
        weights = np.exp(-(z**2) / 2)
        left = rank[:, None] - size * np.exp(more * z)
        factor = np.where(left > 0.3, np.sqrt(rank[:, None] / np.maximum(left, 0.3)), 0.0)
        heights = np.log(np.maximum(factor @ weights / weights.sum(), _EMPTY))
    return heights


@dataclass(frozen=True, eq=False)
class CurveBasis:
    """The prior's curves over one grid: mean + vectors @ x with x standard normal, at scale 1.

    Parameters
    ----------
    mean : (n_bins,) of the log-density per rank, without a shape
    vectors : (n_bins, n_vectors) eigenvectors of the covariance times the roots of their eigenvalues
    shapes : (n_shapes, n_bins) what each of ``SHAPES`` adds
    log_widths : (n_bins,) logarithm of the number of ranks of each bin
    """

    mean: FloatArray
    vectors: FloatArray
    shapes: FloatArray
    log_widths: FloatArray


def make_curves(prior: RankPrior, grid: RankGrid) -> CurveBasis:
    """Return the curves over a grid; those of the last grids are kept."""
    return _curves(prior, grid.edges.tobytes())


@lru_cache(maxsize=16)
def _curves(prior: RankPrior, edges: bytes) -> CurveBasis:
    from scipy.linalg import eigh

    grid = RankGrid(np.frombuffer(edges, dtype=np.int64))
    mean, covariance = prior.moments(grid)
    n = grid.n_bins
    values, vectors = eigh(covariance, subset_by_index=[max(n - _RANK, 0), n - 1], check_finite=False)
    is_kept = values > _LEAST
    shapes = np.stack([shape_heights(grid, *shape) for shape in SHAPES])
    vectors = vectors[:, is_kept] * np.sqrt(values[is_kept])
    return CurveBasis(
        frozen(mean), frozen(vectors[:, ::-1]), frozen(shapes), frozen(np.log(np.diff(grid.edges)))
    )


@cache
def learnt_prior() -> RankPrior:
    """Return the prior that ships with the package."""
    text = resources.files("truerank.inference.posterior").joinpath("rank_prior.json").read_text()
    return RankPrior.from_json(json.loads(text)["prior"])
