"""Tally: counts of sampled ranks by context, the sufficient statistic of all estimators.

A context is what the correction of a sampled rank depends on: the sizes of sample and pool and the other
targets of the user. The tie policy is applied and pools of nearly equal size are put together here, once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from truerank.core.errors import CannotEstimate, InvalidParameter, check_choice
from truerank.core.ranks import TIE_POLICIES, Design, SampledRanks, TiePolicy
from truerank.core.types import FloatArray, IntArray, frozen
from truerank.metrics.base import GradedMetric, Metric, counted_weights
from truerank.metrics.grades import GradedTargets
from truerank.metrics.ties import block_order, block_weights, random_split

#: Default relative width of the bins in which pools of nearly equal size are put together.
WIDTH = 0.01
#: Contexts of graded targets above which nearly equal weights are put together as well.
MOST_WEIGHTED = 4096


@dataclass(frozen=True, eq=False)
class Contexts:
    """Distinct contexts of targets: sampled ranks in the same context are corrected alike.

    Parameters
    ----------
    n_negatives : (n,) sampled irrelevant items, m
    n_candidates : (n,) irrelevant items they are drawn from, L
    n_relevant_above : (n,) other targets of the user above this one, known exactly
    n_relevant, n_pool : (n,) of the user
    grade : (n,) class of targets whose ranks are alike: the gain where weights depend on it, else 0; None
        where targets are not graded
    weights : (n, n_graded) known weight of the targets in each of the ``graded`` metrics
    graded : the metrics that use gains
    is_part : whether users have other targets that are not counted, so that all metrics use weights; those
        targets are among ``n_relevant`` and ``n_relevant_above``
    """

    n_negatives: IntArray
    n_candidates: IntArray
    n_relevant_above: IntArray
    n_relevant: IntArray
    n_pool: IntArray
    grade: FloatArray | None = None
    weights: FloatArray | None = None
    graded: tuple[Metric, ...] = ()
    is_part: bool = False

    def __len__(self) -> int:
        return len(self.n_negatives)

    @classmethod
    def of_columns(
        cls, columns: IntArray, graded: tuple[Metric, ...] = (), is_part: bool = False
    ) -> Contexts:
        """Return the contexts that have these ``columns``."""
        negatives, size, above, relevant, pool = (
            frozen(np.ascontiguousarray(column)) for column in columns.T[:5]
        )
        counts = cls(negatives, size, above, relevant, pool)
        if columns.shape[1] == 5:
            return counts
        grades = frozen(np.ascontiguousarray(columns[:, 5:]).view(np.float64))
        return replace(counts, grade=grades[:, 0], weights=grades[:, 1:], graded=graded, is_part=is_part)

    def take(self, rows: IntArray) -> Contexts:
        """Return some of them."""
        taken = Contexts(
            self.n_negatives[rows],
            self.n_candidates[rows],
            self.n_relevant_above[rows],
            self.n_relevant[rows],
            self.n_pool[rows],
        )
        if self.grade is None or self.weights is None:
            return taken
        graded = replace(taken, grade=self.grade[rows], weights=self.weights[rows])
        return replace(graded, graded=self.graded, is_part=self.is_part)

    def columns(self) -> IntArray:
        """Return (n_negatives, n_candidates, n_relevant_above, n_relevant, n_pool) of each, (n, 5).

        Graded targets have their grade and weights behind these, as the bits of the numbers.
        """
        parts = (self.n_negatives, self.n_candidates, self.n_relevant_above, self.n_relevant, self.n_pool)
        counts = np.stack(parts, axis=1)
        if self.grade is None or self.weights is None:
            return counts
        grades = np.concatenate([self.grade[:, None], self.weights], axis=1)
        return np.concatenate([counts.astype(np.int64), np.ascontiguousarray(grades).view(np.int64)], axis=1)

    def weight_of(self, metric: Metric) -> FloatArray | None:
        """Return the weight of targets in a metric, (n,); None where it does not depend on gains.

        Raises
        ------
        CannotEstimate
            When targets are graded and the counts were made without the weights of this metric.
        """
        if self.weights is None or not (self.is_part or isinstance(metric, GradedMetric)):
            return None
        if metric not in self.graded:
            raise CannotEstimate(
                f"'{metric}' of graded targets needs their weights, which are not counted here. Leave the "
                "gains out, or this metric."
            )
        return self.weights[:, self.graded.index(metric)]

    def gains(self, metric: Metric, rank: IntArray, n_pool: IntArray | None = None) -> FloatArray:
        """Return the gain of a target of each context at ranks, (n,) or (n, n_ranks) as the ranks are.

        Parameters
        ----------
        metric : what is measured
        rank : of one target of each context, or several
        n_pool : (n,) another length of the list than that of the pool
        """
        shape = (-1,) + (1,) * (rank.ndim - 1)
        weight = self.weight_of(metric)
        if weight is not None and isinstance(metric, GradedMetric):
            return metric.rank_gain(rank) * weight.reshape(shape)
        pool = self.n_pool if n_pool is None else n_pool
        if weight is not None:
            none, one = np.zeros_like(rank), np.ones_like(rank)
            return metric.gain(rank, none, one, np.broadcast_to(pool.reshape(shape), rank.shape)) * (
                weight.reshape(shape)
            )
        columns = (column.reshape(shape) for column in (self.n_relevant_above, self.n_relevant, pool))
        return np.array(np.broadcast_to(metric.gain(rank, *columns), rank.shape), dtype=np.float64)

    def unweighted(self) -> tuple[Contexts, IntArray]:
        """Return the distinct contexts of targets of weight 1, and which of them each is."""
        if self.grade is None or self.weights is None or (self.weights == 1).all():
            return self, np.arange(len(self))
        equal = replace(self, grade=np.zeros(len(self)), weights=np.ones_like(self.weights))
        _, first, which = np.unique(equal.columns(), axis=0, return_index=True, return_inverse=True)
        return equal.take(first), which.ravel()

    def laws(self) -> list[tuple[int, int, IntArray]]:
        """Return (n_negatives, n_candidates, rows) for each distinct pair of sizes, sorted."""
        distinct, which = np.unique(self.columns()[:, :2], axis=0, return_inverse=True)
        order = np.argsort(which.ravel(), kind="stable")
        stops = np.cumsum(np.bincount(which.ravel(), minlength=len(distinct)))
        parts = np.split(order, stops[:-1])
        return [(int(m), int(size), rows) for (m, size), rows in zip(distinct, parts, strict=True)]


@dataclass(frozen=True, eq=False)
class Tally:
    """Counts of targets by context and by the number of sampled irrelevant items above the target.

    A *cell* is a pair (context, n_above) with n_above in 0..m; an estimate of a metric is a weighted sum over
    cells of a corrected value. A row without ties adds weight 1 to one cell; a tied row is spread over the
    cells it can be in. The user of each entry is kept, so that values per user can be computed.

    Parameters
    ----------
    contexts : the distinct contexts
    user : (n_entries,) position of the entry's user among the ``n_users`` users
    cell : (n_entries,) position of the cell: ``offsets[context] + n_above``
    weight : (n_entries,) the entries of one row sum to 1
    n_users, n_rows : users and targets
    design : how the negatives were drawn
    ties : the tie policy that was applied
    width : relative width of the bins of ``n_candidates``; 0 when nothing was binned
    source : the tally with all pool sizes that this one was binned from; None when nothing was binned

    Examples
    --------
    >>> sample = SampledRanks.single([0, 2, 0], n_negatives=2, n_pool=9, n_tied=np.array([0, 0, 1]))
    >>> tally(sample).counts(0).tolist()  # the last row ties with one: half a count each
    [1.5, 0.5, 1.0]
    """

    contexts: Contexts
    user: IntArray
    cell: IntArray
    weight: FloatArray
    n_users: int
    n_rows: int
    design: Design
    ties: TiePolicy = "expected"
    width: float = 0.0
    source: Tally | None = None

    @property
    def unbinned(self) -> Tally:
        """The counts of the same rows with every pool size kept."""
        return self if self.source is None else self.source

    @cached_property
    def context(self) -> IntArray:
        """The context of each entry, (n_entries,)."""
        return frozen(np.searchsorted(self.offsets, self.cell, side="right") - 1)

    @cached_property
    def offsets(self) -> IntArray:
        """First cell of each context; the last entry is the number of cells."""
        return frozen(np.concatenate([[0], np.cumsum(self.contexts.n_negatives + 1)]).astype(np.int64))

    @property
    def n_cells(self) -> int:
        """All pairs (context, n_above)."""
        return int(self.offsets[-1])

    def cells(self) -> tuple[IntArray, Contexts]:
        """Return for each cell the sampled irrelevant items above the target, and the context.

        Examples
        --------
        >>> n_above, each = tally(SampledRanks.single([0, 2], n_negatives=2, n_pool=9)).cells()
        >>> n_above.tolist(), each.n_candidates.tolist()
        ([0, 1, 2], [8, 8, 8])
        """
        sizes = self.contexts.n_negatives + 1
        n_above = np.arange(self.n_cells) - np.repeat(self.offsets[:-1], sizes)
        return n_above, self.contexts.take(np.repeat(np.arange(len(self.contexts)), sizes))

    @cached_property
    def cell_weights(self) -> FloatArray:
        """Weight of each cell; they sum to ``n_rows``."""
        return frozen(np.bincount(self.cell, weights=self.weight, minlength=self.n_cells))

    @cached_property
    def context_weights(self) -> FloatArray:
        """Weight of each context; they sum to ``n_rows``."""
        return frozen(np.add.reduceat(self.cell_weights, self.offsets[:-1]))

    @cached_property
    def is_fully_ranked(self) -> bool:
        """Whether every candidate of every target was ranked, so that all global ranks are known.

        Never for draws with replacement, which do not say whether all items were among them, nor for draws by
        popularity or other weights, whose candidates leave out items of weight 0.
        """
        is_weighted = self.design.law in ("popularity", "weighted")
        if self.design.replacement or is_weighted or not len(self.contexts):
            return False
        return bool((self.contexts.n_negatives == self.contexts.n_candidates).all())

    def counts(self, context: int) -> FloatArray:
        """Return the weights of n_above = 0..m in one context."""
        return self.cell_weights[self.offsets[context] : self.offsets[context + 1]]

    def per_user(self, values: FloatArray) -> FloatArray:
        """Return the sum over each user's targets of a value per cell, (n_users, n_columns)."""
        result = np.empty((self.n_users, values.shape[1]))
        for column in range(values.shape[1]):
            terms = self.weight * values[self.cell, column]
            result[:, column] = np.bincount(self.user, weights=terms, minlength=self.n_users)
        return result

    @cached_property
    def ungraded(self) -> Tally:
        """The counts of the same rows for metrics that do not use the gains of targets."""
        if self.contexts.grade is None:
            return self
        contexts, which = _make_contexts(self.contexts.columns()[:, :5])
        source = None if self.source is None else self.source.ungraded
        return replace(self._with_contexts(contexts, which), source=source)

    def _with_contexts(self, merged: Contexts, which: IntArray) -> Tally:
        """Return the same entries with each context replaced by that of others which it is."""
        first = np.concatenate([[0], np.cumsum(merged.n_negatives + 1)])
        cell = self.cell + (first[which] - self.offsets[:-1])[self.context]
        return replace(self, contexts=merged, cell=frozen(cell))

    def binned(self, width: float) -> Tally:
        """Return the counts of the same rows with pools of nearly equal size put into bins; see ``tally``.

        Equal to the tally that the sampled ranks have with this width, at the cost of its contexts alone.
        """
        if not 0 <= width < 0.5:
            raise InvalidParameter(f"width must lie in [0, 0.5), got {width!r}. Use 0 for no bins.")
        whole = self.unbinned
        if width == 0:
            return whole
        contexts, size = whole.contexts, _binned_sizes(whole, width)
        weights = contexts.weights
        if weights is not None and len(contexts) > MOST_WEIGHTED and not whole.is_fully_ranked:
            weights = _binned_weights(whole, weights, width)
        if np.array_equal(size, contexts.n_candidates) and weights is contexts.weights:
            return replace(whole, width=width, source=whole)
        pool = contexts.n_pool + size - contexts.n_candidates
        binned = replace(contexts, n_candidates=size, n_pool=pool, weights=weights)
        merged, which = _make_contexts(binned.columns(), contexts.graded, contexts.is_part)
        return replace(whole._with_contexts(merged, which), width=width, source=whole)


