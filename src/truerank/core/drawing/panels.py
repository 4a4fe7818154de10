"""Dots and whiskers in rows, one panel per chart: leaderboards and forests of differences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from truerank.core.chart import Chart, Series
from truerank.core.drawing.style import (
    COLUMN,
    INK,
    LETTER,
    MIDDLE,
    PAGE,
    SMALL,
    colour_of,
    dress,
    folded,
    model_marks,
    plain,
    room_for,
)
from truerank.core.drawing.ticks import set_axis
from truerank.core.errors import InvalidData
from truerank.core.number import decimals, fixed
from truerank.core.palette import Mark
from truerank.core.short import shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LEAST, _GOOD = 1.3, 1.9  # inches of a panel
_ROW = 0.3
_LONGEST = 40  # letters of a name


def draw_panels(
    charts: Sequence[Chart],
    *,
    width: float | None = None,
    columns: int | None = None,
    models: Sequence[str] = (),
    strong: frozenset[tuple[str, str]] = frozenset(),
    caption: str = "",
) -> Figure:
    """Return charts of dots turned on their side: x counts rows from the top, y goes across.

    The rows have the names of the series that have a model. Grey dots are drawn as wide bars, lines as lines.

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
    from truerank.core.drawing.canvas import make_canvas

    if not charts:
        raise InvalidData("a figure needs at least one estimate or difference, but there is none.")
    names = {one.x[0]: one.label for chart in charts for one in chart.series if one.model and one.x}
    longest = _LONGEST if width is None else max(12, int(0.5 * width / (LETTER * MIDDLE)))
    beside = room_for(names.values(), longest=longest) + 0.15
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
    drawn: Figure = make_canvas(
        wide, down * (0.62 + _ROW * n_rows) + 0.15 * (1 + folded(caption, wide, SMALL).count("\n"))
    )
    grid = drawn.subplots(down, across, sharey=True, squeeze=False)
    marks = model_marks((one for chart in charts for one in chart.series), models)
    for axes, chart in zip(grid.flat, charts, strict=False):
        bold = {label for key, label in strong if key == chart.key}
        _draw_panel(axes, chart, marks, bold, (wide - beside) / across)
    for axes in grid.flat[len(charts) :]:
        axes.remove()
    for axes in drawn.axes:
        axes.set_ylim(max(names, default=1) + 0.6, min(names, default=1) - 0.75)
        axes.set_yticks(list(names), [shortened(name, longest) for name in names.values()])
        axes.tick_params(axis="y", labelsize=MIDDLE)
        plain(axes.get_yticklabels())
    if caption:
        drawn.supxlabel(folded(caption, wide, SMALL), fontsize=SMALL, color=INK, parse_math=False)
    return drawn


def _draw_panel(axes: Axes, chart: Chart, marks: dict[str, Mark], bold: set[str], wide: float) -> None:
    from matplotlib.patheffects import withStroke

    dress(axes, grid="x", title=chart.title, wide=wide)
    values = [value for one in chart.series for value in (*one.y, *one.low, *one.high)]
    set_axis(axes, "x", chart.y, values, wide=wide, most=5, room=0.15)
    known = [y for one in chart.series if one.model for y in one.y if math.isfinite(y)]
    places = decimals(known)
    for position, one in enumerate(chart.series):
        depth = 2 + 0.1 * position
        if one.look != "dots":
            style = (0, (4, 2)) if one.is_dashed else "-"
            axes.plot(one.y, one.x, color=colour_of(one, marks), linewidth=1.0, linestyle=style, zorder=depth)
            continue
        _draw_whiskers(axes, one, colour_of(one, marks), depth)
        if not one.model:
            continue
        axes.plot(
            one.y,
            one.x,
            marks[one.model].code,
            color=colour_of(one, marks),
            markersize=5.5,
            markeredgewidth=0,
            zorder=depth + 0.01,
        )
        for x, y in zip(one.x, one.y, strict=True):
            if math.isfinite(y):
                axes.annotate(
                    fixed(y, places),
                    (y, x),
                    xytext=(0, 5),
                    textcoords="offset points",
                    ha="center",
                    fontsize=SMALL,
                    fontweight="bold" if one.label in bold else "normal",
                    color=INK,
                    zorder=9,
                    path_effects=[withStroke(linewidth=2, foreground="white")],
                )


def _draw_whiskers(axes: Axes, series: Series, colour: str, depth: float) -> None:
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
