"""Tables as the report shows them: how columns are aligned, which rows are shown, and when they are stacked.

The data behind a chart may have thousands of rows. Then those at round values of x are shown, with a note.
In a place that is narrower than the table, a row is a block of one line per cell: nothing is cut off.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import compress

from truerank.core.chart import Chart, HeatMap, Series
from truerank.core.table import Table, count_of

_MOST_ROWS = 60
_FEWEST_ROWS = 12
_SHORT = 24  # letters that need no second line
_LONG = 40  # rows that are folded
_LETTER, _PADDING = 7.5, 24  # pixels of a letter, and beside a cell
_WRAPPED = 15  # letters to which a long text is wrapped at the least
_NARROW, _MIDDLE, _BROAD, _WHOLE = 300, 460, 780, 1040  # pixels up to which a table fits places of four sizes
# What makes a number round, by its significant digits; the first rule that leaves few enough rows is taken.
_ROUND: tuple[Callable[[str], bool], ...] = (
    lambda digits: len(digits) <= 1 or (len(digits) == 2 and digits[1] == "5"),
    lambda digits: len(digits) <= 1,
    lambda digits: digits in ("1", "2", "5"),
)


@dataclass(frozen=True)
class ShownTable:
    """A table of a page.

    Parameters
    ----------
    table : columns and rows
    kinds : for each column ``number`` (stands on the right), ``short`` (never broken) or ``long`` text
    note : which rows are shown when not all are
    """

    table: Table
    kinds: tuple[str, ...]
    note: str = ""

    @property
    def is_long(self) -> bool:
        """Whether a page folds it."""
        return len(self.table.rows) > _LONG

    @property
    def stacking(self) -> str:
        """The largest place in which rows are stacked, such as ``narrow``; nothing for no place."""
        lines = (self.table.columns, *self.table.rows)
        columns = zip(zip(*lines, strict=True), self.kinds, strict=True)
        return stacking_of(sum(_column_width(cells, kind) for cells, kind in columns))


def table_for_page(table: Table, note: str = "") -> ShownTable:
    """Return a table with the kind of each column: numbers, short texts, long texts.

    Examples
    --------
    >>> table_for_page(Table(("model", "auc", "data"), (("popularity", "0.8", "ml-1m"),))).kinds
    ('short', 'number', 'short')
    """
    return ShownTable(table, tuple(_kind(table, at) for at in range(len(table.columns))), note)


def stacking_of(width: float) -> str:
    """Return the largest place in which something of this width in pixels does not fit.

    Examples
    --------
    >>> [stacking_of(width) for width in (300, 450, 700, 1000, 1200)]
    ['', 'narrow', 'middle', 'broad', 'broad dense']
    """
    sizes = {_NARROW: "", _MIDDLE: "narrow", _BROAD: "middle", _WHOLE: "broad"}
    return next((place for most, place in sizes.items() if width <= most), "broad dense")


def _column_width(cells: Sequence[str], kind: str) -> float:
    """Return about how many pixels a column needs; headings and long texts are wrapped between words."""
    heading, *values = cells
    wrapped = [heading, *values] if kind == "long" else [heading]
    word = max((len(word) for cell in wrapped for word in cell.split()), default=0)
    letters = max((len(value) for value in values), default=0)
    return _LETTER * max(word, min(letters, _WRAPPED) if kind == "long" else letters) + _PADDING


def chart_data_table(chart: Chart) -> ShownTable:
    """Return the points of a chart; of very many rows those at round values, with a note that says so."""
    known = replace(chart, series=tuple(_finite(series) for series in chart.series))
    n_lost = sum(len(one.x) for one in chart.series) - sum(len(one.x) for one in known.series)
    notes = [f"{count_of(n_lost, 'point')} without a finite value left out."] if n_lost else []
    table = known.table()
    xs = sorted({x for series in known.series for x in series.x})
    if len(xs) > _MOST_ROWS:
        keep, which = round_rows(xs)
        table = replace(table, rows=tuple(compress(table.rows, keep)))
        shown = f"{len(table.rows):,} of {len(xs):,} rows are shown"
        notes.append(f"{shown}: {which}, the first and the last.")
    return table_for_page(table, " ".join(notes))


def heat_map_data_table(chart: HeatMap) -> ShownTable:
    """Return the values of a heat map."""
    values = tuple(
        tuple(None if value is None or not math.isfinite(value) else value for value in row)
        for row in chart.values
    )
    return table_for_page(replace(chart, values=values).table())


def round_rows(values: Sequence[float]) -> tuple[list[bool], str]:
    """Return which of many ascending numbers to keep, and in words which these are.

    Examples
    --------
    >>> keep, which = round_rows(range(1, 101))
    >>> sum(keep), which
    (28, 'round values')
    """
    digits = [f"{abs(value):.11e}".split("e")[0].replace(".", "").rstrip("0") for value in values]
    for is_round in _ROUND:
        keep = [is_round(text) for text in digits]
        keep[0] = keep[-1] = True
        if _FEWEST_ROWS <= sum(keep) <= _MOST_ROWS:
            return keep, "round values"
    stride = -(-len(values) // (_MOST_ROWS - 1))
    return [at % stride == 0 or at == len(values) - 1 for at in range(len(values))], f"one in {stride}"


def _kind(table: Table, at: int) -> str:
    if table.is_number(at):
        return "number"
    return "short" if all(len(row[at]) <= _SHORT for row in table.rows) else "long"


def _finite(series: Series) -> Series:
    parts = [part for part in (series.x, series.y, series.low, series.high) if part]
    keep = [all(map(math.isfinite, point)) for point in zip(*parts, strict=True)]
    if all(keep):
        return series
    x, y, low, high = (tuple(compress(part, keep)) for part in (series.x, series.y, series.low, series.high))
    return replace(series, x=x, y=y, low=low, high=high)
