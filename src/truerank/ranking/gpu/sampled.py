"""Sampled ranks of a factor model on a GPU: comparison with given negatives, or sampling in the same kernel.

One kernel samples, scores and counts the negatives of a row; a sample of fixed size is one round. The
negatives are those of ``growing.NegativeSequences``, item by item. Scores are float64 sums in any order;
where such a sum is too close to the target's score, the sum that defines ranks decides. Rows that are not
sampled by rejection (most of the catalogue is wanted, or seen) are sampled on the CPU, and their lists sent.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from truerank.core.errors import DataWarning
from truerank.core.interactions import Lists
from truerank.core.scorer import Factors, HasFactors, Scorer
from truerank.core.types import IntArray
from truerank.ranking.cpu.counts import check_magnitudes
from truerank.ranking.gpu.device import (
    Engine,
    as_matrix,
    engine_for,
    has_gpu,
    largest_of,
    open_device,
    to_device,
    to_host,
)

if TYPE_CHECKING:
    from torch import Tensor

    from truerank.ranking.growing import GrowingNegatives, NegativeSequences
    from truerank.ranking.listed import ListedCounts
    from truerank.ranking.negatives import RowBlock, Rows


def factors_on(device: str, scorer: Scorer, rows: Rows, memory: int | None = None) -> DeviceFactors | None:
    """Return the comparer on a GPU; None for the CPU, with a warning where a GPU was asked for."""
    if device == "cpu" or not isinstance(scorer, HasFactors):
        return None
    if device.startswith("cuda") and not has_gpu():
        warnings.warn(f"torch sees no GPU, so {device!r} is the CPU here.", DataWarning, stacklevel=3)
        return None
    factors = scorer.factors()
    if memory is not None and 2 * factors.item.nbytes > memory:
        warnings.warn(
            f"item vectors of {factors.item.nbytes} bytes do not fit twice into a memory of {memory}, "
            "so the CPU samples.",
            DataWarning,
            stacklevel=3,
        )
        return None
    return DeviceFactors(factors, rows, device=device, memory=memory)


class DeviceFactors:
    """Scores of listed pairs by the float64 sum that defines ranks; a ``TargetComparer`` and ``ListScores``.

    Items stay on the device and must fit there; users are sent block by block. Negatives depend on the seed
    alone, wherever they are sampled.

    Parameters
    ----------
    factors : the vectors
    rows : users with their targets
    device, engine : as in ``count_on_device``
    memory : bytes of the device to use beside the item vectors, half of it at least; None for about 1 GB
    """

    is_thread_safe = False

    def __init__(
        self,
        factors: Factors,
        rows: Rows,
        *,
        device: str = "cuda",
        engine: Engine = "auto",
        memory: int | None = None,
    ) -> None:
        self.limits = SampleLimits.of(None if memory is None else memory // 2)
        self.most_negatives = self.limits.listed
        self.device = open_device(device)
        self.engine = engine_for(self.device, engine)
        self.rows, self.users = rows, as_matrix("user", factors.user)
        whole = as_matrix("item", factors.item)
        self.items = to_device(whole, self.device)
        self.item_largest = largest_of("item", self.items, whole)
        self.bias = None
        if factors.item_bias is not None:
            self.bias = to_device(
                as_matrix("item bias", factors.item_bias[:, None])[:, 0], self.device
            ).double()
            column = factors.item_bias[:, None]
            self.item_largest = max(self.item_largest, largest_of("item bias", self.bias, column))

    @property
    def can_sample(self) -> bool:
        """Whether uniform negatives can be sampled on the device too, see ``grow_on_device``."""
        return bool(self.engine.CAN_SAMPLE)

    def send_users(self, users: IntArray) -> Tensor:
        """Return the vectors of some users, ascending, on the device; raise when scores could overflow."""
        is_run = len(users) and users[-1] - users[0] + 1 == len(users)
        chosen = self.users[users[0] : users[-1] + 1] if is_run else self.users[users]
        sent = to_device(chosen, self.device)
        exponents = (
            float(np.frexp(value)[1]) for value in (largest_of("user", sent, chosen), self.item_largest)
        )
        check_magnitudes(*(-int(exponent) for exponent in exponents))
        return sent

    def scores(self, row: IntArray, codes: IntArray, indptr: IntArray) -> tuple[Any, int]:
        """Return the score of every code, and their number; list i belongs to ``row[i]``, rows ascending."""
        owner = self.rows.owner[row]
        is_new = np.diff(owner, prepend=-1) > 0
        users = self.send_users(self.rows.queries.users[owner[is_new]])
        user = np.repeat(np.cumsum(is_new) - 1, np.diff(indptr))
        pair = (to_device(user, self.device), to_device(np.asarray(codes, np.int64), self.device))
        return to_host(self.engine.score_pairs(users, self.items, self.bias, *pair)), len(codes)

    def compare(self, block: RowBlock, items: IntArray) -> ListedCounts:
        """Return the counts of the targets of some rows."""
        import torch

        from truerank.ranking.listed import ListedCounts

        rows, device = self.rows, self.device
        owner = np.asarray(rows.owner[block.start : block.stop], np.int64)
        users = self.send_users(rows.queries.users[owner[0] : owner[-1] + 1])
        pairs = np.asarray(rows.pairs[block.start : block.stop + 1], np.int64)
        sizes, n_targets = np.diff(block.indptr), np.diff(pairs)
        local = to_device(owner - owner[0], device)
        begin = to_device(pairs - pairs[0], device)
        targets = np.asarray(rows.queries.targets.items[pairs[0] : pairs[-1]], np.int64)
        factors = (users, self.items, self.bias)
        of_target = torch.repeat_interleave(local, to_device(n_targets, device))
        scores = self.engine.score_pairs(*factors, of_target, to_device(targets, device))
        above, tied = torch.zeros((2, len(targets)), dtype=torch.int64, device=device)
        row = torch.repeat_interleave(torch.arange(len(owner), device=device), to_device(sizes, device))
        stop = None if len(targets) == len(owner) else begin[row + 1]
        codes = to_device(np.ascontiguousarray(items), device).long()
        self.engine.decide(*factors, local[row], codes, begin[row], stop, scores, above, tied, 1)
        return ListedCounts(
            to_host(above),
            to_host(tied),
            np.repeat(sizes, n_targets),
            to_host(scores),
            len(items) + len(targets),
        )


# Longest sample that the kernel keeps free of duplicates by comparing each item with all before it.
LONGEST = 1 << 15
# Sampled negatives that are stored, and blocked items that are sent, at a time; 4 bytes each.
TAKEN = 1 << 27
BLOCKED = 1 << 26
# Factors of users that are on the device at a time, and negatives in lists from the CPU.
USER_CELLS = 1 << 24
LISTED = 1 << 24


@dataclass(frozen=True)
class SampleLimits:
    """How much is on the device at a time: numbers as above."""

    taken: int
    blocked: int
    user_cells: int
    listed: int

    @classmethod
    def of(cls, memory: int | None) -> SampleLimits:
        """Return limits of a quarter of the memory each, or the defaults.

        Examples
        --------
        >>> SampleLimits.of(1 << 26)
        SampleLimits(taken=4194304, blocked=2097152, user_cells=1048576, listed=262144)
        """
        if memory is None:
            return cls(TAKEN, BLOCKED, USER_CELLS, LISTED)
        quarter = memory // 4
        return cls(
            min(TAKEN, max(1, quarter // 4)),
            min(BLOCKED, max(1, quarter // 8)),
            min(USER_CELLS, max(1, quarter // 16)),
            min(LISTED, max(1, quarter // 64)),
        )


# Proposals, others they are compared with, and targets of a row that a program takes at a time.
TRIES = 32
OTHERS = 32
TARGETS = 16
WARPS = 2


@dataclass(frozen=True, eq=False)
class Groups:
    """Work of the programs of a kernel: each compares targets of one row with its negatives.

    Parameters
    ----------
    row : (n_rows,) rows, ascending
    pair : (n_pairs,) targets, numbered as in all queries
    row_of : (n,) index of a program's row in ``row``
    first, stop : (n,) a program's targets, as indices into ``pair``
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
        stops = np.minimum(first + width, begin[row_of + 1])
        return cls(row, number, row_of, first, stops, width)

    @classmethod
    def of_pairs(cls, pair: IntArray, pairs: IntArray) -> Groups:
        """Return single targets, numbered in ascending order."""
        row, row_of = np.unique(np.searchsorted(pairs, pair, side="right") - 1, return_inverse=True)
        number = np.arange(len(pair))
        return cls(row, pair, row_of, number, number + 1, 1)


