"""Kendall taus between leaderboards on sub-samples and on the full data, and the answer in a sentence.

Each tau gets a bootstrap percentile interval over test users and seeds. Pairs of models whose order on the
full data is certain are counted separately, because the order of the others may change by chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from truerank.core.progress import Progress, tracked
from truerank.core.provenance import versions
from truerank.core.table import percent
from truerank.core.types import FloatArray
from truerank.workflows.agreement.leaderboards import Leaderboards, read_leaderboards
from truerank.workflows.agreement.order import (
    certain_signs,
    certain_tau,
    kendall,
    mean_ignoring_nan,
    move_up_terms,
    psi,
    resample_seeds,
)
from truerank.workflows.agreement.plan import AgreementPlan, ModelGrid
from truerank.workflows.agreement.result import (
    Agreement,
    MetricTaus,
    ModelMove,
    StrategyAgreement,
    StrategyScore,
    nested_lists,
    none_if_nan,
)
from truerank.workflows.agreement.runner import TaskRunner
from truerank.workflows.agreement.scenarios import Scenario


def keeps_to(cells: Sequence[StrategyAgreement], threshold: float) -> float | None:
    """Return the smallest fraction such that it and all larger ones keep the order; None if there is none.

    An order is kept when the lower limit of the agreement over certain pairs is at least the threshold.
    """
    reached: float | None = None
    for cell in sorted(cells, key=lambda cell: -cell.fraction):
        if cell.certain_low is None or cell.certain_low < threshold:
            break
        reached = cell.fraction
    return reached


def answer_sentence(
    plan: AgreementPlan,
    name: str,
    boards: Sequence[MetricTaus],
    cells: Sequence[StrategyAgreement],
    scores: Sequence[StrategyScore],
) -> str:
    """Return a sentence: which strategy keeps the order down to which fraction, and the time it saves."""
    overall = {(cell.strategy, cell.fraction): cell for cell in cells if not cell.metric}
    n_skipped = sum(cell.n_skipped for cell in overall.values())
    n_subsamples = len(overall) * len(plan.seeds) * len(plan.model_grids)
    left_out = (
        f" {n_skipped} of {n_subsamples} sub-samples are too small ({_limits(plan)}): their taus are "
        "missing, not zero."
        if n_skipped
        else ""
    )
    scenarios = ", ".join(scenario.key for scenario in plan.model_grids)
    n_certain, n_pairs = sum(b.n_certain for b in boards), sum(b.n_pairs for b in boards)
    where = f"{name} ({scenarios})"
    has_taus = any(cell.tau is not None for cell in overall.values())
    if n_skipped == n_subsamples or (n_certain and not has_taus):
        return (
            f"On {where} no order could be compared: not one tau exists.{left_out} Use larger fractions, or "
            "models that can be fitted to fewer events."
        )
    if n_certain == 0:
        return (
            f"On {where} there is no order to keep: resampled users and seeds leave the order of all "
            f"{n_pairs} pairs of models open on the full data itself. Compare models that differ more, or "
            f"use more users.{left_out}"
        )
    metrics = "" if len(boards) == 1 else f" ({len(boards)} metrics together)"
    pairs = f"{n_certain} of {n_pairs} pairs of models{metrics} whose order is certain on the full data"
    keeping = [score for score in scores if score.keeps_to is not None]
    if not keeping:
        best = max(overall.values(), key=lambda cell: (_or_minus_inf(cell.certain), cell.fraction))
        is_open = _or_minus_inf(best.certain) >= plan.threshold
        verdict = (
            f"It is open whether any strategy that was tried keeps the order of the models on {where}."
            if is_open
            else f"No strategy that was tried keeps the order of the models on {where}."
        )
        advice = (
            "Use more users, more seeds or larger fractions"
            if is_open
            else "Use the full data or larger fractions"
        )
        return (
            f"{verdict} Over the {pairs}, the best agreement is {_agreement(best)}, by {best.strategy} at "
            f"{percent(best.fraction, 3, space=' ')} of the train events; the lower limit should be at least "
            f"{plan.threshold:g}. {advice}.{left_out}"
        )
    first = min(
        keeping, key=lambda score: (score.keeps_to, -_or_minus_inf(overall[_cell_key(score)].certain))
    )
    cell = overall[_cell_key(first)]
    others = [score.strategy for score in keeping if score.keeps_to == first.keeps_to and score is not first]
    also = f" So {'does' if len(others) == 1 else 'do'} {', '.join(others)}." if others else ""
    last = ", the smallest fraction tried" if first.keeps_to == plan.fractions[-1] else ""
    return (
        f"On {where}, {first.strategy} keeps the order of the models down to "
        f"{percent(cell.fraction, 3, space=' ')} of the train events{last}: over the {pairs}, the agreement "
        f"is {_agreement(cell)}. {_time(cell)}{also}{left_out}"
    )


def _limits(plan: AgreementPlan) -> str:
    """Return what sub-samples must have, such as ``below 100 train events or 50 users``."""
    sizes = (
        (plan.least_events, "train events"),
        (plan.least_users, "users"),
        (plan.least_items, "items"),
    )
    return f"below {' or '.join(f'{least} {what}' for least, what in sizes if least)}"


def _time(cell: StrategyAgreement) -> str:
    if cell.speedup is None or cell.seconds is None:
        return ""
    full = cell.speedup * cell.seconds
    if cell.speedup < 1:
        return (
            f"It saves no time here: sampling and training take {cell.seconds:.3g} CPU seconds instead of "
            f"{full:.3g}."
        )
    return (
        f"Sampling and training take {cell.seconds:.3g} CPU seconds instead of {full:.3g}, "
        f"{cell.speedup:.1f} times less ({_or_minus_inf(cell.speedup_validated):.1f} times with validation)."
    )


def _cell_key(score: StrategyScore) -> tuple[str, float]:
    return score.strategy, score.keeps_to or 0.0


def _agreement(cell: StrategyAgreement) -> str:
    value, low, high = map(_or_minus_inf, (cell.certain, cell.certain_low, cell.certain_high))
    return f"{value:.2f} [{low:.2f}, {high:.2f}]"


def _or_minus_inf(value: float | None) -> float:
    return float("-inf") if value is None else value


SeedIndices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Taus:
    """Kendall taus with the full data, over all pairs of models and over certain ones.

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
        """Return the taus of some metrics."""
        return Taus(
            self.tau[metrics],
            self.certain[metrics],
            self.tau_resampled[:, metrics],
            self.certain_resampled[:, metrics],
        )


