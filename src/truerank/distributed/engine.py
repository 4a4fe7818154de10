"""Engines: where the tasks of a job run, and what comes back.

::

    job.open()             once per process: open files, map arrays
    job.run(state, task)   pure; returns bytes, a small partial result
    engine.map(job, tasks) one partial per task id, in the order of the tasks

A task counts once, however often a worker was lost and it ran again. Nothing above an engine knows which one
ran: a job's partials do not depend on the engine, and they are put together in the order of the tasks.

The engines by name.

Starting an engine once for several jobs.
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
    """A piece of a job.

    Parameters
    ----------
    id : unique within a job; names the partial where partials are kept
    payload : what ``Job.run`` needs to know, picklable and small
    rows : how much of the job it is, for progress
    """

    id: str
    payload: Any = None
    rows: int = 1


class Job(ABC):
    """What is done with each task; picklable, and small: data are read by ``open`` and ``run``."""

    @property
    @abstractmethod
    def key(self) -> str:
        """Everything the partials depend on beside the task."""

    @property
    def is_thread_safe(self) -> bool:
        """Whether several tasks may run in one process at once."""
        return True

    @abstractmethod
    def open(self) -> Any:
        """Return what all tasks in a process share."""

    @abstractmethod
    def run(self, state: Any, task: EngineTask) -> bytes:
        """Return the partial of one task: equal bytes for equal tasks, wherever it runs."""


@dataclass(frozen=True)
class Failure:
    """What went wrong in a task, in a form that every process can read.

    Parameters
    ----------
    kind : name of the error's class
    message : its own words
    where : host and process
    """

    kind: str
    message: str
    where: str

    def error(self, task: str) -> TruerankError:
        """Return the error to raise: of its own class if that is one of truerank's."""
        known = getattr(errors, self.kind, None)
        if isinstance(known, type) and known in _RAISED_AGAIN:
            return known(f"{self.message} (said by {self.where} in task {task})")
        if self.kind == JobFailed.__name__:
            return JobFailed(f"{self.message} (said by {self.where} in task {task})")
        return JobFailed(
            f"task {task} failed on {self.where} with {self.kind}: {self.message.rstrip('.')}. "
            "Correct that and run again."
        )


_RAISED_AGAIN = (errors.InvalidData, errors.InvalidParameter, errors.CannotEstimate)


@dataclass(frozen=True)
class TaskOutcome:
    """What a task brought: a partial or a failure."""

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
        """Return the partial of every task, in the order of the tasks.

        Parameters
        ----------
        job, tasks : what to do
        label, progress : how and where the rows that are done are reported
        store : where partials are kept by job and task; those that are there already are not computed again

        Raises
        ------
        JobFailed
            When a task fails, brings nothing, or its workers are lost.
        """
        waiting = {task.id: task for task in tasks}
        if len(waiting) != len(tasks):
            raise InvalidParameter("each task must have an id of its own, got one twice. Rename it.")
        done: dict[str, bytes] = {}
        with tracked(progress, label, sum(task.rows for task in tasks)) as bar:
            for task in tasks:
                kept = None if store is None else _kept(store, job, task)
                if kept is not None:
                    done[task.id] = kept
                    bar.advance(waiting.pop(task.id).rows)
            if waiting:
                with closing(self.outcomes(job, tuple(waiting.values()))) as outcomes:
                    for outcome in outcomes:
                        if outcome.failure is not None:
                            raise outcome.failure.error(outcome.task)
                        ended = waiting.pop(outcome.task, None)
                        if ended is None:
                            continue  # it ran twice: the first partial counts
                        done[outcome.task] = outcome.partial
                        if store is not None:
                            _keep(store, job, ended, outcome.partial)
                        bar.advance(ended.rows)
        if waiting:
            raise JobFailed(
                f"every task must bring a partial, but {len(waiting)} of {len(tasks)} brought none, such as "
                f"{next(iter(waiting))}. Run it again."
            )
        return {task.id: done[task.id] for task in tasks}

    @abstractmethod
    def outcomes(self, job: Job, tasks: Sequence[EngineTask]) -> Generator[TaskOutcome, None, None]:
        """Yield outcomes as they come; closing the iterator stops what has not begun.

        A task may come twice or not at all: ``map`` counts.
        """


class _NotKept(Exception):  # noqa: N818 - an answer, not an error
    pass


def _none_kept() -> dict[str, np.ndarray]:
    raise _NotKept


def _kept(store: Store, job: Job, task: EngineTask) -> bytes | None:
    try:
        found = store.arrays(f"{job.key}/{task.id}", _none_kept, hold=False)
    except _NotKept:
        return None
    return found["partial"].tobytes()


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
)


@runtime_checkable
class Startable(Protocol):
    """An engine that takes seconds to start."""

    def started(self) -> AbstractContextManager[Engine]:
        """Start it for the length of a ``with`` block."""


@contextmanager
def started(engine: Engine) -> Iterator[Engine]:
    """Give an engine that all jobs of a ``with`` block share: a cluster of this machine is started once.

    Examples
    --------
    >>> from truerank.distributed.local import Local
    >>> with started(Local()) as engine:
    ...     print(engine)
    local
    """
    with engine.started() if isinstance(engine, Startable) else nullcontext(engine) as one:
        yield one
