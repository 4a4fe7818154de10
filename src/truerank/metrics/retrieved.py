"""Average precision over the relevant items that were found, which is no sum over targets."""

from __future__ import annotations

import numpy as np

from truerank.core.types import FloatArray, IntArray
from truerank.metrics.harmonic import reciprocal_sum
from truerank.metrics.tie import Placement


def mean_over_retrieved(placement: Placement, precision: FloatArray, cutoff: int | None) -> FloatArray:
    """Return per user the (expected) mean of the precision at the relevant items within the cut-off.

    Only one tied block of a user can lie across the cut-off. The number x of its relevant items above the cut
    is hypergeometric and the rest of the list does not depend on it, so the mean is a sum over x of at most
    min(K, relevant items) + 1 terms per user.

    Parameters
    ----------
    placement : ranks with the tie policy applied
    precision : (n,) the (expected) precision at each target, 0 beyond the cut-off
    cutoff : K; None for the whole list
    """
    across = np.zeros(len(placement.rank), dtype=np.bool_)
    found = np.ones(len(across)) if cutoff is None else (placement.rank <= cutoff).astype(np.float64)
    if cutoff is not None and len(placement.tied):
        blocks = placement.blocks
        end = blocks.n_above + blocks.size
        across[placement.tied] = (blocks.n_above < cutoff) & (end > cutoff)
        found[placement.tied] = end <= cutoff
    total = placement.per_user(np.where(across, 0.0, precision))
    count = placement.per_user(found)
    values = total / np.maximum(count, 1)
    if across.any() and cutoff is not None:
        user = np.searchsorted(placement.starts, np.flatnonzero(across), side="right") - 1
        chosen, first = np.unique(user, return_index=True)
        block = np.flatnonzero(across[placement.tied])[first]
        values[chosen] = _across(placement, block, cutoff=cutoff, total=total[chosen])
    return values


def _across(placement: Placement, block: IntArray, *, cutoff: int, total: FloatArray) -> FloatArray:
    """Return the values of users one of whose blocks lies across the cut-off."""
    blocks = placement.blocks
    above, size, relevant = blocks.n_above[block], blocks.size[block], blocks.n_tied_relevant[block]
    slots = cutoff - above
    least = np.maximum(slots - (size - relevant), 0)
    counts = np.minimum(slots, relevant) - least + 1
    starts = np.cumsum(counts) - counts
    row = np.repeat(np.arange(len(block)), counts)
    x = np.arange(len(row)) - starts[row] + least[row]
    chance = _hypergeometric(x, starts, size=size[row], relevant=relevant[row], slots=slots[row])
    # Given x, they fill a random x-subset of the slots: as in any block, with the slots as the block.
    reciprocals = reciprocal_sum(above, slots)
    later = (slots - (above + 1) * reciprocals) / np.maximum(slots - 1, 1)
    found_above = blocks.n_relevant_above[block]
    precision = (
        x / slots[row] * ((found_above + 1) * reciprocals)[row] + x * (x - 1) / slots[row] * later[row]
    )
    value = (total[row] + precision) / np.maximum(found_above[row] + x, 1)
    return np.add.reduceat(chance * value, starts)


def _hypergeometric(
    x: IntArray, starts: IntArray, *, size: IntArray, relevant: IntArray, slots: IntArray
) -> FloatArray:
    """Return P(x relevant items in the slots); x climbs by 1 from its least value at each of ``starts``."""
    # P(x) / P(x - 1) = (relevant - x + 1)(slots - x + 1) / (x (size - relevant - slots + x))
    with np.errstate(divide="ignore", invalid="ignore"):
        step = np.log((relevant - x + 1) * (slots - x + 1) / (x * (size - relevant - slots + x)))
    step[starts] = 0.0
    step[starts[1:]] = -np.add.reduceat(step, starts)[:-1]  # start anew, lest rounding errors add up
    climb = np.cumsum(step)
    counts = np.diff(starts, append=len(x))
    climb -= np.repeat(np.maximum.reduceat(climb, starts), counts)
    weight = np.exp(climb)
    chance: FloatArray = weight / np.repeat(np.add.reduceat(weight, starts), counts)
    return chance
