"""Shares of targets by rank, in bins of half a doubling: known, seen in a sample, and inferred from it."""

from __future__ import annotations

import numpy as np

from truerank.core.ranks import Ranks, TiePolicy
from truerank.core.tally import Tally
from truerank.core.types import FloatArray, IntArray
from truerank.estimators.mixture import MixtureEstimator
from truerank.estimators.plug_in import kind_masses

_NARROW = 2**0.25  # a last bin below half of the usual width joins the one before


def rank_edges(n_ranks: int) -> IntArray:
    """Return the first rank of each bin and, at the end, the one after the last; two bins to a doubling.

    Examples
    --------
    >>> rank_edges(20).tolist(), rank_edges(1).tolist()
    ([1, 2, 3, 4, 6, 8, 11, 16, 21], [1, 2])
    """
    halves = np.arange(2 * int(n_ranks).bit_length() + 1) / 2
    edges = np.unique(np.rint(2**halves).astype(np.int64))
    edges = edges[edges <= n_ranks]
    if len(edges) > 1 and (n_ranks + 1) / edges[-1] < _NARROW:
        edges = edges[:-1]
    return np.append(edges, n_ranks + 1)


def per_doubling(cumulative: FloatArray, edges: IntArray) -> FloatArray:
    """Return the share of each bin over its width in doublings, from shares below the edges.

    Examples
    --------
    >>> per_doubling(np.array([0.0, 0.25, 1.0]), np.array([1, 2, 8])).tolist()
    [0.25, 0.375]
    """
    density: FloatArray = np.diff(cumulative) / np.diff(np.log2(edges))
    return density


def exact_below(ranks: Ranks, edges: IntArray, ties: TiePolicy = "expected") -> FloatArray:
    """Return the share of targets that stand above each edge; tied ones are spread over their block.

    Every target counts alike.

    Examples
    --------
    >>> exact_below(Ranks.single([0, 3], n_pool=10, n_tied=1), np.array([1, 2, 5, 11])).tolist()
    [0.0, 0.25, 0.75, 1.0]
    """
    first = ranks.worst if ties == "worst" else ranks.best
    last = ranks.best if ties == "best" else ranks.worst
    width = last - first + 1
    return np.array([float((np.clip(edge - first, 0, width) / width).mean()) for edge in edges.tolist()])


def sampled_below(counted: Tally, edges: IntArray) -> FloatArray:
    """Return the share of targets above each edge when a sampled rank stands for its part of the pool.

    With j of m negatives above it a target is taken to lie in the (j + 1)-th of m + 1 equal parts of the
    candidates, at any place of it on a logarithmic scale alike; other targets above it are added.

    Examples
    --------
    >>> from truerank.core.ranks import SampledRanks
    >>> from truerank.core.tally import tally
    >>> sample = SampledRanks.single([0, 1], n_negatives=1, n_pool=16)  # ranks 1 to 8, and 9 to 16
    >>> sampled_below(tally(sample), np.array([1, 3, 9, 17])).round(12).tolist()
    [0.0, 0.25, 0.5, 1.0]
    """
    cells = np.flatnonzero(counted.cell_weights)
    weight = counted.cell_weights[cells]
    of = np.searchsorted(counted.offsets, cells, side="right") - 1
    contexts = counted.contexts
    width = (contexts.n_candidates[of] + 1) / (contexts.n_negatives[of] + 1)
    first = 1 + contexts.n_relevant_above[of] + (cells - counted.offsets[of]) * width
    start, length = np.log(first), np.log1p(width / first)
    shares = [weight @ np.clip((np.log(edge) - start) / length, 0, 1) for edge in edges.tolist()]
    return np.array(shares) / counted.n_rows


def inferred_below(counted: Tally, edges: IntArray, estimator: MixtureEstimator) -> FloatArray:
    """Return the share of targets above each edge under the distribution that an estimator fits.

    Raises
    ------
    CannotEstimate
        When the estimator cannot treat the sample.
    """
    likelihood, fit = estimator.fit_tallies([counted])
    masses, kind = kind_masses(likelihood, fit.masses[0], 0, counted)
    contexts = counted.contexts
    weight = np.add.reduceat(counted.cell_weights, counted.offsets[:-1]) / counted.n_rows
    below = np.zeros(len(edges))
    for context in range(len(contexts)):
        above = edges - 1 - contexts.n_relevant_above[context]
        share = np.clip(above / (contexts.n_candidates[context] + 1), 0, 1)
        below += weight[context] * likelihood.grid.cdf(masses[kind[context]], share)
    return below
