r"""How results, data and tables show themselves: in the columns of a terminal, in a notebook, as frames.

Names of models, items and files come from outside, so that they may hold anything: escape sequences, letters
that the terminal cannot encode, characters two columns wide. ``visible`` shows instead of sends,
``text_width`` counts columns, and ``wrap_words`` and ``lay_out`` make lines in which no word and no number is
broken. A table that is too wide for its terminal is written, in this order, with fewer words to a line; with
intervals below their values; as several tables, each with the first columns again; as one line per cell.

A class derived from ``Displayed`` says in ``overview`` what there is to see and in ``to_polars`` what its
rows are; text, HTML and the conversion to pandas follow. All text is escaped, so that no name of a model or
column is taken for mark-up.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any

from truerank.core.errors import MissingDependency

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

    from truerank.core.table import Table

Style = Callable[[str], str]
_Block = tuple[list[int], list[int]]  # numbers and widths of columns that stand beside each other

#: Our own signs where the terminal has none of them.
_PLAIN = {
    **dict.fromkeys("\N{EN DASH}\N{EM DASH}\N{MINUS SIGN}\N{NON-BREAKING HYPHEN}", "-"),
    "\N{HORIZONTAL ELLIPSIS}": "...",
    "\N{NO-BREAK SPACE}": " ",
    "\N{MULTIPLICATION SIGN}": "x",
    "\N{PLUS-MINUS SIGN}": "+-",
    "\N{LESS-THAN OR EQUAL TO}": "<=",
    "\N{GREATER-THAN OR EQUAL TO}": ">=",
}
#: What moves the cursor, ends the line, turns the direction of writing or is no character at all.
_CONTROL = re.compile(
    "[\x00-\x1f\x7f-\x9f\u2028\u2029\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
_SHORT = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}
_PIECE = re.compile(r"[^ \[(]*[\[(][^\[\]()]*[\])][^ ]*|[^ ]+")  # a spec or an interval, else a word
_LIMB = re.compile(r"[^,/=(&?_.:-]*[,/=(&?_.:-]?")  # parts of a very long word
_LONG_WORD = 30  # columns; what is longer may be broken after a comma, slash, ...
_NARROWEST = 16  # columns that a text keeps, if it has as many
_TALLEST = 5  # lines of a cell; more are read more easily one below the other
_GAP = "  "


def visible(text: str, encoding: str = "utf-8", *, keep: str = "") -> str:
    r"""Return text that shows what a terminal would obey or could not encode.

    Escapes are those of JSON, so that JSON stays JSON.

    Parameters
    ----------
    text : anything
    encoding : of the terminal or file
    keep : control characters that are meant, such as a line feed in a message

    Examples
    --------
    >>> print(visible("a\x1b[2Jb\n"), visible("\N{MULTIPLICATION SIGN} \N{GREEK SMALL LETTER TAU}", "ascii"))
    a\u001b[2Jb\n x \u03c4
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        character if character in keep else _visible_character(character, encoding) for character in text
    )


