"""Blocks of scores as torch tensors, for the libraries that evaluate these."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from benchmarks.rivals.job import BLOCK_BYTES, Job


def score_blocks(job: Job) -> Iterator[tuple[slice, torch.Tensor]]:
    """Yield users and their scores over the whole catalogue, seen items at minus infinity."""
    user, item = torch.from_numpy(job.user), torch.from_numpy(job.item)
    seen_user, seen_item = torch.from_numpy(job.seen_user), torch.from_numpy(job.seen_item)
    step = max(1, BLOCK_BYTES // (4 * job.n_items))
    for first in range(0, job.n_users, step):
        users = slice(first, min(first + step, job.n_users))
        scores = user[users] @ item.T
        seen = slice(job.seen_start[first], job.seen_start[users.stop])
        scores[seen_user[seen] - first, seen_item[seen]] = -torch.inf
        yield users, scores
