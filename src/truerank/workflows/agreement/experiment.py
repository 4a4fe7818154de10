"""Agreement experiment: whether models keep their order when trained on a sub-sample of the events.

All models are fitted to the full train set and to sub-samples by several strategies and fractions, and
evaluated on the same test events. ``measure_agreement`` returns Kendall's tau between the two orders.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from truerank.core.checkpoint import DAMAGED, clear_place, make_folder, replace_bytes, tell_damaged
from truerank.core.digest import content_digest, events_hash
from truerank.core.errors import (
    MOST_THREADS,
    InvalidData,
    InvalidParameter,
    check_at_least,
    suggests_arguments,
)
from truerank.core.interactions import Interactions, check_interactions
from truerank.core.model import Model
from truerank.core.progress import SILENT, Progress, as_progress, tracked
from truerank.core.split import Split
from truerank.distributed.engine import ENGINES, Engine, started
from truerank.distributed.lifetime import scratch_folder
from truerank.subsampling.base import Strategy, nearest_count
from truerank.workflows.agreement.parallel import run_tasks, run_tasks_on
from truerank.workflows.agreement.plan import PAPER_FRACTIONS, AgreementPlan, make_plan
from truerank.workflows.agreement.result import Agreement
from truerank.workflows.agreement.runner import TaskRunner
from truerank.workflows.agreement.scenarios import Scenario
from truerank.workflows.agreement.tasks import AgreementTask, FitTask, SubsampleTask
from truerank.workflows.agreement.taus import assemble_agreement

_MANIFEST = "experiment.json"
_KIND = "truerank agreement"


class AgreementExperiment:
    """A plan with its data: fits all models to the full data and to all sub-samples, and compares the orders.

    Parameters
    ----------
    plan : what to compare
    data : all events
    folder : where finished tasks are kept; a later experiment on the same data continues from there
    workers : processes of this machine
    engine : where tasks run instead, such as ``dask(address=tcp://host:8786)``; the folder must then be one
        that all its workers can read and write

    Raises
    ------
    InvalidData
        When the data lack what a scenario needs.
    InvalidParameter
        When the folder contains something else, or a fraction keeps no event.
    """

    def __init__(
        self,
        plan: AgreementPlan,
        data: Interactions,
        *,
        folder: Path | None = None,
        workers: int = 1,
        engine: str | Engine | None = None,
    ) -> None:
        check_at_least("workers", workers, 1, MOST_THREADS)
        if engine is not None and workers > 1:
            raise InvalidParameter(
                f"workers are processes of this machine and an engine has its own, got workers={workers} and "
                f"engine={str(engine)!r}. Leave one out."
            )
        self.plan, self.workers, self.folder = plan, workers, folder
        self.engine = None if engine is None else ENGINES.make(engine)
        splits = {scenario: scenario.divide(data, plan.seed) for scenario in plan.model_grids}
        for scenario, split in splits.items():
            self._check(scenario, split)
        if folder is not None:
            _check_folder(folder, events_hash(data), data.name)
        self.name = data.name
        self.runner = TaskRunner(splits, folder)

    def tasks(self) -> tuple[list[AgreementTask], list[AgreementTask], list[AgreementTask]]:
        """Return importance, sub-sample and fit tasks, each once; later ones need earlier ones."""
        plan = self.plan
        fits: list[FitTask] = [
            FitTask(scenario, model, seed)
            for scenario, model_grids in plan.model_grids.items()
            for model_grid in model_grids
            for model in model_grid.configurations
            for seed in plan.seeds
        ]
        subsamples: list[SubsampleTask] = []
        for fraction in plan.fractions:
            for strategy in plan.strategies.values():
                for scenario, model_grids in plan.model_grids.items():
                    for seed in plan.seeds:
                        subsample = SubsampleTask(scenario, scenario.adapt_strategy(strategy), fraction, seed)
                        subsamples.append(subsample)
                        fits += [
                            FitTask(scenario, model, seed, subsample)
                            for model_grid in model_grids
                            for model in model_grid.configurations
                        ]
        importances = [task.importance_task for task in subsamples if task.importance_task is not None]
        return self._distinct(importances), self._distinct(subsamples), self._distinct(fits)

    def progress(self) -> tuple[int, int]:
        """Return the number of finished tasks, and the number of all tasks."""
        tasks = [task for phase in self._phases(self.runner) for task in phase]
        return sum(self.runner.is_done(task) for task in tasks), len(tasks)

    def run(self, progress: Progress = SILENT) -> Agreement:
        """Run the tasks that are not finished and return the result."""
        cost = sum(
            task.cost
            for phase in self._phases(self.runner)
            for task in phase
            if not self.runner.is_done(task)
        )
        with (
            self._runner_with_folder() as runner,
            tracked(progress, "fitting, percent of a full fit", cost) as bar,
        ):
            if self.engine is not None and cost:
                with started(self.engine) as engine:
                    for phase in self._phases(runner):
                        run_tasks_on(engine, runner, phase, bar)
            for phase in self._phases(runner):
                run_tasks(runner, phase, self.workers, bar)
            return assemble_agreement(self.plan, runner, self.name, progress)

    def _phases(self, runner: TaskRunner) -> Iterator[list[AgreementTask]]:
        """Yield the tasks in their order, without fits to sub-samples that are known to be too small.

        Sizes are known of sub-samples that are finished when the fits are asked for.
        """
        importances, subsamples, fits = self.tasks()
        yield importances
        yield subsamples
        if self.plan.has_limits:
            fits = [
                fit
                for fit in fits
                if not isinstance(fit, FitTask)
                or fit.subsample is None
                or not runner.is_done(fit.subsample)
                or not self.plan.shortfall(*runner.size_of(fit.subsample))
            ]
        yield fits

    @contextmanager
    def _runner_with_folder(self) -> Iterator[TaskRunner]:
        """Give a runner; workers get a temporary folder for their results where none shall be kept."""
        if (self.workers == 1 and self.engine is None) or self.folder is not None:
            yield self.runner
            return
        with scratch_folder("work") as name:
            yield TaskRunner(self.runner.splits, Path(name))

    def _distinct(self, tasks: Sequence[AgreementTask]) -> list[AgreementTask]:
        return list({self.runner.key_of(task): task for task in tasks}.values())

    def _check(self, scenario: Scenario, split: Split) -> None:
        for strategy in self.plan.strategies.values():
            scenario.adapt_strategy(strategy).check(split.train)
        smallest, n_events = self.plan.fractions[-1], len(split.train)
        if nearest_count(smallest, n_events) < 1:
            raise InvalidParameter(
                f"each fraction must keep at least one train event, but {smallest} keeps none of the "
                f"{n_events} of scenario {scenario.key!r}. Use at least {1 / n_events:.2g}."
            )
        model_grids = self.plan.model_grids[scenario]
        has_grid = any(len(model_grid.configurations) > 1 for model_grid in model_grids)
        if has_grid and scenario.selection == "validation" and split.valid is None:
            raise InvalidData(
                f"selecting hyper-parameters needs validation events, but split {split.method!r} gives none. "
                "Use another split or the grid 'none'."
            )


def _check_folder(folder: Path, digest: str, name: str) -> None:
    """Write a manifest to an empty folder; raise where the folder is not one of the same data.

    A manifest that is lost or damaged is written again where results of an agreement lie beside it: each of
    them says itself which data it belongs to.
    """
    manifest = folder / _MANIFEST
    written = {"kind": _KIND, "data": digest, "name": name}
    found = _read_manifest(manifest)
    if found is None:
        names = _names_in(folder)
        is_kept = any(re.fullmatch(r"agreement-.*\.npz", name) for name in names)
        if names and not is_kept:
            raise InvalidParameter(
                f"results must be kept in an empty folder or one of an earlier agreement, but '{folder}' "
                "contains something else. Choose another folder."
            )
        make_folder(folder, "finished results")
        if is_kept:
            clear_place(manifest)
            tell_damaged(manifest)
        text = json.dumps(written | {"blake2b": _manifest_digest(written)}, indent=2)
        replace_bytes(manifest, f"{text}\n".encode(), "what the folder is for", through_links=False)
    elif found["data"] != digest:
        raise InvalidParameter(
            f"folder '{folder}' keeps an experiment on other data ({found['name']!r}, not this "
            f"{name!r}). Choose another folder, or the data it was started with."
        )


def _read_manifest(path: Path) -> dict[str, str] | None:
    """Return what a manifest says, None where there is none that is as it was written."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        told = {key: content[key] for key in ("kind", "data", "name")}
        is_whole = told["kind"] == _KIND and content["blake2b"] == _manifest_digest(told)
        return told if is_whole else None
    except DAMAGED:
        return None


def _manifest_digest(told: dict[str, str]) -> str:
    return content_digest([json.dumps(told, sort_keys=True)])


def _names_in(folder: Path) -> list[str]:
    """Return what lies in a folder; nothing where there is none, its own name where that cannot be read."""
    try:
        return [path.name for path in folder.iterdir()] if folder.exists() else []
    except (OSError, ValueError):
        return [folder.name]


@suggests_arguments
def measure_agreement(
    data: Interactions,
    strategies: str | Strategy | Sequence[str | Strategy],
    fractions: Sequence[float] = PAPER_FRACTIONS,
    *,
    scenario: str | Scenario | Sequence[str | Scenario] = "implicit",
    models: str | Sequence[str | Model] | None = None,
    seeds: int = 3,
    seed: int = 0,
    grid: str = "none",
    level: float = 0.95,
    resamples: int = 400,
    threshold: float = 0.8,
    least_events: int = 0,
    least_users: int = 0,
    least_items: int = 0,
    keep: str | Path | None = None,
    workers: int = 1,
    engine: str | Engine | None = None,
    progress: Progress | bool = SILENT,
) -> Agreement:
    """Return whether models keep their order when they are trained on a part of the train events.

    Every model is fitted to all train events and to each sub-sample, and evaluated on the same test events.

    Parameters
    ----------
    data : all events
    strategies : which events sub-samples keep, such as ``random,head-user``
    fractions : of the train events, strictly between 0 and 1
    scenario : ``explicit``, ``implicit``, ``sequential``, or several
    models : two or more; None takes those of [sachdeva2021]_ for the scenario
    seeds : number of repetitions, with other sub-samples and other initial values of training
    seed : the first seed; also that of the split and of the resamples
    grid : hyper-parameters to try: ``none``, ``reduced``, ``reduced-rates``, ``repo``, ``paper`` or
        ``paper-large``
    level : of intervals, and of the order of two models to be certain on the full data
    resamples : bootstrap samples of users
    threshold : an order is kept when the lower limit of the agreement over certain pairs is at least this
    least_events, least_users, least_items : sub-samples with fewer train events, or fewer users or items that
        have one, are skipped and counted: their taus are missing; 0 skips none
    keep : folder for finished tasks; the same call continues from there, with the same digits
    workers : processes; with more than one, a script must be guarded by ``if __name__ == "__main__"``
    engine : where models are fitted instead, such as ``dask(address=tcp://host:8786)``; ``keep`` must then be
        a folder that all its workers can read and write
    progress : where fits and comparisons are reported; True shows bars

    Examples
    --------
    >>> from truerank.data.demo import demo
    >>> agreement = measure_agreement(
    ...     demo(n_users=60, n_items=150), "random", [0.5], models="popularity,item-knn", seeds=1
    ... )
    >>> agreement.boards[0].metric, agreement.boards[0].n_pairs, agreement.score("random").psi is not None
    ('auc', 1, True)
    """
    progress = as_progress(progress)
    check_interactions(data, "agreement")
    folder = None if keep is None else Path(keep)
    plan = make_plan(
        strategies,
        fractions,
        scenario,
        models,
        seeds=seeds,
        seed=seed,
        grid=grid,
        level=level,
        resamples=resamples,
        threshold=threshold,
        least_events=least_events,
        least_users=least_users,
        least_items=least_items,
    )
    return AgreementExperiment(plan, data, folder=folder, workers=workers, engine=engine).run(progress)