def tally(
    sample: SampledRanks,
    *,
    ties: TiePolicy = "expected",
    seed: int = 0,
    width: float = WIDTH,
    metrics: Sequence[Metric] = (),
) -> Tally:
    r"""Count sampled ranks by context, apply the tie policy and bin pools of nearly equal size.

    Parameters
    ----------
    sample : one row per (user, target)
    ties : ``expected`` spreads a row over its positions in all orders of its tied block; ``best`` and
        ``worst`` put targets first and last; ``random`` samples one order
    seed : for ``random``
    width : pools whose numbers of candidates L lie in one interval [a, a (1 + width)) are given their mean
        L'; 0 keeps all sizes. A bin that holds one size keeps it. Weights of graded targets are binned alike
        where there are more than 4,096 contexts
    metrics : of graded targets, those that are to be measured; the weights of targets depend on them

    Returns
    -------
    Tally

    Notes
    -----
    *Bins.* With replacement the number of sampled items above a target depends on J/L alone, so a binned row
    has exactly the law of a target with J' = J L'/L items above it in a pool of L' candidates:
    |J'/J - 1| <= width, which moves ranks below 1/width by less than one. Without replacement the mean is
    that of J' too and the variance is within a factor of 1 +- 2 width; rows with 2 m > L are never binned.
    The pool shrinks or grows with L, so the AUC of a row without other targets stays what it was.

    *Ties.* Of S tied targets and t tied sampled negatives in random order, a target has k targets and j
    negatives before it with probability

    .. math:: \frac{1}{S + t} \binom{S-1}{k} \binom{t}{j} \Big/ \binom{S-1+t}{k+j}.

    The order restricted to a sample is as random as the whole order, so the mean over samples of what is
    estimated equals the mean over orders of the global block: sampled and exact ``expected`` agree. With
    replacement an item that ties and is drawn twice counts as two items; the error is of the order of the
    fraction of repeated draws among the tied ones. Under ``random`` the two cannot be the same order, because
    a table of counts does not say *which* negatives tie; the order of the sample is its own, a pure function
    of (seed, user, item). Tied targets are ordered among themselves; the negatives before each are sampled
    target by target.

    Examples
    --------
    >>> sample = SampledRanks.single([3, 0], n_negatives=4, n_pool=np.array([1000, 1004]))
    >>> tally(sample).contexts.n_candidates.tolist(), tally(sample, width=0).contexts.n_candidates.tolist()
    ([1001], [999, 1003])
    """
    check_choice("ties", ties, TIE_POLICIES)
    row, k, j, weight = _positions(sample, ties, seed)
    is_part = sample.gain is not None and bool((sample.gain == 0).any())
    columns = (
        sample.n_negatives[row],
        sample.n_candidates[row],
        sample.n_relevant_above[row] + k,
        sample.n_relevant[row],
        sample.n_pool[row],
    )
    counts = np.stack(columns, axis=1).astype(np.int64)
    graded = tuple(metric for metric in dict.fromkeys(metrics) if is_part or isinstance(metric, GradedMetric))
    if sample.gain is not None:
        grades = _grades(sample, graded, row, k, is_decided=ties != "expected")
        counts = np.concatenate([counts, np.ascontiguousarray(grades).view(np.int64)], axis=1)
    n_rows = len(sample)
    if is_part and sample.gain is not None:
        kept = sample.gain[row] > 0
        row, j, weight, counts = row[kept], j[kept], weight[kept], counts[kept]
        n_rows = int((sample.gain > 0).sum())
    contexts, which = _make_contexts(counts, graded, is_part)
    first = np.concatenate([[0], np.cumsum(contexts.n_negatives + 1)])
    above = (sample.n_above - sample.n_relevant_above)[row] + j
    starts = np.zeros(len(sample), dtype=np.int64)
    starts[sample.starts] = 1
    whole = Tally(
        contexts=contexts,
        user=frozen((np.cumsum(starts) - 1)[row]),
        cell=frozen(first[which] + above),
        weight=frozen(weight),
        n_users=sample.n_users,
        n_rows=n_rows,
        design=sample.design,
        ties=ties,
    )
    return whole.binned(width)


