"""Several samples of one experiment at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from truerank.core.errors import InvalidData
from truerank.core.metric import Metric
from truerank.core.tally import Contexts, Tally
from truerank.core.types import FloatArray, IntArray, frozen
from truerank.estimators.normal import NormalEquations, gain_at


def are_alike(tallies: Sequence[Tally]) -> bool:
    """Whether samples are of equally many targets and drawn in the same way.

    Raises
    ------
    InvalidData
        When there is no run, or one has no rows.
    """
    if not tallies or any(tally.n_users == 0 for tally in tallies):
        raise InvalidData("an estimate needs at least one user, got none.")
    return len({(tally.design, tally.ties, tally.n_users, tally.n_rows) for tally in tallies}) == 1


def union_of(tallies: Sequence[Tally]) -> tuple[Tally, list[IntArray]]:
    """Return a tally with the contexts and the entries of all runs, and where each run's cells are in it.

    It has as many rows as one run: what a correction depends on is that of one run.
    """
    columns = [_columns(tally.contexts) for tally in tallies]
    distinct, which = np.unique(np.concatenate(columns), axis=0, return_inverse=True)
    contexts = Contexts(*(frozen(np.ascontiguousarray(column)) for column in distinct.T))
    first = np.concatenate([[0], np.cumsum(contexts.n_negatives + 1)])
    ends = np.cumsum([len(part) for part in columns])
    cells: list[IntArray] = [
        np.repeat(first[place] - tally.offsets[:-1], tally.contexts.n_negatives + 1)
        + np.arange(tally.n_cells)
        for place, tally in zip(np.split(which.ravel(), ends[:-1]), tallies, strict=True)
    ]
    all_cells = [cell[tally.cell] for cell, tally in zip(cells, tallies, strict=True)]
    union = Tally(
        contexts=contexts,
        user=frozen(np.concatenate([tally.user for tally in tallies])),
        cell=frozen(np.concatenate(all_cells)),
        weight=frozen(np.concatenate([tally.weight for tally in tallies])),
        n_users=tallies[0].n_users,
        n_rows=tallies[0].n_rows,
        design=tallies[0].design,
        ties=tallies[0].ties,
        width=tallies[0].width,
    )
    return union, cells


class Gains:
    """Gains of metrics, computed once per pool and number of targets.

    Parameters
    ----------
    metrics : what is measured
    """

    def __init__(self, metrics: Sequence[Metric]) -> None:
        self.metrics = metrics
        self._held: dict[tuple[int, ...], list[tuple[FloatArray, float]]] = {}

    def of(self, contexts: Contexts, row: int) -> list[tuple[FloatArray, float]]:
        """Return, per metric, what ranks within the cut-off have more than those beyond, and those' gain."""
        key = tuple(int(column[row]) for column in _columns(contexts).T[1:])
        if key not in self._held:
            one, size = contexts.take(np.array([row])), key[0] + 1
            self._held[key] = [_split_gain(metric, one, size) for metric in self.metrics]
        return self._held[key]

    def value(self, equations: NormalEquations, dual: FloatArray, contexts: Contexts) -> FloatArray:
        """Return the sums over contexts of weights D A z times gains, (n_metrics,).

        Only rows within the largest cut-off are gone through; the sum of all weights is z . c.
        """
        total = np.zeros(len(self.metrics))
        sums = equations.marginal @ dual
        gains = [self.of(contexts, row) for row in range(len(contexts))]
        longest = max((len(head) for one in gains for head, _ in one), default=0)
        weights = equations.head(dual, longest)
        for column, one in enumerate(gains):
            total += [weights[: len(head), column] @ head + tail * sums[column] for head, tail in one]
        return total


def _split_gain(metric: Metric, context: Contexts, size: int) -> tuple[FloatArray, float]:
    """Return what ranks within the cut-off have more than those beyond, and what those have."""
    head = size if metric.cutoff is None else min(size, metric.cutoff)
    tail = float(gain_at(metric, np.array([head]), context)[0, 0]) if head < size else 0.0
    return gain_at(metric, np.arange(head), context)[0] - tail, tail


def _columns(contexts: Contexts) -> IntArray:
    return np.stack(
        [
            contexts.n_negatives,
            contexts.n_candidates,
            contexts.n_relevant_above,
            contexts.n_relevant,
            contexts.n_pool,
        ],
        axis=1,
    )
