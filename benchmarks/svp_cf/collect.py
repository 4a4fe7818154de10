"""Results of stacks as an agreement, put where ``truerank paper run s21.table1`` finds it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.svp_cf.job import MODELS, StackName, stack_names
from truerank.core.digest import events_hash
from truerank.core.types import FloatArray
from truerank.papers.sachdeva2021 import key_of, stacked
from truerank.papers.sachdeva2021_protocol import DATA, PROTOCOLS, PaperData, plan_of
from truerank.papers.store import PaperStore
from truerank.workflows.agreement.order import kendall, mean_ignoring_nan, move_up_terms, psi
from truerank.workflows.agreement.plan import AgreementPlan
from truerank.workflows.agreement.result import (
    Agreement,
    MetricTaus,
    ModelMove,
    StrategyAgreement,
    StrategyScore,
    nested_lists,
    none_if_nan,
)
from truerank.workflows.agreement.scenarios import Scenario

Results = Mapping[str, np.ndarray]


class Board:
    """Values of all models of one scenario, at the configuration that is chosen for each train set.

    A width of a model that was not trained on all fractions under a seed is left out on all of them under
    that seed, so that no train set has a wider search than the one it is compared with. The full data under
    two seeds are compared too, ``again``: there a width counts that they have under all seeds.

    Parameters
    ----------
    name : data set and protocol
    scenario : with the part and the metric by which configurations are chosen
    plan : strategies, fractions, seeds
    results : arrays of the stacks
    """

    def __init__(
        self, name: tuple[str, str], scenario: Scenario, plan: AgreementPlan, results: Results
    ) -> None:
        self.scenario, self.models = scenario, MODELS[scenario.key]
        self.sign = 1.0 if scenario.higher_is_better else -1.0
        self.metrics = scenario.metric_names()
        outer = (len(plan.strategies), len(plan.fractions), len(plan.seeds))
        inner = (len(self.metrics), len(self.models))
        self.full, self.small = np.full((outer[2], *inner), np.nan), np.full((*outer, *inner), np.nan)
        self.again = self.full.copy()
        self.full_work, self.small_work = np.zeros(outer[2]), np.zeros(outer)
        self.missing: list[str] = []
        self.holes: list[str] = []
        stacks = list(stack_names(*name, scenario.key, plan.fractions))
        tested = {stack: results[f"{stack}/test"] for stack in stacks if f"{stack}/test" in results}
        self.lost = _lost(stacks, tested, len(plan.seeds))
        self._note_missing(plan.seeds)
        for column, model in enumerate(self.models):
            widths = {
                width for (of, width), is_lost in self.lost.items() if of == model and not is_lost.all()
            }
            if not widths:
                self.holes.append(model)
                continue
            for f, fraction in enumerate((1.0, *plan.fractions)):
                found = [
                    stack
                    for stack in tested
                    if (stack.model, stack.fraction) == (model, fraction) and stack.width in widths
                ]
                if not found:
                    continue  # no sub-sample of this size counts
                values, work = self._chosen(found, results)
                if f == 0:
                    whole = [stack for stack in found if np.isfinite(tested[stack]).any(axis=(0, 2, 3)).all()]
                    again, _ = self._chosen(whole, results, all_seeds=True) if whole else (values, work)
                    self.again[:, :, column] = again[0]
                    self.full[:, :, column] = values[0]
                    self.full_work += work[0]
                else:
                    self.small[:, f - 1, :, :, column] = values
                    self.small_work[:, f - 1] += fraction * work
        self.small[np.isnan(self.small).any(axis=(-2, -1))] = np.nan  # a model without a value has no place

    def _note_missing(self, seeds: Sequence[int]) -> None:
        for (model, width), is_lost in sorted(self.lost.items()):
            if is_lost.any():
                under = " and ".join(str(seed) for seed, lost in zip(seeds, is_lost, strict=True) if lost)
                which = "" if is_lost.all() else f" under seed {under}"
                self.missing.append(f"{model} of width {width}{which}")

    def _chosen(
        self, found: Sequence[StackName], results: Results, *, all_seeds: bool = False
    ) -> tuple[FloatArray, FloatArray]:
        """Return (strategies, seeds, metrics) values, and the epochs that all configurations took."""
        part = "test" if self.scenario.selection == "test" else "valid"
        test, by, last = (
            np.concatenate(
                [self._used(stack, results[f"{stack}/{key}"], all_seeds) for stack in found], axis=2
            )
            for key in ("test", part, "last")
        )
        by = self.sign * by[..., self.metrics.index(self.scenario.select_by)]
        best = np.where(np.isnan(by), -np.inf, by).argmax(axis=-1)
        values = self.sign * np.take_along_axis(test, best[..., None, None], axis=2)[..., 0, :]
        return values, np.nansum(last, axis=-1)

    def _used(self, stack: StackName, array: np.ndarray, all_seeds: bool) -> FloatArray:
        """Return values or epochs of a stack, NaN under the seeds for which its width is left out."""
        used = array.astype(np.float64)
        if not all_seeds:
            used[:, self.lost[stack.model, stack.width]] = np.nan
        return used


def _lost(
    stacks: Sequence[StackName], tested: Mapping[StackName, np.ndarray], n_seeds: int
) -> dict[tuple[str, int], np.ndarray]:
    """Return under which seeds a width of a model is left out: it lacks a fraction that other stacks have.

    A seed under which no width of the model has all fractions was not run; it leaves out the widths alone
    that no seed has.
    """
    none = np.zeros(n_seeds, dtype=bool)
    has = {
        stack: np.isfinite(tested[stack]).any(axis=(0, 2, 3)) if stack in tested else none for stack in stacks
    }
    counted = {stack.fraction: none for stack in stacks}
    for stack, there in has.items():
        counted[stack.fraction] = counted[stack.fraction] | there
    lacks = {(stack.model, stack.width): none for stack in stacks}
    for stack, there in has.items():
        lacks[stack.model, stack.width] = lacks[stack.model, stack.width] | counted[stack.fraction] & ~there
    run = {model: ~np.all([x for (of, _), x in lacks.items() if of == model], axis=0) for model, _ in lacks}
    return {key: lost if lost.all() else lost & run[key[0]] for key, lost in lacks.items()}


def collect(
    data: PaperData, protocol: str, results: Results, *, seeds: int
) -> tuple[str, Agreement] | list[str]:
    """Return key and agreement of one data set under one protocol, or what is missing for it."""
    plan = plan_of(data, protocol, seeds=seeds)
    boards = [Board((data.dataset, protocol), scenario, plan, results) for scenario in plan.model_grids]
    holes = [f"{board.scenario.key}, {text}" for board in boards for text in board.holes]
    if holes:
        return holes
    missing = [f"{board.scenario.key}, {text}" for board in boards for text in board.missing]
    remarks = [
        "trained as stacks of networks on one GPU (benchmarks/svp_cf); times faster are ratios of epochs "
        "times train events, without sampling and proxies."
    ]
    if missing:
        remarks.append(
            f"not trained on all fractions for want of device time, so that the other width alone was taken: "
            f"{'; '.join(missing)}."
        )
    chosen = [
        Board((data.dataset, protocol), replace(scenario, selection="validation"), plan, results)
        for scenario in plan.model_grids
    ]
    agreement = assembled(plan, boards, remarks)
    other = np.mean([score.psi for score in assembled(plan, chosen, []).scores if score.psi is not None])
    if any(scenario.selection == "test" for scenario in plan.model_grids):
        remarks.append(f"of the same fits, chosen on the validation part, mean Psi is {other:.3f}.")
    key = key_of(plan, data, events_hash(data.events(PROTOCOLS[protocol])))
    return stacked(key), agreement


def assembled(plan: AgreementPlan, boards: Sequence[Board], remarks: list[str]) -> Agreement:
    """Return the agreement of some boards, without resampled users."""
    metric_taus, taus = [], []
    for board in boards:
        for k, metric in enumerate(board.metrics):
            full, small, again = board.full[:, k], board.small[..., k, :], board.again[:, k]
            tau = kendall(full, small)
            first, second = np.triu_indices(len(plan.seeds), k=1)
            empty = nested_lists(np.full(tau.shape, np.nan))
            ceiling = none_if_nan(mean_ignoring_nan(kendall(again[first], again[second])))
            metric_taus.append(
                MetricTaus(
                    scenario=str(board.scenario),
                    metric=metric,
                    higher_is_better=board.scenario.higher_is_better,
                    models=list(board.models),
                    full=nested_lists(board.sign * full),
                    small=nested_lists(board.sign * small),
                    tau=nested_lists(tau),
                    expected=empty,
                    certain=empty,
                    n_pairs=len(board.models) * (len(board.models) - 1) // 2,
                    n_certain=0,
                    ceiling=ceiling,
                )
            )
            taus.append(tau)
    every = np.array(taus)
    is_run = np.isfinite(every).any(axis=(0, 1, 2))
    if not is_run.all():
        remarks.append(
            f"sub-samples under {is_run.sum()} of {len(is_run)} seeds for want of device time, "
            "the full data under all."
        )
    return Agreement(
        answer="",
        strategies=list(plan.strategies),
        fractions=list(plan.fractions),
        seeds=list(plan.seeds),
        boards=metric_taus,
        cells=_cells(plan, boards, metric_taus, every),
        scores=[
            StrategyScore(name, none_if_nan(psi(every[:, a])), *[None] * 7)
            for a, name in enumerate(plan.strategies)
        ],
        moves=[move for board in boards for move in _moves(plan, board)],
        problems=[],
        level=plan.level,
        threshold=plan.threshold,
        provenance={"grid": plan.grid, "seed": plan.seed, "engine": "stacks", "remarks": remarks},
    )


def _cells(
    plan: AgreementPlan, boards: Sequence[Board], metric_taus: Sequence[MetricTaus], every: FloatArray
) -> list[StrategyAgreement]:
    is_run = np.isfinite(every).any(axis=(0, 1, 2))  # seeds
    every = every[..., is_run]
    full = np.sum([board.full_work.mean() for board in boards])
    small = np.sum([board.small_work[..., is_run].mean(axis=-1) for board in boards], axis=0)
    is_skipped = np.asarray(np.isnan(every).all(axis=0))
    cells = []
    for index, board in [(None, None), *enumerate(metric_taus)]:
        part = every if index is None else every[index : index + 1]
        tau, lost = mean_ignoring_nan(part, axis=(0, 3)), np.isnan(part).sum(axis=(0, 3))
        for a, strategy in enumerate(plan.strategies):
            for f, fraction in enumerate(plan.fractions):
                skipped = int(is_skipped[a, f].sum())
                is_timed = board is None and not skipped and small[a, f] > 0
                cells.append(
                    StrategyAgreement(
                        strategy=strategy,
                        fraction=fraction,
                        scenario="" if board is None else board.scenario,
                        metric="" if board is None else board.metric,
                        tau=none_if_nan(tau[a, f]),
                        low=None,
                        high=None,
                        expected=None,
                        certain=None,
                        certain_low=None,
                        certain_high=None,
                        n_missing=int(lost[a, f]),
                        n_skipped=skipped if board is None else 0,
                        speedup=float(full / small[a, f]) if is_timed else None,
                    )
                )
    return cells


def _moves(plan: AgreementPlan, board: Board) -> list[ModelMove]:
    terms = move_up_terms(board.full, board.small)
    probability = mean_ignoring_nan(terms, axis=(0, 2, 3))
    return [
        ModelMove(str(board.scenario), model, fraction, none_if_nan(probability[f, m]), None, None)
        for m, model in enumerate(board.models)
        for f, fraction in enumerate(plan.fractions)
    ]


def keep_results(folder: Path, results: Results, *, seeds: int) -> list[str]:
    """Write every complete agreement to the store of recipes; return a sentence for each data set."""
    store = PaperStore(folder)
    told = []
    for data in DATA[:2]:
        for protocol in PROTOCOLS:
            found = collect(data, protocol, results, seeds=seeds)
            if isinstance(found, list):
                told.append(f"{data.name}, {protocol}: incomplete, without {'; '.join(found)}")
                continue
            key, agreement = found
            store.value(key, agreement.to_dict)
            told.append(f"{data.name}, {protocol}: Psi of {len(agreement.scores)} strategies kept")
    return told
