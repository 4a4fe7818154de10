"""What a factor model gets wrong about events, and items that users have not met."""

from __future__ import annotations

import numpy as np

from truerank.core.jit import compiled
from truerank.core.types import FloatArray, IntArray
from truerank.subsample.kernels.word import below


@compiled
def draw_unmet(
    indptr: IntArray,
    met: IntArray,
    n_items: int,
    user: IntArray,
    keys: IntArray,
    word: np.uint64,
    out: IntArray,
) -> None:
    """Fill row e with items that ``user[e]`` has not met, uniformly and with replacement.

    Row e is a function of its key and the word alone. -1 for a user who has met all items.
    """
    state = np.empty(1, np.uint64)
    for e in range(len(user)):
        first, last = indptr[user[e]], indptr[user[e] + 1]
        n_unmet = n_items - (last - first)
        state[0] = keys[e] ^ word
        for k in range(out.shape[1]):
            out[e, k] = -1
            if n_unmet > 0:
                place = below(state, n_unmet)  # among the unmet items in their order
                low, high = first, last
                while low < high:  # met items that stand before it
                    middle = (low + high) >> 1
                    if met[middle] - (middle - first) <= place:
                        low = middle + 1
                    else:
                        high = middle
                out[e, k] = place + (low - first)


@compiled
def pair_score(U: FloatArray, V: FloatArray, bias: FloatArray, user: int, item: int) -> float:
    """Return the score of a pair, summed in float64 and in the order of the factors."""
    total = 0.0
    for k in range(U.shape[1]):
        total += np.float64(U[user, k]) * np.float64(V[item, k])  # float() would leave it at float32
    return float(total + np.float64(bias[item]))


@compiled
def add_lost(
    user: IntArray,
    item: IntArray,
    negative: IntArray,
    U: FloatArray,
    V: FloatArray,
    bias: FloatArray,
    ties: bool,
    total: FloatArray,
) -> None:
    """Add how many negatives of each event stand above it, with ``ties`` also those that stand level."""
    for e in range(len(user)):
        own = pair_score(U, V, bias, user[e], item[e])
        for k in range(negative.shape[1]):
            if negative[e, k] >= 0:
                other = pair_score(U, V, bias, user[e], negative[e, k])
                if other > own or (ties and other == own):
                    total[e] += 1.0
                elif np.isnan(own) or np.isnan(other):
                    total[e] = np.nan


@compiled
def add_squared(
    user: IntArray,
    item: IntArray,
    value: FloatArray,
    U: FloatArray,
    V: FloatArray,
    bias: FloatArray,
    total: FloatArray,
) -> None:
    """Add the squared error of each event's rating."""
    for e in range(len(user)):
        error = pair_score(U, V, bias, user[e], item[e]) - value[e]
        total[e] += error * error