def _make_contexts(
    columns: IntArray, graded: tuple[Metric, ...] = (), is_part: bool = False
) -> tuple[Contexts, IntArray]:
    """Return the distinct rows of columns as contexts, sorted, and which of them each row is."""
    distinct, which = _distinct(columns)
    return Contexts.of_columns(distinct, graded, is_part), which


def _grades(
    sample: SampledRanks, graded: tuple[Metric, ...], row: IntArray, k: IntArray, *, is_decided: bool
) -> FloatArray:
    """Return the grade and the weights of each position of a row, (n, 1 + n_graded).

    Where targets alike (in the number of targets, and of those above) all have the same weights, gains do not
    matter, and all have the grade 0. Else the grade is a class of gains.
    """
    before: IntArray = np.zeros(len(sample), dtype=np.int64)
    if is_decided:  # one position per row, in their order
        before, k = k, np.zeros_like(k)
    n_tied = np.zeros_like(sample.n_relevant_tied) if is_decided else sample.n_relevant_tied
    targets = GradedTargets.of(sample, sample.n_relevant_above + before, n_tied)
    weights = (
        np.stack([_weights(metric, targets, row, k) for metric in graded], axis=1)
        if graded
        else (np.zeros((len(row), 0)))
    )
    place = (sample.n_relevant_above + before)[row] + k
    _, kind = _distinct(np.stack([sample.n_relevant[row].astype(np.int64), place], axis=1))
    first = np.full(int(kind.max(initial=-1)) + 1, len(row))
    np.minimum.at(first, kind, np.arange(len(row)))
    grade: FloatArray = np.zeros(len(row))
    if (weights != weights[first[kind]]).any():
        is_target = targets.gain > 0
        classes = np.zeros(len(targets.gain))
        classes[is_target] = _classes(targets.gain[is_target])
        grade = classes[row]
    return np.concatenate([grade[:, None], weights], axis=1)


