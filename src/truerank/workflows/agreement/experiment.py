"""An experiment: a plan, its data, and the pieces it is made of."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from truerank.core.checkpoint import replace_text
from truerank.core.digest import events_hash
from truerank.core.errors import InvalidData, InvalidParameter, check_at_least
from truerank.core.interactions import Interactions
from truerank.core.model import Model
from truerank.core.progress import SILENT, Progress, tracked
from truerank.core.split import Split
from truerank.distributed.engine import ENGINES, Engine, started
from truerank.subsampling.base import Strategy, nearest_count
from truerank.workflows.agreement.assemble import assemble_agreement
from truerank.workflows.agreement.parallel import run_tasks, run_tasks_on
from truerank.workflows.agreement.plan import PAPER_FRACTIONS, AgreementPlan, make_plan
from truerank.workflows.agreement.result import Agreement
from truerank.workflows.agreement.scenarios import Scenario
from truerank.workflows.agreement.tasks import (
    AgreementTask,
    FitTask,
    SubsampleTask,
    TaskRunner,
)

_MANIFEST = "experiment.json"
_KIND = "truerank agreement"


class AgreementExperiment:
    """Fits all models to the full data and to all sub-samples, and says where their order is kept.

    Parameters
    ----------
    plan : what to compare
    data : all events
    folder : where finished pieces are kept; a later experiment on the same data goes on from there
    workers : processes of this machine that work at the same time
    engine : where pieces are made instead, such as ``dask(address=tcp://host:8786)``; the folder must then be
        one that all its workers can read and write

    Raises
    ------
    InvalidData
        When the data lack what a scenario needs.
    InvalidParameter
        When the folder holds something else, or a fraction keeps no event.
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
        check_at_least("workers", workers, 1)
        if engine is not None and workers > 1:
            raise InvalidParameter(
                "workers are processes of this machine and an engine has its own, got both. Leave one out."
            )
        self.plan, self.workers, self.folder = plan, workers, folder
        self.engine = None if engine is None else ENGINES.make(engine)
        splits = {scenario: scenario.divide(data, plan.seed) for scenario in plan.entrants}
        for scenario, split in splits.items():
            self._check(scenario, split)
        if folder is not None:
            _claim(folder, events_hash(data), data.name)
        self.name = data.name
        self.workshop = TaskRunner(splits, folder)

    def pieces(self) -> tuple[list[AgreementTask], list[AgreementTask], list[AgreementTask]]:
        """Return importances, sub-samples and fits, each once, in the order in which they can be made."""
        plan = self.plan
        fits: list[FitTask] = [
            FitTask(scenario, model, seed)
            for scenario, entrants in plan.entrants.items()
            for entrant in entrants
            for model in entrant.configurations
            for seed in plan.seeds
        ]
        draws: list[SubsampleTask] = []
        for fraction in plan.fractions:
            for strategy in plan.strategies.values():
                for scenario, entrants in plan.entrants.items():
                    for seed in plan.seeds:
                        draw = SubsampleTask(scenario, scenario.adapt_strategy(strategy), fraction, seed)
                        draws.append(draw)
                        fits += [
                            FitTask(scenario, model, seed, draw)
                            for entrant in entrants
                            for model in entrant.configurations
                        ]
        weighs = [draw.weigh for draw in draws if draw.weigh is not None]
        return self._distinct(weighs), self._distinct(draws), self._distinct(fits)

    def progress(self) -> tuple[int, int]:
        """Return how many pieces are finished, and how many there are."""
        pieces = [piece for phase in self.pieces() for piece in phase]
        return sum(self.workshop.has(piece) for piece in pieces), len(pieces)

    def run(self, progress: Progress = SILENT) -> Agreement:
        """Make what is missing and return the result."""
        phases = self.pieces()
        missing = sum(piece.cost for phase in phases for piece in phase if not self.workshop.has(piece))
        with (
            self._kept_somewhere() as workshop,
            tracked(progress, "fitting, percent of a full fit", missing) as task,
        ):
            if self.engine is not None and missing:
                with started(self.engine) as engine:
                    for phase in phases:
                        run_tasks_on(engine, workshop, phase, task)
            for phase in phases:
                run_tasks(workshop, phase, self.workers, task)
            return assemble_agreement(self.plan, workshop, self.name, progress)

    @contextmanager
    def _kept_somewhere(self) -> Iterator[TaskRunner]:
        """Give workers a folder to hand pieces over in, even where none shall stay."""
        if (self.workers == 1 and self.engine is None) or self.folder is not None:
            yield self.workshop
            return
        with tempfile.TemporaryDirectory() as name:
            yield TaskRunner(self.workshop.splits, Path(name))

    def _distinct(self, pieces: Sequence[AgreementTask]) -> list[AgreementTask]:
        return list({self.workshop.key_of(piece): piece for piece in pieces}.values())

    def _check(self, scenario: Scenario, split: Split) -> None:
        for strategy in self.plan.strategies.values():
            scenario.adapt_strategy(strategy).check(split.train)
        smallest, n_events = self.plan.fractions[-1], len(split.train)
        if nearest_count(smallest, n_events) < 1:
            raise InvalidParameter(
                f"a fraction of {smallest} keeps none of the {n_events} train events of scenario "
                f"{scenario.key!r}. Use at least {1 / n_events:.2g}."
            )
        entrants = self.plan.entrants[scenario]
        has_choice = any(len(entrant.configurations) > 1 for entrant in entrants)
        if has_choice and scenario.selection == "validation" and split.valid is None:
            raise InvalidData(
                f"choosing hyper-parameters needs validation events, but split {split.method!r} gives none. "
                "Use another split or the grid 'none'."
            )


def _claim(folder: Path, digest: str, name: str) -> None:
    """Write what the folder is for, or see that it is for the same data."""
    manifest = folder / _MANIFEST
    try:
        is_empty = not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))
        held = json.loads(manifest.read_text(encoding="utf-8")) if manifest.is_file() else None
    except (OSError, ValueError):
        is_empty, held = False, None
    if is_empty:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidParameter(
                f"results must be kept in a folder, but '{folder}' cannot be made one ({error.strerror}). "
                "Choose another place."
            ) from None
        text = json.dumps({"kind": _KIND, "data": digest, "name": name}, indent=2)
        replace_text(manifest, text + "\n", "what the folder is for")
        return
    if not isinstance(held, dict) or held.get("kind") != _KIND:
        raise InvalidParameter(
            f"results must be kept in an empty folder or one of an earlier agreement, but '{folder}' holds "
            "something else. Choose another place."
        )
    if held.get("data") != digest:
        raise InvalidParameter(
            f"folder '{folder}' keeps an experiment on other data ({held.get('name')!r}, not this {name!r}). "
            "Choose another folder, or the data it was begun with."
        )


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
    keep: Path | None = None,
    workers: int = 1,
    engine: str | Engine | None = None,
    progress: Progress = SILENT,
) -> Agreement:
    """Return whether models keep their order when they learn from a part of the train events.

    Every model is fitted to all train events and to each sub-sample, and judged by the same test events.

    Parameters
    ----------
    data : all events
    strategies : which events sub-samples keep, such as ``random,head-user``
    fractions : shares of the train events, strictly between 0 and 1
    scenario : ``explicit``, ``implicit``, ``sequential``, or several
    models : two or more; None takes those of [sachdeva2021]_ for the scenario
    seeds : how often all is repeated, with other sub-samples and other starts of training
    seed : the first of them; also of the split and of the resamples
    grid : hyper-parameters to try: ``none``, ``reduced``, ``repo``, ``paper`` or ``paper-large``
    level : of intervals, and of what counts as certain
    resamples : bootstrap samples of users
    threshold : how large the lower end of the agreement over certain pairs must be for an order to be kept
    keep : folder for finished pieces; the same call goes on from there, with the same digits
    workers : processes; with more than one, a script must be guarded by ``if __name__ == "__main__"``
    engine : where models are fitted instead, such as ``dask(address=tcp://host:8786)``; ``keep`` must then be
        a folder that all its workers can read and write
    progress : where it reports

    Examples
    --------
    >>> from truerank.data.demo import demo
    >>> found = measure_agreement(
    ...     demo(n_users=60, n_items=150), "random", [0.5], models="popularity,item-knn", seeds=1
    ... )
    >>> found.boards[0].metric, found.boards[0].n_pairs, found.score("random").psi is not None
    ('auc', 1, True)
    """
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
    )
    return AgreementExperiment(plan, data, folder=keep, workers=workers, engine=engine).run(progress)
