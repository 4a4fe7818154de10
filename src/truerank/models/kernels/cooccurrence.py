"""How often two items share a user, and which items are nearest."""

from __future__ import annotations

import numpy as np

from truerank.core.jit import compiled
from truerank.core.types import FloatArray, IntArray


@compiled
def count_lower(
    item_ptr: IntArray,
    item_users: IntArray,
    user_ptr: IntArray,
    user_items: IntArray,
    first: int,
    last: int,
    out: FloatArray,
) -> None:
    """Add rows first..last of the lower triangle of X^T X to ``out``, (n_items, n_items)."""
    for item in range(first, last):
        for p in range(item_ptr[item], item_ptr[item + 1]):
            user = item_users[p]
            for q in range(user_ptr[user], user_ptr[user + 1]):
                other = user_items[q]
                if other > item:
                    break
                out[item, other] += 1.0


@compiled
def largest(values: FloatArray, heap: FloatArray) -> float:
    """Return the k-th largest value, with k the length of ``heap``, the scratch space."""
    k = len(heap)
    heap[:] = -np.inf
    for value in values:
        if value <= heap[0]:
            continue
        place, child = 0, 1  # the smallest of the k largest so far leaves the heap
        while child < k:
            if child + 1 < k and heap[child + 1] < heap[child]:
                child += 1
            if value <= heap[child]:
                break
            heap[place] = heap[child]
            place, child = child, 2 * child + 1
        heap[place] = value
    return float(heap[0])


@compiled
def nearest(
    item_ptr: IntArray,
    item_users: IntArray,
    user_ptr: IntArray,
    user_items: IntArray,
    first: int,
    last: int,
    shrink: float,
    include_self: bool,
    index: IntArray,
    value: FloatArray,
    length: IntArray,
) -> None:
    """Write each item's most similar items, ascending by code, into rows first..last.

    ``index`` and ``value`` are (n_items, k), ``length`` (n_items,) says how many of them are filled. Among
    equal similarities the lower code is taken.
    """
    n_items, k = len(length), index.shape[1]
    counts = np.zeros(n_items, np.int32)
    touched = np.empty(n_items, np.int32)
    heap = np.empty(k)
    for item in range(first, last):
        n_touched = 0
        for p in range(item_ptr[item], item_ptr[item + 1]):
            user = item_users[p]
            for q in range(user_ptr[user], user_ptr[user + 1]):
                other = user_items[q]
                if counts[other] == 0:
                    touched[n_touched] = other
                    n_touched += 1
                counts[other] += 1
        codes = touched[:n_touched]
        if 16 * n_touched < n_items:
            codes.sort()
        else:
            codes[:] = np.flatnonzero(counts)
        similarity = np.empty(n_touched)
        own = item_ptr[item + 1] - item_ptr[item]
        for n in range(n_touched):
            other = codes[n]
            both = float(counts[other])
            counts[other] = 0
            product = float(own) * float(item_ptr[other + 1] - item_ptr[other])
            if shrink > 0.0:
                similarity[n] = both / (np.sqrt(product) + shrink)
            else:  # the quotient of two exact integers: equal cosines get equal bits
                similarity[n] = np.sqrt(both * both / product)
            if other == item and not include_self:
                similarity[n] = 0.0
        least, room = 0.0, 0
        if n_touched > k:
            least = largest(similarity, heap)
            room = k - np.sum(similarity > least)
        filled = 0
        for n in range(n_touched):
            wanted = similarity[n] > least
            if similarity[n] == least and room > 0 and least > 0.0:
                wanted, room = True, room - 1
            if wanted:
                index[item, filled] = codes[n]
                value[item, filled] = similarity[n]
                filled += 1
        length[item] = filled
