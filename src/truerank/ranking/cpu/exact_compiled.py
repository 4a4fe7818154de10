"""Compiled parts of the factor kernel that work in float64 or prepare it; imports numba."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from truerank.core.jit import compiled, reassociated
from truerank.ranking.cpu.vectors import ITEMS

Array = Any


@reassociated
def square_sums(factors: Array, out: Array) -> None:
    """Write the squared norm of every row, in float32 and in any order."""
    for row in range(factors.shape[0]):
        total = np.float32(0.0)
        for k in range(factors.shape[1]):
            total += factors[row, k] * factors[row, k]
        out[row] = total


@compiled
def score_pair(users: Array, row: int, items: Array, item: int, bias: Array) -> float:
    """Return the score that ranks are decided by (see ``counts``)."""
    total = 0.0
    for k in range(users.shape[1]):
        total += np.float64(users[row, k]) * np.float64(items[item, k])
    if bias.shape[0] > 0:
        total += bias[item]
    return total


@compiled
def score_targets(users: Array, items: Array, bias: Array, indptr: Array, targets: Array, out: Array) -> None:
    """Write the score of every (row, target), bit for bit that of ``score_pair``.

    A sum waits for each of its additions, so eight of them take turns.
    """
    n_pairs, width = targets.shape[0], users.shape[1]
    products, row = np.empty((8, width)), 0
    for first in range(0, n_pairs, 8):
        for part in range(8):
            pair = min(first + part, n_pairs - 1)
            item = targets[pair]
            while indptr[row + 1] <= pair:
                row += 1
            for k in range(width):
                products[part, k] = np.float64(users[row, k]) * np.float64(items[item, k])
        a = b = c = d = e = f = g = h = 0.0
        for k in range(width):
            a += products[0, k]
            b += products[1, k]
            c += products[2, k]
            d += products[3, k]
            e += products[4, k]
            f += products[5, k]
            g += products[6, k]
            h += products[7, k]
        for part, total in enumerate((a, b, c, d, e, f, g, h)):
            if first + part < n_pairs:
                if bias.shape[0] > 0:
                    total += bias[targets[first + part]]
                out[first + part] = total


@compiled
def compare_targets(indptr: Array, scores: Array, order: Array, n_above: Array, n_tied: Array) -> None:
    """Compare the pairs of each row with each other, for rows with few of them.

    Write the order that sorts the pairs of each row by score, and how many other pairs of the row score
    higher, and how many the same.
    """
    most = (np.diff(indptr).max() + 7) // 8 * 8
    values, above, tied = np.full(most, np.nan), np.zeros(most, np.int64), np.zeros(most, np.int64)
    for row in range(indptr.shape[0] - 1):
        start, size = indptr[row], indptr[row + 1] - indptr[row]
        full = (size + 7) // 8 * 8  # whole vectors
        for at in range(full):
            values[at] = scores[start + at] if at < size else np.nan
            above[at], tied[at] = 0, -1
        for other in range(size):
            value = values[other]
            for at in range(full):
                above[at] += value > values[at]
                tied[at] += value == values[at]
        for at in range(size):
            n_above[start + at], n_tied[start + at] = above[at], tied[at]
            place = size - 1 - above[at] - tied[at]
            if tied[at] > 0:
                for other in range(at):
                    place += values[other] == values[at]
            order[start + place] = start + at


@compiled
def enclose(middle: Array, absolute: float, low: Array, high: Array) -> None:
    """Write float32 numbers that enclose float64 ones known up to 2^-22 of them and ``absolute``."""
    least = np.finfo(np.float32).min
    for pair in range(middle.shape[0]):
        # Rounding to float32 costs at most 2^-24 of the number, or less than ``absolute`` below 2^-126.
        margin = abs(middle[pair]) * (2.0**-22 + 2.0**-23) + 2 * absolute
        # Items that do not compete score -inf in the tile and must stay below every threshold.
        low[pair] = max(np.float32(middle[pair] - margin), least)
        high[pair] = np.float32(middle[pair] + margin)


@compiled
def lowest_exponent(factors: Array, least: int) -> int:
    """Return the exponent of the lowest bit set in any entry; one below ``least`` when it is lower than that.

    Returns at the first entry that goes below, so that factors with all their bits take no time.
    """
    lowest = 2000
    for row in range(factors.shape[0]):
        for k in range(factors.shape[1]):
            mantissa, exponent = math.frexp(np.float64(factors[row, k]))
            bits = np.int64(abs(mantissa) * 9007199254740992.0)  # 2^53
            if bits != 0:
                lowest = min(lowest, exponent - 54 + math.frexp(np.float64(bits & -bits))[1])
                if lowest < least:
                    return least - 1
    return lowest


@compiled
def is_copy(bits: Array, bias: Array, left: int, right: int) -> bool:
    """Return whether two items have the same bits and bias, and so the same score for everybody."""
    for k in range(bits.shape[1]):
        if bits[left, k] != bits[right, k]:
            return False
    return bool(bias.shape[0] == 0 or bias[left] == bias[right])


@compiled
def decide_near(
    flags: int,
    first: int,
    lane: int,
    lane_row: Array,
    lane_pair: Array,
    target_item: Array,
    target_score: Array,
    square_norms: Array,
    users: Array,
    items: Array,
    bits: Array,
    bias: Array,
    order: Array,
    n_above: Array,
    n_tied: Array,
    near: Array,
) -> int:
    """Decide the near pairs of one tile; return how many float64 scores that took.

    Copies of the target tie with it.
    """
    n_decided = 0
    for t in range(near.shape[0]):
        if (flags >> t) & 1 == 0:
            continue
        for at in range(ITEMS):
            mask = np.int64(near[t, at])
            column = 0
            while mask != 0:
                if mask & 1:
                    pair, item, score = order[lane_pair[lane + column] + t], first + at, 0.0
                    if is_copy(bits, bias, item, target_item[pair]):
                        n_tied[pair] += 1
                    else:
                        if square_norms[item] != 0.0:
                            score = score_pair(users, lane_row[lane + column], items, item, bias)
                        n_above[pair] += score > target_score[pair]
                        n_tied[pair] += score == target_score[pair]
                        n_decided += 1
                mask >>= 1
                column += 1
    return n_decided
