"""Numba functions of exact ranks that compute in float64: scores of targets, and pairs left by float32.

A pair is left where the float32 score of an item is too near to that of a target to tell which is larger.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from truerank.core.jit import compiled, reassociated
from truerank.ranking.cpu.sums import SUMS, WIDE, lowest_bit, sum_products
from truerank.ranking.cpu.vectors import ITEMS

Array = Any
PAIRS = 512  # that are scored together


@compiled
def address_of(array: Array) -> Any:
    """Return a signed address; numba would add the unsigned one to a signed offset in floating point."""
    return np.int64(array.ctypes.data)


@reassociated
def square_sums(factors: Array, norms: Array, chains: Array) -> None:
    """Write the squared norm of every row and the square of its chain, in float32 and in any order.

    Coordinate k of n has the weight n + 4 - k in the chain (see ``counts``).
    """
    n = factors.shape[1]
    for row in range(factors.shape[0]):
        norm, chain = np.float32(0.0), np.float32(0.0)
        for k in range(n):
            square = factors[row, k] * factors[row, k]
            norm += square
            chain += np.float32(n + 4 - k) * square
        norms[row], chains[row] = norm, chain


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
def sum_pairs(n: int, users: Array, rows: Array, items: Array, codes: Array, bias: Array, out: Array) -> None:
    """Write the scores of the first n pairs (rows[p], codes[p]), bit for bit those of ``score_pair``.

    A user that neighbouring pairs share is converted to float64 once.
    """
    width = users.shape[1]
    whole = width // WIDE * WIDE
    doubles, totals = np.empty((SUMS, width)), np.empty(SUMS)
    user_rows, item_rows = np.empty(SUMS, np.int64), np.empty(SUMS, np.int64)
    # Addresses are taken once: numba counts references whenever one is.
    at_doubles, at_items, at_totals = address_of(doubles), address_of(items), address_of(totals)
    at_user_rows, at_item_rows = address_of(user_rows), address_of(item_rows)
    for first in range(0, n, SUMS):
        place, known = 0, -1
        for part in range(SUMS):
            pair = min(first + part, n - 1)
            row = rows[pair]
            if row != known:
                place, known = part, row
                for k in range(width):
                    doubles[place, k] = users[row, k]
            user_rows[part] = at_doubles + 8 * width * place
            item_rows[part] = at_items + items.itemsize * width * codes[pair]
        sum_products(doubles, items, at_user_rows, at_item_rows, whole, at_totals)
        for part in range(min(SUMS, n - first)):
            row, item, total = rows[first + part], codes[first + part], totals[part]
            for k in range(whole, width):
                total += np.float64(users[row, k]) * np.float64(items[item, k])
            out[first + part] = total + bias[item] if bias.shape[0] > 0 else total


@compiled
def score_targets(users: Array, items: Array, bias: Array, indptr: Array, targets: Array, out: Array) -> None:
    """Write the score of every (row, target), bit for bit that of ``score_pair``."""
    n_pairs, row = targets.shape[0], 0
    rows = np.empty(PAIRS, np.int64)
    for first in range(0, n_pairs, PAIRS):
        n = min(PAIRS, n_pairs - first)
        for part in range(n):
            while indptr[row + 1] <= first + part:
                row += 1
            rows[part] = row
        sum_pairs(n, users, rows, items, targets[first : first + n], bias, out[first : first + n])


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
    n_close: int,
    close: Array,
    near: Array,
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
) -> int:
    """Decide the near pairs of some tiles; return how many were no copies of their target, which tie with it.

    Parameters
    ----------
    n_close, close : tiles, and for each the targets with a bit set that have near pairs, its first item and
        its first lane
    near : one bit per lane, [n_close][n_targets][ITEMS]
    """
    n_decided, n = 0, 0
    pairs, rows, codes = np.empty(PAIRS, np.int64), np.empty(PAIRS, np.int64), np.empty(PAIRS, np.int64)
    scores = np.empty(PAIRS)
    for tile in range(n_close):
        flags, first, lane = close[tile, 0], close[tile, 1], close[tile, 2]
        while flags != 0:
            t = lowest_bit(flags)
            flags &= flags - 1
            for at in range(ITEMS):
                mask = np.int64(near[tile, t, at])
                while mask != 0:
                    column = lowest_bit(mask)
                    mask &= mask - 1
                    pair, item = order[lane_pair[lane + column] + t], first + at
                    if bits[item, 0] == bits[target_item[pair], 0] and is_copy(
                        bits, bias, item, target_item[pair]
                    ):
                        n_tied[pair] += 1
                        continue
                    n_decided += 1
                    if square_norms[item] == 0.0:
                        n_above[pair] += target_score[pair] < 0.0
                        n_tied[pair] += target_score[pair] == 0.0
                        continue
                    pairs[n], rows[n], codes[n] = pair, lane_row[lane + column], item
                    n += 1
                    if n == PAIRS:
                        sum_pairs(n, users, rows, items, codes, bias, scores)
                        compare_few(n, pairs, scores, target_score, n_above, n_tied)
                        n = 0
    if n > 0:
        sum_pairs(n, users, rows, items, codes, bias, scores)
        compare_few(n, pairs, scores, target_score, n_above, n_tied)
    return n_decided


@compiled
def compare_few(
    n: int, pairs: Array, scores: Array, target_score: Array, n_above: Array, n_tied: Array
) -> None:
    """Count the scores of n items, each for the pair that it is near to."""
    for part in range(n):
        pair = pairs[part]
        n_above[pair] += scores[part] > target_score[pair]
        n_tied[pair] += scores[part] == target_score[pair]
