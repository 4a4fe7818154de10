"""Table of the metrics, the names of metrics as other libraries define them, and several metrics at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from truerank.core.plugin import Registry
from truerank.core.ranks import Ranks, TiePolicy
from truerank.core.types import FloatArray
from truerank.metrics.base import Metric, RankMetric
from truerank.metrics.ties import ResolvedRanks

TABLE = {
    "ap": "truerank.metrics.ap:Ap",
    "auc": "truerank.metrics.auc:Auc",
    "err": "truerank.metrics.err:Err",
    "hit": "truerank.metrics.hit:Hit",
    "mrr": "truerank.metrics.mrr:Mrr",
    "ndcg": "truerank.metrics.ndcg:Ndcg",
    "precision": "truerank.metrics.precision:Precision",
    "recall": "truerank.metrics.recall:Recall",
}

#: Metrics that a library does not compute, or not as a mean over users, are not listed; see docs/metrics.md.
PRESETS = {
    "hr": "hit",
    "map": "ap",
    "rr": "mrr",
    "implicit.auc": "auc",
    "implicit.map": "ap",
    "implicit.ndcg": "ndcg",
    "ir-measures.hit": "hit",
    "ir-measures.map": "ap(norm=rel)",
    "ir-measures.mrr": "mrr",
    "ir-measures.ndcg": "ndcg",
    "ir-measures.precision": "precision",
    "ir-measures.recall": "recall",
    "lenskit.hit": "hit",
    "lenskit.map": "ap",
    "lenskit.mrr": "mrr",
    "lenskit.ndcg": "ndcg(discount=clip)",
    "lenskit.precision": "precision",
    "lenskit.recall": "recall(norm=min)",
    "ranx.hit": "hit",
    "ranx.map": "ap(norm=rel)",
    "ranx.mrr": "mrr",
    "ranx.ndcg": "ndcg",
    "ranx.precision": "precision",
    "ranx.recall": "recall",
    "recbole.hit": "hit",
    "recbole.map": "ap",
    "recbole.mrr": "mrr",
    "recbole.ndcg": "ndcg",
    "recbole.precision": "precision",
    "recbole.recall": "recall",
    "rectools.hit": "hit",
    "rectools.map": "ap(norm=rel)",
    "rectools.mrr": "mrr",
    "rectools.ndcg": "ndcg(ideal=k)",
    "rectools.precision": "precision",
    "rectools.recall": "recall",
    "torchmetrics.hit": "hit",
    "torchmetrics.map": "ap(norm=hits)",
    "torchmetrics.mrr": "mrr",
    "torchmetrics.ndcg": "ndcg",
    "torchmetrics.precision": "precision",
    "torchmetrics.recall": "recall",
}

METRICS: Registry[Metric] = Registry("metric", TABLE, PRESETS, base=Metric)


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
    resolved = ResolvedRanks.of(ranks, ties, seed)
    result = np.empty((ranks.n_users, len(metrics)))
    for column, metric in enumerate(metrics):
        if isinstance(metric, RankMetric):
            result[:, column] = metric.totals(resolved)
        else:
            result[:, column] = metric.per_user(ranks, ties=ties, seed=seed)
    return result
