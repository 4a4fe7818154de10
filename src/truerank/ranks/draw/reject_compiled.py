"""Compiled drawing by rejection; imported on first use because it imports numba.

One bit per item says whether it is blocked or taken: 125 kB for a million items. The bits of a row are
cleared one by one after it, so the cost of a row is its negatives plus its seen items and targets.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from truerank.core.jit import compiled, inlined
from truerank.ranks.draw.word import GOLDEN, MIX_1, MIX_2

Array = Any

# Words made at a time: enough for vector instructions, few enough to waste little.
WORDS = 32
ONE, SIX, LAST = np.uint64(1), np.uint64(6), np.uint64(63)
HALF, LOW = np.uint64(32), np.uint64(0xFFFFFFFF)


@inlined
def mixed(state: Any) -> Any:
    """Return the word of a state (see ``word``)."""
    state = (state ^ (state >> np.uint64(30))) * MIX_1
    state = (state ^ (state >> np.uint64(27))) * MIX_2
    return state ^ (state >> np.uint64(31))


@inlined
def mark(bits: Array, items: Array, start: int, stop: int) -> None:
    """Set the bits of a list of items."""
    for at in range(start, stop):
        item = np.uint64(items[at])
        bits[item >> SIX] |= ONE << (item & LAST)


@inlined
def clear(bits: Array, items: Array, start: int, stop: int) -> None:
    """Clear the bits of a list of items, and those beside them."""
    for at in range(start, stop):
        bits[np.uint64(items[at]) >> SIX] = np.uint64(0)


@compiled
def draw_uniform(
    start: int,
    stop: int,
    m: int,
    n_items: int,
    replacement: bool,
    state: Array,
    owner: Array,
    is_skipped: Array,
    excluded_indptr: Array,
    excluded_items: Array,
    target_indptr: Array,
    target_items: Array,
    out: Array,
) -> None:
    """Write m equally likely items per row, none of them excluded or a target."""
    bits = np.zeros((n_items >> 6) + 1, np.uint64)
    tries = np.empty(2 * WORDS, np.uint64)
    n, excess = np.uint64(n_items), np.uint64((1 << 32) % n_items)
    for row in range(start, stop):
        if is_skipped[row]:
            continue
        user, first = owner[row], (row - start) * m
        mark(bits, excluded_items, excluded_indptr[user], excluded_indptr[user + 1])
        mark(bits, target_items, target_indptr[user], target_indptr[user + 1])
        counter, at, end = state[row], np.uint64(first), np.uint64(first + m)
        while at < end:
            for j in range(WORDS):
                word = mixed(counter + np.uint64(j + 1) * GOLDEN)
                tries[2 * j] = (word >> HALF) * n
                tries[2 * j + 1] = (word & LOW) * n
            counter += np.uint64(WORDS) * GOLDEN
            for scaled in tries:
                item = scaled >> HALF
                held, bit = bits[item >> SIX], ONE << (item & LAST)
                if (scaled & LOW) < excess or (held & bit) != 0:
                    continue
                if not replacement:
                    bits[item >> SIX] = held | bit
                out[at] = item
                at += ONE
                if at == end:
                    break
        if not replacement:
            clear(bits, out, first, first + m)
        clear(bits, excluded_items, excluded_indptr[user], excluded_indptr[user + 1])
        clear(bits, target_items, target_indptr[user], target_indptr[user + 1])


@compiled
def draw_weighted(
    start: int,
    stop: int,
    m: int,
    replacement: bool,
    cumulated: Array,
    guide: Array,
    n_bits: int,
    guide_bits: int,
    state: Array,
    owner: Array,
    is_skipped: Array,
    excluded_indptr: Array,
    excluded_items: Array,
    target_indptr: Array,
    target_items: Array,
    out: Array,
) -> None:
    """Write m items per row, as likely as their weights, none of them excluded or a target.

    ``guide[g]`` is the first item whose running sum exceeds g << guide_bits, where the search begins.
    """
    n_items = cumulated.shape[0]
    bits = np.zeros((n_items >> 6) + 1, np.uint64)
    total, shift = cumulated[n_items - 1], np.uint64(64 - n_bits)
    for row in range(start, stop):
        if is_skipped[row]:
            continue
        user, first = owner[row], (row - start) * m
        mark(bits, excluded_items, excluded_indptr[user], excluded_indptr[user + 1])
        mark(bits, target_items, target_indptr[user], target_indptr[user + 1])
        counter, at, end = state[row], first, first + m
        while at < end:
            counter += GOLDEN
            place = np.int64(mixed(counter) >> shift)
            if place >= total:
                continue
            item = guide[place >> guide_bits]
            while cumulated[item] <= place:
                item += 1
            held, bit = bits[item >> 6], ONE << np.uint64(item & 63)
            if held & bit:
                continue
            if not replacement:
                bits[item >> 6] = held | bit
            out[at] = item
            at += 1
        if not replacement:
            clear(bits, out, first, first + m)
        clear(bits, excluded_items, excluded_indptr[user], excluded_indptr[user + 1])
        clear(bits, target_items, target_indptr[user], target_indptr[user + 1])
