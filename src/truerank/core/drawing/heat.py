"""Heat maps: a colour and a number in every cell."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from truerank.core.chart import HeatMap
from truerank.core.drawing.style import (
    COLUMN,
    GRID,
    INK,
    LETTER,
    MIDDLE,
    SMALL,
    dress,
    figure_of,
    folded,
    plain,
    room_for,
)
from truerank.core.number import MISSING, decimals, fixed
from truerank.core.palette import LIGHT
from truerank.core.short import shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ABOVE, _BELOW = LIGHT[0], LIGHT[1]
_CELL = 0.26  # inches of height


def draw_heat(
    chart: HeatMap, *, axes: Axes | None = None, width: float | None = None, title: bool = True
) -> Figure:
    """Return the heat map as a figure; see ``draw``."""
    texts = cell_texts(chart)
    beside = room_for(chart.rows)
    if axes is None:
        from truerank.core.drawing.canvas import make_canvas

        longest = max((len(text) for line in texts for text in line), default=1)
        needed = beside + 0.3 + len(chart.columns) * (longest * LETTER * SMALL + 0.12)
        wide = max(COLUMN, needed) if width is None else width
        below = 0.75 * room_for(chart.columns) if _is_crowded(chart, wide - beside) else 0.2
        drawn: Figure = make_canvas(
            wide, _CELL * max(len(chart.rows), 1) + below + 0.25 + (0.3 if title else 0)
        )
        axes = drawn.subplots()
    else:
        drawn = figure_of(axes)
        wide = drawn.get_figwidth() * axes.get_position().width + beside
    dress(axes, grid="", title=chart.title if title else "", wide=wide - beside)
    for row, (values, line) in enumerate(zip(chart.values, texts, strict=True)):
        for column, (value, text) in enumerate(zip(values, line, strict=True)):
            _draw_cell(axes, row, column, chart, value, text)
    axes.set_xlim(0, len(chart.columns))
    axes.set_ylim(len(chart.rows), 0)
    is_crowded = _is_crowded(chart, wide - beside)
    axes.set_xticks(
        [column + 0.5 for column in range(len(chart.columns))],
        [shortened(name) for name in chart.columns],
        rotation=35 if is_crowded else 0,
        ha="right" if is_crowded else "center",
        rotation_mode="anchor" if is_crowded else "default",
    )
    axes.set_yticks([row + 0.5 for row in range(len(chart.rows))], [shortened(name) for name in chart.rows])
    axes.tick_params(axis="y", labelsize=MIDDLE)
    axes.spines["bottom"].set_visible(False)
    plain([*axes.get_xticklabels(), *axes.get_yticklabels()])
    axes.set_xlabel(folded(chart.label, wide - beside, MIDDLE), fontsize=MIDDLE, color=INK, parse_math=False)
    return drawn


def cell_texts(chart: HeatMap) -> list[list[str]]:
    """Return the numbers as written: two decimals at least where the scale is about 1, a dash for none."""
    known = [value for line in chart.values for value in line if value is not None]
    places = 2 if max(abs(chart.low), abs(chart.high)) <= 1 else min(decimals(known), 2)
    return [[fixed(value, places) for value in line] for line in chart.values]


def cell_colour(chart: HeatMap, value: float) -> tuple[float, float, float]:
    """Return the colour of a value as red, green and blue in [0, 1].

    Examples
    --------
    >>> heat = HeatMap("t", "", "", ("a",), ("b",), ((0.0,),), "tau", -1, 1, middle=0)
    >>> cell_colour(heat, 0.0), cell_colour(heat, 1.0) == cell_colour(heat, 7.0)
    ((1.0, 1.0, 1.0), True)
    """
    start = chart.low if chart.middle is None else chart.middle
    end, strong = (chart.high, _ABOVE) if value >= start else (chart.low, _BELOW)
    share = min(1.0, abs(value - start) / (abs(end - start) or 1.0))
    red, green, blue = (int(strong[at : at + 2], 16) / 255 for at in (1, 3, 5))
    return 1 + share * (red - 1), 1 + share * (green - 1), 1 + share * (blue - 1)


def ink_on(colour: tuple[float, float, float]) -> str:
    """Return black or white, whichever stands out more.

    Examples
    --------
    >>> ink_on((1.0, 1.0, 1.0)), ink_on((0.0, 0.3, 0.7))
    ('#000000', '#ffffff')
    """
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return "#000000" if (luminance + 0.05) / 0.05 >= 1.05 / (luminance + 0.05) else "#ffffff"


def _draw_cell(axes: Axes, row: int, column: int, chart: HeatMap, value: float | None, text: str) -> None:
    from matplotlib.patches import Rectangle

    is_known = value is not None and math.isfinite(value)
    colour = cell_colour(chart, value) if value is not None and is_known else (1.0, 1.0, 1.0)
    box = Rectangle((column, row), 1, 1, facecolor=colour, edgecolor="white", linewidth=1.0)
    if not is_known:
        box.set(hatch="///", edgecolor=GRID, linewidth=0)
    axes.add_patch(box)
    axes.text(
        column + 0.5,
        row + 0.52,
        text if is_known else MISSING,
        ha="center",
        va="center",
        fontsize=SMALL,
        color=ink_on(colour),
    )


def _is_crowded(chart: HeatMap, wide: float) -> bool:
    return room_for(chart.columns, SMALL) + 0.08 > wide / max(len(chart.columns), 1)
