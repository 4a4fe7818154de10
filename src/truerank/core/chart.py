"""Charts, heat maps and documents as data, from which reports, matplotlib figures and tables are made.

A ``Document`` holds sections of notes, tables and charts, and the facts needed to repeat it. ``model_mark``
gives each model a colour and a marker. The eight colours of each theme keep their distance under simulated
protanopia, deuteranopia and tritanopia and stand out from the background. Colour is never the only cue: each
model has a marker of its own as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from truerank.core.table import MISSING, Table, plain_number
from truerank.version import __version__

Scale: TypeAlias = Literal["linear", "log"]
Unit: TypeAlias = Literal["number", "count", "share"]
SeriesKind: TypeAlias = Literal["line", "step", "bars", "dots", "band"]


#: Between a group and a model in the name of a row.
GROUP_MARK = " · "


@dataclass(frozen=True)
class ChartAxis:
    """One axis.

    Parameters
    ----------
    label : what it measures
    scale : ``log`` needs values above 0
    unit : how numbers are written: plain, whole with thousands marked, or as percent
    low, high : limits; None takes them from the series
    """

    label: str
    scale: Scale = "linear"
    unit: Unit = "number"
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Series:
    """Points that belong together.

    Parameters
    ----------
    label : as in the legend
    x, y : the points
    low, high : interval around each y; empty for none
    kind : ``line`` joins the points, ``step`` holds each y up to the next x, ``bars`` fill from 0,
        ``dots`` stand alone (with whiskers), ``band`` fills between low and high without a line
    model : series of one model share colour and marker in all charts; empty for a grey reference
    is_dashed : for what was not measured, such as a fit or random order
    """

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    kind: SeriesKind = "line"
    model: str = ""
    is_dashed: bool = False


@dataclass(frozen=True)
class Span:
    """A span of the x axis that is shaded and named, such as the K that a sample cannot resolve."""

    low: float
    high: float
    label: str


@dataclass(frozen=True)
class Chart:
    """Series over two axes.

    Parameters
    ----------
    key : short name, unique within a report, such as ``rank-distribution``
    title : what is shown, in a few words
    words : what can be seen, for those who cannot see it
    x, y : axes
    series : lines, bars, dots and bands, later ones on top
    spans : shaded spans of x
    notes : sentences to read with it
    has_rows : whether x counts rows from the top, named as their series, and y goes across
    """

    key: str
    title: str
    words: str
    x: ChartAxis
    y: ChartAxis
    series: tuple[Series, ...]
    spans: tuple[Span, ...] = ()
    notes: tuple[str, ...] = ()
    has_rows: bool = False

    def table(self) -> Table:
        """Return the points as a table, one row for each x and one column for each series.

        A chart of rows has one row for each of them.

        Examples
        --------
        >>> one = Series("ease", (1, 10), (0.1, 0.5), (0.05, 0.4), (0.2, 0.6))
        >>> Chart("k", "recall@K", "", ChartAxis("K"), ChartAxis("recall"), (one,)).table().rows
        (('1', '0.1 (0.05 to 0.2)'), ('10', '0.5 (0.4 to 0.6)'))
        """
        if self.has_rows:
            return self._table_of_rows()
        places = sorted({x for series in self.series for x in series.x})
        cells = [_cells(series) for series in self.series]
        rows = tuple((plain_number(x), *(cell.get(x, MISSING) for cell in cells)) for x in places)
        return Table((self.x.label, *(series.label for series in self.series)), rows, self.title)

    def _table_of_rows(self) -> Table:
        """Return one row for each series with a model, and a column for the grey dots behind them."""
        behind = [series for series in self.series if series.kind == "dots" and not series.model]
        grey = [_cells(series) for series in behind]
        rows = tuple(
            (series.label, *(cell.get(series.x[0], MISSING) for cell in (_cells(series), *grey)))
            for series in self.series
            if series.model and series.x
        )
        return Table((self.x.label, self.y.label, *(series.label for series in behind)), rows, self.title)


@dataclass(frozen=True)
class HeatMap:
    """Values by row and column, shown as colours and numbers.

    Parameters
    ----------
    key, title, words, notes : as in ``Chart``
    rows, columns : names
    values : by row; None where there is none
    label : what the values are
    low, high : limits of the colour scale
    middle : for scales with two sides, such as 0 for a correlation; None for one side
    """

    key: str
    title: str
    words: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: tuple[tuple[float | None, ...], ...]
    label: str
    low: float
    high: float
    middle: float | None = None
    notes: tuple[str, ...] = ()

    def table(self) -> Table:
        """Return the values as a table."""
        rows = tuple(
            (name, *(MISSING if value is None else plain_number(value) for value in values))
            for name, values in zip(self.rows, self.values, strict=True)
        )
        return Table(("", *self.columns), rows, self.title)


Picture: TypeAlias = Chart | HeatMap


def _cells(series: Series) -> dict[float, str]:
    ends = zip(series.low, series.high, strict=True) if series.low else None
    cells = {}
    for x, y in zip(series.x, series.y, strict=True):
        low_high = "" if ends is None else " ({} to {})".format(*map(plain_number, next(ends)))
        cells[x] = plain_number(y) + low_high
    return cells


@dataclass(frozen=True)
class Section:
    """One section of a document: a heading, then notes, tables, charts and details in this order.

    Parameters
    ----------
    title : heading
    notes : sentences
    tables, charts : what is shown
    details : further sentences, folded on a page
    is_folded : whether a page shows the heading alone until a reader unfolds it
    """

    title: str
    notes: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    charts: tuple[Picture, ...] = ()
    details: tuple[str, ...] = ()
    is_folded: bool = False


@dataclass(frozen=True)
class Document:
    """A page of notes, tables and charts.

    Parameters
    ----------
    title : what was done, such as ``compare: ease against ials``
    lead : the result in a sentence or two
    sections : in the order of reading
    facts : names and values needed to repeat it
    version : of truerank
    command : the command line that made it, to be pasted into a shell
    metrics : spec strings of the metrics that it shows, which a page explains
    """

    title: str
    lead: str
    sections: tuple[Section, ...]
    facts: tuple[tuple[str, str], ...] = ()
    version: str = __version__
    command: str = ""
    metrics: tuple[str, ...] = ()


LIGHT = ("#004bb5", "#c5440b", "#1c8a6f", "#f03ea4", "#bf8700", "#5499e0", "#675075", "#6b290f")
DARK = ("#6f80ff", "#f88418", "#28bf9b", "#c091ff", "#f5d85a", "#a6ddff", "#a184aa", "#ec4656")

# Outlines around the origin, about 10 px wide, and the matplotlib codes of the same shapes.
_SHAPES = (
    ("circle", "o", "M-4.6 0a4.6 4.6 0 1 0 9.2 0a4.6 4.6 0 1 0-9.2 0Z"),
    ("square", "s", "M-4.2-4.2H4.2V4.2H-4.2Z"),
    ("triangle", "^", "M0-5.4 5.2 4H-5.2Z"),
    ("diamond", "D", "M0-5.8 5.8 0 0 5.8-5.8 0Z"),
    ("plus", "P", "M-1.8-5.2H1.8V-1.8H5.2V1.8H1.8V5.2H-1.8V1.8H-5.2V-1.8H-1.8Z"),
    ("wedge", "v", "M0 5.4 5.2-4H-5.2Z"),
    ("cross", "X", "M0-2.4 2.6-5 5-2.6 2.4 0 5 2.6 2.6 5 0 2.4-2.6 5-5 2.6-2.4 0-5-2.6-2.6-5Z"),
    ("hexagon", "h", "M-2.8-4.9H2.8L5.6 0 2.8 4.9H-2.8L-5.6 0Z"),
)


@dataclass(frozen=True)
class Mark:
    """Colour and marker of one model in every chart.

    Parameters
    ----------
    colour : number of the colour in ``LIGHT`` and ``DARK``
    shape : name of the marker
    path : its SVG path around the origin
    code : its matplotlib marker
    """

    colour: int
    shape: str
    path: str
    code: str


def model_mark(position: int) -> Mark:
    """Return colour and marker of the model at a position; 64 of them differ in colour or shape.

    Examples
    --------
    >>> len({(model_mark(i).colour, model_mark(i).shape) for i in range(64)})
    64
    """
    turn, colour = divmod(position, len(LIGHT))
    shape, code, path = _SHAPES[(colour + turn) % len(_SHAPES)]
    return Mark(colour, shape, path, code)
