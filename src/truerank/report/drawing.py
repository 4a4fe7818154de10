"""A chart as shapes, marks and a legend, ready to be written as SVG."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from truerank.core.chart import Chart, ChartAxis, Series
from truerank.core.number import count_of
from truerank.core.short import shortened
from truerank.report.axis import Axis, chart_axis
from truerank.report.look import Look, Looks
from truerank.report.outline import Point, band_runs, bar_outlines, bar_slot, line_runs, svg_points
from truerank.report.pin import Pin, bar_pins, dot_pins, line_pins
from truerank.report.sheet import Sheet, chart_sheet

_LONGEST_LABEL = 60  # of a legend; the table of the data has the whole name


@dataclass(frozen=True)
class Shape:
    """A line or an area: its classes and its points."""

    tag: Literal["polyline", "polygon"]
    css: str
    points: str


@dataclass(frozen=True)
class Shade:
    """A shaded stretch: its left end and width in percent, and the letter that names it in the legend."""

    left: float
    width: float
    letter: str


@dataclass(frozen=True)
class Entry:
    """One line of the legend: what it looks like and its name, in full where that was shortened."""

    kind: str
    name: str
    full: str
    look: Look
    letter: str = ""


@dataclass(frozen=True)
class Drawing:
    """All that the page needs to show a chart; ``is_cut`` says that something lies beyond its axes."""

    kind = "chart"
    chart: Chart
    x: Axis
    y: Axis
    shapes: tuple[Shape, ...]
    pins: tuple[Pin, ...]
    shades: tuple[Shade, ...]
    legend: tuple[Entry, ...]
    notes: tuple[str, ...]
    data: Sheet
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


def draw_chart(chart: Chart, looks: Looks) -> Drawing:
    """Return the drawing of a chart; models look as they do in all charts of the page."""
    x, y = _across(chart), chart_axis(chart.y, _heights(chart), is_upright=True)
    each = looks.of_series(chart.series)
    n_out, n_lost = _left_out(chart, x, y)
    return Drawing(
        chart=chart,
        x=x,
        y=y,
        shapes=tuple(_shapes(chart.series, each, x, y)),
        pins=(*bar_pins(chart, each, x, y), *line_pins(chart, each, x, y), *dot_pins(chart, each, x, y)),
        shades=tuple(_shades(chart, x)),
        legend=tuple(_legend(chart, each)),
        notes=(*chart.notes, *_warnings(chart, n_out, n_lost)),
        data=chart_sheet(chart),
        is_cut=n_out > 0 or (chart.x.low, chart.x.high) != (None, None),
    )


def _across(chart: Chart) -> Axis:
    """Return the flat axis, with room for half a bar or a dot at its ends."""
    values = [a for one in chart.series for a in one.x]
    named = chart.x
    if named.scale == "linear" and named.unit == "number" and all(float(a).is_integer() for a in values):
        named = replace(named, unit="count")  # no ticks between whole numbers
    axis = chart_axis(named, values)
    bars = [one for one in chart.series if one.look == "bars"]
    dots = [one for one in chart.series if one.look == "dots"]
    slots = [bar_slot(bars, axis) if bars else 0.0, min(bar_slot(dots, axis), 16.0) if dots else 0.0]
    share = max(slots) / 200
    if not values or not share:
        return axis
    if axis.is_log:
        factor = (axis.high / axis.low) ** share
        return chart_axis(named, (*values, axis.low / factor, axis.high * factor))
    room = (axis.high - axis.low) * share
    return chart_axis(named, (*values, axis.low - room, axis.high + room))


def _heights(chart: Chart) -> Iterator[float]:
    for one in chart.series:
        if one.look != "band" or not one.low:
            yield from one.y
        yield from one.low
        yield from one.high
        if one.look == "bars":  # from 0, or on a logarithmic axis from below the lowest
            yield 0.0
            yield min((value / 2 for value in one.y if value > 0), default=0.0)


def _shapes(series: Sequence[Series], looks: Sequence[Look], x: Axis, y: Axis) -> Iterator[Shape]:
    """Yield areas, then bars, then lines: what is thin lies on top."""
    for one, look in zip(series, looks, strict=True):
        if one.look == "band" or (one.look in ("line", "step") and one.low and one.high):
            css = f"bound {look.dash}" if one.look == "band" else "band"
            yield from _each("polygon", f"{css} {look.colour}", band_runs(one, x, y))
    bars = [(one, look) for one, look in zip(series, looks, strict=True) if one.look == "bars"]
    slot = bar_slot([one for one, _ in bars], x)
    for turn, (one, look) in enumerate(bars):
        css = f"bar {look.css}"
        yield from _each("polygon", css, bar_outlines(one, x, y, slot=slot, turn=turn, of=len(bars)))
    for one, look in zip(series, looks, strict=True):
        if one.look in ("line", "step"):
            yield from _each("polyline", f"line {look.dash} {look.colour}", line_runs(one, x, y))


def _each(tag: Literal["polyline", "polygon"], css: str, outlines: list[list[Point]]) -> Iterator[Shape]:
    for outline in outlines:
        yield Shape(tag, css, svg_points(outline))


def _letters(chart: Chart) -> list[str]:
    return [chr(ord("A") + number % 26) for number in range(len(chart.spans))]


def _shades(chart: Chart, x: Axis) -> Iterator[Shade]:
    for span, letter in zip(chart.spans, _letters(chart), strict=True):
        left, right = x.place(x.clip(span.low)), x.place(x.clip(span.high))
        if right > left:
            yield Shade(left, round(right - left, 2), letter)


def _legend(chart: Chart, looks: Sequence[Look]) -> Iterator[Entry]:
    """Yield models, then references, then shaded stretches."""
    for one, look in sorted(zip(chart.series, looks, strict=True), key=lambda entry: not entry[0].model):
        kind = "line" if one.look == "step" else one.look
        yield Entry(kind, shortened(one.label, _LONGEST_LABEL), one.label, look)
    shade = Look("ref", "", "d0", is_hollow=False)
    for span, letter in zip(chart.spans, _letters(chart), strict=True):
        yield Entry("span", shortened(span.label, _LONGEST_LABEL), span.label, shade, letter)


def _left_out(chart: Chart, x: Axis, y: Axis) -> tuple[int, int]:
    """Return how many points lie beyond the axes, and how many have no place at all."""
    points = [
        (a, b)
        for one in chart.series
        if one.look != "band"
        for a, b in zip(one.x, one.y, strict=True)
        if math.isfinite(b)
    ]
    placed = [(a, b) for a, b in points if x.can_place(a) and y.can_place(b)]
    n_out = sum(not (x.holds(a) and y.holds(b)) for a, b in placed)
    return n_out, len(points) - len(placed)


def _warnings(chart: Chart, n_out: int, n_lost: int) -> Iterator[str]:
    if not any(one.x for one in chart.series):
        yield "There is nothing to draw: no series has a point."
    if n_out:
        lies = "lies" if n_out == 1 else "lie"
        yield f"{count_of(n_out, 'point')} {lies} beyond the axes and can be found in the data."
    if n_lost:
        yield (
            f"{count_of(n_lost, 'point')} at 0 or below cannot be shown on a logarithmic axis "
            "and can be found in the data."
        )


def axis_name(axis: ChartAxis) -> str:
    """Return what stands beside an axis.

    Examples
    --------
    >>> axis_name(ChartAxis("K", "log"))
    'K (logarithmic)'
    """
    return f"{axis.label} (logarithmic)" if axis.scale == "log" else axis.label
