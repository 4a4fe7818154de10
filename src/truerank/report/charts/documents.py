"""A comparison as a document: verdicts first.

Who is ahead of whom, as a map.

An experiment with sub-samples as a document: the answer first.

How far models move on sub-samples, and how the agreement falls with the fraction.

Differences as a chart: a dot with its interval for every pair, what all ranks allow behind it.

How well strategies keep the order, as heat maps.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, TypeAlias

from truerank.core.chart import Chart, ChartAxis, Document, HeatMap, Picture, Section, Series
from truerank.core.errors import InvalidData, check_choice
from truerank.core.table import Table, fixed, percent
from truerank.report.charts.wording import facts_of, listed_in_words
from truerank.workflows.agreement.result import Agreement, MetricTaus, StrategyAgreement
from truerank.workflows.compare.result import Comparison, Difference, headline

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def winner_map(metric: str, models: Sequence[str], differences: Sequence[Difference], *, key: str) -> HeatMap:
    """Return the differences of all pairs in one metric as a map, row minus column.

    Parameters
    ----------
    metric : spec string
    models : in the order given; they are shown best first
    differences : of this metric, every pair
    key : of the map
    """
    values: dict[tuple[str, str], float] = {}
    for one in differences:
        values[one.first, one.second] = one.value
        values[one.second, one.first] = -one.value
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
        notes=("Colours show values alone; which of them can be told from 0 stands in the verdicts.",),
    )


def move_map(found: Agreement) -> HeatMap | None:
    """Return P_MLE by model and fraction; None where there is none."""
    names = list(dict.fromkeys((move.scenario, move.model) for move in found.moves))
    if not names:
        return None
    value = {(move.scenario, move.model, move.fraction): move.probability for move in found.moves}
    several = len({scenario for scenario, _ in names}) > 1
    rows = tuple(f"{scenario}, {model}" if several else model for scenario, model in names)
    columns = tuple(_percent(fraction) for fraction in found.fractions)
    values = tuple(
        tuple(value.get((scenario, model, fraction)) for fraction in found.fractions)
        for scenario, model in names
    )
    return HeatMap(
        key="moves",
        title="Which models sub-samples favour (P_MLE)",
        words=f"P_MLE by model and fraction. {_extremes(rows, columns, values)}",
        rows=rows,
        columns=columns,
        values=values,
        label="P_MLE",
        low=0.0,
        high=1.0,
        middle=0.5,
        notes=("Above one half a model stands better on sub-samples than on the full data, below it worse.",),
    )


def fraction_chart(found: Agreement) -> Chart:
    """Return the agreement over certain pairs against the fraction, with its interval and the threshold."""
    series = []
    for strategy in found.strategies:
        cells = sorted((found.cell(strategy, f) for f in found.fractions), key=lambda cell: cell.fraction)
        known = [cell for cell in cells if cell.certain is not None]
        has_interval = all(cell.certain_low is not None for cell in known)
        series.append(
            Series(
                strategy,
                tuple(cell.fraction for cell in known),
                tuple(_number(cell.certain) for cell in known),
                low=tuple(_number(cell.certain_low) for cell in known) if has_interval else (),
                high=tuple(_number(cell.certain_high) for cell in known) if has_interval else (),
                kind="dots" if len(known) < 2 else "line",
                model=strategy,
            )
        )
    ends = min(found.fractions), max(found.fractions)
    said = [
        f"{one.strategy} does not keep the order"
        if one.keeps_to is None
        else f"{one.strategy} keeps the order down to {_percent(one.keeps_to)}"
        for one in found.scores
    ]
    return Chart(
        key="certain-against-fraction",
        title="Agreement over certain pairs against the share of train events",
        words="Agreement over certain pairs against the share of the train events kept. "
        f"{listed_in_words(said)}.",
        x=ChartAxis("share of the train events", "log", "share"),
        y=ChartAxis("agreement over certain pairs"),
        series=(
            Series(f"threshold {found.threshold:g}", ends, (found.threshold,) * 2, is_dashed=True),
            *series,
        ),
        notes=(
            f"Bands: {percent(found.level)} intervals over users and seeds. The order counts as kept where "
            f"the lower end is at least {found.threshold:g}, at this and all larger fractions.",
        ),
    )


def _extremes(rows: Sequence[str], columns: Sequence[str], values: Sequence[Sequence[float | None]]) -> str:
    known = [
        (value, row, column)
        for row, line in zip(rows, values, strict=True)
        for column, value in zip(columns, line, strict=True)
        if value is not None
    ]
    if not known:
        return "No value is known."
    (low, *least), (high, *most) = min(known), max(known)
    return f"Largest {high:.2f} ({', '.join(most)}), smallest {low:.2f} ({', '.join(least)})."


def _number(value: float | None) -> float:
    return float("nan") if value is None else value


def _percent(fraction: float) -> str:
    return percent(fraction, 3, space=" ")


#: What the bounds are called in legends.
BOUNDS = "what all ranks allow"


def forest(found: Comparison, metric: str) -> Chart:
    """Return the differences of all pairs in one metric; x counts the pairs.

    Raises
    ------
    InvalidData
        When the metric was not compared.
    """
    lines = [one for one in found.differences if one.metric == metric]
    if not lines:
        known = ", ".join(compared(found)) or "none"
        raise InvalidData(f"there is no difference in {metric!r}. Metrics that were compared: {known}.")
    bounds = _bounds(lines)
    zero = Series("no difference", (0.5, len(lines) + 0.5), (0.0, 0.0), is_dashed=True)
    dots = tuple(_dot(place, one) for place, one in enumerate(lines, start=1))
    return Chart(
        key=f"forest-{metric}",
        title=f"Differences in {metric}",
        words=f"Differences in {metric}, first minus second: {'; '.join(map(_difference_words, lines))}.",
        x=ChartAxis("pair", unit="count"),
        y=ChartAxis(f"difference in {metric}"),
        series=(*((bounds,) if bounds else ()), zero, *dots),
        notes=_notes(lines, has_bounds=bounds is not None),
    )


def forests(found: Comparison) -> tuple[Chart, ...]:
    """Return one chart per metric."""
    return tuple(forest(found, metric) for metric in compared(found))


def plot_forests(found: Comparison, metric: str | None = None, *, width: float | None = None) -> Figure:
    """Return the forest of one metric, or a panel for each; see ``Comparison.plot``."""
    from truerank.report.matplotlib.panels import plot_panels

    charts = forests(found) if metric is None else (forest(found, metric),)
    caption = " ".join(dict.fromkeys(note for chart in charts for note in chart.notes))
    panels = [replace(chart, y=replace(chart.y, label="")) for chart in charts]
    return plot_panels(panels, width=width, caption=caption)


def compared(found: Comparison) -> list[str]:
    """Return the metrics in the order they were asked for."""
    return list(dict.fromkeys(one.metric for one in found.differences))


def _dot(place: int, one: Difference) -> Series:
    label = f"{one.first} \N{MINUS SIGN} {one.second}"
    low, high = ((one.low,), (one.high,)) if one.low is not None and one.high is not None else ((), ())
    return Series(label, (place,), (one.value,), low, high, kind="dots", model=label)


def _bounds(lines: list[Difference]) -> Series | None:
    ends = [
        (place, one.bound_low, one.bound_high)
        for place, one in enumerate(lines, start=1)
        if one.bound_low is not None and one.bound_high is not None
    ]
    if not ends:
        return None
    places, low, high = zip(*ends, strict=True)
    middle = tuple((a + b) / 2 for a, b in zip(low, high, strict=True))
    return Series(BOUNDS, places, middle, low, high, kind="dots")


def _difference_words(one: Difference) -> str:
    ends = "" if one.low is None or one.high is None else f" ({one.low:+.4f} to {one.high:+.4f})"
    return f"{one.first} and {one.second} {one.value:+.4f}{ends}, {headline(one)}"


def _notes(lines: list[Difference], *, has_bounds: bool) -> tuple[str, ...]:
    known = [one for one in lines if one.low is not None]
    notes = []
    if known and all(math.isclose(one.low or 0.0, one.high or 0.0) for one in known):
        notes.append("All items were ranked: on these users the differences are known and have no whiskers.")
    elif known:
        notes.append(f"Whiskers are {percent(known[0].level)} intervals.")
    if has_bounds:
        notes.append("Behind them in grey stands every difference that the sampled ranks allow.")
    return tuple(notes)


_MAPPED = 4  # models from which on a map helps


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
    return Document(
        title=f"compare: {listed_in_words(models)}",
        lead=_lead(comparison),
        sections=(
            Section(
                "Verdicts",
                notes=tuple(
                    _capital(sentence, models)
                    for sentence in (*(one.sentence for one in comparison.differences), *comparison.notes)
                ),
                tables=(replace(comparison.to_table(), title="Differences and verdicts"),),
            ),
            Section("Differences", charts=tuple(_comparison_charts(comparison))),
            Section("Values", tables=(_values(comparison),)),
        ),
        facts=(("command", "truerank compare"), *facts_of(comparison.provenance)),
        version=comparison.version,
    )


def _lead(comparison: Comparison) -> str:
    """Return the verdict of two models in the first metric; of more models, who leads and what is decided."""
    found = comparison.differences
    metric = found[0].metric
    if len(comparison.models()) == 2:
        start = _capital(found[0].sentence, comparison.models())
    else:
        best = max((one for one in comparison.estimates if one.metric == metric), key=lambda one: one.value)
        start = f"{best.model} has the highest {metric}, {best.value:.4f}."
    if len(found) == 1:
        return start
    decided = sum(one.verdict.is_decided for one in found)
    return f"{start} Of {len(found)} comparisons {decided} {'is' if decided == 1 else 'are'} decided."


def _comparison_charts(comparison: Comparison) -> Iterator[Picture]:
    models = comparison.models()
    for position, metric in enumerate(compared(comparison), start=1):
        yield forest(comparison, metric)
        own = [one for one in comparison.differences if one.metric == metric]
        if len(models) >= _MAPPED and len(own) == len(models) * (len(models) - 1) // 2:
            yield winner_map(metric, models, own, key=f"ahead-{position}")


def _values(comparison: Comparison) -> Table:
    metrics = list(dict.fromkeys(one.metric for one in comparison.estimates))
    ways = {one.model: one.estimator for one in comparison.estimates}
    value = {(one.model, one.metric): one.value for one in comparison.estimates}
    rows = tuple(
        (model, ways[model], *(f"{value[model, metric]:.4f}" for metric in metrics))
        for model in comparison.models()
    )
    return Table(("model", "by", *metrics), rows, "Values of each model")


def _capital(sentence: str, models: Sequence[str]) -> str:
    """Return a sentence that begins with a capital letter, unless it begins with the name of a model."""
    if any(sentence.startswith(model) for model in models):
        return sentence
    return sentence[:1].upper() + sentence[1:]


What: TypeAlias = Literal["tau", "expected", "certain"]

_LABELS = {
    "tau": "Kendall's tau with the order on the full data",
    "expected": "Kendall's tau when users are resampled",
    "certain": "agreement over pairs whose order on the full data is certain",
}


def heat_by_fraction(
    found: Agreement, *, metric: str = "", scenario: str = "", what: What = "tau"
) -> HeatMap:
    """Return strategies by fractions.

    Parameters
    ----------
    found : the experiment
    metric, scenario : one of them; the mean over all by default
    what : ``tau``, ``expected`` or ``certain``, as in ``StrategyAgreement``
    """
    values = [
        [_value(found.cell(strategy, fraction, metric, scenario), what) for fraction in found.fractions]
        for strategy in found.strategies
    ]
    which = f", {metric}" if metric else ""
    columns = [percent(fraction) for fraction in found.fractions]
    return _map("fraction", f"Agreement by share of the train events{which}", found, columns, values, what)


def heat_by_metric(found: Agreement, *, what: What = "tau") -> HeatMap:
    """Return strategies by metrics, each cell the mean over the fractions that have a value."""
    pairs = list(dict.fromkeys((cell.scenario, cell.metric) for cell in found.cells if cell.metric))
    has_several = len({scenario for scenario, _ in pairs}) > 1
    values = []
    for strategy in found.strategies:
        line = []
        for scenario, metric in pairs:
            cells = [found.cell(strategy, fraction, metric, scenario) for fraction in found.fractions]
            known = [value for value in (_value(cell, what) for cell in cells) if value is not None]
            line.append(sum(known) / len(known) if known else None)
        values.append(line)
    columns = [f"{scenario}: {metric}" if has_several else metric for scenario, metric in pairs]
    return _map("metric", "Agreement by metric, mean over fractions", found, columns, values, what)


def _value(cell: StrategyAgreement, what: What) -> float | None:
    check_choice("what", what, tuple(_LABELS))
    return {"tau": cell.tau, "expected": cell.expected, "certain": cell.certain}[what]


def _map(
    by: str,
    title: str,
    found: Agreement,
    columns: Sequence[str],
    values: Sequence[Sequence[float | None]],
    what: What,
) -> HeatMap:
    return HeatMap(
        key=f"{what}-by-{by}",
        title=title,
        words=_heat_words(found.strategies, columns, values, what),
        rows=tuple(found.strategies),
        columns=tuple(columns),
        values=tuple(tuple(line) for line in values),
        label=_LABELS[what],
        low=-1.0,
        high=1.0,
        middle=0.0,
        notes=("1 is the same order, 0 as good as chance, -1 the reverse; a dash where a model failed.",),
    )


def _heat_words(
    rows: Sequence[str], columns: Sequence[str], values: Sequence[Sequence[float | None]], what: What
) -> str:
    known = [
        (value, row, column)
        for row, line in zip(rows, values, strict=True)
        for column, value in zip(columns, line, strict=True)
        if value is not None
    ]
    start = f"{_LABELS[what][0].upper()}{_LABELS[what][1:]} by strategy and column."
    if not known:
        return f"{start} There are no values."
    best, worst = max(known), min(known)
    return (
        f"{start} The highest is {best[0]:.2f}, {best[1]} at {best[2]}; "
        f"the lowest {worst[0]:.2f}, {worst[1]} at {worst[2]}."
    )


def agreement_document(found: Agreement) -> Document:
    """Return a page of an experiment: the answer, strategies, maps of agreement, and the values."""
    names = [str(counts["name"]) for counts in found.data.values() if counts.get("name")]
    return Document(
        title=f"agreement: {names[0] if names else 'which sub-samples keep the order of models'}",
        lead=found.answer,
        sections=(
            Section(
                "Strategies",
                notes=tuple(f"Not fitted: {problem}" for problem in found.problems),
                tables=tuple(_tables(found)),
            ),
            Section("Agreement", charts=tuple(_agreement_charts(found))),
            Section(
                "Values on the full data", tables=tuple(_board(board, found.seeds) for board in found.boards)
            ),
        ),
        facts=(
            ("command", "truerank agreement"),
            *facts_of(
                {
                    "strategies": found.strategies,
                    "fractions": found.fractions,
                    "seeds": found.seeds,
                    "level": found.level,
                    "threshold": found.threshold,
                    "data": found.data,
                    **found.provenance,
                }
            ),
        ),
        version=found.version,
    )


def _agreement_charts(found: Agreement) -> Iterator[Picture]:
    yield fraction_chart(found)
    yield heat_by_fraction(found, what="certain")
    yield heat_by_fraction(found)
    if len(found.boards) > 1:
        yield heat_by_metric(found)
    moves = move_map(found)
    if moves is not None:
        yield moves


def _tables(found: Agreement) -> Iterator[Table]:
    psi = "Psi is the mean of Kendall's tau over metrics, fractions and seeds."
    yield replace(found.to_table("strategies"), title="How well each strategy keeps the order", notes=(psi,))
    yield replace(found.to_table("fractions"), title="Each fraction, and what it saves")
    if len(found.boards) > 1:
        yield replace(found.to_table("metrics"), title="Each metric")


def _board(board: MetricTaus, seeds: list[int]) -> Table:
    rows = tuple(
        (model, *(fixed(values[place], 4) for values in board.full))
        for place, model in enumerate(board.models)
    )
    columns = ("model", *(f"seed {seed}" for seed in seeds))
    certain = f"The order of {board.n_certain} of {board.n_pairs} pairs is certain."
    return Table(columns, rows, f"{board.scenario}: {board.metric}", (certain,))
