"""Estimator ``mapping``: reads the sampled hit-ratio curve at mapped global ranks, for any metric."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, cast

import numpy as np

from truerank.core.errors import CannotEstimate, InvalidParameter
from truerank.core.plugin import Source, Spec
from truerank.core.types import FloatArray
from truerank.estimation.base import Estimator, check_uniform
from truerank.estimation.mapping.functions import BetaMapping, MappingFunction
from truerank.estimation.tally import Contexts, Tally
from truerank.metrics.base import Metric


@dataclass(frozen=True)
class Mapped(Estimator):
    r"""The rank distribution whose hit-ratio curve passes through SHR@k at f(k), linear in between.

    Every metric follows from it. A target of sampled rank r is spread evenly over the global ranks above
    f(r - 1) up to f(r), those of rank 1 over 1..f(1): the sample does not resolve ranks below f(1), and an
    even spread is an assumption. At N = 3706 and m = 99 this concerns the first 30 ranks, so Recall@10
    depends on it. Time O(L) per context and metric without cut-off, else O(m + K).

    .. math:: x[r] = \frac{1}{f(r) - f(r-1)} \int_{f(r-1)}^{f(r)} M(\lceil t \rceil)\, dt, \qquad f(0) = 0

    Parameters
    ----------
    f : the mapping function; f takes each context's own pool and sample size

    Notes
    -----
    Extends [li2020]_, which maps the hit ratio only, to sums over targets. With ``f=beta-p`` the exponent is
    fitted to the same sampled ranks; the standard error does not include the variance of that fit.

    Examples
    --------
    >>> str(Mapped()), str(Mapped(f=BetaMapping(0.3)))
    ('mapping', 'mapping(f=beta(a=0.3))')
    """

    f: Spec | MappingFunction = field(default_factory=BetaMapping)
    key: ClassVar[str] = "mapping"
    source: ClassVar[Source] = Source("li2020", "Sec. 3")

    def __post_init__(self) -> None:
        from truerank.estimation.mapping.functions import MAPPINGS

        mapping = MAPPINGS.make(self.f)
        if not isinstance(mapping, MappingFunction):
            raise InvalidParameter(f"f must be a mapping or a spec such as beta(a=0.5), got {mapping!r}.")
        object.__setattr__(self, "f", mapping)

    @property
    def fitted_part(self) -> str:
        """The mapping, where it has a parameter that is fitted."""
        return "mapping" if cast(MappingFunction, self.f).is_fitted else ""

    def correct_sample(self, tally: Tally, metrics: Sequence[Metric]) -> FloatArray:
        """Return the corrected value of each metric in each cell, (n_cells, n_metrics)."""
        values = np.empty((tally.n_cells, len(metrics)))
        mapping = self._fitted(tally)
        for m, size, rows in tally.contexts.laws():
            nodes = _nodes(mapping, m, size)
            for row in rows.tolist():
                context = tally.contexts.take(np.array([row]))
                cells = slice(tally.offsets[row], tally.offsets[row + 1])
                for column, metric in enumerate(metrics):
                    values[cells, column] = _means(_gains(metric, context), nodes)
        return values

    def weigh_sample(self, tally: Tally) -> list[FloatArray]:
        """Return, per context, weights over J = 0..L irrelevant items above the target; none is negative."""
        result: list[FloatArray] = [np.zeros(0)] * len(tally.contexts)
        mapping = self._fitted(tally)
        for m, size, rows in tally.contexts.laws():
            nodes = _nodes(mapping, m, size)
            for row in rows.tolist():
                result[row] = _spread(tally.counts(row) / tally.n_users, nodes, size + 1)
        return result

    def _fitted(self, tally: Tally) -> MappingFunction:
        check_uniform(self, tally)
        if tally.design.stopping is not None:
            raise CannotEstimate(
                f"'{self}' needs samples whose size was fixed beforehand, got an adaptive sample. "
                f"Use estimator 'mle', which can treat it."
            )
        return cast(MappingFunction, self.f).fit(tally)


def _nodes(mapping: MappingFunction, n_negatives: int, n_candidates: int) -> FloatArray:
    """Return 0 and f(1) ... f(n) of one pair of sizes, never falling; the last is N."""
    n = n_negatives + 1
    ranks = mapping.rounded_locations(np.arange(1, n + 1), n, n_candidates + 1)
    ranks[-1] = n_candidates + 1
    return np.concatenate([[0.0], np.maximum.accumulate(ranks)])


def _gains(metric: Metric, context: Contexts) -> FloatArray:
    """Return the gain at J = 0, 1, ... up to where it no longer changes, at most L."""
    depth = int(context.n_candidates[0])
    if metric.cutoff is not None:
        depth = min(depth, metric.cutoff)
    gains: FloatArray = context.gains(metric, np.arange(1, depth + 2)[None] + context.n_relevant_above)[0]
    return gains


def _means(gains: FloatArray, nodes: FloatArray) -> FloatArray:
    """Return the mean gain over the ranks between neighbouring nodes; the last gain holds for all beyond."""
    sums = np.concatenate([[0.0], np.cumsum(gains)])
    reached = len(gains)
    total = np.interp(nodes, np.arange(reached + 1), sums) + gains[-1] * np.maximum(nodes - reached, 0.0)
    width = np.diff(nodes)
    at_point = gains[np.minimum(np.ceil(nodes[1:]).astype(np.int64), reached) - 1]
    means: FloatArray = np.divide(np.diff(total), width, out=at_point, where=width > 0)
    return means


def _spread(counts: FloatArray, nodes: FloatArray, n_ranks: int) -> FloatArray:
    """Return the weight of each rank when counts are spread evenly between neighbouring nodes."""
    width = np.diff(nodes)
    is_wide = width > 0
    edges = np.concatenate([[0.0], nodes[1:][is_wide]])
    sums = np.concatenate([[0.0], np.cumsum(counts[is_wide])])
    weights: FloatArray = np.diff(np.interp(np.arange(n_ranks + 1), edges, sums))
    np.add.at(weights, np.ceil(nodes[1:][~is_wide]).astype(np.int64) - 1, counts[~is_wide])
    return weights
