"""Triton kernels for single pairs: float64 scores of listed pairs, and adaptive samples.

Scores are those that ``ranking.cpu.counts`` defines. For adaptive samples one kernel samples, scores and
counts negatives, round after round, until the stopping rule has decided every target.
"""

from __future__ import annotations

from truerank.ranking.gpu.device import jit, tl


@jit()
def device_pair_score(  # type: ignore[no-untyped-def]
    users, items, bias, user, code, is_real, n_coordinates, HAS_BIAS: tl.constexpr, PAIRS: tl.constexpr
):
    """Return float64 scores, coordinates in ascending order."""
    left = users + user * n_coordinates
    right = items + code * n_coordinates
    total = tl.zeros((PAIRS,), tl.float64)
    for k in range(n_coordinates):
        product = tl.load(left + k, mask=is_real, other=0).to(tl.float64) * tl.load(
            right + k, mask=is_real, other=0
        ).to(tl.float64)
        total += product
    if HAS_BIAS:
        total += tl.load(bias + code, mask=is_real, other=0)
    return total


@jit("n_pairs", "n_coordinates")
def score_kernel(  # type: ignore[no-untyped-def]
    users,
    items,
    bias,
    user,
    code,
    out,
    n_pairs,
    n_coordinates,
    HAS_BIAS: tl.constexpr,
    PAIRS: tl.constexpr,
):
    """Write the scores of pairs."""
    at = tl.program_id(0).to(tl.int64) * PAIRS + tl.arange(0, PAIRS)
    is_real = at < n_pairs
    mine = tl.load(user + at, mask=is_real, other=0).to(tl.int64)
    other = tl.load(code + at, mask=is_real, other=0).to(tl.int64)
    total = device_pair_score(users, items, bias, mine, other, is_real, n_coordinates, HAS_BIAS, PAIRS)
    tl.store(out + at, total, mask=is_real)


@jit("n_pairs", "n_coordinates", "sign")
def decide_kernel(  # type: ignore[no-untyped-def]
    users,
    items,
    bias,
    user,
    code,
    first,
    stop,
    target_score,
    above,
    tied,
    n_pairs,
    n_coordinates,
    sign,
    HAS_BIAS: tl.constexpr,
    IS_SINGLE: tl.constexpr,
    PAIRS: tl.constexpr,
):
    """Add ``sign`` to the counts of the targets that an item scores higher than, or the same as."""
    at = tl.program_id(0).to(tl.int64) * PAIRS + tl.arange(0, PAIRS)
    is_real = at < n_pairs
    mine = tl.load(user + at, mask=is_real, other=0).to(tl.int64)
    other = tl.load(code + at, mask=is_real, other=0).to(tl.int64)
    score = device_pair_score(users, items, bias, mine, other, is_real, n_coordinates, HAS_BIAS, PAIRS)
    begin = tl.load(first + at, mask=is_real, other=0)
    # Added as int64, like the counts.
    step = tl.zeros((PAIRS,), tl.int64) + sign
    if IS_SINGLE:
        reference = tl.load(target_score + begin, mask=is_real, other=0)
        tl.atomic_add(above + begin, step, mask=is_real & (score > reference), sem="relaxed")
        tl.atomic_add(tied + begin, step, mask=is_real & (score == reference), sem="relaxed")
    else:
        n_targets = tl.load(stop + at, mask=is_real, other=0) - begin
        for place in range(tl.max(tl.where(is_real, n_targets, 0), 0)):
            has_target = is_real & (place < n_targets)
            reference = tl.load(target_score + begin + place, mask=has_target, other=0)
            tl.atomic_add(above + begin + place, step, mask=has_target & (score > reference), sem="relaxed")
            tl.atomic_add(tied + begin + place, step, mask=has_target & (score == reference), sem="relaxed")


@jit("n_near", "n_coordinates")
def near_kernel(  # type: ignore[no-untyped-def]
    users,
    items,
    bias,
    near_row,
    near_item,
    user_of,
    pair_of,
    code_of,
    weight,
    target_score,
    above,
    tied,
    n_listed,
    n_near,
    n_coordinates,
    HAS_BIAS: tl.constexpr,
    HAS_WEIGHT: tl.constexpr,
    IS_AHEAD: tl.constexpr,
    PAIRS: tl.constexpr,
):
    """Add the weights of listed items that score higher than the target of their row, or the same.

    With IS_AHEAD their number stands in memory, below 0 where the list is not whole.
    """
    at = tl.program_id(0).to(tl.int64) * PAIRS + tl.arange(0, PAIRS)
    if IS_AHEAD:
        n_near = tl.load(n_listed)
    is_real = at < n_near
    row = tl.load(near_row + at, mask=is_real, other=0)
    item = tl.load(near_item + at, mask=is_real, other=0)
    user = tl.load(user_of + row, mask=is_real, other=0)
    pair = tl.load(pair_of + row, mask=is_real, other=0)
    code = tl.load(code_of + item, mask=is_real, other=0)
    score = device_pair_score(users, items, bias, user, code, is_real, n_coordinates, HAS_BIAS, PAIRS)
    reference = tl.load(target_score + pair, mask=is_real, other=0)
    step = tl.full((PAIRS,), 1, tl.int64)
    if HAS_WEIGHT:
        step = tl.load(weight + item, mask=is_real, other=0).to(tl.int64)
    tl.atomic_add(above + pair, step, mask=is_real & (score > reference), sem="relaxed")
    tl.atomic_add(tied + pair, step, mask=is_real & (score == reference), sem="relaxed")


