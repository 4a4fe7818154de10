"""Many pieces, one after the other or in several processes; what is finished survives any end."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from types import FrameType

from truerank.agreement.piece import Piece
from truerank.agreement.scenario import Scenario
from truerank.agreement.workshop import Workshop
from truerank.core.errors import InvalidParameter, NotConverged, TruerankError
from truerank.core.progress import Task
from truerank.core.split import Split

_workshop: Workshop | None = None  # of a worker process


def make_all(workshop: Workshop, pieces: Sequence[Piece], workers: int, task: Task) -> None:
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


def _make_in_processes(workshop: Workshop, pieces: Sequence[Piece], workers: int, task: Task) -> None:
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
    _workshop = Workshop(splits, folder)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _make(piece: Piece) -> str | None:
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