def _visible_character(character: str, encoding: str) -> str:
    if not _CONTROL.match(character):
        try:
            character.encode(encoding)
        except UnicodeEncodeError:
            if character in _PLAIN:
                return _PLAIN[character]
        else:
            return character
    if character in _SHORT:
        return _SHORT[character]
    units = character.encode("utf-16-be", errors="surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def text_width(text: str) -> int:
    """Return how many columns a terminal needs for a line of text.

    Examples
    --------
    >>> text_width("abc"), text_width("\N{CJK UNIFIED IDEOGRAPH-4E2D}")
    (3, 2)
    """
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def wrap_words(text: str, width: int | None, indent: str = "") -> list[str]:
    """Return lines of at most ``width`` columns, broken between words; a wider word has a line of its own.

    Parameters
    ----------
    text : sentences; its own line feeds stay
    width : columns; None for any number
    indent : what all lines but the first of each paragraph begin with

    Examples
    --------
    >>> wrap_words("any recall@10 from 0.00 to 0.15", 15)
    ['any recall@10', 'from 0.00 to', '0.15']
    """
    if width is None:
        return text.split("\n")
    return [
        line if at == 0 else indent + line
        for paragraph in text.split("\n")
        for at, line in enumerate(_filled(_words(paragraph), width, width - len(indent)))
    ]


def _words(text: str) -> list[str]:
    """Return words; blanks before the first belong to it, a sign of per cent belongs to its number."""
    start = text[: len(text) - len(text.lstrip(" "))]
    first, *others = re.split(r" +(?![ %])", text.strip(" "))
    return [start + first, *others]


def _filled(words: Sequence[str], width: int, further: int | None = None, glue: str = " ") -> list[str]:
    """Return words put into lines, as many as fit in each."""
    lines: list[str] = []
    for word in words:
        room = width if len(lines) <= 1 or further is None else further
        if lines and text_width(lines[-1]) + len(glue) + text_width(word) <= room:
            lines[-1] += glue + word
        else:
            lines.append(word)
    return lines or [""]


@dataclass(frozen=True)
class _Column:
    """A column whose cells can be shown, and the widths it may have."""

    name: str
    cells: tuple[str, ...]
    is_number: bool

    @cached_property
    def widest(self) -> int:
        """Columns for every cell in one line."""
        return max(map(text_width, (self.name, *self.cells)))

    @cached_property
    def body(self) -> int:
        """Columns for every cell, but not the whole name, in one line."""
        return max(map(text_width, (*self.name.split(" "), *self.cells)))

    @cached_property
    def least(self) -> int:
        """Columns below which a word or a number is broken."""
        pieces = [piece for cell in self.cells for piece in self.pieces(cell)]
        longest = max(map(text_width, (*self.name.split(" "), *pieces)))
        return longest if self.is_number else max(longest, min(_NARROWEST, self.widest))

    def pieces(self, cell: str) -> list[str]:
        """Return parts of a cell that are not broken."""
        if self.is_number:
            return re.split(r" (?=[\[(])", cell, maxsplit=1)
        return _pieces(cell)

    def lines(self, cell: str, width: int) -> list[str]:
        """Return a cell in lines of at most ``width`` columns."""
        if text_width(cell) <= width:
            return [cell]
        return _joined_pieces(self.pieces(cell), width)


def _pieces(cell: str) -> list[str]:
    """Return words, and short specs and intervals with the blanks in them."""
    pieces: list[str] = []
    for found in _PIECE.findall(cell):
        if text_width(found) <= _LONG_WORD:
            pieces.append(found)
            continue
        for word in found.split(" "):
            limbs = [limb for limb in _LIMB.findall(word) if limb]
            pieces += [word] if text_width(word) <= _LONG_WORD else _filled(limbs, _LONG_WORD, glue="")
    return pieces


def _joined_pieces(pieces: Sequence[str], width: int) -> list[str]:
    return _filled([part for piece in pieces for part in _folded(piece, width)], width)


def _folded(word: str, width: int) -> list[str]:
    """Return a word, in parts only if it is wider than a whole line."""
    if text_width(word) <= width:
        return [word]
    if " " in word:
        return [part for one in word.split(" ") for part in _folded(one, width)]
    return _filled(list(word), width, glue="")


def lay_out(
    table: Table, width: int | None = None, *, encoding: str = "utf-8", bold: Style | None = None
) -> str:
    """Return a table as text in lines of at most ``width`` columns.

    Numbers stand on the right. No number and no word that fits into a line is broken.

    Parameters
    ----------
    table : the cells may hold anything
    width : columns of the terminal; None for a file, whose lines are as long as they need to be
    encoding : of the terminal or file
    bold : what the names of columns and strong cells are drawn with; plain by default

    Examples
    --------
    >>> from truerank.core.table import Table
    >>> table = Table(("model", "auc", "ap"), (("ease", "0.88 [0.87, 0.89]", "0.10 [0.09, 0.11]"),) * 2)
    >>> print(lay_out(table, 36))
    model           auc            ap
    ease           0.88          0.10
           [0.87, 0.89]  [0.09, 0.11]
    ease           0.88          0.10
           [0.87, 0.89]  [0.09, 0.11]
    """
    columns = [
        _Column(
            visible(name, encoding),
            tuple(visible(row[at], encoding) for row in table.rows),
            table.is_number(at),
        )
        for at, name in enumerate(table.columns)
    ]
    if not columns:
        return ""
    style = bold or _plain
    blocks = _blocks(columns, table.n_names(), width)
    if not blocks:
        return "\n".join(_records(columns, width or 0, style))
    return "\n\n".join(
        "\n".join(_grid(columns, widths, block, table.strong, style)) for block, widths in blocks
    )


def _plain(text: str) -> str:
    return text


def _widths(columns: Sequence[_Column], width: int | None, *, below: bool = True) -> list[int] | None:
    """Return the width of each column, or None if they do not fit beside each other.

    Parameters
    ----------
    columns : all of them
    width : columns of the terminal
    below : whether intervals may stand below their values
    """
    widest = [column.widest for column in columns]
    if width is None:
        return widest
    room = width - len(_GAP) * (len(columns) - 1)
    if sum(widest) <= room:
        return widest
    for is_below in (False, True) if below else (False,):
        least = [column.least if is_below or not column.is_number else column.body for column in columns]
        if sum(least) <= room:
            texts = [
                few if column.is_number else column.widest for column, few in zip(columns, least, strict=True)
            ]
            widths = _shared(least, texts, room)
            widths = widths if is_below else _shared(widths, widest, room)  # names of columns of numbers last
            is_tall = any(
                len(column.lines(cell, given)) > _TALLEST
                for column, given in zip(columns, widths, strict=True)
                for cell in column.cells
            )
            return None if is_tall else widths
    return None


def _shared(least: Sequence[int], widest: Sequence[int], room: int) -> list[int]:
    """Return widths between the least and the widest: as equal as can be, and as wide as there is room."""
    best = list(least)
    for limit in range(max(widest) + 1):
        widths = [min(most, max(few, limit)) for few, most in zip(least, widest, strict=True)]
        if sum(widths) > room:
            break
        best = widths
    return best


def _blocks(columns: Sequence[_Column], n_keys: int, width: int | None) -> list[_Block]:
    """Return all columns, or groups of them led by the names of rows; nothing if a list is easier to read."""
    widths = _widths(columns, width)
    if widths is not None:
        return [(list(range(len(columns))), widths)]
    if len(columns[0].cells) > 1:
        for below in (False, True):
            blocks = _filled_blocks(columns, n_keys, width, below)
            # three tables of one column each are harder to read than a list
            if blocks and (len(blocks) <= 2 or any(len(block) > n_keys + 1 for block, _ in blocks)):
                return blocks
    return []


def _filled_blocks(columns: Sequence[_Column], n_keys: int, width: int | None, below: bool) -> list[_Block]:
    """Return groups with as many columns as fit in each; nothing if one does not fit by itself."""
    keys = list(range(n_keys))
    blocks: list[_Block] = []
    for at in range(n_keys, len(columns)):
        last = blocks[-1][0] if blocks else keys
        for block in ([*last, at], [*keys, at]):
            widths = _widths([columns[one] for one in block], width, below=below)
            if widths is not None:
                blocks = [*(blocks[:-1] if block[:-1] == last else blocks), (block, widths)]
                break
        else:
            return []
    return blocks


def _grid(
    columns: Sequence[_Column],
    widths: Sequence[int],
    block: Sequence[int],
    strong: frozenset[tuple[int, int]],
    bold: Style,
) -> list[str]:
    """Return the lines of a block of columns; names stand just above the cells."""
    columns = [columns[at] for at in block]
    names = [
        _joined_pieces(column.name.split(" "), width) for column, width in zip(columns, widths, strict=True)
    ]
    tallest = max(map(len, names))
    head = [[""] * (tallest - len(name)) + name for name in names]
    lines = _row(columns, widths, head, [bold] * len(columns))
    for at in range(len(columns[0].cells)):
        cells = [column.lines(column.cells[at], width) for column, width in zip(columns, widths, strict=True)]
        lines += _row(
            columns, widths, cells, [bold if (at, number) in strong else _plain for number in block]
        )
    return lines


def _row(
    columns: Sequence[_Column],
    widths: Sequence[int],
    cells: Sequence[Sequence[str]],
    styles: Sequence[Style],
) -> list[str]:
    lines = []
    for at in range(max(map(len, cells))):
        line = ""
        blanks = 0
        for column, width, cell, style in zip(columns, widths, cells, styles, strict=True):
            text = cell[at] if at < len(cell) else ""
            free = width - text_width(text)
            if text:
                line += " " * (blanks + (free if column.is_number else 0)) + style(text)
                blanks = 0 if column.is_number else free
            else:
                blanks += width
            blanks += len(_GAP)
        lines.append(line)
    return lines


def _records(columns: Sequence[_Column], width: int, bold: Style) -> list[str]:
    """Return a line per cell that is not empty, rows apart."""
    longest = max(text_width(word) for column in columns for word in column.name.split(" "))
    label = min(max(text_width(column.name) for column in columns), max(width // 3, longest))
    room = max(width - label - len(_GAP), 1)
    lines: list[str] = []
    for at in range(len(columns[0].cells)):
        lines += [""] if at else []
        for column in columns:
            if not column.cells[at]:
                continue
            name = _joined_pieces(column.name.split(" "), label)
            value = _joined_pieces(column.pieces(column.cells[at]), room)
            for one in range(max(len(name), len(value))):
                left = name[one] if one < len(name) else ""
                right = value[one] if one < len(value) else ""
                blanks = " " * (label - text_width(left) + len(_GAP)) if right else ""
                lines.append((bold(left) if left else "") + blanks + right)
    return lines


#: Rows of a table that a console and a notebook show; the others are counted.
MOST_LINES, MOST_ROWS = 20, 60


@dataclass(frozen=True)
class Overview:
    """What an object shows of itself.

    Parameters
    ----------
    title : what it is, in one line
    table : what it holds
    notes : sentences to read with it
    is_short : whether a console shows the title alone
    """

    title: str
    table: Table | None = None
    notes: Sequence[str] = ()
    is_short: bool = False

    def text(self) -> str:
        """Return the lines that a console shows."""
        lines = [f"<{self.title}>"]
        if not self.is_short:
            lines += [] if self.table is None else [self.table.text(MOST_LINES)]
            lines += self.notes
        return "\n".join(lines)

    def html(self) -> str:
        """Return what a notebook shows."""
        parts = [f"<div><b>{escape(self.title)}</b></div>"]
        parts += [] if self.table is None else [self.table.html(MOST_ROWS)]
        parts += [f"<div>{escape(note)}</div>" for note in self.notes]
        return "\n".join(parts)


class Displayed:
    """Base class of what consoles and notebooks show; dataclasses among them have ``repr=False``."""

    @abstractmethod
    def overview(self) -> Overview:
        """Return what there is to see."""

    @abstractmethod
    def to_polars(self) -> pl.DataFrame:
        """Return the rows as a polars frame."""

    def to_pandas(self) -> pd.DataFrame:
        """Return the rows as a pandas frame.

        Raises
        ------
        MissingDependency
            Without pandas.
        """
        try:
            import pandas as pd
        except ImportError:
            raise MissingDependency("to_pandas()", "pandas") from None
        frame = self.to_polars()
        return pd.DataFrame({name: frame[name].to_numpy() for name in frame.columns})

    def __repr__(self) -> str:
        return self.overview().text()

    def _repr_html_(self) -> str:
        return self.overview().html()


def frame_of(rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """Return a frame with one row per mapping; a column that holds nothing is one of numbers."""
    import polars as pl

    frame = pl.DataFrame(list(rows), infer_schema_length=None)
    return frame.with_columns(pl.col(pl.Null).cast(pl.Float64))
