"""Identification bounds along K, as many as time allows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from truerank.bounds import Bound, bound_seconds, identified
from truerank.charts.cutoff import at_cutoffs, telling
from truerank.core.errors import CannotEstimate
from truerank.core.metric import Metric
from truerank.core.progress import SILENT, Progress, tracked
from truerank.core.ranks import SampledRanks, TiePolicy

_SECONDS = 20.0  # for all bounds of a report
_FEWEST = 3  # cut-offs; fewer make no curve


@dataclass(frozen=True)
class Limits:
    """Bounds of one metric at several cut-offs.

    Parameters
    ----------
    metric : at a cut-off of its own
    bounds : by cut-off, ascending; empty where there are none
    why : why there are none
    """

    metric: Metric
    bounds: Mapping[int, Bound]
    why: str = ""


def find_limits(
    samples: Mapping[str, SampledRanks],
    metrics: Sequence[Metric],
    *,
    level: float = 0.95,
    ties: TiePolicy = "expected",
    seconds: float = _SECONDS,
    progress: Progress = SILENT,
) -> dict[str, tuple[Limits, ...]]:
    """Return, per model, the bounds of each metric along K, or why there are none.

    How many cut-offs there are depends on about how long bounds take, told from the sizes of the linear
    programs alone, so that equal samples always give equal charts.

    Parameters
    ----------
    samples : sampled ranks by model
    metrics : with cut-offs
    level, ties : as in ``identified``; all bounds of a model hold at once
    seconds : for all models together, about
    progress : where models are reported
    """
    if not samples:
        return {}
    share = seconds / (len(samples) * len(metrics))
    found = {}
    with tracked(progress, "bounds for charts", len(samples)) as task:
        for name, ranks in samples.items():
            found[name] = _limits(ranks, metrics, level=level, ties=ties, seconds=share)
            task.advance()
    return found


def _limits(
    ranks: SampledRanks, metrics: Sequence[Metric], *, level: float, ties: TiePolicy, seconds: float
) -> tuple[Limits, ...]:
    try:
        number = int(seconds / max(bound_seconds(ranks, ties), 1e-9))
        if number < _FEWEST:
            why = "bounds along K would take long for targets in so many different situations."
            return tuple(Limits(metric, {}, why) for metric in metrics)
        largest = int(ranks.n_pool.max())
        cutoffs = {metric: telling(metric, largest, number) for metric in metrics}
        every = [one for metric in metrics for one in at_cutoffs(metric, cutoffs[metric])]
        bounds = iter(identified(ranks, every, level=level, ties=ties))
    except CannotEstimate as error:
        return tuple(Limits(metric, {}, str(error)) for metric in metrics)
    return tuple(Limits(metric, {k: next(bounds) for k in cutoffs[metric]}) for metric in metrics)
