"""Panels of dots with whiskers, one row per model or pair: leaderboards and forest charts of differences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from truerank.core.chart import Chart, ChartAxis, Series
from truerank.core.errors import InvalidData
from truerank.core.result import Result
from truerank.core.table import decimals, fixed, percent, shorten
from truerank.report.layout import ModelStyles
from truerank.report.leaderboard import Leaderboard, build_leaderboard, interval_of
from truerank.report.matplotlib.axes import (
    COLUMN,
    DASHES,
    INK,
    LETTER,
    MIDDLE,
    PAGE,
    SMALL,
    colour_of,
    escape_dollars,
    folded,
    set_axis,
    style_axes,
    width_of,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_LEAST, _GOOD = 1.3, 1.9  # inches of a panel
_ROW = 0.3
_LONGEST = 40  # letters of a name


def plot_panels(
    charts: Sequence[Chart],
    *,
    width: float | None = None,
    columns: int | None = None,
    models: Sequence[str] = (),
    strong: frozenset[tuple[str, str]] = frozenset(),
    caption: str = "",
) -> Figure:
    """Return charts of dots turned on their side: x counts rows from the top, y goes across.

    The rows have the names of the series that have a model. Grey dots become wide bars, lines stay lines.

    Parameters
    ----------
    charts : one per panel, with the same rows
    width : inches; as many as the panels need by default, from one column of a paper to both
    columns : panels side by side; as many as fit by default
    models : names in the order that gives them their colours
    strong : values to print bold, as (key of the chart, label of the series)
    caption : what to write below

    Raises
    ------
    InvalidData
        When there is no chart.
    """
    from truerank.report.matplotlib.figure import make_canvas

    if not charts:
        raise InvalidData("a figure needs at least one estimate or difference, but there is none.")
    names = {
        series.x[0]: series.label for chart in charts for series in chart.series if series.model and series.x
    }
    longest = _LONGEST if width is None else max(12, int(0.5 * width / (LETTER * MIDDLE)))
    beside = width_of(names.values(), longest=longest) + 0.15
    across = min(columns or len(charts), len(charts))
    if width is None:
        wide = max(COLUMN, beside + _GOOD * across)
        wide = wide if columns else min(wide, PAGE)
    else:
        wide = width
    if columns is None:
        across = max(1, min(across, int((wide - beside) / _LEAST)))
    down = -(-len(charts) // across)
    across = -(-len(charts) // down) if columns is None else across
    n_rows = len(names)
    figure: Figure = make_canvas(
        wide, down * (0.62 + _ROW * n_rows) + 0.15 * (1 + folded(caption, wide, SMALL).count("\n"))
    )
    grid = figure.subplots(down, across, sharey=True, squeeze=False)
    styles = ModelStyles.of(models, charts)
    for axes, chart in zip(grid.flat, charts, strict=False):
        bold = {label for key, label in strong if key == chart.key}
        _plot_panel(axes, chart, styles, bold, (wide - beside) / across)
    for axes in grid.flat[len(charts) :]:
        axes.remove()
    for axes in figure.axes:
        axes.set_ylim(max(names, default=1) + 0.6, min(names, default=1) - 0.75)
        axes.set_yticks(list(names), [shorten(name, longest) for name in names.values()])
        axes.tick_params(axis="y", labelsize=MIDDLE)
        escape_dollars(axes.get_yticklabels())
    if caption:
        figure.supxlabel(folded(caption, wide, SMALL), fontsize=SMALL, color=INK, parse_math=False)
    return figure


def _plot_panel(axes: Axes, chart: Chart, styles: ModelStyles, bold: set[str], wide: float) -> None:
    from matplotlib.patheffects import withStroke

    style_axes(axes, grid="x", title=chart.title, wide=wide)
    values = [value for series in chart.series for value in (*series.y, *series.low, *series.high)]
    set_axis(axes, "x", chart.y, values, wide=wide, most=5, room=0.15)
    known = [y for series in chart.series if series.model for y in series.y if math.isfinite(y)]
    places = decimals(known)
    for position, (series, style) in enumerate(
        zip(chart.series, styles.of_series(chart.series), strict=True)
    ):
        depth, colour = 2 + 0.1 * position, colour_of(style)
        if series.kind != "dots":
            axes.plot(
                series.y, series.x, color=colour, linewidth=1.0, linestyle=DASHES[style.dash], zorder=depth
            )
            continue
        _plot_whiskers(axes, series, colour, depth)
        if not series.model or style.marker is None:
            continue
        axes.plot(
            series.y,
            series.x,
            style.marker.code,
            color=colour,
            markersize=5.5,
            markeredgewidth=0,
            zorder=depth + 0.01,
        )
        for x, y in zip(series.x, series.y, strict=True):
            if math.isfinite(y):
                axes.annotate(
                    fixed(y, places),
                    (y, x),
                    xytext=(0, 5),
                    textcoords="offset points",
                    ha="center",
                    fontsize=SMALL,
                    fontweight="bold" if series.label in bold else "normal",
                    color=INK,
                    zorder=9,
                    path_effects=[withStroke(linewidth=2, foreground="white")],
                )


def _plot_whiskers(axes: Axes, series: Series, colour: str, depth: float) -> None:
    thick, alpha = (1.5, 1.0) if series.model else (6.0, 0.3)
    for x, low, high in zip(series.x, series.low, series.high, strict=False):
        if math.isfinite(low) and math.isfinite(high):
            axes.plot(
                (low, high),
                (x, x),
                color=colour,
                linewidth=thick,
                alpha=alpha,
                solid_capstyle="butt",
                zorder=depth,
            )


def plot_leaderboard(result: Result, *, width: float | None = None, columns: int | None = None) -> Figure:
    """Return dots and whiskers of every model, one panel per metric.

    A model that was estimated in several ways has one row for each; exact values come first. Within one
    estimator the best model of the first metric is on top. The highest value of each metric is bold, and so
    are those not distinguishable from it.

    Parameters
    ----------
    result : what to plot
    width, columns : as in ``plot_panels``

    Raises
    ------
    InvalidData
        When the result holds no estimates.
    """
    board = build_leaderboard(result)
    strong = frozenset(
        (metric, row.label)
        for metric in board.metrics
        for row in board.rows
        if row.model in result.best(metric, row.estimator)
    )
    levels = sorted({e.level for e in result.estimates if e.level is not None and interval_of(e)})
    caption = f"whiskers: {' and '.join(map(percent, levels))} intervals" if levels else ""
    return plot_panels(
        [_metric_chart(metric, board) for metric in board.metrics],
        width=width,
        columns=columns,
        models=result.models(),
        strong=strong,
        caption=caption,
    )


def _metric_chart(metric: str, board: Leaderboard) -> Chart:
    """Return one metric of the leaderboard: x numbers the rows from the top."""
    column, series = board.metrics.index(metric), []
    for number, row in enumerate(board.rows):
        cell = row.cells[column]
        if cell is not None:
            interval = interval_of(cell.estimate)
            low, high = ((interval[0],), (interval[1],)) if interval else ((), ())
            value = cell.estimate.value
            series.append(Series(row.label, (number,), (value,), low, high, kind="dots", model=row.model))
    return Chart(metric, metric, "", ChartAxis("model"), ChartAxis(""), tuple(series))
