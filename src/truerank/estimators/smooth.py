"""Smooth: a rank distribution as rough as the data ask for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from truerank.core.blas import single_threaded_blas
from truerank.core.errors import InvalidParameter
from truerank.core.source import Source
from truerank.core.tally import Tally
from truerank.core.threads import available_threads, ordered_map
from truerank.estimators.counted import CountedMixture
from truerank.estimators.em import log_likelihood
from truerank.estimators.grouped import grouped
from truerank.estimators.likelihood import Likelihood
from truerank.estimators.mixture import Fit
from truerank.estimators.penalised import Curve, Problem, smooth_curve
from truerank.estimators.spline import make_basis


@dataclass(frozen=True)
class Smooth(CountedMixture):
    r"""Distribution of global ranks with a smooth logarithm; how smooth is told by the sampled ranks.

    The estimator to start with when a whole distribution, or a metric with a small cut-off, is wanted from a
    fixed or adaptive sample. It says nothing about ranks that the sample cannot resolve but that they
    continue what is seen; where ranks have gaps or jumps at the top it is too smooth. Tens of milliseconds.

    .. math:: \max_f \; \sum_u \log \sum_R \pi_R P(r_u \mid R) - \frac{\tau}{2} \int f''(z)^2 \, dz,
              \qquad \log \pi_R = f(z(R/N)) - c

    Parameters
    ----------
    grid : width of the bins of ranks in standard deviations of the sampled rank; 0 keeps every rank apart
    penalty : tau; none takes the value with the largest marginal likelihood

    Notes
    -----
    f is a cubic spline with penalised second differences over the coordinate z of ``estimators/spline.py``,
    in the manner of the g-modelling of [efron2016]_. The marginal likelihood is Laplace's approximation with
    the Fisher information, times a wide prior of the penalty. It settles how much the curve bends where the
    sample sees it; how the curve goes on below rank N/n is settled by the coordinate alone. docs/smooth.md
    says how both were judged.

    Diagnostics: ``penalty``, ``degrees_of_freedom``, ``log_likelihood`` (mean per target), ``log_marginal``
    (comparable between penalties on one sample), ``gap`` (what a further step promises in log-likelihood),
    ``iterations``.

    Examples
    --------
    >>> Smooth()
    Smooth(grid=0.1, penalty=None)
    """

    penalty: float | None = None
    key: ClassVar[str] = "smooth"
    source: ClassVar[Source] = Source("efron2016")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.penalty is not None and not 1e-8 <= self.penalty <= 1e4:
            raise InvalidParameter(
                f"penalty must lie between 1e-8 and 1e4, got {self.penalty!r}. Straight lines have 100, "
                f"usual curves 0.001 to 0.01."
            )

    def fit_runs(self, likelihood: Likelihood, tallies: Sequence[Tally]) -> Fit:
        """Return masses for each run; a run has the same alone and among others."""
        basis = make_basis(likelihood.grid)
        widths = np.diff(likelihood.grid.edges).astype(np.float64)

        def solve(run: int) -> Curve:
            matrix, shares = grouped(likelihood, run)
            return smooth_curve(
                Problem(matrix, shares, float(tallies[run].n_rows), widths, basis), self.penalty
            )

        with single_threaded_blas():
            runs = range(likelihood.n_runs)
            curves = list(ordered_map(solve, runs, n_threads=available_threads()))
        masses = np.stack([curve.masses for curve in curves])
        heights = log_likelihood(likelihood.matrix, likelihood.shares, masses)
        return Fit(
            masses,
            [
                {
                    "penalty": curve.penalty,
                    "degrees_of_freedom": curve.freedom,
                    "log_likelihood": float(height),
                    "log_marginal": curve.log_marginal,
                    "gap": curve.gain,
                    "iterations": float(curve.iterations),
                }
                for curve, height in zip(curves, heights, strict=True)
            ],
        )
