"""Numba loops that count items above targets: users and items are scored tile by tile in float32.

A tile is a block of users by items whose scores stay in registers (``tile``). What float32 cannot decide goes
to ``exact_compiled``. Imported on first use.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from truerank.core.jit import compiled
from truerank.ranking.cpu.exact_compiled import address_of, decide_near
from truerank.ranking.cpu.tile import count_open, count_words, prefetch, score_tile, word_of
from truerank.ranking.cpu.vectors import ITEMS, LANES, MASK_TYPE

Array = Any
TILE = ITEMS * LANES
LINES_AHEAD = 8
EVERYONE = MASK_TYPE((1 << LANES) - 1)


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
    reach: Array,
    order: Array,
    target_items: Array,
    copy: Array,
    seen_indptr: Array,
    block_users: Array,
    block_low: Array,
    block_high: Array,
    block_spread: Array,
    block_reach: Array,
    block_copy: Array,
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
    block_reach[:] = 0.0
    block_copy[:] = -1
    block_above[:] = 0
    block_tied[:] = 0
    for lane in range(n_lanes):
        panel, column, row = lane // LANES, lane % LANES, lane_row[first_lane + lane]
        for k in range(users.shape[1]):
            block_users[panel, k, column] = users[row, k]
        for t in range(lane_size[first_lane + lane]):
            pair = order[lane_pair[first_lane + lane] + t]
            number = copy[target_items[pair]]
            block_low[panel, t, column] = low[pair]
            block_high[panel, t, column] = high[pair]
            block_copy[panel, t, column] = number if number > 0 else -1
        block_spread[panel, column] = spread[row]
        block_reach[panel, column] = reach[row]
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
        pool[at] = EVERYONE if at < stop - start else 0
    for lane in range(panel * LANES, min((panel + 1) * LANES, lane_row.shape[0] - first_lane)):
        row = lane_row[first_lane + lane]
        if lane + LANES < cursor.shape[0]:  # seen items of the next panel, 64 bytes at a time
            for line in range(LINES_AHEAD):
                prefetch(address_of(seen_items) + 8 * cursor[lane + LANES] + 64 * line)
        keep = EVERYONE ^ (MASK_TYPE(1) << MASK_TYPE(lane % LANES))
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
            is_inside = place >= 0 and place < stop - start  # no branch, which would be guessed wrong often
            pool[place if is_inside else pair & 3] &= keep if is_inside else EVERYONE


@compiled
def set_words(
    n_targets: int,
    weight: Any,
    heaviest: Any,
    unit: Any,
    low: Array,
    high: Array,
    spread: Array,
    reach: Array,
    scale: Array,
    word_low: Array,
    word_limit: Array,
) -> int:
    """Choose what turns the scores of a panel into words, and write its thresholds; return how many.

    The words of a lane spread over its targets, and resolve a 16th of the rounding bound. Where they would
    not hold the lowest bracket, all words are 0 and decide nothing. Where words are the scores themselves, in
    units, a target has two thresholds: one that it reaches with its ties, and one that only what is above it
    reaches.

    Parameters
    ----------
    weight, heaviest : float32, the largest chain of the items that the words decide, and of all
    unit : float32, 0 or what all scores are multiples of, where fewer than 2^15 multiples are in reach
    low, high, spread, reach : of the panel, see ``load_lanes``
    scale, word_low, word_limit : written, see ``score_tile``
    """
    # Loops over the lanes have no branches, so that they become vector code.
    top = low[0].copy()
    for t in range(n_targets):
        for lane in range(LANES):
            top[lane] = max(top[lane], high[t, lane] if high[t, lane] < np.inf else top[lane])
    for lane in range(LANES):
        first, last = low[0, lane], top[lane]
        margin = spread[lane] * weight
        middle = np.float32(0.5) * first + np.float32(0.5) * last
        step = max((last - first) * np.float32(2.0**-15.9), margin * np.float32(2.0**-4))
        step = max(step, max(reach[lane] * heaviest, abs(middle)) * np.float32(2.0**-29))
        step, middle = (unit, np.float32(0.0)) if unit > 0 else (step, middle)
        factor = np.float32(1.0) / step
        summand = -middle * factor
        is_held = factor < np.inf and word_of(first - margin, factor, summand) >= np.float32(-32767.0)
        scale[0, lane] = factor if is_held else np.float32(0.0)
        scale[1, lane] = summand if is_held else np.float32(0.0)
    n_each = 2 if unit > 0 else 1
    for t in range(n_targets):
        for lane in range(LANES):
            margin, factor, summand = spread[lane] * weight, scale[0, lane], scale[1, lane]
            below = word_of(low[t, lane] - margin, factor, summand) if factor > 0 else np.float32(0.0)
            above = word_of(high[t, lane] + margin, factor, summand) if factor > 0 else np.float32(0.0)
            is_target = low[t, lane] < np.inf
            low_word = np.int32(min(below, np.float32(32767.0))) - 1 if is_target else np.int32(32767)
            high_word = np.int32(min(above, np.float32(32767.0))) if is_target else np.int32(32767)
            word_low[n_each * t, lane] = low_word
            word_limit[n_each * t, lane] = 0xFFFF - min(high_word - low_word, np.int32(0x8000))
            if unit > 0:
                word_low[2 * t + 1, lane] = high_word
    if unit > 0:
        word_limit[:] = 0xFFFF
    return n_each * n_targets


@compiled
def add_words(n_targets: int, unit: Any, counts: Array, block_above: Array, block_tied: Array) -> None:
    """Move what was counted in words to the counters of a panel."""
    for t in range(n_targets):
        for lane in range(LANES):
            if unit > 0:
                block_above[t, lane] += counts[2 * t + 1, lane]
                block_tied[t, lane] += counts[2 * t, lane] - counts[2 * t + 1, lane]
            else:
                block_above[t, lane] += counts[t, lane]
    counts[:] = 0


@compiled
def weigh_items(square_chains: Array, n: int, out: Array) -> None:
    """Write what ``weights`` returns for single items, slightly larger."""
    factor, least = np.float32(1.0 + (n + 8) * 2.0**-22), np.float32(2.0**-50)
    for at in range(square_chains.shape[0]):
        out[at] = factor * np.sqrt(square_chains[at]) + least


@compiled
def copy_tail(items: Array, first: int, tail: Array) -> None:
    """Copy the last rows, so that nothing is read beyond the end of the matrix."""
    for row in range(tail.shape[0]):
        for k in range(tail.shape[1]):
            is_inside = first + row < items.shape[0] and k < items.shape[1]
            tail[row, k] = items[first + row, k] if is_inside else np.float32(0.0)


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
    unit: Any,
    target_score: Array,
    fast_items: Array,
    square_norms: Array,
    weight: Array,
    item_weight: Array,
    copy: Array,
    users: Array,
    items: Array,
    bits: Array,
    bias: Array,
    order: Array,
    n_above: Array,
    n_tied: Array,
    block_users: Array,
    block_low: Array,
    block_high: Array,
    block_spread: Array,
    block_reach: Array,
    block_copy: Array,
    block_above: Array,
    block_tied: Array,
    cursor: Array,
    pool: Array,
    close: Array,
    near: Array,
    tail: Array,
    scores: Array,
    words: Array,
    scale: Array,
    word_low: Array,
    word_limit: Array,
    counts: Array,
) -> int:
    """Count the items start..stop-1 for one block of lanes; return how many were decided in float64."""
    n_items, stride = fast_items.shape
    n_panels, width, _ = block_users.shape
    per_target = 4 * LANES * block_low.shape[1]
    may_stop = 0 if unit > 0 else 1
    # Addresses are taken once: numba counts references whenever one is.
    at_fast_items = address_of(fast_items)
    at_tail = address_of(tail)
    at_item_weight = address_of(item_weight)
    at_copy = address_of(copy)
    at_pool = address_of(pool)
    at_near = address_of(near)
    at_scale = address_of(scale)
    at_scores = address_of(scores)
    at_words = address_of(words)
    at_word_low = address_of(word_low)
    at_word_limit = address_of(word_limit)
    at_counts = address_of(counts)
    at_block_users = address_of(block_users)
    at_block_low = address_of(block_low)
    at_block_high = address_of(block_high)
    at_block_spread = address_of(block_spread)
    at_block_copy = address_of(block_copy)
    at_block_above = address_of(block_above)
    at_block_tied = address_of(block_tied)
    n_recomputed, n_close, per_tile = 0, 0, near.itemsize * ITEMS * near.shape[1]
    for tile_start in range(start, stop, pool.shape[0]):
        tile_stop = min(tile_start + pool.shape[0], stop)
        tile_weights = weight[tile_start // ITEMS : (tile_stop - 1) // ITEMS + 1]
        heaviest = tile_weights.max()
        # Words for the few long items of some catalogues would decide nothing about the others.
        word_weight = min(heaviest, np.float32(4.0) * np.float32(np.median(tile_weights)))
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
            n_thresholds = set_words(
                n_targets,
                word_weight,
                heaviest,
                unit,
                block_low[panel],
                block_high[panel],
                block_spread[panel],
                block_reach[panel],
                scale,
                word_low,
                word_limit,
            )
            parity = 0
            for first in range(tile_start, tile_stop + ITEMS, ITEMS):
                # Words of the tile before are counted while this one is scored.
                if first < tile_stop:
                    address, step = at_fast_items + 4 * stride * first, stride
                    if first + ITEMS >= n_items:
                        copy_tail(fast_items, first, tail)
                        address, step = at_tail, width
                    open_targets = score_tile(
                        at_block_users + 4 * LANES * width * panel,
                        address,
                        step,
                        width,
                        at_pool + pool.itemsize * (first - tile_start),
                        at_scale,
                        at_scores + 4 * TILE * parity,
                        at_words + 2 * TILE * parity,
                        at_words + 2 * TILE * (1 - parity),
                        n_thresholds if first > tile_start else 0,
                        may_stop,
                        at_word_low,
                        at_word_limit,
                        at_counts,
                    )
                else:
                    open_targets = count_words(
                        at_words + 2 * TILE * (1 - parity),
                        n_thresholds,
                        may_stop,
                        at_word_low,
                        at_word_limit,
                        at_counts,
                    )
                before = first - ITEMS
                if first > tile_start and weight[before // ITEMS] > word_weight:
                    open_targets = (1 << n_targets) - 1
                if open_targets != 0 and unit == 0:
                    flags = count_open(
                        at_words + 2 * TILE * (1 - parity),
                        open_targets,
                        at_word_low,
                        at_word_limit,
                        at_counts,
                        at_scores + 4 * TILE * (1 - parity),
                        at_pool + pool.itemsize * (before - tile_start),
                        at_block_low + per_target * panel,
                        at_block_high + per_target * panel,
                        at_block_spread + 4 * LANES * panel,
                        at_item_weight + 4 * before,
                        at_copy + 4 * before,
                        at_block_copy + per_target * panel,
                        -1 if are_ties else 0,
                        at_block_above + per_target * panel,
                        at_block_tied + per_target * panel,
                        at_near + per_tile * n_close,
                    )
                    if flags != 0:
                        close[n_close, 0], close[n_close, 1], close[n_close, 2] = flags, before, lane
                        n_close += 1
                    if n_close == close.shape[0]:
                        n_recomputed += decide_near(
                            n_close,
                            close,
                            near,
                            lane_row,
                            lane_pair,
                            target_items,
                            target_score,
                            square_norms,
                            users,
                            items,
                            bits,
                            bias,
                            order,
                            n_above,
                            n_tied,
                        )
                        n_close = 0
                parity = 1 - parity
            add_words(n_targets, unit, counts, block_above[panel], block_tied[panel])
    n_recomputed += decide_near(
        n_close,
        close,
        near,
        lane_row,
        lane_pair,
        target_items,
        target_score,
        square_norms,
        users,
        items,
        bits,
        bias,
        order,
        n_above,
        n_tied,
    )
    return n_recomputed


@compiled
def unload_lanes(
    first_lane: int,
    lane_row: Array,
    lane_pair: Array,
    lane_size: Array,
    seen_indptr: Array,
    order: Array,
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
            n_above[order[pair]] += block_above[lane // LANES, t, lane % LANES]
            n_tied[order[pair]] += block_tied[lane // LANES, t, lane % LANES]
        is_complete &= cursor[lane] == seen_indptr[lane_row[first_lane + lane] + 1]
    return is_complete
