"""Attacks on readers of events: what is read must be what the standard library reads from the same bytes."""

from __future__ import annotations

import ast
import csv
import gzip
import io
import json
import math
import random
import re
import zlib
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar

import polars as pl
import pyarrow.parquet as pq

from tests.fuzz.harness import Attack, Verdict, WrongAnswer
from tests.fuzz.hostile import mutated
from truerank.core.interactions import Interactions
from truerank.data.read import choose_columns, read_interactions

ROLES = ("user", "item", "rating", "timestamp")
ROWS: list[tuple[Any, ...]] = [(f"u{n * 7 % 40}", n * 11 % 30, 1 + n % 5, 1000 + n) for n in range(120)]
#: Cells of text files, in the order ids, ratings, times.
IDS = (
    *(
        "7",
        "8",
        "9",
        "007",
        "7.0",
        "8.00",
        "1e3",
        "1000",
        "-1",
        "-0",
        "+5",
        "a",
        "A",
        "ä",
        "日本",
        "😀",
        "x y",
        " x",
    ),
    *(
        "",
        "nan",
        "NaN",
        "null",
        "None",
        "NA",
        "true",
        "0x10",
        "1_000",
        "٣",
        "a,b",
        'a"b',
        '"',
        "a;b",
        "a\tb",
        "a::b",
    ),
    *(
        "9223372036854775807",
        "9223372036854775808",
        "18446744073709551615",
        str(2**127),
        "9007199254740993",
        "1.5",
    ),
    *(
        "x" * 1_000,
        "a\nb",
        "=1+1",
        "\u200b",
        "\ufeffa",
        "#c",
        "%s",
        "e\u0301",
        "é",
        "1,5",
        "inf",
        "'",
        "\\",
        "\\N",
    ),
    *(" 7", "7 ", "8.0 ", "\xa08", "\x1f9", "9\x0b", "\u200b7", "\u30009", "x ", "x", " ", "\xa0", " 007"),
)
RATINGS = (
    *(
        "1",
        "2",
        "3.5",
        "0",
        "-1",
        "1e3",
        "1e400",
        "nan",
        "inf",
        "",
        "x",
        "0.1",
        "1e-320",
        "9007199254740993",
        "1_0",
    ),
    *(
        "5.",
        ".5",
        "+1",
        "1,5",
        "true",
        "0x1",
        "٣",
        "99999999999999999999",
        "1e22",
        "2.5e-3",
        "123456789.123456789",
    ),
)
TIMES = (
    *(
        "1",
        "1000",
        "978300760",
        "1e9",
        "-5",
        "1.5",
        "20111231",
        "20111231235959",
        "2011-12-31",
        "2011-12-31 23:59:59",
    ),
    *("31/12/2011", "12/31/2011", "01/02/2011", "9223372036854775807", "9223372036854775808", "", "nan", "x"),
    *("2011-12-31T23:59:59Z", "2011-12-31T23:59:59+05:30", "0001-01-01", "9999-12-31", "2011-02-30", "1e300"),
    *(
        "Dec 31, 2011",
        "31 Dec 2011",
        "2011-12-31 24:00:00",
        "2011-12-31 23:59:60",
        "12:30",
        "1_000",
        "9" * 30,
    ),
)


def id_texts(value: Any) -> set[str]:
    """Return the texts that an id may be read as: its own, and its number where it is a plain whole one."""
    if isinstance(value, bool):
        return {str(value).lower()}
    if isinstance(value, float):
        return {str(int(value))} if value.is_integer() else set()
    text = str(value)
    whole = re.fullmatch(r"(0|-?[1-9][0-9]*)\.0*", text)
    return {text, whole[1]} if whole else {text}


def check_events(read: Interactions, rows: Sequence[Sequence[Any]]) -> None:
    """Raise unless the events are those of rows (user, item, rating, time), None where there is no column."""
    if len(read) != len(rows):
        raise WrongAnswer(f"{len(rows)} rows were written and {len(read)} read")
    users, items = read.users.decode(read.user), read.items.decode(read.item)
    for at, row in enumerate(rows):
        for name, found, written in (("user", users[at], row[0]), ("item", items[at], row[1])):
            if str(found) not in id_texts(written):
                raise WrongAnswer(f"{name} of row {at}: {written!r} was read as {found!r}")
        if read.value is not None and row[2] is not None and float(read.value[at]) != float(row[2]):
            raise WrongAnswer(f"rating of row {at}: {row[2]!r} was read as {read.value[at]!r}")
    _check_times(read, [row[3] for row in rows])


