"""Hostile input: damaged, misnamed and odd files are read rightly or refused; tests/fuzz has many more."""

from __future__ import annotations

import gzip
import os
import random
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from truerank.core.checkpoint import polars_path, readable
from truerank.core.errors import InvalidData
from truerank.data.catalogue import open_data
from truerank.data.read import read_interactions

ROWS = [(f"u{n * 7 % 40}", n * 11 % 30, 1 + n % 5, 1000 + n) for n in range(200)]
CSV = "user,item,rating,timestamp\n" + "".join(f"{a},{b},{c},{d}\n" for a, b, c, d in ROWS)
DAT = "".join(f"{a[1:]}::{b}::{c}::{d}\n" for a, b, c, d in ROWS)


def parquet(folder: Path, **columns: Any) -> Path:
    path = folder / "events.parquet"
    pl.DataFrame({"user": [1, 2], "item": [1, 2], **columns}).write_parquet(path)
    return path


@pytest.mark.parametrize("name", ["events.csv.gz", "events.dat.gz"])
def test_every_flipped_byte_of_gzip_is_found(tmp_path: Path, name: str) -> None:
    """Beyond the header, which holds no data, a changed byte is never taken as data."""
    path, rng = tmp_path / name, random.Random(1)
    whole = gzip.compress((CSV if "csv" in name else DAT).encode(), mtime=0)
    for at in rng.sample(range(10, len(whole)), 40):
        changed = bytearray(whole)
        changed[at] ^= 1 << rng.randrange(8)
        path.write_bytes(bytes(changed))
        with pytest.raises(InvalidData, match=r"must be a complete .* file, but it cannot be read"):
            read_interactions(path)


@pytest.mark.parametrize(
    ("values", "kind", "kept"),
    [
        ([2**100, 5], pl.Int128, [str(2**100), "5"]),
        ([7, 5], pl.Int128, [7, 5]),
        ([2**64 - 1, 5], pl.UInt64, [str(2**64 - 1), "5"]),
        (["123456789012345678901", "5"], pl.Decimal(38, 0), ["123456789012345678901", "5"]),
        (["9007199254740993", "5"], pl.Decimal(38, 2), [2**53 + 1, 5]),
    ],
)
def test_wide_ids_are_kept(tmp_path: Path, values: list[Any], kind: Any, kept: list[Any]) -> None:
    read = read_interactions(parquet(tmp_path, user=pl.Series(values).cast(kind)))
    assert read.users.decode(read.user) == kept


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"user": pl.Series([-(2**100), 5], dtype=pl.Int128)}, "ids must be integers >= 0"),
        ({"user": [[1], [2]]}, "ids must be integers or text"),
        ({"rating": [[1.0], [2.0]]}, "ratings must be numbers"),
        ({"rating": pl.Series([2**53 + 1, 5])}, r"whole ratings must be below 2\^53"),
        ({"rating": pl.Series([2**100, 5], dtype=pl.Int128)}, r"whole ratings must be below 2\^53"),
        ({"rating": ["123456789012345678901", "5"]}, r"whole ratings must be below 2\^53"),
        ({"timestamp": [[1], [2]]}, "times must be numbers or dates"),
        ({"timestamp": pl.Series([2**100, 5], dtype=pl.Int128)}, r"whole times must be below 2\^63"),
        ({"timestamp": ["9223372036854775807", "1.5"]}, r"below 2\^53 beside times with a fraction"),
        ({"part": [[1], [2]]}, "labels must be numbers, dates or text"),
        ({"part": [b"\xff", b"a"]}, "labels must be numbers, dates or text"),
    ],
)
def test_odd_columns_are_refused(tmp_path: Path, columns: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidData, match=message):
        read_interactions(parquet(tmp_path, **columns), keep=["part"] if "part" in columns else ())


def test_wide_times_and_labels_are_kept(tmp_path: Path) -> None:
    small = pl.Series([2**50 + 1, 5], dtype=pl.Int128)
    exact = pl.Series(["9007199254740993", "5"]).cast(pl.Decimal(38, 0))
    read = read_interactions(
        parquet(tmp_path, timestamp=small, part=pl.Series([2**110, 5], dtype=pl.Int128)), keep=["part"]
    )
    assert read.time is not None and read.time.tolist() == [2**50 + 1, 5]
    assert read.labels["part"].tolist() == [str(2**110), "5"]
    exactly = read_interactions(parquet(tmp_path, timestamp=exact)).time
    assert exactly is not None and exactly.tolist() == [2**53 + 1, 5]


