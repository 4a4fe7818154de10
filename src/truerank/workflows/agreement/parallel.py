"""Run many tasks: one after the other, in several processes of this machine, or on an engine.

Every result is written to the store as soon as its task is finished, so an interrupted experiment loses only
the tasks that were running. Worker processes and workers of a cluster write to the same folder.
"""

from __future__ import annotations

import multiprocessing
import signal
import threading
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from truerank.core.errors import DataWarning, InvalidParameter, JobFailed, NotConverged, TruerankError
from truerank.core.progress import ProgressTask
from truerank.distributed.engine import Engine, EngineTask, Job
from truerank.distributed.lifetime import end_with_driver
from truerank.distributed.sealed import SealedPickle, private_folder, write_pickle
from truerank.workflows.agreement.runner import TaskRunner
from truerank.workflows.agreement.tasks import AgreementTask

#: processes are started again after losses, until so many in a row have come without a finished task
_MOST_LOSSES = 3
_worker_runner: TaskRunner | None = None  # set in worker processes only


def run_tasks(
    runner: TaskRunner, tasks: Sequence[AgreementTask], workers: int, progress: ProgressTask
) -> None:
    """Run the tasks that are not done, and advance the progress by the cost of each.

    Parameters
    ----------
    runner : with a folder when there is more than one worker
    tasks : in the order in which they are started
    workers : processes; with 1 the tasks run in this process
    progress : where progress is reported
    """
    missing = [task for task in tasks if not runner.is_done(task)]
    if workers <= 1 or len(missing) <= 1:
        for task in missing:
            runner.run(task)
            progress.advance(task.cost)
        return
    if runner.folder is None:
        raise InvalidParameter(
            f"several workers need a folder for finished tasks, got workers={workers} and no folder. Name a "
            "folder, or use one worker."
        )
    # The splits travel in a file. Handed to a process that is started, they would be more than a pipe takes
    # at once, and a process that dies before it has read them would leave this one waiting.
    with _sealed_splits(runner, runner.folder) as splits:
        n_losses = 0
        while missing:
            n_before, lost = (
                len(missing),
                _run_in_processes(splits, runner.folder, missing, workers, progress),
            )
            missing = [task for task in lost if not runner.is_done(task)]
            progress.advance(sum(task.cost for task in lost) - sum(task.cost for task in missing))
            if missing:
                n_losses = n_losses + 1 if len(missing) == n_before else 1
                _tell_loss(n_losses, len(missing))


def _tell_loss(n_losses: int, n_missing: int) -> None:
    """Warn that tasks are run again; raise where the loss of a process is no accident."""
    if n_losses == _MOST_LOSSES:
        raise NotConverged(
            f"a worker process ended before its task was finished, {n_losses} times in a row, possibly "
            "because memory ran out; finished tasks are kept where a folder was named for them. Run it again "
            "with fewer workers.",
            None,
        )
    warnings.warn(
        "a worker process ended before its task was finished, possibly because memory ran out; the "
        f"{n_missing} tasks that are left are given to new ones.",
        DataWarning,
        stacklevel=3,
    )


@contextmanager
def _sealed_splits(runner: TaskRunner, folder: Path) -> Iterator[SealedPickle]:
    """Write the splits for the workers of this run into a private folder, which is removed at the end."""
    with private_folder(str(folder)) as private:
        instead = "Define the classes and functions of scenarios at the top level of a module."
        yield write_pickle(private, "splits.pickle", runner.splits, what="a split", instead=instead)


