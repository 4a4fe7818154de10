"""Triton kernels that take items a user has seen off the counts of items above and tied with targets.

They compare float64 scores. Lists of seen items are sent to the device, or read in the memory of the host.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from truerank.ranking.gpu.device import jit, tl
from truerank.ranking.gpu.triton_pairs import device_pair_score

if TYPE_CHECKING:
    from torch import Tensor

# Seen items of a program; or rows of one that goes through their lists, and how many of each it looks at.
PAIRS = 128
SEEN_ROWS, SEEN_WIDTH = 16, 16


@jit("place", "first_row", "n_seen", "n_rows", "first_item", "n_here", "n_items", "n_coordinates", "n_steps")
def seen_kernel(  # type: ignore[no-untyped-def]
    users,
    items,
    bias,
    codes,
    indptr,
    target_indptr,
    target_score,
    above,
    tied,
    is_wrong,
    place,
    first_row,
    n_seen,
    n_rows,
    first_item,
    n_here,
    n_items,
    n_coordinates,
    n_steps,
    HAS_BIAS: tl.constexpr,
    IS_SINGLE: tl.constexpr,
    PAIRS: tl.constexpr,
):
    """Take seen items off the counts of the targets they score higher than, or the same as.

    Codes are those from ``place`` on in the lists of the rows from ``first_row`` on. Where one of them is
    outside the catalogue, or not above the one before it in its row, ``is_wrong`` is set and it is passed
    over; so are those of items that are not among the ``n_here`` from ``first_item`` on.
    """
    at = tl.program_id(0).to(tl.int64) * PAIRS + tl.arange(0, PAIRS)
    is_real = at < n_seen
    code = tl.load(codes + at, mask=is_real, other=0).to(tl.int64)
    before = tl.load(codes + at - 1, mask=is_real & (at > 0), other=0).to(tl.int64)
    # The row of a code is the first that ends behind it.
    row = tl.zeros((PAIRS,), tl.int64) + first_row
    last = row + n_rows
    for _ in range(n_steps):
        middle = (row + last) // 2
        is_open = row < last
        ends_before = tl.load(indptr + middle + 1, mask=is_real & is_open, other=0) <= at + place
        last = tl.where(is_open & (ends_before == 0), middle, last)
        row = tl.where(is_open & ends_before, middle + 1, row)
    is_first = tl.load(indptr + row, mask=is_real, other=0) == at + place
    is_right = (code >= 0) & (code < n_items) & (is_first | (code > before))
    if tl.max((is_real & (is_right == 0)).to(tl.int32), 0) > 0:
        tl.store(is_wrong, 1)
    code -= first_item
    is_real = is_real & is_right & (code >= 0) & (code < n_here)
    score = device_pair_score(users, items, bias, row, code, is_real, n_coordinates, HAS_BIAS, PAIRS)
    less = tl.full((PAIRS,), -1, tl.int64)
    if IS_SINGLE:
        reference = tl.load(target_score + row, mask=is_real, other=0)
        tl.atomic_add(above + row, less, mask=is_real & (score > reference), sem="relaxed")
        tl.atomic_add(tied + row, less, mask=is_real & (score == reference), sem="relaxed")
    else:
        begin = tl.load(target_indptr + row, mask=is_real, other=0)
        n_targets = tl.load(target_indptr + row + 1, mask=is_real, other=0) - begin
        for number in range(tl.max(n_targets, 0)):
            has_target = is_real & (number < n_targets)
            reference = tl.load(target_score + begin + number, mask=has_target, other=0)
            tl.atomic_add(above + begin + number, less, mask=has_target & (score > reference), sem="relaxed")
            tl.atomic_add(tied + begin + number, less, mask=has_target & (score == reference), sem="relaxed")


@jit("first_row", "n_rows", "first_item", "n_here", "n_items", "n_coordinates")
def next_seen_kernel(  # type: ignore[no-untyped-def]
    users,
    items,
    bias,
    codes,
    indptr,
    n_done,
    target_indptr,
    target_score,
    above,
    tied,
    is_wrong,
    first_row,
    n_rows,
    first_item,
    n_here,
    n_items,
    n_coordinates,
    HAS_BIAS: tl.constexpr,
    IS_SINGLE: tl.constexpr,
    ROWS: tl.constexpr,
    WIDTH: tl.constexpr,
):
    """Take off the seen items of rows that are among the ``n_here`` from ``first_item`` on.

    Lists ascend and chunks of items come in order, so that these are the next ones of each list, behind the
    ``n_done`` that earlier chunks had; the rest of the lists is not read, which lie in the host's memory.

    The first code of a list that is outside the catalogue, or not above the one before it, sets ``is_wrong``:
    below the end of this chunk it is looked at here, or is below the start of a later one; and one that no
    chunk comes to is left when the last chunk is done.
    """
    local = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    is_row = local < n_rows
    row = first_row + local
    begin = tl.load(indptr + row, mask=is_row, other=0)
    end = tl.load(indptr + row + 1, mask=is_row, other=0)
    at = begin + tl.load(n_done + row, mask=is_row, other=0)
    step = tl.arange(0, WIDTH)
    reach = first_item + n_here
    pair = local
    n_targets = tl.full((ROWS,), 1, tl.int64)
    if IS_SINGLE == 0:
        pair = tl.load(target_indptr + local, mask=is_row, other=0)
        n_targets = tl.load(target_indptr + local + 1, mask=is_row, other=0) - pair
    less = tl.full((ROWS, WIDTH), -1, tl.int64)
    is_open = is_row & (at < end)
    while tl.max(is_open.to(tl.int32), 0) > 0:
        place = at[:, None] + step[None, :]
        is_real = is_open[:, None] & (place < end[:, None])
        code = tl.load(codes + place, mask=is_real, other=0).to(tl.int64)
        is_later = is_real & (place > begin[:, None])
        before = tl.load(codes + place - 1, mask=is_later, other=-1).to(tl.int64)
        is_mine = is_real & (code < reach)
        is_right = (code >= first_item) & (code > before)
        if tl.max(tl.max((is_mine & (is_right == 0)).to(tl.int32), 1), 0) > 0:
            tl.store(is_wrong, 1)
        n_mine = tl.sum(is_mine.to(tl.int32), 1)
        is_mine = is_mine & is_right
        right = items + (code - first_item) * n_coordinates
        score = tl.zeros((ROWS, WIDTH), tl.float64)
        for k in range(n_coordinates):
            x = tl.load(users + local * n_coordinates + k, mask=is_row, other=0).to(tl.float64)
            y = tl.load(right + k, mask=is_mine, other=0).to(tl.float64)
            product = x[:, None] * y
            score += product
        if HAS_BIAS:
            score += tl.load(bias + (code - first_item), mask=is_mine, other=0)
        for number in range(tl.max(tl.where(is_open, n_targets, 0), 0)):
            has_target = is_open & (number < n_targets)
            reference = tl.load(target_score + pair + number, mask=has_target, other=0)[:, None]
            target = (pair + number)[:, None] + tl.zeros_like(less)
            is_compared = is_mine & has_target[:, None]
            tl.atomic_add(above + target, less, mask=is_compared & (score > reference), sem="relaxed")
            tl.atomic_add(tied + target, less, mask=is_compared & (score == reference), sem="relaxed")
        at += n_mine
        is_open = is_open & (n_mine == WIDTH) & (at < end)
    is_left = is_row & (at < end) & (reach == n_items)
    if tl.max(is_left.to(tl.int32), 0) > 0:
        tl.store(is_wrong, 1)
    tl.store(n_done + row, (at - begin).to(tl.int32), mask=is_row)


def take_off_sent(
    users: Tensor,
    items: Tensor,
    bias: Tensor | None,
    codes: Tensor,
    indptr: Tensor,
    rows: tuple[int, int],
    places: tuple[int, int],
    target_indptr: Tensor | None,
    target_score: Tensor,
    above: Tensor,
    tied: Tensor,
    is_wrong: Tensor,
    *,
    first_item: int,
    n_items: int,
) -> None:
    """Take seen items off the counts by the float64 sum; parameters as in ``torch_blocks.take_off``."""
    n_rows, n_seen = rows[1] - rows[0], places[1] - places[0]
    if n_seen == 0:
        return
    seen_kernel[(-(-n_seen // PAIRS),)](
        users,
        items,
        users if bias is None else bias,
        codes,
        indptr,
        indptr if target_indptr is None else target_indptr,
        target_score,
        above,
        tied,
        is_wrong,
        places[0],
        rows[0],
        n_seen,
        n_rows,
        first_item,
        len(items),
        n_items,
        users.shape[1],
        n_rows.bit_length(),
        HAS_BIAS=bias is not None,
        IS_SINGLE=target_indptr is None,
        PAIRS=PAIRS,
        enable_fp_fusion=False,
    )


def take_off_next(
    users: Tensor,
    items: Tensor,
    bias: Tensor | None,
    codes: Tensor,
    indptr: Tensor,
    n_done: Tensor,
    rows: tuple[int, int],
    target_indptr: Tensor | None,
    target_score: Tensor,
    above: Tensor,
    tied: Tensor,
    is_wrong: Tensor,
    *,
    first_item: int,
    n_items: int,
) -> None:
    """Take those seen items off that are in a chunk, the chunks before it being done.

    Parameters
    ----------
    users, target_indptr, target_score, above, tied : of the rows, as in ``torch_blocks.take_off``
    items, bias : of the chunk, which begins with item ``first_item`` of ``n_items``
    codes, indptr : lists of all rows, on the device or in pinned memory of the host
    n_done : (n_all_rows,) int32, how many of each list earlier chunks had; counted on
    rows : the first row and the one after the last
    is_wrong : set where a list is not as ``Pools`` asks, at the last chunk at the latest
    """
    first, n_rows = rows[0], rows[1] - rows[0]
    next_seen_kernel[(-(-n_rows // SEEN_ROWS),)](
        users,
        items,
        users if bias is None else bias,
        codes,
        indptr,
        n_done,
        indptr if target_indptr is None else target_indptr,
        target_score,
        above,
        tied,
        is_wrong,
        first,
        n_rows,
        first_item,
        len(items),
        n_items,
        users.shape[1],
        HAS_BIAS=bias is not None,
        IS_SINGLE=target_indptr is None,
        ROWS=SEEN_ROWS,
        WIDTH=SEEN_WIDTH,
        enable_fp_fusion=False,
    )
