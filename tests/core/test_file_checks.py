"""Damage in files is found before polars reads them: pages of Parquet files, and ends of cells."""

from __future__ import annotations

import gzip
import io
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from truerank.core.errors import InvalidData
from truerank.core.file_checks import cells
from truerank.core.file_checks.cells import check_cells
from truerank.core.file_checks.parquet import check_parquet
from truerank.data.read import read_interactions
from truerank.ranking.files import read_rank_files


def packed(frame: pl.DataFrame, **options: Any) -> bytes:
    stream = io.BytesIO()
    frame.write_parquet(stream, **options)
    return stream.getvalue()


EVENTS = pl.DataFrame({"user": [f"u{n % 40}" for n in range(120)], "item": [n % 30 for n in range(120)]})


@pytest.mark.parametrize("compression", ["zstd", "snappy", "gzip", "lz4", "uncompressed"])
@pytest.mark.parametrize(
    "options", [{}, {"row_group_size": 7}, {"data_page_size": 64}, {"statistics": False}]
)
def test_whole_files_pass(compression: str, options: dict[str, Any], tmp_path: Path) -> None:
    lists = pl.DataFrame({"a": [[1, None], [], None, [3]], "b": [{"x": 1.5}, None, {"x": None}, {"x": 2.0}]})
    nothing = pl.DataFrame({"a": pl.Series([], dtype=pl.Int64)})
    for frame in (EVENTS, lists, nothing, pl.DataFrame({"a": [None] * 9, "b": [True, False, None] * 3})):
        data = packed(frame, compression=compression, **options)
        check_parquet(data)
        (tmp_path / "a.parquet").write_bytes(data)
        check_parquet(tmp_path / "a.parquet")


def test_whole_files_of_another_writer_pass(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    for version in ("1.0", "2.0"):
        for checksums in (False, True):
            path = tmp_path / "a.parquet"
            pq.write_table(EVENTS.to_arrow(), path, data_page_version=version, write_page_checksum=checksums)
            check_parquet(path)
            assert len(read_interactions(path, duplicates="keep")) == 120


def pages_changed() -> list[bytes]:
    """Return files of which the head of one data page names -120 or 7,992 values instead of 120."""
    whole = packed(EVENTS, compression="uncompressed")
    names_120 = b"\x15\xf0\x01"  # a field of 32 bits, in zigzag form
    found = []
    at = whole.find(names_120)
    while at >= 0:
        for other in (b"\x15\xef\x01", b"\x15\xf0\x7c"):
            found.append(whole[:at] + other + whole[at + 3 :])
        at = whole.find(names_120, at + 1)
    assert len(found) >= 4
    return found


@pytest.mark.parametrize("data", pages_changed())
def test_pages_that_cannot_hold_their_values_are_refused(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"a page with (-120|7992) values where at most 120"):
        check_parquet(path)
    with pytest.raises(InvalidData, match=r"must be a complete parquet file.* values where at most"):
        read_interactions(path)
    with pytest.raises(InvalidData, match=r"must be a complete table.* values where at most"):
        read_rank_files([path])


@pytest.mark.parametrize("data", [b"", b"PAR1PAR1", b"PAR1" + bytes(20) + b"PAR1", b"user,item\n1,2\n" * 9])
def test_what_is_no_parquet_file_is_left_to_the_reader(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(data)
    check_parquet(tmp_path / "a.parquet")
    check_parquet(tmp_path / "none.parquet")


def test_any_damage_is_refused_or_left() -> None:
    whole = packed(EVENTS, compression="snappy")
    for at in range(len(whole)):
        for bit in (1, 128):
            data = bytearray(whole)
            data[at] ^= bit
            try:
                check_parquet(bytes(data))
            except ValueError as error:
                assert "values" in str(error) or "bytes" in str(error)


@pytest.mark.parametrize(
    ("text", "is_lost"),
    [
        ("a,b\r\nc,d\r\n", False),
        ("a\rx,b\n\rc,d\n", False),
        ("a\r,b\n", True),
        ('"a\r",b\n', False),
        ('"x\r,y",b\n', False),
        ('"x\r,y",b\r,c\n', True),
        ('"x""\r,y",b\n', False),
    ],
)
@pytest.mark.parametrize("chunk", [1, 2, 3, 1 << 20])
def test_carriage_returns(
    text: str, is_lost: bool, chunk: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cells, "_CHUNK", chunk)
    (tmp_path / "a.csv").write_bytes(text.encode())
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(text.encode()))
    for name in ("a.csv", "a.csv.gz"):
        if is_lost:
            with pytest.raises(ValueError, match="a cell ends with a carriage return"):
                check_cells(tmp_path / name, ",")
        else:
            check_cells(tmp_path / name, ",")


@pytest.mark.parametrize(
    ("suffix", "separator"), [(".csv", ","), (".tsv", "\t"), (".inter", "\t"), (".dat", "|")]
)
def test_no_user_loses_a_carriage_return(suffix: str, separator: str, tmp_path: Path) -> None:
    path = tmp_path / f"a{suffix}"
    rows: list[tuple[str, ...]] = [("user", "item"), ("u1", "1"), ("u1\r", "2")]
    path.write_bytes("".join(separator.join(row) + "\r\n" for row in rows).encode())
    with pytest.raises(InvalidData, match="a cell ends with a carriage return"):
        read_interactions(path)
    if suffix in (".csv", ".tsv"):
        rows = [("user_id", "rank", "n_items"), ("1", "1", "9"), ("1\r", "2", "9")]
        path.write_bytes("".join(separator.join(row) + "\n" for row in rows).encode())
        with pytest.raises(InvalidData, match="a cell ends with a carriage return"):
            read_rank_files([path])
