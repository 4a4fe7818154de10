"""Charts of a metric against its cut-off K: exact values, estimates with intervals, identification bounds.

Bounds are computed at as many cut-offs as fit into some seconds. The blind-spot chart shows half the width of
the bounds: the cut-offs at which it exceeds the wanted precision cannot be resolved by this sample, whatever
the estimator.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from truerank.core.chart import Chart, ChartAxis, Series, Span
from truerank.core.errors import CannotEstimate
from truerank.core.progress import SILENT, Progress, tracked
from truerank.core.ranks import Ranks, SampledRanks, TiePolicy
from truerank.core.result import Estimate
from truerank.core.table import joined_clauses, listed_in_words, percent, rounded
from truerank.estimation.tally import tally
from truerank.inference.bounds.identify import IdentificationBound, bound_seconds, identification_bounds
from truerank.metrics.base import Metric
from truerank.metrics.registry import values
from truerank.report.charts.settings import (
    ChartSettings,
    at_cutoffs,
    curve_cutoffs,
    family_name,
    informative_cutoffs,
)
from truerank.workflows.estimate import RESOLVED, estimate_each

_SECONDS = 20.0  # for all bounds of a report
_FEWEST_LIMITS = 3  # cut-offs; fewer make no curve


@dataclass(frozen=True)
class BoundCurve:
    """Bounds of one metric at several cut-offs.

    Parameters
    ----------
    metric : at the cut-off of the result
    bounds : by cut-off, ascending; empty where there are none
    why : why there are none
    """

    metric: Metric
    bounds: Mapping[int, IdentificationBound]
    why: str = ""


def bound_curves(
    samples: Mapping[str, SampledRanks],
    metrics: Sequence[Metric],
    *,
    level: float = 0.95,
    ties: TiePolicy = "expected",
    seconds: float = _SECONDS,
    progress: Progress = SILENT,
) -> dict[str, tuple[BoundCurve, ...]]:
    """Return, per model, the bounds of each metric along K, or why there are none.

    The number of cut-offs depends on how long bounds are expected to take. That is predicted from the sizes
    of the linear programs, not measured, so that equal samples always give equal charts.

    Parameters
    ----------
    samples : sampled ranks by model
    metrics : with cut-offs
    level, ties : as in ``identification_bounds``; all bounds of a model hold at once
    seconds : expected time for all models together
    progress : where models are reported
    """
    if not samples:
        return {}
    seconds_each = seconds / (len(samples) * len(metrics))
    curves = {}
    with tracked(progress, "bounds for charts", len(samples)) as task:
        for name, ranks in samples.items():
            curves[name] = _bound_curves_of(ranks, metrics, level=level, ties=ties, seconds=seconds_each)
            task.advance()
    return curves


def _bound_curves_of(
    ranks: SampledRanks, metrics: Sequence[Metric], *, level: float, ties: TiePolicy, seconds: float
) -> tuple[BoundCurve, ...]:
    try:
        number = int(seconds / max(bound_seconds(ranks, ties), 1e-9))
        if number < _FEWEST_LIMITS:
            why = "bounds along K would take long for targets in so many different situations."
            return tuple(BoundCurve(metric, {}, why) for metric in metrics)
        largest = int(ranks.n_pool.max())
        cutoffs = {metric: informative_cutoffs(metric, largest, number) for metric in metrics}
        every = [variant for metric in metrics for variant in at_cutoffs(metric, cutoffs[metric])]
        bounds = iter(identification_bounds(ranks, every, level=level, ties=ties))
    except CannotEstimate as error:
        return tuple(BoundCurve(metric, {}, str(error)) for metric in metrics)
    return tuple(BoundCurve(metric, {k: next(bounds) for k in cutoffs[metric]}) for metric in metrics)


_VALUES = 20_000_000  # of users and cut-offs held at once: 160 MB
_CELLS = 10_000_000  # of cells and cut-offs held at once: 80 MB
_FEWEST = 4  # cut-offs of a curve


def exact_series(
    name: str, ranks: Ranks, metric: Metric, *, ties: TiePolicy = "expected", seed: int = 0, label: str = ""
) -> Series:
    """Return the exact metric of one model along K.

    Examples
    --------
    >>> from truerank.metrics.registry import make_metrics
    >>> series = exact_series("A", Ranks.single([0, 3], n_pool=5), make_metrics("recall@1")[0])
    >>> series.x, series.y
    ((1.0, 2.0, 3.0, 5.0), (0.5, 0.5, 0.5, 1.0))
    """
    cutoffs = curve_cutoffs(metric, int(ranks.n_pool.max()))
    every = at_cutoffs(metric, cutoffs)
    step = max(_VALUES // max(ranks.n_users, 1), 1)
    means: list[float] = []
    for start in range(0, len(every), step):
        means += values(every[start : start + step], ranks, ties=ties, seed=seed).mean(axis=0).tolist()
    return Series(label or name, tuple(map(float, cutoffs)), tuple(means), model=name)


def estimated_series(
    name: str, ranks: SampledRanks, metric: Metric, setting: ChartSettings, label: str = ""
) -> Series:
    """Return the estimated metric of one model along K, with its interval where there is one.

    Raises
    ------
    CannotEstimate
        When the estimator cannot treat the sample.
    """
    cutoffs = _affordable(metric, ranks, setting)
    estimates = list(estimate_each(name, ranks, setting.estimation(at_cutoffs(metric, cutoffs))))
    has_interval = all(estimate.low is not None for estimate in estimates)
    return Series(
        label or name,
        tuple(map(float, cutoffs)),
        tuple(estimate.value for estimate in estimates),
        low=_limits_of(estimates, "low") if has_interval else (),
        high=_limits_of(estimates, "high") if has_interval else (),
        model=name,
        is_dashed=True,
    )


def bound_series(name: str, limits: BoundCurve, level: float) -> Series:
    """Return the identification bounds of one model along K as a band."""
    bounds = limits.bounds.values()
    return Series(
        f"identification bounds, {percent(level)}",
        tuple(map(float, limits.bounds)),
        tuple((bound.low + bound.high) / 2 for bound in bounds),
        low=tuple(bound.low for bound in bounds),
        high=tuple(bound.high for bound in bounds),
        kind="band",
        model=name,
    )


def curves_chart(
    metric: Metric,
    exact: Mapping[str, Series],
    estimated: Mapping[str, Series],
    *,
    key: str,
    notes: Sequence[str] = (),
) -> Chart:
    """Return one metric of all models along K, without intervals.

    Parameters
    ----------
    metric : at the cut-off whose values the alternative text gives
    exact, estimated : series by model
    key : of the chart
    notes : what to read with it
    """
    lines = [*exact.values(), *(replace(series, low=(), high=()) for series in estimated.values())]
    values_at_cutoff = [_value_at_cutoff(series, metric) for series in lines]
    return Chart(
        key=key,
        title=f"{family_name(metric)} of all models",
        words=f"{family_name(metric)} against K. At K = {metric.cutoff}: {joined_clauses(values_at_cutoff)}.",
        x=ChartAxis("K", "log", "count"),
        y=ChartAxis(family_name(metric), low=0.0),
        series=tuple(lines),
        notes=tuple(notes),
    )


def curve_chart(
    name: str,
    metric: Metric,
    *,
    exact: Series | None,
    estimated: Series | None,
    limits: BoundCurve | None,
    setting: ChartSettings,
    key: str,
    notes: Sequence[str] = (),
) -> Chart:
    """Return one metric of one model along K: bounds, estimate with interval, and exact values if known.

    Parameters
    ----------
    name : the model
    metric : at the cut-off whose values the alternative text gives
    exact, estimated, limits : what is known; at least one
    setting : how the result was made
    key : of the chart
    notes : what to read with it
    """
    kind, cutoff = family_name(metric), metric.cutoff
    series, clauses, all_notes = [], [], list(notes)
    if limits is not None and limits.bounds:
        series.append(bound_series(name, limits, setting.level))
        bound = limits.bounds.get(int(cutoff or 0))
        if bound is not None:
            clauses.append(f"the sample allows {bound.low:.3f} to {bound.high:.3f}")
        all_notes.append(
            "The wide band holds every value that some distribution of ranks, which fits the sample, gives; "
            "no estimator enters. Where it is wide, the line depends on the estimator."
        )
    elif limits is not None:
        all_notes.append(f"No bounds are shown: {limits.why}")
    if estimated is not None:
        series.append(replace(estimated, label=str(setting.estimator)))
        clauses.append(_value_at_cutoff(series[-1], metric))
        if estimated.low:
            all_notes.append(
                f"The narrow band is the {percent(setting.level)} interval, made as in the table but with "
                "fewer resamples, if any; where that ignores bias or rests on a prior, so does the band."
            )
    if exact is not None:
        series.append(replace(exact, label="exact"))
        clauses.append(_value_at_cutoff(series[-1], metric))
    return Chart(
        key=key,
        title=f"{kind} of {name}",
        words=f"{kind} of {name} against K. At K = {cutoff}: {joined_clauses(clauses)}.",
        x=ChartAxis("K", "log", "count"),
        y=ChartAxis(kind, low=0.0),
        series=tuple(series),
        notes=tuple(all_notes),
    )


def estimated_series_or_reason(
    name: str, ranks: SampledRanks, metric: Metric, setting: ChartSettings, label: str = ""
) -> tuple[Series | None, str]:
    """Return the estimated series, or why there is none."""
    try:
        return estimated_series(name, ranks, metric, setting, label), ""
    except CannotEstimate as error:
        return None, f"No estimate is shown: {error}"


def _affordable(metric: Metric, ranks: SampledRanks, setting: ChartSettings) -> tuple[int, ...]:
    """Return the cut-offs of an estimated curve, fewer where corrected values would take much memory."""
    largest = int(ranks.n_pool.max())
    every = curve_cutoffs(metric, largest)
    number = _CELLS // max(tally(ranks, ties=setting.ties, seed=setting.seed).n_cells, 1)
    return every if number >= len(every) else informative_cutoffs(metric, largest, max(number, _FEWEST))


def _limits_of(estimates: Sequence[Estimate], which: str) -> tuple[float, ...]:
    return tuple(
        float(np.nan if (end := getattr(estimate, which)) is None else end) for estimate in estimates
    )


def _value_at_cutoff(series: Series, metric: Metric) -> str:
    """Return the value of a series at the metric's own cut-off."""
    at = series.x.index(float(metric.cutoff or 0))
    interval = f" ({series.low[at]:.4f} to {series.high[at]:.4f})" if series.low else ""
    return f"{series.label} {series.y[at]:.4f}{interval}"


