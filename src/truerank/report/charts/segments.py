"""Charts of values and differences by group: a dot with its interval for each group and model.

One chart per grouping and metric, all with the same rows, so that they can be read side by side. The rows of
a group stand together; between groups a row is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from truerank.core.chart import GROUP_MARK, Chart, ChartAxis, Section, Series
from truerank.core.errors import InvalidData
from truerank.core.result import Estimate, Group, Result, Segments, block_of
from truerank.core.table import listed_in_words, percent
from truerank.report.leaderboard import interval_of
from truerank.workflows.compare.result import ComparedSegments

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_ROWS = 60  # of one chart; beyond it only the first models are shown


def segment_charts(segments: Sequence[Segments]) -> tuple[Chart, ...]:
    """Return one chart per grouping and metric; groups without values are left out.

    Examples
    --------
    >>> groups = [Group(name, 60, 60, (Estimate("ease", "auc", 0.8, 0.7, 0.9, 0.95),)) for name in ("a", "b")]
    >>> (chart,) = segment_charts([Segments("history", "users", "By train events.", tuple(groups))])
    >>> chart.title, [series.label for series in chart.series]
    ('auc by history', ['a', 'b'])
    """
    return tuple(chart for number, one in enumerate(segments, start=1) for chart in _charts(one, number))


def _charts(segments: Segments, number: int) -> Iterator[Chart]:
    if isinstance(segments, ComparedSegments):
        yield from _forests(segments, number)
        return
    filled = [(group, _shown(group)) for group in segments.groups if group.estimates]
    metrics = list(dict.fromkeys(e.metric for _, estimates in filled for e in estimates))
    models = list(dict.fromkeys(e.model for _, estimates in filled for e in estimates))
    shown = models[: max(_MOST_ROWS // max(len(filled), 1), 1)]
    for position, metric in enumerate(metrics):
        series = [
            _dot(place * (len(shown) + 1) + row, _label(group.name, model, len(models)), model, estimate)
            for place, (group, estimates) in enumerate(filled)
            for row, model in enumerate(shown, start=1)
            for estimate in estimates
            if (estimate.model, estimate.metric) == (model, metric)
        ]
        yield Chart(
            key=f"segments-{number}-{metric}",
            title=f"{metric} by {segments.heading}",
            words=f"{metric} by {segments.by}: {_words(series)}.",
            x=ChartAxis("group", unit="count"),
            y=ChartAxis(metric),
            series=tuple(series),
            notes=_notes(segments, series, position, models[len(shown) :]),
            has_rows=True,
        )


def _forests(segments: ComparedSegments, number: int) -> Iterator[Chart]:
    filled = [group for group in segments.groups if group.differences]
    metrics = list(dict.fromkeys(one.metric for group in filled for one in group.differences))
    pairs = list(dict.fromkeys((one.first, one.second) for group in filled for one in group.differences))
    shown = pairs[: max(_MOST_ROWS // max(len(filled), 1), 1)]
    for position, metric in enumerate(metrics):
        series = [
            Series(
                _label(group.name, f"{one.first} \N{MINUS SIGN} {one.second}", len(pairs)),
                (place * (len(shown) + 1) + shown.index((one.first, one.second)) + 1,),
                (one.value,),
                () if one.low is None or one.high is None else (one.low,),
                () if one.low is None or one.high is None else (one.high,),
                kind="dots",
                model=f"{one.first} \N{MINUS SIGN} {one.second}",
            )
            for place, group in enumerate(filled)
            for one in group.differences
            if one.metric == metric and (one.first, one.second) in shown
        ]
        last = max((row.x[0] for row in series), default=1)
        zero = Series("no difference", (0.5, last + 0.5), (0.0, 0.0), is_dashed=True)
        only = f"{pairs[0][0]} minus {pairs[0][1]}, " if len(pairs) == 1 else ""
        yield Chart(
            key=f"segments-{number}-{metric}",
            title=f"Differences in {metric} by {segments.heading}",
            words=f"Differences in {metric} by {segments.by}, {only}first minus second: {_words(series)}.",
            x=ChartAxis("group", unit="count"),
            y=ChartAxis(f"{only}difference in {metric}"),
            series=(zero, *series),
            notes=_notes(segments, series, position, [f"{a} and {b}" for a, b in pairs[len(shown) :]]),
            has_rows=True,
        )


def _shown(group: Group) -> list[Estimate]:
    """Return the values that say which model is best: exact ones, else those of the last estimator."""
    reference = Result("segments", group.estimates).reference()
    return [e for e in group.estimates if block_of(e.estimator) == reference]


def _label(group: str, what: str, number: int) -> str:
    return group if number == 1 else f"{group}{GROUP_MARK}{what}"


def _dot(row: int, label: str, model: str, estimate: Estimate) -> Series:
    interval = interval_of(estimate)
    low, high = ((interval[0],), (interval[1],)) if interval else ((), ())
    return Series(label, (row,), (estimate.value,), low, high, kind="dots", model=model)


def _words(series: Sequence[Series]) -> str:
    between = [f" ({one.low[0]:.4f} to {one.high[0]:.4f})" if one.low else "" for one in series]
    return "; ".join(f"{one.label} {one.y[0]:.4f}{text}" for one, text in zip(series, between, strict=True))


def _notes(
    segments: Segments, series: Sequence[Series], position: int, omitted: Sequence[str]
) -> tuple[str, ...]:
    """Return the rule and all notes with the first chart of a grouping, with the others what rows mean."""
    levels = {
        one.level
        for group in segments.groups
        for one in (*group.estimates, *getattr(group, "differences", ()))
        if one.level is not None
    }
    notes = [segments.rule] if position == 0 else []
    if levels and any(one.low for one in series):
        joint = ", for all groups together" if isinstance(segments, ComparedSegments) else ""
        notes.append(f"Whiskers are {' and '.join(map(percent, sorted(levels)))} intervals{joint}.")
    if omitted:
        notes.append(f"Not shown: {listed_in_words(list(omitted))}.")
    return (*notes, *(segments.notes if position == 0 else ()))


def segment_sections(segments: Sequence[ComparedSegments]) -> Iterator[Section]:
    """Yield the sections of a page of a comparison, one per grouping."""
    for number, one in enumerate(segments, start=1):
        yield Section(f"By {one.heading}", charts=tuple(_charts(one, number)))


def plot_segments(segments: Segments, *, width: float | None = None) -> Figure:
    """Return the charts of one grouping as a figure, a panel for each metric; see ``Segments.plot``.

    Raises
    ------
    InvalidData
        When no group has values.
    """
    from truerank.report.matplotlib.panels import plot_panels

    charts = segment_charts([segments])
    if not charts:
        raise InvalidData(f"a figure needs groups with values, but {segments.by} has none.")
    notes = [note for chart in charts for note in chart.notes if note not in segments.notes]
    caption = " ".join(dict.fromkeys(notes))
    panels = [replace(chart, y=replace(chart.y, label="")) for chart in charts]
    return plot_panels(panels, width=width, caption=caption)
