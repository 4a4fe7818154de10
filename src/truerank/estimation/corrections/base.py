"""Base class of corrections by least squares under a prior over global ranks.

A correction replaces the gain at a sampled rank by a value x, such that the expectation of x given the global
rank is close to the gain there. ``solve`` in each subclass says how close and at what variance. Normal
equations and corrected values are cached over models and repeats, and runs of one experiment are corrected
together.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import ClassVar, Generic, Protocol, Self, TypeAlias, TypeVar, cast

import numpy as np

from truerank.core.errors import InvalidData
from truerank.core.parallel import single_threaded_blas
from truerank.core.plugin import Spec
from truerank.core.ranks import RankDistribution
from truerank.core.types import FloatArray, IntArray, frozen
from truerank.estimation.adaptive_law import check_outcomes, outcome_laws
from truerank.estimation.base import Estimator, check_uniform
from truerank.estimation.corrections.equations import NormalEquations, gain_at
from truerank.estimation.corrections.priors import FittedPrior, Prior, UniformPrior, fitted_prior, make_prior
from truerank.estimation.law import Law
from truerank.estimation.tally import Contexts, Tally
from truerank.metrics.base import Metric


def have_same_design(tallies: Sequence[Tally]) -> bool:
    """Whether samples have equally many users and targets and the same design.

    Raises
    ------
    InvalidData
        When there is no run, or one has no rows.
    """
    if not tallies or any(tally.n_users == 0 for tally in tallies):
        raise InvalidData("an estimate needs at least one user, got none.")
    return len({(tally.design, tally.ties, tally.n_users, tally.n_rows) for tally in tallies}) == 1


def merged_tally(tallies: Sequence[Tally]) -> tuple[Tally, list[IntArray]]:
    """Return a tally with the contexts and the entries of all runs, and the cells of each run in it.

    ``n_users`` and ``n_rows`` are those of one run, on which a correction depends.
    """
    columns = [tally.contexts.columns() for tally in tallies]
    distinct, which = np.unique(np.concatenate(columns), axis=0, return_inverse=True)
    like = tallies[0].contexts
    contexts = Contexts.of_columns(distinct, like.graded, like.is_part)
    first = np.concatenate([[0], np.cumsum(contexts.n_negatives + 1)])
    stops = np.cumsum([len(part) for part in columns])
    cells: list[IntArray] = [
        np.repeat(first[context] - tally.offsets[:-1], tally.contexts.n_negatives + 1)
        + np.arange(tally.n_cells)
        for context, tally in zip(np.split(which.ravel(), stops[:-1]), tallies, strict=True)
    ]
    all_cells = [cell[tally.cell] for cell, tally in zip(cells, tallies, strict=True)]
    union = Tally(
        contexts=contexts,
        user=frozen(np.concatenate([tally.user for tally in tallies])),
        cell=frozen(np.concatenate(all_cells)),
        weight=frozen(np.concatenate([tally.weight for tally in tallies])),
        n_users=tallies[0].n_users,
        n_rows=tallies[0].n_rows,
        design=tallies[0].design,
        ties=tallies[0].ties,
        width=tallies[0].width,
    )
    return union, cells


class GainTable:
    """Gains of metrics, computed once per pool and number of targets.

    Parameters
    ----------
    metrics : what is measured
    """

    def __init__(self, metrics: Sequence[Metric]) -> None:
        self.metrics = metrics
        self._kept: dict[tuple[int, ...], list[tuple[FloatArray, float]]] = {}

    def of(self, contexts: Contexts, row: int) -> list[tuple[FloatArray, float]]:
        """Return, per metric, the gains within the cut-off less the gain beyond, and the gain beyond."""
        key = tuple(int(column[row]) for column in contexts.columns().T[1:])
        if key not in self._kept:
            context, size = contexts.take(np.array([row])), key[0] + 1
            self._kept[key] = [_split_gain(metric, context, size) for metric in self.metrics]
        return self._kept[key]

    def value(self, equations: NormalEquations, dual: FloatArray, contexts: Contexts) -> FloatArray:
        """Return the sums over contexts of weights D A z times gains, (n_metrics,).

        Only ranks within the largest cut-off are summed one by one; the sum of all weights is z . c.
        """
        total = np.zeros(len(self.metrics))
        sums = equations.marginal @ dual
        gains = [self.of(contexts, row) for row in range(len(contexts))]
        longest = max((len(head) for parts in gains for head, _ in parts), default=0)
        weights = equations.head(dual, longest)
        for column, parts in enumerate(gains):
            total += [weights[: len(head), column] @ head + tail * sums[column] for head, tail in parts]
        return total


def _split_gain(metric: Metric, context: Contexts, size: int) -> tuple[FloatArray, float]:
    """Return the gains within the cut-off less the gain beyond, and the gain beyond."""
    head = size if metric.cutoff is None else min(size, metric.cutoff)
    tail = float(gain_at(metric, np.array([head]), context)[0, 0]) if head < size else 0.0
    return gain_at(metric, np.arange(head), context)[0] - tail, tail


class Sized(Protocol):
    """An object with a size in memory."""

    @property
    def nbytes(self) -> int:
        """Size in bytes."""


SizedT = TypeVar("SizedT", bound=Sized)


class ResultCache(Generic[SizedT]):
    """Cache of the most recently used results, up to a number of bytes; may be used by several threads.

    Examples
    --------
    >>> import numpy as np
    >>> cache = ResultCache[np.ndarray](max_bytes=80)
    >>> cache.get("a", lambda: np.zeros(10)) is cache.get("a", lambda: np.ones(10))
    True
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._kept: OrderedDict[Hashable, SizedT] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def find(self, key: Hashable) -> SizedT | None:
        """Return the result under a key, or None."""
        with self._lock:
            value = self._kept.get(key)
            if value is not None:
                self._kept.move_to_end(key)
            return value

    def put(self, key: Hashable, value: SizedT) -> None:
        """Keep a value; the least recently used ones are dropped when there are too many bytes."""
        with self._lock:
            old = self._kept.pop(key, None)
            self._bytes += value.nbytes - (old.nbytes if old is not None else 0)
            self._kept[key] = value
            while self._bytes > self.max_bytes and self._kept:
                _, dropped = self._kept.popitem(last=False)
                self._bytes -= dropped.nbytes

    def get(self, key: Hashable, make: Callable[[], SizedT]) -> SizedT:
        """Return the result under a key; compute it where it is missing."""
        value = self.find(key)
        if value is None:
            value = make()
            self.put(key, value)
        return value