def blind_spot_chart(
    limits: Mapping[str, BoundCurve], *, n_negatives: str, wanted: float = RESOLVED, key: str = "blind-spot"
) -> Chart | None:
    """Return half the width of the bounds along K by model; None where there are no bounds.

    Parameters
    ----------
    limits : bounds of one metric by model
    n_negatives : the size of the sample in words, such as ``99 negatives``
    wanted : half-width up to which a metric counts as resolved
    key : of the chart
    """
    known = {name: curve for name, curve in limits.items() if curve.bounds}
    if not known:
        return None
    kind = family_name(next(iter(known.values())).metric)
    lines = {name: half_widths(curve) for name, curve in known.items()}
    cutoffs = sorted({k for line in lines.values() for k in line})
    blind = {name: unresolved(line, wanted) for name, line in lines.items()}
    sentences = [_blind_sentence(name, blind[name], lines[name], kind, wanted) for name in lines]
    missing = [f"{name}: {curve.why}" for name, curve in limits.items() if not curve.bounds]
    return Chart(
        key=key,
        title=f"Blind spot: which {kind} this sample resolves",
        words=f"Half the width of what {n_negatives} allow, against K. {' '.join(sentences)}",
        x=ChartAxis("K", "log", "count"),
        y=ChartAxis(f"{kind} is known to within \N{PLUS-MINUS SIGN}", low=0.0),
        series=(
            Series(f"wanted: {wanted:g}", (cutoffs[0], cutoffs[-1]), (wanted, wanted), is_dashed=True),
            *(
                Series(name, tuple(map(float, line)), tuple(line.values()), model=name)
                for name, line in lines.items()
            ),
        ),
        spans=tuple(
            Span(low, high, f"not resolved to \N{PLUS-MINUS SIGN}{wanted:g}: K from {_cutoffs(low, high)}")
            for low, high in merged_spans([span for spans in blind.values() for span in spans])
        ),
        notes=(
            "Shaded: K at which the bounds of at least one model are wider than wanted. More negatives, not "
            "a better estimator, make them narrower. A small value can be resolved because it is small.",
            *missing,
        ),
    )


