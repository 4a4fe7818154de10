"""Popularity negatives: items are sampled in proportion to their train counts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from truerank.core.errors import InvalidData, InvalidParameter, check_at_least
from truerank.core.random import shift_bits
from truerank.core.ranks import Design
from truerank.core.split import Split
from truerank.core.types import BoolArray, IntArray, frozen
from truerank.ranking import negatives as sampler
from truerank.ranking.negatives import (
    Negatives,
    RandomSampler,
    Rows,
    sample_by_rejection,
    sample_with_replacement,
    sample_without_replacement,
    weighted_proposal,
)

# Rejection sampling is used where at least one proposal in this many is accepted, even for the last item.
MOST_PROPOSALS = 16
# Other powers than 1 are rounded to integer weights that add up to about this.
TOTAL_WEIGHT = 2**52


@dataclass(frozen=True)
class PopularitySampler(RandomSampler):
    r"""Samples of m items per user, in proportion to a power of the number of train events.

    Common in sequential recommendation, but the sampled rank then depends on which items stand above the
    target and not only on how many: estimators of global metrics do not accept such samples.

    .. math:: P(i) \propto \mathrm{count}(i)^{\mathrm{power}}

    Parameters
    ----------
    power : 1 samples in proportion to train events, 0 uniformly among the items of train

    Notes
    -----
    Without replacement items are sampled successively, each in proportion among those left. Weights are
    integers: exact for power 1, otherwise rounded to one part in 2^52 of the sum, but at least 1.
    Items without train events are no candidates.

    Examples
    --------
    >>> str(PopularitySampler(m=10, power=0.75))
    'popularity(m=10, power=0.75)'
    """

    power: float = 1.0

    key: ClassVar[str] = "popularity"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least("power", self.power, 0)
        if self.power > 16:
            raise InvalidParameter(f"power must be at most 16, got {self.power}. Use for example 1 or 0.75.")

    def weights(self, split: Split) -> IntArray:
        """Return the integer weight of each item."""
        counts = split.train.item_counts().astype(np.int64)
        if not counts.any():
            raise InvalidData(f"{self} must find events in the train part, it has none. Use uniform.")
        if self.power == 1:
            return counts
        raw = np.where(counts > 0, (counts / counts.max()) ** self.power, 0.0)
        return np.where(counts > 0, np.maximum(1, np.rint(raw * (TOTAL_WEIGHT / raw.sum()))), 0).astype(
            np.int64
        )

    def negatives(self, split: Split, rows: Rows) -> Negatives:
        """Return the negatives."""
        drawn = _WeightedNegatives(self, rows, self.weights(split))
        self.check_sizes(rows, drawn.n_candidates, "unseen items with train events that are not targets")
        return drawn


@dataclass(frozen=True, eq=False)
class _WeightedNegatives:
    sampler: PopularitySampler
    rows: Rows
    weights: IntArray

    @property
    def design(self) -> Design:
        return Design("popularity", replacement=self.sampler.replace, shared=self.sampler.shared)

    @cached_property
    def sizes(self) -> IntArray:
        return np.full(len(self.rows), self.sampler.m, np.int64)

    @cached_property
    def n_candidates(self) -> IntArray:
        has_weight = (self.weights > 0).astype(np.int64)
        free: IntArray = (has_weight.sum() - self._blocked_sums(has_weight))[self.rows.owner]
        return free

    @cached_property
    def cumulated(self) -> IntArray:
        return frozen(np.cumsum(self.weights))

    @cached_property
    def is_crowded(self) -> BoolArray:
        """Rows for which too many proposals could be rejected."""
        total = int(self.cumulated[-1])
        remaining = total - self._blocked_sums(self.weights)[self.rows.owner]
        if not self.sampler.replace:
            remaining = remaining - np.sort(self.weights)[-self.sampler.m :].sum()
        return frozen(remaining < total / MOST_PROPOSALS)

    @cached_property
    def guide(self) -> tuple[IntArray, int]:
        """First item to search from, for each range of 2^bits points of the cumulative weight."""
        total = int(self.cumulated[-1])
        bits = max(0, shift_bits(total) - shift_bits(4 * len(self.weights)))
        points = np.arange((total - 1 >> bits) + 1) << bits
        return frozen(np.searchsorted(self.cumulated, points, side="right")), bits

    @cached_property
    def lists(self) -> tuple[IntArray, IntArray, IntArray, IntArray]:
        return self.rows.lists()

    def sample(self, start: int, stop: int) -> IntArray:
        m = self.sampler.m
        out = np.empty((stop - start) * m, np.int32)
        in_numpy = np.ones(stop - start, np.bool_)
        if len(self.rows) * m >= sampler.SMALL_SAMPLES:
            from truerank.ranking.cpu.sampling_compiled import sample_weighted

            in_numpy = self.is_crowded[start:stop]
            guide, bits = self.guide
            sample_weighted(
                start,
                stop,
                m,
                self.sampler.replace,
                self.cumulated,
                guide,
                shift_bits(int(self.cumulated[-1])),
                bits,
                self.rows.state,
                self.rows.owner,
                self.is_crowded,
                *self.lists,
                out,
            )
        for row in np.flatnonzero(in_numpy):
            out[row * m : (row + 1) * m] = self._sample_row(start + int(row))
        return out

    def _sample_row(self, row: int) -> IntArray:
        m, replace, state = self.sampler.m, self.sampler.replace, self.rows.state[row]
        if not self.is_crowded[row]:
            return sample_by_rejection(
                state,
                weighted_proposal(self.cumulated),
                m,
                replacement=replace,
                blocked=self.rows.blocked(row),
                n_items=self.rows.n_items,
            )
        candidates = self.rows.candidates(row)
        candidates = candidates[self.weights[candidates] > 0]
        weights = self.weights[candidates]
        if replace:
            return sample_with_replacement(state, weighted_proposal(np.cumsum(weights)), m, candidates)
        return sample_without_replacement(state, m, candidates, weights.astype(np.float64))

    def _blocked_sums(self, values: IntArray) -> IntArray:
        """Return the sum of the values of the blocked items, per query."""
        sums = np.zeros(len(self.rows.queries), np.int64)
        for lists in (self.rows.queries.targets, self.rows.queries.excluded):
            running = np.concatenate([[0], np.cumsum(values[lists.items])])
            sums += np.diff(running[lists.indptr])
        return sums