@pytest.mark.parametrize("name", ["x" * 300 + ".csv", "y" * 300 + "/a.csv", "x" * 5000, "a\x00b.csv"])
def test_names_that_no_file_can_have(name: str) -> None:
    for read in (open_data, read_interactions):
        with pytest.raises(InvalidData, match=r"File name too long|there is no file"):
            read(name)


@pytest.mark.parametrize("name", ["", " "])
def test_an_empty_name_is_not_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    parquet(tmp_path)
    monkeypatch.chdir(tmp_path)
    for read in (open_data, read_interactions):
        with pytest.raises(InvalidData, match=r"data must be named, but the name .*is empty"):
            read(name)


def test_hidden_parts_of_a_killed_writer(tmp_path: Path) -> None:
    parquet(tmp_path)
    whole = (tmp_path / "events.parquet").read_bytes()
    (tmp_path / "_temporary" / "0").mkdir(parents=True)
    (tmp_path / ".truerank-0a1b.parquet").write_bytes(whole[:50])
    (tmp_path / "_temporary" / "0" / "part.parquet").write_bytes(whole)
    assert len(read_interactions(tmp_path, duplicates="keep")) == 2
    (tmp_path / "events.parquet").unlink()
    with pytest.raises(InvalidData, match="is a folder without"):
        read_interactions(tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        "\n\nuser::item\n1::2\n3::4\n",
        "user::item::2020\n1::2::0\n3::4::0\n",
        "user item 5\n1 2 0\n3 4 0\n",
        "\n1::2\n3::4\n",
    ],
)
def test_headers_of_dat_files(tmp_path: Path, text: str) -> None:
    """A header after blank lines, or with a number in it, is no event."""
    path = tmp_path / "ratings.dat"
    path.write_text(text)
    for drop in (False, True):
        read = read_interactions(path, drop_missing=drop)
        assert read.users.decode(read.user) == [1, 3] and read.items.decode(read.item) == [2, 4]


@pytest.mark.parametrize("odd", ["'the' 'item': 'y'", "'item': 'y' 'z'"])
def test_texts_of_dictionaries_are_whole(tmp_path: Path, odd: str) -> None:
    """Python joins texts that stand beside each other, so this key is not item, and this item is not y."""
    path = tmp_path / "reviews.txt"
    path.write_text(f"{{'user': 'a', 'item': 'x'}}\n{{'user': 'b', {odd}}}\n")
    with pytest.raises(InvalidData, match=r"ids must not be missing, but 1 of 2 in column 'item'"):
        read_interactions(path, format="dicts")


def test_what_a_panic_prints_is_not_shown(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InvalidData, match="its bytes contradict each other"), readable("'a'", "file"):
        os.write(2, b"thread 'x' panicked at lib.rs\n")
        raise pl.exceptions.PanicException("assertion failed")
    assert capfd.readouterr().err == ""
    with readable("'a'", "file"):
        os.write(2, b"a note\n")
    assert capfd.readouterr().err == "a note\n"


def test_urls_are_no_files() -> None:
    for url in ("http://127.0.0.1:9/a.csv", "s3://bucket/a.parquet", "zip://a::b.zip"):
        with pytest.raises(InvalidData, match=r"is a URL\. Download it first"):
            open_data(url)


def test_the_root_of_a_disk_is_not_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("truerank.data.table.MOST_OTHERS", 5)
    for at in range(7):
        (tmp_path / f"{at}.txt").touch()
    with pytest.raises(
        InvalidData, match=r"must hold at most 5 files and folders beside its \.parquet files"
    ):
        read_interactions(tmp_path)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.csv")
    with pytest.raises(InvalidData, match=r"data must be a file, but '.*' is a pipe"):
        read_interactions(tmp_path / "a.csv")


def test_names_that_are_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"caf\xe9.csv")
    try:
        path.write_text(CSV)
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    with pytest.raises(InvalidData, match=r"the name of a file must be UTF-8, but .* is not\. Rename it"):
        read_interactions(path)
    assert polars_path("café.csv") == "café.csv"
