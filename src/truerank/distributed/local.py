"""Engines ``local`` (threads of this process) and ``gpu``, and how workers of any engine run a task.

A process opens a job once and keeps what it opened for the following tasks.
"""

from __future__ import annotations

import os
import pickle
import platform
import socket
import threading
from collections import OrderedDict
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from truerank.core.errors import MOST_THREADS, InvalidParameter, JobFailed, TruerankError, check_at_least
from truerank.core.parallel import available_threads, ordered_map, single_threaded_blas
from truerank.distributed.engine import Engine, EngineTask, Failure, Job, TaskOutcome
from truerank.distributed.storage import drop_copies
from truerank.version import __version__

# So many jobs stay open in a process: a worker may serve two drivers at a time.
MOST_STATES = 2

#: Environment of worker processes that an engine starts: BLAS, OpenMP, numba and polars use one thread.
SLOT_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    "POLARS_MAX_THREADS": "1",
}

_states: OrderedDict[str, Any] = OrderedDict()
_opening = threading.Lock()
_alone = threading.Lock()
_counting = threading.Lock()
_running = 0
_limits = ExitStack()


def pickle_job(job: Job) -> bytes:
    """Return the pickled job."""
    try:
        return pickle.dumps(job)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise InvalidParameter(
            f"a job must be picklable to be sent to workers, but it is not ({error}). "
            "Use functions and classes defined at the top level of a module."
        ) from None


def run_pickled(job_bytes: bytes, task: EngineTask, version: str, runtime: str) -> TaskOutcome:
    """Run one task in a worker process; an error is returned in the outcome, not raised.

    Parameters
    ----------
    job_bytes : the job, pickled
    version, runtime : versions of truerank and of Python at the driver, which must equal those of the worker
    """
    try:
        if (version, runtime) != (__version__, python_version()):
            raise JobFailed(
                f"workers must run truerank {version} on Python {runtime} like the driver, this one runs "
                f"{__version__} on {python_version()}. Install the same versions."
            )
        return TaskOutcome(task.id, run_task(pickle.loads(job_bytes), task))  # noqa: S301 - from our own driver
    except Exception as error:  # sent to the driver, whatever it is
        return TaskOutcome(task.id, failure=failure_from(error))


def run_task(job: Job, task: EngineTask) -> bytes:
    """Run one task in this process, on one thread."""
    state = job_state(job)
    with ExitStack() as held:
        if not job.is_thread_safe:
            held.enter_context(_alone)
        held.enter_context(one_blas_thread())
        return job.run(state, task)


def job_state(job: Job) -> Any:
    """Return what the job opened in this process; the first call opens it."""
    with _opening:
        if job.key not in _states:
            while len(_states) >= MOST_STATES:
                _states.popitem(last=False)
            _states[job.key] = job.open()
        _states.move_to_end(job.key)
        return _states[job.key]


def drop_state(key: str) -> None:
    """Drop what a job opened in this process."""
    with _opening:
        _states.pop(key, None)
        if not _states:
            drop_copies()


def failure_from(error: Exception) -> Failure:
    """Return the record of an error in this process."""
    message = str(error) if isinstance(error, TruerankError) else str(error) or "no message"
    return Failure(type(error).__name__, message, f"{socket.gethostname()}, process {os.getpid()}")


def python_version() -> str:
    """Return the version that pickles depend on, such as 3.11."""
    return ".".join(platform.python_version_tuple()[:2])


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread while any task runs in this process."""
    global _running
    with _counting:
        if _running == 0:
            _limits.enter_context(single_threaded_blas())
        _running += 1
    try:
        yield
    finally:
        with _counting:
            _running -= 1
            if _running == 0:
                _limits.close()


@dataclass(frozen=True)
class Local(Engine):
    """Runs tasks on threads of this process; errors are those of the task itself, with its traceback.

    Parameters
    ----------
    threads : how many tasks run at once; None takes all cores

    Examples
    --------
    >>> str(Local(threads=2))
    'local(threads=2)'
    """

    threads: int | None = None

    key: ClassVar[str] = "local"

    def __post_init__(self) -> None:
        if self.threads is not None:
            check_at_least("threads", self.threads, 1, MOST_THREADS)

    def outcomes(self, job: Job, tasks: Sequence[EngineTask]) -> Generator[TaskOutcome, None, None]:
        """Yield outcomes in the order of the tasks."""
        n_threads = (self.threads or available_threads()) if job.is_thread_safe else 1
        try:
            partials = ordered_map(partial(run_task, job), tasks, n_threads=n_threads)
            for task, partial_result in zip(tasks, partials, strict=True):
                yield TaskOutcome(task.id, partial_result)
        finally:
            drop_state(job.key)


@dataclass(frozen=True)
class Gpu(Engine):
    """Ranks models with factors or item-item matrices on a GPU where that pays, and others on the CPU.

    Ranks equal those of the CPU. Other jobs run in this process, one task after the other.

    Parameters
    ----------
    device : as torch names it
    memory : bytes of the device to use, at least 2^20; None for about 3 GB

    Examples
    --------
    >>> str(Gpu()), str(Gpu("cuda:1", memory=2_000_000_000))
    ('gpu', 'gpu(device=cuda:1, memory=2000000000)')
    """

    device: str = "cuda"
    memory: int | None = None

    key: ClassVar[str] = "gpu"

    def __post_init__(self) -> None:
        if self.memory is not None:
            check_at_least("memory", self.memory, 1 << 20)

    def outcomes(self, job: Job, tasks: Sequence[EngineTask]) -> Generator[TaskOutcome, None, None]:
        """Yield outcomes in the order of the tasks."""
        yield from Local(threads=1).outcomes(job, tasks)
