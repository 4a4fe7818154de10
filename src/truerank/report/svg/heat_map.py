"""Heat maps of the report: an HTML table whose cells have one of eleven shades on each side of the scale."""

from __future__ import annotations

import math
from dataclasses import dataclass

from truerank.core.chart import HeatMap
from truerank.core.table import fixed
from truerank.report.layout import heat_fraction, heat_places, heat_texts, mixed, text_colour
from truerank.report.shown_table import ShownTable, heat_map_data_table, stacking_of

LEVELS = 11  # of a scale with one side; one with two sides has as many on each, which share the middle

_LETTER, _PADDING, _NAME = 7.5, 20, 22  # pixels of a letter and beside a cell; letters up to which names go

_LIGHT = ("#f0f2f6", "#003f9a", "#a33a05")  # no shade, the deepest, the deepest below the middle
_DARK = ("#262d38", "#8fb8ff", "#ffae5c")


@dataclass(frozen=True)
class CellColours:
    """Background of a cell and colour of the number on it."""

    background: str
    text: str


def level_colours(theme: str) -> dict[str, CellColours]:
    """Return the colours of every level by its class: ``h0`` to ``h10``, below the middle ``n1`` to ``n10``.

    Examples
    --------
    >>> level_colours("light")["h10"], len(level_colours("dark"))
    (CellColours(background='#003f9a', text='#fff'), 21)
    """
    lightest, deepest, below = _DARK if theme == "dark" else _LIGHT
    above = {f"h{level}": _colours(lightest, deepest, level) for level in range(LEVELS)}
    return above | {f"n{level}": _colours(lightest, below, level) for level in range(1, LEVELS)}


def _colours(start: str, end: str, level: int) -> CellColours:
    background = tuple(float(round(channel)) for channel in mixed(start, end, level / (LEVELS - 1)))
    return CellColours("#{:02x}{:02x}{:02x}".format(*map(int, background)), text_colour(background))


def level_of(chart: HeatMap, value: float) -> str:
    """Return the class of a value; beyond the scale it is that of its limit.

    Examples
    --------
    >>> tau = HeatMap("t", "", "", ("a",), ("b",), ((0.0,),), "tau", -1, 1, middle=0)
    >>> level_of(tau, -2), level_of(tau, 0.2)
    ('n10', 'h2')
    """
    fraction = heat_fraction(chart, value)
    level = round(abs(fraction) * (LEVELS - 1))
    return f"n{level}" if fraction < 0 and level else f"h{level}"


@dataclass(frozen=True)
class HeatCell:
    """One cell: its class and its number."""

    css: str
    text: str


@dataclass(frozen=True)
class PaintedHeatMap:
    """All that the page needs to show a heat map.

    Parameters
    ----------
    chart : what is shown
    rows : name and cells of each
    scale : classes of the shades from low to high
    limits : the numbers below the scale: low, middle if there is one, high
    notes : sentences to read with it
    data : the values as a table
    """

    kind = "heat map"
    chart: HeatMap
    rows: tuple[tuple[str, tuple[HeatCell, ...]], ...]
    scale: tuple[str, ...]
    limits: tuple[str, ...]
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

    @property
    def stacking(self) -> str:
        """The largest place in which its rows are stacked, as in ``ShownTable``."""
        names = min(max(map(len, self.chart.rows), default=0), _NAME)
        columns = [min(max(len(column), 5), _NAME) for column in self.chart.columns]
        return stacking_of(_LETTER * (names + sum(columns)) + _PADDING * (len(columns) + 1))


def paint_heat_map(chart: HeatMap) -> PaintedHeatMap:
    """Return the cells of a heat map.

    Examples
    --------
    >>> painted = paint_heat_map(HeatMap("tau", "", "", ("random",), ("10 %",), ((0.75,),), "tau", 0, 1))
    >>> painted.rows[0][1]
    (HeatCell(css='h8', text='0.75'),)
    """
    rows = tuple(
        (name, tuple(_cell(chart, value, text) for value, text in zip(values, texts, strict=True)))
        for name, values, texts in zip(chart.rows, chart.values, heat_texts(chart), strict=True)
    )
    limits = [chart.low, chart.high] if chart.middle is None else [chart.low, chart.middle, chart.high]
    known = [value for row in chart.values for value in row if value is not None and math.isfinite(value)]
    is_beyond = any(not chart.low <= value <= chart.high for value in known)
    note = ("Values beyond the scale have the colour of its end.",) if is_beyond else ()
    return PaintedHeatMap(
        chart=chart,
        rows=rows,
        scale=_scale(chart),
        limits=tuple(fixed(limit, heat_places(chart)) for limit in limits),
        notes=(*chart.notes, *note),
        data=heat_map_data_table(chart),
    )


def _cell(chart: HeatMap, value: float | None, text: str) -> HeatCell:
    is_known = value is not None and math.isfinite(value)
    return HeatCell(level_of(chart, value) if value is not None and is_known else "none", text)


def _scale(chart: HeatMap) -> tuple[str, ...]:
    above = tuple(f"h{level}" for level in range(LEVELS))
    if chart.middle is None:
        return above
    return (*(f"n{level}" for level in range(LEVELS - 1, 0, -1)), *above)
