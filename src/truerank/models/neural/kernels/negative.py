"""Negatives: items a user has not met."""

from __future__ import annotations

import numpy as np

from truerank.core.jit import compiled, inlined
from truerank.core.types import IntArray

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


@inlined
def next_word(counter: np.uint64) -> np.uint64:
    """Return the 64 random bits of a counter that is moved by ``_GOLDEN`` (SplitMix64)."""
    word = (counter ^ (counter >> np.uint64(30))) * _MIX_1
    word = (word ^ (word >> np.uint64(27))) * _MIX_2
    return word ^ (word >> np.uint64(31))


@compiled
def has_met(indptr: IntArray, items: IntArray, user: int, item: int) -> bool:
    """Whether the item is in the user's sorted list."""
    low, high = indptr[user], indptr[user + 1]
    while low < high:
        middle = (low + high) >> 1
        if items[middle] < item:
            low = middle + 1
        else:
            high = middle
    return bool(low < indptr[user + 1] and items[low] == item)


@compiled
def draw_negatives(
    indptr: IntArray,
    items: IntArray,
    n_items: int,
    user: IntArray,
    start: np.uint64,
    first: int,
    out: IntArray,
) -> None:
    """Fill row e of ``out`` with items that ``user[e]`` has not met, uniformly and with replacement.

    A row is a function of ``start`` and its number (``first`` + e) alone. A user who has met everything gets
    any items.
    """
    for e in range(len(user)):
        who = user[e]
        counter = next_word(start + np.uint64(first + e) * _GOLDEN)
        has_all = indptr[who + 1] - indptr[who] == n_items
        for k in range(out.shape[1]):
            while True:
                counter += _GOLDEN
                # 32 random bits times n_items, shifted: uniform up to n_items / 2**32
                item = int(((next_word(counter) >> np.uint64(32)) * np.uint64(n_items)) >> np.uint64(32))
                if has_all or not has_met(indptr, items, who, item):
                    break
            out[e, k] = item
