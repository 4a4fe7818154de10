"""Partials as bytes."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from truerank.core.checkpoint import machine_code
from truerank.core.errors import MissingDependency
from truerank.distributed.storage import PartialResult, list_names, parquet_files, work_folder, write_bytes

integers = st.integers(-(2**63), 2**63 - 1)


@given(st.lists(integers, max_size=20), st.integers(0, 9))
def test_round_trip(values: list[int], constant: int) -> None:
    arrays = {
        "a": np.array(values, np.int64),
        "b": np.full(len(values), constant),
        "c": np.array([0.1, 2e300]),
    }
    partial = PartialResult(arrays, {"n": 3, "text": "ä\n"})
    found = PartialResult.unpack(partial.pack())
    assert found.facts == partial.facts
    for name, array in arrays.items():
        np.testing.assert_array_equal(found.arrays[name], array, strict=True)
    assert found.pack() == partial.pack()


def test_small_numbers_take_little_room() -> None:
    """100,000 ranks below 200 with constant pools: one byte each."""
    arrays = {"n_above": np.arange(100_000) % 200, "n_pool": np.full(100_000, 10**7)}
    assert len(PartialResult(arrays).pack()) < 100_500


def test_hidden_parts_are_not_data(tmp_path: Path) -> None:
    """A killed writer leaves them; a pattern that names them does mean them."""
    for name in ("a.parquet", ".truerank-1.parquet", "_temporary/b.parquet", "_day=1/c.parquet"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"PAR1")
    for folder in (str(tmp_path), f"file://{tmp_path}"):
        assert [Path(file).name for file in parquet_files(folder)] == ["c.parquet", "a.parquet"]


def test_a_store_whose_library_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    with pytest.raises(MissingDependency, match=r"^reading 'gs://a/b' needs gcsfs\. .*: pip install gcsfs$"):
        list_names("gs://a/b")


def test_urls_of_files_are_written_in_one_step(tmp_path: Path) -> None:
    """A killed or failing writer leaves what was there."""
    place = tmp_path / "new" / "a.json"
    for data in (b"one", b"two"):
        write_bytes(f"file://{place}", data)
        assert place.read_bytes() == data
    assert list_names(f"file://{place.parent}") == ["a.json"]


@pytest.mark.parametrize("pattern", ["", "truerank-0a/", "truerank-0a/gathered-000001/"])
def test_temporary_files_of_a_killed_run_leave_the_work_folder(tmp_path: Path, pattern: str) -> None:
    stray = tmp_path / pattern / f".truerank-{machine_code()}-{'0' * 16}.parquet"
    stray.parent.mkdir(parents=True, exist_ok=True)
    stray.write_bytes(b"PAR1")
    with work_folder(tmp_path):
        assert not stray.exists()