@jit("n_rows", "n_items", "n_coordinates")
def dense_kernel(  # type: ignore[no-untyped-def]
    users,
    items,
    bias,
    user_of,
    pair_of,
    target,
    n_tiles,
    code_of,
    weight,
    target_score,
    above,
    tied,
    n_rows,
    n_items,
    n_coordinates,
    HAS_BIAS: tl.constexpr,
    HAS_WEIGHT: tl.constexpr,
    BLOCK: tl.constexpr,
    TILE: tl.constexpr,
    ROWS: tl.constexpr,
    ITEMS: tl.constexpr,
):
    """Count sorted rows and items by float64 scores alone, each row against the tiles its block needs."""
    n_columns = tl.cdiv(n_items, ITEMS)
    row = (tl.program_id(0) // n_columns) * ROWS + tl.arange(0, ROWS)
    item = (tl.program_id(0) % n_columns) * ITEMS + tl.arange(0, ITEMS)
    # Rows with an infinite target count nothing.
    is_row = (row < n_rows) & (tl.load(target + row, mask=row < n_rows, other=0.0) < float("inf"))
    is_item = item < n_items
    reach = tl.load(n_tiles + row // BLOCK, mask=is_row, other=0) * TILE
    pair = tl.load(pair_of + row, mask=is_row, other=0)
    left = users + tl.load(user_of + row, mask=is_row, other=0) * n_coordinates
    code = tl.load(code_of + item, mask=is_item, other=0)
    right = items + code * n_coordinates
    score = tl.zeros((ROWS, ITEMS), tl.float64)
    for k in range(n_coordinates):
        x = tl.load(left + k, mask=is_row, other=0).to(tl.float64)
        y = tl.load(right + k, mask=is_item, other=0).to(tl.float64)
        score += x[:, None] * y[None, :]
    if HAS_BIAS:
        score += tl.load(bias + code, mask=is_item, other=0)[None, :]
    reference = tl.load(target_score + pair, mask=is_row, other=0)[:, None]
    competes = is_item[None, :] & (item[None, :] < reach[:, None])
    step = tl.full((ITEMS,), 1, tl.int64)
    if HAS_WEIGHT:
        step = tl.load(weight + item, mask=is_item, other=0).to(tl.int64)
    n_above = tl.sum(tl.where((score > reference) & competes, step[None, :], 0), 1)
    n_tied = tl.sum(tl.where((score == reference) & competes, step[None, :], 0), 1)
    tl.atomic_add(above + pair, n_above, mask=is_row, sem="relaxed")
    tl.atomic_add(tied + pair, n_tied, mask=is_row, sem="relaxed")


@jit("n_rows", "n_items", "n_coordinates")
def whole_kernel(  # type: ignore[no-untyped-def]
    users,
    items,
    bias,
    user,
    target_score,
    above,
    tied,
    n_rows,
    n_items,
    n_coordinates,
    HAS_BIAS: tl.constexpr,
    ROWS: tl.constexpr,
    ITEMS: tl.constexpr,
):
    """Count a tile by float64 scores alone."""
    n_columns = tl.cdiv(n_items, ITEMS)
    row = (tl.program_id(0) // n_columns) * ROWS + tl.arange(0, ROWS)
    item = (tl.program_id(0) % n_columns) * ITEMS + tl.arange(0, ITEMS)
    is_row = row < n_rows
    is_item = item < n_items
    left = users + tl.load(user + row, mask=is_row, other=0) * n_coordinates
    right = items + item.to(tl.int64) * n_coordinates
    score = tl.zeros((ROWS, ITEMS), tl.float64)
    for k in range(n_coordinates):
        x = tl.load(left + k, mask=is_row, other=0).to(tl.float64)
        y = tl.load(right + k, mask=is_item, other=0).to(tl.float64)
        score += x[:, None] * y[None, :]
    if HAS_BIAS:
        score += tl.load(bias + item, mask=is_item, other=0)[None, :]
    target = tl.load(target_score + row, mask=is_row, other=0)[:, None]
    n_above = tl.sum(((score > target) & is_item[None, :]).to(tl.int64), 1)
    n_tied = tl.sum(((score == target) & is_item[None, :]).to(tl.int64), 1)
    tl.atomic_add(above + row, n_above, mask=is_row, sem="relaxed")
    tl.atomic_add(tied + row, n_tied, mask=is_row, sem="relaxed")


@jit("room", "n_rounds", "most_above", "n_items", "excess", "spare")
def grow_kernel(  # type: ignore[no-untyped-def]
    users,
    items,
    bias,
    target_score,
    chosen,
    row_of,
    first_pair,
    stop_pair,
    user_of,
    user_code,
    target_code,
    key,
    excluded_indptr,
    excluded,
    target_indptr,
    targets,
    sizes,
    taken_start,
    taken,
    above_out,
    tied_out,
    drawn_out,
    room,
    n_rounds,
    most_above,
    n_items,
    excess,
    spare,
    n_coordinates,
    HAS_BIAS: tl.constexpr,
    REPLACEMENT: tl.constexpr,
    LISTED: tl.constexpr,
    IS_CHOSEN: tl.constexpr,
    IS_GROUPED: tl.constexpr,
    PER_TARGET: tl.constexpr,
    TRIES: tl.constexpr,
    OTHERS: tl.constexpr,
    CHUNK: tl.constexpr,
    TARGETS: tl.constexpr,
):
    """Compare some targets of a row with its negatives, until each may stop or there is no room for more.

    A program takes a row with its one target or, with IS_GROUPED, some of its targets; rows are users unless
    PER_TARGET. Half word h of a row proposes an item; it is passed over when it is excluded, a target or
    taken before, so that the negatives are those of ``growing.NegativeSequences``, as far as they are sampled
    by rejection. What is taken is kept in ``room`` places; with LISTED the negatives are there already.
    """
    own = tl.program_id(0).to(tl.int64)
    program = own
    if IS_CHOSEN:
        program = tl.load(chosen + own)
    row = program
    first = program
    stop_at = program + 1
    if IS_GROUPED:
        row = tl.load(row_of + program)
        first = tl.load(first_pair + program)
        stop_at = tl.load(stop_pair + program)
    user = row
    if PER_TARGET:
        user = tl.load(user_of + row)
    pair = first + tl.arange(0, TARGETS)
    is_pair = pair < stop_at
    target = tl.load(target_score + pair, mask=is_pair, other=0.0)
    excluded_start = tl.load(excluded_indptr + user)
    excluded_stop = tl.load(excluded_indptr + user + 1)
    target_start = tl.load(target_indptr + user)
    target_stop = tl.load(target_indptr + user + 1)
    free = n_items - (excluded_stop - excluded_start) - (target_stop - target_start)
    # How far rejection may go, see ``NegativeSequences.head_of``.
    most = free
    mine = taken
    if LISTED:
        mine += tl.load(taken_start + own)
        if REPLACEMENT:
            most = tl.load(sizes + n_rounds - 1)
    elif REPLACEMENT:
        most = tl.where(free < spare, 0, tl.load(sizes + n_rounds - 1))
    else:
        mine += own * room
        most = tl.where(free - spare < tl.load(sizes), 0, free - spare)
        most = tl.minimum(most, room)
    # The state of the row's random stream, see ``core.random.pair_keys``.
    who = tl.load(user_code + user)
    what = tl.zeros_like(who)
    if PER_TARGET:
        what = tl.load(target_code + row)
    seed = _mixed(tl.load(key).to(tl.uint64, bitcast=True), who.to(tl.uint64))
    seed = _mixed(seed, what.to(tl.uint64))
    seed = _finished(seed ^ tl.load(key + 1).to(tl.uint64, bitcast=True))
    lane = tl.arange(0, TRIES)

    above = tl.zeros((TARGETS,), tl.int32)
    tied = tl.zeros((TARGETS,), tl.int32)
    drawn = tl.zeros((TARGETS,), tl.int32)
    have = tl.full([], 0, tl.int64)
    used = tl.full([], 0, tl.int64)
    for j in range(n_rounds):
        want = tl.load(sizes + j)
        if not REPLACEMENT:
            want = tl.minimum(want, free)
        goes_on = is_pair & (above <= most_above) & (drawn == have)
        is_asked = (tl.max(goes_on.to(tl.int32), 0) > 0) & (want <= most)
        stop = tl.where(is_asked, want, have)
        while have < stop:
            if LISTED:
                is_taken = have + lane < stop
                item = tl.load(mine + have + lane, mask=is_taken, other=0)
                have = tl.minimum(have + TRIES, stop)
            else:
                half = used + lane
                word = _mixed(seed, (half >> 1).to(tl.uint64))
                part = tl.where((half & 1) == 1, word & 0xFFFFFFFF, word >> 32)
                scaled = part * tl.cast(n_items, tl.uint64)
                item = (scaled >> 32).to(tl.int32)
                is_free = (scaled & 0xFFFFFFFF) >= tl.cast(excess, tl.uint64)
                is_free = is_free & _absent(item, excluded, excluded_start, excluded_stop, OTHERS)
                is_free = is_free & _absent(item, targets, target_start, target_stop, OTHERS)
                if not REPLACEMENT:
                    is_free = is_free & _absent(item, mine, tl.full([], 0, tl.int64), have, OTHERS)
                    is_same = (item[:, None] == item[None, :]) & (lane[None, :] < lane[:, None])
                    is_same = is_same & is_free[None, :]
                    is_free = is_free & (tl.max(is_same.to(tl.int32), 1) == 0)
                place = have + tl.cumsum(is_free.to(tl.int32), 0) - 1
                is_taken = is_free & (place < stop)
                found = tl.sum(is_free.to(tl.int32), 0)
                last = tl.max(tl.where(is_taken, lane, -1), 0)
                used += tl.where(have + found >= stop, last + 1, TRIES)
                have = tl.minimum(have + found, stop)
                if not REPLACEMENT:
                    tl.store(mine + place, item, mask=is_taken)
                    tl.debug_barrier()  # the next tile reads what other threads wrote
            code = item.to(tl.int64)
            score, size = _quick_scores(users, items, user, code, is_taken, n_coordinates, TRIES, CHUNK)
            if HAS_BIAS:
                added = tl.load(bias + code, mask=is_taken, other=0.0)
                score += added
                size += tl.abs(added)
            # Both sums add the same products, each off by at most half of this.
            band = size * ((n_coordinates + 8) * 2.220446049250313e-16)
            is_near = tl.abs(score[:, None] - target[None, :]) <= band[:, None]
            is_near = is_near & goes_on[None, :] & is_taken[:, None]
            is_near = tl.max(is_near.to(tl.int32), 1) > 0
            if tl.max(is_near.to(tl.int32), 0) > 0:
                same_user = user + tl.zeros((TRIES,), tl.int64)
                slow = device_pair_score(
                    users, items, bias, same_user, code, is_near, n_coordinates, HAS_BIAS, TRIES
                )
                score = tl.where(is_near, slow, score)
            counted = is_taken[:, None] & goes_on[None, :]
            above += tl.sum(((score[:, None] > target[None, :]) & counted).to(tl.int32), 0)
            tied += tl.sum(((score[:, None] == target[None, :]) & counted).to(tl.int32), 0)
        drawn = tl.where(goes_on, have.to(tl.int32), drawn)
    tl.store(above_out + pair, above, mask=is_pair)
    tl.store(tied_out + pair, tied, mask=is_pair)
    tl.store(drawn_out + pair, drawn, mask=is_pair)


@jit()
def _mixed(state, number):  # type: ignore[no-untyped-def]
    """Return the word of that number (SplitMix64, see ``core.random``)."""
    return _finished(state + (number + 1) * 0x9E3779B97F4A7C15)


@jit()
def _finished(word):  # type: ignore[no-untyped-def]
    """Return the random bits of a state."""
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9
    word = (word ^ (word >> 27)) * 0x94D049BB133111EB
    return word ^ (word >> 31)


@jit()
def _absent(item, others, start, stop, OTHERS: tl.constexpr):  # type: ignore[no-untyped-def]
    """Return which items are not in others[start:stop]."""
    n_same = tl.zeros_like(item)
    number = tl.arange(0, OTHERS)
    for at in range(start, stop, OTHERS):
        other = tl.load(others + at + number, mask=at + number < stop, other=-1)
        n_same += tl.sum((item[:, None] == other[None, :]).to(tl.int32), 1)
    return n_same == 0


@jit()
def _quick_scores(  # type: ignore[no-untyped-def]
    users, items, user, code, is_real, n_coordinates, TRIES: tl.constexpr, CHUNK: tl.constexpr
):
    """Return sums of the products and of their magnitudes, in float64 and in whatever order is quick."""
    score = tl.zeros((TRIES,), tl.float64)
    size = tl.zeros((TRIES,), tl.float64)
    for start in range(0, n_coordinates, CHUNK):
        k = start + tl.arange(0, CHUNK)
        is_coordinate = k < n_coordinates
        left = tl.load(users + user * n_coordinates + k, mask=is_coordinate, other=0).to(tl.float64)
        right = tl.load(
            items + code[:, None] * n_coordinates + k[None, :],
            mask=is_real[:, None] & is_coordinate[None, :],
            other=0,
        ).to(tl.float64)
        product = left[None, :] * right
        score += tl.sum(product, 1)
        size += tl.sum(tl.abs(product), 1)
    return score, size
