"""``progress=True``: bars in a terminal, pictures of bars in a notebook, nothing elsewhere."""

from __future__ import annotations

import io
import sys
import types
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import truerank
from truerank.core import progress_bars
from truerank.core.interactions import Interactions
from truerank.core.progress import SILENT, as_progress, note, tracked
from truerank.core.progress_bars import Bars, NotebookBars
from truerank.core.split import Split


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """Stand for a terminal."""
    found = io.StringIO()
    console = Console(file=found, force_terminal=True, width=120, color_system=None)
    monkeypatch.setattr(progress_bars, "Console", lambda **_: console)
    return found


class Handle:
    """An output of a notebook that can be replaced."""

    def __init__(self, pages: list[str]) -> None:
        self.pages = pages

    def update(self, page: str) -> None:
        self.pages.append(page)


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Stand for the kernel of a notebook, and return what it was sent."""
    sent: list[str] = []

    def display(page: str, display_id: bool) -> Handle:
        assert display_id
        sent.append(page)
        return Handle(sent)

    shell = type("ZMQInteractiveShell", (), {})()
    package: Any = types.ModuleType("IPython")
    package.get_ipython = lambda: shell
    package.display = types.SimpleNamespace(display=display, HTML=str)
    monkeypatch.setitem(sys.modules, "IPython", package)
    monkeypatch.setitem(sys.modules, "IPython.display", package.display)
    monkeypatch.setattr(progress_bars, "_SECONDS", 0.0)
    return sent


def split() -> Split:
    train = Interactions.from_codes([0, 0, 1, 2], [0, 1, 1, 1], n_users=3, n_items=3)
    return Split(train, Interactions.from_codes([1, 2], [0, 2], n_users=3, n_items=3))


def test_booleans_and_objects() -> None:
    mine = Bars(Console(file=io.StringIO()))
    assert as_progress(False) is SILENT
    assert as_progress(mine) is mine


def test_without_terminal_and_notebook_nothing_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert as_progress(True) is SILENT
    truerank.evaluate("popularity", split(), "mrr", progress=True)
    assert capsys.readouterr() == ("", "")


def test_bars_in_a_terminal(screen: io.StringIO) -> None:
    progress = as_progress(True)
    assert isinstance(progress, Bars)
    for _ in range(2):  # the display comes back after it was taken away
        screen.truncate(0)
        with tracked(progress, "ranking [all]", 3) as task, tracked(progress, "inner"):
            task.advance(2)
            note(task, "loss [0.5]")
            progress.bars.refresh()
            assert "ranking [all]" in screen.getvalue()
            assert "2/3" in screen.getvalue()
            assert "loss [0.5]" in screen.getvalue()
        assert progress.n_open == 0
        assert not progress.bars.live.is_started


def test_evaluate_shows_them(screen: io.StringIO) -> None:
    truerank.evaluate("popularity", split(), "mrr", progress=True)
    assert "ranking" in screen.getvalue()


def test_pictures_in_a_notebook(pages: list[str]) -> None:
    progress = as_progress(True)
    assert isinstance(progress, NotebookBars)
    with tracked(progress, "<ranking>", 4) as task:
        task.advance(1)
        task.advance(2)
    assert pages[-1] == "", "the output is empty when all is done"
    assert all(page.startswith("<pre") and "&lt;ranking&gt;" in page for page in pages[:-1])
    assert ["0/4" in pages[0], "1/4" in pages[1], "3/4" in pages[2]] == [True] * 3
    scores = np.random.default_rng(0).random((3, 3))
    before = len(pages)
    truerank.exact_ranks(scores, split(), progress=True)
    assert any("ranking" in page for page in pages[before:])


def test_pictures_are_not_sent_too_often(pages: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_bars, "_SECONDS", 1e9)
    with tracked(as_progress(True), "ranking", 1000) as task:
        for _ in range(1000):
            task.advance()
    assert len(pages) == 2


def test_an_error_takes_the_display_away(pages: list[str]) -> None:
    with pytest.raises(ZeroDivisionError), tracked(as_progress(True), "job", 3):
        1 / 0  # noqa: B018
    assert pages[-1] == ""


@pytest.mark.parametrize(
    "name",
    [
        "agreement",
        "bounds",
        "compare",
        "estimate",
        "evaluate",
        "exact_ranks",
        "load",
        "plan",
        "read_interactions",
        "sampled_ranks",
        "study",
        "subsample",
    ],
)
def test_every_long_function_takes_true(name: str) -> None:
    import inspect

    assert (
        str(inspect.signature(getattr(truerank, name)).parameters["progress"].annotation) == "Progress | bool"
    )


def test_a_long_note_is_readable_on_eighty_columns() -> None:
    """Nothing is cut off, and only one forecast of what is left is shown."""
    bars = Bars(Console(file=io.StringIO(), width=80))
    told = "12,345 scores, +-0.012, 3 min 20 s, 15.12 usd left"
    bars.bars.add_task("deciding users", total=6040, completed=4805, note=told)
    bars.bars.add_task("epochs", total=20, completed=5, note="loss 0.12")
    shown = Console(file=io.StringIO(), width=80)
    shown.print(bars.bars.get_renderable())
    text = " ".join(shown.file.getvalue().split())  # type: ignore[attr-defined]
    for word in ("4805/6040", "12,345 scores,", "3 min 20 s,", "15.12 usd left", "5/20", "loss 0.12"):
        assert word in text
    assert "…" not in text
    assert text.count("-:--:--") == 1  # of the job whose note does not say it
