"""Samples that grow on a device: a row's negatives are drawn, scored and counted in one kernel.

A fixed sample is one that grows once. Draws are those of ``draw.sequence``, to the item; scores are float64
sums in any order, and where such a sum is too close to the target's to tell, the one that ranks are defined
by. Rows whose negatives rejection does not find (most of the catalogue is asked for, or seen) are drawn on
the CPU and their lists sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from truerank.core.interactions import Lists
from truerank.core.types import IntArray
from truerank.ranks.gpu.matrix import as_array, to_device

if TYPE_CHECKING:
    from torch import Tensor

    from truerank.ranks.draw.judge import Judged
    from truerank.ranks.draw.sequence import Sequences
    from truerank.ranks.gpu.sampled import DeviceFactors
    from truerank.ranks.growing import GrowingNegatives

# Negatives of a row that the kernel keeps apart by comparing each with all before it.
LONGEST = 1 << 15
# Negatives that are kept, and blocked items that are sent, at a time; 4 bytes each.
TAKEN = 1 << 27
BLOCKED = 1 << 26
# Factors of users that are on the device at a time, and negatives in lists from the CPU.
USER_CELLS = 1 << 24
LISTED = 1 << 24
# Proposals, others they are compared with, and targets of a row that a program takes at a time.
TRIES = 32
OTHERS = 32
TARGETS = 16
WARPS = 2


@dataclass(frozen=True, eq=False)
class Groups:
    """What programs do: each compares targets of one row with its negatives.

    Parameters
    ----------
    row : (n_rows,) rows, ascending
    pair : (n_pairs,) targets, numbered as in all queries
    row_of : (n,) place of a program's row in ``row``
    first, stop : (n,) a program's targets, as places in ``pair``
    width : targets of a program at most, a power of two
    """

    row: IntArray
    pair: IntArray
    row_of: IntArray
    first: IntArray
    stop: IntArray
    width: int

    @classmethod
    def of_rows(cls, start: int, stop: int, pairs: IntArray) -> Groups:
        """Return all targets of the rows start..stop-1."""
        begin = pairs[start : stop + 1] - pairs[start]
        lengths = np.diff(begin)
        number, row = np.arange(pairs[start], pairs[stop]), np.arange(start, stop)
        if len(number) == len(row):
            return cls(row, number, row - start, begin[:-1], begin[1:], 1)
        width = min(TARGETS, 1 << (int(lengths.max(initial=1)) - 1).bit_length())
        n_groups = -(-lengths // width)
        row_of = np.repeat(np.arange(stop - start), n_groups)
        before = np.cumsum(n_groups) - n_groups
        first = begin[row_of] + width * (np.arange(len(row_of)) - before[row_of])
        ends = np.minimum(first + width, begin[row_of + 1])
        return cls(row, number, row_of, first, ends, width)

    @classmethod
    def of_pairs(cls, pair: IntArray, pairs: IntArray) -> Groups:
        """Return single targets, numbered in ascending order."""
        row, row_of = np.unique(np.searchsorted(pairs, pair, side="right") - 1, return_inverse=True)
        number = np.arange(len(pair))
        return cls(row, pair, row_of, number, number + 1, 1)


def grow_on_device(
    factors: DeviceFactors, negatives: GrowingNegatives, advance: Callable[[int], None]
) -> Judged:
    """Compare the targets of all rows with their negatives until each may stop; needs triton.

    Equal to ``ranks.growing.judge_growing`` in every count.
    """
    from truerank.ranks.draw.judge import Judged

    rows, sequences, stopping = negatives.rows, negatives.sequences, negatives.stopping
    device = _Device(factors, negatives, sequences)
    reached, parts = negatives.reached(stopping.sizes[-1]), []
    for start, stop in _cuts(negatives, factors.users.shape[1]):
        groups = Groups.of_rows(start, stop, rows.pairs)
        found, scores = device.run(groups, None)
        above, drawn = found[0], found[2]
        ends = np.repeat(reached[start:stop], np.diff(rows.pairs[start : stop + 1]))
        is_open = (above < stopping.rank) & (drawn < ends)
        for left in _bounded(groups.pair[is_open], ends[is_open]):
            place = left - groups.pair[0]
            found[:, place] = device.run(Groups.of_pairs(left, rows.pairs), reached)[0]
        n_scores = np.maximum.reduceat(found[2], rows.pairs[start:stop] - rows.pairs[start]).sum()
        parts.append(Judged(found[0], found[1], found[2], scores, int(n_scores) + len(scores)))
        advance(stop - start)
    return Judged.joined(parts)


class _Device:
    """The items and the rule, and what runs a block of rows."""

    def __init__(self, factors: DeviceFactors, negatives: GrowingNegatives, sequences: Sequences) -> None:
        self.factors, self.negatives, self.sequences = factors, negatives, sequences
        self.sizes = np.array(negatives.stopping.sizes, np.int64)
        self.replacement = negatives.design.replacement
        longest = _longest(negatives)
        self.reach = sequences.head if self.replacement else np.minimum(sequences.head, longest)

    def run(self, groups: Groups, reached: IntArray | None) -> tuple[Any, Any]:
        """Return above, tied and drawn, (3, n_pairs), and the scores of the targets.

        With ``reached``, negatives per row at the end, they are drawn on the CPU.
        """
        import torch

        from truerank.ranks.gpu.grow_kernel import grow_kernel

        factors, rows = self.factors, self.negatives.rows
        owner = np.asarray(_taken(rows.owner, groups.row), np.int64)
        is_new = np.diff(owner, prepend=-1) > 0
        query, local = owner[is_new], np.cumsum(is_new) - 1
        users = factors.send_users(_taken(rows.queries.users, query))
        items = (users, factors.items, factors.bias)
        send = self._send
        user_of = send(local)
        codes = send(_taken(rows.queries.targets.items, groups.pair))
        row_of_pair = np.repeat(groups.row_of, groups.stop - groups.first)
        scores = factors.engine.score_pairs(*items, user_of[send(row_of_pair)], codes)
        n_programs = len(groups.row_of)
        if reached is None:
            reach = _taken(self.reach, groups.row)
            capacity = 0 if self.replacement else int(reach.max(initial=0))
            start = np.arange(n_programs) * capacity
            taken = torch.empty(max(1, n_programs * capacity), dtype=torch.int32, device=factors.device)
            lists = [*_some(rows.queries.excluded, query), *_some(rows.queries.targets, query)]
        else:
            reach = reached[groups.row]
            begins = np.cumsum(reach) - reach
            start = begins[groups.row_of]
            drawn = self.sequences.draw(groups.row, np.zeros_like(reach), reach)
            taken = to_device(np.ascontiguousarray(drawn, np.int32), factors.device)
            lists = [np.zeros(len(query) + 1, np.int64), np.zeros(1, np.int32)] * 2
        out = torch.zeros((3, len(groups.pair)), dtype=torch.int32, device=factors.device)
        width = users.shape[1]
        if n_programs:
            grow_kernel[(n_programs,)](
                *items[:2],
                users if factors.bias is None else factors.bias,
                scores,
                send(groups.row_of),
                send(groups.first),
                send(groups.stop),
                user_of,
                send(_taken(rows.state, groups.row).view(np.int64)),
                send(reach),
                send(_taken(rows.n_free, groups.row)),
                *(to_device(part, factors.device) for part in lists),
                send(self.sizes),
                send(start),
                taken,
                *out,
                len(self.sizes),
                self.negatives.stopping.rank - 1,
                rows.n_items,
                (1 << 32) % rows.n_items,
                width,
                HAS_BIAS=factors.bias is not None,
                REPLACEMENT=self.replacement,
                LISTED=reached is not None,
                TRIES=TRIES,
                OTHERS=OTHERS,
                CHUNK=min(32, max(8, 1 << (width - 1).bit_length())),
                TARGETS=groups.width,
                num_warps=WARPS,
                enable_fp_fusion=False,
            )
        return as_array(out).astype(np.int64), as_array(scores)

    def _send(self, values: IntArray) -> Tensor:
        return to_device(np.ascontiguousarray(values, np.int64), self.factors.device)


def _longest(negatives: GrowingNegatives) -> int:
    return min(LONGEST, negatives.stopping.sizes[-1], negatives.rows.n_items)


def _taken(values: Any, at: IntArray) -> Any:
    """Return some values, at ascending places; without a copy when they lie together."""
    if len(at) and at[-1] - at[0] + 1 == len(at):
        return values[at[0] : at[-1] + 1]
    return values[at]


def _some(lists: Lists, query: IntArray) -> tuple[IntArray, IntArray]:
    """Return where the lists of some queries begin, and their items."""
    from truerank.ranks.draw.judge import ranges

    begin, end = _taken(lists.indptr, query), _taken(lists.indptr, query + 1)
    indptr = np.concatenate([[0], np.cumsum(end - begin, dtype=np.int64)])
    if len(query) and indptr[-1] == end[-1] - begin[0]:
        items = lists.items[begin[0] : end[-1]]
    else:
        items = lists.items[ranges(begin, end - begin)]
    # A kernel needs an address, even of nothing.
    return indptr, np.ascontiguousarray(items if len(items) else np.zeros(1), np.int32)


def _cuts(negatives: GrowingNegatives, width: int) -> Iterator[tuple[int, int]]:
    """Yield runs of rows that fit on the device at once, at least one row each."""
    rows = negatives.rows
    most = max(1, USER_CELLS // max(1, width))
    kept = 0 if negatives.design.replacement else _longest(negatives)
    n_targets = np.diff(rows.pairs)
    blocked = (rows.queries.excluded.lengths() + rows.queries.targets.lengths())[rows.owner]
    loads = [np.cumsum(n_targets * kept), np.cumsum(blocked)]
    start = 0
    while start < len(rows):
        stop = start + most
        for load, limit in zip(loads, (TAKEN, BLOCKED), strict=True):
            before = int(load[start - 1]) if start else 0
            stop = min(stop, int(np.searchsorted(load, before + limit, side="right")))
        stop = max(start + 1, min(stop, len(rows)))
        yield start, stop
        start = stop


def _bounded(pair: IntArray, size: IntArray) -> Iterator[IntArray]:
    """Yield runs of pairs whose lists fit on the device at once."""
    from truerank.ranks.sampler import blocks

    for block in blocks(size, LISTED):
        yield pair[block.start : block.stop]
