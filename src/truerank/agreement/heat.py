"""How well strategies keep the order, as heat maps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from truerank.agreement.result import Agreement, Cell
from truerank.core.chart import HeatMap
from truerank.core.check import check_choice
from truerank.core.number import percent

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
    what : ``tau``, ``expected`` or ``certain``, as in ``Cell``
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


def _value(cell: Cell, what: What) -> float | None:
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
        words=_words(found.strategies, columns, values, what),
        rows=tuple(found.strategies),
        columns=tuple(columns),
        values=tuple(tuple(line) for line in values),
        label=_LABELS[what],
        low=-1.0,
        high=1.0,
        middle=0.0,
        notes=("1 is the same order, 0 as good as chance, -1 the reverse; a dash where a model failed.",),
    )


def _words(
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
