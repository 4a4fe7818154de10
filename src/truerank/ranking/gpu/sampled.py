"""Sampled ranks of a factor model on a GPU: comparison with given negatives, or sampling in the same kernel.

One kernel samples, scores and counts the negatives of a row; a sample of fixed size is one round. The
negatives are those of ``growing.NegativeSequences``, item by item. Scores are float64 sums in any order;
where such a sum is too close to the target's score, the sum that defines ranks decides. Samples are kept free
of duplicates by remembering them, which takes memory: all targets first go through the first round, and those
that go on begin anew with room for the largest sample. Rows that are not sampled by rejection (most of the
catalogue is wanted, or seen) are sampled on the CPU, and their lists sent.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from truerank.core.errors import DataWarning
from truerank.core.interactions import Lists
from truerank.core.random import stage_key
from truerank.core.scorer import Factors, HasFactors, Scorer
from truerank.core.types import FloatArray, IntArray
from truerank.ranking.cpu.counts import check_magnitudes
from truerank.ranking.gpu.device import (
    Engine,
    SideStream,
    as_matrix,
    engine_for,
    has_gpu,
    largest_of,
    open_device,
    to_device,
    to_host,
)
from truerank.ranking.samplers.uniform import least_free

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from truerank.ranking.growing import GrowingNegatives
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

    def sent_users(self, users: IntArray) -> tuple[Any, Tensor]:
        """Return the vectors of some users, ascending, here and on the device."""
        is_run = len(users) and users[-1] - users[0] + 1 == len(users)
        chosen = self.users[users[0] : users[-1] + 1] if is_run else self.users[users]
        return chosen, to_device(chosen, self.device)

    def check_users(self, sent: Tensor, chosen: Any) -> None:
        """Raise unless the vectors of users are finite and their scores cannot overflow."""
        exponents = (
            float(np.frexp(value)[1]) for value in (largest_of("user", sent, chosen), self.item_largest)
        )
        check_magnitudes(*(-int(exponent) for exponent in exponents))

    def send_users(self, users: IntArray) -> Tensor:
        """Return the vectors of some users, ascending, on the device; raise when scores could overflow."""
        chosen, sent = self.sent_users(users)
        self.check_users(sent, chosen)
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
    """Work of the programs of a kernel where rows have several targets: each takes some targets of one row.

    Parameters
    ----------
    row : (n,) a program's row
    first, stop : (n,) a program's targets
    width : targets of a program at most, a power of two
    """

    row: IntArray
    first: IntArray
    stop: IntArray
    width: int

    @classmethod
    def of(cls, pairs: IntArray) -> Groups:
        """Return all targets of all rows; those of row r are ``pairs[r]:pairs[r + 1]``."""
        lengths = np.diff(pairs)
        width = min(TARGETS, 1 << (int(lengths.max(initial=1)) - 1).bit_length())
        n_groups = -(-lengths // width)
        row = np.repeat(np.arange(len(lengths)), n_groups)
        before = np.cumsum(n_groups) - n_groups
        first = pairs[row] + width * (np.arange(len(row)) - before[row])
        return cls(row, first, np.minimum(first + width, pairs[row + 1]), width)


def grow_on_device(
    factors: DeviceFactors, negatives: GrowingNegatives, advance: Callable[[int], None]
) -> ListedCounts:
    """Compare the targets of all rows with their negatives until each may stop; needs triton.

    Every count equals that of ``growing.compare_growing``. While the kernel runs for some rows, the next are
    sent.
    """
    from truerank.ranking.listed import ListedCounts

    job = _Job(factors, negatives)
    n_pairs = int(negatives.rows.pairs[-1])
    counts, scores = np.empty((3, n_pairs), np.int64), np.empty(n_pairs)
    n_scores, running = 0, None
    for start, stop in _cuts(job):
        part = _Part(job, start, stop)
        if running is not None:
            n_scores += running.finish(counts, scores)
            advance(len(running))
        running = part
    if running is not None:
        n_scores += running.finish(counts, scores)
        advance(len(running))
    return ListedCounts(counts[0], counts[1], counts[2], scores, n_scores)


class _Job:
    """What the kernel needs beside rows: items, sizes of the rounds, the key of the random streams.

    Parameters
    ----------
    factors : the vectors
    negatives : rows, stopping rule and design
    """

    def __init__(self, factors: DeviceFactors, negatives: GrowingNegatives) -> None:
        self.factors, self.negatives, self.rows = factors, negatives, negatives.rows
        self.replacement, stopping = negatives.design.replacement, negatives.stopping
        self.sizes, self.rank = np.array(stopping.sizes, np.int64), stopping.rank
        words = np.array(stage_key(self.rows.seed, self.rows.stage), np.uint64).view(np.int64)
        self.words, self.device_sizes = (to_device(part, factors.device) for part in (words, self.sizes))
        self.side = SideStream(factors.device)

    @property
    def first(self) -> int:
        """Room for the sample of a program in the first run, where samples are remembered."""
        return 0 if self.replacement else min(LONGEST, int(self.sizes[0]), self.rows.n_items)

    @property
    def longest(self) -> int:
        """The same for targets that go on."""
        return 0 if self.replacement else min(LONGEST, int(self.sizes[-1]), self.rows.n_items)

    @cached_property
    def is_one_run(self) -> bool:
        """Whether one run of the kernel is known to be enough for all targets."""
        if len(self.sizes) > 1 or not len(self.rows):
            return False
        shortest = self.negatives.sequences.head_of(self.rows.n_free.min(keepdims=True))
        room = shortest if self.replacement else np.minimum(shortest, self.first)
        return bool((room >= self.sizes[-1]).all())


class _Part:
    """Rows start..stop-1 on the device; the first run of the kernel begins when they are sent.

    Parameters
    ----------
    job : what is common to all parts
    start, stop : the rows
    """

    def __init__(self, job: _Job, start: int, stop: int) -> None:
        import torch

        self.job, self.start, self.stop = job, start, stop
        rows, queries, device = job.rows, job.rows.queries, job.factors.device
        owner = rows.owner[start:stop]
        first, last = int(owner[0]), int(owner[-1]) + 1
        self.pairs = slice(int(rows.pairs[start]), int(rows.pairs[stop]))
        n_pairs = self.pairs.stop - self.pairs.start
        self.excluded, self.targets = (
            _send_lists(lists, first, last, device) for lists in (queries.excluded, queries.targets)
        )
        self.user_code = to_device(np.ascontiguousarray(rows.codes[first:last], np.int64), device)
        before = self.pairs.start - int(queries.targets.indptr[first])
        self.code = self.targets[1][before : before + n_pairs].long()
        self.chosen_users, self.users = job.factors.sent_users(queries.users[first:last])
        number = torch.arange(max(len(self), n_pairs), device=device)
        self.user_of = to_device(owner - first, device) if rows.is_per_target else number[: len(self)]
        self.groups: Groups | None = None
        self.group_parts: tuple[Tensor, ...] = (number, number, number)
        user_of_pair = self.user_of
        if n_pairs > len(self):
            self.groups = Groups.of(rows.pairs[start : stop + 1] - self.pairs.start)
            groups = (self.groups.row, self.groups.first, self.groups.stop)
            self.group_parts = tuple(to_device(part, device) for part in groups)
            lengths = to_device(np.diff(rows.pairs[start : stop + 1]), device)
            user_of_pair = torch.repeat_interleave(self.user_of, lengths, output_size=n_pairs)
        self.n_programs = len(self) if self.groups is None else len(self.groups.row)
        factors = (self.users, job.factors.items, job.factors.bias)
        self.user_of_pair = user_of_pair
        self.score = job.factors.engine.score_pairs(*factors, user_of_pair, self.code)
        self.out = torch.zeros((3, n_pairs), dtype=torch.int32, device=device)
        self._run(None, job.first)
        self.begun = job.side.mark()

    def __len__(self) -> int:
        return self.stop - self.start

    def finish(self, counts: IntArray, scores: FloatArray) -> int:
        """Let all targets go on that may, write the results to their place, return the number of scores.

        All of it runs beside the kernel that was begun for the next rows.
        """
        import torch

        job = self.job
        with job.side.after(self.begun):
            job.factors.check_users(self.users, self.chosen_users)
            if not job.is_one_run:
                if job.longest > job.first:
                    step = max(1, job.factors.limits.taken // (2 * job.longest))
                    for chosen in torch.split(self._open_programs(), step):
                        self._run(chosen, job.longest)
                self._run_listed(to_host(self._open_programs()))
            for mine, found in zip(counts[:, self.pairs], self.out, strict=True):
                torch.from_numpy(mine).copy_(found)
            torch.from_numpy(scores[self.pairs]).copy_(self.score)
        drawn = counts[2, self.pairs]
        if self.groups is not None:
            drawn = np.maximum.reduceat(drawn, job.rows.pairs[self.start : self.stop] - self.pairs.start)
        return int(drawn.sum()) + len(self.score)

    def _open_programs(self) -> Tensor:
        """Return the programs of which a target may go on."""
        import torch

        job, n_items = self.job, self.job.rows.n_items
        above, _, drawn = self.out
        last = torch.full_like(self.user_of_pair, int(job.sizes[-1]))
        if not job.replacement:
            n_blocked = self.excluded[0].diff() + self.targets[0].diff()
            last = torch.minimum(last, (n_items - n_blocked)[self.user_of_pair])
        is_open = (above < job.rank) & (drawn < last)
        if self.groups is None:
            return torch.nonzero(is_open)[:, 0]
        row, first, stop = self.group_parts
        owner = torch.repeat_interleave(torch.arange(len(row), device=row.device), stop - first)
        return torch.unique(owner[is_open])  # type: ignore[no-any-return]

    def _run_listed(self, programs: IntArray) -> None:
        """Compare some programs' targets with negatives that are sampled on the CPU."""
        from truerank.ranking.negatives import row_blocks

        if not len(programs):
            return
        job = self.job
        row = self.start + (programs if self.groups is None else self.groups.row[programs])
        last = np.full(len(row), job.sizes[-1])
        reached = last if job.replacement else np.minimum(last, job.rows.n_free[row])
        for block in row_blocks(reached, job.factors.limits.listed):
            mine = slice(block.start, block.stop)
            own, place = np.unique(row[mine], return_inverse=True)
            size = np.zeros(len(own), np.int64)
            size[place] = reached[mine]
            sampled = job.negatives.sequences.sample(own, np.zeros_like(size), size)
            start = (np.cumsum(size) - size)[place]
            device = job.factors.device
            lists = (to_device(np.ascontiguousarray(part), device) for part in (start, sampled))
            self._run(to_device(programs[mine], device), 0, *lists)

    def _run(
        self, chosen: Tensor | None, room: int, start: Tensor | None = None, sampled: Tensor | None = None
    ) -> None:
        """Run the kernel for all programs or some, with room for their samples, or with samples as given."""
        import torch

        from truerank.ranking.gpu.triton_pairs import grow_kernel

        job, width = self.job, self.users.shape[1]
        n_programs = self.n_programs if chosen is None else len(chosen)
        if n_programs == 0:
            return
        bias = job.factors.bias
        taken = sampled
        if taken is None:
            taken = torch.empty(max(1, n_programs * room), dtype=torch.int32, device=self.users.device)
        grow_kernel[(n_programs,)](
            self.users,
            job.factors.items,
            self.users if bias is None else bias,
            self.score,
            self.user_of if chosen is None else chosen,
            *self.group_parts,
            self.user_of,
            self.user_code,
            self.code,
            job.words,
            *self.excluded,
            *self.targets,
            job.device_sizes,
            self.user_of if start is None else start,
            taken,
            *self.out,
            room,
            len(job.sizes),
            job.rank - 1,
            job.rows.n_items,
            (1 << 32) % job.rows.n_items,
            least_free(job.rows.n_items),
            width,
            HAS_BIAS=bias is not None,
            REPLACEMENT=job.replacement,
            LISTED=sampled is not None,
            IS_CHOSEN=chosen is not None,
            IS_GROUPED=self.groups is not None,
            PER_TARGET=job.rows.is_per_target,
            TRIES=TRIES,
            OTHERS=OTHERS,
            CHUNK=min(32, max(8, 1 << (width - 1).bit_length())),
            TARGETS=1 if self.groups is None else self.groups.width,
            num_warps=WARPS,
            enable_fp_fusion=False,
        )


