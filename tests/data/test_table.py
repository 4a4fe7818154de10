"""Which files can be opened, and what is said about those that cannot."""

from __future__ import annotations

import gzip
from pathlib import Path

import polars as pl
import pytest

from truerank.core.errors import InvalidData, InvalidParameter
from truerank.data.read import read_interactions
from truerank.data.table import scan


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("name", "text", "names", "rows"),
    [
        ("a.csv", "user,item\n1,2\n", ["user", "item"], [("1", "2")]),
        ("a.csv", "user;item\n1;2\n", ["user", "item"], [("1", "2")]),
        ("a.csv", '"User-ID";"ISBN"\n"1";"2;3"\n', ["User-ID", "ISBN"], [("1", "2;3")]),
        ("a.csv", "\ufeffuser,item\r\n1,2\r\n", ["user", "item"], [("1", "2")]),
        ("a.tsv", 'user\titem\n1\ta"b\n', ["user", "item"], [("1", 'a"b')]),
        ("a.inter", "user_id:token\titem_id:token\trating:float\n1\t2\t3\n", ["user_id", "item_id", "rating"],
         [("1", "2", "3")]),
        ("a.dat", "1::2::3\n5::6::7\n", ["1", "2", "3"], [("1", "2", "3"), ("5", "6", "7")]),
        ("a.dat", "userID\tartistID\tweight\n2\t51\t13883\n", ["userID", "artistID", "weight"],
         [("2", "51", "13883")]),
        ("u.data", "196\t242\t3\t881250949\n", ["1", "2", "3", "4"], [("196", "242", "3", "881250949")]),
        ("a.txt", "7 8\n9 10\n", ["1", "2"], [("7", "8"), ("9", "10")]),
        ("a.csv", "B01,A1,5.0,1400000000\n", ["1", "2", "3", "4"], [("B01", "A1", "5.0", "1400000000")]),
    ],
)  # fmt: skip
def test_text_layouts(
    tmp_path: Path, name: str, text: str, names: list[str], rows: list[tuple[str, ...]]
) -> None:
    table = scan(write(tmp_path, name, text))
    assert table.names == names
    assert table.is_text
    assert table.frame.select(names).collect().rows() == rows


def test_columns_without_header_follow_the_movielens_order_in_dat_only(tmp_path: Path) -> None:
    assert scan(write(tmp_path, "a.dat", "1::2::3::4\n")).by_position
    assert not scan(write(tmp_path, "a.csv", "1,2,3,4\n")).by_position
    assert not scan(write(tmp_path, "b.dat", "user\titem\n1\t2\n")).by_position


def test_gzip(tmp_path: Path) -> None:
    path = tmp_path / "a.csv.gz"
    with gzip.open(path, "wt") as file:
        file.write("user,item\n1,2\n")
    assert scan(path).frame.collect().rows() == [("1", "2")]


def test_parquet_is_known_by_content(tmp_path: Path) -> None:
    pl.DataFrame({"user": [1], "item": [2]}).write_parquet(tmp_path / "data")
    table = scan(tmp_path / "data")
    assert (table.names, table.is_text) == (["user", "item"], False)


def test_json_lines(tmp_path: Path) -> None:
    path = write(tmp_path, "a.json", '{"user_id": "x", "book_id": 3}\n{"user_id": "y", "book_id": 4}\n')
    assert scan(path).frame.collect().rows() == [("x", 3), ("y", 4)]


def test_lists_with_and_without_leading_count(tmp_path: Path) -> None:
    plain = scan(write(tmp_path, "a.dat", "5 6\n7\n"), format="lists")
    assert plain.frame.collect().rows() == [(0, 5), (0, 6), (1, 7)]
    counted = scan(write(tmp_path, "b.dat", "2 5 6\n0\n1 7\n"), format="lists")
    assert counted.frame.collect().rows() == [(0, 5), (0, 6), (2, 7)]


