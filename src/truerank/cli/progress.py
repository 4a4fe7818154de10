"""Progress bars on stderr, only when it is a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as RichProgress

from truerank.core.progress import SILENT, Progress, Task


class _Bar:
    def __init__(self, bars: RichProgress, task: TaskID) -> None:
        self.bars, self.task = bars, task

    def advance(self, steps: int = 1) -> None:
        self.bars.advance(self.task, steps)

    def note(self, text: str) -> None:
        self.bars.update(self.task, note=text)


class _Bars:
    """The progress protocol of core, drawn by rich."""

    def __init__(self, bars: RichProgress) -> None:
        self.bars = bars

    def task(self, label: str, total: int | None = None) -> Task:
        return _Bar(self.bars, self.bars.add_task(label, total=total, note=""))

    def done(self, task: Task) -> None:
        if isinstance(task, _Bar):
            self.bars.remove_task(task.task)


@contextmanager
def shown_progress() -> Iterator[Progress]:
    """Show jobs while the block runs; silent when stderr is not a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield SILENT
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}", markup=False),
    )
    with RichProgress(*columns, console=console, transient=True) as bars:
        yield _Bars(bars)
