"""Files are written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from truerank.core.checkpoint import check_output, replace_file, replace_text
from truerank.core.errors import InvalidParameter


def test_replaces_what_was_there(tmp_path: Path) -> None:
    """The file holds the text and nothing else is left in the folder."""
    path = tmp_path / "out.html"
    path.write_text("old")
    replace_text(path, "new", "the report")
    assert path.read_text(encoding="utf-8") == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_respects_umask(tmp_path: Path) -> None:
    """Others may read the file when the umask lets them."""
    old = os.umask(0o022)
    try:
        replace_text(tmp_path / "out.html", "new", "the report")
    finally:
        os.umask(old)
    assert (tmp_path / "out.html").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("none/out.html", "the report needs an existing folder"),
        (".", "the report must be a file"),
        ("x" * 300 + ".html", "File name too long"),
    ],
)
def test_says_what_is_wrong_with_a_path(tmp_path: Path, name: str, sentence: str) -> None:
    """One sentence, from the check before the work as well as from the writer, and no file."""
    for act in (check_output, lambda path, what: replace_text(path, "new", what)):
        with pytest.raises(InvalidParameter, match=sentence):
            act(tmp_path / name, "the report")
    assert list(tmp_path.iterdir()) == []


def test_refuses_a_device() -> None:
    """A device must not be replaced by a file."""
    with pytest.raises(InvalidParameter, match="must be a file"):
        check_output(Path(os.devnull), "the report")


def test_failure_keeps_the_old_file(tmp_path: Path) -> None:
    """When writing fails the old file stays and the new one is gone."""
    path = tmp_path / "out.html"
    path.write_text("old")

    def fail(part: Path) -> None:
        part.write_text("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(InvalidParameter, match="No space left"):
        replace_file(path, fail, "the report")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_lone_surrogates_are_written(tmp_path: Path) -> None:
    """A name that UTF-8 cannot hold does not stop the writing."""
    replace_text(tmp_path / "out.html", "bad\udc80name", "the report")
    assert (tmp_path / "out.html").read_text(encoding="utf-8") == "bad?name"
