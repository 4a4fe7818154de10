"""Interactions from what is in memory."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.sparse import coo_array, csr_array, csr_matrix

from truerank.core.errors import InvalidData
from truerank.data.read import from_arrays, from_csr, from_frame

COLUMNS: dict[str, list[Any]] = {
    "user_id": ["b", "a", "b"],
    "item_id": [3, 3, 1],
    "rating": [4.0, 5.0, 1.0],
    "timestamp": [3, 1, 2],
    "part": ["x", "y", "x"],
}


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pl.LazyFrame, pa.table])
def test_every_frame_gives_the_same(make: Any) -> None:
    events = from_frame(make(COLUMNS), keep=["part"])
    assert events.user.tolist() == [1, 0, 1]
    assert events.item.tolist() == [1, 1, 0]
    assert events.value is not None and events.value.tolist() == [4.0, 5.0, 1.0]
    assert events.time is not None and events.time.tolist() == [3, 1, 2]
    assert events.labels["part"].tolist() == ["x", "y", "x"]


def test_pandas_without_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> None:
        raise ImportError

    monkeypatch.setattr(nw.Series, "to_polars", refuse)
    events = from_frame(pd.DataFrame(COLUMNS))
    assert events.user.tolist() == [1, 0, 1]
    with pytest.raises(InvalidData, match="ids must not be missing, but 1 of 2"):
        from_frame(pd.DataFrame({"user": ["a", None], "item": [1, 2]}))


def test_pandas_missing_and_dates() -> None:
    frame = pd.DataFrame(
        {"user": [1, 2], "item": [1, 2], "date": pd.to_datetime(["1970-01-01 00:00:05", None])}
    )
    with pytest.raises(InvalidData, match="times must not be missing, but 1 of 2"):
        from_frame(frame)
    time = from_frame(frame.head(1)).time
    assert time is not None and time.tolist() == [5]


def test_not_a_frame() -> None:
    with pytest.raises(InvalidData, match=r"a frame must be a pandas, polars or pyarrow table, got list"):
        from_frame([1, 2])


def test_arrays() -> None:
    events = from_arrays(np.array([2, 1]), ["x", "y"], ratings=[1, 2], name="mine")
    assert (events.user.tolist(), events.items.ids.to_list(), events.name) == ([1, 0], ["x", "y"], "mine")
    with pytest.raises(InvalidData, match=r"all sequences must be equally long, got user 2, item 1"):
        from_arrays([1, 2], [1])
    with pytest.raises(InvalidData, match="must hold at least one event"):
        from_arrays([], [])


@pytest.mark.parametrize("make", [csr_array, csr_matrix, coo_array])
def test_csr(make: Any) -> None:
    matrix = make(
        (np.array([2.0, 0.0, 1.0, 3.0]), (np.array([0, 1, 2, 2]), np.array([1, 0, 0, 0]))), shape=(4, 3)
    )
    events = from_csr(matrix)
    assert (events.n_users, events.n_items) == (4, 3)
    assert events.user.tolist() == [0, 2]
    assert events.value is not None and events.value.tolist() == [2.0, 4.0]
    assert events.origin["zero_entries"] == 1


def test_ones_are_no_ratings() -> None:
    assert from_csr(csr_array(np.eye(3))).value is None
    with pytest.raises(InvalidData, match="must be a scipy sparse matrix, got ndarray"):
        from_csr(np.eye(3))


def test_import_is_light() -> None:
    """Reading needs polars, but neither pandas nor pyarrow."""
    code = (
        "import sys, truerank.data; print(sorted({'pandas', 'pyarrow', 'torch', 'pooch'} & set(sys.modules)))"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"
