"""One series: lines, steps, bars, dots and bands."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from truerank.core.chart import Scale, Series
from truerank.core.types import FloatArray

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

Slots: TypeAlias = dict[float, tuple[float, float]]

_FEW = 12  # points that all get a marker
_DASHES = (0, (4, 2))


def draw_series(axes: Axes, series: Series, *, colour: str, marker: str, depth: float, turn: float) -> Artist:
    """Draw a line, step, band or dots, and return what stands for it in the legend.

    Parameters
    ----------
    axes : whose scales and ends are set
    series : what to draw
    colour, marker : of its model; without a marker it is a reference
    depth : those with more lie on top
    turn : in [0, 1), shifts markers along the line so that series do not hide each other's
    """
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    x, y = (np.asarray(values, dtype=np.float64) for values in (series.x, series.y))
    low, high = (np.asarray(ends, dtype=np.float64) for ends in (series.low, series.high))
    step: Literal["post"] | None = "post" if series.look == "step" else None
    strength = 0.16 if series.model else 0.25
    if series.look == "band":
        axes.fill_between(x, low, high, color=colour, alpha=strength, linewidth=0, zorder=depth)
        if series.is_dashed:
            for end in (low, high):
                axes.plot(x, end, color=colour, linewidth=0.8, linestyle=_DASHES, zorder=depth)
        return Patch(facecolor=colour, alpha=strength + 0.1, linewidth=0)
    thin: dict[str, Any] = {
        "color": colour,
        "linewidth": 1.1 if series.is_dashed or not series.model else 1.5,
    }
    if series.look == "dots":
        if len(low):
            known = np.isfinite(low) & np.isfinite(high)
            wide: dict[str, Any] = {"linewidth": 1.5} if marker else {"linewidth": 5.0, "alpha": 0.3}
            axes.vlines(x[known], low[known], high[known], color=colour, zorder=depth, **wide)
        shape = marker or "o"
        size = 5.0 if marker else 3.5
        axes.plot(x, y, shape, color=colour, markersize=size, markeredgewidth=0, zorder=depth + 0.01)
        return Line2D([], [], color=colour, marker=shape, markersize=size, linestyle="")
    if len(low):
        axes.fill_between(
            x, low, high, step=step, color=colour, alpha=strength, linewidth=0, zorder=depth - 0.05
        )
    thin["linestyle"] = _DASHES if series.is_dashed else "-"
    axes.plot(
        x,
        y,
        drawstyle="steps-post" if step else "default",
        marker=marker,
        markevery=_marked(axes, x, y, turn),
        markersize=5.0,
        markeredgewidth=0,
        zorder=depth,
        **thin,
    )
    return Line2D([], [], marker=marker, markersize=5.0, markeredgewidth=0, **thin)


def draw_bars(axes: Axes, series: Series, slots: Slots, *, colour: str, depth: float) -> Artist:
    """Draw bars from 0, or from the lower end of a logarithmic axis, each in its slot."""
    from matplotlib.patches import Patch

    known = [at for at, y in enumerate(series.y) if math.isfinite(y)]
    left = [slots[series.x[at]][0] for at in known]
    wide = [slots[series.x[at]][1] - slots[series.x[at]][0] for at in known]
    bottom = axes.get_ylim()[0] if axes.get_yscale() == "log" else 0.0
    style: dict[str, Any] = {"facecolor": colour, "alpha": 0.65 if series.model else 0.4}
    style |= {"edgecolor": "white", "linewidth": 0.6}
    if series.is_dashed:
        style |= {"fill": False, "alpha": 1.0, "linewidth": 1.0, "linestyle": _DASHES, "edgecolor": colour}
    axes.bar(left, [series.y[at] - bottom for at in known], wide, bottom, align="edge", zorder=depth, **style)
    ends = [at for at in known if series.low and math.isfinite(series.low[at] + series.high[at])]
    middles = [slots[series.x[at]] for at in ends]
    places = [math.sqrt(a * b) if axes.get_xscale() == "log" else (a + b) / 2 for a, b in middles]
    axes.vlines(
        places,
        [series.low[at] for at in ends],
        [series.high[at] for at in ends],
        color=colour,
        linewidth=1.2,
        zorder=depth + 0.01,
    )
    return Patch(**style)


def bar_slots(series: Sequence[Series], scale: Scale) -> list[Slots]:
    """Return where each bar of each series begins and ends.

    Neighbours touch half way between their places. Series with places in common share each slot side by side.

    Examples
    --------
    >>> one, other = (Series(name, (1, 2, 4), (5, 6, 7), look="bars") for name in "ab")
    >>> bar_slots([one], "linear")
    [{1: (0.5, 1.5), 2: (1.5, 3.0), 4: (3.0, 5.0)}]
    >>> [slots[2] for slots in bar_slots([one, other], "linear")]
    [(1.5, 2.25), (2.25, 3.0)]
    """
    places = sorted({x for one in series for x in one.x})
    if not places:
        return [{} for _ in series]
    at = np.asarray(places, dtype=np.float64)
    edges = _edges(np.log(at) if scale == "log" else at)
    is_shared = sum(len(one.x) for one in series) > len(places)
    n_parts = len(series) if is_shared else 1
    found: list[Slots] = []
    for position, one in enumerate(series):
        part = position if is_shared else 0
        slots: Slots = {}
        for x in one.x:
            index = places.index(x)
            begin, length = edges[index], (edges[index + 1] - edges[index]) / n_parts
            cut = begin + part * length, begin + (part + 1) * length
            slots[x] = (
                (math.exp(cut[0]), math.exp(cut[1])) if scale == "log" else (float(cut[0]), float(cut[1]))
            )
        found.append(slots)
    return found


def _edges(places: FloatArray) -> FloatArray:
    if len(places) == 1:
        return np.array([places[0] - 0.5, places[0] + 0.5])
    middles = (places[1:] + places[:-1]) / 2
    return np.concatenate([[2 * places[0] - middles[0]], middles, [2 * places[-1] - middles[-1]]])


def _marked(axes: Axes, x: FloatArray, y: FloatArray, turn: float) -> list[int]:
    """Return which points get a marker: all of a few, else five along the axis."""
    finite = np.flatnonzero(np.isfinite(x) & np.isfinite(y))
    if len(finite) <= _FEW:
        return [int(at) for at in finite]
    across = np.log(x[finite]) if axes.get_xscale() == "log" else x[finite]
    order = np.argsort(across, kind="stable")
    wanted = across.min() + (np.arange(5) + turn) / 5 * np.ptp(across)
    near = np.searchsorted(across[order], wanted).clip(max=len(finite) - 1)
    return sorted({int(at) for at in finite[order[near]]})
