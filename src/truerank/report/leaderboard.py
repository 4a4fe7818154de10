"""The leaderboard of a result: values of all models by metric, as a table and as dots with whiskers.

Models are compared within one estimator only. In the table each estimator has a block of rows, the best model
of the first metric on top; in the panels, one per metric, the values of one model are in neighbouring rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from truerank.core.chart import Mark, model_mark
from truerank.core.result import SAMPLED_USERS, Estimate, Result, block_of
from truerank.core.table import LONGEST_NAME, MISSING, Table, decimals, fixed, percent, shorten
from truerank.inference.posterior.interval import posterior_sentences, without_rank
from truerank.report.axis import Axis, linear_axis


@dataclass(frozen=True)
class ShownValue:
    """One value of the leaderboard as text.

    Parameters
    ----------
    estimate : the value and its interval as numbers
    text, low, high : the numbers; low and high are empty without an interval
    is_best : whether no other model is shown to be better by the same estimator
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
class LeaderboardRow:
    """One model by one estimator; ``cells`` holds None where a metric was not computed."""

    label: str
    model: str
    estimator: str
    mark: Mark
    cells: tuple[ShownValue | None, ...]


@dataclass(frozen=True)
class Leaderboard:
    """One block of rows per estimator, in each the best model of the first metric on top.

    Models are compared within one block only; exact values and means over sampled users share one. The block
    of ``reference`` comes first: exact values where there are any, else the last estimator that is not naive.
    """

    metrics: tuple[str, ...]
    rows: tuple[LeaderboardRow, ...]
    notes: tuple[str, ...]
    reference: str = "exact"

    def column(self, metric: str) -> list[tuple[LeaderboardRow, ShownValue]]:
        """Return the rows that have a finite value of one metric."""
        at = self.metrics.index(metric)
        cells = [(row, row.cells[at]) for row in self.rows]
        return [(row, cell) for row, cell in cells if cell and math.isfinite(cell.estimate.value)]

    def leaders(self) -> Leaderboard:
        """Return the rows of the reference estimator."""
        return replace(
            self, rows=tuple(row for row in self.rows if block_of(row.estimator) == self.reference)
        )

    def plain_leaders(self) -> Leaderboard:
        """Return the rows of the reference estimator, named by their models where it is a single one."""
        leaders = self.leaders()
        if len({row.estimator for row in leaders.rows}) > 1:
            return leaders
        return replace(leaders, rows=tuple(replace(row, label=row.model) for row in leaders.rows))

    @property
    def has_exact_and_estimates(self) -> bool:
        """Whether a sample was checked against exact values."""
        return self.reference == "exact" and any(block_of(row.estimator) != "exact" for row in self.rows)

    def best(self, metric: str) -> list[LeaderboardRow]:
        """Return the rows marked as best on one metric."""
        return [row for row, cell in self.column(metric) if cell.is_best]


def build_leaderboard(result: Result) -> Leaderboard:
    """Return the leaderboard of a result.

    A model that was estimated in several ways has one row for each.
    """
    ways = list(dict.fromkeys((e.model, e.estimator) for e in result.estimates))
    models = result.models()
    estimators = list(dict.fromkeys(estimator for _, estimator in ways))
    blocks = list(dict.fromkeys(map(block_of, estimators)))
    reference = result.reference()
    metrics = tuple(result.metrics())
    columns = {metric: _column(metric, result) for metric in metrics}
    rows = [
        LeaderboardRow(
            label=model if len(estimators) == 1 else f"{model} · {estimator}",
            model=model,
            estimator=estimator,
            mark=model_mark(models.index(model)),
            cells=tuple(columns[metric].get((model, estimator)) for metric in metrics),
        )
        for model, estimator in ways
    ]
    blocks = [reference, *(block for block in blocks if block != reference)]
    rows.sort(key=lambda row: (blocks.index(block_of(row.estimator)), *_order(row)))
    notes = _notes(result, metrics)
    if any(map(_marks_a_lower_value, columns.values())):
        notes += (
            "A lower value can be marked where a higher one is not: models are compared user by user, and a "
            "small difference that most users share is told from chance sooner than a larger one that few "
            "users make.",
        )
    return Leaderboard(metrics, tuple(rows), notes, reference)


def _marks_a_lower_value(column: dict[tuple[str, str], ShownValue]) -> bool:
    """Whether a value is marked and a higher one by the same estimator is not."""
    return any(
        low.is_best and not high.is_best and high.estimate.value > low.estimate.value
        for (_, way), low in column.items()
        for (_, other), high in column.items()
        if block_of(way) == block_of(other)
    )


def _column(metric: str, result: Result) -> dict[tuple[str, str], ShownValue]:
    estimates = [e for e in result.estimates if e.metric == metric]
    places = decimals(e.value for e in estimates)
    best = {way: result.best(metric, way) for way in {e.estimator for e in estimates}}
    column = {}
    for e in estimates:
        low, high = interval_of(e) or (None, None)
        column[e.model, e.estimator] = ShownValue(
            estimate=e,
            text=fixed(e.value, places),
            low="" if low is None else fixed(low, places),
            high="" if high is None else fixed(high, places),
            is_best=e.model in best[e.estimator],
        )
    return column


def interval_of(estimate: Estimate) -> tuple[float, float] | None:
    """Return the limits of the interval, or None unless both are finite."""
    low, high = estimate.low, estimate.high
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)):
        return None
    return low, high


def _order(row: LeaderboardRow) -> tuple[bool, float]:
    """Return the key that sorts rows by the first metric, highest first, rows without a value last."""
    value = row.cells[0].estimate.value if row.cells and row.cells[0] else math.nan
    return (math.isnan(value), -value if math.isfinite(value) else 0.0)


