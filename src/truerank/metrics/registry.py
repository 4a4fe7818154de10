"""The table of metrics and the names other libraries give them."""

from __future__ import annotations

from truerank.core.metric import Metric
from truerank.core.registry import Registry

TABLE = {
    "ap": "truerank.metrics.ap:Ap",
    "auc": "truerank.metrics.auc:Auc",
    "hit": "truerank.metrics.hit:Hit",
    "mrr": "truerank.metrics.mrr:Mrr",
    "ndcg": "truerank.metrics.ndcg:Ndcg",
    "precision": "truerank.metrics.precision:Precision",
    "recall": "truerank.metrics.recall:Recall",
}

#: What a library does not compute, or not as a mean over users, has no name here; see docs/metrics.md.
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

METRICS: Registry[Metric] = Registry("metric", TABLE, PRESETS)
