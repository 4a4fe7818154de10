"""A table as data: what a report, a paper and the command line print from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """Rows of text under named columns.

    Parameters
    ----------
    columns : names
    rows : one text per column
    title : what it holds; may be empty
    notes : sentences to read with it

    Examples
    --------
    >>> Table(("model", "auc"), (("popularity", "0.8000"),)).column("auc")
    ('0.8000',)
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    title: str = ""
    notes: tuple[str, ...] = ()

    def column(self, name: str) -> tuple[str, ...]:
        """Return one column."""
        at = self.columns.index(name)
        return tuple(row[at] for row in self.rows)
