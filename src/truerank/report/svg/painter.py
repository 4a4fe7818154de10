"""Charts of the report as SVG: lines, areas and bars as point lists, markers with whiskers, shades, a legend.

The plot is a square of 1000 by 1000 units that the browser stretches to the width of the page;
what must keep its shape, such as markers and text, is placed by percentages instead.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

from truerank.core.chart import Chart, ChartAxis, Series, Unit
from truerank.core.table import count_of, percent, shorten
from truerank.report.axis import Axis, chart_axis
from truerank.report.layout import LegendEntry, ModelStyles, SeriesStyle, legend_entries, marked_points
from truerank.report.shown_table import ShownTable, chart_data_table

Point = tuple[float, float]


def line_paths(series: Series, x: Axis, y: Axis) -> list[list[Point]]:
    """Return the line in pieces, interrupted at points that the axes cannot show."""
    return _paths(((a, b) if _can_show(x, a, y, b) else None for a, b in _points(series)), x, y, series)


def band_paths(series: Series, x: Axis, y: Axis) -> list[list[Point]]:
    """Return the areas between low and high as closed paths, clipped to the axis."""
    lows, highs = series.low or series.y, series.high or series.y
    known = [
        x.can_show(a) and low == low and high == high
        for a, low, high in zip(series.x, lows, highs, strict=True)
    ]
    upper = _paths(_clipped(series.x, highs, known, y), x, y, series)
    lower = _paths(_clipped(series.x, lows, known, y), x, y, series)
    return [up + down[::-1] for up, down in zip(upper, lower, strict=True)]


def bar_paths(series: Series, x: Axis, y: Axis, *, slot: float, turn: int, of: int) -> list[list[Point]]:
    """Return one rectangle per bar.

    Parameters
    ----------
    slot : width of all bars at one x, in percent
    turn, of : which of how many bars at one x
    """
    base = 1000 - 10 * y.position(y.clip(0.0)) if not y.is_log else 1000.0
    width = 10 * slot / of
    rectangles = []
    for a, b in _points(series):
        if _can_show(x, a, y, b):
            left = 10 * (x.position(a) - slot / 2) + turn * width
            top = 1000 - 10 * y.position(b)
            rectangles.append([(left, base), (left, top), (left + width, top), (left + width, base)])
    return rectangles


def bar_middles(series: Series, x: Axis, y: Axis, *, slot: float, turn: int, of: int) -> list[Point]:
    """Return the middles of the tops of the bars, in percent from the upper left corner."""
    bars = bar_paths(series, x, y, slot=slot, turn=turn, of=of)
    return [((bar[1][0] + bar[2][0]) / 20, bar[1][1] / 10) for bar in bars]


def bar_slot(series: Iterable[Series], x: Axis) -> float:
    """Return the width of all bars at one x, in percent: most of the smallest gap, or what one bar needs."""
    positions = sorted({x.position(a) for line in series for a in line.x if x.can_show(a)})
    if len(positions) == 1:
        return max(min(20.0, 2 * positions[0], 2 * (100 - positions[0])), 5.0)
    return 0.86 * min((after - before for before, after in pairwise(positions)), default=20.0)


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


def _can_show(x: Axis, a: float, y: Axis, b: float) -> bool:
    return x.can_show(a) and y.can_show(b)


def _clipped(
    xs: Sequence[float], values: Sequence[float], known: Sequence[bool], y: Axis
) -> list[Point | None]:
    return [
        (a, y.clip(value)) if is_known else None for a, value, is_known in zip(xs, values, known, strict=True)
    ]


def _paths(points: Iterable[Point | None], x: Axis, y: Axis, series: Series) -> list[list[Point]]:
    """Return paths without a gap; a step holds each value up to the next x."""
    runs: list[list[Point]] = [[]]
    for point in points:
        if point is None:
            runs.append([])
            continue
        placed = (10 * x.position(point[0]), 1000 - 10 * y.position(point[1]))
        if series.kind == "step" and runs[-1]:
            runs[-1].append((placed[0], runs[-1][-1][1]))
        runs[-1].append(placed)
    return [run for run in runs if run]


_APART = 11  # pixels between dots at one x
_BAR_MARKERS = 5  # on the bars of one series


def css_classes(style: SeriesStyle) -> str:
    """Return the classes of a mark in the style sheet: its colour, and whether it is hollow.

    Examples
    --------
    >>> css_classes(SeriesStyle(colour=2, marker=None, dash=0, is_hollow=True))
    'c2 hollow'
    """
    return f"{_colour(style)} hollow" if style.is_hollow else _colour(style)


def _colour(style: SeriesStyle) -> str:
    return "ref" if style.colour is None else f"c{style.colour}"


@dataclass(frozen=True)
class PlacedMarker:
    """One marker with its whisker.

    Parameters
    ----------
    style : of its series
    x, y : position in percent from the upper left corner
    shift : pixels to the right, so that dots at one x do not hide each other
    whisker : upper and lower limit in percent from above; None without an interval
    words : the point in words
    """

    style: SeriesStyle
    x: float
    y: float
    words: str
    shift: float = 0.0
    whisker: tuple[float, float] | None = None


def dot_markers(chart: Chart, styles: Sequence[SeriesStyle], x: Axis, y: Axis) -> list[PlacedMarker]:
    """Return the dots of all series that stand alone.

    Dots of models at one x stand side by side; a grey reference stays at its x, behind later series.
    """
    series = [(line, style) for line, style in zip(chart.series, styles, strict=True) if line.kind == "dots"]
    shared: dict[float, list[int]] = {}  # by x which models have a dot there
    for number, (line, _) in enumerate(series):
        for a in dict.fromkeys(line.x if line.model else ()):
            shared.setdefault(a, []).append(number)
    markers = []
    for number, (line, style) in enumerate(series):
        for at, (a, b) in enumerate(zip(line.x, line.y, strict=True)):
            if not (x.holds(a) and y.holds(b)):
                continue
            rivals = shared[a] if line.model else [number]
            apart = min(_APART, 90 / len(rivals))
            markers.append(
                PlacedMarker(
                    style,
                    x.position(a),
                    _from_above(y, b),
                    _point_text(chart, line, at),
                    round((rivals.index(number) - (len(rivals) - 1) / 2) * apart, 1),
                    _whisker(line, at, y),
                )
            )
    return markers


def line_markers(chart: Chart, styles: Sequence[SeriesStyle], x: Axis, y: Axis) -> list[PlacedMarker]:
    """Return the markers along lines and steps."""
    return [
        PlacedMarker(
            styles[number],
            x.position(chart.series[number].x[at]),
            _from_above(y, chart.series[number].y[at]),
            _point_text(chart, chart.series[number], at),
        )
        for number, points in marked_points(chart, styles, x, y).items()
        for at in points
    ]


def bar_markers(chart: Chart, styles: Sequence[SeriesStyle], x: Axis, y: Axis) -> list[PlacedMarker]:
    """Return markers on some bars of each series, where there are several."""
    bars = [(line, style) for line, style in zip(chart.series, styles, strict=True) if line.kind == "bars"]
    slot = bar_slot([line for line, _ in bars], x)
    markers = []
    for turn, (line, style) in enumerate(bars):
        tops = bar_middles(line, x, y, slot=slot, turn=turn, of=len(bars)) if style.marker else []
        stride = max(1, -(-len(tops) // _BAR_MARKERS))
        markers += [
            PlacedMarker(style, round(left, 2), round(top, 2), line.label) for left, top in tops[::stride]
        ]
    return markers


def _from_above(y: Axis, value: float) -> float:
    return round(100 - y.position(value), 2)


def _whisker(series: Series, at: int, y: Axis) -> tuple[float, float] | None:
    limits = [limits[at] for limits in (series.low, series.high) if limits]
    if not limits or any(math.isnan(end) for end in limits):
        return None
    low, high = min(limits), max(limits)
    return _from_above(y, y.clip(high)), _from_above(y, y.clip(low))


def _point_text(chart: Chart, series: Series, at: int) -> str:
    interval = ""
    if series.low and series.high:
        low, high = (_number(end[at], chart.y.unit) for end in (series.low, series.high))
        interval = f" ({low} to {high})"
    at_x = f"{chart.x.label} {_number(series.x[at], chart.x.unit)}"
    return f"{series.label}, {at_x}: {_number(series.y[at], chart.y.unit)}{interval}"


def _number(value: float, unit: Unit) -> str:
    if unit == "share" and math.isfinite(value):
        return percent(float(f"{value:.4g}"))
    return f"{value:,.0f}" if unit == "count" and math.isfinite(value) else f"{value:.4g}"


_LONGEST_LABEL = 60  # of a legend; the table of the data has the whole name


@dataclass(frozen=True)
class Shape:
    """A line or an area: its classes and its points."""

    tag: Literal["polyline", "polygon"]
    css: str
    points: str


@dataclass(frozen=True)
class ShadedSpan:
    """A shaded span of x: left edge and width in percent, and its letter in the legend."""

    left: float
    width: float
    letter: str


@dataclass(frozen=True)
class LegendLine:
    """One line of the legend: its entry, its name, shortened where it is long, and the letter of a shade."""

    entry: LegendEntry
    name: str
    letter: str = ""


@dataclass(frozen=True)
class PaintedChart:
    """All that the page needs to show a chart; ``is_cut`` is true where points lie beyond its axes."""

    kind = "chart"
    chart: Chart
    x: Axis
    y: Axis
    shapes: tuple[Shape, ...]
    markers: tuple[PlacedMarker, ...]
    shades: tuple[ShadedSpan, ...]
    legend: tuple[LegendLine, ...]
    notes: tuple[str, ...]
    data: ShownTable
    is_cut: bool

    @property
    def margin(self) -> int:
        """Letters of the longest label of the upright axis."""
        return min(12, max((len(tick.label) for tick in self.y.ticks), default=1))

    @property
    def words(self) -> str:
        """What can be seen, for those who cannot see it."""
        return self.chart.words or self.chart.title

    @property
    def is_wide(self) -> bool:
        """Whether it needs the whole width of a page."""
        return len(self.legend) > 8


def paint_chart(chart: Chart, styles: ModelStyles) -> PaintedChart:
    """Return a chart as shapes; models have the colours and markers of all charts of the page."""
    x, y = _x_axis(chart), chart_axis(chart.y, _heights(chart), is_vertical=True)
    series_styles = styles.of_series(chart.series)
    n_out, n_lost = _count_unshown(chart, x, y)
    return PaintedChart(
        chart=chart,
        x=x,
        y=y,
        shapes=tuple(_shapes(chart.series, series_styles, x, y)),
        markers=(
            *bar_markers(chart, series_styles, x, y),
            *line_markers(chart, series_styles, x, y),
            *dot_markers(chart, series_styles, x, y),
        ),
        shades=tuple(_shades(chart, x)),
        legend=tuple(_legend(chart, series_styles)),
        notes=(*chart.notes, *_warnings(chart, n_out, n_lost)),
        data=chart_data_table(chart),
        is_cut=n_out > 0 or (chart.x.low, chart.x.high) != (None, None),
    )


def _x_axis(chart: Chart) -> Axis:
    """Return the horizontal axis, with room for half a bar or a dot on both sides."""
    values = [a for line in chart.series for a in line.x]
    named = chart.x
    if named.scale == "linear" and named.unit == "number" and all(float(a).is_integer() for a in values):
        named = replace(named, unit="count")  # no ticks between whole numbers
    axis = chart_axis(named, values)
    bars = [line for line in chart.series if line.kind == "bars"]
    dots = [line for line in chart.series if line.kind == "dots"]
    slots = [bar_slot(bars, axis) if bars else 0.0, min(bar_slot(dots, axis), 16.0) if dots else 0.0]
    fraction = max(slots) / 200
    if not values or not fraction:
        return axis
    if axis.is_log:
        factor = (axis.high / axis.low) ** fraction
        return chart_axis(named, (*values, axis.low / factor, axis.high * factor))
    room = (axis.high - axis.low) * fraction
    return chart_axis(named, (*values, axis.low - room, axis.high + room))


def _heights(chart: Chart) -> Iterator[float]:
    for line in chart.series:
        if line.kind != "band" or not line.low:
            yield from line.y
        yield from line.low
        yield from line.high
        if line.kind == "bars":  # from 0, or on a logarithmic axis from below the lowest
            yield 0.0
            yield min((value / 2 for value in line.y if value > 0), default=0.0)


def _shapes(series: Sequence[Series], styles: Sequence[SeriesStyle], x: Axis, y: Axis) -> Iterator[Shape]:
    """Yield areas, then bars, then lines: what is thin lies on top."""
    for line, style in zip(series, styles, strict=True):
        if line.kind == "band" or (line.kind in ("line", "step") and line.low and line.high):
            css = f"bound d{style.dash}" if line.kind == "band" else "band"
            yield from _as_shapes("polygon", f"{css} {_colour(style)}", band_paths(line, x, y))
    bars = [(line, style) for line, style in zip(series, styles, strict=True) if line.kind == "bars"]
    slot = bar_slot([line for line, _ in bars], x)
    for turn, (line, style) in enumerate(bars):
        css = f"bar {css_classes(style)}"
        yield from _as_shapes("polygon", css, bar_paths(line, x, y, slot=slot, turn=turn, of=len(bars)))
    for line, style in zip(series, styles, strict=True):
        if line.kind in ("line", "step"):
            yield from _as_shapes("polyline", f"line d{style.dash} {_colour(style)}", line_paths(line, x, y))


def _as_shapes(tag: Literal["polyline", "polygon"], css: str, outlines: list[list[Point]]) -> Iterator[Shape]:
    for outline in outlines:
        yield Shape(tag, css, svg_points(outline))


def _letter(number: int) -> str:
    return chr(ord("A") + number % 26)


def _shades(chart: Chart, x: Axis) -> Iterator[ShadedSpan]:
    for number, span in enumerate(chart.spans):
        left, right = x.position(x.clip(span.low)), x.position(x.clip(span.high))
        if right > left:
            yield ShadedSpan(left, round(right - left, 2), _letter(number))


def _legend(chart: Chart, styles: Sequence[SeriesStyle]) -> Iterator[LegendLine]:
    for entry in legend_entries(chart, styles):
        letter = _letter(entry.number) if entry.kind == "span" else ""
        yield LegendLine(entry, shorten(entry.label, _LONGEST_LABEL), letter)


def _count_unshown(chart: Chart, x: Axis, y: Axis) -> tuple[int, int]:
    """Return how many points lie beyond the axes, and how many a logarithmic axis cannot show."""
    points = [
        (a, b)
        for line in chart.series
        if line.kind != "band"
        for a, b in zip(line.x, line.y, strict=True)
        if math.isfinite(b)
    ]
    placed = [(a, b) for a, b in points if x.can_show(a) and y.can_show(b)]
    n_out = sum(not (x.holds(a) and y.holds(b)) for a, b in placed)
    return n_out, len(points) - len(placed)


def _warnings(chart: Chart, n_out: int, n_lost: int) -> Iterator[str]:
    if not any(line.x for line in chart.series):
        yield "This chart is empty: no series has a point."
    if n_out:
        lies = "lies" if n_out == 1 else "lie"
        yield f"{count_of(n_out, 'point')} {lies} beyond the axes and can be found in the data."
    if n_lost:
        yield (
            f"{count_of(n_lost, 'point')} at 0 or below cannot be shown on a logarithmic axis "
            "and can be found in the data."
        )


def axis_name(axis: ChartAxis) -> str:
    """Return the name of an axis with its scale.

    Examples
    --------
    >>> axis_name(ChartAxis("K", "log"))
    'K (logarithmic)'
    """
    return f"{axis.label} (logarithmic)" if axis.scale == "log" else axis.label
