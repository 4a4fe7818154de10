"""Triton kernels that compute float64 scores as ``kernels.pair_score`` defines them."""

from __future__ import annotations

from truerank.ranks.gpu.language import jit, tl


@jit
def pair_score(  # type: ignore[no-untyped-def]
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


@jit
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
    total = pair_score(users, items, bias, mine, other, is_real, n_coordinates, HAS_BIAS, PAIRS)
    tl.store(out + at, total, mask=is_real)


@jit
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
    score = pair_score(users, items, bias, mine, other, is_real, n_coordinates, HAS_BIAS, PAIRS)
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


@jit
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
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    item = tl.program_id(0) * ITEMS + tl.arange(0, ITEMS)
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
