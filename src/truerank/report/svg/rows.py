"""Charts whose points are rows: a name above each dot, its whisker and the grey bounds behind it, y across.

Names stand above their rows and numbers beside them, so that a row needs no legend and fits a phone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from truerank.core.chart import GROUP_MARK, Chart, Series
from truerank.core.table import LONGEST_NAME, decimals, fixed, shorten
from truerank.report.axis import Axis, linear_axis
from truerank.report.layout import ModelStyles, SeriesStyle
from truerank.report.shown_table import ShownTable, chart_data_table

#: Pixels of a row, and of the name of a group above its first row.
ROW_HEIGHT, HEADING_HEIGHT = 47, 24


@dataclass(frozen=True)
class PaintedRow:
    """One row of a chart.

    Parameters
    ----------
    top : where it begins, in pixels
    group : the group that begins with it, above its name; empty within a group, and where there are none
    name, text, words : its label, shortened where it is long; its number; both with the interval
    style : colour and marker
    place : of the dot, in percent of the width
    whisker, bound : limits of the interval and of what stands behind it in grey; None without
    """

    top: int
    group: str
    name: str
    text: str
    words: str
    style: SeriesStyle
    place: float
    whisker: tuple[float, float] | None
    bound: tuple[float, float] | None


@dataclass(frozen=True)
class PaintedRows:
    """All that the page needs to show a chart of rows; ``zero`` is where the dashed line stands, or None."""

    kind = "rows"
    is_wide = False
    chart: Chart
    axis: Axis
    rows: tuple[PaintedRow, ...]
    height: int
    zero: float | None
    data: ShownTable

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences below the chart."""
        return self.chart.notes

    @property
    def words(self) -> str:
        """What can be seen, for those who cannot see it."""
        return self.chart.words or self.chart.title


def paint_rows(chart: Chart, styles: ModelStyles) -> PaintedRows:
    """Return a chart of rows: a series with a model is a row, grey dots are bounds, a line is the zero."""
    values = [
        value
        for series in chart.series
        for value in (*series.y, *series.low, *series.high)
        if math.isfinite(value)
    ]
    axis = linear_axis(min(values, default=0.0), max(values, default=1.0))
    grey = [series for series in chart.series if not series.model]
    bounds = {
        x: (low, high)
        for series in grey
        if series.kind == "dots"
        for x, low, high in zip(series.x, series.low, series.high, strict=True)
    }
    dots = [
        (series, style)
        for series, style in zip(chart.series, styles.of_series(chart.series), strict=True)
        if series.model and series.y and math.isfinite(series.y[0])
    ]
    places = decimals([series.y[0] for series, _ in dots])
    lines = [series for series in grey if series.kind == "line" and series.y]
    write = _signed if lines else fixed  # differences have a line at 0
    rows, top, before = [], 0, ""
    for series, style in dots:
        group, mark, _ = series.label.partition(GROUP_MARK)
        row = _row(series, style, axis, partial(write, places=places), bounds.get(series.x[0]))
        row = replace(row, top=top, group=group if mark and group != before else "")
        rows.append(row)
        top, before = top + ROW_HEIGHT + (HEADING_HEIGHT if row.group else 0), group
    return PaintedRows(
        chart=chart,
        axis=axis,
        rows=tuple(rows),
        height=top,
        zero=axis.position(lines[0].y[0]) if lines else None,
        data=chart_data_table(chart),
    )


def _row(
    series: Series,
    style: SeriesStyle,
    axis: Axis,
    write: Callable[[float], str],
    bound: tuple[float, float] | None,
) -> PaintedRow:
    value = series.y[0]
    limits = (series.low[0], series.high[0]) if series.low and series.high else None
    if limits is not None and not all(map(math.isfinite, limits)):
        limits = None
    text = write(value)
    between = "" if limits is None else f" ({write(limits[0])} to {write(limits[1])})"
    return PaintedRow(
        top=0,
        group="",
        name=short_pair(series.label.partition(GROUP_MARK)[2] or series.label),
        text=text,
        words=f"{series.label}: {text}{between}",
        style=style,
        place=axis.position(value),
        whisker=_on(axis, limits),
        bound=_on(axis, bound),
    )


def short_pair(label: str, longest: int = LONGEST_NAME) -> str:
    """Return the name of a row, both sides of a pair shortened where it is too long for a phone.

    Examples
    --------
    >>> short_pair("item-knn(power=3, norm=l2) \N{MINUS SIGN} ease(reg=500)")[:12]
    'item-kn…=l2)'
    """
    first, between, second = label.partition(" \N{MINUS SIGN} ")
    if len(label) <= longest or not between:
        return shorten(label, longest)
    room = longest - len(between)
    half = room // 2
    for_first = room - len(second) if len(second) < half else min(len(first), half)
    return f"{shorten(first, for_first)}{between}{shorten(second, room - for_first)}"


def _signed(value: float, places: int) -> str:
    return ("+" if value > 0 else "") + fixed(value, places)


def _on(axis: Axis, limits: tuple[float, float] | None) -> tuple[float, float] | None:
    return None if limits is None else (axis.position(limits[0]), axis.position(limits[1]))
