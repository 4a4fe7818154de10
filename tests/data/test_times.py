"""Times as people write them are read right, or refused with a sentence."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from truerank.core.errors import InvalidData, InvalidParameter
from truerank.data import times as module
from truerank.data.read import from_frame, read_interactions
from truerank.data.times import AmbiguousTimes, read_times


def at(*parts: int) -> int:
    return int(datetime(*parts, tzinfo=UTC).timestamp())  # type: ignore[misc,arg-type]


@pytest.mark.parametrize(
    ("texts", "seconds", "form"),
    [
        (
            ["12/1/2010 8:26", "12/31/2010 17:00"],
            [at(2010, 12, 1, 8, 26), at(2010, 12, 31, 17)],
            "month/day/year",
        ),
        (["01/02/2011", "31/12/2011"], [at(2011, 2, 1), at(2011, 12, 31)], "day/month/year"),
        (["31-12-2011 10:00:05"], [at(2011, 12, 31, 10, 0, 5)], "day/month/year"),
        (["31.12.2011", "1.2.2011 8:00"], [at(2011, 12, 31), at(2011, 2, 1, 8)], "day.month.year"),
        (
            ["2011-12-31T10:00:00+02:00", "2011-12-31T10:00:00Z"],
            [at(2011, 12, 31, 8), at(2011, 12, 31, 10)],
            "year-",
        ),
        (["2011-12-31 10:00:00 -0530"], [at(2011, 12, 31, 15, 30)], "year-month-day"),
        (["2011-12-31 10:00:00 UTC"], [at(2011, 12, 31, 10)], "year-month-day"),
        (["2011/12/31 10:00", "2011/1/2"], [at(2011, 12, 31, 10), at(2011, 1, 2)], "year-month-day"),
        (["2011-12-31 10:00:00.250"], [at(2011, 12, 31, 10) + 0.25], "year-month-day"),
        (["2011-12-31", "2011-12-31 10:00:30"], [at(2011, 12, 31), at(2011, 12, 31, 10, 0, 30)], "year-"),
        (["12/31/2010 12:00 AM", "1/2/2010 12:30 pm"], [at(2010, 12, 31), at(2010, 1, 2, 12, 30)], "month/"),
        (["1 Dec 2010", "2 January 2011"], [at(2010, 12, 1), at(2011, 1, 2)], "day month year"),
        (["Dec 1, 2010", "Jan 2, 2011 8:00"], [at(2010, 12, 1), at(2011, 1, 2, 8)], "month day, year"),
        (["Wed Aug 27 13:08:45 +0000 2008"], [at(2008, 8, 27, 13, 8, 45)], "dates written Wed"),
        (["20111231", "20110201"], [at(2011, 12, 31), at(2011, 2, 1)], "dates written yyyymmdd"),
        (["20111231235959"], [at(2011, 12, 31, 23, 59, 59)], "dates written yyyymmddhhmmss"),
        (["978300760", "978302109"], [978300760, 978302109], ""),
        (["20111231", "20111331"], [20111231, 20111331], ""),  # no thirteenth month: numbers
        (["1.5", "2"], [1.5, 2.0], ""),
    ],
)
def test_usual_forms(texts: list[str], seconds: list[float], form: str) -> None:
    read = read_times(pl.Series(texts))
    assert read.seconds.to_list() == seconds
    assert read.form.startswith(form) and bool(read.form) == bool(form)


@pytest.mark.parametrize(
    "form", ["%d/%m/%Y %H:%M", "%m/%d/%Y", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%SZ", "%d.%m.%Y"]
)
@settings(max_examples=25, deadline=None)
@given(days=st.lists(st.integers(0, 40_000), min_size=1, max_size=8), minute=st.integers(0, 1439))
def test_what_is_written_is_read(form: str, days: list[int], minute: int) -> None:
    """Whatever the dates, they are read as written or called ambiguous, and never as others."""
    moments = [datetime(1950, 1, 1, tzinfo=UTC) + timedelta(days=day, minutes=minute) for day in days]
    texts = [moment.strftime(form) for moment in moments]
    wanted = [int(datetime.strptime(text, form).replace(tzinfo=UTC).timestamp()) for text in texts]
    try:
        read = read_times(pl.Series(texts)).seconds.to_list()
    except AmbiguousTimes:
        assert "/" in form
        read = read_times(pl.Series(texts), form).seconds.to_list()
    assert read == wanted


def test_a_late_value_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    """The order of day and month is that of the whole column, also where it is treated in blocks."""
    monkeypatch.setattr(module, "_BLOCK", 2)
    texts = pl.Series(["01/02/2011", "03/04/2011", "05/06/2011", "31/12/2011 8:00"])
    assert read_times(texts).seconds.to_list() == [
        at(2011, 2, 1), at(2011, 4, 3), at(2011, 6, 5), at(2011, 12, 31, 8),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("texts", "sentence"),
    [
        (
            ["01/02/2011", "03/04/2011"],
            "'01/02/2011' may have the day or the month first, and no other value",
        ),
        (["31/12/2011", "12/31/2011"], "'31/12/2011' has the day first and '12/31/2011' the month"),
        (["01-12-10 08:26"], "'01-12-10 08:26' has a year of two digits"),
    ],
)
def test_two_readings_are_refused(tmp_path: Path, texts: list[str], sentence: str) -> None:
    path = tmp_path / "events.csv"
    path.write_text("user,item,date\n" + "".join(f"{n},1,{text}\n" for n, text in enumerate(texts)))
    with pytest.raises(
        InvalidData, match=sentence + r".*Say how they are written, such as time_format='%d/%m"
    ):
        read_interactions(path)


@pytest.mark.parametrize(
    ("texts", "sentence"),
    [
        (
            ["2011-02-30", "2011-01-01"],
            "dates like the others, read as year-month-day, .* '2011-02-30' stands in row 1",
        ),
        (["2011-01-01 10:00", "2011-01-01 25:00"], "'2011-01-01 25:00' stands in row 2"),
        (["2011-01-01T10:00:00Z", "2011-01-01T10:00:00"], "'2011-01-01T10:00:00' stands in row 2"),
        (["13/31/2011"], "has the day first and '13/31/2011' the month"),
        (
            ["18446744073709551615", "5"],
            "whole times must be below 2.63, .* '18446744073709551615' stands in row 1",
        ),
        (["10-12-01 8:00"], "year of two digits"),
    ],
)
def test_unreadable(texts: list[str], sentence: str) -> None:
    frame = pl.DataFrame({"user": range(len(texts)), "item": range(len(texts)), "time": texts})
    with pytest.raises(InvalidData, match=sentence):
        from_frame(frame)


def test_unsigned_numbers_beyond_63_bits_are_refused() -> None:
    """As signed numbers they would be negative, and the last event the first."""
    large = pl.Series("time", [2**63 + 5, 7], dtype=pl.UInt64)
    frame = pl.DataFrame({"user": [1, 2], "item": [1, 2]}).with_columns(large)
    with pytest.raises(
        InvalidData, match=r"whole times must be below 2\^63, .* 9223372036854775813 stands in row 1"
    ):
        from_frame(frame)
    small = frame.with_columns(pl.Series("time", [2**53 + 1, 7], dtype=pl.UInt64))
    assert from_frame(small).time.tolist() == [2**53 + 1, 7]  # type: ignore[union-attr]


def test_given_formats(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_text("user,item,date\n1,2,01/02/2011\n2,3,03/04/2011\n")
    told: list[str] = []
    read = read_interactions(path, time_format="%m/%d/%Y", tell=told.append)
    assert read.time is not None and read.time.tolist() == [at(2011, 1, 2), at(2011, 3, 4)]
    assert told[1] == (
        f"times of '{path}': dates written %m/%d/%Y, from 2011-01-02 to 2011-03-04 "
        "(UTC where no zone is written)"
    )
    with pytest.raises(
        InvalidData, match=r"written as time_format='%Y' says, .* '01/02/2011' stands in row 1"
    ):
        read_interactions(path, time_format="%Y")
    with pytest.raises(InvalidData, match="stands in row 1"):  # bytes of a terminal that are no text
        read_interactions(path, time_format="\ud800")
    with pytest.raises(InvalidData, match="'01/02/2011' stands in row 1"):
        read_interactions(path, time_format="ms")
    path.write_text("user,item,date\n1,2,1500000000250\n2,3,1500000001250\n")
    assert read_interactions(path, time_format="ms").time.tolist() == [1500000000.25, 1500000001.25]  # type: ignore[union-attr]
    assert read_interactions(path, time_format="s").time.tolist() == [1500000000250, 1500000001250]  # type: ignore[union-attr]


def test_times_that_nothing_needs(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_text("user,item,date\n1,2,noon\n2,3,\n")
    told: list[str] = []
    read = read_interactions(path, times="optional", tell=told.append)
    assert read.time is None and read.origin["times_left_out"] == 2
    assert told[1] == (
        f"times of '{path}' in column 'date' cannot be read and are left out: nothing needs them here"
    )
    with pytest.raises(InvalidData, match="times must not be missing"):
        read_interactions(path)
    with pytest.raises(InvalidParameter, match="times must be one of needed, optional, got 'no'"):
        read_interactions(path, times="no")  # type: ignore[arg-type]