_EQUATIONS: ResultCache[NormalEquations] = ResultCache(1 << 27)
_VALUES: ResultCache[FloatArray] = ResultCache(1 << 26)
MetricContexts: TypeAlias = list[tuple[Metric, Contexts]]


@dataclass(frozen=True)
class Correction(Estimator):
    """Corrected values that minimise an expected squared error for ranks that follow a prior.

    Treats samples of fixed size and adaptive ones; the latter have a corrected value for each pair of a
    sample size and a sampled rank, and the normal equations have the same form.

    Parameters
    ----------
    prior : weights of global ranks in the error; an estimator of a rank distribution, such as ``mle``, is
        fitted to each sample first
    """

    prior: Spec | Prior = field(default_factory=UniformPrior)
    is_linear: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "prior", make_prior(self.prior))

    @property
    def fitted_part(self) -> str:
        """The prior, where it is fitted."""
        return "" if fitted_prior(self) is None else "prior"

    @abstractmethod
    def solve(self, equations: NormalEquations, moments: FloatArray) -> FloatArray:
        """Return x from A'DA and the columns of A'Db, (n_outcomes, n_columns)."""

    def solve_metrics(self, equations: NormalEquations, wanted: MetricContexts) -> FloatArray:
        """Return x of each metric in each of its contexts, (n_outcomes, n_columns)."""
        moments = [equations.moment(metric, contexts) for metric, contexts in wanted]
        return self.solve(equations, np.concatenate(moments, axis=1))

    def solve_dual(self, equations: NormalEquations, counts: FloatArray) -> FloatArray:
        """Return z such that counts . x = z . A'Db for every metric; the matrix is symmetric."""
        return self.solve(equations, counts)

    def resolve(self, tally: Tally) -> Self:
        """Return the correction for a sample, with its prior fitted."""
        prior = cast(Prior, self.prior).resolve(tally)
        return self if prior is self.prior else replace(self, prior=prior)

    def correct_sample(self, tally: Tally, metrics: Sequence[Metric]) -> FloatArray:
        """Return the corrected value of each metric in each cell, (n_cells, n_metrics)."""
        self._check(tally)
        fixed = self.resolve(tally)
        values = np.empty((tally.n_cells, len(metrics)))
        with single_threaded_blas():
            for law, rows in outcome_laws(tally):
                contexts, which = _situations(tally.contexts.take(rows), law)
                sizes = np.unique(tally.contexts.n_negatives[rows]).tolist()
                index = {m: law.outcome_index(m) for m in sizes}
                x = np.stack(fixed._values(law, contexts, metrics), axis=-1)
                for row, situation in zip(rows.tolist(), which.tolist(), strict=True):
                    cells = slice(tally.offsets[row], tally.offsets[row + 1])
                    values[cells] = x[situation, index[int(tally.contexts.n_negatives[row])]]
        return values

    def weigh_sample(self, tally: Tally) -> list[FloatArray]:
        """Return, per context, signed weights over J = 0..L irrelevant items above the target."""
        if not self.is_linear:
            return super().weigh_sample(tally)
        self._check(tally)
        fixed = self.resolve(tally)
        result: list[FloatArray] = [np.zeros(0)] * len(tally.contexts)
        for law, rows in outcome_laws(tally):
            equations, dual = fixed._dual(tally, law, rows, np.arange(len(rows)))
            for row, column in zip(rows, dual.T, strict=True):
                result[int(row)] = equations.spread(column)
        return result

    def distribution(self, tally: Tally) -> RankDistribution:
        """Return the weights as a distribution over global ranks 1..N, signed unless all ranks are known.

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
        return RankDistribution(full / full.sum(), method=str(self), signed=not tally.is_fully_ranked)

    def estimate_samples(self, tallies: Sequence[Tally], metrics: Sequence[Metric]) -> FloatArray:
        """Return the estimate of each metric in each of several samples, (n_runs, n_metrics).

        With a prior that does not depend on the sample, x is computed once for all runs. Otherwise priors are
        fitted together, and each run needs one solution for all metrics, its weights over ranks.
        """
        prior = self.prior
        if not have_same_design(tallies):
            return super().estimate_samples(tallies, metrics)
        if not isinstance(prior, FittedPrior):
            union, cells = merged_tally(tallies)
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
        fixed = [replace(self, prior=fit).resolve(tally) for fit, tally in zip(priors, tallies, strict=True)]
        pairs = zip(fixed, tallies, strict=True)
        if not self.is_linear:
            return np.stack([correction.estimate(tally, metrics).value for correction, tally in pairs])
        gains = GainTable(metrics)
        return np.stack([correction._by_weights(tally, gains) for correction, tally in pairs])

    def _by_weights(self, tally: Tally, gains: GainTable) -> FloatArray:
        """Return the estimates from weights over ranks: one right-hand side serves all metrics."""
        total = np.zeros(len(gains.metrics))
        for law, rows in outcome_laws(tally):
            contexts, which = _situations(tally.contexts.take(rows), law)
            equations, dual = self._dual(tally, law, rows, which)
            total += gains.value(equations, dual, contexts)
        return total

    def _dual(
        self, tally: Tally, law: Law, rows: IntArray, which: IntArray
    ) -> tuple[NormalEquations, FloatArray]:
        """Return the equations of a law and the duals of the counts, those of equal ``which`` added up."""
        equations = self.equations(law)
        counts = np.zeros((len(equations.locations), int(which.max()) + 1))
        for row, column in zip(rows.tolist(), which.tolist(), strict=True):
            index = law.outcome_index(int(tally.contexts.n_negatives[row]))
            np.add.at(counts[:, column], index, tally.counts(row) / tally.n_users)
        with single_threaded_blas():
            return equations, self.solve_dual(equations, counts)

    def equations(self, law: Law, prior: Prior | None = None) -> NormalEquations:
        """Return the normal equations of a law, from the cache where they were computed before."""
        chosen = cast(Prior, self.prior) if prior is None else prior
        key = (law, chosen.fingerprint())
        return _EQUATIONS.get(key, lambda: NormalEquations(law, chosen.weights(law.n_candidates + 1)))

    def _check(self, tally: Tally) -> None:
        check_uniform(self, tally)
        check_outcomes(tally)
        if len(tally.contexts):
            cast(Prior, self.prior).check_size(int(tally.contexts.n_candidates.max()) + 1)

    def _values(self, law: Law, contexts: Contexts, metrics: Sequence[Metric]) -> list[FloatArray]:
        """Return x of each metric, each (n_contexts, n_outcomes), solving for those not in the cache."""
        plain, which = contexts.unweighted()
        if plain is not contexts:  # corrected values are proportional to the weight of the target
            found = self._values(law, plain, metrics)
            weights = [contexts.weight_of(metric) for metric in metrics]
            return [
                value[which] if weight is None else value[which] * weight[:, None]
                for value, weight in zip(found, weights, strict=True)
            ]
        method = (self, cast(Prior, self.prior).fingerprint(), law)
        columns = [tuple(column) for column in contexts.columns()[:, 1:].tolist()]
        values = {}
        missing: list[tuple[Metric, IntArray]] = []
        for metric in metrics:
            cached = [_VALUES.find((method, metric, column)) for column in columns]
            values[metric] = cached
            absent = [number for number, value in enumerate(cached) if value is None]
            if absent:
                missing.append((metric, np.array(absent)))
        if missing:
            wanted = [(metric, contexts.take(rows)) for metric, rows in missing]
            solution = self.solve_metrics(self.equations(law), wanted)
            solved = iter(np.ascontiguousarray(solution.T))
            for metric, rows in missing:
                for row in rows:
                    value = next(solved).copy()
                    values[metric][row] = value
                    _VALUES.put((method, metric, columns[row]), value)
        return [np.array(values[metric]) for metric in metrics]


def _situations(contexts: Contexts, law: Law) -> tuple[Contexts, IntArray]:
    """Return the contexts that differ in more than the size of the sample, and which of them each is."""
    if len(law.sizes) == 1:
        return contexts, np.arange(len(contexts))
    _, first, which = np.unique(contexts.columns()[:, 2:], axis=0, return_index=True, return_inverse=True)
    return contexts.take(first), which.ravel()
