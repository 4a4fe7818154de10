"""Training of a stack with early stopping, and the values of its members: errors or ranking metrics."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from benchmarks.svp_cf.networks import STACKS, FusionStack
from benchmarks.svp_cf.stack import Events, Members, Problem, Stack, Training, pairs_of


@dataclass
class Fitted:
    """Values of the members of a stack at their best epochs.

    Parameters
    ----------
    valid, test : (m, metrics): mean squared error, or AUC, recall@100 and NDCG@10
    best, last : (m,) the best epoch and the last one
    """

    valid: np.ndarray
    test: np.ndarray
    best: np.ndarray
    last: np.ndarray


def fit(kind: str, problem: Problem, members: Members, training: Training, width: int) -> Fitted:
    """Train a stack with early stopping and return the values of each member's best epoch.

    The model is validated after the first epoch, after every ``every`` epochs and after the last one; an
    epoch is better when its AUC is better than before, or else its recall@10. Members whose patience is
    exhausted leave the stack once half of it has.
    """
    stack = STACKS[kind](problem, members, training, width)
    m, device = len(members), problem.device
    n_metrics = 1 if problem.is_explicit else 3
    out = Fitted(*(np.full((m, n_metrics), np.nan) for _ in range(2)), *(np.zeros(m, int) for _ in range(2)))
    if stack.adam is None:
        finish(stack, out, torch.ones(m, dtype=torch.bool, device=device))
        return out
    best_value = torch.full((m, 1 if problem.is_explicit else 2), -torch.inf, device=device)
    stale = torch.zeros(m, device=device)
    kept = stack.adam.copy()
    best_epoch = torch.zeros(m, dtype=torch.long, device=device)
    is_done = torch.zeros(m, dtype=torch.bool, device=device)
    for epoch in range(1, training.epochs + 1):
        stack.run_epoch(epoch)
        is_last = epoch == training.epochs
        if not (epoch == 1 or epoch % training.every == 0 or is_last):
            continue
        with torch.no_grad():
            value = stopping_values(stack)
        assert stack.adam is not None
        improves = value > best_value
        improves &= improves.cumsum(1) == 1  # the first metric that improves is noted
        better = improves.any(1) & ~is_done
        stack.adam.update(kept, better)
        best_value = torch.where(improves & better[:, None], value, best_value)
        best_epoch = torch.where(better, epoch, best_epoch)
        stale = torch.where(better, 0, stale + 1)
        newly = ~is_done & ((stale >= training.patience) | is_last)
        out.last[stack.members.number[newly].cpu().numpy()] = epoch
        is_done |= newly
        n_done = int(is_done.sum())
        if n_done == len(is_done) or 2 * n_done >= len(is_done):
            current = stack.adam.copy()
            stack.adam.update(kept, torch.ones_like(is_done), back=True)
            out.best[stack.members.number.cpu().numpy()] = best_epoch.cpu().numpy()
            finish(stack, out, is_done)
            if n_done == len(is_done):
                break
            stack.adam.flat.copy_(current)
            rows = (~is_done).nonzero()[:, 0]
            whole = stack.adam
            stack.take(rows)
            m_before = len(is_done)
            kept = torch.cat(
                [kept[a:b].view(m_before, -1)[rows].reshape(-1) for a, b in whole.bounds.values()]
            )
            best_value, stale, best_epoch = best_value[rows], stale[rows], best_epoch[rows]
            is_done = is_done[rows]
    return out


def finish(stack: Stack, out: Fitted, rows: Tensor) -> None:
    """Write the values of some members at their present parameters."""
    with torch.no_grad():
        numbers = stack.members.number[rows].cpu().numpy()
        for name in ("valid", "test"):
            values = part_values(stack, name)
            getattr(out, name)[numbers] = values[rows].double().cpu().numpy()


def stopping_values(stack: Stack) -> Tensor:
    """Return what early stopping looks at, (m, 1 or 2): minus the squared error, or AUC and recall@10."""
    if stack.problem.is_explicit:
        return -part_values(stack, "valid")
    return part_values(stack, "valid", recall_at=10)[:, :2]


def part_values(stack: Stack, part: str, *, recall_at: int = 100) -> Tensor:
    """Return (m, metrics) of the validation or test part."""
    problem = stack.problem
    events: Events = getattr(problem, part)
    if problem.is_explicit:
        return (stack.ratings(events.user, events.item) - events.value).square().mean(1, keepdim=True)
    return ranking_values(stack, events, is_test=part == "test", recall_at=recall_at)


def ranking_values(stack: Stack, events: Events, *, is_test: bool, recall_at: int) -> Tensor:
    """Return AUC, recall over min(cutoff, targets) and NDCG@10, means over users; ties count as expected.

    A target that is among the items to remove, which a split with repeated pairs can have, is never found;
    its place among the other items counts for AUC, as in the published code.
    """
    problem, device = stack.problem, stack.device
    m, n_items = len(stack.members), problem.n_items
    order = events.user.argsort(stable=True)
    user, item = events.user[order], events.item[order]
    users, row, n_targets = torch.unique_consecutive(user, return_inverse=True, return_counts=True)
    is_target = torch.zeros(len(users), n_items, dtype=torch.bool, device=device)
    is_target[row, item] = True
    shared = torch.zeros_like(is_target)
    if not problem.own_seen:
        shared |= pairs_of(problem, problem.train)[users]
    with_valid = is_test and problem.known_valid and stack.reads_histories
    if is_test and (with_valid or not problem.known_valid):
        shared |= pairs_of(problem, problem.valid)[users]
    ranks = torch.arange(1, n_items + 1, device=device)
    gain = torch.where(ranks <= 10, 1 / torch.log2(ranks.double() + 1), 0.0)
    zero = torch.zeros(1, dtype=torch.float64, device=device)
    gains = torch.cat([zero, gain.cumsum(0)])
    hits = torch.cat([zero, (ranks <= recall_at).double().cumsum(0)])
    totals = torch.zeros(3, m, len(users), dtype=torch.float64, device=device)
    pool = torch.zeros(m, len(users), dtype=torch.long, device=device)
    opened = stack.open_scores(with_valid=with_valid)
    wide = stack.width if isinstance(stack, FusionStack) else 1
    step = max(1, (1 << 28) // (m * n_items * max(wide, 2)))
    starts = torch.searchsorted(row, torch.arange(len(users) + 1, device=device)).tolist()
    for first in range(0, len(users), step):
        chosen = slice(first, min(first + step, len(users)))
        scores = stack.scores(opened, users[chosen])
        hidden = shared[chosen] | (
            stack.met[:, users[chosen]] if problem.own_seen else torch.zeros_like(shared[chosen])
        )
        missed = (hidden & is_target[chosen]).expand(m, -1, -1)  # known, so not ranked and not found
        hidden = (hidden | ~stack.is_alive[:, None]) & ~is_target[chosen]
        masked = scores.masked_fill(hidden, -torch.inf)
        pool[:, chosen] = n_items - hidden.sum(-1)
        events_here = slice(starts[chosen.start], starts[chosen.stop])
        local, local_item = row[events_here] - first, item[events_here]
        part = max(1, (1 << 28) // (m * n_items))
        for a in range(0, len(local), part):
            at = local[a : a + part]
            own = scores[:, at, local_item[a : a + part]][..., None]
            rows = masked[:, at]
            above = (rows > own).sum(-1)
            tied = (rows == own).sum(-1) - 1
            where = (at + first).expand(m, -1)
            totals[0].scatter_add_(1, where, above.double() + 0.5 * tied)
            is_found = ~missed[:, at, local_item[a : a + part]]
            for which, table in ((1, hits), (2, gains)):
                mean = is_found * (table[above + tied + 1] - table[above]) / (tied + 1)
                totals[which].scatter_add_(1, where, mean)
    t = n_targets.double()
    others = (pool - n_targets).clamp(min=1)
    auc = 1 - (totals[0] - t * (t - 1) / 2) / (t * others)
    recall = totals[1] / t.clamp(max=recall_at)
    ndcg = totals[2] / gains[n_targets.clamp(max=10)]
    return torch.stack([auc.mean(1), recall.mean(1), ndcg.mean(1)], 1)
