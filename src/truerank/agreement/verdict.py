"""One answer in words."""

from __future__ import annotations

from collections.abc import Sequence

from truerank.agreement.plan import Plan
from truerank.agreement.result import Board, Cell, Score


def keeps_to(cells: Sequence[Cell], threshold: float) -> float | None:
    """Return the smallest fraction down to which every tried one keeps the order; None if none does.

    An order is kept when the lower end of the agreement over certain pairs is at least the threshold.
    """
    reached: float | None = None
    for cell in sorted(cells, key=lambda cell: -cell.fraction):
        if cell.certain_low is None or cell.certain_low < threshold:
            break
        reached = cell.fraction
    return reached


def answer(
    plan: Plan, name: str, boards: Sequence[Board], cells: Sequence[Cell], scores: Sequence[Score]
) -> str:
    """Return which strategy keeps the order down to which fraction, and what that saves."""
    whole = {(cell.strategy, cell.fraction): cell for cell in cells if not cell.metric}
    scenarios = ", ".join(scenario.key for scenario in plan.entrants)
    n_certain, n_pairs = sum(b.n_certain for b in boards), sum(b.n_pairs for b in boards)
    where = f"{name} ({scenarios})"
    if n_certain == 0:
        return (
            f"On {where} no order can be lost: users and seeds leave the order of all {n_pairs} pairs of "
            "models open on the full data itself. Compare models that differ more, or use more users."
        )
    counted = "" if len(boards) == 1 else f" ({len(boards)} metrics together)"
    pairs = f"{n_certain} of {n_pairs} pairs of models{counted} that are certain on the full data"
    able = [score for score in scores if score.keeps_to is not None]
    if not able:
        best = max(whole.values(), key=lambda cell: (_plain(cell.certain), cell.fraction))
        is_open = _plain(best.certain) >= plan.threshold
        verdict = (
            f"It is open whether any strategy that was tried keeps the order of the models on {where}."
            if is_open
            else f"No strategy that was tried keeps the order of the models on {where}."
        )
        advice = (
            "Use more users, seeds or larger fractions"
            if is_open
            else "Use the full data or larger fractions"
        )
        return (
            f"{verdict} Over the {pairs}, the best agreement is {_band(best)}, by {best.strategy} at "
            f"{_percent(best.fraction)} of the train events, and its lower end should be at least "
            f"{plan.threshold:g}. {advice}."
        )
    first = min(able, key=lambda score: (score.keeps_to, -_plain(whole[_place(score)].certain)))
    cell = whole[_place(first)]
    others = [score.strategy for score in able if score.keeps_to == first.keeps_to and score is not first]
    also = f" So {'does' if len(others) == 1 else 'do'} {', '.join(others)}." if others else ""
    last = ", the smallest fraction tried" if first.keeps_to == plan.fractions[-1] else ""
    return (
        f"On {where}, {first.strategy} keeps the order of the models down to {_percent(cell.fraction)} of "
        f"the train events{last}: over the {pairs}, the agreement is {_band(cell)}. {_time(cell)}{also}"
    )


def _time(cell: Cell) -> str:
    if cell.speedup is None or cell.seconds is None:
        return ""
    full = cell.speedup * cell.seconds
    if cell.speedup < 1:
        return (
            f"It saves no time here: drawing and training take {cell.seconds:.3g} CPU seconds instead of "
            f"{full:.3g}."
        )
    return (
        f"Drawing and training take {cell.seconds:.3g} CPU seconds instead of {full:.3g}, "
        f"{cell.speedup:.1f} times less ({_plain(cell.speedup_validated):.1f} times with validation)."
    )


def _place(score: Score) -> tuple[str, float]:
    return score.strategy, score.keeps_to or 0.0


def _band(cell: Cell) -> str:
    return f"{_plain(cell.certain):.2f} [{_plain(cell.certain_low):.2f}, {_plain(cell.certain_high):.2f}]"


def _plain(value: float | None) -> float:
    return float("-inf") if value is None else value


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.3g} %"
