"""Progress bars drawn by rich, in a terminal or in a notebook.

A display appears when the first job is announced and is taken away when the last one is done. In a notebook
the same bars are sent as HTML to one output that is replaced, which needs no widgets.
"""

from __future__ import annotations

import importlib
import io
import sys
import threading
import time
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Column
from rich.text import Text

from truerank.core.progress import SILENT, ProgressTask
from truerank.core.progress import Progress as ProgressDisplay

_NARROW, _SHORT_BAR = 100, 16  # below so many columns bars are short
_SECONDS = 0.1  # between two pictures in a notebook
_HTML = '<pre style="margin: 0; line-height: normal; font-family: monospace">{code}</pre>'


class _Remaining(TimeRemainingColumn):
    """The time that is left by the steps so far, unless the job itself says in its note what is left."""

    def render(self, task: Task) -> Text:
        return Text("") if str(task.fields.get("note", "")).endswith(" left") else super().render(task)


class Bars:
    """The progress of jobs as bars in a terminal; may be used from several threads.

    Parameters
    ----------
    console : where they are drawn
    """

    def __init__(self, console: Console) -> None:
        self.bars = Progress(
            SpinnerColumn("dots" if console.encoding.startswith("utf") else "line"),
            TextColumn("{task.description}", markup=False),
            BarColumn(_SHORT_BAR if console.width < _NARROW else 40),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            _Remaining(),
            TextColumn("{task.fields[note]}", markup=False, table_column=Column(overflow="fold")),
            console=console,
            transient=True,
        )
        self.n_open = 0
        self.lock = threading.RLock()

    def task(self, label: str, total: int | None = None) -> ProgressTask:
        """Open a job of ``total`` steps (None: unknown)."""
        with self.lock:
            self.n_open += 1
            bar = _Bar(self, self.bars.add_task(label, total=total, note=""))
            self.show()
        return bar

    def done(self, task: ProgressTask) -> None:
        """Close a job."""
        if isinstance(task, _Bar):
            with self.lock:
                self.bars.remove_task(task.task)
                self.n_open -= 1
                if self.n_open == 0:
                    self.close()

    def show(self) -> None:
        """Draw what there is; called after every change."""
        self.bars.start()

    def close(self) -> None:
        """Take the display away."""
        self.bars.stop()


class NotebookBars(Bars):
    """The same bars as HTML in a notebook."""

    def __init__(self) -> None:
        super().__init__(Console(file=io.StringIO(), record=True, width=100, force_jupyter=False))
        self.handle: Any = None
        self.shown_at = 0.0

    def show(self) -> None:
        """Send a picture of the bars, unless one was sent just now."""
        with self.lock:
            now = time.monotonic()
            if self.handle is not None and now - self.shown_at < _SECONDS:
                return
            self.shown_at = now
            self.bars.console.print(self.bars.get_renderable())
            self._send(self.bars.console.export_html(inline_styles=True, code_format=_HTML))

    def close(self) -> None:
        """Leave the output empty, for the next job."""
        self._send("")

    def _send(self, page: str) -> None:
        shell: Any = importlib.import_module("IPython.display")
        if self.handle is None:
            self.handle = shell.display(shell.HTML(page), display_id=True)
        else:
            self.handle.update(shell.HTML(page))


class _Bar:
    def __init__(self, owner: Bars, task: TaskID) -> None:
        self.owner, self.task = owner, task

    def advance(self, steps: int = 1) -> None:
        self.owner.bars.advance(self.task, steps)
        self.owner.show()

    def note(self, text: str) -> None:
        self.owner.bars.update(self.task, note=text)


def progress_bars() -> ProgressDisplay:
    """Return bars for the notebook or terminal that this process runs in; without either, what is silent."""
    if in_notebook():
        return NotebookBars()
    console = Console(stderr=True)
    return Bars(console) if console.is_terminal else SILENT


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"
