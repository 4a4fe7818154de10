"""What a metric can be at all, and what needs no interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from truerank.bounds.interval import known_contexts
from truerank.core.metric import Metric
from truerank.core.ranks import SampledRanks
from truerank.core.tally import Tally
from truerank.core.types import FloatArray
from truerank.estimators.normal import gain_at


def possible_range(tally: Tally, metrics: Sequence[Metric]) -> tuple[FloatArray, FloatArray]:
    """Return each metric with all targets last and with all of them first, the smaller one first.

    A design that is not uniform says nothing about the whole pool; there it is the range of the sampled
    metric.
    """
    ends = _user_ends(tally, metrics).mean(axis=1)
    return ends.min(axis=0), ends.max(axis=0)


def range_of_any(tally: Tally, metrics: Sequence[Metric]) -> tuple[FloatArray, FloatArray]:
    """Return the least and the largest value that any of these users can have."""
    ends = _user_ends(tally, metrics)
    return ends.min(axis=(0, 1)), ends.max(axis=(0, 1))


def _user_ends(tally: Tally, metrics: Sequence[Metric]) -> FloatArray:
    """Return the values of each user with all targets first and all of them last, (2, n_users, n_metrics)."""
    contexts, last = tally.contexts, tally.contexts.n_candidates
    if tally.design.law != "uniform":
        last = contexts.n_negatives
        contexts = replace(contexts, n_pool=contexts.n_negatives + contexts.n_relevant)
    ends = []
    for place in (np.zeros_like(last), last):
        gains = np.stack([gain_at(metric, place[:, None], contexts)[:, 0] for metric in metrics], axis=1)
        ends.append(tally.per_user(np.repeat(gains, contexts.n_negatives + 1, axis=0)))
    return np.stack(ends)


def is_exact(tally: Tally, ranks: SampledRanks) -> bool:
    """Whether every candidate of every target was drawn once, so that its rank is known."""
    if tally.design.law != "uniform" or (tally.ties == "random" and bool((ranks.n_tied > 0).any())):
        return False
    return bool(known_contexts(tally).all())


def exact_gains(tally: Tally, metrics: Sequence[Metric]) -> FloatArray:
    """Return the gain in each cell, (n_cells, n_metrics), where all candidates were drawn."""
    contexts = tally.contexts
    each = contexts.take(np.repeat(np.arange(len(contexts)), contexts.n_negatives + 1))
    j = np.arange(tally.n_cells) - np.repeat(tally.offsets[:-1], contexts.n_negatives + 1)
    above, relevant, pool = each.n_relevant_above, each.n_relevant, each.n_pool
    columns = [metric.gain(j + 1 + above, above, relevant, pool) for metric in metrics]
    return np.stack([np.broadcast_to(column, j.shape) for column in columns], axis=1).astype(np.float64)


def is_flat(tally: Tally) -> bool:
    """Whether all targets have the same share of their sample above them, so that nothing tells of spread."""
    context = np.searchsorted(tally.offsets, tally.cell, side="right") - 1
    share = (tally.cell - tally.offsets[context]) / tally.contexts.n_negatives[context]
    return bool(np.ptp(share) == 0)
