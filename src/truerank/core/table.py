"""Tables as data, and the text of the numbers in them.

A ``Table`` holds rows of text under named columns and is written as CSV, Markdown or LaTeX; reports, papers
and the command line all print from it. The functions before it turn numbers into that text:

================  ==========================================================  ==============
``fixed``         a column of metric values, ``decimals`` says with how many   ``0.3142``
``percent``       a fraction                                                  ``12.5 %``
``plain_number``  any number, up to four significant digits                   ``1,234``
``rounded``       a number in a sentence that says "about"                     ``1,200``
``count_of``      a count with its noun                                       ``6,040 users``
================  ==========================================================  ==============

Those behind it write lists of names and clauses as they stand in a sentence.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import TYPE_CHECKING

from truerank.core.display import Displayed, Overview, lay_out, visible
from truerank.core.errors import InvalidParameter

if TYPE_CHECKING:
    import polars as pl

MISSING = "\N{EN DASH}"


def decimals(values: Iterable[float]) -> int:
    """Return how many decimals to print in one column: four, fewer from 10 on, more where all are below 0.01.

    Examples
    --------
    >>> decimals([0.31, 0.2]), decimals([0.00031]), decimals([123.4]), decimals([0.0])
    (4, 6, 1, 4)
    """
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    exponent = math.floor(math.log10(largest)) if largest > 0 else 0
    if exponent >= 1:
        return max(0, 3 - exponent)
    return 4 if exponent >= -2 else min(2 - exponent, 12)


def fixed(value: float | None, places: int) -> str:
    """Return the number with a fixed number of decimals and thousands marked, or a dash for none.

    Examples
    --------
    >>> fixed(0.12345, 4), fixed(12345.6, 1), fixed(None, 4) == fixed(float("nan"), 4) == MISSING
    ('0.1235', '12,345.6', True)
    """
    if value is None or not math.isfinite(value):
        return MISSING
    return f"{value:,.{places}f}".replace("-", "\N{MINUS SIGN}")


def percent(fraction: float, digits: int = 6, *, space: str = "\N{NO-BREAK SPACE}") -> str:
    """Return a fraction as a percentage without trailing zeros.

    Parameters
    ----------
    fraction : 1 is 100 %
    digits : significant digits at most
    space : before the sign; one that does not break by default, plain where programs compare the text

    Examples
    --------
    >>> [percent(fraction).split() for fraction in (0.95, 0.999, 1.0)]
    [['95', '%'], ['99.9', '%'], ['100', '%']]
    >>> percent(0.12345, 3, space=" ")
    '12.3 %'
    """
    return f"{100 * fraction:.{digits}g}{space}%"


def plain_number(value: float) -> str:
    """Return whole numbers in full, others to four significant digits, a dash for what is not finite.

    Examples
    --------
    >>> plain_number(12345.0), plain_number(0.123456), plain_number(float("inf")) == MISSING
    ('12,345', '0.1235', True)
    """
    if not math.isfinite(value):
        return MISSING
    return f"{value:,.0f}" if value == round(value) and abs(value) < 1e15 else f"{value:.4g}"


def rounded(value: float) -> str:
    """Return a number to two significant digits, thousands marked.

    Examples
    --------
    >>> rounded(1234.5), rounded(7), rounded(0.126)
    ('1,200', '7', '0.13')
    """
    number = float(f"{value:.1e}")
    return f"{number:,.0f}" if number >= 10 or number == round(number) else f"{number:g}"


def count_of(number: int, noun: str) -> str:
    """Return a count with its noun.

    Examples
    --------
    >>> count_of(1, "user"), count_of(6040, "user")
    ('1 user', '6,040 users')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def duration(seconds: float) -> str:
    """Return seconds with a unit that suits their size.

    Examples
    --------
    >>> duration(4.2), duration(600), duration(16_500)
    ('4.2 s', '10 min', '4.58 h')
    """
    if seconds < 100:
        return f"{seconds:.2g} s"
    return f"{seconds / 60:.3g} min" if seconds < 6000 else f"{seconds / 3600:.3g} h"


def round_up(number: float, *, digits: int) -> int:
    """Return an integer at least as large as the number, with so many leading digits that are not zero.

    Examples
    --------
    >>> round_up(1234.5, digits=2), round_up(1200, digits=2), round_up(7.2, digits=2)
    (1300, 1200, 8)
    """
    unit = 10 ** max(math.floor(math.log10(number)) - digits + 1, 0)
    return int(math.ceil(number / unit) * unit)


