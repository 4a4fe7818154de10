"""A heat map as coloured cells.

Colours of heat maps: the deeper the further from the middle, with ink that can be read on each.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from truerank.core.chart import HeatMap
from truerank.core.table import MISSING, decimals, fixed
from truerank.report.sections import ShownTable, map_sheet

LEVELS = 11  # of a scale with one side; one with two sides has as many on each, which share the middle

_LIGHT = ("#f0f2f6", "#003f9a", "#a33a05")  # nothing, much, much on the other side
_DARK = ("#262d38", "#8fb8ff", "#ffae5c")


@dataclass(frozen=True)
class Paint:
    """A ground and the ink for the numbers on it."""

    ground: str
    ink: str


def paints(theme: str) -> dict[str, Paint]:
    """Return the paint of every level by its class: ``h0`` to ``h10``, below the middle ``n1`` to ``n10``.

    Examples
    --------
    >>> paints("light")["h10"], len(paints("dark"))
    (Paint(ground='#003f9a', ink='#fff'), 21)
    """
    nothing, much, other = _DARK if theme == "dark" else _LIGHT
    up = {f"h{level}": _paint(nothing, much, level) for level in range(LEVELS)}
    return up | {f"n{level}": _paint(nothing, other, level) for level in range(1, LEVELS)}


def level_of(value: float, low: float, high: float, middle: float | None = None) -> str:
    """Return the class of a value; beyond the ends it is that of the end.

    Examples
    --------
    >>> level_of(0.5, 0, 1), level_of(-2, -1, 1, middle=0), level_of(0.2, -1, 1, middle=0)
    ('h5', 'n10', 'h2')
    """
    start = low if middle is None else middle
    end = high if value >= start else low
    reach = abs(end - start)
    share = min(abs(value - start) / reach, 1.0) if reach > 0 else 0.0
    if middle is None and value < low:
        share = 0.0
    level = round(share * (LEVELS - 1))
    return f"n{level}" if middle is not None and value < middle and level else f"h{level}"


def contrast_ratio(one: str, other: str) -> float:
    """Return the contrast ratio of two colours, from 1 to 21 (WCAG 2).

    Examples
    --------
    >>> round(contrast_ratio("#000000", "#ffffff"), 6)
    21.0
    """
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def _paint(start: str, end: str, level: int) -> Paint:
    share = level / (LEVELS - 1)
    mixed = (round(a + share * (b - a)) for a, b in zip(_channels(start), _channels(end), strict=True))
    ground = "#{:02x}{:02x}{:02x}".format(*mixed)
    # One of black and white has a contrast of at least 4.58 with any colour.
    return Paint(
        ground, "#000" if contrast_ratio(ground, "#000000") >= contrast_ratio(ground, "#ffffff") else "#fff"
    )


def _channels(colour: str) -> tuple[int, ...]:
    return tuple(int(colour[at : at + 2], 16) for at in (1, 3, 5))


def _luminance(colour: str) -> float:
    shares = [channel / 255 for channel in _channels(colour)]
    linear = [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
    return sum(weight * share for weight, share in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@dataclass(frozen=True)
class Patch:
    """One cell: its class and its number."""

    css: str
    text: str


@dataclass(frozen=True)
class HeatGrid:
    """All that the page needs to show a heat map.

    Parameters
    ----------
    rows : name and cells
    scale : classes of the colours from low to high
    ends : the numbers under them: low, middle if there is one, high
    """

    kind = "heat map"
    chart: HeatMap
    rows: tuple[tuple[str, tuple[Patch, ...]], ...]
    scale: tuple[str, ...]
    ends: tuple[str, ...]
    notes: tuple[str, ...]
    data: ShownTable

    @property
    def words(self) -> str:
        """What can be seen, for those who cannot see it."""
        return self.chart.words or self.chart.title

    @property
    def is_wide(self) -> bool:
        """Whether it needs the whole width of a page."""
        return len(self.chart.columns) > 4


def draw_heat_map(chart: HeatMap) -> HeatGrid:
    """Return the cells of a heat map.

    Examples
    --------
    >>> grid = draw_heat_map(HeatMap("tau", "", "", ("random",), ("10 %",), ((0.75,),), "tau", 0, 1))
    >>> grid.rows[0][1]
    (Patch(css='h8', text='0.75'),)
    """
    known = [value for row in chart.values for value in row if value is not None and math.isfinite(value)]
    places = max(0, decimals([*known, chart.low, chart.high]) - 2)
    rows = tuple(
        (name, tuple(_patch(chart, value, places) for value in values))
        for name, values in zip(chart.rows, chart.values, strict=True)
    )
    ends = [chart.low, chart.high] if chart.middle is None else [chart.low, chart.middle, chart.high]
    outside = sum(not chart.low <= value <= chart.high for value in known)
    note = ("Values beyond the scale have the colour of its end.",) if outside else ()
    return HeatGrid(
        chart=chart,
        rows=rows,
        scale=_scale(chart),
        ends=tuple(fixed(end, places) for end in ends),
        notes=(*chart.notes, *note),
        data=map_sheet(chart),
    )


def _patch(chart: HeatMap, value: float | None, places: int) -> Patch:
    if value is None or not math.isfinite(value):
        return Patch("none", MISSING)
    return Patch(level_of(value, chart.low, chart.high, chart.middle), fixed(value, places))


def _scale(chart: HeatMap) -> tuple[str, ...]:
    up = tuple(f"h{level}" for level in range(LEVELS))
    if chart.middle is None:
        return up
    return (*(f"n{level}" for level in range(LEVELS - 1, 0, -1)), *up)
