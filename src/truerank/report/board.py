"""The leaderboard: models by metrics, with the best value of each metric marked."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from truerank.core.estimate import Estimate
from truerank.core.number import decimals, fixed, percent
from truerank.core.palette import Mark, mark
from truerank.core.result import Result


@dataclass(frozen=True)
class Cell:
    """One value as shown.

    Parameters
    ----------
    estimate : where it comes from
    text, low, high : the numbers; low and high are empty without an interval
    is_best : whether no other model has a higher value by the same estimator
    """

    estimate: Estimate
    text: str
    low: str
    high: str
    is_best: bool

    @property
    def words(self) -> str:
        """The value and its interval in words."""
        if not self.low:
            return self.text
        level = self.estimate.level
        name = f"{percent(level)} interval " if level is not None else ""
        return f"{self.text} ({name}{self.low} to {self.high})"


@dataclass(frozen=True)
class Row:
    """One model by one estimator; ``cells`` holds None where a metric was not computed."""

    label: str
    model: str
    estimator: str
    mark: Mark
    cells: tuple[Cell | None, ...]


@dataclass(frozen=True)
class Board:
    """The leaderboard: one block of rows per estimator, in each the best model of the first metric on top.

    Models are compared within one estimator only. ``reference`` is the one that counts, and its block comes
    first: exact values where there are any, else the last estimator that was asked for.
    """

    metrics: tuple[str, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...]
    reference: str = "exact"

    def column(self, metric: str) -> list[tuple[Row, Cell]]:
        """Return the rows that have a finite value of one metric."""
        at = self.metrics.index(metric)
        cells = [(row, row.cells[at]) for row in self.rows]
        return [(row, cell) for row, cell in cells if cell and math.isfinite(cell.estimate.value)]

    def leaders(self) -> Board:
        """Return the rows of the reference estimator."""
        return replace(self, rows=tuple(row for row in self.rows if row.estimator == self.reference))

    def best(self, metric: str) -> list[Row]:
        """Return the rows marked as best on one metric."""
        return [row for row, cell in self.column(metric) if cell.is_best]


def build_board(result: Result) -> Board:
    """Return the leaderboard of a result.

    A model that was estimated in several ways has one row for each.
    """
    ways = list(dict.fromkeys((e.model, e.estimator) for e in result.estimates))
    models = result.models()
    estimators = list(dict.fromkeys(estimator for _, estimator in ways))
    reference = "exact" if "exact" in estimators or not estimators else estimators[-1]
    metrics = tuple(result.metrics())
    columns = {metric: _column(metric, result) for metric in metrics}
    rows = [
        Row(
            label=model if len(estimators) == 1 else f"{model} · {estimator}",
            model=model,
            estimator=estimator,
            mark=mark(models.index(model)),
            cells=tuple(columns[metric].get((model, estimator)) for metric in metrics),
        )
        for model, estimator in ways
    ]
    blocks = [reference, *(estimator for estimator in estimators if estimator != reference)]
    rows.sort(key=lambda row: (blocks.index(row.estimator), *_order(row)))
    return Board(metrics, tuple(rows), _notes(result, metrics), reference)


def _column(metric: str, result: Result) -> dict[tuple[str, str], Cell]:
    estimates = [e for e in result.estimates if e.metric == metric]
    places = decimals(e.value for e in estimates)
    has_rivals = len(result.models()) > 1
    highest = {
        way: max(
            (e.value for e in estimates if e.estimator == way and math.isfinite(e.value)), default=math.nan
        )
        for way in {e.estimator for e in estimates}
    }
    column = {}
    for e in estimates:
        low, high = interval_of(e) or (None, None)
        column[e.model, e.estimator] = Cell(
            estimate=e,
            text=fixed(e.value, places),
            low="" if low is None else fixed(low, places),
            high="" if high is None else fixed(high, places),
            is_best=has_rivals and e.value == highest[e.estimator],
        )
    return column


def interval_of(estimate: Estimate) -> tuple[float, float] | None:
    """Return both ends of the interval, or None unless both are known."""
    low, high = estimate.low, estimate.high
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)):
        return None
    return low, high


def _order(row: Row) -> tuple[bool, float]:
    """Highest value of the first metric first, rows without one last; equal rows keep their order."""
    value = row.cells[0].estimate.value if row.cells and row.cells[0] else math.nan
    return (math.isnan(value), -value if math.isfinite(value) else 0.0)


def _notes(result: Result, metrics: tuple[str, ...]) -> tuple[str, ...]:
    notes = []
    has_rivals = len(result.models()) > 1
    if has_rivals:
        notes.append(f"Higher is better; models are in the order of {metrics[0]}.")
    if len({e.estimator for e in result.estimates}) > 1:
        notes.append(
            "Compare models within one estimator: naive is the metric of the sampled list itself, the other "
            "estimators say what it would be among all items."
        )
    with_interval = [e for e in result.estimates if interval_of(e)]
    if with_interval:
        levels = sorted({percent(e.level) for e in with_interval if e.level is not None})
        methods = sorted({e.method for e in with_interval if e.method})
        name = " ".join([" and ".join(levels), "interval"]).strip()
        made = f" ({'; '.join(methods)})" if methods else ""
        notes.append(f"Below each value stands its {name}{made}.")
    if with_interval and has_rivals:
        notes.append(
            "Each interval is about one model alone. The models share their users, so two of them can "
            "differ clearly although their intervals overlap."
        )
    if result.estimates and all(e.kind == "exact" for e in result.estimates):
        notes.append("All values are exact: every target was ranked among its user's whole pool.")
    return tuple(notes)
