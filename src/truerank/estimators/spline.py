"""Smooth log-densities over ranks: a coordinate, a basis and a measure of roughness."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.interpolate import BSpline
from scipy.special import betainc

from truerank.core.types import FloatArray
from truerank.estimators.grid import Grid

#: Exponent of the coordinate at both ends of the list, see ``coordinate``.
POWER = 0.2
#: Pieces of the splines. Twice as many change nothing that can be seen, see docs/smooth.md.
PIECES = 30
#: Standard deviation, before anything is seen, of the rise of the log-density over the whole list.
TREND = 20.0
_DEGREE = 3


@dataclass(frozen=True, eq=False)
class Basis:
    """Splines over the bins of a grid, and how rough a combination of them is.

    Parameters
    ----------
    values : (n_bins, n_splines) at the middle of each bin; rows sum to 1
    roughness : (n_splines, n_splines) the integral of the squared second derivative as a quadratic form
    fixed : (n_splines, n_splines) precision that does not depend on the penalty: of the trend, and of the
        constant, which no data can tell and which is therefore set to 0
    """

    values: FloatArray
    roughness: FloatArray
    fixed: FloatArray

    @property
    def n_splines(self) -> int:
        """The number of splines."""
        return int(self.values.shape[1])


def coordinate(share: FloatArray) -> FloatArray:
    r"""Return :math:`z = I_t(1/5, 1/5)`, the regularised incomplete beta function of shares t = R/N.

    A penalty on second derivatives continues what it sees as a straight line, so the coordinate decides what
    happens at ranks that the sample cannot resolve. As the exponent goes to 0, z becomes log(t / (1 - t)):
    straight lines are power laws, whose slope in log-rank never ends. At 1/2 it is the arcsine, the scale on
    which sampled ranks have constant variance: straight lines become flat at the top, as with EM from the
    uniform distribution. Between the two, the slope in log-rank fades as the fifth root of the rank.

    Examples
    --------
    >>> coordinate(np.array([0.0, 0.5, 1.0])).round(12).tolist()
    [0.0, 0.5, 1.0]
    """
    z: FloatArray = betainc(POWER, POWER, share)
    return z


def make_basis(grid: Grid) -> Basis:
    """Return the splines of a grid.

    Examples
    --------
    >>> basis = make_basis(Grid(np.arange(11)))
    >>> line = np.linspace(0, 1, basis.n_splines)
    >>> bool(abs(line @ basis.roughness @ line) < 1e-6), basis.values.shape
    (True, (10, 33))
    """
    middle = (grid.edges[:-1] + grid.edges[1:]) / (2 * grid.n_ranks)
    knots = np.arange(-_DEGREE, PIECES + _DEGREE + 1) / PIECES
    values = BSpline.design_matrix(coordinate(middle), knots, _DEGREE).toarray()
    n = values.shape[1]
    second = np.diff(np.eye(n), n=2, axis=0)
    line = np.arange(n) - (n - 1) / 2
    rise = line / (line @ line) * PIECES  # of the straight line in the coefficients, over the whole list
    return Basis(
        values,
        roughness=second.T @ second * float(PIECES) ** 3,
        fixed=np.outer(rise, rise) / TREND**2 + np.full((n, n), 1.0 / n**2),
    )
