"""Posterior intervals of differences between models whose ranks were sampled.

An interval for noise says nothing about the ranks that a sample does not resolve, and bounds allow all of
them. The posterior lies between: it takes such ranks to be like those of real recommenders, and says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from truerank.core.errors import CannotEstimate
from truerank.core.progress import SILENT, Progress, tracked
from truerank.core.types import FloatArray
from truerank.inference.posterior.difference import difference_posterior
from truerank.inference.posterior.interval import MetricPosterior, hold_default, metric_posterior
from truerank.inference.posterior.prior import SeenItems, learnt_prior
from truerank.metrics.base import Metric
from truerank.workflows.compare.options import ComparedModel, CompareOptions


@dataclass(frozen=True, eq=False)
class PosteriorDifferences:
    """Posterior intervals of the differences of all pairs, (n_pairs, n_metrics); NaN where there are none.

    Parameters
    ----------
    low, high : limits for the target of the comparison; simultaneous unless no correction was chosen
    probability : posterior probability that the first model is better
    resolved : (n_pairs,) the first rank that the samples of both models resolve
    reasons : by model, why it has no posterior
    """

    low: FloatArray
    high: FloatArray
    probability: FloatArray
    resolved: FloatArray
    reasons: dict[str, str] = field(default_factory=dict)

    def within(self, cell: tuple[int, int], bounds: tuple[float, float] | None) -> tuple[float, float]:
        """Return the interval of one difference, cut to its bounds; the bounds where both are disjoint."""
        low, high = float(self.low[cell]), float(self.high[cell])
        if bounds is None:
            return low, high
        inner = max(low, bounds[0]), min(high, bounds[1])
        return inner if inner[0] <= inner[1] else bounds


def posterior_differences(
    models: Sequence[ComparedModel],
    pairs: Sequence[tuple[int, int]],
    options: CompareOptions,
    *,
    seen: SeenItems | None = None,
    n_test_users: int | None = None,
    progress: Progress = SILENT,
) -> PosteriorDifferences:
    """Return posterior intervals of the pairs for which both models have a posterior.

    Exact values of all test users are known, so they need none.

    Parameters
    ----------
    models, pairs, options : what is compared, and by which rules
    seen : whether seen items stay in the list; None where this is not known
    n_test_users : test users from which those with exact ranks were sampled; None when all were taken
    progress : where this is reported
    """
    shape = (len(pairs), len(options.metrics))
    low, high, probability = np.full((3, *shape), np.nan)
    resolved = np.full(len(pairs), np.nan)
    found, reasons = {}, {}
    sampled = [model for model in models if model.estimated is not None]
    with tracked(progress, "posterior", len(sampled)) as task:
        for model in models:
            try:
                found[model.name] = _posterior(model, options, seen, n_test_users)
            except CannotEstimate as reason:
                reasons[model.name] = str(reason).split(". ")[0].rstrip(".")
            if model.estimated is not None:
                task.advance()
    rows = [
        row
        for row, pair in enumerate(pairs)
        if all(models[index].name in found for index in pair)
        and any(models[index].estimated is not None for index in pair)
    ]
    if rows:
        joint = difference_posterior(
            found,
            [(models[a].name, models[b].name) for a, b in (pairs[row] for row in rows)],
            sharing=learnt_prior().sharing,
            groups={model.name: model.digest for model in models},
            seed=options.seed,
        )
        value = np.array([models[a].value - models[b].value for a, b in (pairs[row] for row in rows)])
        limits = hold_default(
            options.estimator,
            *joint.limits(options.level, is_simultaneous=options.correction != "none"),
            value,
        )
        low[rows], high[rows] = np.clip(limits[0], -1, 1), np.clip(limits[1], -1, 1)
        probability[rows] = joint.probability
        resolved[rows] = [max(found[models[index].name].resolved for index in pairs[row]) for row in rows]
    return PosteriorDifferences(low, high, probability, resolved, reasons)


def _posterior(
    model: ComparedModel, options: CompareOptions, seen: SeenItems | None, n_test_users: int | None
) -> MetricPosterior:
    if model.estimated is not None:
        return metric_posterior(
            model.estimated.tally, options.metrics, target=options.target, seen=seen, seed=options.seed
        )
    if options.target == "population" or (n_test_users or 0) > len(model.users):
        raise CannotEstimate("its ranks are exact, but not those of all users that the verdict is about.")
    return MetricPosterior(model.value[:, None], np.ones(1), np.zeros(len(model.value)), 1, 1.0)


def is_prior_decisive(metric: Metric, resolved: int, n_pool: int) -> bool:
    """Whether a metric depends mostly on ranks above the first one that a sample resolves.

    These are the ranks up to the cut-off; without one, those whose gain is at least half of the first.

    Examples
    --------
    >>> from truerank.metrics.registry import make_metrics
    >>> [is_prior_decisive(metric, 37, 3706) for metric in make_metrics("recall@10,recall@50,mrr,auc")]
    [True, False, True, False]
    """
    if metric.cutoff is not None:
        return metric.cutoff < resolved
    zero, one = np.zeros(2, np.int64), np.ones(2, np.int64)
    gain = metric.gain(np.array([1, min(resolved, n_pool)]), zero, one, n_pool * one)
    return bool(gain[1] < gain[0] / 2)
