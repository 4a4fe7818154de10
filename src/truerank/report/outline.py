"""Series as points of a drawing whose sides are both 1000 long."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from truerank.core.chart import Series
from truerank.report.axis import Axis

Point = tuple[float, float]


def line_runs(series: Series, x: Axis, y: Axis) -> list[list[Point]]:
    """Return the line, cut where a point has no place."""
    return _runs(((a, b) if _fits(x, a, y, b) else None for a, b in _points(series)), x, y, series)


def band_runs(series: Series, x: Axis, y: Axis) -> list[list[Point]]:
    """Return the areas between low and high as closed outlines; ends beyond the axis lie on its edge."""
    lows, highs = series.low or series.y, series.high or series.y
    known = [
        x.can_place(a) and low == low and high == high
        for a, low, high in zip(series.x, lows, highs, strict=True)
    ]
    upper = _runs(_clipped(series.x, highs, known, y), x, y, series)
    lower = _runs(_clipped(series.x, lows, known, y), x, y, series)
    return [up + down[::-1] for up, down in zip(upper, lower, strict=True)]


def bar_outlines(series: Series, x: Axis, y: Axis, *, slot: float, turn: int, of: int) -> list[list[Point]]:
    """Return one rectangle per bar.

    Parameters
    ----------
    slot : width of all bars at one x, in percent
    turn, of : which of how many bars at one x
    """
    base = 1000 - 10 * y.place(y.clip(0.0)) if not y.is_log else 1000.0
    width = 10 * slot / of
    rectangles = []
    for a, b in _points(series):
        if _fits(x, a, y, b):
            left = 10 * (x.place(a) - slot / 2) + turn * width
            top = 1000 - 10 * y.place(b)
            rectangles.append([(left, base), (left, top), (left + width, top), (left + width, base)])
    return rectangles


def bar_middles(series: Series, x: Axis, y: Axis, *, slot: float, turn: int, of: int) -> list[Point]:
    """Return where the tops of the bars have their middle, in percent from the upper left corner."""
    drawn = bar_outlines(series, x, y, slot=slot, turn=turn, of=of)
    return [((bar[1][0] + bar[2][0]) / 20, bar[1][1] / 10) for bar in drawn]


def bar_slot(series: Iterable[Series], x: Axis) -> float:
    """Return the width of all bars at one x, in percent: most of the smallest gap, or what one bar needs."""
    places = sorted({x.place(a) for one in series for a in one.x if x.can_place(a)})
    if len(places) == 1:
        return max(min(20.0, 2 * places[0], 2 * (100 - places[0])), 5.0)
    return 0.86 * min((after - before for before, after in pairwise(places)), default=20.0)


def svg_points(points: Iterable[Point]) -> str:
    """Return points as SVG writes them.

    Examples
    --------
    >>> svg_points([(0, 1000), (12.345, 0.04)])
    '0,1000 12.3,0'
    """
    return " ".join(f"{round(x, 1) + 0.0:g},{round(y, 1) + 0.0:g}" for x, y in points)


def _points(series: Series) -> list[Point]:
    return list(zip(series.x, series.y, strict=True))


def _fits(x: Axis, a: float, y: Axis, b: float) -> bool:
    return x.can_place(a) and y.can_place(b)


def _clipped(
    places: Sequence[float], values: Sequence[float], known: Sequence[bool], y: Axis
) -> list[Point | None]:
    return [
        (a, y.clip(value)) if is_known else None
        for a, value, is_known in zip(places, values, known, strict=True)
    ]


def _runs(points: Iterable[Point | None], x: Axis, y: Axis, series: Series) -> list[list[Point]]:
    """Return stretches without a gap; a step holds each value up to the next x."""
    runs: list[list[Point]] = [[]]
    for point in points:
        if point is None:
            runs.append([])
            continue
        placed = (10 * x.place(point[0]), 1000 - 10 * y.place(point[1]))
        if series.look == "step" and runs[-1]:
            runs[-1].append((placed[0], runs[-1][-1][1]))
        runs[-1].append(placed)
    return [run for run in runs if run]
