"""Compiled adaptive samples, for factors and for stored scores; imported on first use because of numba.

The negatives of a row are sampled, scored and counted round by round while the row is in the cache.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from truerank.core.jit import compiled
from truerank.ranking.cpu.listed_compiled import (
    AHEAD,
    ROWS,
    count_scores,
    decide_pair,
    prefetch_vector,
    score_listed,
)
from truerank.ranking.cpu.sampling_compiled import clear, extend, set_bits

Array = Any


@compiled
def grow_factors(
    start: int,
    stop: int,
    sizes: Array,
    most_above: int,
    n_items: int,
    replacement: bool,
    state: Array,
    owner: Array,
    head: Array,
    n_free: Array,
    excluded_indptr: Array,
    excluded_items: Array,
    target_indptr: Array,
    target_items: Array,
    pairs: Array,
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
    n_above: Array,
    n_tied: Array,
    n_drawn: Array,
    n_scored: Array,
) -> None:
    """Continue the sample of each target of the rows while at most ``most_above`` items score above it.

    Writes per target the counts and the number of negatives, per row the number of negatives sampled. Scores
    are decided as in ``scan_listed`` and ``decide_near``, round by round.
    """
    bits = np.zeros((n_items >> 6) + 1, np.uint64)
    rest = np.empty(n_items, np.int32)
    listed = np.empty(sizes[-1], np.int32)
    scores = np.empty(sizes[-1] + ROWS, np.float32)
    place = np.zeros(2, np.int64)
    base, stride = np.uint64(fast_items.ctypes.data), np.uint64(4 * fast_items.shape[1])
    for row in range(start, stop):
        user = owner[row]
        set_bits(bits, excluded_items, excluded_indptr[user], excluded_indptr[user + 1])
        set_bits(bits, target_items, target_indptr[user], target_indptr[user + 1])
        place[:] = 0
        have, is_active = 0, True
        for j in range(sizes.shape[0]):
            want = sizes[j] if replacement else min(sizes[j], n_free[row])
            if want == have or not is_active:
                break
            extend(
                state[row],
                head[row],
                n_items,
                n_free[row],
                replacement,
                have,
                want,
                place,
                bits,
                rest,
                listed,
            )
            for at in range(have, min(have + AHEAD, want)):
                prefetch_vector(base, stride, listed[at])
            score_listed(fast_users, user, fast_items, listed[:want], have, want, scores)
            is_active = False
            for pair in range(pairs[row], pairs[row + 1]):
                at_pair = pair - pairs[start]
                if n_drawn[at_pair] < have or n_above[at_pair] > most_above:
                    continue
                above, reached = count_scores(scores, want - have, low[pair], high[pair])
                tied = 0
                if reached > above:
                    decided, tied = decide_pair(
                        users,
                        user,
                        items,
                        bias,
                        user_norms,
                        item_norms,
                        listed,
                        have,
                        want,
                        scores,
                        low[pair],
                        high[pair],
                        target_score[pair],
                    )
                    above += decided
                n_above[at_pair] += above
                n_tied[at_pair] += tied
                n_drawn[at_pair] = want
                is_active |= n_above[at_pair] <= most_above
            have = want
        n_scored[row - start] = have
        clear(bits, listed, 0, have)
        clear(bits, excluded_items, excluded_indptr[user], excluded_indptr[user + 1])
        clear(bits, target_items, target_indptr[user], target_indptr[user + 1])


@compiled
def grow_dense(
    start: int,
    stop: int,
    sizes: Array,
    most_above: int,
    n_items: int,
    replacement: bool,
    state: Array,
    owner: Array,
    head: Array,
    n_free: Array,
    excluded_indptr: Array,
    excluded_items: Array,
    target_indptr: Array,
    target_items: Array,
    pairs: Array,
    users: Array,
    scores: Array,
    n_above: Array,
    n_tied: Array,
    n_drawn: Array,
    n_scored: Array,
) -> int:
    """Do what ``grow_factors`` does, with scores[users[owner], item].

    Returns the first row with a NaN, or -1.
    """
    bits = np.zeros((n_items >> 6) + 1, np.uint64)
    rest = np.empty(n_items, np.int32)
    listed = np.empty(sizes[-1], np.int32)
    found = np.empty(sizes[-1], scores.dtype)
    place = np.zeros(2, np.int64)
    for row in range(start, stop):
        own = scores[users[owner[row]]]
        user = owner[row]
        set_bits(bits, excluded_items, excluded_indptr[user], excluded_indptr[user + 1])
        set_bits(bits, target_items, target_indptr[user], target_indptr[user + 1])
        place[:] = 0
        have, is_active = 0, True
        for j in range(sizes.shape[0]):
            want = sizes[j] if replacement else min(sizes[j], n_free[row])
            if want == have or not is_active:
                break
            extend(
                state[row],
                head[row],
                n_items,
                n_free[row],
                replacement,
                have,
                want,
                place,
                bits,
                rest,
                listed,
            )
            is_broken = False
            for at in range(have, want):
                found[at] = own[listed[at]]
                is_broken |= found[at] != found[at]
            is_active = False
            for pair in range(pairs[row], pairs[row + 1]):
                at_pair = pair - pairs[start]
                if n_drawn[at_pair] < have or n_above[at_pair] > most_above:
                    continue
                score = own[target_items[pair]]
                is_broken |= score != score
                above, tied = 0, 0
                for at in range(have, want):
                    above += found[at] > score
                    tied += found[at] == score
                n_above[at_pair] += above
                n_tied[at_pair] += tied
                n_drawn[at_pair] = want
                is_active |= n_above[at_pair] <= most_above
            if is_broken:
                return row
            have = want
        n_scored[row - start] = have
        clear(bits, listed, 0, have)
        clear(bits, excluded_items, excluded_indptr[user], excluded_indptr[user + 1])
        clear(bits, target_items, target_indptr[user], target_indptr[user + 1])
    return -1
