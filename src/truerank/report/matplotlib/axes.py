"""Matplotlib axes in the style of the report: sizes for papers, colours, grid, title, range and ticks.

Names of models are printed letter by letter: a dollar sign in one does not begin a formula.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal

from truerank.core.chart import LIGHT, ChartAxis
from truerank.core.errors import InvalidParameter
from truerank.core.table import LONGEST_NAME, shorten
from truerank.report.axis import Axis, TickLabels, padded_range, tick_choices
from truerank.report.layout import SeriesStyle

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text


COLUMN, PAGE = 3.4, 7.0  # inches: one column of a paper, and both
SMALL, MIDDLE, LARGE = 7.5, 8.0, 9.0  # points
LETTER = 0.0085  # inches that a letter takes on average, per point of size
_BOLD = 1.15  # how much wider bold letters are
INK, GRID, REFERENCE, SHADE = "#333a42", "#d5d9de", "#6b7280", "#e6e9ed"
# by the number of the dash pattern, in widths of the line
DASHES: tuple[Any, ...] = (
    "-",
    (0, (4, 2)),
    (0, (1.5, 2)),
    (0, (8, 2)),
    (0, (8, 2, 1.5, 2)),
    (0, (5, 2, 1.5, 2)),
)


def colour_of(style: SeriesStyle) -> str:
    """Return the colour of a series, grey for a reference."""
    return REFERENCE if style.colour is None else LIGHT[style.colour]


def figure_of(axes: Axes) -> Figure:
    """Return the figure that axes lie in."""
    figure = axes.get_figure(root=True)
    if figure is None:
        raise InvalidParameter("axes must belong to a figure, but these were removed from theirs.")
    return figure


def escape_dollars(texts: Iterable[Text]) -> None:
    """Print dollar signs as they are instead of starting a formula."""
    for text in texts:
        text.set_parse_math(False)


def style_axes(axes: Axes, *, grid: str, title: str, wide: float) -> None:
    """Set grid, ticks and title in the style of the report; the title breaks after ``wide`` inches."""
    axes.grid(False)
    if grid:
        axes.grid(axis=grid, color=GRID, linewidth=0.6)  # type: ignore[arg-type]
    axes.set_axisbelow(True)
    axes.set_facecolor("white")
    axes.tick_params(which="both", labelsize=SMALL, length=0, colors=INK)
    for side, spine in axes.spines.items():
        spine.set_visible(side == "bottom")
        spine.set_color(GRID)
    if title:
        text = folded(title, wide / _BOLD, LARGE)
        axes.set_title(text, fontsize=LARGE, fontweight="bold", loc="left", color=INK, parse_math=False)


def folded(text: str, wide: float, size: float) -> str:
    """Return text in lines that fit ``wide`` inches."""
    return textwrap.fill(text, max(12, int(wide / (LETTER * size))))


def width_of(names: Iterable[str], size: float = MIDDLE, *, longest: int = LONGEST_NAME) -> float:
    """Return the inches that the longest of the shortened names takes."""
    return max((len(shorten(name, longest)) for name in names), default=0) * LETTER * size


def set_axis(
    axes: Axes,
    which: Literal["x", "y"],
    axis: ChartAxis,
    values: Iterable[float],
    *,
    wide: float,
    most: int = 6,
    room: float = 0.04,
    has_zero: bool = False,
) -> Axis:
    """Set scale, limits, ticks and label, and return the axis.

    Parameters
    ----------
    axes, which : the axis to set
    axis : what it measures
    values : all that must lie on it
    wide : inches for the label, and for the ticks of x
    most : ticks at most
    room : to leave beyond the values, as a fraction of the length
    has_zero : whether 0 must lie on it
    """
    from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

    low, high = padded_range(axis, values, room=room, has_zero=has_zero)
    side = axes.xaxis if which == "x" else axes.yaxis
    (axes.set_xscale if which == "x" else axes.set_yscale)(axis.scale)
    (axes.set_xlim if which == "x" else axes.set_ylim)(low, high)
    ticks = figure_ticks(low, high, axis, most=most, wide=wide if which == "x" else math.inf)
    side.set_minor_locator(NullLocator())
    side.set_major_locator(FixedLocator([value for value, _ in ticks]))
    side.set_major_formatter(FixedFormatter([label for _, label in ticks]))
    side.set_label_text(folded(axis.label, wide, MIDDLE), fontsize=MIDDLE, color=INK, parse_math=False)
    return Axis(low, high, is_log=axis.scale == "log")


def figure_ticks(
    low: float, high: float, axis: ChartAxis, *, most: int = 6, wide: float = math.inf
) -> TickLabels:
    """Return at most ``most`` ticks as (value, label), whose labels fit side by side into ``wide`` inches.

    Examples
    --------
    >>> [label for _, label in figure_ticks(1, 3706, ChartAxis("K", "log", "count"))]
    ['1', '10', '100', '1,000']
    """
    for choice in tick_choices(low, high, axis.scale, axis.unit, most=most - 1):
        ticks = choice if axis.unit == "share" else _in_millions(choice)
        if len(ticks) <= most and sum(len(label) * LETTER * SMALL + 0.15 for _, label in ticks) <= wide:
            break
    return ticks


def _in_millions(ticks: TickLabels) -> TickLabels:
    """Return ticks that reach a million with short labels, such as ``0.5M``."""
    if max((abs(value) for value, _ in ticks), default=0.0) < 1e6:
        return ticks
    return [
        (value, f"{value / 1e6:,.10g}M".replace("-", "\N{MINUS SIGN}") if abs(value) >= 1e5 else label)
        for value, label in ticks
    ]