def assemble_agreement(plan: AgreementPlan, runner: TaskRunner, name: str, progress: Progress) -> Agreement:
    """Return the result of an experiment whose tasks are finished."""
    boards: list[MetricTaus] = []
    parts: list[Taus] = []
    moves: list[ModelMove] = []
    leaderboards: list[Leaderboards] = []
    seeds = resample_seeds(plan.seed, len(plan.seeds), plan.resamples)
    steps = len(plan.model_grids) * (1 + len(plan.strategies) * len(plan.fractions)) * len(plan.seeds)
    with tracked(progress, "comparing orders", steps) as task:
        for scenario, model_grids in plan.model_grids.items():
            values = read_leaderboards(plan, runner, scenario, model_grids, task.advance)
            leaderboards.append(values)
            for column, metric in enumerate(scenario.metric_names()):
                board, part = _board(plan, scenario, metric, model_grids, values, column)
                boards.append(board)
                parts.append(part)
            moves += _moves(plan, scenario, model_grids, values, seeds)
    taus = Taus(
        np.concatenate([part.tau for part in parts]),
        np.concatenate([part.certain for part in parts]),
        np.concatenate([part.tau_resampled for part in parts], axis=1),
        np.concatenate([part.certain_resampled for part in parts], axis=1),
    )
    cells = _cells(plan, boards, taus, leaderboards, seeds)
    scores = _scores(plan, taus, cells, seeds)
    return Agreement(
        answer=answer_sentence(plan, name, boards, cells, scores),
        strategies=list(plan.strategies),
        fractions=list(plan.fractions),
        seeds=list(plan.seeds),
        boards=boards,
        cells=cells,
        scores=scores,
        moves=moves,
        problems=[problem for values in leaderboards for problem in values.problems],
        skipped=[
            f"{list(plan.strategies)[a]} at {plan.fractions[f]} (seed {plan.seeds[s]}, {scenario.key}): {why}"
            for scenario, values in zip(plan.model_grids, leaderboards, strict=True)
            for (a, f, s), why in sorted(values.skipped.items())
        ],
        level=plan.level,
        threshold=plan.threshold,
        data={str(scenario): split.summary() for scenario, split in runner.splits.items()},
        provenance={
            "grid": plan.grid,
            "resamples": plan.resamples,
            "seed": plan.seed,
            **(
                {name: getattr(plan, name) for name in ("least_events", "least_users", "least_items")}
                if plan.has_limits
                else {}
            ),
            "models": {
                str(scenario): {grid.name: [str(model) for model in grid.configurations] for grid in grids}
                for scenario, grids in plan.model_grids.items()
            },
            "data_hash": {str(scenario): digest for scenario, digest in runner.digests.items()},
            "versions": versions(),
        },
    )


