"""Mean gain of a metric over each bin of a grid."""

from __future__ import annotations

import numpy as np

from truerank.core.metric import Metric
from truerank.core.tally import Contexts
from truerank.core.types import FloatArray, IntArray
from truerank.estimators.grid import Grid
from truerank.estimators.normal import gain_at

_CHUNK = 1 << 21  # gains held at once: 16 MB


def bin_gains(metric: Metric, contexts: Contexts, grid: Grid) -> FloatArray:
    """Return the mean gain over the ranks of each bin, (n_contexts, n_bins).

    Sums up to an edge are exact; ranks beyond the metric's cut-off share one gain and are not gone through.

    Examples
    --------
    >>> from truerank.core.ranks import SampledRanks
    >>> from truerank.core.tally import tally
    >>> from truerank.metrics import make_metrics
    >>> contexts = tally(SampledRanks.single([0], n_negatives=2, n_pool=9)).contexts
    >>> bin_gains(make_metrics("recall@3")[0], contexts, Grid(np.array([0, 1, 5, 9]))).tolist()
    [[1.0, 0.5, 0.0]]
    """
    result = np.empty((len(contexts), grid.n_bins))
    sizes = contexts.n_candidates + 1
    heads = sizes if metric.cutoff is None else np.minimum(sizes, metric.cutoff)
    for head in np.unique(heads).tolist():
        rows = np.flatnonzero(heads == head)
        step = max(_CHUNK // max(head, grid.n_bins), 1)
        for start in range(0, len(rows), step):
            part = rows[start : start + step]
            result[part] = _means(metric, contexts.take(part), grid, head)
    return result


def _means(metric: Metric, contexts: Contexts, grid: Grid, head: int) -> FloatArray:
    """Return the mean gains of contexts whose gain varies over the first ``head`` ranks only."""
    sizes = (contexts.n_candidates + 1)[:, None]
    has_tail = sizes > head
    tail = np.where(has_tail, gain_at(metric, np.array([head]), contexts), 0.0) if has_tail.any() else 0.0
    gains = gain_at(metric, np.arange(head), contexts) - tail
    result = np.broadcast_to(tail, (len(sizes), grid.n_bins)).copy()
    # bins that begin within the head in the smallest pool
    n_bins = int(np.searchsorted(grid.edges[:-1] * int(sizes.min()), head * grid.n_ranks))
    sums = _sums(gains, grid.edges[: n_bins + 1] * sizes, grid.n_ranks)
    result[:, :n_bins] += np.diff(sums) / (np.diff(grid.edges[: n_bins + 1]) * (sizes / grid.n_ranks))
    return result


def _sums(gains: FloatArray, edges: IntArray, unit: int) -> FloatArray:
    """Return the sum of the first edges/unit gains of each row; the last rank in part."""
    head = gains.shape[1]
    whole = np.minimum(edges // unit, head)
    part = (edges - whole * unit) / unit
    row = np.arange(len(gains))[:, None]
    below = np.concatenate([np.zeros((len(gains), 1)), np.cumsum(gains, axis=1)], axis=1)
    at = np.where(whole < head, gains[row, np.minimum(whole, head - 1)], 0.0)
    sums: FloatArray = below[row, whole] + part * at
    return sums