def about(number: float) -> str:
    """Return a count in two significant digits, in millions or billions where it is that large.

    Examples
    --------
    >>> about(843), about(12_345), about(1_391_052), about(26_000_000), about(3.1e9)
    ('840', '12,000', '1.4 million', '26 million', '3.1 billion')
    """
    for size, noun in ((1e9, "billion"), (1e6, "million")):
        if float(f"{number:.1e}") >= size:
            return f"{rounded(number / size)} {noun}"
    return rounded(number)


_NUMBER = re.compile(
    r"(<= )?[+\-\N{MINUS SIGN}]?(\d[\d,]*(\.\d+)?|\.\d+)(e[+-]?\d+)?"  # the number itself
    r"(\s?(%|[A-Za-z]{1,4}))?(\s*[\[(][^\])]*[\])])?"  # its unit; an interval in brackets
)
_MARKDOWN = re.compile(r"[\\`*<|$~]|(?<![0-9A-Za-z])_|_(?![0-9A-Za-z])|&(?=#?\w+;)|(?<=\])\(")
_LATEX = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "`": r"\textasciigrave{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "\N{MINUS SIGN}": "$-$",
}


@dataclass(frozen=True, repr=False)
class Table(Displayed):
    """Rows of text under named columns.

    Parameters
    ----------
    columns : names
    rows : one text per column
    title : what it holds; may be empty
    notes : sentences to read with it
    strong : cells to print bold, as (row, column) from 0

    Examples
    --------
    >>> Table(("model", "auc"), (("popularity", "0.8000"),)).column("auc")
    ('0.8000',)
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    title: str = ""
    notes: tuple[str, ...] = ()
    strong: frozenset[tuple[int, int]] = frozenset()

    def column(self, name: str) -> tuple[str, ...]:
        """Return one column."""
        at = self.columns.index(name)
        return tuple(row[at] for row in self.rows)

    def is_number(self, at: int) -> bool:
        """Whether a column holds numbers, which may carry a short unit and an interval in brackets.

        Examples
        --------
        >>> table = Table(("model", "auc", "p"), (("ease", "0.8 [0.7, 0.9]", "3 %"), ("b", "-1", MISSING)))
        >>> [table.is_number(at) for at in range(3)]
        [False, True, True]
        """
        cells = [row[at] for row in self.rows if row[at] not in ("", MISSING)]
        return bool(cells) and all(_NUMBER.fullmatch(cell) for cell in cells)

    def n_names(self) -> int:
        """Return how many columns at the start name the rows: those before the first one of mostly numbers.

        Examples
        --------
        >>> rows = (("ease", "naive", "0.8"), ("ease", "smooth", "0.7"), ("ease", "bounds", "[0.1, 0.9]"))
        >>> Table(("model", "estimator", "auc"), rows).n_names()
        2
        """
        for at in range(len(self.columns)):
            cells = [row[at] for row in self.rows if row[at] not in ("", MISSING)]
            if sum(_NUMBER.fullmatch(cell) is not None for cell in cells) * 2 > len(cells):
                return max(at, 1)
        return 1

    def overview(self) -> Overview:
        """Return what a console and a notebook show."""
        title = f"Table{f' {self.title!r}' if self.title else ''} of {count_of(len(self.rows), 'row')}"
        return Overview(title, self, self.notes)

    def to_polars(self) -> pl.DataFrame:
        """Return the cells, which are text, as a polars frame."""
        import polars as pl

        return pl.DataFrame(list(self.rows), schema=dict.fromkeys(self.columns, pl.String), orient="row")

    def text(self, most: int | None = None) -> str:
        """Return aligned columns; rows beyond ``most`` are counted.

        Examples
        --------
        >>> print(Table(("model", "auc"), (("popularity", "0.8"), ("ease", "0.95"))).text())
        model        auc
        popularity   0.8
        ease        0.95
        """
        shown = replace(self, rows=self.rows[:most])
        return "\n".join([lay_out(shown), *self._left_out(most)])

    def html(self, most: int | None = None) -> str:
        """Return an HTML table whose text is escaped; rows beyond ``most`` are counted.

        Examples
        --------
        >>> print(Table(("model",), (("<b>&",),)).html())
        <table>
        <thead><tr><th style="text-align: left">model</th></tr></thead>
        <tbody>
        <tr><td style="text-align: left">&lt;b&gt;&amp;</td></tr>
        </tbody>
        </table>
        """
        sides = [
            "right; white-space: nowrap" if self.is_number(at) else "left" for at in range(len(self.columns))
        ]

        def line(cells: Iterable[str], tag: str) -> str:
            inside = zip(cells, sides, strict=True)
            return "".join(f'<{tag} style="text-align: {side}">{cell}</{tag}>' for cell, side in inside)

        rows = [f"<tr>{line(cells, 'td')}</tr>" for cells in self._marked(escape, "<b>{}</b>")[:most]]
        head = f"<thead><tr>{line(map(escape, self.columns), 'th')}</tr></thead>"
        more = [f"<div>{text}</div>" for text in self._left_out(most)]
        return "\n".join(["<table>", head, "<tbody>", *rows, "</tbody>", "</table>", *more])

    def _left_out(self, most: int | None) -> list[str]:
        """Return the line that counts the rows beyond ``most``, if any."""
        more = 0 if most is None else len(self.rows) - most
        return [f"... and {count_of(more, 'more row')}"] if more > 0 else []

    def csv(self) -> str:
        r"""Return comma-separated values, the names of the columns first.

        A spreadsheet takes a text that begins with ``=``, ``+``, ``-`` or ``@`` for a formula: such names
        get an apostrophe before them, numbers stay.

        Examples
        --------
        >>> Table(("model", "auc"), (("a, b", "-0.8"), ("=1+1", "0.2"))).csv()
        'model,auc\n"a, b",-0.8\n\'=1+1,0.2\n'
        """
        buffer = io.StringIO()
        rows = [[_csv_cell(cell) for cell in row] for row in (self.columns, *self.rows)]
        csv.writer(buffer, lineterminator="\n").writerows(rows)
        return buffer.getvalue()

    def markdown(self) -> str:
        r"""Return a Markdown table; what a cell holds is shown as it is, never taken for a mark-up.

        Examples
        --------
        >>> print(Table(("model", "auc"), (("a|b", "0.8"),), strong=frozenset({(0, 1)})).markdown())
        | model | auc |
        | --- | ---: |
        | a\|b | **0.8** |
        """
        rule = ["---:" if self._is_plain(at) else "---" for at in range(len(self.columns))]
        cells = self._marked(escape_markdown, "**{}**")
        lines = [
            " | ".join(line) for line in ([escape_markdown(name) for name in self.columns], rule, *cells)
        ]
        title = [f"**{escape_markdown(self.title)}**", ""] if self.title else []
        notes = [line for note in self.notes for line in ("", escape_markdown(note))]
        return "\n".join([*title, *(f"| {line} |" for line in lines), *notes])

    def latex(self, *, caption: str | None = None, label: str | None = None) -> str:
        r"""Return a LaTeX table in the manner of the package ``booktabs``, which the paper must load.

        With a title, caption or label it is a floating ``table``, else only the ``tabular``; notes follow.

        Parameters
        ----------
        caption : plain text, the title by default
        label : for ``\ref``

        Examples
        --------
        >>> print(Table(("model", "auc"), (("a_b", "0.8"),)).latex())
        \begin{tabular}{lr}
        \toprule
        model & auc \\
        \midrule
        a\_b & 0.8 \\
        \bottomrule
        \end{tabular}
        """
        if label is not None and not re.fullmatch(r"[\w:.+/ -]+", label):
            raise InvalidParameter(f"label must be letters, digits and any of _:.+/-, got {label!r}.")
        kinds = "".join("r" if self.is_number(at) else "l" for at in range(len(self.columns)))
        body = [
            rf"\begin{{tabular}}{{{kinds}}}",
            r"\toprule",
            _latex_line([escape_latex(name) for name in self.columns]),
            r"\midrule",
            *map(_latex_line, self._marked(_latex_cell, r"\textbf{{{}}}")),
            r"\bottomrule",
            r"\end{tabular}",
        ]
        body += [rf"\par\smallskip{{\footnotesize {escape_latex(note)}\par}}" for note in self.notes]
        text = self.title if caption is None else caption
        if not text and label is None:
            return "\n".join(body)
        return "\n".join(
            [
                r"\begin{table}",
                r"\centering",
                *([rf"\caption{{{escape_latex(text)}}}"] if text else []),
                *([rf"\label{{{label}}}"] if label else []),
                *body,
                r"\end{table}",
            ]
        )

    def _is_plain(self, at: int) -> bool:
        """Whether a column holds numbers and nothing beside them."""
        return self.is_number(at) and not any(re.search(r"[\[(]", row[at]) for row in self.rows)

    def _marked(self, escape: Callable[[str], str], bold: str) -> list[list[str]]:
        return [
            [
                bold.format(escape(cell)) if (at, column) in self.strong and cell else escape(cell)
                for column, cell in enumerate(row)
            ]
            for at, row in enumerate(self.rows)
        ]


def escape_latex(text: str) -> str:
    r"""Return text that LaTeX prints as it stands.

    Letters beyond ASCII are kept: pdflatex knows accented ones, others need xelatex or lualatex and a font.

    Examples
    --------
    >>> print(escape_latex("R&D_50% {a--b}"))
    R\&D\_50\% \{a-{}-b\}
    """
    plain = "".join(_LATEX.get(character, character) for character in _visible_line(text))
    return re.sub(r"([-',])(?=\1)", r"\1{}", plain)  # two of them would be drawn as one character


def _latex_cell(text: str) -> str:
    if _NUMBER.fullmatch(text):
        text = re.sub(r"(?<![\w.])-(?=[\d.])", "\N{MINUS SIGN}", text)
    return escape_latex(text)


def _latex_line(cells: list[str]) -> str:
    # After the end of a line, both would be taken for its options.
    guard = "{}" if cells[0].lstrip()[:1] in ("[", "*") else ""
    return f"{guard}{' & '.join(cells)} \\\\"


def escape_markdown(text: str) -> str:
    r"""Return text that Markdown shows as it stands.

    Examples
    --------
    >>> print(escape_markdown("<b> *a* | x_1"))
    \<b> \*a\* \| x_1
    """
    return _MARKDOWN.sub(lambda found: "\\" + found[0], _visible_line(text))


def _visible_line(text: str) -> str:
    return visible(" ".join(text.splitlines()))


def _csv_cell(text: str) -> str:
    shown = visible(text, keep="\n")
    return f"'{shown}" if shown[:1] in ("=", "+", "-", "@") and not _NUMBER.fullmatch(shown) else shown


LONGEST_NAME = 28  # what fits beside a value on a phone


def shorten(name: str, longest: int = LONGEST_NAME) -> str:
    """Return the name, or its two ends when it is too long.

    Examples
    --------
    >>> shorten("item-knn(power=3, norm=l2)", 13)
    'item-knn…=l2)'
    """
    if len(name) <= longest:
        return name
    tail = longest // 3
    return f"{name[: longest - 1 - tail]}…{name[-tail:]}"


_MOST_LISTED = 6  # entries of a list in a sentence


def listed_in_words(entries: Sequence[str], most: int = _MOST_LISTED) -> str:
    """Return entries as a list in a sentence; those beyond ``most`` are counted.

    Examples
    --------
    >>> listed_in_words(["a", "b", "c"]), listed_in_words(["a", "b", "c", "d"], most=2), listed_in_words([])
    ('a, b and c', 'a, b and 2 more', 'nothing')
    """
    if not entries:
        return "nothing"
    shown = list(entries[:most])
    if len(entries) > most:
        return f"{', '.join(shown)} and {len(entries) - most:,} more"
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def joined_clauses(entries: Sequence[str], most: int = 2 * _MOST_LISTED) -> str:
    """Return clauses that hold commas of their own; those beyond ``most`` are counted.

    Examples
    --------
    >>> joined_clauses(["ease, exact 0.1", "ease, bv 0.2"]), joined_clauses(["a", "b", "c"], most=1)
    ('ease, exact 0.1; ease, bv 0.2', 'a; and 2 more')
    """
    more = [f"and {len(entries) - most:,} more"] if len(entries) > most else []
    return "; ".join([*entries[:most], *more])


def rounded_percent(fraction: float) -> str:
    """Return a fraction as a percentage to two significant digits.

    Examples
    --------
    >>> rounded_percent(0.1234), rounded_percent(0.0004), rounded_percent(1.0)
    ('12 %', '0.04 %', '100 %')
    """
    return percent(fraction, 2 if fraction < 0.995 else 3, space=" ")
