"""Influence function of estimators that fit a rank distribution.

The derivative of the estimate in the weight of each cell, that is of each sampled rank in its context, by the
chain rule: from the weight of a cell to the fit (``MixtureEstimator.sensitivity``), from the fit to the
masses of each kind of target, and from these to the mean gain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from truerank.core.errors import CannotEstimate
from truerank.core.parallel import single_threaded_blas
from truerank.core.types import FloatArray, IntArray
from truerank.estimation.distribution.base import (
    NEVER,
    MixtureEstimator,
    TargetContexts,
    bin_gains,
    em_slope,
    kind_masses,
    mean_under,
)
from truerank.estimation.distribution.likelihood import Likelihood, bin_law
from truerank.estimation.law import make_law
from truerank.estimation.tally import Tally
from truerank.metrics.base import Metric

_CHUNK = 1 << 21  # probabilities or gains in memory at once: 16 MB


def influence(
    estimator: MixtureEstimator, tally: Tally, metrics: Sequence[Metric], cells: IntArray | None = None
) -> FloatArray:
    r"""Return corrected values of the linearised estimate, its influence function, (n_cells, n_metrics).

    With weights w of the cells, n users and an estimate :math:`\hat\theta(w)`, which divides by n,

    .. math:: x_c = n \, \partial \hat\theta / \partial w_c, \qquad
              \hat\theta(w + \delta) = \hat\theta(w) + \frac1n \sum_c \delta_c x_c + O(\delta^2)

    A fit depends on fractions, so :math:`\hat\theta(cw) = c\,\hat\theta(w)` and the mean over users of x is
    the estimate, as with linear estimators. Empty cells have the derivative in a weight that starts at 0.
    Memory does not grow with cells times bins.

    Parameters
    ----------
    estimator : one with a derivative: ``mle`` by EM, ``smooth``, ``mes`` or ``beta-binomial``
    tally : the sample; it may have empty contexts
    metrics : what is measured
    cells : empty cells for which values are wanted; all unless given. Those of other empty cells are 0.

    Raises
    ------
    CannotEstimate
        When the fit has no derivative; the message says why.

    Notes
    -----
    Three things depend on a weight: the fraction of targets in its situation, the EM step of its kind of
    target (see ``kind_masses``), and the common fit (``Sensitivity``). What the estimator takes from the
    whole sample besides fractions is held fixed: the number of targets, against which ``smooth`` weighs its
    penalty. The exact maximum of ``mle`` has a few atoms that jump from bin to bin; derivatives with these
    bins fixed would give a tenth to a third of its spread.
    """
    if not estimator.has_influence:
        raise CannotEstimate(
            f"the fit of '{estimator}' moves in jumps, and has no derivative. Use bootstrap."
        )
    likelihood, fit = estimator.fit_tallies([tally])
    masses = fit.masses[0]
    with single_threaded_blas():
        chain = _Chain.of(likelihood, masses, tally, metrics)
        sensitivity = estimator.sensitivity(likelihood, fit, tally, chain.slope())
        is_needed = tally.cell_weights > 0
        is_needed[slice(None) if cells is None else cells] = True
        by_fit, by_kind = np.zeros((2, tally.n_cells, len(metrics)))
        for m, size, rows in tally.contexts.laws():
            law = make_law(size, m, replacement=tally.design.replacement)
            first = tally.offsets[rows]
            needed = is_needed[first[:, None] + np.arange(m + 1)]
            wanted = np.flatnonzero(needed.any(axis=0))
            step = max(_CHUNK // likelihood.grid.n_bins, 1)
            for start in range(0, len(wanted), step):
                j = wanted[start : start + step]
                probabilities = np.ascontiguousarray(bin_law(law, likelihood.grid, j, floor=NEVER).T)
                slopes = sensitivity.at(probabilities, m, size, j)
                for context, start_cell, is_here in zip(rows, first, needed[:, j], strict=True):
                    cell = start_cell + j[is_here]
                    by_fit[cell] = slopes[is_here]
                    if chain.n_kinds > 1:
                        by_kind[cell] = chain.step_of(probabilities[is_here], int(context))
    by_fit -= tally.cell_weights @ by_fit / tally.n_rows
    values: FloatArray = by_kind + by_fit * (tally.n_users / tally.n_rows) + chain.direct
    values[~is_needed] = 0.0
    return values


@dataclass(frozen=True, eq=False)
class _Chain:
    """The part of the chain rule from the common masses to the estimate: kinds, situations, gains.

    Parameters
    ----------
    likelihood, masses, tally : the common fit
    kind : (n_contexts,) of each context
    of_kind : (n_kinds, n_bins) masses
    total : (n_kinds,) targets
    gains : (n_kinds, n_bins, n_metrics) sum over situations of fraction times gain: the derivative of the
        estimate in the masses of the kind
    direct : (n_cells, n_metrics) mean gain in the situation of the cell
    """

    likelihood: Likelihood
    masses: FloatArray
    tally: Tally
    kind: IntArray
    of_kind: FloatArray
    total: FloatArray
    gains: FloatArray
    direct: FloatArray

    @classmethod
    def of(
        cls, likelihood: Likelihood, masses: FloatArray, tally: Tally, metrics: Sequence[Metric]
    ) -> _Chain:
        """Compute gains and their means over all situations."""
        of_kind, kind = kind_masses(likelihood, masses, 0, tally)
        situations, grid = TargetContexts.of([tally]), likelihood.grid
        n_kinds, n_situations = len(of_kind), len(situations.kind)
        gains = np.zeros((n_kinds, grid.n_bins, len(metrics)))
        means = np.empty((n_situations, len(metrics)))
        step = max(_CHUNK // (len(metrics) * grid.n_bins), 1)
        for start in range(0, n_situations, step):
            part = np.arange(start, min(start + step, n_situations))
            contexts, kinds = situations.contexts.take(part), situations.kind[part]
            here = np.stack([bin_gains(metric, contexts, grid) for metric in metrics], axis=2)
            means[part] = np.einsum("sb,sbk->sk", of_kind[kinds], here)
            np.add.at(gains, kinds, here * situations.fractions[0, part, None, None])
        rows = tally.context_weights
        total = np.bincount(kind, rows, n_kinds).astype(np.float64)
        direct = np.repeat(means[situations.members[0]], tally.contexts.n_negatives + 1, axis=0)
        return cls(likelihood, masses, tally, kind, of_kind, total, gains, direct)

    @property
    def n_kinds(self) -> int:
        """How many kinds of targets there are."""
        return len(self.of_kind)

    def slope(self) -> FloatArray:
        """Return the derivatives of the estimates in the common masses, (n_bins, n_metrics)."""
        if self.n_kinds == 1:
            only: FloatArray = self.gains[0]
            return only
        seen = np.flatnonzero(self.tally.cell_weights > 0)
        kind = np.repeat(self.kind, self.tally.contexts.n_negatives + 1)[seen]
        outcome, weight = self.likelihood.cells[0][seen], self.tally.cell_weights[seen]
        slope = np.zeros(self.gains.shape[1:])
        for number in range(self.n_kinds):
            rows = kind == number
            used, which = np.unique(outcome[rows], return_inverse=True)
            fractions = np.bincount(which.ravel(), weight[rows]) / self.total[number]
            slope += em_slope(self.likelihood.matrix[used], fractions, self.masses, self.gains[number])
        return slope

    def step_of(self, probabilities: FloatArray, context: int) -> FloatArray:
        """Return n_users times the derivatives through the EM step of the kind, (n_rows, n_metrics)."""
        kind = self.kind[context]
        gains = self.gains[kind]
        moved = mean_under(probabilities, self.masses, gains) - self.of_kind[kind] @ gains
        slopes: FloatArray = moved * (self.tally.n_users / self.total[kind])
        return slopes
