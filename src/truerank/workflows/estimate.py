"""Estimates of full-ranking metrics from sampled ranks, with confidence intervals and identification bounds.

``estimate`` does it for tables of sampled ranks; ``RankAccumulator`` for the batches of a validation loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import cast

import numpy as np

from truerank.core.errors import (
    CannotEstimate,
    suggests_arguments,
)
from truerank.core.progress import SILENT, Progress, as_progress
from truerank.core.provenance import ranks_hash, versions
from truerank.core.ranks import SampledRanks, TiePolicy, check_sampled
from truerank.core.result import Estimate, Result, Segments, mark_best
from truerank.core.split import GroupLabels, Split, check_split
from truerank.estimation.registry import ESTIMATORS
from truerank.estimation.tally import Tally
from truerank.inference.bounds.identify import bound_seconds
from truerank.inference.bounds.sample_size import resolution
from truerank.inference.estimate_interval.registry import (
    UNCERTAINTIES,
    PointEstimates,
    Target,
    Uncertainty,
)
from truerank.metrics.base import Metric
from truerank.metrics.registry import make_metrics
from truerank.ranking.accumulator import RankCollector
from truerank.workflows.options import (
    DEFAULT_ESTIMATOR,
    DEFAULT_METRICS,
    EstimateOptions,
    Estimators,
    Metrics,
)
from truerank.workflows.segments.grouping import By, label_split, make_groupings

#: Largest half-width of bounds for which the sample is said to resolve a metric.
RESOLVED = 0.05
_SECONDS = 30.0  # of CPU time that the bounds of a model may take with bounds=None
_ADVICE = 20  # ratio of the time with the search for a sufficient number of negatives to that without


@suggests_arguments
def estimate(
    ranks: SampledRanks | Mapping[str, SampledRanks],
    metrics: Metrics = DEFAULT_METRICS,
    estimators: Estimators = DEFAULT_ESTIMATOR,
    *,
    ties: TiePolicy = "expected",
    level: float = 0.95,
    seed: int = 0,
    uncertainty: str | Uncertainty = "auto",
    target: Target = "test-users",
    bounds: bool | None = False,
    by: By = None,
    split: Split | None = None,
    progress: Progress | bool = SILENT,
) -> Result:
    """Return metrics over all items, estimated from ranks among sampled items.

    Parameters
    ----------
    ranks : sampled ranks, of one model or of several by name
    metrics, estimators : spec strings (a comma-separated text or a list) or objects
    ties, level, seed, uncertainty, target : as in ``EstimateOptions``
    bounds : whether to add identification bounds: per metric, all values for these users that are compatible
        with their sampled ranks. None adds them where they take less than about half a minute per model; True
        also searches, however long it takes, for the number of negatives that would narrow them
    by : groupings of users or targets, such as ``history``, one or a list; ``result.by("history")`` then has
        the estimates of each group
    split : the split that the ranks are of, which says who is in a group; ``by`` needs it
    progress : where resamples and bounds are reported; True shows bars

    Examples
    --------
    >>> ranks = SampledRanks.single([0, 3, 0, 7], n_negatives=9, n_pool=10)
    >>> estimate(ranks, "recall@1", "naive").value("recall@1")  # all items were sampled: exact
    0.5
    """
    progress = as_progress(progress)
    named = ranks if isinstance(ranks, Mapping) else {"sampled ranks": ranks}
    for sample in named.values():
        check_sampled(sample, "estimate")
    options = EstimateOptions(
        make_metrics(metrics),
        ESTIMATORS.make_all(estimators),
        uncertainty=UNCERTAINTIES.make(uncertainty),
        ties=ties,
        level=level,
        target=target,
        seed=seed,
        by=make_groupings(by),
    )
    groups: tuple[GroupLabels, ...] = ()
    if options.by:
        check_split(split, "estimate with by")
        groups = label_split(options.by, cast(Split, split))
    tallies = {name: options.tally(sample) for name, sample in named.items()}
    estimates = [
        estimate
        for name, sample in named.items()
        for estimate in estimate_each(name, sample, options, counted=tallies[name], progress=progress)
    ]
    bounded = [
        bound_metrics(name, counted, options, is_limited=bounds is None, progress=progress)
        for name, counted in tallies.items()
        if bounds or bounds is None
    ]
    segments: tuple[Segments, ...] = ()
    if groups:
        from truerank.workflows.segments.values import estimated_segments

        segments = estimated_segments(named, groups, options, progress)
    return Result(
        command="estimate",
        estimates=tuple(mark_best(estimates)),
        bounds=tuple(bound for model in bounded for bound in model.bounds),
        notes=tuple(note for model in bounded for note in model.notes),
        data={"name": ", ".join(named), **_counts(next(iter(named.values())))},
        provenance={
            "estimators": [str(estimator) for estimator in options.estimators],
            "ties": ties,
            "uncertainty": str(options.uncertainty),
            "target": target,
            "seed": seed,
            **({"by": [str(grouping) for grouping in options.by]} if options.by else {}),
            "pool_bins": options.width,
            "data_hash": {name: ranks_hash(sample) for name, sample in named.items()},
            "versions": versions(),
        },
        sampled=dict(named),
        segments=segments,
    )


def estimate_each(
    name: str,
    ranks: SampledRanks,
    options: EstimateOptions,
    *,
    counted: Tally | None = None,
    progress: Progress = SILENT,
) -> Iterator[Estimate]:
    """Yield one estimate per estimator and metric.

    Parameters
    ----------
    name, ranks : the model and its sampled ranks
    options : metrics, estimators and intervals
    counted : ``options.tally(ranks)``, where the caller has it already
    progress : where resamples are reported
    """
    for metric in options.metrics:
        metric.check_cutoff(int(ranks.n_pool.max(initial=0)))
    counted = options.tally(ranks) if counted is None else counted
    sizes = np.unique(ranks.n_negatives)
    n_negatives = int(sizes[0]) if len(sizes) == 1 else None
    for estimator in options.estimators:
        value, low_limits, high_limits = np.empty((3, len(options.metrics)))
        methods = [""] * len(options.metrics)
        for columns, metrics, of_metrics in _by_grades(options.metrics, counted):
            value[columns] = estimator.estimate(of_metrics, metrics).value
            estimates = PointEstimates(ranks, of_metrics, estimator, metrics, value[columns])
            band = options.uncertainty.band(
                estimates, target=options.target, level=options.level, seed=options.seed, progress=progress
            )
            low_limits[columns], high_limits[columns] = band.low, band.high
            for column, method in zip(columns, band.method, strict=True):
                methods[column] = method
        for column, metric in enumerate(options.metrics):
            low, high = float(low_limits[column]), float(high_limits[column])
            has_interval = bool(np.isfinite(low) and np.isfinite(high))
            yield Estimate(
                model=name,
                metric=str(metric),
                value=float(value[column]),
                low=low if has_interval else None,
                high=high if has_interval else None,
                level=options.level if has_interval else None,
                kind="estimate",
                method=methods[column] if has_interval else "",
                estimator=str(estimator),
                n_users=ranks.n_users,
                n_negatives=n_negatives,
                target=options.target if has_interval else "",
            )


def _by_grades(
    metrics: tuple[Metric, ...], counted: Tally
) -> Iterator[tuple[list[int], tuple[Metric, ...], Tally]]:
    """Yield metrics that do not use gains, and those that do, with the counts that each of them need.

    The estimates of the former are then what they are without gains.
    """
    graded = [
        column for column, metric in enumerate(metrics) if counted.contexts.weight_of(metric) is not None
    ]
    others = [column for column in range(len(metrics)) if column not in graded]
    for columns, tally in ((others, counted.ungraded), (graded, counted)):
        if columns:
            yield columns, tuple(metrics[column] for column in columns), tally


@dataclass(frozen=True)
class BoundsWithMessages:
    """Identification bounds of the metrics of one model, and notes about them for the reader."""

    bounds: tuple[Estimate, ...] = ()
    notes: tuple[str, ...] = ()


def bound_metrics(
    name: str,
    counted: Tally,
    options: EstimateOptions,
    *,
    is_limited: bool = False,
    progress: Progress = SILENT,
) -> BoundsWithMessages:
    """Return identification bounds per metric, and notes on metrics that the sample does not resolve.

    Where the sampling design has no bounds, a note says why. With ``is_limited`` the same holds for bounds
    that would take long, and the number of negatives that would resolve a metric is searched for only where
    that is quick.

    Parameters
    ----------
    name : of the model, with which notes begin
    counted : its tally, from ``options.tally``
    options : metrics and level
    is_limited : whether to leave out what takes more than about half a minute
    progress : where bounds are reported
    """
    try:
        seconds = bound_seconds(counted.unbinned) * len(options.metrics)
        if is_limited and seconds > _SECONDS:
            return BoundsWithMessages(
                notes=(
                    f"{name}: no bounds, because sizes of pools and numbers of targets differ so much "
                    f"between users that they would take about {seconds:,.0f} s of CPU time. Use --bounds "
                    f"(bounds=True) to compute them.",
                )
            )
        advise = not is_limited or _ADVICE * seconds <= _SECONDS
        found_of = {
            metric: found
            for _, metrics, of_metrics in _by_grades(options.metrics, counted)
            for metric, found in zip(
                metrics,
                resolution(
                    of_metrics.unbinned,
                    metrics,
                    half_width=RESOLVED,
                    level=options.level,
                    advise=advise,
                    progress=progress,
                ),
                strict=True,
            )
        }
        resolutions = [found_of[metric] for metric in options.metrics]
    except CannotEstimate as error:
        return BoundsWithMessages(notes=(f"{name}: {error}",))
    sizes = np.unique(counted.contexts.n_negatives)
    bounds = tuple(
        Estimate(
            model=name,
            metric=str(metric),
            value=(found.bound.low + found.bound.high) / 2,
            low=found.bound.low,
            high=found.bound.high,
            level=options.level,
            kind="bound",
            method=f"identification, {found.bound.method}",
            estimator="bounds",
            n_users=counted.n_users,
            n_negatives=int(sizes[0]) if len(sizes) == 1 else None,
            target="test-users",
        )
        for metric, found in zip(options.metrics, resolutions, strict=True)
    )
    more = "" if advise else " Use --bounds (bounds=True) to find out how many negatives would resolve it."
    notes = [f"{name}: {found}{more}" for found in resolutions if not found.is_resolved]
    return BoundsWithMessages(bounds, tuple(notes))


def _counts(ranks: SampledRanks) -> dict[str, int | bool]:
    return {
        "n_users": ranks.n_users,
        "n_test": len(ranks),
        "smallest_pool": int(ranks.n_pool.min()),
        "largest_pool": int(ranks.n_pool.max()),
        "fewest_negatives": int(ranks.n_negatives.min()),
        "most_negatives": int(ranks.n_negatives.max()),
        "replacement": ranks.design.replacement,
    }


class RankAccumulator(RankCollector):
    """Metrics of a validation loop: ``update`` with every batch, ``compute`` at its end, then ``reset``.

    Works with torch tensors and NumPy arrays alike and needs neither a metrics library nor a split. For
    several processes, gather the accumulators and ``merge`` them. Parameters as in ``RankCollector``.

    Examples
    --------
    >>> import numpy as np
    >>> metric = RankAccumulator(n_items=10)
    >>> metric.update(np.array([0.7, 0.2]), np.array([[0.1, 0.3, 0.9], [0.0, 0.1, 0.1]]))
    >>> round(metric.compute("recall@2", "naive").value("recall@2"), 3)
    1.0
    """

    def compute(
        self,
        metrics: Metrics = DEFAULT_METRICS,
        estimators: Estimators = DEFAULT_ESTIMATOR,
        *,
        ties: TiePolicy = "expected",
        level: float = 0.95,
        seed: int = 0,
    ) -> Result:
        """Return what ranking all items would give, estimated from all batches; see ``estimate``."""
        return estimate(self.ranks(), metrics, estimators, ties=ties, level=level, seed=seed)
