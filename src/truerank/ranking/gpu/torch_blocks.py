"""Counts of items above targets in plain torch, by blocks of scores: without triton, and on a CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from truerank.ranking.gpu.device import EngineBytes
from truerank.ranking.gpu.error_bound import ItemSide, RowSide
from truerank.ranking.gpu.halves import ScaledRows

if TYPE_CHECKING:
    from torch import Tensor


# Whether negatives can be sampled on the device too, and rows counted without waiting.
CAN_SAMPLE = False
CAN_COUNT_AHEAD = False
# Lists of seen items are not read where they are, however short.
LONGEST_SEEN = -1
# What splits items and prepares rows, and the bytes it all takes.
ROWS = ScaledRows
prepare_rows = RowSide.prepare
BYTES = EngineBytes(cell=12, item=128, row=260, seen=64, pair=16)
BLOCK_ROWS = 1 << 9
BLOCK_ITEMS = 1 << 13
PAIRS = 1 << 20
# How much longer and wider blocks are on a GPU.
WIDER = 6
# Up to this many multiplications all scores are computed in float64.
WHOLE_WORK = 1 << 16
# No catalogue is so small that float64 always is the quickest.
FEW_ITEMS = 0


def count_rows(
    rows: RowSide, items: ItemSide, above: Tensor, tied: Tensor, *, list_bytes: int | None = None
) -> int:
    """Add all items to the counts of each row's pair; return how many comparisons float64 decided.

    Parameters
    ----------
    rows, items : the two sides
    above, tied : (n_pairs,) int64, added to
    list_bytes : bounds what a block of scores takes, down to one row and item; None for the usual blocks
    """
    import torch

    if len(rows) == 0 or items.n_items == 0:
        return 0
    n_recomputed = 0
    n_rows, n_items = _block_shape(above.is_cuda, list_bytes)
    above.index_add_(0, rows.pair, _weights_beyond(rows, items) * (rows.target < 0))
    n_tied = items.n_tied_with_zeros
    tied.index_add_(0, rows.pair[: len(tied)], n_tied * (rows.target[: len(tied)] == torch.inf))
    for start in range(0, len(rows), n_rows):
        block = slice(start, start + n_rows)
        stop = int(rows.n_needed[block].amax())
        target, slack = rows.target[block, None], rows.slack[block, None]
        for first in range(0, stop, n_items):
            part = slice(first, min(first + n_items, stop))
            gap = _scores(rows, items, block, part).sub_(target)
            band = torch.addmm(slack, rows.bounds[block, :3], items.bounds[:, part])
            competes = torch.arange(first, part.stop, device=above.device) < rows.n_needed[block, None]
            above.index_add_(0, rows.pair[block], _weighed(items, part, (gap > band) & competes))
            near = (gap.abs_() <= band).logical_and_(competes)
            if rows.is_exact is not None:
                is_exact = rows.is_exact[block, None] != 0
                tied.index_add_(0, rows.pair[block], _weighed(items, part, near & is_exact))
                near &= ~is_exact
            del gap, band, competes
            n_recomputed += _decide_near(rows, items, near, start, first, above, tied)
    return n_recomputed


def _block_shape(is_cuda: bool, list_bytes: int | None) -> tuple[int, int]:
    """Return rows and items of a block; a pair of them takes 16 bytes at most."""
    wider = WIDER if is_cuda else 1
    n_rows, n_items = wider * BLOCK_ROWS, wider * BLOCK_ITEMS
    if list_bytes is not None:
        while 16 * n_rows * n_items > list_bytes and n_rows * n_items > 1:
            n_rows, n_items = max(1, n_rows // 2), max(1, n_items // 2)
    return n_rows, n_items


def _weighed(items: ItemSide, part: slice, flags: Tensor) -> Tensor:
    """Return how many items are flagged per row, copies included."""
    return flags.sum(1) if items.weight is None else (flags * items.weight[part]).sum(1)


def _weights_beyond(rows: RowSide, items: ItemSide) -> Tensor:
    """Return how many items a row need not score."""
    import torch

    if items.weight is None:
        return items.n_items - rows.n_needed
    weight = items.weight[: items.n_items].long()
    before = torch.cat([weight[:1] * 0, weight.cumsum(0)])
    return before[-1] - before[rows.n_needed]


def _decide_near(
    rows: RowSide, items: ItemSide, near: Tensor, start: int, first: int, above: Tensor, tied: Tensor
) -> int:
    """Decide the flagged pairs of a block in float64, some rows of it at a time; return how many."""
    import torch

    n_decided, step = 0, max(1, PAIRS // near.shape[1])
    for at in range(0, len(near), step):
        row, item = torch.nonzero(near[at : at + step], as_tuple=True)
        row, item = row + (start + at), item + first
        n_decided += len(row)
        scores = score_pairs(rows.exact, items.exact, items.exact_bias, rows.user[row], items.code[item])
        pair = rows.pair[row]
        reference = rows.target_score[pair]
        weight = 1 if items.weight is None else items.weight[item].long()
        above.index_add_(0, pair, weight * (scores > reference).long())
        tied.index_add_(0, pair, weight * (scores == reference).long())
    return n_decided


def _scores(rows: RowSide, items: ItemSide, block: slice, part: slice) -> Tensor:
    x_high, x_low = rows.high[block].float(), rows.low[block].float()
    y_high, y_low = items.high[part].float().T, items.low[part].float().T
    scores = x_low @ y_high
    scores += x_high @ y_low
    scores += x_high @ y_high
    if items.bias is not None:
        scores += rows.scale[block, None] * items.bias[part]
    return scores


def decide(
    users: Tensor,
    items: Tensor,
    bias: Tensor | None,
    user: Tensor,
    code: Tensor,
    first: Tensor,
    stop: Tensor | None,
    target_score: Tensor,
    above: Tensor,
    tied: Tensor,
    sign: int,
) -> None:
    """Compare listed items with targets by the float64 sum that ranks are defined by.

    Parameters
    ----------
    users, items, bias : the factors as given
    user, code : (n,) which user row meets which item
    first, stop : (n,) the score is compared with the targets first..stop-1; None for ``first`` alone
    target_score : (n_pairs,) float64
    above, tied : (n_pairs,) int64, ``sign`` is added where the item scores higher or the same
    """
    for start in range(0, len(user), PAIRS):
        part = slice(start, start + PAIRS)
        scores = score_pairs(users, items, bias, user[part], code[part])
        begin = first[part]
        most = 1 if stop is None else int((stop[part] - begin).amax())
        for place in range(most):
            has_target = slice(None) if stop is None else begin + place < stop[part]
            target = begin[has_target] + place
            mine, reference = scores[has_target], target_score[target]
            above.index_add_(0, target, sign * (mine > reference).long())
            tied.index_add_(0, target, sign * (mine == reference).long())


def take_off(
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
    """Take seen items off the counts of the targets they score higher than, or the same as.

    Parameters
    ----------
    users, items, bias : the factors as given; ``items`` may be some of them, from ``first_item`` on
    codes : (n,) int32 or int64, the seen items of the rows rows[0]..rows[1]-1, all of each
    indptr : (n_rows + 1,) int64, where the seen items of a row begin, as numbered by ``places``
    rows, places : which rows, and which of all seen items these are
    target_indptr : (n_rows + 1,) int64, where the targets of a row begin; None where each has one
    target_score, above, tied : as in ``decide``
    is_wrong : (1,) int32, set to 1 where codes do not ascend in a row or lie outside 0..n_items-1; such codes
        are passed over
    """
    import torch

    row = torch.arange(*rows, device=users.device)
    lengths = indptr[rows[0] : rows[1] + 1].diff()
    row = torch.repeat_interleave(row, lengths, output_size=places[1] - places[0])
    code = codes.long()
    is_right = (code >= 0) & (code < n_items)
    is_right[1:] &= (code[1:] > code[:-1]) | (row[1:] != row[:-1])
    is_wrong |= ~is_right.all()
    code = code - first_item
    is_here = is_right & (code >= 0) & (code < len(items))
    row, code = row[is_here], code[is_here]
    first, stop = row, None
    if target_indptr is not None:
        first, stop = target_indptr[row], target_indptr[row + 1]
    decide(users, items, bias, row, code, first, stop, target_score, above, tied, -1)


def score_pairs(users: Tensor, items: Tensor, bias: Tensor | None, user: Tensor, code: Tensor) -> Tensor:
    """Return the scores of pairs as ``ranking.cpu.counts`` defines them, (n,) float64."""
    import torch

    total = torch.zeros(len(user), dtype=torch.float64, device=users.device)
    for k in range(users.shape[1]):
        product = users[user, k].double()
        product *= items[code, k].double()
        total += product
    if bias is not None:
        total += bias[code]
    return total


def count_whole(
    users: Tensor,
    items: Tensor,
    bias: Tensor | None,
    user: Tensor,
    target_score: Tensor,
    above: Tensor,
    tied: Tensor,
) -> None:
    """Count all items by float64 scores alone, for problems where all else would take longer.

    Parameters
    ----------
    users, items, bias : the factors as given
    user : (n_pairs,) the row of ``users`` that a pair belongs to
    target_score : (n_pairs,) float64
    above, tied : (n_pairs,) int64, added to
    """
    import torch

    scores = torch.zeros((len(users), len(items)), dtype=torch.float64, device=users.device)
    for k in range(users.shape[1]):
        scores += users[:, k, None].double() * items[:, k].double()
    if bias is not None:
        scores += bias
    mine = scores[user]
    above += (mine > target_score[:, None]).sum(1)
    tied += (mine == target_score[:, None]).sum(1)