def grow_on_device(
    factors: DeviceFactors, negatives: GrowingNegatives, advance: Callable[[int], None]
) -> ListedCounts:
    """Compare the targets of all rows with their negatives until each may stop; needs triton.

    Every count equals that of ``growing.compare_growing``.
    """
    from truerank.ranking.listed import ListedCounts

    rows, sequences, stopping = negatives.rows, negatives.sequences, negatives.stopping
    device = _Device(factors, negatives, sequences)
    reached, parts = negatives.reached(stopping.sizes[-1]), []
    for start, stop in _cuts(negatives, factors.users.shape[1], factors.limits):
        groups = Groups.of_rows(start, stop, rows.pairs)
        counts, scores = device.run(groups, None)
        above, drawn = counts[0], counts[2]
        last_size = np.repeat(reached[start:stop], np.diff(rows.pairs[start : stop + 1]))
        is_open = (above < stopping.rank) & (drawn < last_size)
        for left in _bounded(groups.pair[is_open], last_size[is_open], factors.limits.listed):
            index = left - groups.pair[0]
            counts[:, index] = device.run(Groups.of_pairs(left, rows.pairs), reached)[0]
        n_scores = np.maximum.reduceat(counts[2], rows.pairs[start:stop] - rows.pairs[start]).sum()
        parts.append(ListedCounts(counts[0], counts[1], counts[2], scores, int(n_scores) + len(scores)))
        advance(stop - start)
    return ListedCounts.joined(parts)


