"""Compiled sampling of negatives; imported on first use because it imports numba.

One bit per item says whether it is blocked or taken: 125 kB for a million items. The bits of a row are
cleared one by one after it, so the cost of a row is its negatives plus its seen items and targets. The
samples equal those of NumPy in ``ranking.negatives``, and the sequences those of
``growing.NegativeSequences``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from truerank.core.jit import compiled, inlined
from truerank.core.random import GOLDEN
from truerank.core.random_compiled import mix64
from truerank.ranking.growing import SHUFFLE_START

Array = Any

# Random words generated at a time: enough for vector instructions, few enough to waste little.
WORDS = 32
ONE, SIX, LAST = np.uint64(1), np.uint64(6), np.uint64(63)
HALF, LOW = np.uint64(32), np.uint64(0xFFFFFFFF)


@inlined
def set_bits(bits: Array, items: Array, start: int, stop: int) -> None:
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
def sample_uniform(
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
        set_bits(bits, excluded_items, excluded_indptr[user], excluded_indptr[user + 1])
        set_bits(bits, target_items, target_indptr[user], target_indptr[user + 1])
        counter, at, end = state[row], np.uint64(first), np.uint64(first + m)
        while at < end:
            for j in range(WORDS):
                word = mix64(counter + np.uint64(j + 1) * GOLDEN)
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
def sample_weighted(
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
    """Write m items per row in proportion to their weights, none of them excluded or a target.

    ``guide[g]`` is the first item whose running sum exceeds g << guide_bits, where the search begins.
    """
    n_items = cumulated.shape[0]
    bits = np.zeros((n_items >> 6) + 1, np.uint64)
    total, shift = cumulated[n_items - 1], np.uint64(64 - n_bits)
    for row in range(start, stop):
        if is_skipped[row]:
            continue
        user, first = owner[row], (row - start) * m
        set_bits(bits, excluded_items, excluded_indptr[user], excluded_indptr[user + 1])
        set_bits(bits, target_items, target_indptr[user], target_indptr[user + 1])
        counter, at, end = state[row], first, first + m
        while at < end:
            counter += GOLDEN
            place = np.int64(mix64(counter) >> shift)
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


_FAR = np.uint64(SHUFFLE_START)
TRIES = np.uint64(2 * WORDS)


@inlined
def fill_words(tries: Array, state: Any, word: Any, size: Any) -> None:
    """Write the half words of some words from ``word`` on, scaled: proposal in the high half."""
    for j in range(WORDS):
        made = mix64(state + (word + np.uint64(j + 1)) * GOLDEN)
        tries[2 * j] = (made >> HALF) * size
        tries[2 * j + 1] = (made & LOW) * size


@compiled
def reject_on(
    state: Any, n_items: int, is_once: bool, place: Array, bits: Array, first: int, last: int, out: Array
) -> None:
    """Write accepted items to out[first:last]; ``place[0]`` says how many half words were used before.

    Items whose bit is set are skipped; with ``is_once`` the bit of an accepted item is set. Without a
    branch per proposal, which the processor could not predict.
    """
    tries = np.empty(2 * WORDS, np.uint64)
    size, excess = np.uint64(n_items), np.uint64((1 << 32) % n_items)
    used, at, end = np.uint64(place[0]), np.uint64(first), np.uint64(last)
    once = ONE if is_once else np.uint64(0)
    while at < end:
        word = used >> ONE
        fill_words(tries, state, word, size)
        cursor = used & ONE
        while cursor < TRIES and at < end:
            scaled = tries[cursor]
            item = scaled >> HALF
            held, shift = bits[item >> SIX], item & LAST
            accepted = ((held >> shift) & ONE ^ ONE) & np.uint64((scaled & LOW) >= excess)
            bits[item >> SIX] = held | (accepted & once) << shift
            out[at] = item
            at += accepted
            cursor += ONE
        used = np.uint64(2) * word + cursor
    place[0] = used


@compiled
def pick_on(state: Any, chosen: Array, n: int, place: Array, first: int, last: int, out: Array) -> None:
    """Write out[first:last], each one of the first n of ``chosen``; ``place`` as in ``reject_on``."""
    tries = np.empty(2 * WORDS, np.uint64)
    size, excess = np.uint64(n), np.uint64((1 << 32) % n)
    used, at = np.uint64(place[0]), first
    while at < last:
        word = used >> ONE
        fill_words(tries, state, word, size)
        cursor = used & ONE
        while cursor < TRIES and at < last:
            if (tries[cursor] & LOW) >= excess:
                out[at] = chosen[tries[cursor] >> HALF]
                at += 1
            cursor += ONE
        used = np.uint64(2) * word + cursor
    place[0] = used


@compiled
def shuffle_on(state: Any, rest: Array, n_rest: int, place: Array, first: int, last: int) -> None:
    """Bring random items of rest[:n_rest] to the places first..last-1, those before them being settled.

    ``place[0]`` says how many half words, from ``SHUFFLE_START`` on, were used before.
    """
    used = np.uint64(place[0])
    for at in range(first, last):
        n = np.uint64(n_rest - at)
        while True:
            word = mix64(state + (_FAR + (used >> ONE) + ONE) * GOLDEN)
            scaled = (word & LOW if used & ONE else word >> HALF) * n
            used += ONE
            low = scaled & LOW
            if low >= n or low >= np.uint64(1 << 32) % n:  # the remainder is below n
                break
        other = at + np.int64(scaled >> HALF)
        rest[at], rest[other] = rest[other], rest[at]
    place[0] = used


@compiled
def list_free(bits: Array, n_items: int, rest: Array) -> int:
    """Write the items whose bit is not set, ascending; return how many they are."""
    n_rest = 0
    for item in range(n_items):
        place = np.uint64(item)
        if (bits[place >> SIX] >> (place & LAST)) & ONE == 0:
            rest[n_rest] = item
            n_rest += 1
    return n_rest


@compiled
def order_rest(state: Any, bits: Array, n_items: int, rest: Array) -> None:
    """Write the items whose bit is not set in the order of their keys."""
    n_rest = list_free(bits, n_items, rest)
    keys = np.empty(n_rest, np.uint64)
    for j in range(n_rest):
        keys[j] = mix64(state + np.uint64(j + 1) * GOLDEN)
    rest[:n_rest] = rest[:n_rest][np.argsort(keys, kind="mergesort")]


@compiled
def extend(
    state: Any,
    head: int,
    n_items: int,
    n_free: int,
    replacement: bool,
    have: int,
    want: int,
    place: Array,
    bits: Array,
    rest: Array,
    out: Array,
) -> None:
    """Extend the first ``have`` negatives of a row, in ``out``, to ``want``.

    ``place`` begins as zeros for a row, with the bits of its blocked items set: half words used so far, and
    whether ``rest`` is written.
    """
    if head == 0:
        if place[1] == 0 and replacement:
            list_free(bits, n_items, rest)
        elif place[1] == 0:
            order_rest(state, bits, n_items, rest)
        place[1] = 1
        if replacement:
            pick_on(state, rest, n_free, place, have, want, out)
        else:
            out[have:want] = rest[have:want]
        return
    if have < head:
        stop = min(want, head)
        reject_on(state, n_items, not replacement, place, bits, have, stop, out)
        have = stop
    if have < want:
        if place[1] == 0:
            list_free(bits, n_items, rest)
            place[0], place[1] = 0, 1
        shuffle_on(state, rest, n_free - head, place, have - head, want - head)
        out[have:want] = rest[have - head : want - head]


@compiled
def sample_parts(
    listed: Array,
    start: Array,
    stop: Array,
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
    out: Array,
) -> None:
    """Write the negatives start[i]..stop[i]-1 of each listed row, concatenated."""
    bits = np.zeros((n_items >> 6) + 1, np.uint64)
    rest = np.empty(n_items, np.int32)
    items = np.empty(stop.max(), np.int32)
    place = np.zeros(2, np.int64)
    at = 0
    for i in range(listed.shape[0]):
        row = listed[i]
        user = owner[row]
        set_bits(bits, excluded_items, excluded_indptr[user], excluded_indptr[user + 1])
        set_bits(bits, target_items, target_indptr[user], target_indptr[user + 1])
        place[:] = 0
        extend(state[row], head[row], n_items, n_free[row], replacement, 0, stop[i], place, bits, rest, items)
        n = stop[i] - start[i]
        out[at : at + n] = items[start[i] : stop[i]]
        at += n
        clear(bits, items, 0, stop[i])
        clear(bits, excluded_items, excluded_indptr[user], excluded_indptr[user + 1])
        clear(bits, target_items, target_indptr[user], target_indptr[user + 1])
