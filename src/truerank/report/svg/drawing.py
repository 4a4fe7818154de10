"""A chart as shapes, marks and a legend, ready to be written as SVG.

Series as points of a drawing whose sides are both 1000 long.

Marks at points: dots with whiskers, and the markers that tell lines apart.

How series look: colour, marker and dashes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

from truerank.core.chart import Chart, ChartAxis, Mark, Picture, Series, Unit, model_mark
from truerank.core.table import count_of, percent, shorten
from truerank.report.sections import ShownTable, chart_sheet
from truerank.report.svg.axis import Axis, chart_axis

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


# Names of the dash patterns in the style sheet; further series of one model take the next pattern.
_SOLID = ("d0", "d3", "d4")
_DASHED = ("d1", "d2", "d5")


@dataclass(frozen=True)
class Look:
    """How one series is drawn.

    Parameters
    ----------
    colour : class of its colour
    outline : path of its marker; empty for none
    dash : class of its dash pattern
    is_hollow : whether its marks are empty inside, for what was not measured
    """

    colour: str
    outline: str
    dash: str
    is_hollow: bool

    @property
    def css(self) -> str:
        """Classes of a mark."""
        return f"{self.colour} hollow" if self.is_hollow else self.colour


@dataclass(frozen=True)
class Looks:
    """The models of a page; each has one colour and one marker in all its charts.

    Examples
    --------
    >>> looks = Looks(("ease", "ials"))
    >>> looks.mark_of("ials").shape, looks.mark_of("") is None
    ('square', True)
    """

    models: tuple[str, ...]

    @classmethod
    def of(cls, models: Iterable[str], pictures: Iterable[Picture]) -> Looks:
        """Return the looks of known models, then of those that charts add, in the order of appearance."""
        charts = [picture for picture in pictures if isinstance(picture, Chart)]
        added = [series.model for chart in charts for series in chart.series if series.model]
        return cls(tuple(dict.fromkeys([*models, *added])))

    def mark_of(self, model: str) -> Mark | None:
        """Return the mark of a model, None for a reference that is no model."""
        return model_mark(self.models.index(model)) if model else None

    def of_series(self, series: Sequence[Series]) -> list[Look]:
        """Return the look of each series of a chart; those of one model differ by dashes."""
        found, seen = list[Look](), dict[tuple[str, bool, bool], int]()
        n_bars = sum(one.look == "bars" for one in series)
        for one in series:
            kind = (one.model, one.look in ("line", "step"), one.is_dashed)
            turn = seen.get(kind, 0)
            seen[kind] = turn + 1
            patterns = _DASHED if one.is_dashed else _SOLID
            model = self.mark_of(one.model)
            shape = _reference_outline(one, turn) if model is None else model.outline
            found.append(
                Look(
                    colour="ref" if model is None else f"c{model.colour}",
                    outline="" if one.look == "band" or (one.look == "bars" and n_bars == 1) else shape,
                    dash=patterns[turn % len(patterns)],
                    is_hollow=one.is_dashed,
                )
            )
        return found


def _reference_outline(series: Series, turn: int) -> str:
    """Return a shape for grey dots; a grey line speaks for itself."""
    return model_mark(turn).outline if series.look == "dots" else ""


_ALL = 12  # lines of up to so many points have a marker at each
_SOME = 5  # longer ones have this many
_APART = 11  # pixels between dots at one x


@dataclass(frozen=True)
class Pin:
    """One mark.

    Parameters
    ----------
    look : colour and shape
    x, y : place in percent from the upper left corner
    shift : pixels to the right, so that dots at one x do not hide each other
    whisker : upper and lower end in percent from above; None without an interval
    words : the point in words
    """

    look: Look
    x: float
    y: float
    words: str
    shift: float = 0.0
    whisker: tuple[float, float] | None = None


def dot_pins(chart: Chart, looks: Sequence[Look], x: Axis, y: Axis) -> list[Pin]:
    """Return the dots of all series that stand alone.

    Dots of models at one x stand side by side; a grey reference stays at its x, behind later series.
    """
    series = [(one, look) for one, look in zip(chart.series, looks, strict=True) if one.look == "dots"]
    shared: dict[float, list[int]] = {}  # by x which models have a dot there
    for number, (one, _) in enumerate(series):
        for a in dict.fromkeys(one.x if one.model else ()):
            shared.setdefault(a, []).append(number)
    pins = []
    for number, (one, look) in enumerate(series):
        for at, (a, b) in enumerate(zip(one.x, one.y, strict=True)):
            if not (x.holds(a) and y.holds(b)):
                continue
            rivals = shared[a] if one.model else [number]
            apart = min(_APART, 90 / len(rivals))
            pins.append(
                Pin(
                    look,
                    x.place(a),
                    _from_above(y, b),
                    _words(chart, one, at),
                    round((rivals.index(number) - (len(rivals) - 1) / 2) * apart, 1),
                    _whisker(one, at, y),
                )
            )
    return pins


def line_pins(chart: Chart, looks: Sequence[Look], x: Axis, y: Axis) -> list[Pin]:
    """Return markers along the lines, at different places for different lines."""
    lines = [
        (one, look)
        for one, look in zip(chart.series, looks, strict=True)
        if one.look in ("line", "step") and look.outline
    ]
    return [
        Pin(look, x.place(one.x[at]), _from_above(y, one.y[at]), _words(chart, one, at))
        for number, (one, look) in enumerate(lines)
        for at in _chosen(one, x, y, turn=(number + 0.5) / len(lines))
    ]


def bar_pins(chart: Chart, looks: Sequence[Look], x: Axis, y: Axis) -> list[Pin]:
    """Return markers on some bars of each series, where there are several."""
    bars = [(one, look) for one, look in zip(chart.series, looks, strict=True) if one.look == "bars"]
    slot = bar_slot([one for one, _ in bars], x)
    pins = []
    for turn, (one, look) in enumerate(bars):
        tops = bar_middles(one, x, y, slot=slot, turn=turn, of=len(bars)) if look.outline else []
        stride = max(1, -(-len(tops) // _SOME))
        pins += [Pin(look, round(left, 2), round(top, 2), one.label) for left, top in tops[::stride]]
    return pins


def _chosen(series: Series, x: Axis, y: Axis, *, turn: float) -> list[int]:
    """Return which points get a marker; ``turn`` in [0, 1) shifts them."""
    inside = [
        at for at, (a, b) in enumerate(zip(series.x, series.y, strict=True)) if x.holds(a) and y.holds(b)
    ]
    if len(inside) <= _ALL:
        return inside
    wanted = [100 * (step + turn) / _SOME for step in range(_SOME)]
    nearest = (min(inside, key=lambda at: abs(x.place(series.x[at]) - place)) for place in wanted)
    return sorted(set(nearest))


def _from_above(y: Axis, value: float) -> float:
    return round(100 - y.place(value), 2)


def _whisker(series: Series, at: int, y: Axis) -> tuple[float, float] | None:
    ends = [ends[at] for ends in (series.low, series.high) if ends]
    if not ends or any(math.isnan(end) for end in ends):
        return None
    low, high = min(ends), max(ends)
    return _from_above(y, y.clip(high)), _from_above(y, y.clip(low))


def _words(chart: Chart, series: Series, at: int) -> str:
    ends = ""
    if series.low and series.high:
        low, high = (_number(end[at], chart.y.unit) for end in (series.low, series.high))
        ends = f" ({low} to {high})"
    place = f"{chart.x.label} {_number(series.x[at], chart.x.unit)}"
    return f"{series.label}, {place}: {_number(series.y[at], chart.y.unit)}{ends}"


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
class Shade:
    """A shaded stretch: its left end and width in percent, and the letter that names it in the legend."""

    left: float
    width: float
    letter: str


@dataclass(frozen=True)
class LegendEntry:
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
    legend: tuple[LegendEntry, ...]
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


def _legend(chart: Chart, looks: Sequence[Look]) -> Iterator[LegendEntry]:
    """Yield models, then references, then shaded stretches."""
    for one, look in sorted(zip(chart.series, looks, strict=True), key=lambda entry: not entry[0].model):
        kind = "line" if one.look == "step" else one.look
        yield LegendEntry(kind, shorten(one.label, _LONGEST_LABEL), one.label, look)
    shade = Look("ref", "", "d0", is_hollow=False)
    for span, letter in zip(chart.spans, _letters(chart), strict=True):
        yield LegendEntry("span", shorten(span.label, _LONGEST_LABEL), span.label, shade, letter)


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
