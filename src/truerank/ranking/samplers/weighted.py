"""Base class of samplers that take items in proportion to weights of their own."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np

from truerank.core.errors import InvalidData
from truerank.core.random import shift_bits
from truerank.core.ranks import Design
from truerank.core.split import Split
from truerank.core.types import BoolArray, FloatArray, IntArray, frozen
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
# Weights that are not integers are rounded to integers that add up to about this.
TOTAL_WEIGHT = 2**52


@dataclass(frozen=True)
class WeightedSampler(RandomSampler):
    """Base class of samplers of m items per user in proportion to weights; a subclass defines ``weights``.

    The rank among such negatives depends on which items stand above the target and not only on how many, so
    estimators of global metrics do not accept them; ``naive`` reports the sampled metric.

    Notes
    -----
    Without replacement items are sampled successively, each in proportion among those left. Weights that are
    integers are used as they are, others are rounded to one part in 2^52 of their sum, but to at least 1.
    """

    law: ClassVar[Literal["popularity", "weighted"]] = "weighted"
    candidates: ClassVar[str] = "unseen items with a weight above 0 that are not targets"

    @abstractmethod
    def weights(self, split: Split) -> IntArray | FloatArray:
        """Return the weight of each item, (n_items,), at least 0; items of weight 0 are no candidates."""

    def negatives(self, split: Split, rows: Rows) -> Negatives:
        """Return the negatives."""
        weights = self._checked(self.weights(split), split.train.n_items)
        sampled = _WeightedNegatives(self, rows, weights)
        self.check_sizes(rows, sampled.n_candidates, self.candidates)
        return sampled

    def _checked(self, weights: Any, n_items: int) -> IntArray:
        array = np.asarray(weights)
        if array.shape != (n_items,) or array.dtype.kind not in "iuf":
            raise InvalidData(
                f"weights of '{self}' must be one number for each of the {n_items:,} items, got "
                f"{array.dtype} of shape {array.shape}. Correct them."
            )
        if not (np.isfinite(array).all() and array.min() >= 0 and array.max() > 0):
            raise InvalidData(
                f"weights of '{self}' must be finite, at least 0, and not all 0, got {array.min():g} to "
                f"{array.max():g}. Correct them."
            )
        return array.astype(np.int64) if array.dtype.kind in "iu" else integer_weights(array)


def integer_weights(weights: FloatArray) -> IntArray:
    """Return weights >= 0 as integers in proportion to them; only a weight of 0 becomes 0.

    Examples
    --------
    >>> integers = integer_weights(np.array([0.0, 0.5, 1.5]))
    >>> int(integers[0]), int(integers[2]) == 3 * int(integers[1])
    (0, True)
    """
    scaled = np.maximum(1, np.rint(weights * (TOTAL_WEIGHT / weights.sum())))
    return np.where(weights > 0, scaled, 0).astype(np.int64)


@dataclass(frozen=True, eq=False)
class _WeightedNegatives:
    sampler: WeightedSampler
    rows: Rows
    weights: IntArray

    @property
    def design(self) -> Design:
        return Design(self.sampler.law, replacement=self.sampler.replace, shared=self.sampler.shared)

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
