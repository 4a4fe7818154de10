"""Values of all models on the full data and on every sub-sample, read from finished pieces.

From values to the result: taus, intervals, places, the answer.

One answer in words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from truerank.core.progress import Progress, tracked
from truerank.core.types import FloatArray
from truerank.workflows.agreement.order import (
    Counts,
    certain_signs,
    certain_tau,
    draw_seeds,
    kendall,
    mean_of,
    means_of_resamples,
    movement,
    psi,
    resample_users,
)
from truerank.workflows.agreement.plan import AgreementPlan, ModelGrid
from truerank.workflows.agreement.result import (
    Agreement,
    MetricTaus,
    ModelMove,
    StrategyAgreement,
    StrategyScore,
    nested_lists,
    number,
)
from truerank.workflows.agreement.scenarios import Scenario
from truerank.workflows.agreement.tasks import FitTask, FitValues, SubsampleTask, TaskRunner


@dataclass(frozen=True, eq=False)
class Leaderboards:
    """Values of one scenario, turned so that larger is better.

    Parameters
    ----------
    full, small : (seeds, metrics, models) and (strategies, fractions, seeds, metrics, models)
    full_resampled, small_resampled : the same with a leading axis of resamples
    full_seconds, small_seconds : (2, seeds) and (2, strategies, fractions, seeds): CPU seconds of training
        without and with the validation of early stopping, drawing included
    problems : why models could not be fitted
    """

    full: FloatArray
    small: FloatArray
    full_resampled: FloatArray
    small_resampled: FloatArray
    full_seconds: FloatArray
    small_seconds: FloatArray
    problems: list[str]


class Gathering:
    """Reads the pieces of one scenario."""

    def __init__(
        self, plan: AgreementPlan, workshop: TaskRunner, scenario: Scenario, entrants: tuple[ModelGrid, ...]
    ) -> None:
        self.plan, self.workshop, self.scenario, self.entrants = plan, workshop, scenario, entrants
        targets = workshop.splits[scenario].test
        self.weights = scenario.weights(targets)
        self.counts: Counts = resample_users(plan.seed, len(self.weights), plan.resamples)
        self.sign = 1.0 if scenario.higher_is_better else -1.0
        self.problems: list[str] = []

    def leaderboards(self, advance: Callable[[], object]) -> Leaderboards:
        """Return all values; ``advance`` is called once per data set."""
        plan, n_metrics = self.plan, len(self.scenario.metric_names())
        outer = (len(plan.strategies), len(plan.fractions), len(plan.seeds))
        inner = (n_metrics, len(self.entrants))
        full, small = np.empty((outer[2], *inner)), np.empty((*outer, *inner))
        full_resampled = np.empty((plan.resamples, *full.shape))
        small_resampled = np.empty((plan.resamples, *small.shape))
        full_seconds, small_seconds = np.zeros((2, outer[2])), np.zeros((2, *outer))
        for s, seed in enumerate(plan.seeds):
            full[s], full_resampled[:, s], full_seconds[:, s] = self._row(seed, None)
            advance()
            for a, strategy in enumerate(plan.strategies.values()):
                for f, fraction in enumerate(plan.fractions):
                    draw = SubsampleTask(
                        self.scenario, self.scenario.adapt_strategy(strategy), fraction, seed
                    )
                    place = (a, f, s)
                    row = self._row(seed, draw)
                    small[place], small_resampled[(slice(None), *place)] = row[:2]
                    small_seconds[(slice(None), *place)] = row[2] + self.workshop.drawn(draw)[1]
                    advance()
        return Leaderboards(
            full, small, full_resampled, small_resampled, full_seconds, small_seconds, self.problems
        )

    def _row(self, seed: int, draw: SubsampleTask | None) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the values of all models on one data set, (metrics, models), resampled, and seconds."""
        n_metrics = len(self.scenario.metric_names())
        values = np.full((n_metrics, len(self.entrants)), np.nan)
        resampled = np.full((self.plan.resamples, *values.shape), np.nan)
        seconds = np.zeros(2)
        for column, entrant in enumerate(self.entrants):
            tried = [
                self.workshop.judged(FitTask(self.scenario, model, seed, draw))
                for model in entrant.configurations
            ]
            seconds += [sum(one.seconds - one.watching for one in tried), sum(one.seconds for one in tried)]
            means: dict[int, FloatArray] = {}
            for metric, best in enumerate(self._chosen(tried)):
                if best is None:
                    continue
                if best not in means:
                    means[best] = means_of_resamples(tried[best].per_user, self.weights, self.counts)
                values[metric, column] = self.sign * tried[best].test[metric]
                resampled[:, metric, column] = self.sign * means[best][:, metric]
            if draw is not None and all(one.error for one in tried):
                self.problems.append(
                    f"{entrant.name} on {draw.strategy} at {draw.fraction} (seed {seed}): {tried[0].error}"
                )
        return values, resampled, seconds

    def _chosen(self, tried: list[FitValues]) -> list[int | None]:
        """Return the best configuration by each metric; None where no configuration could be fitted."""
        n_metrics = len(self.scenario.metric_names())
        if len(tried) == 1:
            return [None if tried[0].error else 0] * n_metrics
        part = [one.valid if self.scenario.selection == "validation" else one.test for one in tried]
        values = self.sign * np.stack(part)
        return [
            None if np.isnan(values[:, metric]).all() else int(np.nanargmax(values[:, metric]))
            for metric in range(n_metrics)
        ]


