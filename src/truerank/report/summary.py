"""What a result says, in one sentence."""

from __future__ import annotations

from truerank.core.number import count_of
from truerank.core.result import Result
from truerank.report.board import Board


def summarise(result: Result, board: Board) -> str:
    """Return one sentence: which model is best on the first metric, by what value, and how consistently.

    Where there are several estimators, the sentence is about the board's reference.
    """
    if not board.metrics:
        return "This result holds no estimates."
    board = board.leaders()
    metric = board.metrics[0]
    has_place = result.data.get("name") and result.command != "estimate"  # sampled ranks go by their models
    place = f" on {result.data['name']}" if has_place else ""
    column = board.column(metric)
    if not column:
        return f"No model has a value of {metric}{place}."
    row, cell = column[0]
    way = "" if row.label == row.model else f" by estimator {board.reference}"
    if board.reference == "exact":
        way = ""
    if len(board.rows) == 1:
        return f"{row.model} reaches {metric} {cell.words}{place}{way}{_users(cell.estimate.n_users)}."
    best = [leader.model for leader in board.best(metric)]
    verb = "has" if len(best) == 1 else "share"
    opening = f"Of {count_of(len(board.rows), 'model')}{place}, {_listed(best)} {verb} the highest {metric}"
    return f"{opening}{way}, {cell.words}{_consistency(board, best)}."


def _users(n_users: int) -> str:
    return f", averaged over {count_of(n_users, 'user')}" if n_users else ""


def _consistency(board: Board, best: list[str]) -> str:
    if len(board.metrics) == 1 or len(best) > 1:
        return ""
    led = sum(best[0] in {row.model for row in board.best(metric)} for metric in board.metrics)
    if led == len(board.metrics):
        return f", and is best on all {len(board.metrics)} metrics"
    return f", and is best on {led} of {len(board.metrics)} metrics"


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
