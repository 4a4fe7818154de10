"""RePlay: ``TorchMetricsBuilder``, what its neural models are validated with; ranking by ``torch.topk``."""

from __future__ import annotations

import numpy as np
import torch
from replay.metrics.torch_metrics_builder import TorchMetricsBuilder  # type: ignore[import-not-found]

from benchmarks.rivals.job import CUTOFF, Job
from benchmarks.rivals.torch_blocks import score_blocks
from benchmarks.rivals.trial import Values, Way, enter

PADDING = -1


def prepare(job: Job) -> Way:
    """Build the padded tensor of targets."""
    lengths = np.diff(job.target_start)
    padded = np.full((job.n_users, lengths.max()), PADDING)
    padded[job.target_user, np.arange(len(job.target_item)) - job.target_start[job.target_user]] = (
        job.target_item
    )
    targets = torch.from_numpy(padded)

    def rank() -> list[tuple[slice, torch.Tensor]]:
        return [(users, torch.topk(scores, CUTOFF).indices) for users, scores in score_blocks(job)]

    def measure(lists: list[tuple[slice, torch.Tensor]]) -> Values:
        builder = TorchMetricsBuilder(["ndcg", "recall"], [CUTOFF])
        for users, best in lists:
            builder.add_prediction(best, targets[users])
        found = builder.get_metrics()
        return {name: found[f"{name}@{CUTOFF}"] for name in ("ndcg", "recall")}

    return Way(measure, rank)


if __name__ == "__main__":
    enter("replay-rec", prepare)
