"""Sampled ranks: the rank of each target among sampled negatives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from truerank.core.errors import check_at_least, check_choice, suggests_arguments
from truerank.core.parallel import chosen_threads, ordered_map
from truerank.core.progress import SILENT, Progress, as_progress, tracked
from truerank.core.ranks import SEEN_POLICIES, Design, SampledRanks, SeenPolicy, Stopping
from truerank.core.scorer import DenseScores, Scorer, check_scorer, nan_score, ready_scorer
from truerank.core.split import Split, check_split
from truerank.ranking.cpu.counts import ScoreIsNaN, count_among_targets
from truerank.ranking.exact import make_queries
from truerank.ranking.gpu.sampled import factors_on
from truerank.ranking.growing import GrowingNegatives, NaNRow, compare_growing
from truerank.ranking.listed import ListedCounts, TargetComparer, make_comparer
from truerank.ranking.negatives import Negatives, RowBlock, Rows, Sampler, row_blocks
from truerank.ranking.samplers.given import GivenLists
from truerank.ranking.samplers.registry import SAMPLERS
from truerank.ranking.samplers.uniform import UniformSampler

# Negatives that are sampled and compared at once; fewer where that leaves threads without work.
BLOCK_NEGATIVES = 1 << 20
SHARED_NEGATIVES = 1 << 16

AnySampler = str | Sampler | Mapping[Any, Sequence[Any]]


@dataclass(frozen=True, eq=False)
class Sampled:
    """Sampled ranks, and the number of scores they took.

    Parameters
    ----------
    ranks : one row per (user, target)
    n_scores : scores that were computed, those of the targets included
    """

    ranks: SampledRanks
    n_scores: int


@suggests_arguments
def sampled_ranks(
    scorer: Any,
    split: Split,
    sampler: AnySampler = "uniform",
    *,
    seen: SeenPolicy = "remove",
    seed: int = 0,
    repeat: int = 0,
    label: str = "",
    n_threads: int | None = None,
    progress: Progress | bool = SILENT,
) -> SampledRanks:
    """Return the rank of each test target among sampled negatives.

    See ``sample_ranks``, which takes the same arguments and also counts the scores.

    Examples
    --------
    >>> from truerank.core.interactions import Interactions
    >>> from truerank.core.scorer import as_scorer
    >>> train = Interactions.from_codes([0], [0], n_items=5)
    >>> split = Split(train, Interactions.from_codes([0], [2], n_items=5))
    >>> scores = as_scorer(np.array([[9.0, 5.0, 3.0, 4.0, 1.0]]))
    >>> sampled_ranks(scorer=scores, split=split, sampler="uniform(m=3)").n_above.tolist()
    [2]
    """
    progress = as_progress(progress)
    check_split(split, "sampled_ranks")
    found = sample_ranks(
        ready_scorer(scorer),
        split,
        sampler,
        seen=seen,
        seed=seed,
        repeat=repeat,
        label=label,
        n_threads=n_threads,
        progress=progress,
    )
    return found.ranks


def sample_ranks(
    scorer: Scorer,
    split: Split,
    sampler: AnySampler = "uniform",
    *,
    seen: SeenPolicy = "remove",
    seed: int = 0,
    repeat: int = 0,
    label: str = "",
    n_threads: int | None = None,
    device: str = "cpu",
    memory: int | None = None,
    progress: Progress = SILENT,
) -> Sampled:
    """Return sampled ranks and the number of scores they took.

    Negatives are sampled per user and shared by all its targets, unless the sampler has ``per=target``. Other
    targets of the user are no candidates: how many of them score higher is known from their own scores, and
    is counted in ``n_above`` as in exact ranks.

    Parameters
    ----------
    scorer : anything that ``as_scorer`` takes; the cheapest interface it offers is used
    split : the targets are the test part; items of train and valid are the seen ones
    sampler : a spec string such as ``uniform(m=99)``, a sampler, or a mapping of user id to candidate ids
    seen : with ``remove`` and ``bottom`` seen items are no candidates, with ``keep`` they are
    seed, repeat : equal ones give equal samples; use ``repeat`` for repetitions of an experiment
    label : names the model; matters only for samplers with ``shared=false``
    n_threads : threads for factors and scorers that say they are thread-safe; None takes all cores
    device : ``cpu``, or ``cuda`` to sample and compare on a GPU where the model has factors; the counts are
        the same
    memory : bytes of the GPU to use; where they do not hold the item vectors twice, the CPU samples

    Raises
    ------
    InvalidData
        When a user has fewer candidates than negatives without replacement, the scorer's catalogue is not the
        split's, or a score is NaN.
    """
    check_choice("seen", seen, SEEN_POLICIES)
    check_at_least("repeat", repeat, 0)
    check_scorer(scorer, split)
    chosen_sampler = GivenLists(sampler) if isinstance(sampler, Mapping) else SAMPLERS.make(sampler)
    rows = Rows.of(
        make_queries(split, seen),
        split,
        per_target=chosen_sampler.is_per_target,
        seed=seed,
        repeat=repeat,
        label="" if chosen_sampler.is_shared else label,
    )
    negatives = chosen_sampler.negatives(split, rows)
    n_threads = chosen_threads(n_threads)
    with tracked(progress, "sampling", len(rows)) as task:
        try:
            # Other negatives are sampled on the CPU, where comparing them is faster than sending them.
            is_made_there = isinstance(chosen_sampler, UniformSampler) or isinstance(
                negatives, GrowingNegatives
            )
            on_device = factors_on(device, scorer, rows, memory) if is_made_there else None
            in_one = isinstance(scorer, DenseScores) if on_device is None else on_device.can_sample
            if in_one and isinstance(chosen_sampler, UniformSampler):  # samples and compares in one kernel
                negatives = GrowingNegatives(rows, Stopping((chosen_sampler.m,)), negatives.design)
            if isinstance(negatives, GrowingNegatives):
                counts = compare_growing(scorer, negatives, n_threads, task.advance, on_device)
            else:
                comparer = on_device or make_comparer(scorer, rows, int(negatives.sizes.sum()))
                counts = _compare_blocks(comparer, negatives, n_threads, task.advance)
        except NaNRow as error:
            raise nan_score(rows.user_id(error.row)) from None
    design = replace(negatives.design, n_test_users=split.n_test_users)
    return Sampled(_table(rows, negatives, counts, seen, design), counts.n_scores)


def _compare_blocks(
    comparer: TargetComparer, negatives: Negatives, n_threads: int, advance: Any
) -> ListedCounts:
    """Sample negatives and compare targets with them, block by block."""
    if not comparer.is_thread_safe:
        n_threads = 1
    most = min(BLOCK_NEGATIVES, comparer.most_negatives)
    if n_threads > 1:
        most = min(most, max(SHARED_NEGATIVES, int(negatives.sizes.sum()) // (4 * n_threads)))
    runs = list(row_blocks(negatives.sizes, most))

    def work(block: RowBlock) -> ListedCounts:
        try:
            return comparer.compare(block, negatives.sample(block.start, block.stop))
        except ScoreIsNaN as error:
            raise NaNRow(block.start + error.row) from None

    parts = []
    for block, part in zip(runs, ordered_map(work, runs, n_threads=n_threads), strict=True):
        parts.append(part)
        advance(block.stop - block.start)
    return ListedCounts.joined(parts)


def _table(
    rows: Rows,
    negatives: Negatives | GrowingNegatives,
    counts: ListedCounts,
    seen: SeenPolicy,
    design: Design,
) -> SampledRanks:
    queries = rows.queries
    lengths, indptr = queries.targets.lengths(), queries.targets.indptr.astype(np.int64, copy=False)
    removed = queries.excluded.lengths() if seen == "remove" else np.zeros_like(lengths)
    above, tied = count_among_targets(indptr, counts.scores)
    user, n_pool, n_relevant = queries.users, rows.n_items - removed, lengths
    n_above, n_tied, n_candidates = counts.n_above, counts.n_tied, negatives.n_candidates
    if len(lengths) < len(counts.scores):
        user, n_pool, n_relevant = (np.repeat(part, lengths) for part in (user, n_pool, n_relevant))
        n_above, n_tied = n_above + above, n_tied + tied
        n_candidates = np.repeat(n_candidates, np.diff(rows.pairs))
    return SampledRanks(
        user=user,
        item=queries.targets.items,
        n_above=n_above,
        n_tied=n_tied,
        n_pool=n_pool,
        n_relevant=n_relevant,
        n_relevant_above=above,
        n_relevant_tied=tied,
        n_negatives=counts.n_negatives,
        n_candidates=n_candidates,
        design=design,
    )
