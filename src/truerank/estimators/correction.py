"""What the least-squares corrections share: a prior, normal equations, and results kept for reuse."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, cast

import numpy as np

from truerank.core.blas import single_threaded_blas
from truerank.core.errors import InvalidParameter
from truerank.core.estimator import Estimator, check_uniform
from truerank.core.metric import Metric
from truerank.core.spec import Spec
from truerank.core.tally import Contexts, Tally
from truerank.core.types import FloatArray, IntArray
from truerank.estimators.law import Law, make_law
from truerank.estimators.memory import Memory
from truerank.estimators.normal import NormalEquations
from truerank.estimators.prior import Prior, Uniform

_EQUATIONS: Memory[NormalEquations] = Memory(1 << 27)
_VALUES: Memory[FloatArray] = Memory(1 << 26)
_LEAST = 1e-300  # sampled ranks that the prior gives less are left out of the equations


@dataclass(frozen=True)
class Correction(Estimator):
    """A correction that is best, in some sense, for ranks that follow a prior.

    Parameters
    ----------
    prior : which global ranks matter how much
    """

    prior: Spec | Prior = field(default_factory=Uniform)
    is_linear: ClassVar[bool] = True

    def __post_init__(self) -> None:
        from truerank.estimators.registry import PRIORS

        prior = PRIORS.make(self.prior)
        if not isinstance(prior, Prior):
            raise InvalidParameter(
                f"prior must be a prior or a spec such as uniform or beta(a=0.5), got {prior!r}."
            )
        object.__setattr__(self, "prior", prior)

    @abstractmethod
    def solve(self, equations: NormalEquations, moments: FloatArray) -> FloatArray:
        """Return x from A'DA and the columns of A'Db, (m + 1, n_columns)."""

    def corrected(self, tally: Tally, metrics: Sequence[Metric]) -> FloatArray:
        """Return the corrected value of each metric in each cell, (n_cells, n_metrics)."""
        self._check(tally)
        values = np.empty((tally.n_cells, len(metrics)))
        with single_threaded_blas():
            for law, rows in _laws(tally):
                cells = tally.offsets[rows][:, None] + np.arange(law.n_negatives + 1)
                contexts = tally.contexts.take(rows)
                for column, found in enumerate(self._values(law, contexts, metrics)):
                    values[cells, column] = found
        return values

    def weights(self, tally: Tally) -> list[FloatArray]:
        """Return, per context, signed weights over J = 0..L irrelevant items above the target."""
        if not self.is_linear:
            return super().weights(tally)
        self._check(tally)
        result: list[FloatArray] = [np.zeros(0)] * len(tally.contexts)
        for law, rows in _laws(tally):
            equations = self.equations(law)
            counts = np.stack([tally.counts(int(row)) for row in rows], axis=1) / tally.n_users
            with single_threaded_blas():
                dual = self.solve_dual(equations, counts)
            for row, column in zip(rows, dual.T, strict=True):
                result[int(row)] = equations.spread(column)
        return result

    def solve_dual(self, equations: NormalEquations, counts: FloatArray) -> FloatArray:
        """Return z such that counts . x = z . A'Db for every metric; the matrix is symmetric."""
        return self.solve(equations, counts)

    def equations(self, law: Law) -> NormalEquations:
        """Return the normal equations of a law, computed once."""
        prior = cast(Prior, self.prior)
        size = law.n_candidates + 1
        key = (law, law.replacement, prior.fingerprint())
        return _EQUATIONS.get(key, lambda: NormalEquations(law, prior.weights(size)))

    def _check(self, tally: Tally) -> None:
        check_uniform(self, tally)
        if len(tally.contexts):
            cast(Prior, self.prior).check_size(int(tally.contexts.n_candidates.max()) + 1)

    def _values(self, law: Law, contexts: Contexts, metrics: Sequence[Metric]) -> list[FloatArray]:
        """Return x of each metric, each (n_contexts, m + 1), solving only for what is not yet known."""
        method = (self, cast(Prior, self.prior).fingerprint(), law.replacement)
        columns = list(_columns(contexts))
        found = {}
        missing: list[tuple[Metric, IntArray]] = []
        for metric in metrics:
            held = [_VALUES.find((method, metric, column)) for column in columns]
            found[metric] = held
            absent = [place for place, value in enumerate(held) if value is None]
            if absent:
                missing.append((metric, np.array(absent)))
        if missing:
            equations = self.equations(law)
            moments = [equations.moment(metric, contexts.take(rows)) for metric, rows in missing]
            solved = iter(np.ascontiguousarray(self.solve(equations, np.concatenate(moments, axis=1)).T))
            for metric, rows in missing:
                for row in rows:
                    value = next(solved).copy()
                    found[metric][row] = value
                    _VALUES.put((method, metric, columns[row]), value)
        return [np.array(found[metric]) for metric in metrics]


def _laws(tally: Tally) -> list[tuple[Law, IntArray]]:
    replacement = tally.design.replacement
    return [(make_law(size, m, replacement=replacement), rows) for m, size, rows in tally.contexts.laws()]


def _columns(contexts: Contexts) -> zip[tuple[int, ...]]:
    return zip(
        contexts.n_negatives.tolist(),
        contexts.n_candidates.tolist(),
        contexts.n_relevant_above.tolist(),
        contexts.n_relevant.tolist(),
        contexts.n_pool.tolist(),
        strict=True,
    )


@dataclass(frozen=True, eq=False)
class Scaled:
    """Normal equations in units where the marginal is 1: eigenvalues lie in [0, 1].

    Sampled ranks that cannot occur under the prior are left out; they take the value of the nearest one that
    can.

    Parameters
    ----------
    root : (n_kept,) square roots of the marginal
    kept : (n_kept,) the j that can occur
    nearest : (m + 1,) for each j the position in ``kept`` whose value it takes
    """

    root: FloatArray
    kept: IntArray
    nearest: IntArray

    @classmethod
    def of(cls, equations: NormalEquations) -> Scaled:
        """Find the sampled ranks that can occur."""
        marginal = equations.marginal
        kept = np.flatnonzero(marginal >= _LEAST)
        j = np.arange(len(marginal))
        right = np.clip(np.searchsorted(kept, j), 0, len(kept) - 1)
        left = np.maximum(right - 1, 0)
        is_left = np.abs(kept[left] - j) < np.abs(kept[right] - j)
        return cls(np.sqrt(marginal[kept]), kept, np.where(is_left, left, right))

    def matrix(self, equations: NormalEquations) -> FloatArray:
        """Return A'DA in these units."""
        gram = equations.gram
        if len(self.kept) < len(gram):
            gram = gram[np.ix_(self.kept, self.kept)]
        scaled: FloatArray = gram / self.root[:, None]
        scaled /= self.root
        return scaled

    def enter(self, moments: FloatArray) -> FloatArray:
        """Return the right-hand sides in these units."""
        return moments[self.kept] / self.root[:, None]

    def leave(self, solution: FloatArray) -> FloatArray:
        """Return the solution in the original units, for all j."""
        return (solution / self.root[:, None])[self.nearest]

    def gather(self, counts: FloatArray) -> FloatArray:
        """Return counts over all j as right-hand sides of the dual: what ``leave`` copies is added up."""
        total = np.zeros((len(self.kept), counts.shape[1]))
        np.add.at(total, self.nearest, counts)
        return total / self.root[:, None]

    def scatter(self, solution: FloatArray) -> FloatArray:
        """Return the solution of the dual for all j: 0 for those left out."""
        full = np.zeros((len(self.nearest), solution.shape[1]))
        full[self.kept] = solution / self.root[:, None]
        return full
