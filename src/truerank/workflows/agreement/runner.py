"""Runner of single tasks with a store: computes the result of a task once, or reads it from a folder.

Results depend on their key alone: sums keep one order because linear algebra runs on one thread. CPU seconds
are measured after a small warm-up fit, so that compilation is not counted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from truerank.core.checkpoint import Store
from truerank.core.digest import events_hash
from truerank.core.errors import MissingDependency, TruerankError
from truerank.core.interactions import Interactions
from truerank.core.model import Model, RestartsValidation, Validate
from truerank.core.parallel import single_threaded_blas
from truerank.core.scorer import Scorer
from truerank.core.split import Split
from truerank.core.types import BoolArray, FloatArray
from truerank.subsampling.importance import importance
from truerank.subsampling.subsample import importance_for, subsample
from truerank.workflows.agreement.scenarios import FitSetup, Scenario
from truerank.workflows.agreement.tasks import AgreementTask, FitTask, ImportanceTask, SubsampleTask

Arrays = Mapping[str, np.ndarray]
_WARM_UP_EVENTS = 256


@dataclass(frozen=True, eq=False)
class FitValues:
    """Metrics of a fitted model, and the CPU seconds of the fit.

    Parameters
    ----------
    test, valid : (n_metrics,) values; NaN where the model could not be fitted, or without validation events
    per_user : (n_users, n_metrics) totals of each test user, float32
    seconds, validation_seconds : CPU seconds of the fit, and those of them that early stopping spent on
        validation
    error : why the model could not be fitted; empty when it could
    """

    test: FloatArray
    valid: FloatArray
    per_user: FloatArray
    seconds: float
    validation_seconds: float
    error: str


class TaskRunner:
    """Computes results of tasks, or reads them from the store.

    Parameters
    ----------
    splits : the full data of each scenario
    folder : where results are kept; None keeps them in memory
    """

    def __init__(self, splits: Mapping[Scenario, Split], folder: Path | None) -> None:
        self.splits, self.folder = dict(splits), folder
        self.store = Store(folder)
        self.digests = {
            scenario: events_hash(split.train, split.test, split.valid) for scenario, split in splits.items()
        }
        self._done: set[str] = set()
        self._sizes: dict[str, tuple[int, int, int]] = {}
        self._warm: set[tuple[type, str]] = set()

    def key_of(self, task: AgreementTask) -> str:
        """Return the key under which the result of a task is kept."""
        return task.key(self.digests[task.scenario])

    def is_done(self, task: AgreementTask) -> bool:
        """Whether the result of a task is in the store."""
        key = self.key_of(task)
        path = self.store.path_of(key, ".npz")
        return key in self._done or (path is not None and path.is_file())

    def run(self, task: AgreementTask) -> None:
        """Compute the result of a task and keep it, unless it is in the store."""
        if isinstance(task, ImportanceTask):
            self.importance_of(task)
        elif isinstance(task, SubsampleTask):
            self.subsample_of(task)
        else:
            self.fit_values(task)

    def importance_of(self, task: ImportanceTask) -> tuple[FloatArray, float]:
        """Return the importance of each train event, and the CPU seconds that the proxy took."""
        arrays = self._stored(task, lambda: self._compute_importance(task))
        return arrays["importance"], float(arrays["seconds"])

    def subsample_of(self, task: SubsampleTask) -> tuple[BoolArray, float]:
        """Return the mask of the train events in a sub-sample, and its CPU seconds, the proxy included."""
        arrays = self._stored(task, lambda: self._compute_subsample(task))
        n_events = len(self.splits[task.scenario].train)
        mask = np.unpackbits(arrays["rows"], count=n_events).astype(np.bool_)
        return mask, float(arrays["seconds"])

    def size_of(self, task: SubsampleTask) -> tuple[int, int, int]:
        """Return the number of train events in a sub-sample, and of users and items that have one."""
        key = self.key_of(task)
        if key not in self._sizes:
            train = self.splits[task.scenario].train.where(self.subsample_of(task)[0])
            counts = train.user_counts(), train.item_counts()
            self._sizes[key] = len(train), int((counts[0] > 0).sum()), int((counts[1] > 0).sum())
        return self._sizes[key]

    def fit_values(self, task: FitTask) -> FitValues:
        """Return the metrics of a fitted model."""
        arrays = self._stored(task, lambda: self._compute_fit(task))
        return FitValues(
            arrays["test"],
            arrays["valid"],
            arrays["per_user"],
            float(arrays["seconds"]),
            float(arrays["watching"]),
            str(arrays["error"]),
        )

    def _stored(self, task: AgreementTask, compute: Callable[[], Arrays]) -> Arrays:
        key = self.key_of(task)

        def computed() -> Arrays:
            with single_threaded_blas():  # the order of sums must not depend on the number of cores
                return compute()

        arrays = self.store.arrays(key, computed, hold=self.folder is None)
        self._done.add(key)
        return arrays

    def _compute_importance(self, task: ImportanceTask) -> Arrays:
        train, strategy = self.splits[task.scenario].train, task.strategy
        few = train.take(np.arange(min(_WARM_UP_EVENTS, len(train))))
        self._warm_up_once(
            (type(strategy), str(strategy.proxy)),
            lambda: importance(few, strategy.proxy, feedback=strategy.feedback, epochs=1),
        )
        started = time.process_time()
        scores = importance_for(strategy, train, seed=task.seed)
        return {"importance": scores, "seconds": np.array(time.process_time() - started)}

    def _compute_subsample(self, task: SubsampleTask) -> Arrays:
        train = self.splits[task.scenario].train
        numbered = replace(train, labels={"row": np.arange(len(train))})
        scores, seconds = (
            (None, 0.0) if task.importance_task is None else self.importance_of(task.importance_task)
        )
        if scores is None:
            few = train.take(np.arange(min(_WARM_UP_EVENTS, len(train))))
            self._warm_up_once((type(task.strategy), ""), lambda: subsample(few, task.strategy, 0.5))
        started = time.process_time()
        small = subsample(numbered, task.strategy, task.fraction, seed=task.seed, importance=scores)
        seconds += time.process_time() - started
        mask = np.zeros(len(train), dtype=np.bool_)
        mask[small.train.labels["row"]] = True
        return {"rows": np.packbits(mask), "seconds": np.array(seconds)}

    def _compute_fit(self, task: FitTask) -> Arrays:
        full = self.splits[task.scenario]
        train = full.train
        if task.subsample is not None:
            train = train.where(self.subsample_of(task.subsample)[0])
        try:
            return self._fit_to(task, full, train)
        except MissingDependency:
            raise
        except TruerankError as error:
            if task.subsample is None:
                raise
            # too few events are left for this model: that is a result, the other models go on
            missing = np.full(len(task.scenario.metric_names()), np.nan)
            return _packed(missing, missing, np.zeros((0, len(missing))), (0.0, 0.0), str(error))

    def _fit_to(self, task: FitTask, full: Split, train: Interactions) -> Arrays:
        scenario = task.scenario
        setup = scenario.fit_setup(full, train)
        with one_torch_thread(task.model):
            self._warm_up_fit(task, setup)
            started = time.process_time()
            validate = scenario.validator(setup)
            timed = None if validate is None else _TimedValidation(validate)
            scorer = task.model.fit(setup.train, validate=timed, seed=task.seed)
            seconds = time.process_time() - started
            per_user, test = _values(scenario, *scenario.at_test(scorer, setup))
            validated = setup.validated
            valid = (
                np.full(len(test), np.nan) if validated is None else _values(scenario, scorer, validated)[1]
            )
        return _packed(test, valid, per_user, (seconds, timed.seconds if timed is not None else 0.0))

    def _warm_up_fit(self, task: FitTask, setup: FitSetup) -> None:
        few = setup.train.take(np.argsort(setup.train.user, kind="stable")[:_WARM_UP_EVENTS])
        model, validate = _one_epoch(task.model), task.scenario.validator(setup)
        self._warm_up_once(
            (type(model), task.scenario.key), lambda: model.fit(few, validate=validate, seed=0)
        )

    def _warm_up_once(self, kind: tuple[type, str], work: Callable[[], object]) -> None:
        """Do a small piece of work once per kind: code that it compiles or loads is not timed later."""
        if kind not in self._warm:
            self._warm.add(kind)
            with suppress(TruerankError):
                work()


class _TimedValidation:
    """Validation of early stopping, with the CPU seconds that it takes."""

    def __init__(self, validate: Validate) -> None:
        self._validate, self.seconds = validate, 0.0

    def restart(self) -> None:
        """Forget what an earlier training has shown."""
        if isinstance(self._validate, RestartsValidation):
            self._validate.restart()

    def __call__(self, scorer: Scorer) -> float:
        """Return the value of the validation."""
        started = time.process_time()
        try:
            return self._validate(scorer)
        finally:
            self.seconds += time.process_time() - started


def _packed(
    test: FloatArray,
    valid: FloatArray,
    per_user: FloatArray,
    seconds: tuple[float, float],
    error: str = "",
) -> Arrays:
    return {
        "test": test,
        "valid": valid,
        "per_user": per_user.astype(np.float32),
        "seconds": np.array(seconds[0]),
        "watching": np.array(seconds[1]),
        "error": np.array(error),
    }


def _values(scenario: Scenario, scorer: Scorer, evaluated: Split) -> tuple[FloatArray, FloatArray]:
    """Return the users' totals and the mean values of all metrics."""
    totals = scenario.user_totals(scorer, evaluated)
    return totals, totals.sum(axis=0) / scenario.weights(evaluated.test).sum()


def _one_epoch(model: Model) -> Model:
    fewer: dict[str, Any] = {"epochs": 1}
    return replace(model, **fewer) if hasattr(model, "epochs") else model


@contextmanager
def one_torch_thread(model: Model) -> Iterator[None]:
    """Let torch use one thread, so that the order of sums does not depend on the machine."""
    if not hasattr(model, "device"):
        yield
        return
    from importlib.util import find_spec

    if find_spec("torch") is None:
        yield  # the model raises an error that names the missing package
        return
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
