"""The interface through which long jobs report progress; the library is silent unless it is asked.

``COMPILATION`` tells when inner loops are compiled, which takes seconds in the first run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, runtime_checkable


class ProgressTask(Protocol):
    """One running job."""

    def advance(self, steps: int = 1) -> None:
        """Report finished steps; safe to call from threads."""


@runtime_checkable
class NotedTask(ProgressTask, Protocol):
    """A job that can show a short text, such as the current loss."""

    def note(self, text: str) -> None:
        """Show ``text`` beside the job, in place of what stood there."""


class Progress(Protocol):
    """Where jobs announce themselves: nowhere (`SILENT`), as bars (`progress_bars`), or at your object."""

    def task(self, label: str, total: int | None = None) -> ProgressTask:
        """Open a job of ``total`` steps (None: unknown)."""

    def done(self, task: ProgressTask) -> None:
        """Close a job."""


class _SilentTask:
    def advance(self, steps: int = 1) -> None:
        pass


class _Silent:
    def task(self, label: str, total: int | None = None) -> ProgressTask:
        return _SilentTask()

    def done(self, task: ProgressTask) -> None:
        pass


SILENT: Progress = _Silent()
SILENT_TASK: ProgressTask = _SilentTask()


def as_progress(progress: Progress | bool) -> Progress:
    """Return where jobs report: True shows bars in a terminal or a notebook, False nothing.

    Examples
    --------
    >>> as_progress(False) is SILENT and as_progress(SILENT) is SILENT
    True
    """
    if not isinstance(progress, bool):
        return progress
    if not progress:
        return SILENT
    from truerank.core.progress_bars import progress_bars

    return progress_bars()


def note(task: ProgressTask, text: str) -> None:
    """Show a short text beside a job, where the display can do that."""
    if isinstance(task, NotedTask):
        task.note(text)


class Compilation:
    """What is known about the compilation of inner loops in this process.

    Attributes
    ----------
    tell : called before each compilation, if there is anybody to be told
    is_kept : whether compiled code is kept for the next process
    seconds : spent so far
    """

    def __init__(self) -> None:
        self.tell: Callable[[], None] | None = None
        self.is_kept = True
        self.seconds = 0.0
        self._depth = 0
        self._started = 0.0

    def start(self) -> None:
        """Count a compilation that begins, perhaps within another one."""
        if self._depth == 0:
            self._started = time.perf_counter()
            if self.tell is not None:
                self.tell()
        self._depth += 1

    def end(self) -> None:
        """Count a compilation that has ended."""
        self._depth -= 1
        if self._depth == 0:
            self.seconds += time.perf_counter() - self._started


COMPILATION = Compilation()


@contextmanager
def tracked(progress: Progress, label: str, total: int | None = None) -> Iterator[ProgressTask]:
    """Open a job for the length of a ``with`` block."""
    task = progress.task(label, total)
    try:
        yield task
    finally:
        progress.done(task)
