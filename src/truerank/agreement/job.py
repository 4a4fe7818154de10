"""Pieces as tasks of an engine: workers of a cluster make them and leave them in the folder of all."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from truerank.agreement.piece import Piece
from truerank.agreement.workshop import Workshop
from truerank.cluster.place import read_bytes, write_bytes
from truerank.core.engine import Engine, Job
from truerank.core.engine import Task as Piecework
from truerank.core.errors import InvalidParameter, JobFailed
from truerank.core.progress import Task


@dataclass(frozen=True)
class PieceJob(Job):
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

    def open(self) -> Workshop:
        """Open the workshop."""
        splits = pickle.loads(read_bytes(self.splits))  # noqa: S301 - written by our own driver
        return Workshop(splits, Path(self.folder))

    def run(self, state: Workshop, task: Piecework) -> bytes:
        """Make a piece; it is kept in the folder, and nothing has to come back."""
        state.make(task.payload)
        return b"made"


class _Into:
    """A progress whose jobs all advance one task."""

    def __init__(self, task: Task) -> None:
        self._task = task

    def task(self, label: str, total: int | None = None) -> Task:
        return self._task

    def done(self, task: Task) -> None:
        pass


def make_on(engine: Engine, workshop: Workshop, pieces: Sequence[Piece], task: Task) -> None:
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
        engine.map(PieceJob(str(splits), str(folder), digest), tasks, progress=_Into(task))
    finally:
        splits.unlink(missing_ok=True)
    lost = [piece for piece in missing if not workshop.has(piece)]
    if lost:
        raise JobFailed(
            f"workers must leave what they finish in '{folder}', but {len(lost)} of {len(missing)} pieces "
            "are not there. Name a folder that all machines share (--keep, keep= in Python)."
        )


def _pickled(workshop: Workshop) -> bytes:
    try:
        return pickle.dumps(workshop.splits, protocol=5)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise InvalidParameter(
            f"scenarios must be picklable to be sent to workers, but they are not ({error}). "
            "Use functions and classes that a module holds."
        ) from None