def _send_lists(lists: Lists, first: int, last: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return where the lists of the queries first..last-1 begin, and their items, on the device."""
    begin, end = int(lists.indptr[first]), int(lists.indptr[last])
    # A kernel needs an address, even of nothing.
    items = lists.items[begin:end] if end > begin else np.zeros(1)
    indptr = to_device(np.ascontiguousarray(lists.indptr[first : last + 1], np.int64), device) - begin
    return indptr, to_device(np.ascontiguousarray(items, np.int32), device)


def _cuts(job: _Job) -> Iterator[tuple[int, int]]:
    """Yield runs of rows of which two fit on the device at once, at least one row each."""
    rows, queries, limits = job.rows, job.rows.queries, job.factors.limits
    most = max(1, limits.user_cells // (2 * max(1, job.factors.users.shape[1])))
    start = 0
    while start < len(rows):
        stop = min(start + most, len(rows))
        if job.first:
            stop = min(stop, _end_of(rows.pairs, start, limits.taken // (2 * job.first)))
        for lists in (queries.excluded, queries.targets):
            query = _end_of(lists.indptr, int(rows.owner[start]), limits.blocked // 4)
            stop = min(stop, int(np.searchsorted(rows.owner, query)) if rows.is_per_target else query)
        stop = max(start + 1, stop)
        yield start, stop
        start = stop


def _end_of(indptr: IntArray, start: int, most: int) -> int:
    """Return the end of the longest run of lists from ``start`` on that have at most ``most`` entries."""
    return int(np.searchsorted(indptr, indptr[start] + most, side="right")) - 1
