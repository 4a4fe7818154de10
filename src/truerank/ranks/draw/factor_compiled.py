"""Compiled comparison of targets with listed items; imported on first use because it imports numba."""

from __future__ import annotations

from typing import Any

import numpy as np

from truerank.core.jit import compiled, inlined
from truerank.ranks.draw.dot import ROWS, write_dots
from truerank.ranks.draw.prefetch import fetch, fetch_entry
from truerank.ranks.kernels.factor_compiled import score_pair

Array = Any

# Item vectors, and rows, that are asked for ahead of their use.
AHEAD = 24
ROWS_AHEAD = 16


@inlined
def score_listed(
    users: Array, user: int, items: Array, listed: Array, first: int, last: int, out: Array
) -> None:
    """Write the float32 scores of listed[first:last], and up to three more numbers behind them.

    Vectors are asked for some items ahead, beyond ``last`` too: those of the next row.
    """
    base, width = np.uint64(items.ctypes.data), np.uint64(items.shape[1])
    stride, end = np.uint64(4) * width, listed.shape[0] - 1
    user_address = np.uint64(users.ctypes.data) + np.uint64(user) * stride
    out_address = np.uint64(out.ctypes.data)
    for at in range(first, last, ROWS):
        write_dots(
            user_address,
            base + np.uint64(listed[at]) * stride,
            base + np.uint64(listed[min(at + 1, last - 1)]) * stride,
            base + np.uint64(listed[min(at + 2, last - 1)]) * stride,
            base + np.uint64(listed[min(at + 3, last - 1)]) * stride,
            width,
            out_address + np.uint64(4 * (at - first)),
        )
        for ahead in range(at + AHEAD, at + AHEAD + ROWS):
            fetch(base, stride, listed[min(ahead, end)])


@compiled
def count_scores(scores: Array, n: int, low: Any, high: Any) -> tuple[int, int]:
    """Return how many of the first n scores exceed ``high``, and how many are at least ``low``."""
    above, reached = 0, 0
    for at in range(n):
        above += scores[at] > high
        reached += scores[at] >= low
    return above, reached


@compiled
def scan_listed(
    start: int,
    stop: int,
    owner: Array,
    pairs: Array,
    indptr: Array,
    listed: Array,
    users: Array,
    items: Array,
    low: Array,
    high: Array,
    scores: Array,
    n_above: Array,
    n_near: Array,
) -> None:
    """Count, for every target of the rows, the listed items that float32 finds above it or cannot decide.

    Row r of the block lists ``listed[indptr[r - start]:indptr[r - start + 1]]``; ``low`` and ``high`` enclose
    the float32 scores that could tie with the target of a pair (see ``kernels.rounding``).
    """
    base, stride = np.uint64(users.ctypes.data), np.uint64(4 * users.shape[1])
    for row in range(start, stop):
        fetch(base, stride, owner[min(row + 1, stop - 1)])
        for array in (owner, pairs):
            fetch_entry(array, row + ROWS_AHEAD)
        fetch_entry(indptr, row - start + ROWS_AHEAD)
        for array in (low, high):
            fetch_entry(array, pairs[row] + ROWS_AHEAD)
        first, last = indptr[row - start], indptr[row - start + 1]
        score_listed(users, owner[row], items, listed, first, last, scores)
        for pair in range(pairs[row], pairs[row + 1]):
            above, reached = count_scores(scores, last - first, low[pair], high[pair])
            n_above[pair - pairs[start]] = above
            n_near[pair - pairs[start]] = reached - above


@compiled
def decide_pair(
    users: Array,
    user: int,
    items: Array,
    bias: Array,
    user_norms: Array,
    item_norms: Array,
    listed: Array,
    first: int,
    last: int,
    scores: Array,
    low: Any,
    high: Any,
    target_score: Any,
) -> tuple[int, int]:
    """Return how many of listed[first:last] are above and tied by float64, where float32 cannot tell.

    A user without a vector, where no item has a bias, scores everything 0: all tie, none is above.
    """
    if user_norms[user] == 0.0 and bias.shape[0] == 0:
        return 0, last - first
    above, tied = 0, 0
    for at in range(last - first):
        if scores[at] >= low and not scores[at] > high:
            item = listed[first + at]
            score = 0.0
            if item_norms[item] != 0.0 and user_norms[user] != 0.0:
                score = score_pair(users, user, items, item, bias)
            above += score > target_score
            tied += score == target_score
    return above, tied


@compiled
def decide_near(
    start: int,
    stop: int,
    owner: Array,
    pairs: Array,
    indptr: Array,
    listed: Array,
    fast_users: Array,
    fast_items: Array,
    users: Array,
    items: Array,
    bias: Array,
    user_norms: Array,
    item_norms: Array,
    target_score: Array,
    low: Array,
    high: Array,
    scores: Array,
    n_above: Array,
    n_tied: Array,
) -> None:
    """Decide by the float64 sum what ``scan_listed`` could not: n_tied holds how many these are.

    Few rows have any, unless items tie; their scores are computed again.
    """
    for row in range(start, stop):
        user, first, last = owner[row], indptr[row - start], indptr[row - start + 1]
        is_scored = False
        for pair in range(pairs[row], pairs[row + 1]):
            at_pair = pair - pairs[start]
            if n_tied[at_pair] == 0:
                continue
            if not is_scored and (user_norms[user] != 0.0 or bias.shape[0] > 0):
                score_listed(fast_users, user, fast_items, listed, first, last, scores)
                is_scored = True
            above, n_tied[at_pair] = decide_pair(
                users,
                user,
                items,
                bias,
                user_norms,
                item_norms,
                listed,
                first,
                last,
                scores,
                low[pair],
                high[pair],
                target_score[pair],
            )
            n_above[at_pair] += above
