"""Results made by hand, for the tests of the report."""

from __future__ import annotations

import numpy as np

from truerank.core.ranks import Ranks
from truerank.core.result import Estimate, Result

MODELS = ("popularity", "item-knn(power=3, norm=l2)", "ease(reg=500)")
METRICS = ("ndcg@10", "recall@10", "auc")


def make_result(
    models: tuple[str, ...] = MODELS,
    metrics: tuple[str, ...] = METRICS,
    *,
    name: str = "demo",
    n_users: int = 200,
    n_items: int = 1000,
) -> Result:
    """A result in which later models are better on every metric."""
    stream = np.random.default_rng(7)
    estimates, ranks = [], {}
    for position, model in enumerate(models):
        above = (n_items * stream.random(n_users) ** (2 + position)).astype(np.int64)
        ranks[model] = Ranks.single(above, n_pool=n_items)
        for column, metric in enumerate(metrics):
            value = 0.11 + 0.1 * position + 0.0123 * column
            estimates.append(
                Estimate(
                    model, metric, value, value - 0.01, value + 0.01, 0.95, method="bca", n_users=n_users
                )
            )
    return Result(
        command="evaluate",
        estimates=tuple(estimates),
        data={"name": name, "split": "leave-last-out", "n_users": n_users + 3, "users_without_targets": 3},
        provenance={
            "seed": 12345,
            "data_hash": "9f86d081884c7d65",
            "versions": {"numpy": "2.1.0"},
            "seconds": {model: {"fit": 1.25, "rank": 0.5} for model in models},
            "scores_computed": dict.fromkeys(models, n_users * n_items),
        },
        ranks=ranks,
    )
