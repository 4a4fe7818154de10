"""Hostile input: tables of ranks that are damaged or hold odd ids are read rightly or refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from truerank.core.errors import InvalidData
from truerank.ranking.files import read_rank_files, read_sampled_table


def table(folder: Path, **columns: Any) -> Path:
    path = folder / "ranks.parquet"
    pl.DataFrame({"user_id": [1, 2], "rank": [1, 2], "n_items": [100, 100], **columns}).write_parquet(path)
    return path


@pytest.mark.parametrize(
    ("ids", "kept"),
    [
        (["7", "8"], [7, 8]),
        (["7.0", "8.0"], [7, 8]),
        (["007", "7"], ["007", "7"]),
        (["1e3", "1000"], ["1000", "1e3"]),
        (["18446744073709551615", "2"], ["18446744073709551615", "2"]),
        ([str(2**127), "2"], [str(2**127), "2"]),
    ],
)
def test_ids_that_look_like_numbers(tmp_path: Path, ids: list[str], kept: list[Any]) -> None:
    path = tmp_path / "ranks.csv"
    path.write_text("user_id,rank,n_items,n_negatives\n" + "".join(f"{one},1,100,20\n" for one in ids))
    assert read_sampled_table(path).users.ids.to_list() == kept
    assert len(read_rank_files([path])["ranks"]) == 2


def test_one_number_written_twice(tmp_path: Path) -> None:
    path = tmp_path / "ranks.csv"
    path.write_text("user_id,rank,n_items\n5,1,100\n5.0,1,100\n")
    with pytest.raises(InvalidData, match=r"in one way, but '5' and '5.0' in user_id of .* are"):
        read_rank_files([path])


@pytest.mark.parametrize("kind", [pl.UInt64, pl.Int128])
def test_wide_ids_of_parquet(tmp_path: Path, kind: Any) -> None:
    path = table(tmp_path, user_id=pl.Series([2**64 - 1, 1], dtype=kind))
    assert len(read_rank_files([path])["ranks"]) == 2


@pytest.mark.parametrize("name", ["user_id", "item_id", "model"])
@pytest.mark.parametrize("values", [[[1], [2]], [{"a": 1}, {"a": 2}], [b"\xff", b"a"]])
def test_ids_of_odd_types(tmp_path: Path, name: str, values: list[Any]) -> None:
    with pytest.raises(InvalidData, match=rf"{name} of .* must be integers or text, got"):
        read_rank_files([table(tmp_path, **{name: values})])


def test_gaps_among_numbers(tmp_path: Path) -> None:
    with pytest.raises(InvalidData, match=r"user_id of .* must have no gaps"):
        read_rank_files([table(tmp_path, user_id=[float("nan"), 1.0])])


def test_a_name_that_no_file_can_have() -> None:
    with pytest.raises(InvalidData, match="File name too long"):
        read_rank_files(["x" * 300 + ".csv"])
