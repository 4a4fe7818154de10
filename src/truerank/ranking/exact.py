"""Exact ranks: the rank of each target among all items of its pool."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from truerank.core.errors import InvalidData, check_choice, suggests_arguments
from truerank.core.interactions import Lists
from truerank.core.parallel import chosen_threads, ordered_map
from truerank.core.progress import SILENT, Progress, as_progress, tracked
from truerank.core.ranks import SEEN_POLICIES, Ranks, SeenPolicy
from truerank.core.scorer import (
    HasFactors,
    HasItemWeights,
    HasSparseRows,
    Scorer,
    check_scorer,
    checked_scores,
    nan_score,
    ready_scorer,
)
from truerank.core.split import Split, check_split
from truerank.core.types import IntArray
from truerank.ranking.cpu.counts import Counts, ScoreIsNaN

_BLOCK_BYTES = 16 << 20


@dataclass(frozen=True, eq=False)
class Queries:
    """The users to rank for, with their targets and the items that do not compete.

    Parameters
    ----------
    users : (n,) codes of users with at least one target, ascending
    targets, excluded : one list of items per entry of ``users``
    """

    users: IntArray
    targets: Lists
    excluded: Lists

    def __len__(self) -> int:
        return len(self.users)

    def block(self, start: int, stop: int) -> Queries:
        """Return the queries start..stop-1."""
        return Queries(
            self.users[start:stop], _rows(self.targets, start, stop), _rows(self.excluded, start, stop)
        )


@suggests_arguments
def exact_ranks(
    scorer: Any,
    split: Split,
    *,
    seen: SeenPolicy = "remove",
    n_threads: int | None = None,
    device: str = "cpu",
    memory: int | None = None,
    progress: Progress | bool = SILENT,
) -> Ranks:
    """Return the rank of each test target among all items.

    Factors are counted by a fused kernel whose ranks equal those of float64 arithmetic; other scorers
    score blocks of users of at most 16 MB. No users x items matrix is stored.

    Parameters
    ----------
    scorer : anything that ``as_scorer`` takes; the cheapest interface it offers is used
    split : the targets are the test part; items of train and valid are the seen ones
    seen : ``remove`` takes seen items out of the pool, ``bottom`` ranks them below all others (the pool
        stays the whole catalogue), ``keep`` lets them compete
    n_threads : threads for factor models; None takes all cores
    device : ``cpu``, or ``cuda`` to rank models with factors or item-item matrices on a GPU; the ranks are
        the same
    memory : bytes of the GPU to use; None for about 3 GB

    Raises
    ------
    InvalidData
        When the scorer's catalogue is not the split's, or a score is NaN.
    """
    progress = as_progress(progress)
    check_choice("seen", seen, SEEN_POLICIES)
    check_split(split, "exact_ranks")
    ready = ready_scorer(scorer)
    check_scorer(ready, split)
    if device != "cpu" and isinstance(ready, HasFactors | HasItemWeights):
        from truerank.ranking.gpu.exact import exact_ranks_gpu

        return exact_ranks_gpu(ready, split, seen=seen, device=device, memory=memory, progress=progress)
    queries = make_queries(split, seen)
    with tracked(progress, "ranking", len(queries)) as task:
        try:
            counts = _count(ready, queries, chosen_threads(n_threads), task.advance)
        except ScoreIsNaN as error:
            user = split.train.users.decode(queries.users[[error.row]])[0]
            raise nan_score(user) from None
    return ranks_from_counts(queries, counts, split.train.n_items, seen)


def ranks_from_counts(queries: Queries, counts: Counts, n_items: int, seen: SeenPolicy) -> Ranks:
    """Return ranks from the counts of each target."""
    lengths = queries.targets.lengths()
    removed = queries.excluded.lengths() if seen == "remove" else np.zeros_like(lengths)
    return Ranks(
        user=per_target(queries.users, lengths),
        item=queries.targets.items,
        n_above=counts.n_above,
        n_tied=counts.n_tied,
        n_pool=per_target(n_items - removed, lengths),
        n_relevant=per_target(lengths, lengths),
        n_relevant_above=counts.n_relevant_above,
        n_relevant_tied=counts.n_relevant_tied,
    )


def per_target(values: IntArray, lengths: IntArray) -> IntArray:
    """Return the value of each target's user; no copy is made where every user has one target.

    Examples
    --------
    >>> per_target(np.array([7, 8]), np.array([2, 1])).tolist()
    [7, 7, 8]
    """
    return values if (lengths == 1).all() else np.repeat(values, lengths)


def make_queries(split: Split, seen: SeenPolicy) -> Queries:
    """Return the users with targets, their targets, and the seen items that are excluded."""
    targets = split.test.by_user()
    users = np.flatnonzero(targets.lengths())
    if seen == "keep":
        nothing = Lists(np.zeros(len(users) + 1, dtype=np.int64), np.zeros(0, dtype=np.int32))
        return Queries(users, _select(targets, users), nothing)
    if split.repeats and split.overlap["targets_in_train"]:
        raise InvalidData(
            f"{split.overlap['targets_in_train']:,} held-out events must be of items that the user has no "
            f"earlier event with, where seen items do not compete. Use seen='keep', or merge repeated pairs."
        )
    known = split.train.by_user()
    if split.valid is not None and len(split.valid):
        both = split.train.matrix() + split.valid.matrix()
        both.sort_indices()
        known = Lists(both.indptr.astype(np.int64), both.indices.astype(np.int32, copy=False))
    return Queries(users, _select(targets, users), _select(known, users))


def _count(scorer: Scorer, queries: Queries, n_threads: int, advance: Callable[[int], None]) -> Counts:
    if isinstance(scorer, HasFactors):
        return _count_factors(scorer, queries, n_threads, advance)
    return _count_blocks(scorer, queries, n_threads, advance)


def _count_factors(
    scorer: HasFactors, queries: Queries, n_threads: int, advance: Callable[[int], None]
) -> Counts:
    from truerank.ranking.cpu.factors import count_factors

    factors = scorer.factors()
    return count_factors(
        factors.user[queries.users],
        factors.item,
        factors.item_bias,
        *_csr(queries),
        n_threads=n_threads,
        on_rows=advance,
    )


def _count_blocks(scorer: Scorer, queries: Queries, n_threads: int, advance: Callable[[int], None]) -> Counts:
    """Count block by block; a scorer that declares itself thread-safe is called from several threads."""
    size = max(1, _BLOCK_BYTES // (8 * max(1, scorer.n_items)))
    starts = range(0, len(queries), size)
    parts: list[Counts] = []

    def count(start: int) -> Counts:
        try:
            return _count_block(scorer, queries.block(start, start + size))
        except ScoreIsNaN as error:
            raise ScoreIsNaN(start + error.row) from None

    workers = n_threads if getattr(scorer, "is_thread_safe", False) else 1
    for part in ordered_map(count, starts, n_threads=workers):
        parts.append(part)
        advance(min(size, len(queries) - starts[len(parts) - 1]))
    return Counts(
        np.concatenate([part.n_above for part in parts]),
        np.concatenate([part.n_tied for part in parts]),
        np.concatenate([part.n_relevant_above for part in parts]),
        np.concatenate([part.n_relevant_tied for part in parts]),
    )


def _count_block(scorer: Scorer, block: Queries) -> Counts:
    from truerank.ranking.cpu.rows import count_dense_rows, count_sparse_rows

    if isinstance(scorer, HasSparseRows):
        return count_sparse_rows(scorer.sparse_rows(block.users), *_csr(block))
    return count_dense_rows(checked_scores(scorer, block.users, np.arange(scorer.n_items)), *_csr(block))


def _csr(queries: Queries) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    return (
        queries.targets.indptr,
        queries.targets.items,
        queries.excluded.indptr,
        queries.excluded.items,
    )


def _rows(lists: Lists, start: int, stop: int) -> Lists:
    indptr = lists.indptr[start : stop + 1]
    return Lists(indptr - indptr[0], lists.items[indptr[0] : indptr[-1]])


def _select(lists: Lists, users: IntArray) -> Lists:
    """Return the lists of some users, ascending."""
    if len(users) == len(lists.indptr) - 1:
        return lists
    lengths = lists.lengths()[users]
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    shift = np.repeat(lists.indptr[users] - indptr[:-1], lengths)
    return Lists(indptr, lists.items[np.arange(indptr[-1]) + shift])
