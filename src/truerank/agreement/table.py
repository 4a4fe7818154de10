"""What an experiment found, as tables."""

from __future__ import annotations

from typing import Literal, TypeAlias

from truerank.agreement.result import Agreement, Cell
from truerank.core.check import check_choice
from truerank.core.table import Table

Which: TypeAlias = Literal["fractions", "metrics", "strategies", "models"]

_KEPT = ("tau", "expected", "certain pairs")
_COLUMNS = ("strategy", "fraction", *_KEPT, "CPU s", "times faster", "with validation")


def agreement_table(found: Agreement, which: Which = "fractions") -> Table:
    """Return one of the four tables of an experiment; see ``Agreement.to_table``."""
    tables = {"fractions": _fractions, "metrics": _metrics, "strategies": _strategies, "models": _models}
    check_choice("which", which, tuple(tables))
    return tables[which](found)


def _fractions(found: Agreement) -> Table:
    rows = (
        (*_kept(cell), _number(cell.seconds, ".3g"), *(_number(s, ".2f") for s in _speedups(cell)))
        for cell in found.cells
        if not cell.metric
    )
    return Table(_COLUMNS, tuple(rows))


def _metrics(found: Agreement) -> Table:
    rows = ((cell.scenario, cell.metric, *_kept(cell)) for cell in found.cells if cell.metric)
    return Table(("scenario", "metric", *_COLUMNS[:5]), tuple(rows))


def _strategies(found: Agreement) -> Table:
    rows = (
        (
            score.strategy,
            _band(score.psi, score.low, score.high),
            _number(score.expected),
            _band(score.certain, score.certain_low, score.certain_high),
            _number(score.keeps_to, "g"),
        )
        for score in found.scores
    )
    return Table(("strategy", "Psi", *_KEPT[1:], "keeps order to"), tuple(rows))


def _models(found: Agreement) -> Table:
    rows = []
    for scenario, model in dict.fromkeys((move.scenario, move.model) for move in found.moves):
        moves = (move for move in found.moves if (move.scenario, move.model) == (scenario, model))
        rows.append((scenario, model, *(_band(move.probability, move.low, move.high) for move in moves)))
    heads = (f"P_MLE at {fraction:g}" for fraction in found.fractions)
    return Table(("scenario", "model", *heads), tuple(rows))


def _kept(cell: Cell) -> tuple[str, ...]:
    return (
        cell.strategy,
        f"{cell.fraction:g}",
        _band(cell.tau, cell.low, cell.high),
        _number(cell.expected),
        _band(cell.certain, cell.certain_low, cell.certain_high),
    )


def _speedups(cell: Cell) -> tuple[float | None, float | None]:
    return cell.speedup, cell.speedup_validated


def _number(value: float | None, form: str = ".3f") -> str:
    return "" if value is None else format(value, form)


def _band(value: float | None, low: float | None, high: float | None) -> str:
    if value is None or low is None or high is None:
        return _number(value)
    return f"{value:.3f} [{low:.2f}, {high:.2f}]"
