"""Writing the file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.report.results import make_result
from truerank.core.errors import InvalidParameter
from truerank.report import check_report_path, render_report, write_report


def test_replaces_what_was_there(tmp_path: Path) -> None:
    """The file holds the rendered page and nothing else is left in the folder."""
    path = tmp_path / "out.html"
    path.write_text("old")
    write_report(make_result(), path)
    assert path.read_text(encoding="utf-8") == render_report(make_result())
    assert list(tmp_path.iterdir()) == [path]


def test_respects_umask(tmp_path: Path) -> None:
    """Others may read the report when the umask lets them."""
    old = os.umask(0o022)
    try:
        write_report(make_result(), tmp_path / "out.html")
    finally:
        os.umask(old)
    assert (tmp_path / "out.html").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("none/out.html", "needs an existing folder"),
        (".", "must be a file"),
        ("x" * 300 + ".html", "File name too long"),
    ],
)
def test_says_what_is_wrong_with_a_path(tmp_path: Path, name: str, sentence: str) -> None:
    """One sentence, from the check before the work as well as from the writer, and no file."""
    for act in (check_report_path, lambda path: write_report(make_result(), path)):
        with pytest.raises(InvalidParameter, match=sentence):
            act(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_refuses_a_device() -> None:
    """A device must not be replaced by a file."""
    with pytest.raises(InvalidParameter, match="must be a file"):
        check_report_path(Path(os.devnull))


def test_failure_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the last step fails the old file stays and the new one is gone."""
    path = tmp_path / "out.html"
    path.write_text("old")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(InvalidParameter, match="No space left"):
        write_report(make_result(), path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_lone_surrogates_are_written(tmp_path: Path) -> None:
    """A name that UTF-8 cannot hold does not stop the report."""
    write_report(make_result(name="bad\udc80name"), tmp_path / "out.html")
    assert "bad?name" in (tmp_path / "out.html").read_text(encoding="utf-8")
