"""Triton kernels that count items above a target without storing scores; near ties are decided in float64.

Comparing would cost as much as multiplying, so it is done by arithmetic that runs beside it. A score s is
mapped to q = s c + e cut to [0, 1], with c and e such that q = 1/2 at the target and q = 1/4, 3/4 at the
ends of its band. The sum of q over a tile counts what is above as long as no q is fractional, and the sum
of q (1 - q) tells: it is 0.17 or more when a score lies in the band (0.03 of rounding allowed for), and below
0.1 the sum of q is within 0.12 of the count. Rows of a tile where it is larger, about one in a hundred for
Gaussian factors, stay open: a byte per row and tile says so. They are listed tile by tile; a second kernel
goes through the list score by score and marks the pairs in the band, about one in twenty thousand, which a
third one decides.

Rows whose scores are exact (``error_bound``, multiples) never stay open: a band of a quarter of what scores
differ by makes q 0, 1/2 or 1, so that 4 sum q (1 - q) is the number of ties.

Lists are sized after counting what goes there, and made in parts where they would be too long, so that no
product is repeated. Rows that leave more than a thirtieth of all pairs undecided are counted in float64.
"""

from __future__ import annotations

from truerank.ranking.gpu.device import jit, tl

# Programs of a launch that counts: enough that the last ones do not keep a large GPU waiting. Tiles of each.
PROGRAMS = 1 << 13
LEAST_TILES = 32


@jit("first_block", "stop_tile", "n_items", "n_rows")
def count_kernel(  # type: ignore[no-untyped-def]
    x_high,
    x_low,
    y_high,
    y_low,
    bias,
    scale,
    target,
    slack,
    x_cross,
    y_cross,
    row_bounds,
    tile_bounds,
    weight,
    is_exact,
    n_tiles,
    n_above,
    n_tied,
    is_open,
    first_block,
    stop_tile,
    n_items,
    n_rows,
    D: tl.constexpr,
    HAS_BIAS: tl.constexpr,
    HAS_WEIGHT: tl.constexpr,
    HAS_EXACT: tl.constexpr,
    HAS_ASM: tl.constexpr,
    IN_FLOAT8: tl.constexpr,
    ROWS: tl.constexpr,
    ITEMS: tl.constexpr,
    CHUNK: tl.constexpr,
):
    """Count what is surely above the targets of a block of rows; mark the rows of a tile that stay open."""
    block = first_block + tl.program_id(0)
    row = block * ROWS + tl.arange(0, ROWS)
    local = row - first_block * ROWS
    k = tl.arange(0, CHUNK)
    length = tl.minimum(tl.load(n_tiles + block), stop_tile)
    start = length * tl.program_id(1) // tl.num_programs(1)
    stop = length * (tl.program_id(1) + 1) // tl.num_programs(1)

    middle = tl.load(target + row)
    absolute = tl.load(slack + row)
    a0 = tl.load(row_bounds + row * 4)
    a1 = tl.load(row_bounds + row * 4 + 1)
    a2 = tl.load(row_bounds + row * 4 + 2)
    a3 = tl.load(row_bounds + row * 4 + 3)
    row_scale = tl.load(scale + row)
    x_place = row[:, None] * D + k[None, :]
    both = tl.arange(0, 2 * CHUNK)
    if IN_FLOAT8:
        high = tl.load(x_high + x_place)
        cross = tl.load(x_cross + row[:, None] * (2 * D) + both[None, :])
    elif D == CHUNK:
        high = tl.load(x_high + x_place)
        low = tl.load(x_low + x_place)
    total = tl.zeros((ROWS,), tl.int32)
    ties = tl.zeros((ROWS,), tl.int32)
    if HAS_EXACT:
        exact = tl.load(is_exact + row) != 0
    wide_rows = tl.cast(n_rows, tl.int64)

    for tile in range(start, stop):
        item = tile * ITEMS + tl.arange(0, ITEMS)
        y_place = item[None, :] * D + k[:, None]
        if IN_FLOAT8:
            item_cross = tl.load(y_cross + item[None, :] * (2 * D) + both[:, None])
            item_high = tl.load(y_high + y_place)
            score = tl.dot(cross, item_cross)
            score = tl.dot(high, item_high, score)
        elif D == CHUNK:
            item_high = tl.load(y_high + y_place)
            item_low = tl.load(y_low + y_place)
            score = tl.dot(low, item_high)
            score = tl.dot(high, item_low, score)
            score = tl.dot(high, item_high, score)
        else:
            score = _long_scores(x_high, x_low, y_high, y_low, x_place, y_place, D, ROWS, ITEMS, CHUNK)
        if HAS_BIAS:
            score += row_scale[:, None] * tl.load(bias + item)[None, :]
        if (tile + 1) * ITEMS > n_items:
            score = tl.where((item < n_items)[None, :], score, float("-inf"))
        b0 = tl.load(tile_bounds + tile * 4)
        b1 = tl.load(tile_bounds + tile * 4 + 1)
        b2 = tl.load(tile_bounds + tile * 4 + 2)
        b3 = tl.load(tile_bounds + tile * 4 + 3)
        # Rounded correctly, because the slope of exact rows is a power of two.
        slope = tl.div_rn(0.25, absolute + a0 * b0 + a1 * b1 + a2 * b2 + a3 * b3)
        offset = 0.5 - middle * slope
        if HAS_ASM:
            # A product, a sum and the cut to [0, 1] in one instruction.
            share = tl.inline_asm_elementwise(
                "fma.rn.sat.f32 $0, $1, $2, $3;",
                "=f,f,f,f",
                [score, slope[:, None], offset[:, None]],
                dtype=tl.float32,
                is_pure=True,
                pack=1,
            )
        else:
            share = tl.fma(score, slope[:, None], offset[:, None])
            share = tl.minimum(tl.where(share > 0.0, share, 0.0), 1.0)
        summed = tl.sum(share, 1)
        split = summed - tl.sum(share * share, 1)
        opened = split > 0.1
        if HAS_EXACT:
            opened = opened & (exact == 0)
        if HAS_WEIGHT:
            mine = tl.load(weight + item)
            found = tl.sum(tl.where(share > 0.5, mine[None, :], 0), 1)
            if HAS_EXACT:
                same = tl.sum(tl.where(share == 0.5, mine[None, :], 0), 1)
                ties += tl.where(exact, same, 0)
        else:
            if HAS_EXACT:
                same = tl.where(exact, (4.0 * split + 0.5).to(tl.int32), 0)
                ties += same
                summed -= 0.5 * same.to(tl.float32)
            found = (summed + 0.5).to(tl.int32)
        total += tl.where(opened, 0, found)
        tl.store(is_open + tile * wide_rows + local, opened.to(tl.int8))
    tl.atomic_add(n_above + local, total, sem="relaxed")
    if HAS_EXACT:
        tl.atomic_add(n_tied + local, ties, sem="relaxed")


