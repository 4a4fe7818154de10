"""Tied blocks: targets and other items with the same score, in random order."""

from __future__ import annotations

import numpy as np

from truerank.core.errors import InvalidData
from truerank.core.ranks import SampledRanks
from truerank.core.stream import pair_keys
from truerank.core.types import FloatArray, IntArray


def block_weights(n_targets: int, n_tied: int) -> FloatArray:
    """Return P(k other targets and j negatives of the block before a target), (n_targets, n_tied + 1).

    Each k has probability 1/n_targets; along j the terms follow their ratios, summed as logarithms.

    Examples
    --------
    >>> block_weights(2, 1).tolist()  # of the six orders of target, target, negative, two have k = j = 0
    [[0.33..., 0.16...], [0.16..., 0.33...]]
    """
    k = np.arange(n_targets)[:, None]
    j = np.arange(n_tied)
    others = n_targets - 1 + n_tied
    ratio = (n_tied - j) * (k + j + 1.0) / ((j + 1.0) * (others - k - j))
    logs = np.concatenate([np.zeros((n_targets, 1)), np.cumsum(np.log(ratio), axis=1)], axis=1)
    terms = np.exp(logs - logs.max(axis=1, keepdims=True))
    weights: FloatArray = terms / (terms.sum(axis=1, keepdims=True) * n_targets)
    return weights


def block_order(sample: SampledRanks, seed: int | None) -> IntArray:
    """Return how many targets of its own tied block stand before each row: by item, or at random by a key.

    Raises
    ------
    InvalidData
        When a tied target of the user has no row.
    """
    order = np.zeros(len(sample), dtype=np.int64)
    rows = np.flatnonzero(sample.n_relevant_tied)
    if len(rows) == 0:
        return order
    key = sample.item[rows]
    if seed is not None:
        key = pair_keys(seed, "ties/sampled/order", sample.user[rows], key)
    rows = rows[np.lexsort((key, sample.n_relevant_above[rows], sample.user[rows]))]
    order[rows] = order_in_blocks(
        rows, sample.user, sample.n_relevant_above, sample.n_relevant_tied, name="n_relevant_above"
    )
    return order


def order_in_blocks(
    rows: IntArray, user: IntArray, above: IntArray, n_relevant_tied: IntArray, *, name: str
) -> IntArray:
    """Return the place of each of ``rows`` in its tied block, from 0.

    Parameters
    ----------
    rows : rows with tied targets, sorted by user, by block, and within a block in the wanted order
    user, above, n_relevant_tied : columns of the table; rows of a user with equal ``above`` are a block
    name : of the column ``above``, for the message

    Raises
    ------
    InvalidData
        When a tied target of the user has no row.
    """
    users, blocks = user[rows], above[rows]
    is_first = np.ones(len(rows), dtype=np.bool_)
    is_first[1:] = (users[1:] != users[:-1]) | (blocks[1:] != blocks[:-1])
    starts = np.flatnonzero(is_first)
    counts = np.diff(starts, append=len(rows))
    wrong = counts != n_relevant_tied[rows[starts]] + 1
    if wrong.any():
        row = int(rows[starts[np.argmax(wrong)]])
        raise InvalidData(
            f"n_relevant_tied of row {row} (counted from 0) must count the other rows of its user with the "
            f"same {name}. Give all tied targets of a user or use ties 'expected'."
        )
    return np.arange(len(rows)) - np.repeat(starts, counts)


def random_split(
    sample: SampledRanks, seed: int, n_targets: IntArray, order: IntArray, n_tied: IntArray
) -> IntArray:
    """Return how many tied negatives stand before each row, drawn given the targets before it."""
    keys = pair_keys(seed, "ties/sampled", sample.user, sample.item)
    uniform = (keys >> np.uint64(11)).astype(np.float64) * 2.0**-53
    drawn = (uniform * (n_tied + 1)).astype(np.int64)  # one target: all places are equally likely
    shared = np.flatnonzero((n_targets > 1) & (n_tied > 0))
    blocks = np.stack([n_targets[shared], n_tied[shared], order[shared]], axis=1)
    distinct, which = np.unique(blocks, axis=0, return_inverse=True)
    for place, (targets, negatives, before) in enumerate(distinct.tolist()):
        rows = shared[which.ravel() == place]
        steps = np.cumsum(block_weights(targets, negatives)[before]) * targets
        drawn[rows] = np.minimum(np.searchsorted(steps, uniform[rows], side="right"), negatives)
    return drawn
