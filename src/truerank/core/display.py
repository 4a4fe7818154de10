"""How results and data show themselves: a few lines in a console, tables in a notebook, frames on request.

A class derived from ``Displayed`` says in ``overview`` what there is to see and in ``to_polars`` what its
rows are; text, HTML and the conversion to pandas follow. All text is escaped, so that no name of a model or
column is taken for mark-up.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from truerank.core.errors import MissingDependency

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

    from truerank.core.table import Table

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
        raise NotImplementedError

    @abstractmethod
    def to_polars(self) -> pl.DataFrame:
        """Return the rows as a polars frame."""
        raise NotImplementedError

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
