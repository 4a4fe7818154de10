"""What the least-squares corrections share: a prior, normal equations, and results kept for reuse."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self, TypeAlias, cast

import numpy as np

from truerank.core.blas import single_threaded_blas
from truerank.core.distribution import RankDistribution
from truerank.core.estimator import Estimator, check_uniform
from truerank.core.metric import Metric
from truerank.core.spec import Spec
from truerank.core.tally import Contexts, Tally
from truerank.core.types import FloatArray, IntArray
from truerank.estimators.adaptive_law import AdaptiveLaw
from truerank.estimators.fitted import Fitted, make_prior
from truerank.estimators.law import Law
from truerank.estimators.memory import Memory
from truerank.estimators.normal import NormalEquations, make_equations
from truerank.estimators.outcome import check_outcomes, outcome_laws
from truerank.estimators.prior import Prior, Uniform
from truerank.estimators.runs import Gains, are_alike, union_of

_EQUATIONS: Memory[NormalEquations] = Memory(1 << 27)
_VALUES: Memory[FloatArray] = Memory(1 << 26)
Wanted: TypeAlias = list[tuple[Metric, Contexts]]


@dataclass(frozen=True)
class Correction(Estimator):
    """A correction that is best, in some sense, for ranks that follow a prior.

    Treats samples of fixed size and adaptive ones; those have a corrected value for each pair of a sample
    size and a sampled rank, and the normal equations are the same.

    Parameters
    ----------
    prior : which global ranks matter how much; an estimator of a rank distribution, such as ``mle``, is
        fitted to each sample first
    """

    prior: Spec | Prior = field(default_factory=Uniform)
    is_linear: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "prior", make_prior(self.prior))

    @abstractmethod
    def solve(self, equations: NormalEquations, moments: FloatArray) -> FloatArray:
        """Return x from A'DA and the columns of A'Db, (n_outcomes, n_columns)."""

    def solve_metrics(self, equations: NormalEquations, wanted: Wanted) -> FloatArray:
        """Return x of each metric in each of its contexts, (n_outcomes, n_columns)."""
        moments = [equations.moment(metric, contexts) for metric, contexts in wanted]
        return self.solve(equations, np.concatenate(moments, axis=1))

    def solve_dual(self, equations: NormalEquations, counts: FloatArray) -> FloatArray:
        """Return z such that counts . x = z . A'Db for every metric; the matrix is symmetric."""
        return self.solve(equations, counts)

    def resolve(self, tally: Tally) -> Self:
        """Return the correction for a sample: nothing in it is left to be fitted."""
        prior = cast(Prior, self.prior).resolve(tally)
        return self if prior is self.prior else replace(self, prior=prior)

    def corrected(self, tally: Tally, metrics: Sequence[Metric]) -> FloatArray:
        """Return the corrected value of each metric in each cell, (n_cells, n_metrics)."""
        self._check(tally)
        fixed = self.resolve(tally)
        values = np.empty((tally.n_cells, len(metrics)))
        with single_threaded_blas():
            for law, rows in outcome_laws(tally):
                contexts, which = _situations(tally.contexts.take(rows), law)
                places = {int(m): _places(law, int(m)) for m in np.unique(tally.contexts.n_negatives[rows])}
                found = np.stack(fixed._values(law, contexts, metrics), axis=-1)
                for row, situation in zip(rows.tolist(), which.tolist(), strict=True):
                    cells = slice(tally.offsets[row], tally.offsets[row + 1])
                    values[cells] = found[situation, places[int(tally.contexts.n_negatives[row])]]
        return values

    def weights(self, tally: Tally) -> list[FloatArray]:
        """Return, per context, signed weights over J = 0..L irrelevant items above the target."""
        if not self.is_linear:
            return super().weights(tally)
        self._check(tally)
        fixed = self.resolve(tally)
        result: list[FloatArray] = [np.zeros(0)] * len(tally.contexts)
        for law, rows in outcome_laws(tally):
            equations, dual = fixed._dual(tally, law, rows, np.arange(len(rows)))
            for row, column in zip(rows, dual.T, strict=True):
                result[int(row)] = equations.spread(column)
        return result

    def distribution(self, tally: Tally) -> RankDistribution:
        """Return the weights as a signed distribution over global ranks 1..N.

        Samples of several sizes from one pool, such as adaptive ones, have one distribution.

        Raises
        ------
        CannotEstimate
            When pools or numbers of targets differ, so that there is no single list of ranks.
        """
        contexts = tally.contexts
        lists = np.stack([contexts.n_candidates, contexts.n_relevant_above, contexts.n_pool])
        if len(np.unique(lists, axis=1).T) != 1:
            return super().distribution(tally)
        full = np.zeros(int(contexts.n_pool[0]))
        for weights in self.weights(tally):
            full[contexts.n_relevant_above[0] :][: len(weights)] += weights
        return RankDistribution(full / full.sum(), method=str(self), signed=True)

    def estimate_runs(self, tallies: Sequence[Tally], metrics: Sequence[Metric]) -> FloatArray:
        """Return the estimate of each metric in each of several samples, (n_runs, n_metrics).

        With a prior that does not depend on the sample, x is computed once for all runs. Otherwise priors are
        fitted together, and each run takes one solution for all metrics, its weights over ranks.
        """
        prior = self.prior
        if not are_alike(tallies):
            return super().estimate_runs(tallies, metrics)
        if not isinstance(prior, Fitted):
            union, cells = union_of(tallies)
            shared = self.corrected(union, metrics)
            return np.stack(
                [
                    tally.cell_weights @ shared[cell] / tally.n_users
                    for tally, cell in zip(tallies, cells, strict=True)
                ]
            )
        for tally in tallies:
            self._check(tally)
        priors = prior.resolve_runs(tallies)
        each = [replace(self, prior=one).resolve(tally) for one, tally in zip(priors, tallies, strict=True)]
        if not self.is_linear:
            return np.stack(
                [one.estimate(tally, metrics).value for one, tally in zip(each, tallies, strict=True)]
            )
        gains = Gains(metrics)
        return np.stack([one._by_weights(tally, gains) for one, tally in zip(each, tallies, strict=True)])

    def _by_weights(self, tally: Tally, gains: Gains) -> FloatArray:
        """Return the estimates from weights over ranks: one right-hand side serves all metrics."""
        total = np.zeros(len(gains.metrics))
        for law, rows in outcome_laws(tally):
            contexts, which = _situations(tally.contexts.take(rows), law)
            equations, dual = self._dual(tally, law, rows, which)
            total += gains.value(equations, dual, contexts)
        return total

    def _dual(
        self, tally: Tally, law: Law | AdaptiveLaw, rows: IntArray, which: IntArray
    ) -> tuple[NormalEquations, FloatArray]:
        """Return the equations of a law and the duals of the counts, those of equal ``which`` added up."""
        equations = self.equations(law)
        counts = np.zeros((len(equations.locations), int(which.max()) + 1))
        for row, column in zip(rows.tolist(), which.tolist(), strict=True):
            place = _places(law, int(tally.contexts.n_negatives[row]))
            np.add.at(counts[:, column], place, tally.counts(row) / tally.n_users)
        with single_threaded_blas():
            return equations, self.solve_dual(equations, counts)

    def equations(self, law: Law | AdaptiveLaw, prior: Prior | None = None) -> NormalEquations:
        """Return the normal equations of a law, computed once."""
        chosen = cast(Prior, self.prior) if prior is None else prior
        key = (law, law.replacement, chosen.fingerprint())
        return _EQUATIONS.get(key, lambda: make_equations(law, chosen.weights(law.n_candidates + 1)))

    def _check(self, tally: Tally) -> None:
        check_uniform(self, tally)
        check_outcomes(tally)
        if len(tally.contexts):
            cast(Prior, self.prior).check_size(int(tally.contexts.n_candidates.max()) + 1)

    def _values(
        self, law: Law | AdaptiveLaw, contexts: Contexts, metrics: Sequence[Metric]
    ) -> list[FloatArray]:
        """Return x of each metric, each (n_contexts, n_outcomes), solving only for what is not yet known."""
        method = (self, cast(Prior, self.prior).fingerprint(), law, law.replacement)
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
            wanted = [(metric, contexts.take(rows)) for metric, rows in missing]
            solution = self.solve_metrics(self.equations(law), wanted)
            solved = iter(np.ascontiguousarray(solution.T))
            for metric, rows in missing:
                for row in rows:
                    value = next(solved).copy()
                    found[metric][row] = value
                    _VALUES.put((method, metric, columns[row]), value)
        return [np.array(found[metric]) for metric in metrics]


def _situations(contexts: Contexts, law: Law | AdaptiveLaw) -> tuple[Contexts, IntArray]:
    """Return the contexts that differ in more than the size of the sample, and which of them each is."""
    if not isinstance(law, AdaptiveLaw):
        return contexts, np.arange(len(contexts))
    columns = np.stack([contexts.n_relevant_above, contexts.n_relevant, contexts.n_pool], axis=1)
    _, first, which = np.unique(columns, axis=0, return_index=True, return_inverse=True)
    return contexts.take(first), which.ravel()


def _places(law: Law | AdaptiveLaw, size: int) -> IntArray:
    """Return the outcome of j = 0..m sampled items above the target."""
    return law.places(size) if isinstance(law, AdaptiveLaw) else np.arange(size + 1)


def _columns(contexts: Contexts) -> zip[tuple[int, ...]]:
    return zip(
        contexts.n_candidates.tolist(),
        contexts.n_relevant_above.tolist(),
        contexts.n_relevant.tolist(),
        contexts.n_pool.tolist(),
        strict=True,
    )
