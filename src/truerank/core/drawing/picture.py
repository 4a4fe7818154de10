"""Any chart as a figure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from truerank.core.chart import Chart, HeatMap, Picture, Series
from truerank.core.drawing.heat import draw_heat
from truerank.core.drawing.looks import bar_slots, draw_bars, draw_series
from truerank.core.drawing.style import (
    COLUMN,
    INK,
    LETTER,
    SHADE,
    SMALL,
    colour_of,
    dress,
    figure_of,
    model_marks,
    plain,
)
from truerank.core.drawing.ticks import set_axis
from truerank.core.errors import InvalidData
from truerank.core.short import shortened

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.legend import Legend

Handles: TypeAlias = list[tuple[str, "Artist"]]

_BESIDE, _HANDLE = 0.65, 0.42  # inches left of the axes, and beside a name in the legend


def draw(
    chart: Picture,
    *,
    axes: Axes | None = None,
    width: float | None = None,
    models: Sequence[str] = (),
    title: bool = True,
) -> Figure:
    """Return the chart as a figure; save it with ``savefig("x.pdf")``, or as ``.svg`` or ``.png``.

    Parameters
    ----------
    chart : what to draw
    axes : draw into these instead of into a new figure
    width : inches; one column of a paper by default
    models : names in the order that gives them their colours, where several figures shall agree
    title : whether to write the title above; a paper has it in its caption

    Raises
    ------
    InvalidData
        When a point of a logarithmic axis is not above 0.

    Examples
    --------
    >>> from truerank.core.chart import ChartAxis
    >>> line = Series("ease", (1, 10, 100), (0.1, 0.3, 0.8), model="ease")
    >>> chart = Chart("k", "recall@K", "", ChartAxis("K", "log"), ChartAxis("recall"), (line,))
    >>> float(draw(chart).get_figwidth())
    3.4
    """
    if isinstance(chart, HeatMap):
        return draw_heat(chart, axes=axes, width=width, title=title)
    if axes is not None:
        drawn = figure_of(axes)
        wide = drawn.get_figwidth() * axes.get_position().width
        handles = _fill(axes, chart, models, wide, title)
        if len(handles) > 1:
            _name(axes.legend(**_legend(handles, n_columns=1)), handles, wide)
        return drawn
    from truerank.core.drawing.canvas import make_canvas

    wide = COLUMN if width is None else width
    drawn = make_canvas(wide, 0.62 * wide + 0.35)
    handles = _fill(drawn.subplots(), chart, models, wide, title)
    if len(handles) > 1:
        across = _across(handles, wide)
        _name(drawn.legend(loc="outside lower center", **_legend(handles, n_columns=across)), handles, wide)
        drawn.set_figheight(drawn.get_figheight() + 0.17 * -(-len(handles) // across))
    return drawn


def _fill(axes: Axes, chart: Chart, models: Sequence[str], wide: float, title: bool) -> Handles:
    """Draw everything and return what belongs into the legend."""
    from matplotlib.patches import Patch

    _check(chart)
    bars = {position: one for position, one in enumerate(chart.series) if one.look == "bars"}
    slots = dict(zip(bars, bar_slots(list(bars.values()), chart.x.scale), strict=True))
    edges = [edge for found in slots.values() for slot in found.values() for edge in slot]
    spans = [end for span in chart.spans for end in (span.low, span.high) if math.isfinite(end)]
    heights = [
        y for one in chart.series for y in (*(() if one.look == "band" else one.y), *one.low, *one.high)
    ]
    dress(axes, grid="y", title=chart.title if title else "", wide=wide - _BESIDE)
    low, high = set_axis(
        axes,
        "x",
        chart.x,
        [*(x for one in chart.series for x in one.x), *edges, *spans],
        wide=0.8 * wide,
    )
    set_axis(axes, "y", chart.y, heights, wide=0.45 * wide, has_zero=bool(bars))
    handles: Handles = []
    for span in chart.spans:
        axes.axvspan(max(span.low, low), min(span.high, high), color=SHADE, linewidth=0, zorder=0.5)
        handles.append((span.label, Patch(facecolor=SHADE, linewidth=0)))
    marks = model_marks(chart.series, models)
    for position, one in enumerate(chart.series):
        if not any(map(math.isfinite, one.low if one.look == "band" else one.y)):
            continue
        colour, depth = colour_of(one, marks), 2 + 0.1 * position
        if one.look == "bars":
            handle = draw_bars(axes, one, slots[position], colour=colour, depth=depth)
        else:
            marker = marks[one.model].code if one.model else ""
            turn = (position + 0.5) / len(chart.series)
            handle = draw_series(axes, one, colour=colour, marker=marker, depth=depth, turn=turn)
        handles.append((one.label, handle))
    if not handles:
        axes.text(0.5, 0.5, "no values", transform=axes.transAxes, ha="center", fontsize=SMALL, color=INK)
    return handles


def _check(chart: Chart) -> None:
    for name, axis in (("x", chart.x), ("y", chart.y)):
        if axis.scale != "log":
            continue
        for one in chart.series:
            wrong = [value for value in _points(one, name) if value <= 0]
            if wrong:
                raise InvalidData(
                    f"a logarithmic axis needs values above 0, but {one.label!r} of the chart {chart.key!r} "
                    f"has {name} = {wrong[0]:g}. Use a linear axis, or leave the point out."
                )


def _points(series: Series, name: str) -> tuple[float, ...]:
    if name == "x":
        return series.x
    return () if series.look == "band" else series.y


def _legend(handles: Handles, *, n_columns: int) -> dict[str, Any]:
    """Return the options of a legend; its names come later, since matplotlib drops those like ``_a``."""
    return {
        "handles": [handle for _, handle in handles],
        "labels": [str(position) for position in range(len(handles))],
        "ncols": n_columns,
        "frameon": False,
        "fontsize": SMALL,
        "handlelength": 1.6,
        "columnspacing": 1.2,
        "labelspacing": 0.35,
        "borderpad": 0.2,
        "labelcolor": INK,
    }


def _across(handles: Handles, wide: float) -> int:
    """Return how many columns of the legend fit."""
    longest = max(len(name) for name, _ in handles) * LETTER * SMALL + _HANDLE
    return max(1, min(len(handles), int(wide / longest)))


def _name(legend: Legend, handles: Handles, wide: float) -> None:
    texts = legend.get_texts()
    plain(texts)
    for text, (name, _) in zip(texts, handles, strict=True):
        text.set_text(shortened(name, int((wide - _HANDLE) / (LETTER * SMALL))))
