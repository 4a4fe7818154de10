"""Many pieces, one after the other or in several processes; what is finished survives any end.

Pieces as tasks of an engine: workers of a cluster make them and leave them in the folder of all.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import FrameType

from truerank.core.errors import InvalidParameter, JobFailed, NotConverged, TruerankError
from truerank.core.progress import ProgressTask
from truerank.core.split import Split
from truerank.distributed.engine import Engine, Job
from truerank.distributed.engine import EngineTask as Piecework
from truerank.distributed.storage import read_bytes, write_bytes
from truerank.workflows.agreement.scenarios import Scenario
from truerank.workflows.agreement.tasks import AgreementTask, TaskRunner

_workshop: TaskRunner | None = None  # of a worker process


def run_tasks(
    workshop: TaskRunner, pieces: Sequence[AgreementTask], workers: int, task: ProgressTask
) -> None:
    """Make the pieces that are missing, and advance the task by the cost of each.

    Parameters
    ----------
    workshop : with a folder when there is more than one worker
    pieces : in the order in which they are begun
    workers : processes; 1 works in this one
    task : where progress is reported
    """
    missing = [piece for piece in pieces if not workshop.has(piece)]
    if workers <= 1 or len(missing) <= 1:
        with stopped_at_once():
            for piece in missing:
                workshop.make(piece)
                task.advance(piece.cost)
        return
    if workshop.folder is None:
        raise InvalidParameter("several workers need a folder for what they finish. Name one to keep it in.")
    _make_in_processes(workshop, missing, workers, task)


def _make_in_processes(
    workshop: TaskRunner, pieces: Sequence[AgreementTask], workers: int, task: ProgressTask
) -> None:
    before = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(
        min(workers, len(pieces)),
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_start_worker,
        initargs=(workshop.splits, workshop.folder),
    )
    try:
        waiting = iter(pieces)
        running = {pool.submit(_make, piece): piece for piece in islice(waiting, 2 * workers)}
        while running:
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                sentence = future.result()
                if sentence is not None:
                    raise TruerankError(sentence)
                task.advance(running.pop(future).cost)
                running.update({pool.submit(_make, piece): piece for piece in islice(waiting, 1)})
    except BrokenProcessPool:
        raise NotConverged(
            "a worker process ended before its piece was finished, perhaps for want of memory; what others "
            "finished is kept. Run it again with fewer workers.",
            None,
        ) from None
    except BaseException:
        for child in set(multiprocessing.active_children()) - before:
            child.terminate()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _start_worker(splits: Mapping[Scenario, Split], folder: Path | None) -> None:
    """Make the workshop of this process; Ctrl-C is for the parent, whose end is ours."""
    global _workshop
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _workshop = TaskRunner(splits, folder)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _make(piece: AgreementTask) -> str | None:
    """Make a piece in a worker; return the sentence of an error, since not every error can be sent."""
    if _workshop is None:
        raise RuntimeError("a piece was sent to a process that is no worker")
    try:
        _workshop.make(piece)
    except TruerankError as error:
        return str(error)
    return None


class _Stopped(BaseException):
    """Ctrl-C under a name that no training takes for a wish to keep its best epoch."""


@contextmanager
def stopped_at_once() -> Iterator[None]:
    """Let Ctrl-C end the block at once: a model must not be kept half trained."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        yield
        return

    def stop(_: int, __: FrameType | None) -> None:
        raise _Stopped

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    except _Stopped:
        raise KeyboardInterrupt from None
    finally:
        signal.signal(signal.SIGINT, before)


@dataclass(frozen=True)
class AgreementJob(Job):
    """Make pieces in a workshop that each process opens once.

    Parameters
    ----------
    splits : file with the pickled data of all scenarios
    folder : where pieces are kept, for all workers the same
    digest : of the data
    """

    splits: str
    folder: str
    digest: str

    @property
    def key(self) -> str:
        """What the workshop depends on."""
        return f"agreement {self.digest} {self.folder}"

    @property
    def is_thread_safe(self) -> bool:
        """Pieces tell how many CPU seconds they took: one at a time in a process."""
        return False

    def open(self) -> TaskRunner:
        """Open the workshop."""
        splits = pickle.loads(read_bytes(self.splits))  # noqa: S301 - written by our own driver
        return TaskRunner(splits, Path(self.folder))

    def run(self, state: TaskRunner, task: Piecework) -> bytes:
        """Make a piece; it is kept in the folder, and nothing has to come back."""
        state.make(task.payload)
        return b"made"


class _Into:
    """A progress whose jobs all advance one task."""

    def __init__(self, task: ProgressTask) -> None:
        self._task = task

    def task(self, label: str, total: int | None = None) -> ProgressTask:
        return self._task

    def done(self, task: ProgressTask) -> None:
        pass


def run_tasks_on(
    engine: Engine, workshop: TaskRunner, pieces: Sequence[AgreementTask], task: ProgressTask
) -> None:
    """Make the pieces that are missing on an engine, and advance the task by the cost of each.

    Parameters
    ----------
    engine : where they are made
    workshop : with a folder that all workers can read and write
    pieces : in the order in which they are begun; none of them needs another one
    task : where progress is reported

    Raises
    ------
    JobFailed
        When workers are lost, or when what they made is not in the folder.
    """
    missing = [piece for piece in pieces if not workshop.has(piece)]
    if not missing:
        return
    if workshop.folder is None:
        raise InvalidParameter("an engine needs a folder for what is finished. Name one to keep it in.")
    folder = workshop.folder.resolve()
    digest = "-".join(sorted(set(workshop.digests.values())))
    splits = folder / f"splits-{digest[:60]}.pickle"
    write_bytes(str(splits), _pickled(workshop))
    try:
        tasks = [
            Piecework(f"{number:06d} {workshop.key_of(piece)[:80]}", piece, piece.cost)
            for number, piece in enumerate(missing)
        ]
        engine.map(AgreementJob(str(splits), str(folder), digest), tasks, progress=_Into(task))
    finally:
        splits.unlink(missing_ok=True)
    lost = [piece for piece in missing if not workshop.has(piece)]
    if lost:
        raise JobFailed(
            f"workers must leave what they finish in '{folder}', but {len(lost)} of {len(missing)} pieces "
            "are not there. Name a folder that all machines share (--keep, keep= in Python)."
        )


def _pickled(workshop: TaskRunner) -> bytes:
    try:
        return pickle.dumps(workshop.splits, protocol=5)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise InvalidParameter(
            f"scenarios must be picklable to be sent to workers, but they are not ({error}). "
            "Use functions and classes that a module holds."
        ) from None
