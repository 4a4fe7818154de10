"""MLE: the rank distribution under which the sampled ranks are most likely, or on the way to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from truerank.core.blas import single_threaded_blas
from truerank.core.check import check_choice
from truerank.core.errors import InvalidParameter
from truerank.core.source import Source
from truerank.core.threads import available_threads, ordered_map
from truerank.core.types import FloatArray
from truerank.estimators.em import em, gap, log_likelihood
from truerank.estimators.likelihood import Likelihood
from truerank.estimators.mixture import Fit, MixtureEstimator


@dataclass(frozen=True)
class MaximumLikelihood(MixtureEstimator):
    r"""Distribution of global ranks by EM from the uniform one, or the exact non-parametric maximum.

    Where EM stops is part of the estimator. The maximum itself has a few atoms and says little about the
    first ranks; a hundred steps from the uniform distribution have not got there and are closer to the truth.
    Nothing converges by default, and the distance to the maximum is among the diagnostics. A step costs
    O(n_outcomes n_bins), whatever the numbers of users and ranks.

    .. math:: \max_\pi \sum_o p_o \log \sum_b \pi_b P(o \mid b)

    Parameters
    ----------
    grid : width of the bins of ranks in standard deviations of the sampled rank; 0 keeps every rank apart
    iterations : steps of EM; the papers take 100 for samples of fixed size and 50 for adaptive ones
    solver : ``em``, or ``exact`` for the maximum, which takes no ``iterations``

    Notes
    -----
    Samples of any sizes are treated alike, adaptive ones too: that the size depended on earlier draws
    multiplies the likelihood by a factor without the rank in it. Diagnostics: ``iterations``,
    ``log_likelihood`` (mean per target) and ``gap``, a bound on what the optimum has more.

    Examples
    --------
    >>> MaximumLikelihood(iterations=50)
    MaximumLikelihood(grid=0.1, iterations=50, solver='em')
    """

    iterations: int = 100
    solver: Literal["em", "exact"] = "em"
    key: ClassVar[str] = "mle"
    source: ClassVar[Source] = Source("jin2021")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("solver", self.solver, ("em", "exact"))
        if isinstance(self.iterations, bool) or self.iterations < 1:
            raise InvalidParameter(f"iterations must be an integer >= 1, got {self.iterations!r}. Use 100.")
        if self.solver == "exact" and self.iterations != type(self).iterations:
            raise InvalidParameter(
                f"solver=exact runs to the optimum and takes no iterations, got {self.iterations}. "
                f"Leave out one of the two."
            )

    def fit(self, likelihood: Likelihood) -> Fit:
        """Return masses for each run."""
        matrix, shares = likelihood.matrix, likelihood.shares
        with single_threaded_blas():
            if self.solver == "exact":
                masses, steps = maximise_runs(matrix, shares)
            else:
                start = np.broadcast_to(likelihood.grid.even, (len(shares), likelihood.grid.n_bins))
                masses = em(matrix, shares, start, self.iterations)
                steps = [self.iterations] * len(shares)
            figures = zip(
                steps, log_likelihood(matrix, shares, masses), gap(matrix, shares, masses), strict=True
            )
        return Fit(
            masses,
            [
                {"iterations": float(count), "log_likelihood": float(value), "gap": float(bound)}
                for count, value, bound in figures
            ],
        )


def maximise_runs(matrix: FloatArray, shares: FloatArray) -> tuple[FloatArray, list[int]]:
    """Return the masses of the largest likelihood of each run, and the Newton steps."""
    from truerank.estimators.npmle import maximise

    found = list(ordered_map(lambda p: maximise(matrix, p), list(shares), n_threads=available_threads()))
    return np.stack([one.masses for one in found]), [one.iterations for one in found]