def _run_in_processes(
    splits: SealedPickle,
    folder: Path,
    tasks: Sequence[AgreementTask],
    workers: int,
    progress: ProgressTask,
) -> list[AgreementTask]:
    """Run tasks in new processes; return those that were not reported as finished because one was lost.

    The loss of one process ends the others, too.
    """
    children = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(
        min(workers, len(tasks)),
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_start_worker,
        initargs=(splits, folder),
    )
    waiting = iter(tasks)
    running: dict[Future[str | None], AgreementTask] = {}
    try:

        def submit(most: int) -> dict[Future[str | None], AgreementTask]:
            with _undisturbed():  # processes are started as they are needed
                return {pool.submit(_run_in_worker, task): task for task in islice(waiting, most)}

        running.update(submit(2 * workers))
        while running:
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                message = future.result()
                if message is not None:
                    raise TruerankError(message)
                progress.advance(running.pop(future).cost)
                running.update(submit(1))
    except BrokenProcessPool:
        return [*running.values(), *waiting]
    except BaseException:
        for child in set(multiprocessing.active_children()) - children:
            child.terminate()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
    return []


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Start processes in the block that do not hear Ctrl-C; a signal to this one is raised after the block.

    A process whose start is interrupted prints a traceback. The mask of blocked signals is handed down; it
    does not keep the signal from this process, where another thread may take it.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "pthread_sigmask"):
        yield  # no signal is raised here
        return
    heard: list[int] = []
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    raising = {number: handler for number, handler in handlers.items() if callable(handler)}
    for number in raising:
        signal.signal(number, lambda number, _: heard.append(number))
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        for number, handler in raising.items():
            signal.signal(number, handler)
        if heard:
            signal.raise_signal(heard[0])


def _start_worker(splits: SealedPickle, folder: Path) -> None:
    """Set up the runner of a worker process; Ctrl-C is left to the parent, which ends its workers."""
    global _worker_runner
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    driver = multiprocessing.parent_process()
    if driver is not None and driver.pid is not None:
        end_with_driver(driver.pid)
    _worker_runner = TaskRunner(splits.load(), folder)


def _run_in_worker(task: AgreementTask) -> str | None:
    """Run a task in a worker; return the message of an error, because not every error can be pickled."""
    if _worker_runner is None:
        raise RuntimeError("a task was sent to a process that is no worker")
    try:
        _worker_runner.run(task)
    except TruerankError as error:
        return str(error)
    return None


@dataclass(frozen=True)
class AgreementJob(Job):
    """Job of an engine: runs tasks with a runner that each worker process sets up once.

    Parameters
    ----------
    splits : the data of all scenarios, in a file of this run
    folder : where results are kept, the same for all workers
    digest : of the data
    """

    splits: SealedPickle
    folder: str
    digest: str

    @property
    def key(self) -> str:
        """What the runner depends on."""
        return f"agreement {self.digest} {self.folder}"

    @property
    def is_thread_safe(self) -> bool:
        """CPU seconds of tasks are measured per process, so tasks of a process run one at a time."""
        return False

    def open(self) -> TaskRunner:
        """Set up the runner."""
        return TaskRunner(self.splits.load(), Path(self.folder))

    def run(self, state: TaskRunner, task: EngineTask) -> bytes:
        """Run a task; its result is kept in the folder, so nothing has to be sent back."""
        state.run(task.payload)
        return b"made"


class _OneTaskProgress:
    """Progress whose jobs all advance the same task."""

    def __init__(self, task: ProgressTask) -> None:
        self._task = task

    def task(self, label: str, total: int | None = None) -> ProgressTask:
        return self._task

    def done(self, task: ProgressTask) -> None:
        pass


def run_tasks_on(
    engine: Engine, runner: TaskRunner, tasks: Sequence[AgreementTask], progress: ProgressTask
) -> None:
    """Run the tasks that are not done on an engine, and advance the progress by the cost of each.

    Parameters
    ----------
    engine : where they run
    runner : with a folder that all workers can read and write
    tasks : in the order in which they are started; none of them depends on another one
    progress : where progress is reported

    Raises
    ------
    JobFailed
        When workers are lost, or when their results are not in the folder.
    """
    missing = [task for task in tasks if not runner.is_done(task)]
    if not missing:
        return
    if runner.folder is None:
        raise InvalidParameter(
            "an engine needs a folder for finished tasks that all its workers can read and write, got none. "
            "Name a folder."
        )
    folder = runner.folder.resolve()
    digest = "-".join(sorted(set(runner.digests.values())))
    with _sealed_splits(runner, folder) as splits:
        engine_tasks = [
            EngineTask(f"{number:06d} {runner.key_of(task)[:80]}", task, task.cost)
            for number, task in enumerate(missing)
        ]
        job = AgreementJob(splits, str(folder), digest)
        engine.map(job, engine_tasks, progress=_OneTaskProgress(progress))
    lost = [task for task in missing if not runner.is_done(task)]
    if lost:
        raise JobFailed(
            f"workers must write their results to '{folder}', but those of {len(lost)} of {len(missing)} "
            "tasks are not there. Name a folder that all machines share with keep."
        )