def _board(
    plan: AgreementPlan,
    scenario: Scenario,
    metric: str,
    model_grids: tuple[ModelGrid, ...],
    values: Leaderboards,
    column: int,
) -> tuple[MetricTaus, Taus]:
    """Return the values and taus of one metric."""
    full, small = values.full[:, column], values.small[..., column, :]
    full_resampled, small_resampled = (
        values.full_resampled[:, :, column],
        values.small_resampled[..., column, :],
    )
    signs = certain_signs(full_resampled.reshape(-1, len(model_grids)), plan.level)
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
        models=[model_grid.name for model_grid in model_grids],
        full=nested_lists(sign * full),
        small=nested_lists(sign * small),
        tau=nested_lists(taus.tau[0]),
        expected=nested_lists(mean_ignoring_nan(taus.tau_resampled[:, 0], axis=0)),
        certain=nested_lists(taus.certain[0]),
        n_pairs=len(signs),
        n_certain=int((signs != 0).sum()),
        ceiling=none_if_nan(mean_ignoring_nan(kendall(full[first], full[second]))) if len(first) else None,
    )
    return board, taus


def _moves(
    plan: AgreementPlan,
    scenario: Scenario,
    model_grids: tuple[ModelGrid, ...],
    values: Leaderboards,
    seeds: SeedIndices,
) -> list[ModelMove]:
    """Return P_MLE of each model and fraction: the mean over strategies, seeds and metrics."""
    terms = move_up_terms(values.full, values.small)  # strategies, fractions, seeds, metrics, models
    probability = mean_ignoring_nan(terms, axis=(0, 2, 3))
    resampled = move_up_terms(values.full_resampled[:, None, None], values.small_resampled)
    picked = np.take_along_axis(resampled, seeds[:, None, None, :, None, None], axis=3)
    low, high = percentile_interval(mean_ignoring_nan(picked, axis=(1, 3, 4)), probability, plan.level)
    return [
        ModelMove(
            str(scenario),
            model_grid.name,
            fraction,
            none_if_nan(probability[f, m]),
            none_if_nan(low[f, m]),
            none_if_nan(high[f, m]),
        )
        for m, model_grid in enumerate(model_grids)
        for f, fraction in enumerate(plan.fractions)
    ]


