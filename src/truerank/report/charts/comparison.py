"""A comparison of models as a page: verdicts, forest charts of the differences by metric, and the values.

In a forest chart every pair of models has a dot with its interval, and behind it in grey the identification
bounds: all differences that the sampled ranks allow. With four models or more a heat map shows who is ahead.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from truerank.core.chart import Chart, ChartAxis, Document, HeatMap, Picture, Section, Series
from truerank.core.errors import InvalidData
from truerank.core.table import Table, listed_in_words, percent
from truerank.report.charts.segments import segment_sections
from truerank.report.facts import flat_facts
from truerank.workflows.compare.result import Comparison, Difference, headline

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def difference_map(
    metric: str, models: Sequence[str], differences: Sequence[Difference], *, key: str
) -> HeatMap:
    """Return the differences of all pairs in one metric as a map, row minus column.

    Parameters
    ----------
    metric : spec string
    models : in the order given; they are shown best first
    differences : of this metric, every pair
    key : of the map
    """
    values: dict[tuple[str, str], float] = {}
    for difference in differences:
        values[difference.first, difference.second] = difference.value
        values[difference.second, difference.first] = -difference.value
    wins = {name: sum(values.get((name, other), 0.0) for other in models if other != name) for name in models}
    order = sorted(models, key=lambda name: -wins[name])
    widest = max((abs(value) for value in values.values()), default=0.0) or 1.0
    ahead = [f"{a} is ahead of {b} by {values[a, b]:.4f}" for a, b in pairwise(order)]
    return HeatMap(
        key=key,
        title=f"Who is ahead in {metric}: row minus column",
        words=f"Differences in {metric} between all models, best first. {listed_in_words(ahead)}.",
        rows=tuple(order),
        columns=tuple(order),
        values=tuple(tuple(values.get((a, b)) for b in order) for a in order),
        label=f"difference in {metric}",
        low=-widest,
        high=widest,
        middle=0.0,
        notes=(
            "Colours show the size of a difference; the verdicts say whether it is distinguishable from 0.",
        ),
    )


#: name of the bounds in legends
BOUNDS = "identification bounds"


def forest_chart(comparison: Comparison, metric: str) -> Chart:
    """Return the forest chart of one metric: one row per pair, named by it, with its interval.

    Raises
    ------
    InvalidData
        When the metric was not compared.
    """
    lines = [difference for difference in comparison.differences if difference.metric == metric]
    if not lines:
        known = ", ".join(compared_metrics(comparison)) or "none"
        raise InvalidData(f"there is no difference in {metric!r}. Metrics that were compared: {known}.")
    bounds = _bounds(lines)
    zero = Series("no difference", (0.5, len(lines) + 0.5), (0.0, 0.0), is_dashed=True)
    dots = tuple(_dot(row, difference) for row, difference in enumerate(lines, start=1))
    return Chart(
        key=f"forest-{metric}",
        title=f"Differences in {metric}",
        words=f"Differences in {metric}, first minus second: {'; '.join(map(_difference_words, lines))}.",
        x=ChartAxis("pair", unit="count"),
        y=ChartAxis(f"difference in {metric}"),
        series=(*((bounds,) if bounds else ()), zero, *dots),
        notes=_notes(lines, has_bounds=bounds is not None),
        has_rows=True,
    )


def forest_charts(comparison: Comparison) -> tuple[Chart, ...]:
    """Return one forest chart per metric."""
    return tuple(forest_chart(comparison, metric) for metric in compared_metrics(comparison))


def plot_forests(comparison: Comparison, metric: str | None = None, *, width: float | None = None) -> Figure:
    """Return the forest chart of one metric as a figure, or a panel for each; see ``Comparison.plot``."""
    from truerank.report.matplotlib.panels import plot_panels

    charts = forest_charts(comparison) if metric is None else (forest_chart(comparison, metric),)
    caption = " ".join(dict.fromkeys(note for chart in charts for note in chart.notes))
    panels = [replace(chart, y=replace(chart.y, label="")) for chart in charts]
    return plot_panels(panels, width=width, caption=caption)


def compared_metrics(comparison: Comparison) -> list[str]:
    """Return the compared metrics in the order of the request."""
    return list(dict.fromkeys(difference.metric for difference in comparison.differences))


def _dot(row: int, difference: Difference) -> Series:
    label = f"{difference.first} \N{MINUS SIGN} {difference.second}"
    low, high = (
        ((difference.low,), (difference.high,))
        if difference.low is not None and difference.high is not None
        else ((), ())
    )
    return Series(label, (row,), (difference.value,), low, high, kind="dots", model=label)


def _bounds(lines: list[Difference]) -> Series | None:
    limits = [
        (row, difference.bound_low, difference.bound_high)
        for row, difference in enumerate(lines, start=1)
        if difference.bound_low is not None and difference.bound_high is not None
    ]
    if not limits:
        return None
    rows, low, high = zip(*limits, strict=True)
    middle = tuple((a + b) / 2 for a, b in zip(low, high, strict=True))
    return Series(BOUNDS, rows, middle, low, high, kind="dots")


def _difference_words(difference: Difference) -> str:
    interval = (
        ""
        if difference.low is None or difference.high is None
        else f" ({difference.low:+.4f} to {difference.high:+.4f})"
    )
    pair = f"{difference.first} and {difference.second}"
    return f"{pair} {difference.value:+.4f}{interval}, {headline(difference)}"


def _notes(lines: list[Difference], *, has_bounds: bool) -> tuple[str, ...]:
    known = [difference for difference in lines if difference.low is not None]
    notes = []
    if known and all(math.isclose(difference.low or 0.0, difference.high or 0.0) for difference in known):
        notes.append("All items were ranked: on these users the differences are known and have no whiskers.")
    elif known:
        notes.append(f"Whiskers are {percent(known[0].level)} intervals.")
    if has_bounds:
        notes.append(
            "Grey bars are identification bounds: every difference that is consistent with the sampled ranks."
        )
    return tuple(notes)


_SPELLED_OUT = 4  # differences of which a page shows the sentences; more are folded
_MAPPED = 4  # with so many models or more a heat map is shown


def comparison_document(comparison: Comparison) -> Document:
    """Return a page of a comparison: verdicts in words, differences as charts, and the values behind them.

    Examples
    --------
    >>> from truerank.workflows.compare.compare import compare
    >>> from truerank.core.ranks import Ranks
    >>> ranks = {"A": Ranks.single([0, 3, 0], n_pool=9), "B": Ranks.single([0, 3, 5], n_pool=9)}
    >>> page = comparison_document(compare(ranks, metrics="recall@1"))
    >>> page.title, [section.title for section in page.sections]
    ('compare: A and B', ['Verdicts', 'Differences', 'Values'])
    """
    models = comparison.models()
    verdicts, *others = _verdicts(comparison)
    return Document(
        title=f"compare: {listed_in_words(models)}",
        lead=_lead(comparison),
        sections=(
            verdicts,
            Section("Differences", charts=tuple(_comparison_charts(comparison))),
            *segment_sections(comparison.segments),
            *others,
            Section("Values", tables=(_values(comparison),)),
        ),
        facts=(("command", "truerank compare"), *flat_facts(comparison.provenance)),
        version=comparison.version,
        metrics=tuple(compared_metrics(comparison)),
    )


def _verdicts(comparison: Comparison) -> Iterator[Section]:
    """Yield the verdicts; where they are many, those on the best model of each metric, and all folded."""
    models, differences = comparison.models(), comparison.differences
    notes = tuple(_capital(note, models) for note in comparison.notes)
    sentences = tuple(_capital(one.sentence, models) for one in differences)
    if len(differences) <= _SPELLED_OUT:
        yield Section("Verdicts", notes=(*sentences, *notes), tables=(_table(comparison, differences),))
        return
    best = {metric: best_model(comparison, metric) for metric in compared_metrics(comparison)}
    with_best = [one for one in differences if best[one.metric] in (one.first, one.second)]
    title = "Verdicts" if len(with_best) == len(differences) else "The best against the others"
    yield Section(title, notes=notes, tables=(_table(comparison, with_best),), details=sentences)
    if len(with_best) < len(differences):
        yield Section("All comparisons", tables=(_table(comparison, differences),), is_folded=True)


def best_model(comparison: Comparison, metric: str) -> str:
    """Return the model with the highest value of a metric."""
    return max((one for one in comparison.estimates if one.metric == metric), key=lambda one: one.value).model


def _table(comparison: Comparison, differences: Sequence[Difference]) -> Table:
    """Return the table of some differences: the pair, its metric and the verdict, then the numbers.

    The verdict, last in the table of a terminal, comes early, because pages may be narrow.
    """
    table = replace(comparison, differences=tuple(differences)).to_table()
    order = [2, len(table.columns) - 1, *range(3, len(table.columns) - 1)]
    return Table(
        (f"{table.columns[0]} against {table.columns[1]}", *(table.columns[at] for at in order)),
        tuple((f"{row[0]} against {row[1]}", *(row[at] for at in order)) for row in table.rows),
    )


def _lead(comparison: Comparison) -> str:
    """Return the verdict on two models in the first metric; of more, the best ones and the decided pairs."""
    differences = comparison.differences
    metric = differences[0].metric
    if len(comparison.models()) == 2:
        start = _capital(differences[0].sentence, comparison.models())
    else:
        best = next(
            one
            for one in comparison.estimates
            if (one.metric, one.model) == (metric, best_model(comparison, metric))
        )
        start = f"{best.model} has the highest {metric}, {best.value:.4f}"
        rivals = [
            one.second if one.first == best.model else one.first
            for one in differences
            if one.metric == metric and best.model in (one.first, one.second) and not one.verdict.is_decided
        ]
        verb = "is" if len(rivals) == 1 else "are"
        start += f"; {listed_in_words(rivals)} {verb} not distinguishable from it." if rivals else "."
    if len(differences) == 1:
        return start
    decided = sum(one.verdict.is_decided for one in differences)
    return f"{start} Of {len(differences)} comparisons {decided} {'is' if decided == 1 else 'are'} decided."


def _comparison_charts(comparison: Comparison) -> Iterator[Picture]:
    models = comparison.models()
    for position, metric in enumerate(compared_metrics(comparison), start=1):
        yield forest_chart(comparison, metric)
        differences = [difference for difference in comparison.differences if difference.metric == metric]
        if len(models) >= _MAPPED and len(differences) == len(models) * (len(models) - 1) // 2:
            yield difference_map(metric, models, differences, key=f"ahead-{position}")


def _values(comparison: Comparison) -> Table:
    metrics = list(dict.fromkeys(estimate.metric for estimate in comparison.estimates))
    ways = {estimate.model: estimate.estimator for estimate in comparison.estimates}
    value = {(estimate.model, estimate.metric): estimate.value for estimate in comparison.estimates}
    rows = tuple(
        (model, ways[model], *(f"{value[model, metric]:.4f}" for metric in metrics))
        for model in comparison.models()
    )
    return Table(("model", "by", *metrics), rows)


def _capital(sentence: str, models: Sequence[str]) -> str:
    """Return a sentence that begins with a capital letter, unless it begins with the name of a model."""
    if any(sentence.startswith(model) for model in models):
        return sentence
    return sentence[:1].upper() + sentence[1:]
