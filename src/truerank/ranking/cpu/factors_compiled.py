"""Compiled parts of the factor kernel; imported on first use because it imports numba."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from truerank.core.jit import compiled, reassociated
from truerank.ranking.cpu.tile import ITEMS, LANES, count_tile

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
    """Write the score of every (row, target)."""
    for row in range(indptr.shape[0] - 1):
        for pair in range(indptr[row], indptr[row + 1]):
            out[pair] = score_pair(users, row, items, targets[pair], bias)


@compiled
def order_rows(indptr: Array, scores: Array, order: Array) -> None:
    """Write the order that sorts the pairs of each row by score, for rows with few of them."""
    for row in range(indptr.shape[0] - 1):
        for pair in range(indptr[row], indptr[row + 1]):
            at = pair
            while at > indptr[row] and scores[order[at - 1]] > scores[pair]:
                order[at] = order[at - 1]
                at -= 1
            order[at] = pair


@compiled
def address_of(array: Array) -> Any:
    """Return a signed address; numba would add the unsigned one to a signed offset in floating point."""
    return np.int64(array.ctypes.data)


@compiled
def load_lanes(
    first_lane: int,
    lane_row: Array,
    lane_pair: Array,
    lane_size: Array,
    users: Array,
    low: Array,
    high: Array,
    spread: Array,
    seen_indptr: Array,
    block_users: Array,
    block_low: Array,
    block_high: Array,
    block_spread: Array,
    block_above: Array,
    block_tied: Array,
    cursor: Array,
) -> None:
    """Lay the users of a block side by side and reset its thresholds and counters."""
    n_lanes = min(lane_row.shape[0] - first_lane, cursor.shape[0])
    block_users[:] = 0.0
    block_low[:] = np.inf
    block_high[:] = np.inf
    block_spread[:] = 0.0
    block_above[:] = 0
    block_tied[:] = 0
    for lane in range(n_lanes):
        panel, column, row = lane // LANES, lane % LANES, lane_row[first_lane + lane]
        for k in range(users.shape[1]):
            block_users[panel, k, column] = users[row, k]
        for t in range(lane_size[first_lane + lane]):
            pair = lane_pair[first_lane + lane] + t
            block_low[panel, t, column] = low[pair]
            block_high[panel, t, column] = high[pair]
        block_spread[panel, column] = spread[row]
        cursor[lane] = seen_indptr[row]


@compiled
def mark_pool(
    start: int,
    stop: int,
    first_lane: int,
    panel: int,
    lane_row: Array,
    target_indptr: Array,
    target_items: Array,
    seen_indptr: Array,
    seen_items: Array,
    cursor: Array,
    pool: Array,
) -> None:
    """Set a bit per (item, lane) for the items start..stop-1 that are neither seen nor targets.

    A seen list that does not ascend or leaves the catalogue stops its cursor for good, which is how bad lists
    are found without another pass.
    """
    for at in range(pool.shape[0]):
        pool[at] = 0xFFFF if at < stop - start else 0
    for lane in range(panel * LANES, min((panel + 1) * LANES, lane_row.shape[0] - first_lane)):
        row = lane_row[first_lane + lane]
        keep = np.uint16(0xFFFF ^ (1 << (lane % LANES)))
        at, end = cursor[lane], seen_indptr[row + 1]
        previous = -1
        while at < end:
            place = seen_items[at] - start
            if place <= previous or place >= stop - start:
                break
            pool[place] &= keep
            previous = place
            at += 1
        cursor[lane] = at
        for pair in range(target_indptr[row], target_indptr[row + 1]):
            place = target_items[pair] - start
            if place >= 0 and place < stop - start:
                pool[place] &= keep


@compiled
def copy_tail(items: Array, first: int, tail: Array) -> None:
    """Copy the last rows, so that nothing is read beyond the end of the matrix."""
    for row in range(tail.shape[0]):
        for k in range(tail.shape[1]):
            is_inside = first + row < items.shape[0] and k < items.shape[1]
            tail[row, k] = items[first + row, k] if is_inside else np.float32(0.0)


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
                place = exponent - 53
                while bits & 1 == 0:
                    bits >>= 1
                    place += 1
                lowest = min(lowest, place)
                if lowest < least:
                    return least - 1
    return lowest


@compiled
def is_copy(words: Array, bias: Array, left: int, right: int) -> bool:
    """Return whether two items have the same bits and bias, and so the same score for everybody."""
    for k in range(words.shape[1]):
        if words[left, k] != words[right, k]:
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
    words: Array,
    bias: Array,
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
                    pair, item, score = lane_pair[lane + column] + t, first + at, 0.0
                    if is_copy(words, bias, item, target_item[pair]):
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


@compiled
def count_items(
    start: int,
    stop: int,
    first_lane: int,
    lane_row: Array,
    lane_pair: Array,
    lane_size: Array,
    target_indptr: Array,
    target_items: Array,
    seen_indptr: Array,
    seen_items: Array,
    are_ties: bool,
    sorted_target: Array,
    target_score: Array,
    fast_items: Array,
    square_norms: Array,
    weight: Array,
    users: Array,
    items: Array,
    words: Array,
    bias: Array,
    n_above: Array,
    n_tied: Array,
    block_users: Array,
    block_low: Array,
    block_high: Array,
    block_spread: Array,
    block_above: Array,
    block_tied: Array,
    cursor: Array,
    pool: Array,
    near: Array,
    tail: Array,
) -> int:
    """Count the items start..stop-1 for one block of lanes; return how many were decided in float64."""
    n_items, stride = fast_items.shape
    n_panels, width, _ = block_users.shape
    per_target = 4 * LANES * block_low.shape[1]
    n_recomputed = 0
    for tile_start in range(start, stop, pool.shape[0]):
        tile_stop = min(tile_start + pool.shape[0], stop)
        for panel in range(n_panels):
            lane = first_lane + panel * LANES
            if lane >= lane_row.shape[0]:
                break
            mark_pool(
                tile_start,
                tile_stop,
                first_lane,
                panel,
                lane_row,
                target_indptr,
                target_items,
                seen_indptr,
                seen_items,
                cursor,
                pool,
            )
            n_targets = lane_size[min(lane + LANES, lane_row.shape[0]) - 1]
            for first in range(tile_start, tile_stop, ITEMS):
                address, step = address_of(fast_items) + 4 * stride * first, stride
                if first + ITEMS >= n_items:
                    copy_tail(fast_items, first, tail)
                    address, step = address_of(tail), width
                flags = count_tile(
                    address_of(block_users) + 4 * LANES * width * panel,
                    address,
                    step,
                    width,
                    address_of(pool) + 2 * (first - tile_start),
                    address_of(block_low) + per_target * panel,
                    address_of(block_high) + per_target * panel,
                    address_of(block_spread) + 4 * LANES * panel,
                    address_of(weight) + 4 * (first // ITEMS),
                    n_targets,
                    address_of(block_above) + per_target * panel,
                    address_of(block_tied) + per_target * panel if are_ties else 0,
                    address_of(near),
                )
                if flags != 0:
                    n_recomputed += decide_near(
                        flags,
                        first,
                        lane,
                        lane_row,
                        lane_pair,
                        sorted_target,
                        target_score,
                        square_norms,
                        users,
                        items,
                        words,
                        bias,
                        n_above,
                        n_tied,
                        near,
                    )
    return n_recomputed


@compiled
def unload_lanes(
    first_lane: int,
    lane_row: Array,
    lane_pair: Array,
    lane_size: Array,
    seen_indptr: Array,
    n_above: Array,
    n_tied: Array,
    block_above: Array,
    block_tied: Array,
    cursor: Array,
) -> bool:
    """Add the counters of a block to the result; return whether all seen lists were used up."""
    is_complete = True
    for lane in range(min(lane_row.shape[0] - first_lane, cursor.shape[0])):
        for t in range(lane_size[first_lane + lane]):
            pair = lane_pair[first_lane + lane] + t
            n_above[pair] += block_above[lane // LANES, t, lane % LANES]
            n_tied[pair] += block_tied[lane // LANES, t, lane % LANES]
        is_complete &= cursor[lane] == seen_indptr[lane_row[first_lane + lane] + 1]
    return is_complete