@jit("first_block", "first", "stop", "n_groups", "n_rows")
def list_kernel(  # type: ignore[no-untyped-def]
    is_open,
    n_tiles,
    n_open,
    ends,
    open_row,
    open_tile,
    first_block,
    first,
    stop,
    n_groups,
    n_rows,
    WRITES: tl.constexpr,
    GROUP: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Count the open rows of a tile and a group of rows or, with WRITES, list those from first to stop.

    Marks are bytes of 0 or 1, read eight at a time: a product adds them up in its highest byte.
    """
    unit = tl.program_id(0)
    tile = unit // n_groups
    local = (unit % n_groups) * GROUP + tl.arange(0, GROUP // 8) * 8
    n_mine = tl.load(n_tiles + first_block + local // BLOCK, mask=local < n_rows, other=0)
    marks = is_open + tile * tl.cast(n_rows // 8, tl.int64)
    flags = tl.load(marks + local // 8, mask=tile < n_mine, other=0)
    count = ((flags * 0x0101010101010101) >> 56).to(tl.int32)
    found = tl.sum(count, 0)
    if WRITES:
        if found > 0:
            slot = (tl.load(ends + unit) - found - first).to(tl.int32) + tl.cumsum(count, 0) - count
            for byte in tl.static_range(8):
                flag = ((flags >> (8 * byte)) & 1).to(tl.int32)
                is_kept = (flag != 0) & (slot >= 0) & (slot < stop - first)
                tl.store(open_row + slot, local + byte, mask=is_kept)
                tl.store(open_tile + slot, tile + tl.zeros_like(local), mask=is_kept)
                slot += flag
    else:
        tl.store(n_open + unit, found)


@jit("first_block", "first", "stop", "n_groups", "n_items")
def settle_kernel(  # type: ignore[no-untyped-def]
    x_high,
    x_low,
    y_high,
    y_low,
    bias,
    scale,
    target,
    slack,
    row_bounds,
    tile_bounds,
    weight,
    n_above,
    ends,
    open_row,
    near_words,
    n_near,
    first_block,
    first,
    stop,
    n_groups,
    n_items,
    D: tl.constexpr,
    HAS_BIAS: tl.constexpr,
    HAS_WEIGHT: tl.constexpr,
    BLOCK: tl.constexpr,
    ROWS: tl.constexpr,
    ITEMS: tl.constexpr,
    CHUNK: tl.constexpr,
):
    """Count the open rows first..stop-1 score by score; mark the pairs that are too close to tell.

    Open rows are listed tile after tile; each gets four words with a bit per item, and their number.
    """
    tile = tl.program_id(0)
    least = tl.load(ends + tile * n_groups - 1, mask=tile > 0, other=0)
    least = tl.maximum(least, first)
    most = tl.minimum(tl.load(ends + (tile + 1) * n_groups - 1), stop)
    item = tile * ITEMS + tl.arange(0, ITEMS)
    k = tl.arange(0, CHUNK)
    y_place = item[None, :] * D + k[:, None]
    is_item = (item < n_items)[None, :]
    b0 = tl.load(tile_bounds + tile * 4)
    b1 = tl.load(tile_bounds + tile * 4 + 1)
    b2 = tl.load(tile_bounds + tile * 4 + 2)
    for start in range(least + tl.program_id(1) * ROWS, most, tl.num_programs(1) * ROWS):
        at = start + tl.arange(0, ROWS)
        is_mine = at < most
        place = tl.load(open_row + (at - first), mask=is_mine, other=0)
        row = first_block * BLOCK + place
        x_place = row[:, None] * D + k[None, :]
        score = _long_scores(x_high, x_low, y_high, y_low, x_place, y_place, D, ROWS, ITEMS, CHUNK)
        if HAS_BIAS:
            score += tl.load(scale + row)[:, None] * tl.load(bias + item)[None, :]
        band = tl.load(slack + row) + tl.load(row_bounds + row * 4) * b0
        band += tl.load(row_bounds + row * 4 + 1) * b1 + tl.load(row_bounds + row * 4 + 2) * b2
        gap = score - tl.load(target + row)[:, None]
        competes = is_item & is_mine[:, None]
        higher = (gap > band[:, None]) & competes
        if HAS_WEIGHT:
            found = tl.sum(tl.where(higher, tl.load(weight + item)[None, :], 0), 1)
        else:
            found = tl.sum(higher.to(tl.int32), 1)
        tl.atomic_add(n_above + place, found, mask=is_mine, sem="relaxed")
        near = ((tl.abs(gap) <= band[:, None]) & competes).to(tl.int32)
        tl.store(n_near + (at - first), tl.sum(near, 1), mask=is_mine)
        bit = tl.reshape(near << (tl.arange(0, ITEMS) % 32)[None, :], (ROWS, ITEMS // 32, 32))
        word = (at - first)[:, None] * (ITEMS // 32) + tl.arange(0, ITEMS // 32)[None, :]
        tl.store(near_words + word, tl.sum(bit, 2), mask=is_mine[:, None])


@jit("first_block", "n_entries", "first", "stop")
def expand_kernel(  # type: ignore[no-untyped-def]
    near_words,
    n_near,
    near_ends,
    open_row,
    open_tile,
    near_row,
    near_item,
    n_open,
    n_listed,
    first_block,
    n_entries,
    first,
    stop,
    IS_AHEAD: tl.constexpr,
    BLOCK: tl.constexpr,
    ITEMS: tl.constexpr,
    ENTRIES: tl.constexpr,
):
    """List the marked pairs first..stop-1 of all open rows.

    With IS_AHEAD ``n_listed`` becomes their number, or -1 where open rows or pairs do not fit their lists.
    """
    if IS_AHEAD:
        total = tl.load(near_ends + n_entries - 1)
        fits = (tl.load(n_open) <= n_entries) & (total <= stop)
        tl.store(n_listed, tl.where(fits, total, -1), mask=tl.program_id(0) == 0)
    at = tl.program_id(0) * ENTRIES + tl.arange(0, ENTRIES)
    is_entry = at < n_entries
    count = tl.load(n_near + at, mask=is_entry, other=0)
    if tl.max(count, 0) > 0:
        slot = tl.load(near_ends + at, mask=is_entry, other=0) - count
        row = first_block * BLOCK + tl.load(open_row + at, mask=is_entry, other=0)
        item = tl.load(open_tile + at, mask=is_entry, other=0) * ITEMS
        for word in range(ITEMS // 32):
            bits = tl.load(near_words + at * (ITEMS // 32) + word, mask=is_entry & (count > 0), other=0)
            while tl.max((bits != 0).to(tl.int32), 0) > 0:
                lowest = bits & (-bits)
                # The exponent of a power of two is the place of its bit.
                place = ((lowest.to(tl.float32).to(tl.int32, bitcast=True) >> 23) & 255) - 127
                is_kept = (bits != 0) & (slot >= first) & (slot < stop)
                tl.store(near_row + (slot - first), row, mask=is_kept)
                tl.store(near_item + (slot - first), item + word * 32 + place, mask=is_kept)
                slot += (bits != 0).to(tl.int64)
                bits = bits ^ lowest


@jit("first_block", "n_pairs", "n_items", "n_tied_with_zeros")
def add_kernel(  # type: ignore[no-untyped-def]
    counted,
    ties,
    settled,
    pair_of,
    target,
    n_tiles,
    weight_before,
    above,
    tied,
    n_listed,
    first_block,
    n_pairs,
    n_items,
    n_tied_with_zeros,
    HAS_WEIGHT: tl.constexpr,
    HAS_EXACT: tl.constexpr,
    IS_AHEAD: tl.constexpr,
    BLOCK: tl.constexpr,
    TILE: tl.constexpr,
):
    """Add what was counted for a block of rows to their pairs, and the items too short to be scored.

    Those lie above a negative target, and below others. Users of zeros, whose target is infinite here, tie
    with all items; so are rows beyond those of pairs marked, which fill the last block. With IS_AHEAD nothing
    is added where ``n_listed`` is below 0: these rows are counted again.
    """
    local = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    block = first_block + tl.program_id(0)
    row = block * BLOCK + tl.arange(0, BLOCK)
    n_scored = tl.minimum(tl.load(n_tiles + block) * TILE, n_items)
    n_short = (n_items - n_scored).to(tl.int64)
    if HAS_WEIGHT:
        n_short = tl.load(weight_before + n_items) - tl.load(weight_before + n_scored)
    found = (tl.load(counted + local) + tl.load(settled + local)).to(tl.int64)
    score = tl.load(target + row)
    found += tl.where(score < 0.0, n_short, 0)
    pair = tl.load(pair_of + row)
    is_added = row >= 0
    if IS_AHEAD:
        is_added = tl.load(n_listed) + tl.zeros_like(row) >= 0
    tl.atomic_add(above + pair, found, mask=is_added, sem="relaxed")
    is_zero = (score == float("inf")) & (row < n_pairs) & is_added
    tl.atomic_add(tied + pair, tl.zeros((BLOCK,), tl.int64) + n_tied_with_zeros, mask=is_zero, sem="relaxed")
    if HAS_EXACT:
        tl.atomic_add(tied + pair, tl.load(ties + local).to(tl.int64), mask=is_added, sem="relaxed")


@jit()
def _long_scores(  # type: ignore[no-untyped-def]
    x_high,
    x_low,
    y_high,
    y_low,
    x_place,
    y_place,
    D: tl.constexpr,
    ROWS: tl.constexpr,
    ITEMS: tl.constexpr,
    CHUNK: tl.constexpr,
):
    """Return the scores of a tile, chunk after chunk of the coordinates, the small products first."""
    score = tl.zeros((ROWS, ITEMS), tl.float32)
    for at in range(0, D, CHUNK):
        score = tl.dot(tl.load(x_low + x_place + at), tl.load(y_high + y_place + at), score)
        score = tl.dot(tl.load(x_high + x_place + at), tl.load(y_low + y_place + at), score)
    for at in range(0, D, CHUNK):
        score = tl.dot(tl.load(x_high + x_place + at), tl.load(y_high + y_place + at), score)
    return score