def _check_times(read: Interactions, written: Sequence[Any]) -> None:
    if read.time is None or any(one is None for one in written):
        return
    seconds = [_seconds(one) for one in written]
    if any(one is None for one in seconds) or _are_compact(written):
        return
    for at, (found, expected) in enumerate(zip(read.time.tolist(), seconds, strict=True)):
        if found != expected and not math.isclose(found, float(expected or 0), rel_tol=1e-15, abs_tol=1e-5):
            raise WrongAnswer(f"time of row {at}: {written[at]!r} was read as {found!r}")


def _are_compact(written: Sequence[Any]) -> bool:
    """Whether whole numbers may stand for days, 20111231, or moments, 20111231235959."""
    return all(
        str(one).strip()[:2] in ("19", "20", "21", "22") and len(str(one).strip()) in (8, 14)
        for one in written
    )


def _seconds(value: Any) -> int | float | None:
    """Return a number as it is, and an ISO date in seconds since 1970."""
    if isinstance(value, datetime | date):
        moment = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)
        return _since_1970(moment)
    text = str(value).strip()
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    try:
        return _since_1970(datetime.fromisoformat(text)) if text[4:5] == "-" else None
    except ValueError:
        return None


def _since_1970(moment: datetime) -> float:
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(seconds=1)


class Unreadable(Exception):  # noqa: N818 - of the independent reading
    """The standard library does not read these bytes, so that there is nothing to compare with."""


def independent(name: str, data: bytes) -> list[dict[str, Any]]:
    """Return the rows of a file by the standard library, each by column name."""
    if name.endswith(".gz") or data[:2] == b"\x1f\x8b":
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error) as error:
            raise WrongAnswer(f"a damaged gzip file was read ({error})") from None
    text = data.decode("utf-8", "replace").removeprefix("\ufeff")
    lines = text.split("\n")
    if (
        ".csv" not in name
    ):  # the csv module takes either end of a line, and cells of several lines as they are
        lines = [line.removesuffix("\r") for line in lines]
    if ".json" in name:
        try:
            rows = [json.loads(line) for line in lines if line.strip()]
        except (ValueError, RecursionError):
            raise Unreadable from None
        if not all(isinstance(row, dict) for row in rows):
            raise Unreadable
        return rows
    if ".dict" in name:
        try:
            return [ast.literal_eval(line) for line in lines if line.strip()]
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            raise Unreadable from None
    while lines and not lines[0].strip():
        lines.pop(0)
    cells = _cells(name, lines)
    if not cells:
        raise Unreadable
    first = [cell.strip().strip('"') for cell in cells[0]]
    if ".inter" in name:
        first = [
            cell.rpartition(":")[0] if cell.rpartition(":")[2] in ("token", "float") else cell
            for cell in first
        ]
    if not {"user", "item"} <= {cell.lower() for cell in first}:
        if ".dat" not in name:
            raise Unreadable
        first, cells = [str(at + 1) for at in range(len(first))], [[], *cells]
    return [dict(zip(first, row, strict=False)) for row in cells[1:]]


def _cells(name: str, lines: list[str]) -> list[list[str]]:
    if ".dat" in name:
        if not lines or "::" not in lines[0]:
            raise Unreadable
        return [line.split("::") for line in lines if line]
    if ".csv" not in name:
        return [line.split("\t") for line in lines if line]
    marks = ",;\t|"
    separator = max(marks, key=lines[0].count) if lines else ","
    csv.field_size_limit(1 << 30)
    try:
        return [
            row
            for row in csv.reader((f"{line}\n" for line in lines), delimiter=separator, strict=True)
            if row
        ]
    except csv.Error:
        raise Unreadable from None


