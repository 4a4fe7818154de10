"""From values to the result: taus, intervals, places, the answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from truerank.agreement.leaderboard import Gathering, Leaderboards
from truerank.agreement.order import certain_signs, certain_tau, kendall, mean_of, movement, psi
from truerank.agreement.plan import Entrant, Plan
from truerank.agreement.resample import draw_seeds
from truerank.agreement.result import Agreement, Board, Cell, Move, Score, listed, number
from truerank.agreement.scenario import Scenario
from truerank.agreement.verdict import answer, keeps_to
from truerank.agreement.workshop import Workshop
from truerank.core.progress import Progress, tracked
from truerank.core.types import FloatArray

Chosen = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Taus:
    """Taus of one or several metrics.

    Parameters
    ----------
    tau, certain : (metrics, strategies, fractions, seeds)
    tau_resampled, certain_resampled : (resamples, metrics, strategies, fractions, seeds)
    """

    tau: FloatArray
    certain: FloatArray
    tau_resampled: FloatArray
    certain_resampled: FloatArray

    def of(self, metrics: slice) -> Taus:
        """Return those of some metrics."""
        return Taus(
            self.tau[metrics],
            self.certain[metrics],
            self.tau_resampled[:, metrics],
            self.certain_resampled[:, metrics],
        )


def assemble(plan: Plan, workshop: Workshop, name: str, progress: Progress) -> Agreement:
    """Return the result of an experiment whose pieces are finished."""
    boards: list[Board] = []
    parts: list[Taus] = []
    moves: list[Move] = []
    values: list[Leaderboards] = []
    seeds = draw_seeds(plan.seed, len(plan.seeds), plan.resamples)
    steps = len(plan.entrants) * (1 + len(plan.strategies) * len(plan.fractions)) * len(plan.seeds)
    with tracked(progress, "comparing orders", steps) as task:
        for scenario, entrants in plan.entrants.items():
            found = Gathering(plan, workshop, scenario, entrants).leaderboards(task.advance)
            values.append(found)
            for column, metric in enumerate(scenario.metric_names()):
                board, part = _board(plan, scenario, metric, entrants, found, column)
                boards.append(board)
                parts.append(part)
            moves += _moves(plan, scenario, entrants, found, seeds)
    taus = Taus(
        np.concatenate([part.tau for part in parts]),
        np.concatenate([part.certain for part in parts]),
        np.concatenate([part.tau_resampled for part in parts], axis=1),
        np.concatenate([part.certain_resampled for part in parts], axis=1),
    )
    cells = _cells(plan, boards, taus, values, seeds)
    scores = _scores(plan, taus, cells, seeds)
    return Agreement(
        answer=answer(plan, name, boards, cells, scores),
        strategies=list(plan.strategies),
        fractions=list(plan.fractions),
        seeds=list(plan.seeds),
        boards=boards,
        cells=cells,
        scores=scores,
        moves=moves,
        problems=[problem for found in values for problem in found.problems],
        level=plan.level,
        threshold=plan.threshold,
        data={str(scenario): split.summary() for scenario, split in workshop.splits.items()},
        provenance={
            "grid": plan.grid,
            "resamples": plan.resamples,
            "seed": plan.seed,
            "models": {
                str(scenario): {one.name: [str(model) for model in one.configurations] for one in entrants}
                for scenario, entrants in plan.entrants.items()
            },
        },
    )


def _board(
    plan: Plan,
    scenario: Scenario,
    metric: str,
    entrants: tuple[Entrant, ...],
    values: Leaderboards,
    column: int,
) -> tuple[Board, Taus]:
    """Return one metric's values and taus."""
    full, small = values.full[:, column], values.small[..., column, :]
    full_resampled, small_resampled = (
        values.full_resampled[:, :, column],
        values.small_resampled[..., column, :],
    )
    signs = certain_signs(full_resampled.reshape(-1, len(entrants)), plan.level)
    taus = Taus(
        kendall(full, small)[None],
        certain_tau(signs, small)[None],
        kendall(full_resampled[:, None, None], small_resampled)[:, None],
        certain_tau(signs, small_resampled)[:, None],
    )
    first, second = np.triu_indices(len(plan.seeds), k=1)
    sign = 1.0 if scenario.higher_is_better else -1.0
    board = Board(
        scenario=str(scenario),
        metric=metric,
        higher_is_better=scenario.higher_is_better,
        models=[entrant.name for entrant in entrants],
        full=listed(sign * full),
        small=listed(sign * small),
        tau=listed(taus.tau[0]),
        expected=listed(mean_of(taus.tau_resampled[:, 0], axis=0)),
        certain=listed(taus.certain[0]),
        n_pairs=len(signs),
        n_certain=int((signs != 0).sum()),
        ceiling=number(mean_of(kendall(full[first], full[second]))) if len(first) else None,
    )
    return board, taus


