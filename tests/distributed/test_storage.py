"""Partials as bytes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from truerank.distributed.storage import PartialResult, parquet_files

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
