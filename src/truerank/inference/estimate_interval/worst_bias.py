"""The smallest and largest bias of a linear estimate over all ranks that the sample allows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from truerank.core.progress import SILENT, Progress, tracked
from truerank.core.types import FloatArray, IntArray
from truerank.estimation.adaptive_law import stopping_of
from truerank.estimation.corrections.equations import gain_at
from truerank.estimation.law import Law, make_law
from truerank.estimation.tally import Contexts, Tally
from truerank.inference.bounds.identify import check_bound_tally, fully_ranked_contexts
from truerank.inference.bounds.problem import STEP, BoundProblem, Pools, Shape
from truerank.inference.bounds.region import observed_region
from truerank.inference.estimate_interval.outcomes import outcomes_of
from truerank.inference.estimate_interval.registry import PointEstimates
from truerank.metrics.base import Metric

_CHUNK = 1 << 22  # probabilities held at once: 32 MB


def worst_bias(
    found: PointEstimates,
    counted: Tally,
    x: FloatArray,
    *,
    level: float,
    shape: Shape | None = None,
    pools: Pools = "free",
    progress: Progress = SILENT,
) -> FloatArray:
    r"""Return the least and the largest bias of each metric, (n_metrics, 2), that hold at a level.

    Given the ranks the estimate has the mean :math:`\sum_i E[x(j_i) \mid R_i]/n`, so its bias is the mean of
    :math:`E[x(j) \mid R] - g(R)` over targets: linear in the rank distribution like the metric itself, and
    bounded by the same program over the same region (``truerank.inference.bounds``).

    Parameters
    ----------
    found : the estimates
    counted : their tally, completed
    x : (n_cells, n_metrics) corrected values in its cells
    level : of the region; the same level and shape give the region of ``identified``
    shape, pools : as in ``identified``
    progress : where metrics are reported

    Raises
    ------
    CannotEstimate
        When ranks cannot be bounded; see ``identified``.
    """
    plain = found.tally.unbinned
    check_bound_tally(plain)
    applied = Applied.of(plain, counted, x)
    is_known = fully_ranked_contexts(plain)
    fixed = np.zeros(len(found.metrics))
    for row in np.flatnonzero(is_known).tolist():
        own = plain.contexts.take(np.array([row]))
        gains = np.stack(
            [gain_at(metric, np.arange(len(plain.counts(row))), own)[0] for metric in found.metrics]
        )
        size, m = int(own.n_candidates[0]), int(own.n_negatives[0])
        law = make_law(size, m, replacement=plain.design.replacement)
        fixed += plain.counts(row) @ (applied.values(own, law) - gains.T) / plain.n_users
    ends = np.stack([fixed, fixed], axis=1)
    if is_known.all():
        return ends
    contexts = plain.contexts.take(np.flatnonzero(~is_known))
    base = BoundProblem.of(contexts, plain.design, stopping_of(plain), shape)
    problem = BiasProblem(**_parts(base), applied=applied, metrics=found.metrics)
    region, n_users = observed_region(plain, ~is_known, problem.events, level=level)
    weight = np.add.reduceat(plain.cell_weights, plain.offsets[:-1])[~is_known] / contexts.n_relevant
    shares = np.bincount(problem.group, weight) / n_users
    with tracked(progress, "worst biases", len(found.metrics)) as task:
        own_ends = problem.limits(found.metrics, region, shares, step=STEP, pools=pools, task=task)
    return ends + own_ends * (n_users / plain.n_users)


@dataclass(frozen=True, eq=False)
class Applied:
    """Which corrected values were applied to rows of each context, before pools were binned.

    Parameters
    ----------
    counted : the completed tally that x is of
    x : (n_cells, n_metrics)
    of_key : a context of it for each context without bins, under what tells those apart
    by_size : whether these differ in the size of the sample, which is fixed then
    """

    counted: Tally
    x: FloatArray
    of_key: dict[tuple[int, ...], int]
    by_size: bool

    @classmethod
    def of(cls, plain: Tally, counted: Tally, x: FloatArray) -> Applied:
        """Match two tallies of the same rows; their entries are in the same order."""
        first = np.unique(plain.context, return_index=True)
        by_size = stopping_of(plain) is None
        of_key = {
            _key(plain.contexts, int(context), by_size): int(counted.context[entry])
            for context, entry in zip(*first, strict=True)
        }
        return cls(counted, x, of_key, by_size)

    def values(self, one: Contexts, law: Law) -> FloatArray:
        """Return the values of the outcomes of a context, (n_outcomes, n_metrics)."""
        context = self.of_key[_key(one, 0, self.by_size)]
        contexts, offsets = self.counted.contexts, self.counted.offsets
        if self.by_size:
            return self.x[offsets[context] : offsets[context + 1]]
        columns = (contexts.n_candidates, contexts.n_relevant_above, contexts.n_relevant, contexts.n_pool)
        is_same = np.all([column == column[context] for column in columns], axis=0)
        rows = np.flatnonzero(is_same)  # ascending in size; a binned pool may end at another last one
        of_size = np.searchsorted(contexts.n_negatives[rows], law.outcome_sizes)
        place = rows[np.minimum(of_size, len(rows) - 1)]
        found: FloatArray = self.x[
            offsets[place] + np.minimum(law.outcome_above, contexts.n_negatives[place])
        ]
        return found


@dataclass(frozen=True, eq=False)
class BiasProblem(BoundProblem):
    """The problem of ``bounds`` with the bias of a target instead of its gain.

    Parameters
    ----------
    applied, metrics : the estimator
    """

    applied: Applied
    metrics: tuple[Metric, ...]

    def _gains_at(self, metric: Metric, members: Contexts, at: FloatArray) -> FloatArray:
        """Return the bias times targets of the user at positions of each member, shaped as ``at``."""
        gains = super()._gains_at(metric, members, at)
        column, means = self.metrics.index(metric), []
        for row in range(len(members)):
            one = members.take(np.array([row]))
            law = self._law(int(one.n_candidates[0]), int(one.n_negatives[0]))
            x = self.applied.values(one, law)[:, column]
            expected = MeanProblem(**_parts(self), x=x)._probabilities_at(law, at[row])[..., 0]
            means.append(expected * one.n_relevant[0])
        bias: FloatArray = np.stack(means) - gains
        return bias


@dataclass(frozen=True, eq=False)
class MeanProblem(BoundProblem):
    """The problem of ``bounds`` with the mean of x in place of probabilities.

    Parameters
    ----------
    x : (n_outcomes,)
    """

    x: FloatArray

    def _probabilities_of(self, law: Law, n_above: IntArray) -> FloatArray:
        """Return E[x | J], (len(n_above), 1)."""
        rows = max(_CHUNK // len(self.x), 1)
        if len(n_above) == 0:  # a metric without cut-off has no bends
            return np.zeros((0, 1))
        parts = [law.pmf(n_above[i : i + rows]) @ self.x[:, None] for i in range(0, len(n_above), rows)]
        return np.concatenate(parts)


def largest_bias(counted: Tally, x: FloatArray, metric: Metric, column: int) -> float:
    """Return an upper limit of the bias whatever the ranks are.

    Parameters
    ----------
    counted : a completed tally
    x : (n_cells, n_metrics) corrected values
    metric, column : which of them
    """
    rows = np.add.reduceat(counted.cell_weights, counted.offsets[:-1]) / counted.n_users
    least = most = 0.0
    for outcomes in outcomes_of(counted):
        law = outcomes.law
        n_sizes = len(law.sizes)
        for cells, context in zip(outcomes.cells, outcomes.contexts, strict=True):
            one = counted.contexts.take(np.array([context]))
            values = np.ascontiguousarray(x[cells, column])
            bias = law.dot(values) - gain_at(metric, np.arange(law.n_candidates + 1), one)[0]
            share = float(rows[context : context + n_sizes].sum())
            least, most = least + share * float(bias.min()), most + share * float(bias.max())
    return max(most, -least)


def _parts(problem: BoundProblem) -> dict[str, Any]:
    names = ("contexts", "design", "stopping", "group", "kind", "events", "shape")
    return {name: getattr(problem, name) for name in names}


def _key(contexts: Contexts, row: int, by_size: bool) -> tuple[int, ...]:
    size = int(contexts.n_negatives[row]) if by_size else 0
    return (
        size,
        int(contexts.n_candidates[row]),
        int(contexts.n_relevant_above[row]),
        int(contexts.n_relevant[row]),
        int(contexts.n_pool[row]),
    )
