"""ranx: ``evaluate`` on arrays of (item, score), the input it does not convert; ranking by NumPy."""

from __future__ import annotations

import numpy as np
from numba.typed import List
from ranx import evaluate

from benchmarks.rivals.job import CUTOFF, Job
from benchmarks.rivals.trial import Values, Way, enter

METRICS = [f"ndcg@{CUTOFF}", f"recall@{CUTOFF}"]


def prepare(job: Job) -> Way:
    """Build the judgements: one array of (item, 1) per user."""
    judged = np.column_stack([job.target_item, np.ones_like(job.target_item)]).astype(np.float64)
    relevant = List(np.split(judged, job.target_start[1:-1]))

    def measure(run: np.ndarray) -> Values:
        found = evaluate(relevant, run, METRICS)
        return {"ndcg": found[METRICS[0]], "recall": found[METRICS[1]]}

    return Way(measure, lambda: np.stack(job.best_by_numpy(), axis=2).astype(np.float64))


if __name__ == "__main__":
    enter("ranx", prepare)
