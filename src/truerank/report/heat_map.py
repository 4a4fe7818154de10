"""A heat map as coloured cells."""

from __future__ import annotations

import math
from dataclasses import dataclass

from truerank.core.chart import HeatMap
from truerank.core.number import MISSING, decimals, fixed
from truerank.report.shades import LEVELS, level_of
from truerank.report.sheet import Sheet, map_sheet


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
    data: Sheet

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
