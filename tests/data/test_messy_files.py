"""Files as shops export them: odd ids, long lines, missing values, Excel, other encodings."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from truerank.core.errors import InvalidData
from truerank.data.read import from_frame, read_interactions
from truerank.data.table import scan


def users_of(folder: Path, ids: list[str]) -> list[Any]:
    path = folder / "events.csv"
    path.write_text("user,item\n" + "".join(f"{one},{n}\n" for n, one in enumerate(ids)))
    read = read_interactions(path)
    return read.users.decode(read.user)


@pytest.mark.parametrize(
    ("ids", "kept"),
    [
        (["1e1", "10"], ["1e1", "10"]),
        (["1E5", "7"], ["1E5", "7"]),
        (["+5", "5"], ["+5", "5"]),
        (["-0", "0"], ["-0", "0"]),
        (["007", "7", "7.0"], ["007", "7", "7.0"]),
        (["5.0", "10.0"], [5, 10]),
        (["5.0", "10"], [5, 10]),
        (["5.", "6.00"], [5, 6]),
        (["18446744073709551615", "5"], ["18446744073709551615", "5"]),
        (["9223372036854775807", "9223372036854775806"], [2**63 - 1, 2**63 - 2]),
        (["1_000", "1000"], ["1_000", "1000"]),
    ],
)
def test_ids_that_look_like_numbers(tmp_path: Path, ids: list[str], kept: list[Any]) -> None:
    """Different texts are different ids: none becomes another by being read as a number."""
    assert users_of(tmp_path, ids) == kept


def test_ids_of_a_test_file_that_look_like_those_of_train(tmp_path: Path) -> None:
    """Read against numbers, '+5' is not 5 and '007' is not 7."""
    train, test = tmp_path / "train.csv", tmp_path / "test.csv"
    train.write_text("user,item\n5,1\n7,2\n")
    test.write_text("user,item\n5,1\n+5,2\n007,1\nx,1\n")
    both = read_interactions(train)
    read = read_interactions(test, vocabularies=(both.users, both.items), unknown="drop")
    assert read.users.decode(read.user) == [5] and read.origin["unknown_rows"] == 3


def test_one_number_written_twice(tmp_path: Path) -> None:
    with pytest.raises(
        InvalidData, match=r"written in one way, but '5' and '5\.0' in column 'user' of .* same number"
    ):
        users_of(tmp_path, ["5", "5.0", "6"])


def test_a_missing_number_is_no_id(tmp_path: Path) -> None:
    with pytest.raises(
        InvalidData, match=r"ids must not be missing, but 1 of 2 .* leave them out with drop_missing"
    ):
        users_of(tmp_path, ["17850.0", "nan"])


def test_unsigned_ids_beyond_63_bits() -> None:
    """Hashes of 64 bits are kept as text, because signed numbers cannot hold them."""
    frame = pl.DataFrame({"user": pl.Series([2**64 - 1, 2**64 - 2], dtype=pl.UInt64), "item": [1, 2]})
    read = from_frame(frame)
    assert read.users.decode(read.user) == [str(2**64 - 1), str(2**64 - 2)]
    small = from_frame(frame.with_columns(user=pl.Series([2**40, 3], dtype=pl.UInt64)))
    assert small.users.decode(small.user) == [2**40, 3]


@pytest.mark.parametrize("header", ["", "user::item::rating::timestamp\n"])
def test_long_lines_of_dat_files(tmp_path: Path, header: str) -> None:
    path = tmp_path / "ratings.dat"
    path.write_text(header + "1::2::5::10\n1::3::4::11::12\n")
    with pytest.raises(InvalidData, match=r"must have 4 fields like the first one, but row 2 has more"):
        read_interactions(path)
    path.write_text(header + "1::2::5::10\n1::3::4\n")
    with pytest.raises(InvalidData, match="times must not be missing, but 1 of 2"):
        read_interactions(path)


def test_rows_with_missing_values_are_dropped_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_text(
        "user,item,rating,date\n17850.0,a,1,2011-01-01\n,b,1,2011-01-01\nNaN,c,1,2011-01-01\n"
        "13047.0,,1,2011-01-01\n13047.0,d,NULL,2011-01-01\n13047.0,d,2, \n13047.0,e,3,2011-01-02\n"
    )
    read = read_interactions(path, drop_missing=True)
    assert read.users.decode(read.user) == [17850, 13047]
    assert (read.origin["rows_read"], read.origin["missing_rows"]) == (7, 5)
    all_there = read_interactions(path, drop_missing=True, columns={"rating": "", "timestamp": ""})
    assert all_there.origin["missing_rows"] == 3
    path.write_text("user,item,rating\n1,2,3\n,b,1\n3,c,good\n")
    with pytest.raises(InvalidData, match=r"'good' stands in row 2 \(not counting dropped rows\)"):
        read_interactions(path, drop_missing=True)
    path.write_text("user,item\n,1\n,2\n")
    with pytest.raises(
        InvalidData, match="at least one event without missing values, but every row lacks one of 'user'"
    ):
        read_interactions(path, drop_missing=True)


def test_missing_values_of_frames() -> None:
    frame = pl.DataFrame(
        {"user": [1.0, None, float("nan"), 4.0], "item": ["a", "b", "c", "d"], "rating": [1, 2, 3, 4]}
    )
    read = from_frame(frame, drop_missing=True)
    assert read.users.decode(read.user) == [1, 4] and read.origin["missing_rows"] == 2
    complete = from_frame(frame.drop_nulls().drop_nans(), drop_missing=True)
    assert complete.origin["missing_rows"] == 0


def test_other_encodings(tmp_path: Path) -> None:
    """A description in Latin-1 does no harm; an id that cannot be read is refused."""
    path = tmp_path / "events.csv"
    path.write_bytes("user,item,description\n1,a,caf\u00e9 \u00a35\n2,b,tea\n".encode("latin1"))
    assert len(read_interactions(path)) == 2
    path.write_bytes("user,item\n1,caf\u00e9\n2,caf\u00e8\n".encode("latin1"))
    with pytest.raises(
        InvalidData, match=r"ids must be text in UTF-8, but 'caf.' in column 'item' .* iconv -f latin1"
    ):
        read_interactions(path)
    path.write_text("user,item\n1,a\n", encoding="utf-16")
    with pytest.raises(
        InvalidData, match=r"in UTF-16, as Excel writes 'Unicode text'\. Save it as 'CSV UTF-8'"
    ):
        read_interactions(path)


def test_excel_without_its_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastexcel", None)
    path = tmp_path / "retail.xlsx"
    path.write_bytes(b"PK\x03\x04 and so on")
    with pytest.raises(
        InvalidData, match=r"is an Excel file, and reading it needs fastexcel\. .*truerank\[excel\]"
    ):
        read_interactions(path)
    path.rename(tmp_path / "retail.csv")
    with pytest.raises(InvalidData, match=r"it is an Excel file or an archive\. Name an Excel file \.xlsx"):
        read_interactions(tmp_path / "retail.csv")


def test_excel_sheets(tmp_path: Path) -> None:
    pytest.importorskip("fastexcel", reason="fastexcel is not installed: pip install 'truerank[excel]'")
    writer = pytest.importorskip("xlsxwriter", reason="xlsxwriter is not installed")
    from datetime import datetime

    frames = [
        pl.DataFrame(
            {
                "Customer ID": [17850.0, 13047.0],
                "StockCode": ["85123A", "22752"],
                "InvoiceDate": [datetime(2010, 12, 1, 8, 26), datetime(2010, 12, 1, 8, 34)],
            }
        ),
        pl.DataFrame(
            {"Customer ID": [12583.0], "StockCode": ["10002"], "InvoiceDate": [datetime(2011, 1, 4)]}
        ),
    ]
    path = tmp_path / "retail.xlsx"
    with writer.Workbook(path) as book:
        for name, frame in zip(("2010", "2011"), frames, strict=True):
            frame.write_excel(book, worksheet=name)
        book.add_worksheet("empty")
    read = read_interactions(path)
    assert read.users.decode(read.user) == [17850, 13047, 12583]
    assert read.items.decode(read.item) == ["85123A", "22752", "10002"]
    assert read.time is not None and int(read.time[0]) == int(datetime(2010, 12, 1, 8, 26).timestamp())
    with writer.Workbook(path) as book:
        frames[0].write_excel(book, worksheet="events")
        pl.DataFrame({"a": [1]}).write_excel(book, worksheet="notes")
    with pytest.raises(
        InvalidData, match=r"all sheets of .* same columns, but 'notes' has 'a' and 'events' has"
    ):
        scan(path)
    path.write_bytes(b"PK\x03\x04 and so on")
    with pytest.raises(InvalidData, match="must be an Excel file, but it cannot be read"):
        scan(path)
