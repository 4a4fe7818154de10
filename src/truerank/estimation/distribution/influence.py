"""How an estimate from a fitted rank distribution answers to the weight of each cell."""

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

_CHUNK = 1 << 21  # probabilities or gains held at once: 16 MB


def influence(
    estimator: MixtureEstimator, tally: Tally, metrics: Sequence[Metric], cells: IntArray | None = None
) -> FloatArray:
    r"""Return corrected values to which a fitted estimate is linear in first order, (n_cells, n_metrics).

    With weights w of the cells, n users and an estimate :math:`\hat\theta(w)`, which divides by n,

    .. math:: x_c = n \, \partial \hat\theta / \partial w_c, \qquad
              \hat\theta(w + \delta) = \hat\theta(w) + \frac1n \sum_c \delta_c x_c + O(\delta^2)

    A fit depends on shares, so :math:`\hat\theta(cw) = c\,\hat\theta(w)` and the mean over users of x is the
    estimate, as with linear estimators. Cells that nobody is in have the derivative of a weight that begins
    at 0. Nothing is formed for all cells and bins at once.

    Parameters
    ----------
    estimator : ``mle`` by EM, ``smooth``, ``mes`` or ``beta-binomial``
    tally : the sample; contexts that nobody is in may be among its own
    metrics : what is measured
    cells : where values are wanted besides those in use; None: everywhere. Others are 0.

    Raises
    ------
    CannotEstimate
        When the fit has no derivative; the sentence says why.

    Notes
    -----
    Three things depend on a weight: the share of its situation, the EM step of its kind of target (see
    ``kind_masses``), and the common fit (``Sensitivity``). What the estimator takes from the whole sample
    beside shares is held: the number of targets that ``smooth`` weighs its penalty against. The exact maximum
    of ``mle`` has a few atoms that jump from bin to bin; on the bins it has, derivatives say a tenth to a
    third of its spread.
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
        is_asked = tally.cell_weights > 0
        is_asked[slice(None) if cells is None else cells] = True
        common, own = np.zeros((2, tally.n_cells, len(metrics)))
        for m, size, rows in tally.contexts.laws():
            law = make_law(size, m, replacement=tally.design.replacement)
            first = tally.offsets[rows]
            asked = is_asked[first[:, None] + np.arange(m + 1)]
            wanted = np.flatnonzero(asked.any(axis=0))
            step = max(_CHUNK // likelihood.grid.n_bins, 1)
            for start in range(0, len(wanted), step):
                j = wanted[start : start + step]
                chances = np.ascontiguousarray(bin_law(law, likelihood.grid, j, floor=NEVER).T)
                found = sensitivity.at(chances, m, size, j)
                for context, place, is_own in zip(rows, first, asked[:, j], strict=True):
                    common[place + j[is_own]] = found[is_own]
                    if chain.n_kinds > 1:
                        own[place + j[is_own]] = chain.step_of(chances[is_own], int(context))
    common -= tally.cell_weights @ common / tally.n_rows
    values: FloatArray = own + common * (tally.n_users / tally.n_rows) + chain.direct
    values[~is_asked] = 0.0
    return values


@dataclass(frozen=True, eq=False)
class _Chain:
    """From the common masses to the estimate: kinds of targets, situations, gains.

    Parameters
    ----------
    likelihood, masses, tally : the common fit
    kind : (n_contexts,) of each context
    of_kind : (n_kinds, n_bins) masses
    total : (n_kinds,) targets
    gains : (n_kinds, n_bins, n_metrics) sum over situations of share and gain: the slope of the estimate in
        the masses of the kind
    direct : (n_cells, n_metrics) mean gain of the cell's situation
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
        """Go through the situations once."""
        of_kind, kind = kind_masses(likelihood, masses, 0, tally)
        situations, grid = TargetContexts.of([tally]), likelihood.grid
        n_kinds, n_situations = len(of_kind), len(situations.kind)
        gains = np.zeros((n_kinds, grid.n_bins, len(metrics)))
        means = np.empty((n_situations, len(metrics)))
        step = max(_CHUNK // (len(metrics) * grid.n_bins), 1)
        for start in range(0, n_situations, step):
            part = np.arange(start, min(start + step, n_situations))
            contexts, own = situations.contexts.take(part), situations.kind[part]
            here = np.stack([bin_gains(metric, contexts, grid) for metric in metrics], axis=2)
            means[part] = np.einsum("sb,sbk->sk", of_kind[own], here)
            np.add.at(gains, own, here * situations.shares[0, part, None, None])
        rows = np.add.reduceat(tally.cell_weights, tally.offsets[:-1])
        total = np.bincount(kind, rows, n_kinds).astype(np.float64)
        direct = np.repeat(means[situations.members[0]], tally.contexts.n_negatives + 1, axis=0)
        return cls(likelihood, masses, tally, kind, of_kind, total, gains, direct)

    @property
    def n_kinds(self) -> int:
        """How many kinds of targets there are."""
        return len(self.of_kind)

    def slope(self) -> FloatArray:
        """Return the derivatives of the estimates in the common masses, (n_bins, n_metrics)."""
        found: FloatArray = self.gains[0]
        if self.n_kinds == 1:
            return found
        seen = np.flatnonzero(self.tally.cell_weights > 0)
        kind = np.repeat(self.kind, self.tally.contexts.n_negatives + 1)[seen]
        outcome, weight = self.likelihood.cells[0][seen], self.tally.cell_weights[seen]
        found = np.zeros(self.gains.shape[1:])
        for one in range(self.n_kinds):
            rows = kind == one
            used, which = np.unique(outcome[rows], return_inverse=True)
            shares = np.bincount(which.ravel(), weight[rows]) / self.total[one]
            found += em_slope(self.likelihood.matrix[used], shares, self.masses, self.gains[one])
        return found

    def step_of(self, chances: FloatArray, context: int) -> FloatArray:
        """Return n times the derivatives through the EM step of a context's kind, (n_rows, n_metrics)."""
        kind = self.kind[context]
        gains = self.gains[kind]
        moved = mean_under(chances, self.masses, gains) - self.of_kind[kind] @ gains
        found: FloatArray = moved * (self.tally.n_users / self.total[kind])
        return found
