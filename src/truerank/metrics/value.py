"""Several metrics at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from truerank.core.metric import Metric
from truerank.core.ranks import Ranks, TiePolicy
from truerank.core.types import FloatArray
from truerank.metrics.base import RankMetric
from truerank.metrics.registry import METRICS
from truerank.metrics.tie import Placement


def make_metrics(written: str | Metric | Sequence[str | Metric]) -> tuple[Metric, ...]:
    """Build metrics from a comma-separated text, a list, or one metric; repeated ones are kept once.

    Examples
    --------
    >>> [str(metric) for metric in make_metrics("ndcg@10, ranx.map@10, ndcg@10")]
    ['ndcg@10', 'ap(norm=rel)@10']
    """
    return METRICS.make_all(written)


def values(
    metrics: Sequence[Metric], ranks: Ranks, *, ties: TiePolicy = "expected", seed: int = 0
) -> FloatArray:
    """Return the value of each metric for each user, (n_users, n_metrics).

    The tie policy is applied once for all metrics.

    Examples
    --------
    >>> values(make_metrics("recall@3,mrr"), Ranks.single([0, 3], n_pool=9)).tolist()
    [[1.0, 1.0], [0.0, 0.25]]
    """
    for metric in metrics:
        if isinstance(metric, RankMetric):
            metric.check_pool(ranks)
    placement = Placement.of(ranks, ties, seed)
    result = np.empty((ranks.n_users, len(metrics)))
    for column, metric in enumerate(metrics):
        if isinstance(metric, RankMetric):
            result[:, column] = metric.totals(placement)
        else:
            result[:, column] = metric.per_user(ranks, ties=ties, seed=seed)
    return result
