"""Normal equations in units in which they are well conditioned."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from truerank.core.types import FloatArray, IntArray
from truerank.estimators.normal import NormalEquations

_LEAST = 1e-300  # outcomes of a smaller size are left out of the equations


@dataclass(frozen=True, eq=False)
class Scaled:
    """Normal equations in units in which a size of each outcome, such as its marginal, is 1.

    Outcomes of size 0, such as those that cannot occur under the prior, are left out; they take the value of
    one that is not, the one that points nearest to where they point.

    Parameters
    ----------
    root : (n_kept,) square roots of the sizes
    kept : (n_kept,) the outcomes that are not left out
    nearest : (n_outcomes,) for each outcome the position in ``kept`` whose value it takes
    """

    root: FloatArray
    kept: IntArray
    nearest: IntArray

    @classmethod
    def of(cls, equations: NormalEquations) -> Scaled:
        """Scale by the marginal: eigenvalues lie in [0, 1]."""
        return cls.by(equations.marginal, equations.locations)

    @classmethod
    def by(cls, size: FloatArray, at: FloatArray) -> Scaled:
        """Scale by a size of each outcome; ``at`` says where each points."""
        kept = np.flatnonzero(size >= _LEAST)
        order = np.argsort(at[kept], kind="stable")
        known = at[kept][order]
        right = np.clip(np.searchsorted(known, at), 0, len(kept) - 1)
        left = np.maximum(right - 1, 0)
        is_left = np.abs(known[left] - at) < np.abs(known[right] - at)
        nearest = order[np.where(is_left, left, right)]
        nearest[kept] = np.arange(len(kept))
        return cls(np.sqrt(size[kept]), kept, nearest)

    def matrix(self, gram: FloatArray) -> FloatArray:
        """Return A'DA, or another matrix over outcomes, in these units."""
        if len(self.kept) < len(gram):
            gram = gram[np.ix_(self.kept, self.kept)]
        scaled: FloatArray = gram / self.root[:, None]
        scaled /= self.root
        return scaled

    def enter(self, moments: FloatArray) -> FloatArray:
        """Return the right-hand sides in these units."""
        return moments[self.kept] / self.root[:, None]

    def leave(self, solution: FloatArray) -> FloatArray:
        """Return the solution in the original units, for all outcomes."""
        return (solution / self.root[:, None])[self.nearest]

    def gather(self, counts: FloatArray) -> FloatArray:
        """Return counts over outcomes as right-hand sides of the dual: what ``leave`` copies adds up."""
        total = np.zeros((len(self.kept), counts.shape[1]))
        np.add.at(total, self.nearest, counts)
        return total / self.root[:, None]

    def scatter(self, solution: FloatArray) -> FloatArray:
        """Return the solution of the dual for all outcomes: 0 for those left out."""
        full = np.zeros((len(self.nearest), solution.shape[1]))
        full[self.kept] = solution / self.root[:, None]
        return full
