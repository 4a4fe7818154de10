"""Composer: sampled ranks in, estimated metrics out.

Composer: sampled ranks of a validation loop in, estimated metrics out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from truerank.core.errors import (
    CannotEstimate,
    InvalidParameter,
    suggests_arguments,
)
from truerank.core.progress import SILENT, Progress
from truerank.core.ranks import SampledRanks, TiePolicy
from truerank.core.result import Estimate, Result
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
from truerank.metrics.registry import make_metrics
from truerank.ranking.accumulator import RankCollector
from truerank.workflows.options import (
    DEFAULT_ESTIMATORS,
    DEFAULT_METRICS,
    EstimateOptions,
    Estimators,
    Metrics,
)

#: Where estimates of several samples are set against each other: nothing in it is fitted to one of them.
DEFAULT_LINEAR = "bv(gamma=0.1)"
#: Half-width from which on bounds are called wide.
RESOLVED = 0.05
_SECONDS = 30.0  # of CPU time that bounds of a model may take unless they were asked for
_ADVICE = 20  # times as long take bounds with the search for what would resolve a metric


@suggests_arguments
def estimate(
    ranks: SampledRanks | Mapping[str, SampledRanks],
    metrics: Metrics = DEFAULT_METRICS,
    estimators: Estimators = DEFAULT_ESTIMATORS,
    *,
    ties: TiePolicy = "expected",
    level: float = 0.95,
    seed: int = 0,
    uncertainty: str | Uncertainty = "auto",
    target: Target = "test-users",
    bounds: bool | None = False,
    progress: Progress = SILENT,
) -> Result:
    """Return what exact evaluation would give, estimated from ranks among sampled items.

    Parameters
    ----------
    ranks : sampled ranks, of one model or of several by name
    metrics, estimators : spec strings (a comma-separated text or a list) or objects
    ties, level, seed, uncertainty, target : as in ``EstimateOptions``
    bounds : whether to add, per metric, all values that the sampled ranks of these users allow; None adds
        them where they take less than about half a minute for a model; True also looks, however long that
        takes, for the number of negatives that would narrow them
    progress : where resamples and bounds are reported

    Examples
    --------
    >>> ranks = SampledRanks.single([0, 3, 0, 7], n_negatives=9, n_pool=10)
    >>> estimate(ranks, "recall@1", "naive").value("recall@1")  # all items were sampled: exact
    0.5
    """
    named = ranks if isinstance(ranks, Mapping) else {"sampled ranks": ranks}
    chosen = EstimateOptions(
        make_metrics(metrics),
        ESTIMATORS.make_all(estimators),
        uncertainty=UNCERTAINTIES.make(uncertainty),
        ties=ties,
        level=level,
        target=target,
        seed=seed,
    )
    tallies = {name: chosen.tally(sample) for name, sample in named.items()}
    estimates = [
        estimate
        for name, sample in named.items()
        for estimate in estimate_each(name, sample, chosen, counted=tallies[name], progress=progress)
    ]
    bounded = [
        bound_metrics(name, counted, chosen, is_limited=bounds is None, progress=progress)
        for name, counted in tallies.items()
        if bounds or bounds is None
    ]
    return Result(
        command="estimate",
        estimates=tuple(estimates),
        bounds=tuple(bound for model in bounded for bound in model.bounds),
        notes=tuple(note for model in bounded for note in model.notes),
        data={"name": ", ".join(named), **_counts(next(iter(named.values())))},
        provenance={
            "estimators": [str(estimator) for estimator in chosen.estimators],
            "ties": ties,
            "uncertainty": str(chosen.uncertainty),
            "target": target,
            "seed": seed,
            "pool_bins": chosen.width,
        },
        sampled=dict(named),
    )


def estimate_each(
    name: str,
    ranks: SampledRanks,
    chosen: EstimateOptions,
    *,
    counted: Tally | None = None,
    progress: Progress = SILENT,
) -> Iterator[Estimate]:
    """Yield one estimate per estimator and metric.

    Parameters
    ----------
    name, ranks : the model and its sampled ranks
    chosen : how to estimate
    counted : ``chosen.tally(ranks)``, where the caller has it
    progress : where resamples are reported
    """
    largest = int(ranks.n_pool.max(initial=0))
    for metric in chosen.metrics:
        if metric.cutoff is not None and metric.cutoff > largest:
            raise InvalidParameter(
                f"cutoff of {metric} must be at most the largest pool of {largest} items. Lower it."
            )
    counted = chosen.tally(ranks) if counted is None else counted
    sizes = np.unique(ranks.n_negatives)
    n_negatives = int(sizes[0]) if len(sizes) == 1 else None
    for estimator in chosen.estimators:
        value = estimator.estimate(counted, chosen.metrics).value
        found = PointEstimates(ranks, counted, estimator, chosen.metrics, value)
        band = chosen.uncertainty.band(
            found, target=chosen.target, level=chosen.level, seed=chosen.seed, progress=progress
        )
        for column, metric in enumerate(chosen.metrics):
            low, high = float(band.low[column]), float(band.high[column])
            has_interval = bool(np.isfinite(low) and np.isfinite(high))
            yield Estimate(
                model=name,
                metric=str(metric),
                value=float(value[column]),
                low=low if has_interval else None,
                high=high if has_interval else None,
                level=chosen.level if has_interval else None,
                kind="estimate",
                method=band.method[column] if has_interval else "",
                estimator=str(estimator),
                n_users=ranks.n_users,
                n_negatives=n_negatives,
                target=chosen.target if has_interval else "",
            )


def has_all_items(ranks: SampledRanks) -> bool:
    """Whether each target was ranked among all items of its pool: nothing is left to estimate.

    Examples
    --------
    >>> has_all_items(SampledRanks.single([0, 3], n_negatives=9, n_pool=10))
    True
    """
    is_whole = ranks.n_negatives == ranks.n_pool - ranks.n_relevant
    return not ranks.design.replacement and bool(is_whole.all())


@dataclass(frozen=True)
class BoundsWithMessages:
    """What sampled ranks allow, in numbers and in words."""

    bounds: tuple[Estimate, ...] = ()
    notes: tuple[str, ...] = ()


def bound_metrics(
    name: str,
    counted: Tally,
    chosen: EstimateOptions,
    *,
    is_limited: bool = False,
    progress: Progress = SILENT,
) -> BoundsWithMessages:
    """Return, per metric, all values that the sampled ranks allow, and what they cannot resolve.

    A design for which there are no bounds gives a note that says why; so do bounds that would take long,
    where time is limited. What would resolve a metric is not sought then where that takes long.
    """
    try:
        expected = bound_seconds(counted.unbinned) * len(chosen.metrics)
        if is_limited and expected > _SECONDS:
            return BoundsWithMessages(
                notes=(
                    f"{name}: no bounds, because for targets in so many different situations they would take "
                    f"about {expected:,.0f} s of CPU time. Ask for them with --bounds (bounds=True).",
                )
            )
        advise = not is_limited or _ADVICE * expected <= _SECONDS
        found = resolution(
            counted.unbinned,
            chosen.metrics,
            half_width=RESOLVED,
            level=chosen.level,
            advise=advise,
            progress=progress,
        )
    except CannotEstimate as error:
        return BoundsWithMessages(notes=(f"{name}: {error}",))
    sizes = np.unique(counted.contexts.n_negatives)
    bounds = tuple(
        Estimate(
            model=name,
            metric=str(metric),
            value=(one.bound.low + one.bound.high) / 2,
            low=one.bound.low,
            high=one.bound.high,
            level=chosen.level,
            kind="bound",
            method=f"identification, {one.bound.method}",
            estimator="bounds",
            n_users=counted.n_users,
            n_negatives=int(sizes[0]) if len(sizes) == 1 else None,
            target="test-users",
        )
        for metric, one in zip(chosen.metrics, found, strict=True)
    )
    more = "" if advise else " Ask for what would with --bounds (bounds=True)."
    return BoundsWithMessages(bounds, tuple(f"{name}: {one}{more}" for one in found if not one.is_resolved))


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
        estimators: Estimators = DEFAULT_ESTIMATORS,
        *,
        ties: TiePolicy = "expected",
        level: float = 0.95,
        seed: int = 0,
    ) -> Result:
        """Return what ranking all items would give, estimated from all batches; see ``estimate``."""
        return estimate(self.ranks(), metrics, estimators, ties=ties, level=level, seed=seed)