def _notes(result: Result, metrics: tuple[str, ...]) -> tuple[str, ...]:
    notes = []
    has_rivals = len(result.models()) > 1
    if has_rivals:
        notes.append(f"Higher is better; models are in the order of {metrics[0]}.")
    ways = {e.estimator for e in result.estimates}
    if SAMPLED_USERS in ways:
        notes.append(
            f"{SAMPLED_USERS.capitalize()}: from some of the scores, those of users drawn at random among "
            "them; the interval accounts for all that was not scored."
        )
    if len(set(map(block_of, ways))) > 1:
        notes.append(
            "Compare models within one estimator: naive is the metric of the sampled list itself, the other "
            "estimators say what it would be among all items."
        )
    with_interval = [e for e in result.estimates if interval_of(e)]
    if with_interval:
        levels = sorted({percent(e.level) for e in with_interval if e.level is not None})
        methods = sorted({without_rank(e.method) for e in with_interval if e.method})
        name = " ".join([" and ".join(levels), "interval"]).strip()
        methods_text = f" ({'; '.join(methods)})" if methods else ""
        notes.append(f"In small type stands the {name}{methods_text}.")
        notes += posterior_sentences(with_interval)
    if with_interval and has_rivals:
        notes.append(
            "Each interval is about one model alone. The models share their users, so two of them can "
            "differ clearly although their intervals overlap."
        )
    if result.estimates and all(e.kind == "exact" for e in result.estimates):
        notes.append("All values are exact: every target was ranked among its user's whole pool.")
    return tuple(notes)


_LONGEST_ESTIMATOR = 12  # what fits beside a model and a value on a phone


@dataclass(frozen=True)
class Dot:
    """One value of a model in a panel.

    Parameters
    ----------
    row, cell : of the leaderboard
    name : label of the row
    place, whisker : positions of the value and of its interval, in percent of the width
    is_first : whether the row is the first of its model
    is_hollow : whether it is an estimate in a panel that has exact values too
    """

    row: LeaderboardRow
    cell: ShownValue
    name: str
    place: float
    whisker: tuple[float, float] | None
    is_first: bool
    is_hollow: bool


@dataclass(frozen=True)
class Panel:
    """All models on one metric; ``places`` are the decimals in the table of its data."""

    metric: str
    places: int
    axis: Axis
    dots: tuple[Dot, ...]

    @property
    def has_both(self) -> bool:
        """Whether exact values and estimates stand side by side."""
        return any(dot.is_hollow for dot in self.dots)

    @property
    def is_grouped(self) -> bool:
        """Whether a model has several rows."""
        return not all(dot.is_first for dot in self.dots)

    @property
    def data(self) -> Table:
        """The numbers of the panel, with more decimals than the leaderboard shows."""
        rows = []
        for dot in self.dots:
            e = dot.cell.estimate
            numbers = (fixed(number, self.places) for number in (e.value, e.low, e.high))
            level = MISSING if e.level is None else percent(e.level)
            interval = f"{level} {without_rank(e.method)}".strip()
            rows.append((dot.row.label, *numbers, interval, f"{e.n_users:,}" if e.n_users else MISSING))
        return Table(("Model", "Value", "Low", "High", "Interval", "Users"), tuple(rows))

    @property
    def words(self) -> str:
        """What the panel shows, for those who cannot see it."""
        listed = "; ".join(f"{dot.row.label} {dot.cell.words}" for dot in self.dots)
        return f"{self.metric} by model: {listed}."


def dot_panels(board: Leaderboard) -> list[Panel]:
    """Return one panel per metric that has a value.

    Models are in the order of the leaderboard. The rows of one model stand together, its exact value first.
    """
    models = list(dict.fromkeys(row.model for row in board.rows))
    columns = [
        (metric, sorted(board.column(metric), key=lambda entry: models.index(entry[0].model)))
        for metric in board.metrics
    ]
    return [_panel(metric, column) for metric, column in columns if column]


def _panel(metric: str, column: list[tuple[LeaderboardRow, ShownValue]]) -> Panel:
    has_exact = any(cell.estimate.kind == "exact" for _, cell in column)
    before = [None, *(row.model for row, _ in column)]
    values = [cell.estimate.value for _, cell in column]
    limits = [end for _, cell in column for end in interval_of(cell.estimate) or ()]
    axis = linear_axis(min(values + limits), max(values + limits))
    dots = tuple(
        Dot(
            row=row,
            cell=cell,
            name=_name(row, is_first=row.model != above),
            place=axis.position(cell.estimate.value),
            whisker=_whisker(axis, cell),
            is_first=row.model != above,
            is_hollow=has_exact and cell.estimate.kind != "exact",
        )
        for (row, cell), above in zip(column, before, strict=False)
    )
    return Panel(metric, decimals(values) + 3, axis, dots)


def _whisker(axis: Axis, cell: ShownValue) -> tuple[float, float] | None:
    interval = interval_of(cell.estimate)
    return None if interval is None else (axis.position(interval[0]), axis.position(interval[1]))


def _name(row: LeaderboardRow, *, is_first: bool) -> str:
    """Return the model, with its estimator where there are several; further rows name the estimator alone."""
    if row.label == row.model:
        return shorten(row.model)
    if not is_first:
        return shorten(row.estimator)
    estimator = shorten(row.estimator, _LONGEST_ESTIMATOR)
    return f"{shorten(row.model, LONGEST_NAME - 3 - len(estimator))} · {estimator}"
