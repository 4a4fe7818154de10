"""Metrics from fitted masses: the mean gain under them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from truerank.core.blas import single_threaded_blas
from truerank.core.metric import Metric
from truerank.core.tally import Contexts, Tally
from truerank.core.types import FloatArray, IntArray
from truerank.estimators.gains import bin_gains
from truerank.estimators.likelihood import Likelihood

_CHUNK = 1 << 22  # mean gains held at once: 32 MB
_MASSES = 1 << 25  # masses of kinds held at once: 256 MB


def plug_in(
    likelihood: Likelihood, masses: FloatArray, tallies: Sequence[Tally], metrics: Sequence[Metric]
) -> FloatArray:
    """Return the mean over users of each metric in each run, (n_runs, n_metrics).

    Gains depend on pool and targets, not on the sample: those of runs and sample sizes that have a situation
    in common are formed once.
    """
    situations = Situations.of(tallies)
    n_bins, n_kinds = likelihood.grid.n_bins, int(situations.kind[-1]) + 1
    block = max(_MASSES // (n_kinds * n_bins), 1)
    values = np.zeros((len(tallies), len(metrics)))
    for first in range(0, len(tallies), block):
        runs = range(first, min(first + block, len(tallies)))
        of_kind = np.stack(
            [
                _kind_masses(
                    likelihood, masses[run], run, tallies[run], situations.context_kind(run), n_kinds
                )
                for run in runs
            ]
        )
        step = max(_CHUNK // (max(len(runs), len(metrics)) * n_bins), 1)
        for start in range(0, len(situations.kind), step):
            part = np.arange(start, min(start + step, len(situations.kind)))
            contexts = situations.contexts.take(part)
            weight = situations.shares[runs.start : runs.stop, part, None] * of_kind[:, situations.kind[part]]
            gains = np.stack([bin_gains(metric, contexts, likelihood.grid) for metric in metrics])
            with single_threaded_blas():
                values[runs.start : runs.stop] += (
                    weight.reshape(len(runs), -1) @ gains.reshape(len(metrics), -1).T
                )
    return values


def kind_masses(
    likelihood: Likelihood, masses: FloatArray, run: int, tally: Tally
) -> tuple[FloatArray, IntArray]:
    """Return the masses of each kind of target, (n_kinds, n_bins), and the kind of each context.

    A kind is a pair (targets of the user, targets above this one). If there are several, each has the common
    masses after one EM step on its own rows.
    """
    kind = Situations.of([tally]).context_kind(0)
    return _kind_masses(likelihood, masses, run, tally, kind, int(kind.max()) + 1), kind


@dataclass(frozen=True, eq=False)
class Situations:
    """What a gain depends on besides the rank: contexts of all runs without the sizes of samples.

    Parameters
    ----------
    contexts : the distinct ones, sorted by kind; their ``n_negatives`` mean nothing
    kind : (n_situations,) ascending
    shares : (n_runs, n_situations) targets in each situation / users
    members : per run, the situation of each context
    """

    contexts: Contexts
    kind: IntArray
    shares: FloatArray
    members: tuple[IntArray, ...]

    @classmethod
    def of(cls, tallies: Sequence[Tally]) -> Situations:
        """Find them."""
        columns = np.concatenate([_columns(tally.contexts) for tally in tallies])
        distinct, which = np.unique(columns, axis=0, return_inverse=True)
        members = np.split(which.ravel(), np.cumsum([len(tally.contexts) for tally in tallies])[:-1])
        relevant, above, size, pool = (np.ascontiguousarray(column) for column in distinct.T)
        is_new = (np.diff(relevant) != 0) | (np.diff(above) != 0)
        shares = np.stack(
            [
                np.bincount(of, np.add.reduceat(tally.cell_weights, tally.offsets[:-1]), len(distinct))
                / tally.n_users
                for of, tally in zip(members, tallies, strict=True)
            ]
        )
        return cls(
            Contexts(np.zeros_like(size), size, above, relevant, pool),
            np.concatenate([[0], np.cumsum(is_new)]),
            shares,
            tuple(members),
        )

    def context_kind(self, run: int) -> IntArray:
        """Return the kind of each context of a run."""
        return self.kind[self.members[run]]


def _columns(contexts: Contexts) -> IntArray:
    return np.stack(
        [contexts.n_relevant, contexts.n_relevant_above, contexts.n_candidates, contexts.n_pool], axis=1
    )


def _kind_masses(
    likelihood: Likelihood, masses: FloatArray, run: int, tally: Tally, kind: IntArray, n_kinds: int
) -> FloatArray:
    if (kind == kind[0]).all():
        return np.broadcast_to(masses, (n_kinds, len(masses)))
    from scipy.sparse import csr_matrix

    seen = np.flatnonzero(tally.cell_weights > 0)
    rows = np.repeat(kind, tally.contexts.n_negatives + 1)[seen]
    weight = tally.cell_weights[seen]
    total = np.bincount(rows, weight, n_kinds)
    shape = (n_kinds, len(likelihood.matrix))
    shares = csr_matrix((weight / total[rows], (rows, likelihood.cells[run][seen])), shape=shape)
    updated: FloatArray = shares @ likelihood.posterior(masses)
    return updated