def test_dicts(tmp_path: Path) -> None:
    text = "{'beer/beerId': '4', 'review/profileName': \"o'b\", 'review/text': 'it\\'s'}\n"
    table = scan(write(tmp_path, "a.json", text), format="dicts")
    assert table.names == ["beer/beerId", "review/profileName", "review/text"]
    assert table.frame.select("beer/beerId", "review/profileName").collect().rows() == [("4", "o'b")]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (r"'it\'s'", "it's"),
        (r'"a\"b"', 'a"b'),
        (r"'a\\b'", r"a\b"),
        (r"'i\19'", "i\x019"),
        (r"'\u2605\x41'", "\u2605A"),
        (r"'a\db'", r"a\db"),
        (r"'a\x4'", None),
        (r"'\ud800'", None),
    ],
)
def test_escapes_in_dicts(tmp_path: Path, written: str, meant: str | None) -> None:
    """They are Python's; a text that Python would not read is missing, and so refused where it is an id."""
    path = write(tmp_path, "a.txt", f"{{'user': 'x', 'item': 'y'}}\n{{'user': 'z', 'item': {written}}}\n")
    assert scan(path, format="dicts").frame.collect()["item"].to_list() == ["y", meant]


def test_missing_file_names_a_neighbour(tmp_path: Path) -> None:
    write(tmp_path, "ratings.csv", "user,item\n")
    with pytest.raises(InvalidData, match=r"there is no file '.*rating.csv'. Did you mean '.*ratings.csv'\?"):
        scan(tmp_path / "rating.csv")
    with pytest.raises(InvalidData, match=r"there is no file '.*nothing'\.$"):
        scan(tmp_path / "no" / "nothing")


def test_folder(tmp_path: Path) -> None:
    """Parquet files in a folder and below are one table; others must be named."""
    with pytest.raises(InvalidData, match=r"data must be a file or a folder with .* is a folder without\.$"):
        scan(tmp_path)
    write(tmp_path, "events.csv", "user,item\n1,2\n")
    with pytest.raises(InvalidData, match=r"is a folder without. Name one file in it, such as 'events.csv'"):
        scan(tmp_path)
    (tmp_path / "below").mkdir()
    events = pl.DataFrame({"user": [1, 2, 3], "item": [4, 5, 6]})
    events[1:].write_parquet(tmp_path / "part-1.parquet")
    events[:1].write_parquet(tmp_path / "below" / "part-0.parquet")
    table = scan(tmp_path)
    assert table.frame.collect().equals(events)
    assert (table.names, table.where) == (["user", "item"], f"'{tmp_path}' (2 files)")
    assert read_interactions(tmp_path).n_users == 3
    events.cast(pl.String).write_parquet(tmp_path / "part-2.parquet")
    with pytest.raises(
        InvalidData, match=r"'.*part-2.parquet' has user String, item String and .* Int64, item Int64\."
    ):
        scan(tmp_path)
    write(tmp_path, "part-2.parquet", "")
    with pytest.raises(InvalidData, match=r"part-2.parquet"):
        scan(tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.csv", b"", "must hold interactions, but it is empty"),
        ("a.parquet", b"", "must hold interactions, but it is empty"),
        ("a.csv", b"\n \n\n", "holds only blank lines"),
        ("a.csv", bytes(range(256)) * 40, "must be a text table, but it holds binary data"),
        ("a.json", bytes(range(256)) * 40, "must be a text table, but it holds binary data"),
        ("a.json", b"user,item\n1,2\n", "must be a complete json file, but it cannot be read"),
        ("a.zip", b"PK\x03\x04", "is a zip archive. Unpack it"),
        ("a.csv.gz", b"\x1f\x8b\x08\x00broken", "must be a complete csv file, but it cannot be read"),
        ("a.parquet", b"PAR1 is all there is", "must be a complete parquet file, but it cannot be read"),
    ],
)
def test_damaged_files(tmp_path: Path, name: str, content: bytes, sentence: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InvalidData, match=sentence):
        scan(path).frame.collect()


def test_truncated_parquet(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pl.DataFrame({"user": range(1000), "item": range(1000)}).write_parquet(path)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(InvalidData, match=r"must be a complete parquet file.*Write or download it again"):
        scan(path)


def test_unknown_format(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match=r"format must be one of csv, tsv, .*got 'xls'"):
        scan(write(tmp_path, "a.xls", "user,item\n1,2\n"), format="xls")
