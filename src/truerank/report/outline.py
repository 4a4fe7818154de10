"""The outline of a page: its sections, which charts belong to each, and what is folded away.

A page has at most eight sections; what is left over is folded. Charts of a report stand by subject, the first
of a subject is shown and the others are folded. A chart whose points lie on one line is put into words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from truerank.core.chart import Chart, ChartAxis, Document, Picture, Section, Series
from truerank.core.types import FloatArray

MOST_SECTIONS = 8
_ON_LINE = 1e-9  # of the height of a chart


@dataclass(frozen=True)
class ChartSubject:
    """Charts of a report that answer one question.

    Parameters
    ----------
    key : anchor of its section
    title, lead : heading, and a sentence on how to read the charts
    keys : pattern of the keys of its charts
    most_shown : charts that are not folded
    """

    key: str
    title: str
    lead: str
    keys: str
    most_shown: int = 1


#: in the order of reading; the last one takes all other charts
SUBJECTS = (
    ChartSubject(
        "groups",
        "For whom: the metrics by group",
        "Values are averaged over the users of a group; a group of targets has the users with such targets.",
        r"segments-.*",
        most_shown=6,
    ),
    ChartSubject(
        "ranks",
        "How far up the held-out items stand",
        "A target is an item that was held out from a user's history. The further left its rank, the better.",
        r"rank-distribution.*|top-share",
    ),
    ChartSubject(
        "list-length",
        "The metrics for shorter and longer lists",
        "K is the number of items recommended. Lines that cross are models whose order depends on it.",
        r".*-by-k(-\d+)?",
    ),
    ChartSubject(
        "sample-size",
        "What sampled items show, and what they hide",
        "Ranking a target among sampled items instead of all makes the metric higher, and can put models in "
        "another order.",
        r"blind-spot(-\d+)?|order-flip",
        most_shown=2,
    ),
    ChartSubject("cost", "Cost", "", r"cost"),
    ChartSubject("charts", "Further charts", "", r".*", most_shown=2),
)


@dataclass(frozen=True)
class ChartSection:
    """The charts of one subject: those shown, those folded, and what is said of charts that are not drawn."""

    subject: ChartSubject
    shown: tuple[Picture, ...]
    folded: tuple[Picture, ...]
    notes: tuple[str, ...] = ()


def chart_sections(charts: Iterable[Picture], best: str = "") -> dict[str, ChartSection]:
    """Return the charts of a report by subject, in the order of reading, without subjects that have none.

    Parameters
    ----------
    charts : of all subjects
    best : the model whose charts come first within a subject

    Examples
    --------
    >>> from truerank.core.chart import HeatMap
    >>> charts = [HeatMap(key, "", "", (), (), (), "", 0, 1) for key in ("top-share", "mine")]
    >>> list(chart_sections(charts))
    ['ranks', 'charts']
    """
    by_subject: dict[ChartSubject, list[Picture]] = {subject: [] for subject in SUBJECTS}
    for chart in charts:
        subject = next(one for one in SUBJECTS if re.fullmatch(one.keys, chart.key, re.DOTALL))
        by_subject[subject].append(chart)
    sections = {}
    for subject, found in by_subject.items():
        drawn, notes = drawn_charts(sorted(found, key=lambda chart: not _shows(chart, best)))
        if found:
            shown, folded = drawn[: subject.most_shown], drawn[subject.most_shown :]
            sections[subject.key] = ChartSection(subject, shown, folded, notes)
    return sections


def _shows(chart: Picture, model: str) -> bool:
    return not isinstance(chart, Chart) or model in {series.model for series in chart.series}


def drawn_charts(charts: Iterable[Picture]) -> tuple[tuple[Picture, ...], tuple[str, ...]]:
    """Return the charts that show more than a sentence does, and a sentence for each of the others."""
    drawn, notes = [], []
    for chart in charts:
        if isinstance(chart, Chart) and lies_on_one_line(chart):
            notes.append(f"{chart.title}: all points lie on one line, so there is no chart. {chart.words}")
        else:
            drawn.append(chart)
    return tuple(drawn), tuple(notes)


def lies_on_one_line(chart: Chart) -> bool:
    """Whether all points of a chart, grey references left out, lie on one straight line.

    Intervals, bars, steps and bands show more than their points, and a chart without points has its own note.

    Examples
    --------
    >>> line = Series("a", (1, 10, 100), (1, 2, 3), model="a")
    >>> chart = Chart("k", "", "", ChartAxis("K", "log"), ChartAxis("y"), (line,))
    >>> lies_on_one_line(chart), lies_on_one_line(replace(chart, x=ChartAxis("K")))
    (True, False)
    """
    series = [one for one in chart.series if one.model] or list(chart.series)
    if any(one.kind not in ("line", "dots") or _has_intervals(one) for one in series):
        return False
    points = np.array([point for one in series for point in zip(one.x, one.y, strict=True)], np.float64)
    if len(points) == 0:
        return False
    x, y = (_unit_scale(points[:, at], axis) for at, axis in enumerate((chart.x, chart.y)))
    known = np.isfinite(x) & np.isfinite(y)
    x, y = x[known], y[known]
    if len(x) == 0:
        return False
    first, last = np.lexsort((y, x))[[0, -1]]
    along, up = x[last] - x[first], y[last] - y[first]
    distance = along * (y - y[first]) - up * (x - x[first])
    return bool(np.abs(distance).max() <= _ON_LINE)


def _has_intervals(series: Series) -> bool:
    return any(low != high for low, high in zip(series.low, series.high, strict=True))


def _unit_scale(values: FloatArray, axis: ChartAxis) -> FloatArray:
    """Return values as places between 0 and 1 along their axis."""
    if axis.scale == "log":
        with np.errstate(divide="ignore", invalid="ignore"):
            values = np.log(values)
    known = values[np.isfinite(values)]
    span = float(np.ptp(known)) if len(known) else 0.0
    places: FloatArray = (values - known.min()) / span if span > 0 else values * 0.0
    return places


@dataclass(frozen=True)
class Part:
    """A section of a page: its anchor and its heading."""

    key: str
    title: str


@dataclass(frozen=True)
class OutlinedSection:
    """A section of a document with its anchor, and the sections folded within it."""

    key: str
    section: Section
    folded: tuple[OutlinedSection, ...] = ()


def outlined(document: Document) -> list[OutlinedSection]:
    """Return the sections of a document with anchors; beyond seven, the others are folded into an eighth.

    Charts whose points lie on one line become notes of their section.

    Examples
    --------
    >>> nine = Document("t", "", tuple(Section(f"part {n}") for n in range(9)))
    >>> [(one.key, one.section.title, len(one.folded)) for one in outlined(nine)][-2:]
    [('part-6', 'part 6', 0), ('more', 'More', 2)]
    """
    keys = anchors([section.title for section in document.sections])
    entries = [
        OutlinedSection(key, _with_drawn_charts(section))
        for key, section in zip(keys, document.sections, strict=True)
    ]
    if len(entries) + bool(document.facts or document.command) <= MOST_SECTIONS:
        return entries
    most = MOST_SECTIONS - 1 - bool(document.facts or document.command)
    key = anchors([*(entry.section.title for entry in entries), "More"])[-1]
    return [*entries[:most], OutlinedSection(key, Section("More"), tuple(entries[most:]))]


def _with_drawn_charts(section: Section) -> Section:
    charts, notes = drawn_charts(section.charts)
    return replace(section, charts=charts, notes=(*section.notes, *notes))


def anchors(titles: Sequence[str]) -> list[str]:
    """Return names for links within a page: letters and digits of the titles, each name once.

    Examples
    --------
    >>> anchors(["A > B, on ml-1m", "!", "a b on ml 1m"])
    ['a-b-on-ml-1m', 'part', 'a-b-on-ml-1m-2']
    """
    found: list[str] = []
    for title in titles:
        name = re.sub(r"[^a-z0-9]+", "-", title.lower())[:60].strip("-") or "part"
        number, key = 1, name
        while key in found:
            number += 1
            key = f"{name}-{number}"
        found.append(key)
    return found
