"""Dots and whiskers: one panel per metric."""

from __future__ import annotations

from dataclasses import dataclass

from truerank.core.number import decimals
from truerank.report.axis import Axis, linear_axis
from truerank.report.board import Board, Cell, Row, interval_of

_LONGEST_NAME = 26  # what fits beside a value on a phone


@dataclass(frozen=True)
class Dot:
    """One model in a panel; places are percentages of the width."""

    row: Row
    cell: Cell
    name: str
    place: float
    whisker: tuple[float, float] | None


@dataclass(frozen=True)
class Panel:
    """All models on one metric; the table of its data has ``places`` decimals."""

    metric: str
    places: int
    axis: Axis
    dots: tuple[Dot, ...]

    @property
    def words(self) -> str:
        """What the panel shows, for those who cannot see it."""
        listed = "; ".join(f"{dot.row.label} {dot.cell.words}" for dot in self.dots)
        return f"{self.metric} by model: {listed}."


def dot_panels(board: Board) -> list[Panel]:
    """Return one panel per metric that has a value, models in the order of the leaderboard."""
    columns = [(metric, board.column(metric)) for metric in board.metrics]
    return [_panel(metric, column) for metric, column in columns if column]


def _panel(metric: str, column: list[tuple[Row, Cell]]) -> Panel:
    values = [cell.estimate.value for _, cell in column]
    ends = [end for _, cell in column for end in interval_of(cell.estimate) or ()]
    axis = linear_axis(min(values + ends), max(values + ends))
    dots = tuple(
        Dot(
            row=row,
            cell=cell,
            name=shortened(row.label),
            place=axis.place(cell.estimate.value),
            whisker=_whisker(axis, cell),
        )
        for row, cell in column
    )
    return Panel(metric, decimals(values) + 3, axis, dots)


def _whisker(axis: Axis, cell: Cell) -> tuple[float, float] | None:
    ends = interval_of(cell.estimate)
    return None if ends is None else (axis.place(ends[0]), axis.place(ends[1]))


def shortened(name: str, longest: int = _LONGEST_NAME) -> str:
    """Return the name, or its two ends when it is too long.

    Examples
    --------
    >>> shortened("item-knn(power=3, norm=l2)", 13)
    'item-knn…=l2)'
    """
    if len(name) <= longest:
        return name
    tail = longest // 3
    return f"{name[: longest - 1 - tail]}…{name[-tail:]}"
