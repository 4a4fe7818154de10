"""Every outcome a sample can have, not only those that were seen."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from truerank.core.types import FloatArray, IntArray, frozen
from truerank.estimation.adaptive_law import AdaptiveLaw, outcome_laws, stopping_of
from truerank.estimation.distribution.likelihood import RankGrid, bin_law
from truerank.estimation.law import NEGLIGIBLE, Law
from truerank.estimation.tally import Contexts, Tally


@dataclass(frozen=True, eq=False)
class Outcomes:
    """A law, and the cells that its outcomes are in each situation.

    Parameters
    ----------
    law : of samples of fixed size, or adaptive
    cells : (n_situations, n_outcomes) of a completed tally
    contexts : (n_situations,) a context of each situation; they differ in the size of the sample at most
    """

    law: Law
    cells: IntArray
    contexts: IntArray

    @property
    def order(self) -> IntArray:
        """The outcomes from best to worst."""
        return self.law.best_to_worst

    def probabilities(self, grid: RankGrid) -> FloatArray:
        """Return P(outcome | bin), (n_bins, n_outcomes); rows sum to 1."""
        parts = []
        for one in self.law.rounds:
            part = bin_law(one.law, grid, one.first + np.arange(len(one.factor)), floor=NEGLIGIBLE)
            part *= one.factor
            parts.append(part)
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)


def completed(tally: Tally) -> Tally:
    """Return the tally with a context for every size that an adaptive sample can have.

    Cells of sizes that nobody stopped at are empty; the entries are the same. A sample of fixed size is
    returned as it is.
    """
    rule = stopping_of(tally)
    if rule is None:
        return tally
    columns, size = _situations(tally.contexts), tally.contexts.n_candidates
    distinct, which = np.unique(columns, axis=0, return_inverse=True)
    sizes = {
        int(n): np.array(AdaptiveLaw(int(n), rule, tally.design.replacement).sizes) for n in np.unique(size)
    }
    each = [sizes[int(row[0])] for row in distinct]
    first = np.concatenate([[0], np.cumsum([len(one) for one in each])])
    repeated = np.repeat(distinct, np.diff(first), axis=0)
    parts = (np.concatenate(each), *(np.ascontiguousarray(column) for column in repeated.T))
    contexts = Contexts(*(frozen(part) for part in parts))
    place = np.array(
        [
            first[situation] + np.searchsorted(each[situation], m)
            for situation, m in zip(which.ravel(), tally.contexts.n_negatives, strict=True)
        ]
    )
    offsets = np.concatenate([[0], np.cumsum(contexts.n_negatives + 1)])
    cell = tally.cell + (offsets[place] - tally.offsets[:-1])[tally.context]
    return replace(tally, contexts=contexts, cell=frozen(cell))


def outcomes_of(tally: Tally) -> list[Outcomes]:
    """Return the laws of a completed tally with the cells of their outcomes."""
    found = []
    for law, rows in outcome_laws(tally):
        n_sizes = len(law.sizes)
        first = tally.offsets[rows].reshape(-1, n_sizes)  # sizes of a situation lie together, ascending
        round_of = np.searchsorted(law.sizes, law.outcome_sizes)
        found.append(Outcomes(law, first[:, round_of] + law.outcome_above, rows[::n_sizes]))
    return found


def n_possible(tally: Tally) -> int:
    """Return how many outcomes samples can have, all sizes of pools together; completed or not."""
    return sum(law.n_outcomes for law, _ in outcome_laws(tally))


def _situations(contexts: Contexts) -> IntArray:
    return np.stack(
        [contexts.n_candidates, contexts.n_relevant_above, contexts.n_relevant, contexts.n_pool], axis=1
    )