def _weights(metric: Metric, targets: GradedTargets, row: IntArray, k: IntArray) -> FloatArray:
    if isinstance(metric, GradedMetric):
        return metric.grade_weights(targets, row, k)
    return counted_weights(metric, targets, row, k)


def _distinct(columns: IntArray) -> tuple[IntArray, IntArray]:
    """Return the distinct rows, sorted, and which of them each row is."""
    if len(columns) == 0:
        return columns, np.zeros(0, dtype=np.int64)
    order = np.lexsort(columns.T[::-1])
    ordered = columns[order]
    is_new = np.concatenate([[True], (ordered[1:] != ordered[:-1]).any(axis=1)])
    which = np.empty(len(columns), dtype=np.int64)
    which[order] = np.cumsum(is_new) - 1
    return ordered[is_new], which


def _binned_sizes(whole: Tally, width: float) -> IntArray:
    """Return n_candidates of each context with nearby values replaced by their mean over rows."""
    size = whole.contexts.n_candidates.copy()
    is_binned = size * width >= 1
    if not whole.design.replacement:
        is_binned &= 2 * whole.contexts.n_negatives <= size
    if not is_binned.any():
        return size
    distinct, which = np.unique(size[is_binned], return_inverse=True)
    weight = np.bincount(whole.context, whole.weight, len(size))[is_binned]
    n_rows = np.rint(np.bincount(which, weight))  # the entries of a row, of one size, sum to 1
    bins = np.floor(np.log(distinct) / np.log1p(width)).astype(np.int64)
    _, bin_of_size = np.unique(bins, return_inverse=True)
    mean = np.bincount(bin_of_size, distinct * n_rows) / np.bincount(bin_of_size, n_rows)
    size[is_binned] = np.rint(mean).astype(np.int64)[bin_of_size][which]
    return size


