"""Counting in plain torch, a block of scores at a time: where triton is missing, and on a CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from truerank.ranking.gpu.error_bound import ItemSide, RowSide

if TYPE_CHECKING:
    from torch import Tensor


# Whether negatives can be sampled on the device too.
CAN_SAMPLE = False
BLOCK_ROWS = 1 << 9
BLOCK_ITEMS = 1 << 13
PAIRS = 1 << 20
# How much longer and wider blocks are on a GPU.
WIDER = 6
# Up to this many multiplications all scores are computed in float64.
WHOLE_WORK = 1 << 16


def count_rows(
    rows: RowSide, items: ItemSide, above: Tensor, tied: Tensor, *, list_bytes: int | None = None
) -> int:
    """Add all items to the counts of each row's pair; return how many comparisons float64 decided.

    Parameters
    ----------
    rows, items : the two sides
    above, tied : (n_pairs,) int64, added to
    list_bytes : not used; ``fused`` lists what it cannot decide
    """
    import torch

    n_recomputed = 0
    wider = WIDER if above.is_cuda else 1
    n_rows, n_items = wider * BLOCK_ROWS, wider * BLOCK_ITEMS
    above.index_add_(0, rows.pair, (len(items.code) - rows.n_needed) * (rows.target < 0))
    for start in range(0, len(rows), n_rows):
        block = slice(start, start + n_rows)
        stop = int(rows.n_needed[block].amax())
        target, slack = rows.target[block, None], rows.slack[block, None]
        for first in range(0, stop, n_items):
            part = slice(first, min(first + n_items, stop))
            gap = _scores(rows, items, block, part) - target
            band = slack + rows.bounds[:, block].T @ items.bounds[:, part]
            competes = torch.arange(first, part.stop, device=above.device) < rows.n_needed[block, None]
            above[rows.pair[block]] += ((gap > band) & competes).sum(1)
            row, item = torch.nonzero((gap.abs() <= band) & competes, as_tuple=True)
            row += start
            decide(
                rows.exact,
                items.exact,
                items.exact_bias,
                rows.user[row],
                items.code[item + first],
                rows.pair[row],
                None,
                rows.target_score,
                above,
                tied,
                1,
            )
            n_recomputed += len(row)
    return n_recomputed


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
