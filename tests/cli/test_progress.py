"""Progress bars: silent without a terminal, notes beside the bar with one."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from truerank.cli import output as shown
from truerank.core.progress import SILENT, note, tracked


def test_without_a_terminal_nothing_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with shown.shown_progress() as progress, tracked(progress, "job", 3) as task:
        assert progress.inner is SILENT  # type: ignore[attr-defined]
        task.advance()
        note(task, "loss 1")
    assert capsys.readouterr() == ("", "")


def test_a_note_stands_beside_the_bar_and_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=140, color_system=None)
    monkeypatch.setattr(shown, "Console", lambda **_: console)
    with shown.shown_progress() as progress, tracked(progress, "job", 3) as task:
        note(task, "loss [0.5]")  # no markup
        task.advance()
        progress.inner.bars.refresh()  # type: ignore[attr-defined]
        assert "loss [0.5]" in screen.getvalue()
        screen.truncate(0)
        note(task, "loss 0.25, validation 0.1")
        progress.inner.bars.refresh()  # type: ignore[attr-defined]
        assert "loss 0.25, validation 0.1" in screen.getvalue()
        assert "[0.5]" not in screen.getvalue()