class _Device:
    """Runs the kernel for blocks of rows, with the same items and stopping rule."""

    def __init__(
        self, factors: DeviceFactors, negatives: GrowingNegatives, sequences: NegativeSequences
    ) -> None:
        self.factors, self.negatives, self.sequences = factors, negatives, sequences
        self.sizes = np.array(negatives.stopping.sizes, np.int64)
        self.replacement = negatives.design.replacement
        longest = _longest(negatives)
        self.reach = sequences.head if self.replacement else np.minimum(sequences.head, longest)

    def run(self, groups: Groups, reached: IntArray | None) -> tuple[Any, Any]:
        """Return counts above, tied and of negatives, (3, n_pairs), and the scores of the targets.

        With ``reached``, the final number of negatives per row, they are sampled on the CPU.
        """
        import torch

        from truerank.ranking.gpu.triton_pairs import grow_kernel

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
            drawn = self.sequences.sample(groups.row, np.zeros_like(reach), reach)
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
        return to_host(out).astype(np.int64), to_host(scores)

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
    from truerank.ranking.listed import ranges

    begin, end = _taken(lists.indptr, query), _taken(lists.indptr, query + 1)
    indptr = np.concatenate([[0], np.cumsum(end - begin, dtype=np.int64)])
    if len(query) and indptr[-1] == end[-1] - begin[0]:
        items = lists.items[begin[0] : end[-1]]
    else:
        items = lists.items[ranges(begin, end - begin)]
    # A kernel needs an address, even of nothing.
    return indptr, np.ascontiguousarray(items if len(items) else np.zeros(1), np.int32)


def _cuts(negatives: GrowingNegatives, width: int, limits: SampleLimits) -> Iterator[tuple[int, int]]:
    """Yield runs of rows that fit on the device at once, at least one row each."""
    rows = negatives.rows
    most = max(1, limits.user_cells // max(1, width))
    kept = 0 if negatives.design.replacement else _longest(negatives)
    n_targets = np.diff(rows.pairs)
    blocked = (rows.queries.excluded.lengths() + rows.queries.targets.lengths())[rows.owner]
    loads = [np.cumsum(n_targets * kept), np.cumsum(blocked)]
    start = 0
    while start < len(rows):
        stop = start + most
        for load, limit in zip(loads, (limits.taken, limits.blocked), strict=True):
            before = int(load[start - 1]) if start else 0
            stop = min(stop, int(np.searchsorted(load, before + limit, side="right")))
        stop = max(start + 1, min(stop, len(rows)))
        yield start, stop
        start = stop


def _bounded(pair: IntArray, size: IntArray, most: int) -> Iterator[IntArray]:
    """Yield runs of pairs whose lists fit on the device at once."""
    from truerank.ranking.negatives import row_blocks

    for block in row_blocks(size, most):
        yield pair[block.start : block.stop]
