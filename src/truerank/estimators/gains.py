"""Mean gain of a metric over each bin of a grid."""

from __future__ import annotations

import numpy as np

from truerank.core.metric import Metric
from truerank.core.tally import Contexts
from truerank.core.types import FloatArray
from truerank.estimators.grid import Grid
from truerank.estimators.normal import gain_at


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
    for row in range(len(contexts)):
        one = contexts.take(np.array([row]))
        size = int(one.n_candidates[0]) + 1
        head = size if metric.cutoff is None else min(size, metric.cutoff)
        tail = gain_at(metric, np.array([head]), one)[0, 0] if head < size else 0.0
        gains = gain_at(metric, np.arange(head), one)[0] - tail
        edges = grid.edges_in(size)
        sums = np.interp(edges, np.arange(head + 1), np.concatenate([[0.0], np.cumsum(gains)]))
        result[row] = np.diff(sums) / np.diff(edges) + tail
    return result
