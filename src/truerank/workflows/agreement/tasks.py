"""The pieces an experiment is made of, and everything each of them depends on.

Where pieces of an experiment are made and kept; every worker process has its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from truerank.core.checkpoint import Store
from truerank.core.digest import events_hash
from truerank.core.errors import MissingDependency, TruerankError
from truerank.core.interactions import Interactions
from truerank.core.model import Model, Validate
from truerank.core.parallel import single_threaded_blas
from truerank.core.scorer import Scorer
from truerank.core.split import Split
from truerank.core.types import BoolArray, FloatArray
from truerank.subsampling.base import ProxyStrategy, Strategy
from truerank.subsampling.importance import importance
from truerank.subsampling.subsample import importance_for, subsample
from truerank.workflows.agreement.scenarios import FitSetup, Scenario


@dataclass(frozen=True)
class ImportanceTask:
    """The importance of the train events by a proxy."""

    scenario: Scenario
    strategy: ProxyStrategy
    seed: int

    @property
    def cost(self) -> int:
        """About how much work it is, in percent of a fit to all events."""
        return 50

    def key(self, digest: str) -> str:
        """Return everything the importance depends on; not how it is used."""
        names = [field.name for field in fields(ProxyStrategy)]
        asked = " ".join(f"{name}={getattr(self.strategy, name)}" for name in names)
        return f"agreement importance {asked} seed={self.seed} data={digest}"


@dataclass(frozen=True)
class SubsampleTask:
    """A sub-sample of the train events."""

    scenario: Scenario
    strategy: Strategy
    fraction: float
    seed: int

    @property
    def cost(self) -> int:
        """About how much work it is, in percent of a fit to all events."""
        return 1

    @property
    def weigh(self) -> ImportanceTask | None:
        """The importance it needs."""
        if isinstance(self.strategy, ProxyStrategy):
            return ImportanceTask(self.scenario, self.strategy, self.seed)
        return None

    def key(self, digest: str) -> str:
        """Return everything the sub-sample depends on."""
        return f"agreement draw {self.strategy} {self.fraction!r} seed={self.seed} data={digest}"


@dataclass(frozen=True)
class FitTask:
    """A model fitted to a sub-sample, or to all train events where there is none, and judged."""

    scenario: Scenario
    model: Model
    seed: int
    draw: SubsampleTask | None = None

    @property
    def cost(self) -> int:
        """About how much work it is, in percent of a fit to all events."""
        return 100 if self.draw is None else max(1, round(100 * self.draw.fraction))

    def key(self, digest: str) -> str:
        """Return everything the values depend on; the part for selection is no such thing."""
        scenario = replace(self.scenario, selection="validation")
        drawn = "full" if self.draw is None else f"{self.draw.strategy} {self.draw.fraction!r}"
        return f"agreement fit {self.model} {drawn} seed={self.seed} {scenario} data={digest}"


AgreementTask: TypeAlias = ImportanceTask | SubsampleTask | FitTask


Arrays = Mapping[str, np.ndarray]
_TINY = 256  # events of the fit that loads compiled code before the clock runs


@dataclass(frozen=True, eq=False)
class FitValues:
    """What is kept of a fitted model.

    Parameters
    ----------
    test, valid : (n_metrics,) values; NaN where the model could not be fitted, or without validation events
    per_user : (n_users, n_metrics) totals of each test user, float32
    seconds, watching : CPU seconds of the fit, and those of it that early stopping took to validate
    error : why the model could not be fitted; empty when it could
    """

    test: FloatArray
    valid: FloatArray
    per_user: FloatArray
    seconds: float
    watching: float
    error: str


class TaskRunner:
    """Makes pieces, or finds them in the store.

    Parameters
    ----------
    splits : the full data of each scenario
    folder : where pieces are kept; None keeps them in memory
    """

    def __init__(self, splits: Mapping[Scenario, Split], folder: Path | None) -> None:
        self.splits, self.folder = dict(splits), folder
        self.store = Store(folder)
        self.digests = {
            scenario: events_hash(split.train, split.test, split.valid) for scenario, split in splits.items()
        }
        self._done: set[str] = set()
        self._warm: set[tuple[type, str]] = set()

    def key_of(self, piece: AgreementTask) -> str:
        """Return the key of a piece."""
        return piece.key(self.digests[piece.scenario])

    def has(self, piece: AgreementTask) -> bool:
        """Whether a piece is finished."""
        key = self.key_of(piece)
        path = self.store.path_of(key, ".npz")
        return key in self._done or (path is not None and path.is_file())

    def make(self, piece: AgreementTask) -> None:
        """Finish a piece and keep it."""
        if isinstance(piece, ImportanceTask):
            self.weighed(piece)
        elif isinstance(piece, SubsampleTask):
            self.drawn(piece)
        else:
            self.judged(piece)

    def weighed(self, weigh: ImportanceTask) -> tuple[FloatArray, float]:
        """Return the importance of each train event, and the CPU seconds that the proxy took."""
        found = self._kept(weigh, lambda: self._weigh(weigh))
        return found["importance"], float(found["seconds"])

    def drawn(self, draw: SubsampleTask) -> tuple[BoolArray, float]:
        """Return which train events a sub-sample has, and the CPU seconds it took, its proxy included."""
        found = self._kept(draw, lambda: self._draw(draw))
        n_events = len(self.splits[draw.scenario].train)
        mask = np.unpackbits(found["rows"], count=n_events).astype(np.bool_)
        return mask, float(found["seconds"])

    def judged(self, fit: FitTask) -> FitValues:
        """Return how a fitted model does."""
        found = self._kept(fit, lambda: self._fit(fit))
        return FitValues(
            found["test"],
            found["valid"],
            found["per_user"],
            float(found["seconds"]),
            float(found["watching"]),
            str(found["error"]),
        )

    def _kept(self, piece: AgreementTask, compute: Callable[[], Arrays]) -> Arrays:
        key = self.key_of(piece)

        def computed() -> Arrays:
            with single_threaded_blas():  # sums keep one order, whatever the machine has
                return compute()

        found = self.store.arrays(key, computed, hold=self.folder is None)
        self._done.add(key)
        return found

    def _weigh(self, weigh: ImportanceTask) -> Arrays:
        train = self.splits[weigh.scenario].train
        tiny, by = train.take(np.arange(min(_TINY, len(train)))), weigh.strategy
        self._once(
            (type(by), str(by.proxy)),
            lambda: importance(tiny, by.proxy, feedback=by.feedback, epochs=1),
        )
        started = time.process_time()
        found = importance_for(weigh.strategy, train, seed=weigh.seed)
        return {"importance": found, "seconds": np.array(time.process_time() - started)}

    def _draw(self, draw: SubsampleTask) -> Arrays:
        train = self.splits[draw.scenario].train
        numbered = replace(train, labels={"row": np.arange(len(train))})
        known, seconds = (None, 0.0) if draw.weigh is None else self.weighed(draw.weigh)
        if known is None:
            tiny = train.take(np.arange(min(_TINY, len(train))))
            self._once((type(draw.strategy), ""), lambda: subsample(tiny, draw.strategy, 0.5))
        started = time.process_time()
        small = subsample(numbered, draw.strategy, draw.fraction, seed=draw.seed, importance=known)
        seconds += time.process_time() - started
        mask = np.zeros(len(train), dtype=np.bool_)
        mask[small.train.labels["row"]] = True
        return {"rows": np.packbits(mask), "seconds": np.array(seconds)}

    def _fit(self, fit: FitTask) -> Arrays:
        full = self.splits[fit.scenario]
        train = full.train if fit.draw is None else full.train.where(self.drawn(fit.draw)[0])
        try:
            return self._fit_to(fit, full, train)
        except MissingDependency:
            raise
        except TruerankError as error:
            if fit.draw is None:
                raise
            # too little is left for this model: a result, and no reason to lose all others
            nothing = np.full(len(fit.scenario.metric_names()), np.nan)
            return _packed(nothing, nothing, np.zeros((0, len(nothing))), (0.0, 0.0), str(error))

    def _fit_to(self, fit: FitTask, full: Split, train: Interactions) -> Arrays:
        scenario = fit.scenario
        arena = scenario.arena(full, train)
        with one_torch_thread(fit.model):
            self._warm_up(fit, arena)
            started = time.process_time()
            watch = _Clock(scenario.watch(arena))
            scorer = fit.model.fit(arena.train, validate=watch.validate, seed=fit.seed)
            seconds = time.process_time() - started
            per_user, test = _values(scenario, scorer, arena.judged)
            validated = arena.validated
            valid = (
                np.full(len(test), np.nan) if validated is None else _values(scenario, scorer, validated)[1]
            )
        return _packed(test, valid, per_user, (seconds, watch.seconds))

    def _warm_up(self, fit: FitTask, arena: FitSetup) -> None:
        tiny = arena.train.take(np.argsort(arena.train.user, kind="stable")[:_TINY])
        model, watch = _one_epoch(fit.model), fit.scenario.watch(arena)
        self._once((type(model), fit.scenario.key), lambda: model.fit(tiny, validate=watch, seed=0))

    def _once(self, what: tuple[type, str], work: Callable[[], object]) -> None:
        """Do something small once per kind: what is compiled or loaded then is not timed."""
        if what not in self._warm:
            self._warm.add(what)
            with suppress(TruerankError):
                work()


class _Clock:
    """Counts the CPU seconds of what early stopping asks for."""

    def __init__(self, watch: Validate | None) -> None:
        self._watch, self.seconds = watch, 0.0
        self.validate = None if watch is None else self._timed

    def _timed(self, scorer: Scorer) -> float:
        started = time.process_time()
        try:
            return self._watch(scorer) if self._watch is not None else 0.0
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


def _values(scenario: Scenario, scorer: Scorer, judged: Split) -> tuple[FloatArray, FloatArray]:
    """Return the users' totals and the values of all metrics."""
    totals = scenario.totals(scorer, judged)
    return totals, totals.sum(axis=0) / scenario.weights(judged.test).sum()


def _one_epoch(model: Model) -> Model:
    fewer: dict[str, Any] = {"epochs": 1}
    return replace(model, **fewer) if hasattr(model, "epochs") else model


@contextmanager
def one_torch_thread(model: Model) -> Iterator[None]:
    """Let torch use one thread where the model needs it: sums keep one order whatever the machine."""
    if not hasattr(model, "device"):
        yield
        return
    from importlib.util import find_spec

    if find_spec("torch") is None:
        yield  # the model itself says what is missing
        return
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
