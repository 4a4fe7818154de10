"""What a chart looks like before it is painted, the same in reports (SVG) and figures (matplotlib).

Each model has one colour and one marker in all charts of a page; several series of one model differ by their
dashes, and what was not measured is dashed or hollow. This module chooses these styles, the points of a line
that get a marker, the order of the legend, and the shades and numbers of heat maps; ``report.axis`` chooses
ranges and ticks. The painters in ``svg`` and ``matplotlib`` turn the result into shapes of their own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from truerank.core.chart import Chart, HeatMap, Mark, Picture, Series, model_mark
from truerank.core.table import MISSING, decimals, fixed
from truerank.report.axis import Axis

# Numbers of dash patterns; further series of one model take the next pattern.
_SOLID = (0, 3, 4)
_DASHED = (1, 2, 5)

_ALL = 12  # lines of up to so many points have a marker at each
_SOME = 5  # longer ones have this many


@dataclass(frozen=True)
class SeriesStyle:
    """How one series is painted.

    Parameters
    ----------
    colour : number of the colour in ``LIGHT`` and ``DARK``; None for the grey of a reference
    marker : shape at its points; None for none
    dash : number of the dash pattern from 0 to 5, 0 for a solid line
    is_hollow : whether markers and bars are empty inside, for what was not measured
    """

    colour: int | None
    marker: Mark | None
    dash: int
    is_hollow: bool


@dataclass(frozen=True)
class ModelStyles:
    """The models of a page in the order that gives them their colours and markers.

    Examples
    --------
    >>> styles = ModelStyles(("ease", "ials"))
    >>> styles.mark_of("ials").shape, styles.mark_of("") is None
    ('square', True)
    """

    models: tuple[str, ...]

    @classmethod
    def of(cls, models: Iterable[str], pictures: Iterable[Picture]) -> ModelStyles:
        """Return known models first, then those that charts add, in the order of appearance."""
        charts = [picture for picture in pictures if isinstance(picture, Chart)]
        added = [series.model for chart in charts for series in chart.series if series.model]
        return cls(tuple(dict.fromkeys([*models, *added])))

    def mark_of(self, model: str) -> Mark | None:
        """Return colour and marker of a model, None for a reference that is no model."""
        return model_mark(self.models.index(model)) if model else None

    def of_series(self, series: Sequence[Series]) -> list[SeriesStyle]:
        """Return the style of each series of a chart; those of one model differ by dashes."""
        styles, seen = list[SeriesStyle](), dict[tuple[str, bool, bool], int]()
        n_bars = sum(line.kind == "bars" for line in series)
        for line in series:
            group = (line.model, line.kind in ("line", "step"), line.is_dashed)
            turn = seen.get(group, 0)
            seen[group] = turn + 1
            patterns = _DASHED if line.is_dashed else _SOLID
            mark = self.mark_of(line.model)
            marker = mark
            if mark is None and line.kind == "dots":  # grey lines need no marker
                marker = model_mark(turn)
            if line.kind == "band" or (line.kind == "bars" and n_bars == 1):
                marker = None
            styles.append(
                SeriesStyle(
                    colour=None if mark is None else mark.colour,
                    marker=marker,
                    dash=patterns[turn % len(patterns)],
                    is_hollow=line.is_dashed,
                )
            )
        return styles


def marked_points(chart: Chart, styles: Sequence[SeriesStyle], x: Axis, y: Axis) -> dict[int, list[int]]:
    """Return which points of each line or step get a marker, by the number of the series.

    All points of a short line; five of a long one, at other positions than those of the other lines.
    """
    lines = [
        number
        for number, (series, style) in enumerate(zip(chart.series, styles, strict=True))
        if series.kind in ("line", "step") and style.marker
    ]
    return {
        number: _marked(chart.series[number], x, y, shift=(turn + 0.5) / len(lines))
        for turn, number in enumerate(lines)
    }


def _marked(series: Series, x: Axis, y: Axis, *, shift: float) -> list[int]:
    """Return the points of one line that get a marker; ``shift`` in [0, 1) moves them along."""
    inside = [
        at for at, (a, b) in enumerate(zip(series.x, series.y, strict=True)) if x.holds(a) and y.holds(b)
    ]
    if len(inside) <= _ALL:
        return inside
    wanted = [100 * (step + shift) / _SOME for step in range(_SOME)]
    nearest = (min(inside, key=lambda at: abs(x.position(series.x[at]) - position)) for position in wanted)
    return sorted(set(nearest))


@dataclass(frozen=True)
class LegendEntry:
    """One line of a legend.

    Parameters
    ----------
    kind : ``line``, ``bars``, ``dots``, ``band`` or ``span``
    label : its text in full
    style : of the series, or of a shaded span
    number : of the series or the span in the chart
    """

    kind: str
    label: str
    style: SeriesStyle
    number: int


def legend_entries(chart: Chart, styles: Sequence[SeriesStyle]) -> Iterator[LegendEntry]:
    """Yield models, then references, then shaded spans."""
    numbers = sorted(range(len(chart.series)), key=lambda number: not chart.series[number].model)
    for number in numbers:
        series = chart.series[number]
        kind = "line" if series.kind == "step" else series.kind
        yield LegendEntry(kind, series.label, styles[number], number)
    shade = SeriesStyle(None, None, 0, is_hollow=False)
    for number, span in enumerate(chart.spans):
        yield LegendEntry("span", span.label, shade, number)


def heat_fraction(chart: HeatMap, value: float) -> float:
    """Return how deep the shade of a value is, from 0 to 1; from 0 to -1 below the middle of the scale.

    Examples
    --------
    >>> tau = HeatMap("t", "", "", ("a",), ("b",), ((0.0,),), "tau", -1, 1, middle=0)
    >>> heat_fraction(tau, 0.2), heat_fraction(tau, -7)
    (0.2, -1.0)
    """
    start = chart.low if chart.middle is None else chart.middle
    if chart.middle is None and value < start:
        return 0.0
    reach = abs((chart.high if value >= start else chart.low) - start)
    fraction = min(abs(value - start) / reach, 1.0) if reach > 0 else 0.0
    return fraction if value >= start else -fraction


def heat_texts(chart: HeatMap) -> list[list[str]]:
    """Return the numbers of the cells: two decimals where the scale is about 1, a dash for none."""
    places = heat_places(chart)
    return [
        [MISSING if value is None or not math.isfinite(value) else fixed(value, places) for value in row]
        for row in chart.values
    ]


def heat_places(chart: HeatMap) -> int:
    """Return the decimals of the numbers of a heat map: two on a scale of about 1, more on a short one."""
    known = [value for row in chart.values for value in row if value is not None and math.isfinite(value)]
    is_short = max(abs(chart.low), abs(chart.high)) < 0.5
    return max(0, decimals([*known, chart.low, chart.high]) - (1 if is_short else 2))


Channels = tuple[float, ...]


def channels(colour: str) -> Channels:
    """Return red, green and blue of ``#rrggbb``, from 0 to 255."""
    return tuple(float(int(colour[at : at + 2], 16)) for at in (1, 3, 5))


def mixed(start: str, end: str, fraction: float) -> Channels:
    """Return the colour at a fraction of the way between two colours, as channels from 0 to 255.

    Examples
    --------
    >>> mixed("#ffffff", "#0000ff", 0.5)
    (127.5, 127.5, 255.0)
    """
    return tuple(a + fraction * (b - a) for a, b in zip(channels(start), channels(end), strict=True))


def text_colour(background: Channels) -> str:
    """Return black or white, whichever has the higher contrast; it is 4.58 at least on any background.

    Examples
    --------
    >>> text_colour(channels("#ffffff")), text_colour(channels("#004bb5"))
    ('#000', '#fff')
    """
    luminance = _luminance(background)
    return "#000" if (luminance + 0.05) / 0.05 >= 1.05 / (luminance + 0.05) else "#fff"


def contrast_ratio(first: Channels, second: Channels) -> float:
    """Return the contrast ratio of two colours, from 1 to 21 (WCAG 2).

    Examples
    --------
    >>> round(contrast_ratio(channels("#000000"), channels("#ffffff")), 6)
    21.0
    """
    low, high = sorted((_luminance(first), _luminance(second)))
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: Channels) -> float:
    fractions = [channel / 255 for channel in colour]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in fractions]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