def _cells(
    plan: AgreementPlan,
    boards: Sequence[MetricTaus],
    taus: Taus,
    leaderboards: Sequence[Leaderboards],
    seeds: SeedIndices,
) -> list[StrategyAgreement]:
    """Return the agreement over all metrics together, with seconds, then by each metric."""
    skipped = {
        str(scenario): np.isnan(values.small_seconds[0]).sum(axis=-1)
        for scenario, values in zip(plan.model_grids, leaderboards, strict=True)
    }
    full = np.sum([values.full_seconds.mean(axis=-1) for values in leaderboards], axis=0)
    small = np.sum([values.small_seconds.mean(axis=-1) for values in leaderboards], axis=0)
    speedup = full[:, None, None] / np.maximum(small, 1e-9)
    cells: list[StrategyAgreement] = []
    for index, board in [(None, None), *enumerate(boards)]:
        part = taus if index is None else taus.of(slice(index, index + 1))
        tau, certain = mean_ignoring_nan(part.tau, axis=(0, 3)), mean_ignoring_nan(part.certain, axis=(0, 3))
        expected = mean_ignoring_nan(part.tau_resampled, axis=(0, 1, 4))
        low, high = percentile_interval(_over_seeds(part.tau_resampled, seeds, (1, 4)), tau, plan.level)
        certain_low, certain_high = percentile_interval(
            _over_seeds(part.certain_resampled, seeds, (1, 4)), certain, plan.level
        )
        missing = np.isnan(part.tau).sum(axis=(0, 3))
        n_skipped = np.sum([*skipped.values()], axis=0) if board is None else skipped[board.scenario]
        for a, strategy in enumerate(plan.strategies):
            for f, fraction in enumerate(plan.fractions):
                cells.append(
                    StrategyAgreement(
                        strategy=strategy,
                        fraction=fraction,
                        scenario="" if board is None else board.scenario,
                        metric="" if board is None else board.metric,
                        tau=none_if_nan(tau[a, f]),
                        low=none_if_nan(low[a, f]),
                        high=none_if_nan(high[a, f]),
                        expected=none_if_nan(expected[a, f]),
                        certain=none_if_nan(certain[a, f]),
                        certain_low=none_if_nan(certain_low[a, f]),
                        certain_high=none_if_nan(certain_high[a, f]),
                        n_missing=int(missing[a, f]),
                        seconds=none_if_nan(small[0, a, f]) if board is None else None,
                        speedup=none_if_nan(speedup[0, a, f]) if board is None else None,
                        speedup_validated=none_if_nan(speedup[1, a, f]) if board is None else None,
                        n_skipped=int(n_skipped[a, f]),
                    )
                )
    return cells


def _scores(
    plan: AgreementPlan, taus: Taus, cells: Sequence[StrategyAgreement], seeds: SeedIndices
) -> list[StrategyScore]:
    """Return Psi and the agreement over certain pairs of each strategy."""
    certain = mean_ignoring_nan(taus.certain, axis=(0, 2, 3))
    values = np.array([psi(taus.tau[:, a]) for a in range(len(plan.strategies))])
    low, high = percentile_interval(_over_seeds(taus.tau_resampled, seeds, (1, 3, 4)), values, plan.level)
    certain_low, certain_high = percentile_interval(
        _over_seeds(taus.certain_resampled, seeds, (1, 3, 4)), certain, plan.level
    )
    expected = mean_ignoring_nan(taus.tau_resampled, axis=(0, 1, 3, 4))
    return [
        StrategyScore(
            strategy=strategy,
            psi=none_if_nan(values[a]),
            low=none_if_nan(low[a]),
            high=none_if_nan(high[a]),
            expected=none_if_nan(expected[a]),
            certain=none_if_nan(certain[a]),
            certain_low=none_if_nan(certain_low[a]),
            certain_high=none_if_nan(certain_high[a]),
            keeps_to=keeps_to(
                [cell for cell in cells if cell.strategy == strategy and not cell.metric], plan.threshold
            ),
        )
        for a, strategy in enumerate(plan.strategies)
    ]


def _over_seeds(resampled: FloatArray, seeds: SeedIndices, axis: tuple[int, ...]) -> FloatArray:
    """Return the means of each resample over its resampled seeds and the other axes."""
    picked = np.take_along_axis(resampled, seeds[:, None, None, None, :], axis=4)
    return mean_ignoring_nan(picked, axis=axis)


def percentile_interval(
    resampled: FloatArray, value: FloatArray, level: float
) -> tuple[FloatArray, FloatArray]:
    """Return the percentile interval over the first axis, widened where it does not contain the value itself.

    Resampling adds noise to noisy values, so taus of resamples are smaller on average than the tau that they
    are resamples of, and the plain percentile interval can lie below it.

    Examples
    --------
    >>> [limit.tolist() for limit in percentile_interval(np.array([[0.2], [0.4]]), np.array([0.5]), 0.5)]
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
