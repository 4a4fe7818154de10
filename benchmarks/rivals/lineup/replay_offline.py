"""RePlay: ``OfflineMetrics`` on a polars frame of recommendations; ranking by NumPy."""

from __future__ import annotations

import numpy as np
import polars as pl
from replay.metrics import NDCG, OfflineMetrics, Recall  # type: ignore[import-not-found]

from benchmarks.rivals.job import CUTOFF, Job
from benchmarks.rivals.trial import Values, Way, enter


def prepare(job: Job) -> Way:
    """Build the frame of targets."""
    targets = pl.DataFrame({"query_id": job.target_user, "item_id": job.target_item.astype(np.int64)})
    metrics = OfflineMetrics([NDCG(CUTOFF), Recall(CUTOFF)])
    users = np.repeat(np.arange(job.n_users), CUTOFF)

    def rank() -> pl.DataFrame:
        items, scores = job.best_by_numpy()
        return pl.DataFrame({"query_id": users, "item_id": items.ravel(), "rating": scores.ravel()})

    def measure(reco: pl.DataFrame) -> Values:
        found = metrics(reco, targets)
        return {"ndcg": found[f"NDCG@{CUTOFF}"], "recall": found[f"Recall@{CUTOFF}"]}

    return Way(measure, rank)


if __name__ == "__main__":
    enter("replay-rec", prepare)
