"""Uniform negatives: every candidate is equally likely."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from truerank.core.plugin import Source
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
    uniform_proposal,
)

# Rejection sampling is used where at least one proposal in this many is accepted, even for the last item.
MOST_PROPOSALS = 4


def least_free(n_items: int) -> int:
    """Return how many items must be free for that.

    Examples
    --------
    >>> least_free(10)
    3
    """
    return -(-n_items // MOST_PROPOSALS)


@dataclass(frozen=True)
class UniformSampler(RandomSampler):
    """Uniform samples of m items per user, none of them seen or a target.

    Estimators assume such samples: given its global rank, the sampled rank of a target is hypergeometric, or
    binomial with ``replace=true``. Time is about that of reading the vectors of the sampled items.

    Notes
    -----
    Without replacement every subset of m candidates is equally likely. The sample for a larger m begins with
    that for a smaller one, unless m is most of the candidates.

    Examples
    --------
    >>> str(UniformSampler(m=10, replace=True))
    'uniform(m=10, replace=true)'
    """

    key: ClassVar[str] = "uniform"
    source: ClassVar[Source | None] = Source("krichene2020", "Sec. 4")

    def negatives(self, split: Split, rows: Rows) -> Negatives:
        """Return the negatives."""
        self.check_sizes(rows, rows.n_free, "unseen items that are not targets")
        return _UniformNegatives(self, rows)


@dataclass(frozen=True, eq=False)
class _UniformNegatives:
    sampler: UniformSampler
    rows: Rows

    @property
    def design(self) -> Design:
        return Design("uniform", replacement=self.sampler.replace, shared=self.sampler.shared)

    @cached_property
    def sizes(self) -> IntArray:
        return np.full(len(self.rows), self.sampler.m, np.int64)

    @property
    def n_candidates(self) -> IntArray:
        return self.rows.n_free

    @cached_property
    def is_crowded(self) -> BoolArray:
        """Rows for which too many proposals would be rejected."""
        last = self.rows.n_free - (0 if self.sampler.replace else self.sampler.m)
        return frozen(last < least_free(self.rows.n_items))

    @cached_property
    def lists(self) -> tuple[IntArray, IntArray, IntArray, IntArray]:
        return self.rows.lists()

    def sample(self, start: int, stop: int) -> IntArray:
        m, n_items = self.sampler.m, self.rows.n_items
        out = np.empty((stop - start) * m, np.int32)
        in_numpy = np.ones(stop - start, np.bool_)
        if len(self.rows) * m >= sampler.SMALL_SAMPLES:
            from truerank.ranking.cpu.sampling_compiled import sample_uniform

            in_numpy = self.is_crowded[start:stop]
            sample_uniform(
                start,
                stop,
                m,
                n_items,
                self.sampler.replace,
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
            n_items = self.rows.n_items
            return sample_by_rejection(
                state,
                uniform_proposal(n_items),
                m,
                replacement=replace,
                blocked=self.rows.blocked(row),
                n_items=n_items,
            )
        candidates = self.rows.candidates(row)
        if replace:
            return sample_with_replacement(state, uniform_proposal(len(candidates)), m, candidates)
        return sample_without_replacement(state, m, candidates)