def _classes(gain: FloatArray) -> FloatArray:
    """Return the least gain of the class of each gain: neighbours share one until there are enough.

    Examples
    --------
    >>> _classes(np.repeat([1.0, 2.0, 3.0], [30, 2, 40])).tolist()[29:33]
    [1.0, 2.0, 2.0, 2.0]
    """
    distinct, which, counts = np.unique(gain, return_inverse=True, return_counts=True)
    enough, total, cuts = max(_CLASS, len(gain) / _MOST_CLASSES), 0, [0]
    for place, count in enumerate(counts.tolist()):
        if total >= enough and counts[place:].sum() >= enough:
            cuts.append(place)
            total = 0
        total += count
    start = np.searchsorted(cuts, np.arange(len(distinct)), side="right") - 1
    least: FloatArray = distinct[np.array(cuts)[start]][which.ravel()]
    return least


_CLASS = 10  # fewest targets of a class of gains
_MOST_CLASSES = 20


def _binned_weights(whole: Tally, weights: FloatArray, width: float) -> FloatArray:
    """Return the weights with nearby values replaced by their mean over rows."""
    rows = np.bincount(whole.context, whole.weight, len(weights))
    binned = weights.copy()
    for column in binned.T:
        bins = np.floor(np.log(np.maximum(column, _LEAST_WEIGHT)) / np.log1p(width)).astype(np.int64)
        _, which = np.unique(bins, return_inverse=True)
        mean = np.bincount(which, column * rows) / np.bincount(which, rows)
        is_one = (
            np.bincount(which, np.abs(column - mean[which])) <= 1e-12 * mean
        )  # a bin of one value keeps it
        column[:] = np.where(is_one[which], column, mean[which])
    return binned


