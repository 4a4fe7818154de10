"""All outcomes that a sampling design can produce, observed or not, as cells of a completed tally."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from truerank.core.types import FloatArray, IntArray, frozen
from truerank.estimation.adaptive_law import AdaptiveLaw, outcome_laws, stopping_of
from truerank.estimation.distribution.likelihood import RankGrid, bin_law
from truerank.estimation.law import NEGLIGIBLE, Law
from truerank.estimation.tally import Contexts, Tally


@dataclass(frozen=True, eq=False)
class PossibleOutcomes:
    """A law of sampled ranks, and the cells of its outcomes in each situation of a target.

    Parameters
    ----------
    law : of samples of fixed size, or adaptive
    cells : (n_situations, n_outcomes) of a completed tally
    contexts : (n_situations,) the first context of each situation; the others differ in the sample size only
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
        for stage in self.law.rounds:
            part = bin_law(stage.law, grid, stage.first + np.arange(len(stage.factor)), floor=NEGLIGIBLE)
            part *= stage.factor
            parts.append(part)
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)


def complete_tally(tally: Tally) -> Tally:
    """Return the tally with a context for every size that an adaptive sample can have.

    Cells of sizes at which no sample stopped are empty; the entries are the same. The tally of a sample of
    fixed size is returned unchanged.
    """
    rule = stopping_of(tally)
    if rule is None:
        return tally
    size = tally.contexts.n_candidates
    distinct, which = np.unique(tally.contexts.columns()[:, 1:], axis=0, return_inverse=True)
    sizes = {
        int(n): np.array(AdaptiveLaw(int(n), rule, tally.design.replacement).sizes) for n in np.unique(size)
    }
    situation_sizes = [sizes[int(row[0])] for row in distinct]
    first = np.concatenate([[0], np.cumsum([len(possible) for possible in situation_sizes])])
    repeated = np.repeat(distinct, np.diff(first), axis=0)
    every = np.concatenate([np.concatenate(situation_sizes)[:, None], repeated], axis=1)
    contexts = Contexts.of_columns(every, tally.contexts.graded, tally.contexts.is_part)
    new_context = np.array(
        [
            first[situation] + np.searchsorted(situation_sizes[situation], m)
            for situation, m in zip(which.ravel(), tally.contexts.n_negatives, strict=True)
        ]
    )
    offsets = np.concatenate([[0], np.cumsum(contexts.n_negatives + 1)])
    cell = tally.cell + (offsets[new_context] - tally.offsets[:-1])[tally.context]
    return replace(tally, contexts=contexts, cell=frozen(cell))


def possible_outcomes(tally: Tally) -> list[PossibleOutcomes]:
    """Return the laws of a completed tally with the cells of their outcomes."""
    every = []
    for law, rows in outcome_laws(tally):
        n_sizes = len(law.sizes)
        first = tally.offsets[rows].reshape(-1, n_sizes)  # sizes of a situation are consecutive, ascending
        round_of = np.searchsorted(law.sizes, law.outcome_sizes)
        every.append(PossibleOutcomes(law, first[:, round_of] + law.outcome_above, rows[::n_sizes]))
    return every


def n_possible_outcomes(tally: Tally) -> int:
    """Return the number of outcomes of the laws of a tally, completed or not."""
    return sum(law.n_outcomes for law, _ in outcome_laws(tally))
