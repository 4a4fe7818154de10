"""Engines: base class and registry of the ways to run the tasks of a job, on this machine or on a cluster.

::

    job.open()             once per process: opens files, maps arrays
    job.run(state, task)   pure; returns bytes, a small partial result
    engine.map(job, tasks) one partial per task id, in the order of the tasks

A task counts once, however often it ran again because a worker was lost. The partial results do not depend on
the engine and are assembled in the order of the tasks, so results are the same on every engine. An engine
that takes seconds to start can be started once for several jobs with `started`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from truerank.core import errors
from truerank.core.checkpoint import Store
from truerank.core.errors import InvalidParameter, JobFailed, TruerankError
from truerank.core.plugin import Plugin, Registry
from truerank.core.progress import SILENT, Progress, tracked


@dataclass(frozen=True)
class EngineTask:
    """One unit of work of a job.

    Parameters
    ----------
    id : unique within the job; partial results are stored under it
    payload : argument of ``Job.run``, picklable and small
    rows : size of the task in the unit that progress is reported in
    """

    id: str
    payload: Any = None
    rows: int = 1


class Job(ABC):
    """What is computed for each task. A job is picklable and small: data are read by ``open`` and ``run``."""

    @property
    @abstractmethod
    def key(self) -> str:
        """Everything that the partial results depend on besides the task."""

    @property
    def is_thread_safe(self) -> bool:
        """Whether several tasks may run in one process at the same time."""
        return True

    @abstractmethod
    def open(self) -> Any:
        """Return what all tasks in a process share."""

    @abstractmethod
    def run(self, state: Any, task: EngineTask) -> bytes:
        """Return the partial result of one task: equal bytes for equal tasks, on every machine."""


@dataclass(frozen=True)
class Failure:
    """The error of a task, in a form that can be sent between processes.

    Parameters
    ----------
    kind : name of the error's class
    message : text of the error
    where : host and process
    """

    kind: str
    message: str
    where: str

    def error(self, task: str) -> TruerankError:
        """Return the error to raise: of the same class if it is one of truerank's, otherwise `JobFailed`."""
        known = getattr(errors, self.kind, None)
        if isinstance(known, type) and known in _RAISED_AGAIN:
            return known(f"{self.message} (raised on {self.where} in task {task})")
        if self.kind == JobFailed.__name__:
            return JobFailed(f"{self.message} (raised on {self.where} in task {task})")
        return JobFailed(
            f"task {task} failed on {self.where} with {self.kind}: {self.message.rstrip('.')}. "
            "Correct that and run again."
        )


_RAISED_AGAIN = (errors.InvalidData, errors.InvalidParameter, errors.CannotEstimate)


@dataclass(frozen=True)
class TaskOutcome:
    """The partial result of a task, or its failure."""

    task: str
    partial: bytes = b""
    failure: Failure | None = None


@dataclass(frozen=True)
class Engine(Plugin):
    """Base of all engines."""

    def map(
        self,
        job: Job,
        tasks: Sequence[EngineTask],
        *,
        label: str = "tasks",
        progress: Progress = SILENT,
        store: Store | None = None,
    ) -> dict[str, bytes]:
        """Return the partial result of every task, in the order of the tasks.

        Parameters
        ----------
        job, tasks : what to do
        label, progress : name of the progress bar, and where finished rows are reported
        store : where partial results are stored by job and task; those already stored are not computed again

        Raises
        ------
        JobFailed
            When a task fails or returns nothing, or all its workers are lost.
        """
        waiting = {task.id: task for task in tasks}
        if len(waiting) != len(tasks):
            raise InvalidParameter("task ids must be unique within a job, but one occurs twice. Rename it.")
        done: dict[str, bytes] = {}
        with tracked(progress, label, sum(task.rows for task in tasks)) as bar:
            for task in tasks:
                partial = None if store is None else _kept(store, job, task)
                if partial is not None:
                    done[task.id] = partial
                    bar.advance(waiting.pop(task.id).rows)
            if waiting:
                with closing(self.outcomes(job, tuple(waiting.values()))) as outcomes:
                    for outcome in outcomes:
                        if outcome.failure is not None:
                            raise outcome.failure.error(outcome.task)
                        task_done = waiting.pop(outcome.task, None)
                        if task_done is None:
                            continue  # it ran twice: the first result counts
                        done[outcome.task] = outcome.partial
                        if store is not None:
                            _keep(store, job, task_done, outcome.partial)
                        bar.advance(task_done.rows)
        if waiting:
            raise JobFailed(
                f"every task must return a result, but {len(waiting)} of {len(tasks)} returned none, such as "
                f"{next(iter(waiting))}. Run it again."
            )
        return {task.id: done[task.id] for task in tasks}

    @abstractmethod
    def outcomes(self, job: Job, tasks: Sequence[EngineTask]) -> Generator[TaskOutcome, None, None]:
        """Yield outcomes as tasks finish; closing the iterator cancels the tasks that have not begun.

        A task may be yielded twice or not at all; ``map`` checks that each has one result.
        """


class _NotKept(Exception):  # noqa: N818 - an answer, not an error
    pass


def _none_kept() -> dict[str, np.ndarray]:
    raise _NotKept


def _kept(store: Store, job: Job, task: EngineTask) -> bytes | None:
    try:
        arrays = store.arrays(f"{job.key}/{task.id}", _none_kept, hold=False)
    except _NotKept:
        return None
    return arrays["partial"].tobytes()


def kept_partials(store: Store, job: Job, tasks: Sequence[EngineTask]) -> dict[str, bytes]:
    """Return the partial results that a store holds of some tasks."""
    found = {task.id: _kept(store, job, task) for task in tasks}
    return {name: partial for name, partial in found.items() if partial is not None}


def _keep(store: Store, job: Job, task: EngineTask, partial: bytes) -> None:
    array = np.frombuffer(partial, np.uint8)
    store.arrays(f"{job.key}/{task.id}", lambda: {"partial": array}, hold=store.folder is None)


ENGINES: Registry[Engine] = Registry(
    "engine",
    {
        "dask": "truerank.distributed.dask:Dask",
        "gpu": "truerank.distributed.local:Gpu",
        "local": "truerank.distributed.local:Local",
        "spark": "truerank.distributed.spark:Spark",
    },
    base=Engine,
)


@runtime_checkable
class Startable(Protocol):
    """An engine that takes seconds to start and can be shared by several jobs."""

    def started(self) -> AbstractContextManager[Engine]:
        """Start it for the length of a ``with`` block."""


@contextmanager
def started(engine: Engine) -> Iterator[Engine]:
    """Start an engine once for all jobs of a ``with`` block.

    Examples
    --------
    >>> from truerank.distributed.local import Local
    >>> with started(Local()) as engine:
    ...     print(engine)
    local
    """
    with engine.started() if isinstance(engine, Startable) else nullcontext(engine) as one:
        yield one