_LEAST_WEIGHT = 1e-300


def _positions(
    sample: SampledRanks, ties: TiePolicy, seed: int
) -> tuple[IntArray, IntArray, IntArray, FloatArray]:
    """Return (row, tied targets before it, tied negatives before it, weight) of each position of a row."""
    n_tied = (sample.n_tied - sample.n_relevant_tied).astype(np.int64)
    n_targets = sample.n_relevant_tied.astype(np.int64) + 1
    rows = np.arange(len(sample))
    if ties == "expected":
        return _all_positions(n_targets, n_tied)
    order = block_order(sample, ties, seed)
    if ties == "best":
        return rows, order, np.zeros_like(rows), np.ones(len(rows))
    if ties == "worst":
        return rows, order, n_tied, np.ones(len(rows))
    return rows, order, random_split(sample, seed, n_targets, order, n_tied), np.ones(len(rows))


def _all_positions(n_targets: IntArray, n_tied: IntArray) -> tuple[IntArray, IntArray, IntArray, FloatArray]:
    untied = np.flatnonzero((n_targets == 1) & (n_tied == 0))
    zeros = np.zeros_like(untied)
    parts = [(untied, zeros, zeros, np.ones(len(untied)))]
    tied = np.flatnonzero((n_targets > 1) | (n_tied > 0))
    blocks, which = _distinct(np.stack([n_targets[tied], n_tied[tied]], axis=1))
    stops = np.cumsum(np.bincount(which, minlength=len(blocks)))
    groups = np.split(tied[np.argsort(which, kind="stable")], stops[:-1]) if len(blocks) else []
    for (targets, negatives), rows in zip(blocks, groups, strict=True):
        table = block_weights(int(targets), int(negatives))
        k, j = np.divmod(np.arange(table.size), negatives + 1)
        parts.append(
            (
                np.repeat(rows, table.size),
                np.tile(k, len(rows)),
                np.tile(j, len(rows)),
                np.tile(table.ravel(), len(rows)),
            )
        )
    row, k, j, weight = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(row, kind="stable")
    return row[order], k[order], j[order], weight[order]