def compare(name: str, path: Path, data: bytes, read: Interactions) -> None:
    """Raise unless what was read from a file is what the standard library reads."""
    try:
        rows = independent(name, data)
    except Unreadable:
        return
    choice = choose_columns(path)
    chosen = [getattr(choice, role) for role in ROLES]
    if ".dict" in name:
        chosen[2:] = [None, None]
    check_events(read, [[None if column is None else row.get(column) for column in chosen] for row in rows])


def as_text(suffix: str, rows: Sequence[Sequence[Any]]) -> bytes:
    """Return the whole file of a suffix, without compression."""
    stream, roles = io.StringIO(), ROLES[: len(rows[0])]
    if suffix == ".jsonl":
        stream.writelines(json.dumps(dict(zip(ROLES, row, strict=False))) + "\n" for row in rows)
    elif suffix == ".dat":
        stream.writelines("::".join(map(str, row)) + "\n" for row in rows)
    elif suffix == ".csv":
        csv.writer(stream, lineterminator="\n").writerows([roles, *rows])
    else:
        head = [f"{role}:token" for role in roles] if suffix == ".inter" else roles
        stream.writelines("\t".join(map(str, row)) + "\n" for row in [head, *rows])
    return stream.getvalue().encode("utf-8", "surrogatepass")


class TextFiles(Attack):
    """Text files with changed bytes, packed and unpacked."""

    name: ClassVar[str] = "readers: text, bytes changed"
    cases: ClassVar[int] = 5_000
    few: ClassVar[int] = 60

    def prepare(self) -> None:
        self.whole: dict[str, bytes] = {}
        for suffix in (".csv", ".tsv", ".dat", ".inter", ".jsonl"):
            for width in (2, 4):
                rows = [row[:width] for row in ROWS]
                text = as_text(suffix, [(row[0][1:], *row[1:]) for row in rows] if suffix == ".dat" else rows)
                self.whole |= {f"{width}{suffix}": text, f"{width}{suffix}.gz": gzip.compress(text, mtime=0)}

    def attempt(self, draw: random.Random) -> Verdict:
        name = draw.choice(sorted(self.whole))
        data, path = self.whole[name], self.folder / name
        if name.endswith(".gz") and draw.random() < 0.5:
            data = gzip.compress(mutated(gzip.decompress(data), draw), mtime=0)
        else:
            data = mutated(data, draw)
        path.write_bytes(data)
        compare(name, path, data, read_interactions(path, duplicates="keep"))
        return Verdict.ok


class TextCells(Attack):
    """Well-formed text files with odd ids, ratings and times."""

    name: ClassVar[str] = "readers: text, odd cells"
    cases: ClassVar[int] = 4_000

    def attempt(self, draw: random.Random) -> Verdict:
        suffix = draw.choice([".csv", ".csv", ".tsv", ".dat", ".inter", ".jsonl"])
        rows = odd_rows(draw)
        if suffix != ".csv":
            rows = [[_without(cell, "\t\n\r" + ":" * (suffix == ".dat")) for cell in row] for row in rows]
        data = as_text(suffix, rows)
        if draw.random() < 0.2:
            data = b"\xef\xbb\xbf" + data
        if draw.random() < 0.2:
            data = data.replace(b"\n", b"\r\n")
        name = f"a{suffix}" + draw.choice(["", "", ".gz"])
        path = self.folder / name
        data = gzip.compress(data, mtime=0) if name.endswith(".gz") else data
        path.write_bytes(data)
        compare(name, path, data, read_interactions(path, duplicates="keep"))
        return Verdict.ok


def _without(cell: Any, letters: str) -> Any:
    return "".join(one for one in cell if one not in letters) if isinstance(cell, str) else cell


def odd_rows(draw: random.Random) -> list[list[Any]]:
    """Return rows of text whose columns are plain but for a few odd cells."""
    plain: tuple[tuple[str, ...], ...] = (("7", "8", "9"), ("1", "2", "3"), ("1", "2.5"), ("1", "1000"))
    odd = [draw.choice([(), IDS[:3], draw.sample(IDS, 3)]) for _ in "ui"]
    odd += [draw.choice([(), (), draw.sample(RATINGS, 2)]), draw.choice([(), (), draw.sample(TIMES, 2)])]
    choices = [
        [*usual, *strange] if draw.random() < 0.5 else list(strange or usual)
        for usual, strange in zip(plain, odd, strict=True)
    ]
    return [[draw.choice(column) for column in choices] for _ in range(draw.choice([1, 2, 5, 30]))]