def half_widths(limits: BoundCurve) -> dict[int, float]:
    """Return half the width of each bound by cut-off."""
    return {k: bound.half_width for k, bound in limits.bounds.items()}


def unresolved(line: Mapping[int, float], wanted: float) -> list[tuple[float, float]]:
    """Return the spans of K whose half-width exceeds ``wanted``, interpolated between cut-offs.

    Examples
    --------
    >>> unresolved({1: 0.01, 100: 0.09, 200: 0.10}, 0.05)
    [(10.0, 200.0)]
    >>> unresolved({1: 0.01, 100: 0.02}, 0.05)
    []
    """
    points = list(line.items())
    spans: list[tuple[float, float]] = []
    if len(points) == 1 and points[0][1] > wanted:
        return [(float(points[0][0]), float(points[0][0]))]
    for (left, a), (right, b) in pairwise(points):
        if max(a, b) <= wanted:
            continue
        low, high = float(left), float(right)
        if min(a, b) <= wanted:
            at = (wanted - a) / (b - a)
            crossing = round(math.exp(math.log(left) + at * math.log(right / left)), 6)
            low, high = (crossing, high) if b > wanted else (low, crossing)
        spans.append((low, high))
    return merged_spans(spans)


def merged_spans(spans: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the union of spans as spans that do not overlap.

    Examples
    --------
    >>> merged_spans([(5, 9), (1, 3), (3, 4), (6, 7)])
    [(1, 4), (5, 9)]
    """
    merged: list[tuple[float, float]] = []
    for low, high in sorted(spans):
        if merged and low <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return merged


def _blind_sentence(
    name: str, blind: Sequence[tuple[float, float]], line: Mapping[int, float], kind: str, wanted: float
) -> str:
    if not blind:
        return f"{name}: {kind} is resolved to {wanted:g} at every K shown."
    worst = max(line, key=lambda k: line[k])
    spans = listed_in_words([_cutoffs(low, high) for low, high in blind])
    return (
        f"{name}: {kind} is not resolved to {wanted:g} for K from {spans}; at K = {worst} it is known to "
        f"within {line[worst]:.2f} only."
    )


def _cutoffs(low: float, high: float) -> str:
    """Return a span of K in whole cut-offs."""
    return f"{rounded(math.ceil(low))} to {rounded(math.floor(high))}"
