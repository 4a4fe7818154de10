"""truerank as its users call it: exact ranks, both metrics, their intervals over users, provenance."""

from __future__ import annotations

from benchmarks.rivals.job import CUTOFF, Job
from benchmarks.rivals.problem import split_of
from benchmarks.rivals.trial import Values, Way, enter
from truerank import Factors, evaluate


def prepare(job: Job) -> Way:
    """Build the split; the call is timed."""
    split = split_of(job)
    model = Factors(job.user, job.item)

    def measure(_: None) -> Values:
        result = evaluate(model, split, f"ndcg@{CUTOFF},recall@{CUTOFF}")
        return {name: result.value(f"{name}@{CUTOFF}") for name in ("ndcg", "recall")}

    return Way(measure)


if __name__ == "__main__":
    enter("truerank", prepare)