#: Types of Parquet columns, each with values.
TYPED: tuple[tuple[Any, tuple[Any, ...]], ...] = (
    *((kind, (0, 1, 5, 127)) for kind in (pl.Int8, pl.Int16, pl.Int32, pl.UInt8, pl.UInt16, pl.UInt32)),
    *((pl.Int64, (0, 5, -1, 2**63 - 1, 2**53 + 1)), (pl.UInt64, (0, 7, 2**64 - 1, 2**63))),
    *((pl.Int128, (0, 7, 2**63, 2**100, -(2**90))), (pl.Float32, (0.0, 1.5, 3.0, math.nan))),
    *((pl.Float64, (0.0, 1.5, 3.0, math.nan, math.inf, 2.0**53, 1e300)), (pl.Boolean, (True, False))),
    *(
        (pl.String, ("a", "7", " 7", "7 ", "\xa07", " ", "007", "", "ä", "x" * 999, "\x00", "nan")),
        (pl.Binary, (b"a", b"\xff")),
    ),
    *(
        (pl.Date, (date(2011, 12, 31), date(1, 1, 1))),
        (pl.Datetime("us"), (datetime(2011, 12, 31, 5), datetime(1970, 1, 1))),
    ),
    *(
        (pl.Datetime("ns"), (datetime(2011, 12, 31),)),
        (pl.Duration("us"), (timedelta(1),)),
        (pl.Null, (None,)),
    ),
    *((pl.List(pl.Int64), ([1], [], [2, 3])), (pl.Struct({"a": pl.Int64}), ({"a": 1}, {"a": 2}))),
    *(
        (pl.Decimal(38, 2), (Decimal("1.00"), Decimal("2.50"))),
        (pl.Decimal(38, 0), (Decimal(7), Decimal(2**100))),
    ),
    *((pl.Categorical, ("a", "b", "7")), (pl.Time, (datetime(2020, 1, 1, 5).time(),))),
)


class ParquetColumns(Attack):
    """Well-formed Parquet files, and folders of them, with columns of every type."""

    name: ClassVar[str] = "readers: Parquet, odd columns"
    cases: ClassVar[int] = 2_500

    def attempt(self, draw: random.Random) -> Verdict:
        n, columns, rows = draw.choice([1, 2, 20]), {}, []
        plain: dict[str, tuple[Any, tuple[Any, ...]]] = {
            **dict.fromkeys(ROLES, (pl.Int64, (1, 2, 3))),
            "rating": (pl.Float64, (1.0, 2.5)),
        }
        for role in ROLES[: draw.choice([2, 3, 4])]:
            kind, values = draw.choice(TYPED) if draw.random() < 0.6 else plain[role]
            cells = [draw.choice(values) for _ in range(n)]
            if draw.random() < 0.1:
                cells[draw.randrange(n)] = None
            columns[role] = pl.Series(role, cells, dtype=kind)
            rows.append(cells)
        rows += [[None] * n] * (4 - len(rows))
        frame = pl.DataFrame(columns)
        path = self.folder / "a.parquet"
        options: Any = {"compression": draw.choice(["zstd", "snappy", "gzip", "lz4", "uncompressed"])}
        if n > 1 and draw.random() < 0.2:
            path = self.folder / "parts"
            path.mkdir(exist_ok=True)
            frame[:1].write_parquet(path / "0.parquet", **options)
            frame[1:].write_parquet(path / "1.parquet", **options)
        else:
            frame.write_parquet(path, **options)
        check_events(read_interactions(path, duplicates="keep"), list(zip(*rows, strict=True)))
        return Verdict.ok


