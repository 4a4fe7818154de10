"""An experiment with sub-samples as a page: the answer, charts of agreement by strategy, and the values.

Heat maps show Kendall's tau between the order of models on sub-samples and on the full data, by strategy and
fraction or metric. A chart shows how the agreement over certain pairs falls with the fraction of events kept,
and a map which models sub-samples favour (P_MLE of Sachdeva et al., 2021).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from truerank.core.chart import Chart, ChartAxis, Document, HeatMap, Picture, Section, Series
from truerank.core.errors import check_choice
from truerank.core.table import Table, fixed, listed_in_words, percent
from truerank.report.facts import flat_facts
from truerank.workflows.agreement.result import Agreement, MetricTaus, StrategyAgreement

if TYPE_CHECKING:
    pass


def movement_map(agreement: Agreement) -> HeatMap | None:
    """Return P_MLE by model and fraction as a heat map; None where there are no values."""
    names = list(dict.fromkeys((move.scenario, move.model) for move in agreement.moves))
    if not names:
        return None
    value = {(move.scenario, move.model, move.fraction): move.probability for move in agreement.moves}
    several = len({scenario for scenario, _ in names}) > 1
    rows = tuple(f"{scenario}, {model}" if several else model for scenario, model in names)
    columns = tuple(_percent(fraction) for fraction in agreement.fractions)
    values = tuple(
        tuple(value.get((scenario, model, fraction)) for fraction in agreement.fractions)
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


def fraction_chart(agreement: Agreement) -> Chart:
    """Return the agreement over certain pairs against the fraction, with its interval and the threshold."""
    series = []
    for strategy in agreement.strategies:
        cells = sorted(
            (agreement.cell(strategy, f) for f in agreement.fractions), key=lambda cell: cell.fraction
        )
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
    limits = min(agreement.fractions), max(agreement.fractions)
    sentences = [
        f"{score.strategy} does not keep the order"
        if score.keeps_to is None
        else f"{score.strategy} keeps the order down to {_percent(score.keeps_to)}"
        for score in agreement.scores
    ]
    return Chart(
        key="certain-against-fraction",
        title="Agreement over certain pairs against the share of train events",
        words="Agreement over certain pairs against the share of the train events kept. "
        f"{listed_in_words(sentences)}.",
        x=ChartAxis("share of the train events", "log", "share"),
        y=ChartAxis("agreement over certain pairs"),
        series=(
            Series(f"threshold {agreement.threshold:g}", limits, (agreement.threshold,) * 2, is_dashed=True),
            *series,
        ),
        notes=(
            f"Bands: {percent(agreement.level)} intervals over users and seeds. The order counts as kept "
            f"where the lower end is at least {agreement.threshold:g}, at this and all larger fractions.",
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


AgreementMeasure: TypeAlias = Literal["tau", "expected", "certain"]
_TITLES = {
    "tau": "Agreement of all pairs",
    "expected": "Agreement of all pairs with resampled users",
    "certain": "Agreement of certain pairs",
}
_LABELS = {
    "tau": "Kendall's tau with the order on the full data",
    "expected": "Kendall's tau when users are resampled",
    "certain": "agreement over pairs whose order on the full data is certain",
}


def heat_by_fraction(
    agreement: Agreement, *, metric: str = "", scenario: str = "", what: AgreementMeasure = "tau"
) -> HeatMap:
    """Return the agreement by strategy and fraction as a heat map.

    Parameters
    ----------
    agreement : the experiment
    metric, scenario : one of them; the mean over all by default
    what : ``tau``, ``expected`` or ``certain``, as in ``StrategyAgreement``
    """
    values = [
        [
            _value(agreement.cell(strategy, fraction, metric, scenario), what)
            for fraction in agreement.fractions
        ]
        for strategy in agreement.strategies
    ]
    which = f", {metric}" if metric else ""
    columns = [percent(fraction) for fraction in agreement.fractions]
    title = f"{_TITLES[what]} by share of the train events{which}"
    return _map("fraction", title, agreement, columns, values, what)


def heat_by_metric(agreement: Agreement, *, what: AgreementMeasure = "tau") -> HeatMap:
    """Return the agreement by strategy and metric as a heat map, means over the fractions with a value."""
    pairs = list(dict.fromkeys((cell.scenario, cell.metric) for cell in agreement.cells if cell.metric))
    has_several = len({scenario for scenario, _ in pairs}) > 1
    values = []
    for strategy in agreement.strategies:
        line = []
        for scenario, metric in pairs:
            cells = [agreement.cell(strategy, fraction, metric, scenario) for fraction in agreement.fractions]
            known = [value for value in (_value(cell, what) for cell in cells) if value is not None]
            line.append(sum(known) / len(known) if known else None)
        values.append(line)
    columns = [f"{scenario}: {metric}" if has_several else metric for scenario, metric in pairs]
    title = f"{_TITLES[what]} by metric, mean over fractions"
    return _map("metric", title, agreement, columns, values, what)


def _value(cell: StrategyAgreement, what: AgreementMeasure) -> float | None:
    check_choice("what", what, tuple(_LABELS))
    return {"tau": cell.tau, "expected": cell.expected, "certain": cell.certain}[what]


def _map(
    by: str,
    title: str,
    agreement: Agreement,
    columns: Sequence[str],
    values: Sequence[Sequence[float | None]],
    what: AgreementMeasure,
) -> HeatMap:
    return HeatMap(
        key=f"{what}-by-{by}",
        title=title,
        words=_heat_words(agreement.strategies, columns, values, what),
        rows=tuple(agreement.strategies),
        columns=tuple(columns),
        values=tuple(tuple(line) for line in values),
        label=_LABELS[what],
        low=-1.0,
        high=1.0,
        middle=0.0,
        notes=("1 is the same order, 0 as good as chance, -1 the reverse; a dash where a model failed.",),
    )


def _heat_words(
    rows: Sequence[str],
    columns: Sequence[str],
    values: Sequence[Sequence[float | None]],
    what: AgreementMeasure,
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


def agreement_document(agreement: Agreement) -> Document:
    """Return a page of an experiment: the answer, strategies, maps of agreement, and the values."""
    names = [str(counts["name"]) for counts in agreement.data.values() if counts.get("name")]
    return Document(
        title=f"agreement: {names[0] if names else 'which sub-samples keep the order of models'}",
        lead=agreement.answer,
        sections=(
            Section(
                "Strategies",
                notes=(
                    *(f"Not fitted: {problem}" for problem in agreement.problems),
                    *(f"Skipped: {skipped}" for skipped in agreement.skipped),
                ),
                tables=tuple(_tables(agreement)),
            ),
            Section("Agreement", charts=tuple(_agreement_charts(agreement))),
            *_metric_section(agreement),
            Section(
                "Values on the full data",
                tables=tuple(_board(board, agreement.seeds) for board in agreement.boards),
                is_folded=True,
            ),
        ),
        facts=(
            ("command", "truerank agreement"),
            *flat_facts(
                {
                    "strategies": agreement.strategies,
                    "fractions": agreement.fractions,
                    "seeds": agreement.seeds,
                    "level": agreement.level,
                    "threshold": agreement.threshold,
                    "data": agreement.data,
                    **agreement.provenance,
                }
            ),
        ),
        version=agreement.version,
    )


def _agreement_charts(agreement: Agreement) -> Iterator[Picture]:
    yield fraction_chart(agreement)
    yield heat_by_fraction(agreement, what="certain")
    yield heat_by_fraction(agreement)
    if len(agreement.boards) > 1:
        yield heat_by_metric(agreement)
    moves = movement_map(agreement)
    if moves is not None:
        yield moves


_WORDS = (
    "tau (Kendall's) compares two orders of models: 1 is the same order, 0 as good as chance, -1 the "
    "reverse. Psi is its mean over metrics, fractions and seeds; expected is its mean when users are "
    "resampled. Certain pairs are the pairs of models whose order on the full data is beyond doubt."
)


def _tables(agreement: Agreement) -> Iterator[Table]:
    yield replace(
        agreement.to_table("strategies"), title="How well each strategy keeps the order", notes=(_WORDS,)
    )
    yield replace(agreement.to_table("fractions"), title="Each fraction, and what it saves")


def _metric_section(agreement: Agreement) -> Iterator[Section]:
    if len(agreement.boards) > 1:
        yield Section("Each metric", tables=(agreement.to_table("metrics"),), is_folded=True)


def _board(board: MetricTaus, seeds: list[int]) -> Table:
    rows = tuple(
        (model, *(fixed(values[column], 4) for values in board.full))
        for column, model in enumerate(board.models)
    )
    columns = ("model", *(f"seed {seed}" for seed in seeds))
    certain = f"The order of {board.n_certain} of {board.n_pairs} pairs is certain."
    return Table(columns, rows, f"{board.scenario}: {board.metric}", (certain,))
