"""Ctrl-C and SIGTERM: what happens between the signal and the exit code, 130 or 143.

``listen`` is called before anything else is loaded. While a command loads, a signal ends the process at once,
because nothing has begun. While it works, the signal raises `KeyboardInterrupt` in the main thread, which
removes what is half-written; training keeps its best epoch, marked, or within ``whole_or_nothing`` nothing.

Python drops an exception that is raised inside a destructor or a callback, and some libraries replace or
swallow it. So a signal is remembered until somebody has answered it: one that was dropped is raised again,
at once or in the next step that a job reports, and no command that has heard one ends with 0.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from contextlib import contextmanager, suppress

TYPE_CHECKING = False  # typing takes longer to load than all the rest, and until then nobody listens
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from types import FrameType
    from typing import Any

    from truerank.core.progress import Progress, ProgressTask

_SENTENCE = "truerank: interrupted."
_PARTS = (".json", ".npz", ".truerank")  # in folders of --keep
_SECONDS = 0.05  # before a dropped interrupt is raised again, outside of what has dropped it


class _Heard:
    """What this process has heard, and what there is to say about its work."""

    def __init__(self, *, is_working: bool = False) -> None:
        self.number = 0  # of the signal
        self.is_working = is_working  # whether a command is running
        self.is_answered = False  # whether somebody has ended early because of the signal, and says so
        self.written: list[str] = []  # files that the command has written
        self.told: Callable[[], str] | None = None  # returns what else has been kept, in a sentence


_heard = _Heard()


def listen() -> None:
    """Let Ctrl-C and SIGTERM end this process in one sentence, unless it was started to ignore them."""
    for name in ("SIGINT", "SIGTERM"):
        number = getattr(signal, name)
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _hear)
    sys.unraisablehook = _raise_again
    atexit.register(_ignore)


def _ignore() -> None:
    """Hear nothing while Python takes itself apart: all is done, and the exit code is known."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


def _hear(number: int, _: FrameType | None) -> None:
    _heard.number, _heard.is_answered = number, False
    if not _heard.is_working:
        os.write(2, f"{_SENTENCE}\n".encode())
        os._exit(exit_code())
    raise KeyboardInterrupt


def _raise_again(dropped: Any) -> None:
    """Send the signal once more where its exception was dropped; print other exceptions as Python does."""
    if not issubclass(dropped.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(dropped)
        return
    later = threading.Timer(_SECONDS, _send_again)
    later.daemon = True
    later.start()


def _send_again() -> None:
    if _heard.is_working and is_dropped():
        os.kill(os.getpid(), _heard.number)


def exit_code() -> int:
    """Return the exit code of an interrupted command: 128 and the number of the signal."""
    return 128 + (_heard.number or signal.SIGINT)


@contextmanager
def working() -> Iterator[None]:
    """Let a signal raise `KeyboardInterrupt` while the block runs, instead of ending the process at once."""
    global _heard
    _heard = _Heard(is_working=True)
    try:
        yield
        sys.stdout.flush()
    finally:
        _heard.is_working = False


def tell_kept(told: Callable[[], str]) -> None:
    """Let the running command say what it has kept, should it be interrupted.

    Parameters
    ----------
    told : returns a sentence; called after the interrupt
    """
    _heard.told = told


def kept_parts(folder: str | Path | None) -> str:
    """Return how many finished parts a folder holds, in a sentence for ``tell_kept``."""
    if folder is None:
        return "Nothing was kept; with --keep FOLDER a later run continues where this one stopped."
    from pathlib import Path

    n_parts = sum(path.suffix in _PARTS for path in Path(folder).rglob("*"))
    parts = "1 finished part is" if n_parts == 1 else f"{n_parts:,} finished parts are"
    return f"{parts} kept in '{folder}'; run the same command again to continue."


def note_written(path: str | Path) -> None:
    """Note a file that the running command has written."""
    _heard.written.append(str(path))


def answer() -> None:
    """Note that somebody has ended early because of the signal and says so: it need not be raised again."""
    _heard.is_answered = True


def is_dropped() -> bool:
    """Whether there was a signal that nobody has answered."""
    return bool(_heard.number) and not _heard.is_answered


def told_scores(path: Path) -> str:
    """Return the sentence for ``tell_kept`` about a file of scores."""
    return f"Scores given so far are kept in '{path}'; run the same command again to continue."


def say_interrupted() -> int:
    """Say that the command was interrupted and what is left of its work, and return the exit code."""
    from truerank.cli.output import say

    _heard.is_working, _heard.is_answered = False, True  # a second signal ends the process at once
    # after an interrupt within an exec of text, of which numba has many, python -m dies of SIGINT in the end,
    # whatever the exit code is; the next exec of text forgets it
    exec("")  # noqa: S102
    written = f"Wrote {', '.join(_heard.written)}." if _heard.written else ""
    kept = _heard.told() if _heard.told is not None else "" if written else "Nothing was kept."
    with suppress(OSError):  # the messages may go where the disk is full
        say(" ".join(part for part in (_SENTENCE, kept, written) if part), always=True)
    return exit_code()


class WatchedProgress:
    """Progress that raises an interrupt which nobody has answered, when a job reports a step.

    Parameters
    ----------
    inner : where jobs are shown
    """

    def __init__(self, inner: Progress) -> None:
        self.inner = inner

    def task(self, label: str, total: int | None = None) -> ProgressTask:
        """Open a job."""
        return _WatchedTask(self.inner.task(label, total))

    def done(self, task: ProgressTask) -> None:
        """Close a job."""
        self.inner.done(task.inner if isinstance(task, _WatchedTask) else task)


class _WatchedTask:
    def __init__(self, inner: ProgressTask) -> None:
        self.inner = inner

    def advance(self, steps: int = 1) -> None:
        self.inner.advance(steps)
        if is_dropped() and threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt

    def note(self, text: str) -> None:
        from truerank.core.progress import note

        note(self.inner, text)
