"""Finished pieces: kept to the digit, computed again when damaged, never half-written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from truerank.core import checkpoint
from truerank.core.checkpoint import Store, remove_parts, replace_file
from truerank.core.errors import DataWarning, InvalidParameter


def boom() -> dict[str, np.ndarray]:
    raise AssertionError("must not be computed again")


def test_values_survive_the_process_to_the_digit(tmp_path: Path) -> None:
    value = {"a": 0.1 + 0.2, "b": [1, None, "x"]}
    Store(tmp_path).value("key one", lambda: value)
    assert Store(tmp_path).value("key one", boom) == value


def test_arrays_survive_with_their_types(tmp_path: Path) -> None:
    arrays: dict[str, np.ndarray] = {
        "x": np.array([1, 2], np.int32),
        "y": np.random.default_rng(0).random((3, 2)),
    }
    Store(tmp_path).arrays("ranks ml-1m", lambda: arrays)
    found = Store(tmp_path).arrays("ranks ml-1m", boom)
    assert sorted(found) == ["x", "y"]
    assert found["x"].dtype == np.int32
    np.testing.assert_array_equal(found["y"], arrays["y"])


def test_keys_that_look_alike_in_a_file_name_do_not_collide(tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert store.value("model(a=1)", lambda: 1) == 1
    assert store.value("model[a=1]", lambda: 2) == 2
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("damage", [b"", b"{", b"PK\x03\x04rubbish", b'{"key": "other", "value": 3}'])
def test_a_damaged_file_is_computed_again(tmp_path: Path, damage: bytes) -> None:
    Store(tmp_path).value("v", lambda: 1)
    Store(tmp_path).arrays("a", lambda: {"x": np.zeros(2)})
    for path in tmp_path.iterdir():
        path.write_bytes(damage)
    fresh = Store(tmp_path)
    with pytest.warns(DataWarning, match=r"v-.*json' is damaged, or of other work, and is computed again"):
        assert fresh.value("v", lambda: 5) == 5
    with pytest.warns(DataWarning, match=r"a-.*npz' is damaged"):
        assert fresh.arrays("a", lambda: {"x": np.ones(2)})["x"].sum() == 2
    assert Store(tmp_path).value("v", boom) == 5


def test_folders_in_the_place_of_kept_files(tmp_path: Path) -> None:
    """An empty one is removed and the result computed again; one that holds something is not touched."""
    empty, full = (Store(tmp_path).path_of(key, ".json") for key in ("empty", "full"))
    assert empty is not None and full is not None
    empty.mkdir()
    full.mkdir()
    (full / "letter.txt").write_text("Dear Sir")
    with pytest.warns(DataWarning, match=r"empty-.*json' is damaged, or of other work"):
        assert Store(tmp_path).value("empty", lambda: 5) == 5
    assert Store(tmp_path).value("empty", boom) == 5
    with pytest.raises(
        InvalidParameter,
        match=r"kept as files, but '.*full-.*json' is a folder that cannot be removed \(.*not empty\). Move",
    ):
        Store(tmp_path).value("full", boom)
    assert (full / "letter.txt").read_text() == "Dear Sir"


def test_files_without_a_digest_are_computed_again(tmp_path: Path) -> None:
    store = Store(tmp_path)
    path = store.path_of("v", ".json")
    assert path is not None
    path.write_text('{"key": "v", "value": 3}')
    with pytest.warns(DataWarning, match="is damaged"):
        assert store.value("v", lambda: 4) == 4


def test_deep_and_odd_files_are_computed_again(tmp_path: Path) -> None:
    for damage in ("[" * 100_000, '{"key": "v"}', "3", '{"key": "v", "value": NaN, "blake2b": 1}'):
        store = Store(tmp_path)
        path = store.path_of("v", ".json")
        assert path is not None
        path.write_text(damage)
        with pytest.warns(DataWarning, match="is damaged"):
            assert store.value("v", lambda: 4) == 4


def test_an_interrupted_piece_leaves_nothing(tmp_path: Path) -> None:
    def interrupted() -> int:
        raise KeyboardInterrupt

    store = Store(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        store.value("v", interrupted)
    assert list(tmp_path.iterdir()) == []
    assert store.value("v", lambda: 1) == 1


def test_without_a_folder_results_stay_in_memory() -> None:
    store = Store()
    assert store.value("v", lambda: [1]) == [1]
    assert store.value("v", boom) == [1]


def test_arrays_that_are_not_held_are_read_again(tmp_path: Path) -> None:
    store = Store(tmp_path)
    first = store.arrays("a", lambda: {"x": np.zeros(2)}, hold=False)
    assert store.arrays("a", boom, hold=False)["x"] is not first["x"]


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(
        InvalidParameter,
        match=r"finished results must be written to '.*file', but that failed \(File exists\)",
    ):
        Store(tmp_path / "file")


def test_temporary_files_of_killed_processes_are_removed(tmp_path: Path) -> None:
    """One that is being written stays, and so do files of another machine and others that look alike."""
    killed = (
        "import os, sys\nfrom pathlib import Path\nfrom truerank.core.checkpoint import replace_file\n"
        "replace_file(Path(sys.argv[1]) / 'a.json', lambda part: os.kill(os.getpid(), 9), 'it')"
    )
    assert subprocess.run([sys.executable, "-c", killed, str(tmp_path)], check=False).returncode == -9
    (stray,) = tmp_path.iterdir()
    other = tmp_path / f".truerank-000000-{'0' * 16}.json"
    for path in (other, tmp_path / ".truerank-mine.json"):
        path.touch()
    seen: list[list[str]] = []
    replace_file(tmp_path / "b.json", lambda part: seen.append(remove_parts(tmp_path)), "it")
    assert seen == [[stray.name]]
    assert {path.name for path in tmp_path.iterdir()} == {other.name, ".truerank-mine.json", "b.json"}
    os.utime(other, (0, 0))
    Store(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {".truerank-mine.json", "b.json"}


def test_a_temporary_file_that_somebody_else_has_locked_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([False, True])
    monkeypatch.setattr(checkpoint, "lock_file", lambda file: next(answers))
    replace_file(tmp_path / "a.txt", lambda part: part.write(b"whole"), "it")
    assert (tmp_path / "a.txt").read_bytes() == b"whole"
