"""truerank without intervals: exact ranks, then the mean of both metrics."""

from __future__ import annotations

from benchmarks.rivals.job import CUTOFF, Job
from benchmarks.rivals.problem import split_of
from benchmarks.rivals.trial import Values, Way, enter
from truerank import Factors, exact_ranks
from truerank.core.ranks import Ranks
from truerank.metrics.registry import make_metrics, values


def prepare(job: Job) -> Way:
    """Build the split and the metrics."""
    split = split_of(job)
    model = Factors(job.user, job.item)
    metrics = make_metrics(f"ndcg@{CUTOFF},recall@{CUTOFF}")

    def measure(ranks: Ranks) -> Values:
        ndcg, recall = values(metrics, ranks).mean(axis=0)
        return {"ndcg": ndcg, "recall": recall}

    return Way(measure, lambda: exact_ranks(model, split))


if __name__ == "__main__":
    enter("truerank", prepare)
