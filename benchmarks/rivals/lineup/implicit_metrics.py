"""implicit: ``ranking_metrics_at_k`` on its own matrix factorisation with these factors set."""

from __future__ import annotations

from implicit.als import AlternatingLeastSquares
from implicit.evaluation import ranking_metrics_at_k

from benchmarks.rivals.job import CUTOFF, Job
from benchmarks.rivals.trial import Values, Way, enter


def prepare(job: Job) -> Way:
    """Set the factors and build both matrices."""
    model = AlternatingLeastSquares(factors=job.user.shape[1], use_gpu=False, num_threads=0)
    model.user_factors, model.item_factors = job.user, job.item
    seen, targets = job.seen_matrix, job.target_matrix

    def measure(_: None) -> Values:
        found = ranking_metrics_at_k(model, seen, targets, K=CUTOFF, show_progress=False, num_threads=0)
        return {"ndcg": found["ndcg"], "recall": found["precision"]}

    return Way(measure)


if __name__ == "__main__":
    enter("implicit", prepare)
