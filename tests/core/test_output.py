"""Files are written whole or not at all."""

from __future__ import annotations

import ast
import errno
import os
from pathlib import Path
from typing import BinaryIO

import numpy as np
import polars as pl
import pytest

import truerank
from truerank.core import checkpoint
from truerank.core.checkpoint import (
    _PartFile,
    check_output,
    make_folder,
    replace_bytes,
    replace_file,
    replace_table,
    replace_text,
)
from truerank.core.errors import InvalidParameter

SOURCE = Path(truerank.__file__).parent


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
        ("\ud800.html", r"failed \(no file can have this name\)"),
        ("a\0b.html", r"failed \(no file can have this name\)"),
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

    def fail(part: BinaryIO) -> None:
        part.write(b"half")
        raise OSError(28, "No space left on device")

    with pytest.raises(
        InvalidParameter, match=r"No space left on device\)\. Make room, or choose another path"
    ):
        replace_file(path, fail, "the report")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def full_disk(part: _PartFile, data: bytes) -> int:
    part.failure = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    raise part.failure


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".tsv"])
def test_tables_pass_the_reason_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str) -> None:
    """What polars raises has no reason; the file has."""
    frame = pl.DataFrame({"n": range(100_000)})
    path = tmp_path / f"table{suffix}"
    replace_table(path, frame, "the table")
    before = path.read_bytes()
    monkeypatch.setattr(_PartFile, "write", full_disk)
    with pytest.raises(InvalidParameter, match=r"the table must be .* \(No space left on device\)"):
        replace_table(path, frame, "the table")
    assert [one.read_bytes() for one in tmp_path.iterdir()] == [before]


def test_archives_pass_the_reason_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_PartFile, "write", full_disk)
    with pytest.raises(InvalidParameter, match="No space left on device"):
        replace_file(tmp_path / "a.npz", lambda part: np.savez(part, x=np.arange(100_000)), "the model file")
    assert list(tmp_path.iterdir()) == []


def test_other_errors_of_a_writer_stay(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        replace_file(tmp_path / "a", lambda part: part.write(bytes(1 // 0)), "the report")
    with pytest.raises(KeyboardInterrupt):
        replace_file(tmp_path / "a", interrupted, "the report")
    assert list(tmp_path.iterdir()) == []


def interrupted(part: BinaryIO) -> None:
    part.write(b"half")
    raise KeyboardInterrupt


def test_links_stay(tmp_path: Path) -> None:
    """The file that a link names is replaced, in its own folder; a link to nothing gets a file."""
    there, here = tmp_path / "there", tmp_path / "here"
    there.mkdir()
    here.mkdir()
    (there / "out.txt").write_text("old")
    (here / "link").symlink_to(there / "out.txt")
    (here / "chain").symlink_to("link")
    (here / "open").symlink_to("../there/new.txt")
    for name, target in (("link", "out.txt"), ("chain", "out.txt"), ("open", "new.txt")):
        check_output(here / name, "the report")
        replace_text(here / name, name, "the report")
        assert (here / name).is_symlink() and (there / target).read_text() == name
    assert len(list(here.iterdir())) == 3 and len(list(there.iterdir())) == 2


def test_links_that_lead_nowhere(tmp_path: Path) -> None:
    (tmp_path / "round").symlink_to("round")
    (tmp_path / "lost").symlink_to("none/out.txt")
    for name, sentence in (
        ("round", "Too many levels of symbolic links"),
        ("lost", "needs an existing folder"),
    ):
        with pytest.raises(InvalidParameter, match=sentence):
            replace_text(tmp_path / name, "new", "the report")
        assert (tmp_path / name).is_symlink()


def test_planted_links_are_replaced(tmp_path: Path) -> None:
    """In a folder where others can write, a link must not lead a file elsewhere."""
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "piece").symlink_to("precious")
    replace_bytes(tmp_path / "piece", b"new", "a piece", through_links=False)
    assert (tmp_path / "precious").read_text() == "precious"
    assert not (tmp_path / "piece").is_symlink() and (tmp_path / "piece").read_bytes() == b"new"


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o755])
def test_modes_stay(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "out.html"
    path.write_text("old")
    path.chmod(mode)
    replace_text(path, "new", "the report")
    assert (path.read_text(), path.stat().st_mode & 0o7777) == ("new", mode)


def test_read_only_files_and_folders_stay(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "out.html"
    path.parent.mkdir()
    path.write_text("old")
    path.chmod(0o444)
    if os.access(path, os.W_OK):
        pytest.skip("this user may write what is read-only")
    for act in (check_output, lambda path, what: replace_text(path, "new", what)):
        with pytest.raises(InvalidParameter, match=r"that failed \(Permission denied\)"):
            act(path, "the report")
    path.parent.chmod(0o555)
    with pytest.raises(InvalidParameter, match=r"that failed \(Permission denied\)"):
        check_output(path.parent / "new.html", "the report")
    path.parent.chmod(0o755)
    assert path.read_text() == "old"


def test_folders_that_take_no_file_are_not_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(folder: Path) -> None:
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    monkeypatch.setattr(checkpoint, "_try_folder", refuse)
    with pytest.raises(InvalidParameter, match=r"the pieces must be written to .* \(Disk quota exceeded\)"):
        make_folder(tmp_path / "one" / "two", "the pieces")
    assert list(tmp_path.iterdir()) == []


#: modules that write without ``replace_file``: into memory, to a URL, or as others write
WRITERS = {
    "core/checkpoint.py": {"write_parquet", "write_csv"},
    "distributed/storage.py": {"save"},
    "distributed/partitions.py": {"write_parquet"},
    "distributed/files.py": {"write_parquet"},
}


@pytest.mark.slow
def test_all_files_are_written_in_one_place() -> None:
    """No other module opens a file to write, or hands a path to what writes."""
    found: dict[str, set[str]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            name = writing_call(node)
            if name:
                found.setdefault(path.relative_to(SOURCE).as_posix(), set()).add(name)
    assert found == WRITERS


def writing_call(node: ast.AST) -> str:
    """Return the name of a call that may write a file; ``savez`` and ``savefig`` take streams here."""
    if not isinstance(node, ast.Call):
        return ""
    is_method = isinstance(node.func, ast.Attribute)
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if name in ("open", "fdopen", "NamedTemporaryFile"):
        given = [*node.args, *(one.value for one in node.keywords)]
        modes = [one.value for one in given if isinstance(one, ast.Constant) and isinstance(one.value, str)]
        return name if any(set(mode) <= set("rwaxbt+") and set(mode) & set("wax+") for mode in modes) else ""
    owner = getattr(getattr(node.func, "value", None), "id", "")
    paths = {"write_text", "write_bytes", "touch", "tofile", "write_parquet", "write_csv", "write_ipc"}
    streams = {"save", "savetxt"} if owner in ("np", "torch") else set()
    return name if is_method and name in paths | streams else ""


def test_lone_surrogates_are_written(tmp_path: Path) -> None:
    """A name that UTF-8 cannot hold does not stop the writing."""
    replace_text(tmp_path / "out.html", "bad\udc80name", "the report")
    assert (tmp_path / "out.html").read_text(encoding="utf-8") == "bad?name"
