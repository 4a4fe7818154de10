"""RecBole: the ``Collector`` and ``Evaluator`` of its full-sort evaluation, on blocks of scores."""

from __future__ import annotations

from typing import Any

import torch
from recbole.evaluator import Collector, Evaluator

from benchmarks.rivals.job import CUTOFF, Job
from benchmarks.rivals.torch_blocks import score_blocks
from benchmarks.rivals.trial import Values, Way, enter

CONFIG = {
    "metrics": ["NDCG", "Recall"],
    "topk": [CUTOFF],
    "eval_args": {"mode": "full"},
    "device": "cpu",
    "metric_decimal_place": 12,
}


def prepare(job: Job) -> Way:
    """Build collector and evaluator from the settings that they read."""
    collector, evaluator = Collector(CONFIG), Evaluator(CONFIG)
    target_user, target_item = torch.from_numpy(job.target_user), torch.from_numpy(job.target_item)

    @torch.no_grad()
    def rank() -> Any:
        for users, scores in score_blocks(job):
            mine = slice(job.target_start[users.start], job.target_start[users.stop])
            collector.eval_batch_collect(scores, None, target_user[mine] - users.start, target_item[mine])
        return collector.get_data_struct()

    def measure(collected: Any) -> Values:
        found = evaluator.evaluate(collected)
        return {name: found[f"{name}@{CUTOFF}"] for name in ("ndcg", "recall")}

    return Way(measure, rank)


if __name__ == "__main__":
    enter("recbole", prepare)
