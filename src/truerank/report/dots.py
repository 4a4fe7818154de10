"""Dots and whiskers: one panel per metric, the values of one model in neighbouring rows."""

from __future__ import annotations

from dataclasses import dataclass

from truerank.core.number import decimals
from truerank.core.short import LONGEST_NAME, shortened
from truerank.report.axis import Axis, linear_axis
from truerank.report.board import Board, Cell, Row, interval_of

_LONGEST_ESTIMATOR = 12  # what fits beside a model and a value on a phone


@dataclass(frozen=True)
class Dot:
    """One value of a model in a panel; places are percentages of the width.

    ``is_first`` says that the row is the first of its model, and ``is_hollow`` that it is an estimate which
    stands beside exact values.
    """

    row: Row
    cell: Cell
    name: str
    place: float
    whisker: tuple[float, float] | None
    is_first: bool
    is_hollow: bool


@dataclass(frozen=True)
class Panel:
    """All models on one metric; the table of its data has ``places`` decimals."""

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
    def words(self) -> str:
        """What the panel shows, for those who cannot see it."""
        listed = "; ".join(f"{dot.row.label} {dot.cell.words}" for dot in self.dots)
        return f"{self.metric} by model: {listed}."


def dot_panels(board: Board) -> list[Panel]:
    """Return one panel per metric that has a value.

    Models are in the order of the leaderboard. The rows of one model stand together, its exact value first.
    """
    models = list(dict.fromkeys(row.model for row in board.rows))
    columns = [
        (metric, sorted(board.column(metric), key=lambda entry: models.index(entry[0].model)))
        for metric in board.metrics
    ]
    return [_panel(metric, column) for metric, column in columns if column]


def _panel(metric: str, column: list[tuple[Row, Cell]]) -> Panel:
    has_exact = any(cell.estimate.kind == "exact" for _, cell in column)
    before = [None, *(row.model for row, _ in column)]
    values = [cell.estimate.value for _, cell in column]
    ends = [end for _, cell in column for end in interval_of(cell.estimate) or ()]
    axis = linear_axis(min(values + ends), max(values + ends))
    dots = tuple(
        Dot(
            row=row,
            cell=cell,
            name=_name(row, is_first=row.model != above),
            place=axis.place(cell.estimate.value),
            whisker=_whisker(axis, cell),
            is_first=row.model != above,
            is_hollow=has_exact and cell.estimate.kind != "exact",
        )
        for (row, cell), above in zip(column, before, strict=False)
    )
    return Panel(metric, decimals(values) + 3, axis, dots)


def _whisker(axis: Axis, cell: Cell) -> tuple[float, float] | None:
    ends = interval_of(cell.estimate)
    return None if ends is None else (axis.place(ends[0]), axis.place(ends[1]))


def _name(row: Row, *, is_first: bool) -> str:
    """Return the model, with its estimator where there are several; further rows name the estimator alone."""
    if row.label == row.model:
        return shortened(row.model)
    if not is_first:
        return shortened(row.estimator)
    estimator = shortened(row.estimator, _LONGEST_ESTIMATOR)
    return f"{shortened(row.model, LONGEST_NAME - 3 - len(estimator))} · {estimator}"
