"""How far models move on sub-samples, and how the agreement falls with the fraction."""

from __future__ import annotations

from collections.abc import Sequence

from truerank.agreement import Agreement
from truerank.charts.wording import listed
from truerank.core.chart import Chart, ChartAxis, HeatMap, Series
from truerank.core.number import percent


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
                look="dots" if len(known) < 2 else "line",
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
        words=f"Agreement over certain pairs against the share of the train events kept. {listed(said)}.",
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
    return f"{100 * fraction:.3g} %"
