"""LensKit: ``batch.recommend`` with its ALS scorer and these factors set, then ``RunAnalysis``."""

from __future__ import annotations

import logging
import os
from typing import Any

import numpy as np
import pandas as pd
from lenskit.als import ImplicitMFScorer
from lenskit.batch import recommend
from lenskit.data import DatasetBuilder, ItemListCollection
from lenskit.metrics import NDCG, Recall, RunAnalysis
from lenskit.pipeline import topn_pipeline

from benchmarks.rivals.job import CUTOFF, Job
from benchmarks.rivals.trial import Values, Way, enter

LABELS = {"ndcg": "NDCG", "recall": "Recall"}
WORTH_A_POOL = 10_000  # with fewer users, starting worker processes takes longer than they save


def prepare(job: Job) -> Way:
    """Build data set and targets; train for one epoch, then put the factors in."""
    logging.getLogger("lenskit").setLevel(logging.ERROR)
    builder = DatasetBuilder()
    builder.add_entities("user", np.arange(job.n_users))
    builder.add_entities("item", np.arange(job.n_items))
    builder.add_interactions(
        "click",
        pd.DataFrame({"user_id": job.seen_user, "item_id": job.seen_item}),
        entities=["user", "item"],
        missing="error",
        default=True,
    )
    seen = builder.build()
    targets = ItemListCollection.from_df(
        pd.DataFrame({"user_id": job.target_user, "item_id": job.target_item}), ["user_id"]
    )
    scorer = ImplicitMFScorer(embedding_size=job.user.shape[1], epochs=1, user_embeddings="prefer")
    pipeline = topn_pipeline(scorer, n=CUTOFF)
    pipeline.train(seen)
    fitted: Any = pipeline.component("scorer")
    fitted.user_embeddings = np.ascontiguousarray(job.user[fitted.users.ids()])
    fitted.item_embeddings = np.ascontiguousarray(job.item[fitted.items.ids()])
    everyone = np.arange(job.n_users)
    processes = 1 if job.n_users < WORTH_A_POOL else os.cpu_count()

    def rank() -> Any:
        return recommend(pipeline, everyone, n=CUTOFF, n_jobs=processes)

    def measure(lists: Any) -> Values:
        summary = RunAnalysis(NDCG(CUTOFF), Recall(CUTOFF)).measure(lists, targets).list_summary()
        return {name: summary.loc[f"{label}@{CUTOFF}", "mean"] for name, label in LABELS.items()}

    return Way(measure, rank)


if __name__ == "__main__":
    enter("lenskit", prepare)
