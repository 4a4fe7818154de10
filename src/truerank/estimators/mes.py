"""MES: the most even rank distribution that comes close to the sampled ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from scipy.special import entr

from truerank.core.blas import single_threaded_blas
from truerank.core.check import check_above, check_choice
from truerank.core.errors import InvalidParameter
from truerank.core.source import Source
from truerank.core.tally import Tally
from truerank.core.threads import available_threads, ordered_map
from truerank.core.types import FloatArray, IntArray
from truerank.estimators.adaptive_law import AdaptiveLaw
from truerank.estimators.counted import CountedMixture
from truerank.estimators.design import stopping_of
from truerank.estimators.em import log_likelihood
from truerank.estimators.entropy import Distance, Divergence, Solution, Squared, minimise
from truerank.estimators.likelihood import Likelihood
from truerank.estimators.mixture import Fit


@dataclass(frozen=True)
class MaximalEntropy(CountedMixture):
    r"""Distribution of global ranks that trades its distance from the sampled ones for entropy.

    Where the sample says nothing the ranks stay equally probable. The result depends on eta as that of EM
    does on its iterations, but it is the minimum of a stated objective, and the duality gap is reported.

    .. math:: \min_\pi \sum_o w_o (q_o - p_o)^2 - \eta H(\pi), \qquad q_o = \sum_b \pi_b P(o \mid b), \quad
              H(\pi) = -\sum_R \pi_R \log \pi_R

    Parameters
    ----------
    grid : width of the bins of ranks in standard deviations of the sampled rank; 0 keeps every rank apart.
        The entropy is that of the single ranks.
    eta : weight of the entropy; none is 0.001 for n up to 100 and 0.01 from n = 500 on, n = m + 1, and grows
        as a power of n in between
    weight : w is ``n-shares``, n p; ``shares``, p; or ``one``. Outcomes that nobody has weigh nothing.
    distance : ``squared`` as above, or ``likelihood``, minus the sum of p log q, which has no weights

    Notes
    -----
    Objective and defaults follow the authors' notebooks, not the text of [li2023]_, which gives 0.001 only.
    Where samples differ in size, n is their mean size over targets. An outcome is then a pair (m, j) and q
    its whole probability, the share of the size or the chance that sampling stopped there included; pools of
    several sizes are put together by R/N. Adaptive samples have more outcomes with smaller shares, which
    weakens the distance against the entropy: take a smaller eta than the rule's. On the scale of
    ``distance=likelihood`` eta is another number too.

    Diagnostics: ``eta``, ``entropy``, ``log_likelihood`` (mean per target), ``gap`` (what the objective may
    lie above its minimum, at most), ``iterations`` of Newton's method.

    Examples
    --------
    >>> MaximalEntropy(eta=0.01)
    MaximalEntropy(grid=0.1, eta=0.01, weight='n-shares', distance='squared')
    """

    eta: float | None = None
    weight: Literal["n-shares", "shares", "one"] = "n-shares"
    distance: Literal["squared", "likelihood"] = "squared"
    key: ClassVar[str] = "mes"
    source: ClassVar[Source] = Source("jin2021")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("weight", self.weight, ("n-shares", "shares", "one"))
        check_choice("distance", self.distance, ("squared", "likelihood"))
        if self.eta is not None:
            check_above("eta", self.eta, 0)
        if self.distance == "likelihood" and self.weight != type(self).weight:
            raise InvalidParameter(
                f"distance=likelihood has no weights, got weight={self.weight}. Leave out one of the two."
            )

    def fit_runs(self, likelihood: Likelihood, tallies: Sequence[Tally]) -> Fit:
        """Return masses for each run."""
        widths = np.diff(likelihood.grid.edges).astype(np.float64)
        sizes = likelihood.shares @ (likelihood.n_negatives + 1)
        etas = [self.eta if self.eta is not None else default_eta(n) for n in sizes]

        def solve(run: int) -> Solution:
            matrix, shares = whole_outcomes(likelihood, run, tallies[run])
            return minimise(matrix, widths, self._distance(shares, sizes[run]), etas[run])

        with single_threaded_blas():
            runs = range(likelihood.n_runs)
            solved = list(ordered_map(solve, runs, n_threads=available_threads()))
        masses = np.stack([one.masses for one in solved])
        heights = log_likelihood(likelihood.matrix, likelihood.shares, masses)
        return Fit(
            masses,
            [
                {
                    "eta": eta,
                    "entropy": float(entr(one.masses / widths) @ widths),
                    "log_likelihood": float(height),
                    "gap": one.gap,
                    "iterations": float(one.iterations),
                }
                for eta, one, height in zip(etas, solved, heights, strict=True)
            ],
        )

    def _distance(self, p: FloatArray, n: float) -> Distance:
        if self.distance == "likelihood":
            return Divergence(p)
        w = {"n-shares": n * p, "shares": p, "one": np.ones_like(p)}[self.weight]
        return Squared(p, w)


def whole_outcomes(likelihood: Likelihood, run: int, tally: Tally) -> tuple[FloatArray, FloatArray]:
    """Return the probability given each bin, (n, n_bins), and the share, (n,), of each pair (m, j) of a run.

    P(j | m, bin) is the mean over pools, weighted by the rows they have with that j. It is multiplied with
    the share of rows of size m; where the size is a result, in adaptive samples, with the chance that
    sampling stopped there, given that j of m stand above the target.
    """
    seen = np.flatnonzero(likelihood.shares[run] > 0)
    p, m, j = likelihood.shares[run, seen], likelihood.n_negatives[seen], likelihood.n_above[seen]
    rule = stopping_of(tally)
    if rule is None:
        chance = _share_of_equal(m, p)
    else:
        chance = np.zeros(len(seen))
        for pool in np.unique(likelihood.n_candidates[seen]):
            rows = np.flatnonzero(likelihood.n_candidates[seen] == pool)
            law = AdaptiveLaw(int(pool), rule, tally.design.replacement)
            chance[rows] = stop_chances(law, m[rows], j[rows])
    order = np.lexsort((j, m))
    starts = np.flatnonzero((np.diff(m[order], prepend=-1) != 0) | (np.diff(j[order], prepend=-1) != 0))
    shares: FloatArray = np.add.reduceat(p[order], starts)
    rows = likelihood.matrix[seen[order]] * (p * chance)[order][:, None]
    return np.add.reduceat(rows, starts, axis=0) / shares[:, None], shares


def _share_of_equal(m: IntArray, p: FloatArray) -> FloatArray:
    """Return the share of rows that have the same m as each outcome."""
    _, which = np.unique(m, return_inverse=True)
    share: FloatArray = np.bincount(which, weights=p)[which].astype(np.float64)
    return share


def stop_chances(law: AdaptiveLaw, m: IntArray, j: IntArray) -> FloatArray:
    """Return the chance that sampling stops at m, given that j of m stand above the target."""
    result = np.zeros(len(m))
    for reached, size in zip(law.rounds, law.sizes, strict=True):
        rows = np.flatnonzero(m == size)
        place = np.clip(j[rows] - reached.first, 0, max(len(reached.factor) - 1, 0))
        result[rows] = reached.factor[place] if len(reached.factor) else 0.0
    return result


def default_eta(n: float) -> float:
    """Return the weight of the entropy for samples of n items, the target among them.

    Examples
    --------
    >>> default_eta(50), default_eta(100), round(default_eta(250), 5), default_eta(500), default_eta(3200)
    (0.001, 0.001, 0.00371, 0.01, 0.01)
    """
    share = np.clip(np.log(n / 100) / np.log(5), 0.0, 1.0)
    return float(0.001 * 10.0**share)
