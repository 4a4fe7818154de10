"""A report as data: sections of tables and charts, and what is needed to repeat it."""

from __future__ import annotations

from dataclasses import dataclass

from truerank.core.chart import Picture
from truerank.core.table import Table
from truerank.version import __version__


@dataclass(frozen=True)
class Section:
    """One heading with what stands under it, in this order: notes, tables, charts.

    Parameters
    ----------
    title : heading
    notes : sentences
    tables, charts : what is shown
    """

    title: str
    notes: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    charts: tuple[Picture, ...] = ()


@dataclass(frozen=True)
class Document:
    """A page.

    Parameters
    ----------
    title : what was done, such as ``compare: ease against ials``
    lead : the result in a sentence or two
    sections : in the order of reading
    facts : names and values needed to repeat it
    version : of truerank
    """

    title: str
    lead: str
    sections: tuple[Section, ...]
    facts: tuple[tuple[str, str], ...] = ()
    version: str = __version__
