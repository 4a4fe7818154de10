"""Axes with ticks that are round numbers.

What all figures have in common: sizes, inks, and names that are letters and nothing else.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from truerank.core.chart import LIGHT, ChartAxis, Mark, Scale, Series, Unit, model_mark
from truerank.core.errors import InvalidParameter
from truerank.core.table import LONGEST_NAME, percent, shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text


COLUMN, PAGE = 3.4, 7.0  # inches: one column of a paper, and both
SMALL, MIDDLE, LARGE = 7.5, 8.0, 9.0  # points
LETTER = 0.0085  # inches that a letter takes on average, per point of size
_BOLD = 1.15  # how much wider bold letters are
INK, GRID, REFERENCE, SHADE = "#333a42", "#d5d9de", "#6b7280", "#e6e9ed"


def model_marks(series: Iterable[Series], models: Sequence[str] = ()) -> dict[str, Mark]:
    """Return the look of each model: those given first, then those of the series in their order."""
    names = dict.fromkeys([*models, *(one.model for one in series if one.model)])
    return {name: model_mark(position) for position, name in enumerate(names)}


def colour_of(series: Series, marks: Mapping[str, Mark]) -> str:
    """Return the colour of the model, grey for a reference."""
    return LIGHT[marks[series.model].colour] if series.model else REFERENCE


def figure_of(axes: Axes) -> Figure:
    """Return the figure that axes lie in."""
    found = axes.get_figure(root=True)
    if found is None:
        raise InvalidParameter("axes must belong to a figure, but these were removed from theirs.")
    return found


def escape_dollars(texts: Iterable[Text]) -> None:
    """Let dollar signs be letters, not mathematics."""
    for text in texts:
        text.set_parse_math(False)


def dress(axes: Axes, *, grid: str, title: str, wide: float) -> None:
    """Give axes the look of the report; the title breaks after ``wide`` inches."""
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


def room_for(names: Iterable[str], size: float = MIDDLE, *, longest: int = LONGEST_NAME) -> float:
    """Return the inches that the longest of the shortened names takes."""
    return max((len(shorten(name, longest)) for name in names), default=0) * LETTER * size


_MOST = 6


def set_axis(
    axes: Axes,
    which: Literal["x", "y"],
    axis: ChartAxis,
    values: Sequence[float],
    *,
    wide: float,
    most: int = _MOST,
    room: float = 0.04,
    has_zero: bool = False,
) -> tuple[float, float]:
    """Set scale, ends, ticks and label, and return the ends.

    Parameters
    ----------
    axes, which : the axis to set
    axis : what it measures
    values : all that must lie on it
    wide : inches for the label, and for the ticks of x
    most : ticks at most
    room : to leave beyond the values, as a share of the length
    has_zero : whether 0 must lie on it
    """
    from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

    low, high = axis_range(axis, values, room=room, has_zero=has_zero)
    drawn = axes.xaxis if which == "x" else axes.yaxis
    (axes.set_xscale if which == "x" else axes.set_yscale)(axis.scale)
    (axes.set_xlim if which == "x" else axes.set_ylim)(low, high)
    marked = ticks(low, high, axis.scale, axis.unit, most=most)
    while which == "x" and most > 2 and _length(marked) > wide:
        most -= 1
        marked = ticks(low, high, axis.scale, axis.unit, most=most)
    drawn.set_minor_locator(NullLocator())
    drawn.set_major_locator(FixedLocator([value for value, _ in marked]))
    drawn.set_major_formatter(FixedFormatter([label for _, label in marked]))
    drawn.set_label_text(folded(axis.label, wide, MIDDLE), fontsize=MIDDLE, color=INK, parse_math=False)
    return low, high


def axis_range(
    axis: ChartAxis, values: Sequence[float], *, room: float = 0.04, has_zero: bool = False
) -> tuple[float, float]:
    """Return both ends of an axis, with a little room where the chart does not say them.

    Examples
    --------
    >>> axis_range(ChartAxis("K", "log", low=1), [2, 1000])[0], axis_range(ChartAxis("x"), [3, 3])
    (1.0, (2.7, 3.3))
    """
    is_log = axis.scale == "log"
    lowest, highest = (
        None if end is None or (is_log and end <= 0) else float(end) for end in (axis.low, axis.high)
    )
    found = [float(value) for value in values if math.isfinite(value) and (value > 0 or not is_log)]
    found += [end for end in (lowest, highest) if end is not None]
    found += [0.0] if has_zero and not is_log else []
    low, high = min(found, default=1.0), max(found, default=1.0)
    if high - low <= 1e-9 * max(abs(low), abs(high)):  # one value only: give it room
        high = low
    if is_log:
        factor = math.exp(room * math.log(high / low) or math.log(2))
        outer = low / factor, high * factor
    else:
        more = room * (high - low) or 0.1 * abs(low) or 0.1
        outer = low - more, high + more
        if has_zero:
            outer = (0.0 if low == 0 else outer[0]), (0.0 if low < high == 0 else outer[1])
    if lowest is not None and lowest == highest:
        return outer
    return outer[0] if lowest is None else lowest, outer[1] if highest is None else highest


def ticks(low: float, high: float, scale: Scale, unit: Unit, *, most: int = _MOST) -> list[tuple[float, str]]:
    """Return round numbers from ``low`` to ``high`` and how they are written.

    Examples
    --------
    >>> [label for _, label in ticks(1, 3706, "log", "count")]
    ['1', '10', '100', '1,000']
    >>> [label.replace(chr(160), " ") for _, label in ticks(0, 0.1, "linear", "share")]
    ['0 %', '2 %', '4 %', '6 %', '8 %', '10 %']
    """
    if scale == "log":
        values = log_values(low, high, most=most)
    else:
        values = linear_values(low, high, whole=unit == "count", most=most)
    if unit == "share":
        return [(value, _signed(percent(value))) for value in values]
    places = max((_places(value) for value in values), default=0)
    least = 1e5 if max(map(abs, values), default=0.0) >= 1e6 else math.inf
    return [
        (value, _signed(_written(value, _places(value) if scale == "log" else places, least)))
        for value in values
    ]


def linear_values(low: float, high: float, *, whole: bool = False, most: int = _MOST) -> list[float]:
    """Return evenly spaced round numbers.

    Examples
    --------
    >>> linear_values(0.213, 0.388)
    [0.25, 0.3, 0.35]
    """
    from matplotlib.ticker import MaxNLocator

    found = MaxNLocator(max(most - 1, 1), steps=[1, 2, 2.5, 5, 10], integer=whole).tick_values(low, high)
    slack = 1e-9 * (high - low)
    return [float(f"{value:.10g}") for value in found if low - slack <= value <= high + slack]


def log_values(low: float, high: float, *, most: int = _MOST) -> list[float]:
    """Return powers of ten, with 2 and 5 times them where that is few.

    Examples
    --------
    >>> log_values(1, 60), log_values(11, 19)
    ([1.0, 2.0, 5.0, 10.0, 20.0, 50.0], [12.0, 14.0, 16.0, 18.0])
    """
    powers = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1)
    found: list[float] = []
    for digits in ((1,), (1, 2, 5)):
        found = [float(f"{digit}e{power}") for power in powers for digit in digits]
        found = [value for value in found if low * (1 - 1e-9) <= value <= high * (1 + 1e-9)]
        if len(found) >= 3:
            return found[:: -(-len(found) // most)]
    return [value for value in linear_values(low, high, most=most) if value > 0]


def _length(marked: Sequence[tuple[float, str]]) -> float:
    """Inches that the labels take side by side."""
    return sum(len(label) * LETTER * SMALL + 0.15 for _, label in marked)


def _places(value: float) -> int:
    """Decimals that a round number needs."""
    return next((places for places in range(12) if round(value, places) == value), 12)


def _written(value: float, places: int, least: float) -> str:
    """Return a number in full, or in millions from ``least`` on."""
    return f"{value / 1e6:,.10g}M" if abs(value) >= least else f"{value:,.{places}f}"


def _signed(text: str) -> str:
    return text.replace("-", "\N{MINUS SIGN}")
