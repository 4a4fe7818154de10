"""Charts as matplotlib figures: series of every kind, heat maps, and a legend below.

Styles, ticks and legends are those of the report (``report.layout``, ``report.axis``). A ``Canvas`` with
equal contents is saved as equal bytes, and shows itself in a notebook.
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from truerank.core.chart import LIGHT, Chart, HeatMap, Picture, Scale, Series
from truerank.core.errors import InvalidData, MissingDependency
from truerank.core.table import shorten
from truerank.core.types import FloatArray
from truerank.report.layout import (
    Channels,
    ModelStyles,
    SeriesStyle,
    channels,
    heat_fraction,
    heat_texts,
    legend_entries,
    marked_points,
    mixed,
    text_colour,
)
from truerank.report.matplotlib.axes import (
    COLUMN,
    DASHES,
    GRID,
    INK,
    LETTER,
    MIDDLE,
    SHADE,
    SMALL,
    colour_of,
    escape_dollars,
    figure_of,
    folded,
    set_axis,
    style_axes,
    width_of,
)

try:
    import matplotlib as mpl
    from matplotlib.figure import Figure
except ImportError:
    raise MissingDependency("a figure", "matplotlib") from None

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.legend import Legend


# Equal figures make equal files, and fonts in a PDF are what publishers ask for.
_SAVING: dict[Any, Any] = {
    "svg.hashsalt": "truerank",
    "svg.fonttype": "path",
    "pdf.fonttype": 42,
    "ps.fonttype": 42,
}
_DATES = {"svg": "Date", "svgz": "Date", "pdf": "CreationDate"}


class Canvas(Figure):
    """A matplotlib figure without a window.

    ``savefig`` writes equal bytes for equal figures: no date and no random names.
    """

    def savefig(self, fname: Any, **options: Any) -> None:
        """Save as matplotlib does: the ending of the name or ``format`` says how."""
        named = PurePath(fname).suffix[1:] if isinstance(fname, (str, PurePath)) else ""
        form = str(options.get("format") or named).lower()
        if form in _DATES:
            options["metadata"] = {_DATES[form]: None, **(options.get("metadata") or {})}
        with mpl.rc_context(_SAVING):
            super().savefig(fname, **options)

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        """Show in notebooks, sharp on screens with small pixels too."""
        target = io.BytesIO()
        self.savefig(target, format="png", dpi=200)
        return target.getvalue(), {"width": int(100 * self.get_figwidth())}


def make_canvas(wide: float, high: float) -> Canvas:
    """Return an empty white figure, sizes in inches."""
    return Canvas(figsize=(wide, high), layout="constrained", facecolor="white")


Slots: TypeAlias = dict[float, tuple[float, float]]


def plot_series(
    axes: Axes, series: Series, style: SeriesStyle, *, depth: float, marked: Sequence[int] = ()
) -> Artist:
    """Plot a line, step, band or dots, and return what stands for it in the legend.

    Parameters
    ----------
    axes : with scales and limits set
    series : what to plot
    style : its colour, marker and dashes
    depth : series with more lie on top
    marked : points of a line that get a marker
    """
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    colour, linestyle = colour_of(style), DASHES[style.dash]
    marker = style.marker.code if style.marker else ""
    x, y = (np.asarray(values, dtype=np.float64) for values in (series.x, series.y))
    low, high = (np.asarray(limits, dtype=np.float64) for limits in (series.low, series.high))
    step: Literal["post"] | None = "post" if series.kind == "step" else None
    strength = 0.16 if series.model else 0.25
    if series.kind == "band":
        axes.fill_between(x, low, high, color=colour, alpha=strength, linewidth=0, zorder=depth)
        if series.is_dashed:
            for limit in (low, high):
                axes.plot(x, limit, color=colour, linewidth=0.8, linestyle=linestyle, zorder=depth)
        return Patch(facecolor=colour, alpha=strength + 0.1, linewidth=0)
    thin: dict[str, Any] = {
        "color": colour,
        "linewidth": 1.1 if series.is_dashed or not series.model else 1.5,
    }
    if series.kind == "dots":
        if len(low):
            known = np.isfinite(low) & np.isfinite(high)
            wide: dict[str, Any] = {"linewidth": 1.5} if series.model else {"linewidth": 5.0, "alpha": 0.3}
            axes.vlines(x[known], low[known], high[known], color=colour, zorder=depth, **wide)
        size = 5.0 if series.model else 3.5
        axes.plot(x, y, marker, color=colour, markersize=size, markeredgewidth=0, zorder=depth + 0.01)
        return Line2D([], [], color=colour, marker=marker, markersize=size, linestyle="")
    if len(low):
        axes.fill_between(
            x, low, high, step=step, color=colour, alpha=strength, linewidth=0, zorder=depth - 0.05
        )
    thin["linestyle"] = linestyle
    axes.plot(
        x,
        y,
        drawstyle="steps-post" if step else "default",
        marker=marker,
        markevery=list(marked),
        markersize=5.0,
        markeredgewidth=0,
        zorder=depth,
        **thin,
    )
    return Line2D([], [], marker=marker, markersize=5.0, markeredgewidth=0, **thin)


def plot_bars(axes: Axes, series: Series, slots: Slots, style: SeriesStyle, *, depth: float) -> Artist:
    """Plot bars from 0, or from the lower end of a logarithmic axis, each in its slot."""
    from matplotlib.patches import Patch

    known = [at for at, y in enumerate(series.y) if math.isfinite(y)]
    left = [slots[series.x[at]][0] for at in known]
    wide = [slots[series.x[at]][1] - slots[series.x[at]][0] for at in known]
    bottom = axes.get_ylim()[0] if axes.get_yscale() == "log" else 0.0
    colour = colour_of(style)
    fill: dict[str, Any] = {"facecolor": colour, "alpha": 0.65 if series.model else 0.4}
    fill |= {"edgecolor": "white", "linewidth": 0.6}
    if series.is_dashed:
        fill |= {
            "fill": False,
            "alpha": 1.0,
            "linewidth": 1.0,
            "linestyle": DASHES[style.dash],
            "edgecolor": colour,
        }
    axes.bar(left, [series.y[at] - bottom for at in known], wide, bottom, align="edge", zorder=depth, **fill)
    limited = [at for at in known if series.low and math.isfinite(series.low[at] + series.high[at])]
    sides = [slots[series.x[at]] for at in limited]
    centres = [math.sqrt(a * b) if axes.get_xscale() == "log" else (a + b) / 2 for a, b in sides]
    axes.vlines(
        centres,
        [series.low[at] for at in limited],
        [series.high[at] for at in limited],
        color=colour,
        linewidth=1.2,
        zorder=depth + 0.01,
    )
    return Patch(**fill)


def bar_slots(series: Sequence[Series], scale: Scale) -> list[Slots]:
    """Return where each bar of each series begins and ends.

    Neighbours touch half way between their places. Series with places in common share each slot side by side.

    Examples
    --------
    >>> one, other = (Series(name, (1, 2, 4), (5, 6, 7), kind="bars") for name in "ab")
    >>> bar_slots([one], "linear")
    [{1: (0.5, 1.5), 2: (1.5, 3.0), 4: (3.0, 5.0)}]
    >>> [slots[2] for slots in bar_slots([one, other], "linear")]
    [(1.5, 2.25), (2.25, 3.0)]
    """
    positions = sorted({x for line in series for x in line.x})
    if not positions:
        return [{} for _ in series]
    at = np.asarray(positions, dtype=np.float64)
    edges = _edges(np.log(at) if scale == "log" else at)
    is_shared = sum(len(line.x) for line in series) > len(positions)
    n_parts = len(series) if is_shared else 1
    slots_by_series: list[Slots] = []
    for position, line in enumerate(series):
        part = position if is_shared else 0
        slots: Slots = {}
        for x in line.x:
            index = positions.index(x)
            begin, length = edges[index], (edges[index + 1] - edges[index]) / n_parts
            cut = begin + part * length, begin + (part + 1) * length
            slots[x] = (
                (math.exp(cut[0]), math.exp(cut[1])) if scale == "log" else (float(cut[0]), float(cut[1]))
            )
        slots_by_series.append(slots)
    return slots_by_series


def _edges(positions: FloatArray) -> FloatArray:
    if len(positions) == 1:
        return np.array([positions[0] - 0.5, positions[0] + 0.5])
    middles = (positions[1:] + positions[:-1]) / 2
    return np.concatenate([[2 * positions[0] - middles[0]], middles, [2 * positions[-1] - middles[-1]]])


_ABOVE, _BELOW = LIGHT[0], LIGHT[1]
_CELL = 0.26  # inches of height


def plot_heat_map(
    chart: HeatMap, *, axes: Axes | None = None, width: float | None = None, title: bool = True
) -> Figure:
    """Return the heat map as a figure; the parameters are those of ``plot``."""
    texts = heat_texts(chart)
    beside = width_of(chart.rows)
    if axes is None:
        longest = max((len(text) for line in texts for text in line), default=1)
        needed = beside + 0.3 + len(chart.columns) * (longest * LETTER * SMALL + 0.12)
        wide = max(COLUMN, needed) if width is None else width
        below = 0.75 * width_of(chart.columns) if _is_crowded(chart, wide - beside) else 0.2
        figure: Figure = make_canvas(
            wide, _CELL * max(len(chart.rows), 1) + below + 0.25 + (0.3 if title else 0)
        )
        axes = figure.subplots()
    else:
        figure = figure_of(axes)
        wide = figure.get_figwidth() * axes.get_position().width + beside
    style_axes(axes, grid="", title=chart.title if title else "", wide=wide - beside)
    for row, (values, line) in enumerate(zip(chart.values, texts, strict=True)):
        for column, (value, text) in enumerate(zip(values, line, strict=True)):
            _plot_cell(axes, row, column, chart, value, text)
    axes.set_xlim(0, len(chart.columns))
    axes.set_ylim(len(chart.rows), 0)
    is_crowded = _is_crowded(chart, wide - beside)
    axes.set_xticks(
        [column + 0.5 for column in range(len(chart.columns))],
        [shorten(name) for name in chart.columns],
        rotation=35 if is_crowded else 0,
        ha="right" if is_crowded else "center",
        rotation_mode="anchor" if is_crowded else "default",
    )
    axes.set_yticks([row + 0.5 for row in range(len(chart.rows))], [shorten(name) for name in chart.rows])
    axes.tick_params(axis="y", labelsize=MIDDLE)
    axes.spines["bottom"].set_visible(False)
    escape_dollars([*axes.get_xticklabels(), *axes.get_yticklabels()])
    axes.set_xlabel(folded(chart.label, wide - beside, MIDDLE), fontsize=MIDDLE, color=INK, parse_math=False)
    return figure


def cell_colour(chart: HeatMap, value: float) -> Channels:
    """Return the colour of a value as red, green and blue from 0 to 255.

    Examples
    --------
    >>> heat = HeatMap("t", "", "", ("a",), ("b",), ((0.0,),), "tau", -1, 1, middle=0)
    >>> cell_colour(heat, 0.0), cell_colour(heat, 1.0) == cell_colour(heat, 7.0)
    ((255.0, 255.0, 255.0), True)
    """
    fraction = heat_fraction(chart, value)
    return mixed("#ffffff", _ABOVE if fraction >= 0 else _BELOW, abs(fraction))


def _plot_cell(axes: Axes, row: int, column: int, chart: HeatMap, value: float | None, text: str) -> None:
    from matplotlib.patches import Rectangle

    is_known = value is not None and math.isfinite(value)
    colour = cell_colour(chart, value) if value is not None and is_known else channels("#ffffff")
    background = (colour[0] / 255, colour[1] / 255, colour[2] / 255)
    box = Rectangle((column, row), 1, 1, facecolor=background, edgecolor="white", linewidth=1.0)
    if not is_known:
        box.set(hatch="///", edgecolor=GRID, linewidth=0)
    axes.add_patch(box)
    axes.text(
        column + 0.5,
        row + 0.52,
        text,
        ha="center",
        va="center",
        fontsize=SMALL,
        color=text_colour(colour),
    )


def _is_crowded(chart: HeatMap, wide: float) -> bool:
    return width_of(chart.columns, SMALL) + 0.08 > wide / max(len(chart.columns), 1)


Handles: TypeAlias = list[tuple[str, "Artist"]]

_BESIDE, _HANDLE = 0.65, 0.42  # inches left of the axes, and beside a name in the legend


def plot(
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
    chart : what to plot
    axes : to plot into, instead of a new figure
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
    >>> float(plot(chart).get_figwidth())
    3.4
    """
    if isinstance(chart, HeatMap):
        return plot_heat_map(chart, axes=axes, width=width, title=title)
    if axes is not None:
        figure = figure_of(axes)
        wide = figure.get_figwidth() * axes.get_position().width
        handles = _plot_into(axes, chart, models, wide, title)
        if len(handles) > 1:
            _set_legend_names(axes.legend(**_legend(handles, n_columns=1)), handles, wide)
        return figure

    wide = COLUMN if width is None else width
    figure = make_canvas(wide, 0.62 * wide + 0.35)
    handles = _plot_into(figure.subplots(), chart, models, wide, title)
    if len(handles) > 1:
        across = _legend_columns(handles, wide)
        _set_legend_names(
            figure.legend(loc="outside lower center", **_legend(handles, n_columns=across)), handles, wide
        )
        figure.set_figheight(figure.get_figheight() + 0.17 * -(-len(handles) // across))
    return figure


def _plot_into(axes: Axes, chart: Chart, models: Sequence[str], wide: float, title: bool) -> Handles:
    """Plot everything and return labels and artists of the legend."""
    from matplotlib.patches import Patch

    _check(chart)
    bars = {position: line for position, line in enumerate(chart.series) if line.kind == "bars"}
    slots = dict(zip(bars, bar_slots(list(bars.values()), chart.x.scale), strict=True))
    edges = [edge for of_series in slots.values() for slot in of_series.values() for edge in slot]
    spans = [end for span in chart.spans for end in (span.low, span.high) if math.isfinite(end)]
    heights = [
        y for line in chart.series for y in (*(() if line.kind == "band" else line.y), *line.low, *line.high)
    ]
    style_axes(axes, grid="y", title=chart.title if title else "", wide=wide - _BESIDE)
    x = set_axis(
        axes,
        "x",
        chart.x,
        [*(x for line in chart.series for x in line.x), *edges, *spans],
        wide=0.8 * wide,
    )
    y = set_axis(axes, "y", chart.y, heights, wide=0.45 * wide, has_zero=bool(bars))
    styles = ModelStyles.of(models, [chart]).of_series(chart.series)
    marked = marked_points(chart, styles, x, y)
    artists: dict[tuple[bool, int], Artist] = {}
    for number, span in enumerate(chart.spans):
        axes.axvspan(x.clip(span.low), x.clip(span.high), color=SHADE, linewidth=0, zorder=0.5)
        artists[True, number] = Patch(facecolor=SHADE, linewidth=0)
    for number, (series, style) in enumerate(zip(chart.series, styles, strict=True)):
        if not any(map(math.isfinite, series.low if series.kind == "band" else series.y)):
            continue
        depth = 2 + 0.1 * number
        artists[False, number] = (
            plot_bars(axes, series, slots[number], style, depth=depth)
            if series.kind == "bars"
            else plot_series(axes, series, style, depth=depth, marked=marked.get(number, ()))
        )
    handles = [
        (entry.label, artists[key])
        for entry in legend_entries(chart, styles)
        if (key := (entry.kind == "span", entry.number)) in artists
    ]
    if not handles:
        axes.text(0.5, 0.5, "no values", transform=axes.transAxes, ha="center", fontsize=SMALL, color=INK)
    return handles


def _check(chart: Chart) -> None:
    for name, axis in (("x", chart.x), ("y", chart.y)):
        if axis.scale != "log":
            continue
        for line in chart.series:
            wrong = [value for value in _points(line, name) if value <= 0]
            if wrong:
                raise InvalidData(
                    f"a logarithmic axis needs values above 0, but {line.label!r} of the chart {chart.key!r} "
                    f"has {name} = {wrong[0]:g}. Use a linear axis, or leave the point out."
                )


def _points(series: Series, name: str) -> tuple[float, ...]:
    if name == "x":
        return series.x
    return () if series.kind == "band" else series.y


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


def _legend_columns(handles: Handles, wide: float) -> int:
    """Return how many columns of the legend fit."""
    longest = max(len(name) for name, _ in handles) * LETTER * SMALL + _HANDLE
    return max(1, min(len(handles), int(wide / longest)))


def _set_legend_names(legend: Legend, handles: Handles, wide: float) -> None:
    texts = legend.get_texts()
    escape_dollars(texts)
    for text, (name, _) in zip(texts, handles, strict=True):
        text.set_text(shorten(name, int((wide - _HANDLE) / (LETTER * SMALL))))
