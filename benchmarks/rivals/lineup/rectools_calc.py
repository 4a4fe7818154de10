"""RecTools: ``ImplicitRanker`` on the factors, then ``calc_metrics`` on the frame of recommendations."""

from __future__ import annotations

import numpy as np
import pandas as pd
from rectools import Columns  # type: ignore[import-not-found]
from rectools.metrics import NDCG, Recall, calc_metrics  # type: ignore[import-not-found]
from rectools.models.rank import Distance, ImplicitRanker  # type: ignore[import-not-found]

from benchmarks.rivals.job import CUTOFF, Job
from benchmarks.rivals.trial import Values, Way, enter


def prepare(job: Job) -> Way:
    """Build the ranker and the frame of targets."""
    ranker = ImplicitRanker(Distance.DOT, job.user, job.item, num_threads=0)
    everyone, seen = np.arange(job.n_users), job.seen_matrix
    targets = pd.DataFrame({Columns.User: job.target_user, Columns.Item: job.target_item})
    metrics = {"ndcg": NDCG(k=CUTOFF), "recall": Recall(k=CUTOFF)}

    def rank() -> pd.DataFrame:
        users, items, _ = ranker.rank(everyone, k=CUTOFF, filter_pairs_csr=seen)
        reco = pd.DataFrame({Columns.User: users, Columns.Item: items})
        reco[Columns.Rank] = reco.groupby(Columns.User, sort=False).cumcount() + 1
        return reco

    def measure(reco: pd.DataFrame) -> Values:
        return dict(calc_metrics(metrics, reco=reco, interactions=targets))

    return Way(measure, rank)


if __name__ == "__main__":
    enter("rectools", prepare)
