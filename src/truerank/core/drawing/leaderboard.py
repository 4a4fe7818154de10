"""The leaderboard: values of all models with their intervals, one panel per metric."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from truerank.core.chart import Chart, ChartAxis, Series
from truerank.core.drawing.panels import draw_panels
from truerank.core.estimate import Estimate
from truerank.core.number import percent
from truerank.core.result import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_leaderboard(result: Result, *, width: float | None = None, columns: int | None = None) -> Figure:
    """Return dots and whiskers of every model, one panel per metric.

    A model that was estimated in several ways has one row for each; exact values come first. Within one
    estimator the best model of the first metric is on top, and the highest value of each metric is bold.

    Parameters
    ----------
    result : what to draw
    width, columns : as in ``draw_panels``

    Raises
    ------
    InvalidData
        When the result holds no estimates.
    """
    ways = _ordered(result)
    labels = {way: way[0] if len({e for _, e in ways}) == 1 else " · ".join(way) for way in ways}
    charts = [_chart(metric, result, ways, labels) for metric in result.metrics()]
    strong = frozenset(
        (metric, labels[model, estimator])
        for metric in result.metrics()
        for model, estimator in ways
        if model in result.best(metric, estimator)
    )
    levels = sorted({e.level for e in result.estimates if e.level is not None and _has_ends(e)})
    caption = f"whiskers: {' and '.join(map(percent, levels))} intervals" if levels else ""
    return draw_panels(
        charts, width=width, columns=columns, models=result.models(), strong=strong, caption=caption
    )


def _chart(
    metric: str, result: Result, ways: list[tuple[str, str]], labels: dict[tuple[str, str], str]
) -> Chart:
    found = {(e.model, e.estimator): e for e in result.estimates if e.metric == metric}
    series = []
    for row, way in enumerate(ways):
        if way in found:
            e = found[way]
            low, high = ((e.low,), (e.high,)) if e.low is not None and e.high is not None else ((), ())
            series.append(Series(labels[way], (row,), (e.value,), low, high, look="dots", model=e.model))
    return Chart(metric, metric, "", ChartAxis("model"), ChartAxis(""), tuple(series))


def _ordered(result: Result) -> list[tuple[str, str]]:
    """Return models with their estimators in the order of the rows."""
    estimators = list(dict.fromkeys(e.estimator for e in result.estimates))
    first = "exact" if "exact" in estimators or not estimators else estimators[-1]
    blocks = [first, *(estimator for estimator in estimators if estimator != first)]
    leading = next(iter(result.metrics()), "")
    values = {(e.model, e.estimator): e.value for e in result.estimates if e.metric == leading}

    def place(way: tuple[str, str]) -> tuple[int, bool, float]:
        value = values.get(way, math.nan)
        return blocks.index(way[1]), math.isnan(value), -value if math.isfinite(value) else 0.0

    return sorted(dict.fromkeys((e.model, e.estimator) for e in result.estimates), key=place)


def _has_ends(estimate: Estimate) -> bool:
    return estimate.low is not None and estimate.high is not None
