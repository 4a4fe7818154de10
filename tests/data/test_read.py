"""From files to interactions: ids, numbers, times and what is wrong with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from truerank.core.errors import InvalidData, InvalidParameter
from truerank.core.interactions import Interactions
from truerank.data.read import choose_columns, from_frame, read_interactions


def csv(folder: Path, text: str, name: str = "events.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def events_of(interactions: Interactions) -> list[tuple[Any, ...]]:
    """Return the events with their own ids, in their order."""
    columns = [interactions.users.decode(interactions.user), interactions.items.decode(interactions.item)]
    columns += [array.tolist() for array in (interactions.value, interactions.time) if array is not None]
    return list(zip(*columns, strict=True))


def test_codes_are_positions_in_the_sorted_vocabulary(tmp_path: Path) -> None:
    read = read_interactions(
        csv(tmp_path, "user,item,rating,timestamp\n30,b,5,100\n10,a,3.5,50\n30,a,1,70\n")
    )
    assert read.user.tolist() == [1, 0, 1]
    assert read.item.tolist() == [1, 0, 0]
    assert (read.user.dtype.name, read.item.dtype.name) == ("int32", "int32")
    assert read.users.ids.to_list() == [10, 30]
    assert read.items.ids.to_list() == ["a", "b"]
    assert read.value is not None and read.value.tolist() == [5.0, 3.5, 1.0]
    assert read.time is not None and read.time.tolist() == [100, 50, 70]
    assert read.origin == {"rows_read": 3, "duplicate_rows": 0}
    assert read.name == "events"


def test_every_format_gives_the_same_events(tmp_path: Path) -> None:
    frame = pl.DataFrame({"user": [2, 1], "item": [7, 9], "rating": [4.0, 5.0], "timestamp": [20, 10]})
    frame.write_parquet(tmp_path / "a.parquet")
    frame.write_csv(tmp_path / "a.csv")
    frame.write_csv(tmp_path / "a.tsv", separator="\t")
    frame.write_ndjson(tmp_path / "a.json")
    csv(tmp_path, "2::7::4::20\n1::9::5::10\n", "a.dat")
    csv(
        tmp_path,
        "user_id:token\titem_id:token\trating:float\ttimestamp:float\n2\t7\t4.0\t20.0\n1\t9\t5\t10\n",
        "a.inter",
    )
    for suffix in ("parquet", "csv", "tsv", "json", "dat", "inter"):
        read = read_interactions(tmp_path / f"a.{suffix}")
        assert events_of(read) == [(2, 7, 4.0, 20), (1, 9, 5.0, 10)], suffix
        assert read.time is not None and read.time.dtype == np.int32


def test_the_choice_of_columns_is_told(tmp_path: Path) -> None:
    said: list[str] = []
    path = csv(tmp_path, "userId,movieId\n1,2\n")
    read_interactions(path, tell=said.append)
    assert said == [f"columns of {path}: user=userId, item=movieId"]
    assert str(choose_columns(path)) == "user=userId, item=movieId"


@pytest.mark.parametrize(
    ("ids", "kept"),
    [
        (["1", "2"], [1, 2]),
        (["1.0", "2.0"], [1, 2]),
        (["007", "7"], ["007", "7"]),
        (["0", "10"], [0, 10]),
        (["1", "b"], ["1", "b"]),
        (["034545104X", "0155061224"], ["0155061224", "034545104X"]),
        (["9007199254740993", "1"], [1, 9007199254740993]),
        (["ü", "z"], ["z", "ü"]),
    ],
)
def test_ids_of_text_files(tmp_path: Path, ids: list[str], kept: list[Any]) -> None:
    """Whole numbers are integers; everything else stays the text it is."""
    rows = "".join(f"{user},1\n" for user in ids)
    assert read_interactions(csv(tmp_path, "user,item\n" + rows)).users.ids.to_list() == kept


def test_a_late_text_id_makes_all_ids_texts(tmp_path: Path) -> None:
    rows = "".join(f"{user},1\n" for user in range(3000))
    read = read_interactions(csv(tmp_path, f"user,item\n{rows}x,1\n"))
    assert read.n_users == 3001
    assert read.users.ids.dtype == pl.String


def test_sparse_integer_ids(tmp_path: Path) -> None:
    big = 2**60
    read = read_interactions(csv(tmp_path, f"user,item\n{big},1\n5,2\n{big - 3},1\n"))
    assert read.user.tolist() == [2, 0, 1]
    assert read.users.ids.to_list() == [5, big - 3, big]


@pytest.mark.parametrize(
    ("texts", "seconds"),
    [
        (["978300760", "978300761"], [978300760, 978300761]),
        (["1.5", "2"], [1.5, 2.0]),
        (["4000000000", "1"], [4_000_000_000, 1]),
        (["2010-10-19T23:55:27Z", "2010-10-19T23:55:28Z"], [1287532527, 1287532528]),
        (["1970-01-01 00:01:00", "1970-01-01 00:00:00.5"], [60.0, 0.5]),
        (["1970-01-02", "1970-01-03"], [86400, 172800]),
        (["Thu Jan 01 01:00:00 +0000 1970", "Thu Jan 01 00:00:00 -0100 1970"], [3600, 3600]),
    ],
)
def test_times(tmp_path: Path, texts: list[str], seconds: list[float]) -> None:
    """Numbers stay as they are; dates become seconds since 1970."""
    rows = "".join(f"{user},1,{text}\n" for user, text in enumerate(texts))
    time = read_interactions(csv(tmp_path, "user,item,time\n" + rows)).time
    assert time is not None and time.tolist() == seconds
    assert (time.dtype.kind == "i") == all(isinstance(second, int) for second in seconds)


def test_dates_of_frames() -> None:
    stamps = pl.Series("date", ["1970-01-01 00:00:07"]).str.to_datetime()
    read = from_frame(pl.DataFrame({"user": [1], "item": [1]}).with_columns(stamps))
    assert read.time is not None and read.time.tolist() == [7]
    read = from_frame(pl.DataFrame({"user": [1], "item": [1]}).with_columns(stamps.dt.date()))
    assert read.time is not None and read.time.tolist() == [0]


def test_kept_columns(tmp_path: Path) -> None:
    path = csv(tmp_path, "user,item,part\n1,1,train\n1,2,test\n2,1,\n")
    assert read_interactions(path, keep=["part"]).labels["part"].tolist() == ["train", "test", ""]
    frame = pl.DataFrame({"user": [1, 1], "item": [1, 2], "flag": [True, False], "fold": [3, 4]})
    labels = from_frame(frame, keep=["flag", "fold"]).labels
    assert (labels["flag"].tolist(), labels["fold"].tolist()) == ([True, False], [3, 4])
    frame = frame.with_columns(pl.Series("part", ["b", "a"], dtype=pl.Categorical))
    assert from_frame(frame, keep=["part"]).labels["part"].tolist() == ["b", "a"]


def test_only_needed_columns_are_read(tmp_path: Path) -> None:
    """A column that nobody asks for may hold anything."""
    path = csv(tmp_path, 'user,item,text\n1,2,"a, b"\n3,4,\n')
    assert len(read_interactions(path)) == 2


def test_given_vocabularies(tmp_path: Path) -> None:
    train = read_interactions(csv(tmp_path, "user,item\n1,a\n2,b\n"))
    path = csv(tmp_path, "user,item\n2,a\n3,a\n2,z\n", "test.csv")
    both = (train.users, train.items)
    with pytest.raises(
        InvalidData, match=r"every user must be known .* 1 rows hold others, such as 3 in row 2"
    ):
        read_interactions(path, vocabularies=both)
    test = read_interactions(path, vocabularies=both, unknown="drop")
    assert events_of(test) == [(2, "a")]
    assert test.origin["unknown_rows"] == 2
    assert test.items is train.items
    known = read_interactions(csv(tmp_path, "user,item\n2,a\n", "test.csv"), vocabularies=both)
    assert known.origin["unknown_rows"] == 0
    with pytest.raises(InvalidParameter, match="unknown must be one of error, drop, got 'ignore'"):
        read_interactions(path, vocabularies=both, unknown="ignore")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("user,item\n", "must hold at least one event, but it has only a header"),
        (
            "user,item\n1,2\n,3\n,4\n",
            "ids must not be missing, but 2 of 3 in column 'user' of .*first in row 2",
        ),
        ("user,item\n1,2\n4\n", "ids must not be missing, but 1 of 2 in column 'item'"),
        ("user,item\n1,-2\n", "ids must be integers >= 0 or text, .* column 'item' of .* -2 stands in row 1"),
        ("user,item\n1.5,2\n", "ids must be whole numbers or text, .* column 'user' .* 1.5 stands in row 1"),
        ("user,item\n1,2\n3,4,5\n", "cannot be read .a line has more fields than the first one"),
        ("user,item,rating\n1,2,5\n1,3,good\n", "ratings must be finite numbers, .* 'good' stands in row 2"),
        ("user,item,rating\n1,2,5\n1,3,nan\n", "ratings must be finite numbers, .* 'nan' stands in row 2"),
        ("user,item,rating\n1,2,inf\n", "ratings must be finite numbers, .* 'inf' stands in row 1"),
        ("user,item,rating\n1,2,5\n1,3,\n", "ratings must not be missing, but 1 of 2 .* first in row 2"),
        (
            "user,item,timestamp\n1,2,noon\n",
            "times must be finite numbers or dates, .* 'noon' stands in row 1",
        ),
        (
            "user,item,timestamp\n1,2,1\n1,3,noon\n",
            "times must be finite numbers or dates, .* 'noon' stands in row 2",
        ),
        ("user,item,date\n1,2,2010-01-01\n1,3,2010-13-01\n", "'2010-13-01' stands in row 2"),
        ("user,item,timestamp\n1,2,\n", "times must not be missing"),
        ("1,2,5\n1,3,4\n", "must have a user column, but none of '1', '2', '3' is known .*without a header"),
    ],
)
def test_bad_text_files(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(InvalidData, match=sentence):
        read_interactions(csv(tmp_path, text))


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"user": [1.0, float("nan")]}, "ids must not be missing, but 1 of 2 in column 'user' of the frame"),
        ({"user": [None, 1]}, "ids must not be missing, but 1 of 2 .* first in row 1"),
        ({"user": [True, False]}, "ids must be integers or text, .* the column is Boolean"),
        ({"user": [[1], [2]]}, "ids must be integers or text, .* the column is List"),
        ({"user": [2.5, 1.0]}, "ids must be whole numbers or text, .* 2.5 stands in row 1"),
        ({"user": [-1, 1]}, "ids must be integers >= 0 or text, .* -1 stands in row 1"),
        ({"rating": [1.0, float("nan")]}, "ratings must not be missing, but 1 of 2"),
        ({"rating": [[1], [2]]}, "ratings must be numbers, .* the column is List"),
        ({"rating": ["1", "x"]}, "ratings must be finite numbers, .* 'x' stands in row 2"),
        ({"timestamp": [1.0, float("inf")]}, "times must be finite numbers or dates, .* inf stands in row 2"),
        ({"timestamp": [True, False]}, "times must be numbers or dates, .* the column is Boolean"),
    ],
)
def test_bad_frames(columns: dict[str, list[Any]], sentence: str) -> None:
    frame = pl.DataFrame({"user": [1, 2], "item": [1, 2], **columns}, strict=False)
    with pytest.raises(InvalidData, match=sentence):
        from_frame(frame)


def test_damage_inside_a_parquet_file(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pl.DataFrame({"user": np.arange(50_000) * 7919 % 50_021, "item": np.arange(50_000)}).write_parquet(path)
    content = bytearray(path.read_bytes())
    content[200:20_000] = bytes(19_800)
    path.write_bytes(bytes(content))
    with pytest.raises(InvalidData, match="cannot be read"):
        read_interactions(path)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.sampled_from("abcdef"), st.integers(0, 99)), min_size=1, unique=True
    ),
    st.randoms(use_true_random=False),
)
def test_codes_do_not_depend_on_row_order(rows: list[tuple[int, str, int]], random: Any) -> None:
    """Shuffled rows give the same vocabularies and the same set of coded events (times decide duplicates)."""
    rows = list({(row[0], row[1], row[2]): row for row in rows}.values())
    shuffled = random.sample(rows, len(rows))
    schema = ["user", "item", "timestamp"]
    first, second = (from_frame(pl.DataFrame(r, schema=schema, orient="row")) for r in (rows, shuffled))
    assert first.users == second.users
    assert first.items == second.items
    assert sorted(events_of(first)) == sorted(events_of(second))
    assert first.origin == second.origin