def keeps_to(cells: Sequence[StrategyAgreement], threshold: float) -> float | None:
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
    plan: AgreementPlan,
    name: str,
    boards: Sequence[MetricTaus],
    cells: Sequence[StrategyAgreement],
    scores: Sequence[StrategyScore],
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


def _time(cell: StrategyAgreement) -> str:
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


def _place(score: StrategyScore) -> tuple[str, float]:
    return score.strategy, score.keeps_to or 0.0


def _band(cell: StrategyAgreement) -> str:
    return f"{_plain(cell.certain):.2f} [{_plain(cell.certain_low):.2f}, {_plain(cell.certain_high):.2f}]"


def _plain(value: float | None) -> float:
    return float("-inf") if value is None else value


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.3g} %"


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


def assemble_agreement(plan: AgreementPlan, workshop: TaskRunner, name: str, progress: Progress) -> Agreement:
    """Return the result of an experiment whose pieces are finished."""
    boards: list[MetricTaus] = []
    parts: list[Taus] = []
    moves: list[ModelMove] = []
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
    plan: AgreementPlan,
    scenario: Scenario,
    metric: str,
    entrants: tuple[ModelGrid, ...],
    values: Leaderboards,
    column: int,
) -> tuple[MetricTaus, Taus]:
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
    board = MetricTaus(
        scenario=str(scenario),
        metric=metric,
        higher_is_better=scenario.higher_is_better,
        models=[entrant.name for entrant in entrants],
        full=nested_lists(sign * full),
        small=nested_lists(sign * small),
        tau=nested_lists(taus.tau[0]),
        expected=nested_lists(mean_of(taus.tau_resampled[:, 0], axis=0)),
        certain=nested_lists(taus.certain[0]),
        n_pairs=len(signs),
        n_certain=int((signs != 0).sum()),
        ceiling=number(mean_of(kendall(full[first], full[second]))) if len(first) else None,
    )
    return board, taus


def _moves(
    plan: AgreementPlan,
    scenario: Scenario,
    entrants: tuple[ModelGrid, ...],
    values: Leaderboards,
    seeds: Chosen,
) -> list[ModelMove]:
    """Return P_MLE of each model and fraction: the mean over strategies, seeds and metrics."""
    terms = movement(values.full, values.small)  # strategies, fractions, seeds, metrics, models
    probability = mean_of(terms, axis=(0, 2, 3))
    resampled = movement(values.full_resampled[:, None, None], values.small_resampled)
    picked = np.take_along_axis(resampled, seeds[:, None, None, :, None, None], axis=3)
    low, high = percentile_interval(mean_of(picked, axis=(1, 3, 4)), probability, plan.level)
    return [
        ModelMove(
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
    plan: AgreementPlan,
    boards: Sequence[MetricTaus],
    taus: Taus,
    values: Sequence[Leaderboards],
    seeds: Chosen,
) -> list[StrategyAgreement]:
    """Return the cells of all metrics together, with seconds, then those of each metric."""
    full = np.sum([found.full_seconds.mean(axis=-1) for found in values], axis=0)
    small = np.sum([found.small_seconds.mean(axis=-1) for found in values], axis=0)
    faster = full[:, None, None] / np.maximum(small, 1e-9)
    cells: list[StrategyAgreement] = []
    for number_, board in [(None, None), *enumerate(boards)]:
        part = taus if number_ is None else taus.of(slice(number_, number_ + 1))
        tau, certain = mean_of(part.tau, axis=(0, 3)), mean_of(part.certain, axis=(0, 3))
        expected = mean_of(part.tau_resampled, axis=(0, 1, 4))
        low, high = percentile_interval(_over_seeds(part.tau_resampled, seeds, (1, 4)), tau, plan.level)
        certain_low, certain_high = percentile_interval(
            _over_seeds(part.certain_resampled, seeds, (1, 4)), certain, plan.level
        )
        missing = np.isnan(part.tau).sum(axis=(0, 3))
        for a, strategy in enumerate(plan.strategies):
            for f, fraction in enumerate(plan.fractions):
                cells.append(
                    StrategyAgreement(
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


def _scores(
    plan: AgreementPlan, taus: Taus, cells: Sequence[StrategyAgreement], seeds: Chosen
) -> list[StrategyScore]:
    """Return Psi of each strategy."""
    certain = mean_of(taus.certain, axis=(0, 2, 3))
    values = np.array([psi(taus.tau[:, a]) for a in range(len(plan.strategies))])
    low, high = percentile_interval(_over_seeds(taus.tau_resampled, seeds, (1, 3, 4)), values, plan.level)
    certain_low, certain_high = percentile_interval(
        _over_seeds(taus.certain_resampled, seeds, (1, 3, 4)), certain, plan.level
    )
    expected = mean_of(taus.tau_resampled, axis=(0, 1, 3, 4))
    return [
        StrategyScore(
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


def percentile_interval(
    resampled: FloatArray, value: FloatArray, level: float
) -> tuple[FloatArray, FloatArray]:
    """Return the percentile interval over the first axis, widened where it does not hold the value itself.

    Resampling adds noise to what is noisy already, so that taus of resamples are smaller on average than the
    tau they are resamples of, and the plain interval can lie below it.

    Examples
    --------
    >>> [end.tolist() for end in percentile_interval(np.array([[0.2], [0.4]]), np.array([0.5]), 0.5)]
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