class ParquetBytes(Attack):
    """Parquet files with changed bytes: refused, or what pyarrow reads from them."""

    name: ClassVar[str] = "readers: Parquet, bytes changed"
    cases: ClassVar[int] = 3_000

    def prepare(self) -> None:
        frame = pl.DataFrame(ROWS, schema=list(ROLES), orient="row")
        self.whole = []
        for compression in ("zstd", "snappy", "uncompressed"):
            stream = io.BytesIO()
            frame.write_parquet(stream, compression=compression)
            self.whole.append(stream.getvalue())

    def attempt(self, draw: random.Random) -> Verdict:
        path, data = self.folder / "a.parquet", mutated(draw.choice(self.whole), draw)
        path.write_bytes(data)
        read = read_interactions(path, duplicates="keep")
        try:
            rows = pq.ParquetFile(io.BytesIO(data)).read().to_pylist()
        except Exception:  # pyarrow refuses more than polars: nothing to compare with
            return Verdict.ok
        choice = choose_columns(path)
        chosen = [getattr(choice, role) for role in ROLES]
        check_events(
            read, [[None if name is None else _as_marked(row.get(name)) for name in chosen] for row in rows]
        )
        return Verdict.ok


def _as_marked(cell: Any) -> Any:
    """Return the text of bytes: Parquet marks texts twice; without the first mark pyarrow gives bytes."""
    return cell.decode("utf-8", "replace") if isinstance(cell, bytes) else cell


class OtherForms(Attack):
    """Lists of items, Python dictionaries, spreadsheets, and files whose suffix is not theirs."""

    name: ClassVar[str] = "readers: other forms"
    cases: ClassVar[int] = 2_000

    def prepare(self) -> None:
        stream = io.BytesIO()
        pl.DataFrame(ROWS, schema=list(ROLES), orient="row").write_parquet(stream)
        dicts = "".join(repr({"user": row[0], "item": f"i{row[1]}"}) + "\n" for row in ROWS)
        lists = "".join(" ".join(str((user + 3 * at) % 29) for at in range(5)) + "\n" for user in range(20))
        self.whole = {"dicts": dicts.encode(), "lists": lists.encode(), "parquet": stream.getvalue()}
        self.whole |= {"csv": as_text(".csv", ROWS), "gz": gzip.compress(as_text(".csv", ROWS), mtime=0)}

    def attempt(self, draw: random.Random) -> Verdict:
        form = draw.choice(sorted(self.whole))
        data = mutated(self.whole[form], draw) if draw.random() < 0.7 else self.whole[form]
        if form in ("dicts", "lists"):
            path = self.folder / f"a.{form}"
            path.write_bytes(data)
            read = read_interactions(path, format=form, duplicates="keep")
            if form == "dicts":
                self.check_dicts(data, read)
            else:
                self.check_lists(data, read)
            return Verdict.ok
        suffixes = [
            ".csv",
            ".tsv",
            ".parquet",
            ".inter",
            ".jsonl",
            ".xlsx",
            ".xls",
            ".ods",
            ".dat",
            "",
            ".zip",
            ".gz",
        ]
        path = self.folder / f"b{draw.choice(suffixes)}{draw.choice(['', '', '.gz'])}"
        path.write_bytes(data)
        read = read_interactions(path, duplicates="keep")
        if data in self.whole.values():
            check_events(read, ROWS)
        return Verdict.ok

    def check_dicts(self, data: bytes, read: Interactions) -> None:
        try:
            rows = independent("a.dicts", data)
        except Unreadable:
            return
        check_events(read, [[row.get("user"), row.get("item"), None, None] for row in rows])

    def check_lists(self, data: bytes, read: Interactions) -> None:
        lines = [line.strip() for line in data.decode("utf-8", "replace").split("\n")]
        lists = [line.split(" ") for line in lines if line]
        if all(one[0] == str(len(one) - 1) for one in lists):
            lists = [one[1:] for one in lists]
        items = [one for words in lists for one in words if one]
        found = [str(one) for one in read.items.decode(read.item)]
        if [str(int(one)) for one in items] != found:
            raise WrongAnswer(f"items {items[:20]} were read as {found[:20]}")


ATTACKS: tuple[type[Attack], ...] = (TextFiles, TextCells, ParquetColumns, ParquetBytes, OtherForms)