def _moves(
    plan: Plan, scenario: Scenario, entrants: tuple[Entrant, ...], values: Leaderboards, seeds: Chosen
) -> list[Move]:
    """Return P_MLE of each model and fraction: the mean over strategies, seeds and metrics."""
    terms = movement(values.full, values.small)  # strategies, fractions, seeds, metrics, models
    probability = mean_of(terms, axis=(0, 2, 3))
    resampled = movement(values.full_resampled[:, None, None], values.small_resampled)
    picked = np.take_along_axis(resampled, seeds[:, None, None, :, None, None], axis=3)
    low, high = ends(mean_of(picked, axis=(1, 3, 4)), probability, plan.level)
    return [
        Move(
            str(scenario),
            entrant.name,
            fraction,
            number(probability[f, m]),
            number(low[f, m]),
            number(high[f, m]),
        )
        for m, entrant in enumerate(entrants)
        for f, fraction in enumerate(plan.fractions)
    ]


def _cells(
    plan: Plan, boards: Sequence[Board], taus: Taus, values: Sequence[Leaderboards], seeds: Chosen
) -> list[Cell]:
    """Return the cells of all metrics together, with seconds, then those of each metric."""
    full = np.sum([found.full_seconds.mean(axis=-1) for found in values], axis=0)
    small = np.sum([found.small_seconds.mean(axis=-1) for found in values], axis=0)
    faster = full[:, None, None] / np.maximum(small, 1e-9)
    cells: list[Cell] = []
    for number_, board in [(None, None), *enumerate(boards)]:
        part = taus if number_ is None else taus.of(slice(number_, number_ + 1))
        tau, certain = mean_of(part.tau, axis=(0, 3)), mean_of(part.certain, axis=(0, 3))
        expected = mean_of(part.tau_resampled, axis=(0, 1, 4))
        low, high = ends(_over_seeds(part.tau_resampled, seeds, (1, 4)), tau, plan.level)
        certain_low, certain_high = ends(
            _over_seeds(part.certain_resampled, seeds, (1, 4)), certain, plan.level
        )
        missing = np.isnan(part.tau).sum(axis=(0, 3))
        for a, strategy in enumerate(plan.strategies):
            for f, fraction in enumerate(plan.fractions):
                cells.append(
                    Cell(
                        strategy=strategy,
                        fraction=fraction,
                        scenario="" if board is None else board.scenario,
                        metric="" if board is None else board.metric,
                        tau=number(tau[a, f]),
                        low=number(low[a, f]),
                        high=number(high[a, f]),
                        expected=number(expected[a, f]),
                        certain=number(certain[a, f]),
                        certain_low=number(certain_low[a, f]),
                        certain_high=number(certain_high[a, f]),
                        n_missing=int(missing[a, f]),
                        seconds=float(small[0, a, f]) if board is None else None,
                        speedup=float(faster[0, a, f]) if board is None else None,
                        speedup_validated=float(faster[1, a, f]) if board is None else None,
                    )
                )
    return cells


def _scores(plan: Plan, taus: Taus, cells: Sequence[Cell], seeds: Chosen) -> list[Score]:
    """Return Psi of each strategy."""
    certain = mean_of(taus.certain, axis=(0, 2, 3))
    values = np.array([psi(taus.tau[:, a]) for a in range(len(plan.strategies))])
    low, high = ends(_over_seeds(taus.tau_resampled, seeds, (1, 3, 4)), values, plan.level)
    certain_low, certain_high = ends(
        _over_seeds(taus.certain_resampled, seeds, (1, 3, 4)), certain, plan.level
    )
    expected = mean_of(taus.tau_resampled, axis=(0, 1, 3, 4))
    return [
        Score(
            strategy=strategy,
            psi=number(values[a]),
            low=number(low[a]),
            high=number(high[a]),
            expected=number(expected[a]),
            certain=number(certain[a]),
            certain_low=number(certain_low[a]),
            certain_high=number(certain_high[a]),
            keeps_to=keeps_to(
                [cell for cell in cells if cell.strategy == strategy and not cell.metric], plan.threshold
            ),
        )
        for a, strategy in enumerate(plan.strategies)
    ]


def _over_seeds(resampled: FloatArray, seeds: Chosen, axis: tuple[int, ...]) -> FloatArray:
    """Return the means of each resample over the seeds it drew and the other axes."""
    picked = np.take_along_axis(resampled, seeds[:, None, None, None, :], axis=4)
    return mean_of(picked, axis=axis)


def ends(resampled: FloatArray, value: FloatArray, level: float) -> tuple[FloatArray, FloatArray]:
    """Return the percentile interval over the first axis, widened where it does not hold the value itself.

    Resampling adds noise to what is noisy already, so that taus of resamples are smaller on average than the
    tau they are resamples of, and the plain interval can lie below it.

    Examples
    --------
    >>> [end.tolist() for end in ends(np.array([[0.2], [0.4]]), np.array([0.5]), 0.5)]
    [[0.25], [0.5]]
    """
    exists = ~np.isnan(resampled).all(axis=0)
    filled = np.where(exists, resampled, 0.0)
    tail = (1 - level) / 2
    low, high = np.nanquantile(filled, [tail, 1 - tail], axis=0)
    return (
        np.where(exists, np.fmin(low, value), np.nan),
        np.where(exists, np.fmax(high, value), np.nan),
    )
