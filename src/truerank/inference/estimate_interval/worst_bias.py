r"""Worst-case bias of a linear estimate: its smallest and largest value over a confidence region.

Given the ranks, a linear estimate has the mean :math:`\sum_i E[x(j_i) \mid R_i]/n`, so its bias is the mean
over targets of :math:`E[x(j) \mid R] - g(R)`: linear in the rank distribution like the metric itself, and
bounded by the same linear program (``truerank.inference.bounds``).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from truerank.core.progress import SILENT, Progress, tracked
from truerank.core.types import FloatArray, IntArray
from truerank.estimation.adaptive_law import stopping_of
from truerank.estimation.corrections.equations import gain_at
from truerank.estimation.law import Law, make_law
from truerank.estimation.tally import Contexts, Tally
from truerank.inference.bounds.identify import check_bound_tally, fully_ranked_contexts
from truerank.inference.bounds.problem import BoundProblem, Pools, Shape
from truerank.inference.estimate_interval.outcomes import possible_outcomes
from truerank.inference.estimate_interval.registry import PointEstimates
from truerank.metrics.base import Metric

_CHUNK = 1 << 22  # probabilities in memory at once: 32 MB


def worst_bias(
    estimates: PointEstimates,
    counted: Tally,
    x: FloatArray,
    *,
    level: float,
    shape: Shape | None = None,
    pools: Pools = "free",
    progress: Progress = SILENT,
) -> FloatArray:
    """Return the smallest and the largest bias of each metric at a confidence level, (n_metrics, 2).

    Parameters
    ----------
    estimates : the point estimates
    counted : their tally, completed
    x : (n_cells, n_metrics) corrected values in its cells
    level : of the region, which is that of ``identification_bounds`` with the same level and shape
    shape, pools : as in ``identification_bounds``
    progress : where metrics are reported

    Raises
    ------
    CannotEstimate
        When the sample has no bounds; see ``identification_bounds``.
    """
    plain, metrics = estimates.tally.unbinned, estimates.metrics
    check_bound_tally(plain)
    applied = AppliedCorrections.of(plain, counted, x, metrics)
    is_known = fully_ranked_contexts(plain)
    fixed = np.zeros(len(metrics))
    for row in np.flatnonzero(is_known).tolist():
        context = plain.contexts.take(np.array([row]))
        above = np.arange(len(plain.counts(row)))
        gains = np.stack([gain_at(metric, above, context)[0] for metric in metrics])
        size, m = int(context.n_candidates[0]), int(context.n_negatives[0])
        law = make_law(size, m, replacement=plain.design.replacement)
        fixed += plain.counts(row) @ (applied.values(context, law) - gains.T) / plain.n_users
    known = np.stack([fixed, fixed], axis=1)
    if is_known.all():
        return known
    base = BoundProblem.of_tally(plain, is_known, shape)
    problem = BiasProblem(**_parts(base), applied=applied, metrics=metrics)
    with tracked(progress, "worst biases", len(metrics)) as task:
        unknown, _ = problem.sample_limits(metrics, plain, is_known, level=level, pools=pools, task=task)
    return known + unknown


@dataclass(frozen=True, eq=False)
class AppliedCorrections:
    """Corrected values by context of the unbinned tally, for an estimate made from a binned one.

    Parameters
    ----------
    counted : the completed tally that x belongs to
    x : (n_cells, n_metrics) corrected values
    of_key : a context of ``counted`` for each unbinned context, by the numbers that identify that
    by_size : whether samples of different size are different contexts, as where the size is fixed
    metrics : the columns of x
    """

    counted: Tally
    x: FloatArray
    of_key: dict[tuple[int, ...], int]
    by_size: bool
    metrics: tuple[Metric, ...]

    @classmethod
    def of(
        cls, plain: Tally, counted: Tally, x: FloatArray, metrics: tuple[Metric, ...]
    ) -> AppliedCorrections:
        """Match an unbinned and a binned tally of the same rows, whose entries have the same order."""
        first = np.unique(plain.context, return_index=True)
        by_size = stopping_of(plain) is None
        of_key = {
            _key(plain.contexts, int(context), by_size): int(counted.context[entry])
            for context, entry in zip(*first, strict=True)
        }
        return cls(counted, x, of_key, by_size, metrics)

    def values(self, member: Contexts, law: Law) -> FloatArray:
        """Return the values of the outcomes of a single context, (n_outcomes, n_metrics).

        Those of graded targets are proportional to the weight.
        """
        context = self.of_key[_key(member, 0, self.by_size)]
        contexts, offsets = self.counted.contexts, self.counted.offsets
        scale = np.ones(len(self.metrics))
        for column, metric in enumerate(self.metrics):
            mine, theirs = member.weight_of(metric), contexts.weight_of(metric)
            if mine is not None and theirs is not None:
                scale[column] = mine[0] / theirs[context]
        if self.by_size:
            return self.x[offsets[context] : offsets[context + 1]] * scale
        columns = contexts.columns()[:, 1:]
        is_same = (columns == columns[context]).all(axis=1)
        rows = np.flatnonzero(is_same)  # ascending in size; a binned pool may have another largest size
        of_size = np.searchsorted(contexts.n_negatives[rows], law.outcome_sizes)
        outcome_context = rows[np.minimum(of_size, len(rows) - 1)]
        above = np.minimum(law.outcome_above, contexts.n_negatives[outcome_context])
        values: FloatArray = self.x[offsets[outcome_context] + above] * scale
        return values


@dataclass(frozen=True, eq=False)
class BiasProblem(BoundProblem):
    """The linear program of bounds with the bias of a target in place of its gain.

    Parameters
    ----------
    applied, metrics : corrected values of the estimator, and the metrics that they estimate
    """

    applied: AppliedCorrections
    metrics: tuple[Metric, ...]

    def _gains_at(self, metric: Metric, members: Contexts, at: FloatArray) -> FloatArray:
        """Return the bias, times relevant items of the user, at positions of members, shaped as ``at``."""
        gains = super()._gains_at(metric, members, at)
        column, means = self.metrics.index(metric), []
        for row in range(len(members)):
            member = members.take(np.array([row]))
            law = self._law(int(member.n_candidates[0]), int(member.n_negatives[0]))
            x = self.applied.values(member, law)[:, column]
            expected = ExpectationProblem(**_parts(self), x=x)._probabilities_at(law, at[row])[..., 0]
            means.append(expected * member.n_relevant[0])
        bias: FloatArray = np.stack(means) - gains
        return bias


@dataclass(frozen=True, eq=False)
class ExpectationProblem(BoundProblem):
    """The linear program of bounds with the expectation of x in place of event probabilities.

    Parameters
    ----------
    x : (n_outcomes,) values of the outcomes
    """

    x: FloatArray

    def _probabilities_of(self, law: Law, n_above: IntArray) -> FloatArray:
        """Return E[x | J], (len(n_above), 1)."""
        rows = max(_CHUNK // len(self.x), 1)
        if len(n_above) == 0:  # a metric without cut-off has no kinks
            return np.zeros((0, 1))
        parts = [law.pmf(n_above[i : i + rows]) @ self.x[:, None] for i in range(0, len(n_above), rows)]
        return np.concatenate(parts)


def largest_bias(counted: Tally, x: FloatArray, metric: Metric, column: int) -> float:
    """Return an upper bound of the absolute bias over all rank distributions.

    Parameters
    ----------
    counted : a completed tally
    x : (n_cells, n_metrics) corrected values
    metric, column : the metric, and its column in x
    """
    rows = counted.context_weights / counted.n_users
    least = most = 0.0
    for outcomes in possible_outcomes(counted):
        law = outcomes.law
        n_sizes = len(law.sizes)
        for cells, context in zip(outcomes.cells, outcomes.contexts, strict=True):
            member = counted.contexts.take(np.array([context]))
            values = np.ascontiguousarray(x[cells, column])
            bias = law.dot(values) - gain_at(metric, np.arange(law.n_candidates + 1), member)[0]
            weight = float(rows[context : context + n_sizes].sum())
            least, most = least + weight * float(bias.min()), most + weight * float(bias.max())
    return max(most, -least)


def _parts(problem: BoundProblem) -> dict[str, Any]:
    return {field.name: getattr(problem, field.name) for field in fields(BoundProblem)}


def _key(contexts: Contexts, row: int, by_size: bool) -> tuple[int, ...]:
    size = int(contexts.n_negatives[row]) if by_size else 0
    return (
        size,
        int(contexts.n_candidates[row]),
        int(contexts.n_relevant_above[row]),
        int(contexts.n_relevant[row]),
        int(contexts.n_pool[row]),
    )
