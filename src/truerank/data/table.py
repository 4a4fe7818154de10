"""Tables of interactions: opening files lazily, and choosing columns of users, items, ratings and times."""

from __future__ import annotations

import ast
import difflib
import gzip
import os
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import polars as pl

from truerank.core.checkpoint import check_input, polars_path, readable
from truerank.core.errors import InvalidData, InvalidParameter, check_choice, suggestion
from truerank.core.file_checks.parquet import check_parquet

FORMATS = ("csv", "tsv", "parquet", "inter", "dat", "json", "lists", "dicts", "excel")

_SUFFIXES = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".inter": "inter",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    **dict.fromkeys((".xlsx", ".xlsm", ".xlsb", ".xls", ".ods"), "excel"),
}
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\Z")
MOST_OTHERS = 100_000  # beside the Parquet files of a folder: looking through more takes long
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:(?::|/)")
_INTER_TYPE = re.compile(r":(token|float|token_seq|float_seq)\Z")


@dataclass(frozen=True)
class OpenTable:
    """A lazily opened table.

    Parameters
    ----------
    frame : the columns; those of text files are all strings
    names : column names; without a header they are "1", "2", ...
    is_text : whether the columns are strings still to be typed
    where : name of the table in messages
    delimited : the file, its separator and its quotes, where lines can have too many fields and cells ends
        that get lost, which is noticed only when the whole file is read
    by_position : whether columns follow the order user, item, rating, timestamp
    excess : the column that takes what lines hold beyond their last field, where there is one
    may_be_damaged : whether text may hold replacement characters, because its encoding is unknown
    """

    frame: pl.LazyFrame
    names: list[str]
    is_text: bool
    where: str
    delimited: tuple[Path, str, str | None] | None = None
    by_position: bool = False
    excess: str | None = None
    may_be_damaged: bool = False


def scan(path: str | Path, *, format: str | None = None, encoding: str = "utf8") -> OpenTable:
    """Open a csv, tsv, parquet, RecBole .inter, MovieLens .dat, JSON-lines or Excel file.

    All but Excel files are opened without reading them.

    Parameters
    ----------
    path : the file, or a folder of Parquet files; csv, tsv, dat, inter and json files may be compressed with
        gzip
    format : one of `FORMATS`; by default the suffix decides, and for other suffixes the content
    encoding : ``utf8``, or ``utf8-lossy`` for old files in another encoding; under ``utf8`` only ids must be
        UTF-8, so that a description in another encoding does no harm

    Notes
    -----
    A text file has a header unless its first line holds a number. Files of format ``dat`` (``.dat``,
    ``.data``, ``.txt``, ``.rating``) may be separated by ``::``, tabs, commas, semicolons, bars or blanks;
    without a header their columns are user, item, rating, timestamp. ``lists`` files have one line of item
    ids per user, optionally preceded by their number; ``dicts`` files have one Python dictionary of texts per
    line. The sheets of an Excel file are read as one table, empty ones left out.
    """
    if not str(path).strip():
        raise InvalidData("data must be named, but the name of the file is empty. Name a file.")
    where = f"'{path}'"
    if _URL.match(str(path)) and not Path(path).exists():
        raise InvalidData(f"data must be a file of this machine, but {where} is a URL. Download it first.")
    with readable(where, "file"):
        path = _existing(Path(path))
        if path.is_dir():
            return _scan_folder(path)
        if format is None:
            format = _guess_format(path)
    check_choice("format", format, FORMATS)
    with readable(where, f"{format} file"):
        if format == "parquet":
            check_parquet(path)
            frame = pl.scan_parquet(polars_path(path), glob=False)
            return OpenTable(frame, frame.collect_schema().names(), is_text=False, where=where)
        if format == "json":
            _first_lines(path, where)
            frame = pl.scan_ndjson(polars_path(path), infer_schema_length=1000)
            return OpenTable(frame, frame.collect_schema().names(), is_text=False, where=where)
        if format == "lists":
            return OpenTable(_item_lists(path, where), ["user", "item"], is_text=False, where=where)
        if format == "dicts":
            return _scan_dicts(path, where)
        if format == "excel":
            return _scan_sheets(path, where)
        return _scan_text(path, format, where, lossy=encoding == "utf8-lossy")


def _scan_folder(folder: Path) -> OpenTable:
    """Open the Parquet files of a folder and below as one table, in the order of their names."""
    paths = sorted(path for path in parquet_parts(folder) if path.is_file())
    frames, schemas = [], []
    for path in paths:
        with readable(f"'{path}'", "parquet file"):
            check_parquet(path)
            frames.append(pl.scan_parquet(polars_path(path), glob=False))
            schemas.append(frames[-1].collect_schema())
        if schemas[-1] != schemas[0]:
            columns = [", ".join(f"{name} {kind}" for name, kind in schema.items()) for schema in schemas]
            raise InvalidData(
                f"all files of a folder must have the same columns, but '{path}' has {columns[-1]} and "
                f"'{paths[0]}' has {columns[0]}. Write them alike, or name one file."
            )
    where = f"'{folder}' ({len(paths):,} files)"
    return OpenTable(pl.concat(frames), schemas[0].names(), is_text=False, where=where)


def parquet_parts(folder: Path) -> Iterator[Path]:
    """Yield the Parquet files of a folder and below, without hidden ones.

    Raises
    ------
    InvalidData
        When more than ``MOST_OTHERS`` other files lie there, as below the root of a disk.
    """
    n_others = 0
    for place, _, names in os.walk(folder):
        paths = [Path(place, name) for name in names if name.endswith(".parquet")]
        yield from (path for path in paths if not is_hidden(path.relative_to(folder).as_posix()))
        n_others += 1 + len(names) - len(paths)
        if n_others > MOST_OTHERS:
            raise InvalidData(
                f"a folder of data must hold at most {MOST_OTHERS:,} files and folders beside its .parquet "
                f"files, but '{folder}' holds more. Name the folder of the data."
            )


def is_hidden(path: str) -> bool:
    """Whether a path below a folder of data is hidden, as writers hide what is not finished.

    A dot or an underscore before the name of a file or folder hides it; when a writer is killed it stays.

    Examples
    --------
    >>> [is_hidden(path) for path in ("day=1/a.parquet", "_day=1/a.parquet", "_tmp/a.parquet", ".a.parquet")]
    [False, False, True, True]
    """
    names = path.split("/")
    return any(name.startswith(".") or (name.startswith("_") and "=" not in name) for name in names)


def _scan_sheets(path: Path, where: str) -> OpenTable:
    """Read the sheets of an Excel file as one table, in their order."""
    try:
        sheets = pl.read_excel(path, sheet_id=0, raise_if_empty=False)
    except ImportError:
        raise InvalidData(
            f"{where} is an Excel file, and reading it needs fastexcel. Install it with "
            f"pip install 'truerank[excel]', or save the sheet as CSV and name that file."
        ) from None
    except Exception as error:  # the reader of Excel files has errors of its own
        raise InvalidData(
            f"{where} must be an Excel file, but it cannot be read ({str(error).splitlines()[0]}). "
            f"Save the sheet as CSV and name that file."
        ) from None
    filled = {name: sheet for name, sheet in sheets.items() if sheet.height}
    if not filled:
        raise InvalidData(f"{where} must hold interactions, but its sheets are empty.")
    (first, frame), *others = filled.items()
    for name, sheet in others:
        if sheet.columns != frame.columns:
            raise InvalidData(
                f"all sheets of {where} must have the same columns, but {name!r} has "
                f"{_listed(sheet.columns)} and {first!r} has {_listed(frame.columns)}. "
                f"Save the sheet with the events as CSV and name that file."
            )
    joined = pl.concat(filled.values(), how="vertical_relaxed")
    return OpenTable(joined.lazy(), joined.columns, is_text=False, where=where)


def _existing(path: Path) -> Path:
    if path.is_dir():
        if any(parquet_parts(path)):
            return path
        inside = sorted(
            child.name for child in path.iterdir() if child.is_file() and not child.name.startswith(".")
        )
        hint = f" Name one file in it, such as {inside[0]!r}." if inside else ""
        raise InvalidData(
            f"data must be a file or a folder with .parquet files, but '{path}' is a folder without.{hint}"
        )
    check_input(path, "data")
    if not path.exists():
        around = [child.name for child in path.parent.iterdir()] if path.parent.is_dir() else []
        near = difflib.get_close_matches(path.name, around, n=1, cutoff=0.7)
        hint = f" Did you mean '{path.parent / near[0]}'?" if near else ""
        raise InvalidData(f"there is no file '{path}'.{hint}")
    if path.stat().st_size == 0:
        raise InvalidData(f"'{path}' must hold interactions, but it is empty.")
    if path.suffix == ".zip":
        raise InvalidData(f"'{path}' is a zip archive. Unpack it and name the file inside.")
    return path


def _guess_format(path: Path) -> str:
    with path.open("rb") as file:
        if file.read(4) == b"PAR1":
            return "parquet"
    return _SUFFIXES.get(Path(path.name.removesuffix(".gz")).suffix.lower(), "dat")


def _first_lines(path: Path, where: str) -> tuple[int, list[str]]:
    """Return how many lines are blank before the first that is not, and the first ones that are not.

    Raises
    ------
    InvalidData
        When the file is not text.
    """
    with path.open("rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
    with gzip.open(path, "rb") if packed else path.open("rb") as file:
        start = file.read(1 << 16)
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InvalidData(
            f"{where} must be a text table in UTF-8, but it is in UTF-16, as Excel writes 'Unicode text'. "
            f"Save it as 'CSV UTF-8'."
        )
    if start.startswith((b"PK\x03\x04", b"\xd0\xcf\x11\xe0")):
        raise InvalidData(
            f"{where} must be a text table, but it is an Excel file or an archive. Name an Excel file .xlsx "
            f"or .xls, unpack an archive."
        )
    if b"\x00" in start:
        raise InvalidData(f"{where} must be a text table, but it holds binary data. Name its format.")
    lines = start.decode("utf8", errors="replace").lstrip("\ufeff").splitlines()
    filled = [row for row, line in enumerate(lines) if line.strip()][:20]
    if not filled:
        raise InvalidData(f"{where} must hold interactions, but it holds only blank lines.")
    return filled[0], [lines[row] for row in filled]


def _scan_text(path: Path, format: str, where: str, *, lossy: bool) -> OpenTable:
    n_blank, lines = _first_lines(path, where)
    separator = _separator(lines[0], format)
    cells = [cell.strip().strip('"') for cell in lines[0].split(separator)]
    has_header = format == "inter" or _names_roles(cells) or not any(_NUMBER.match(cell) for cell in cells)
    names = cells if has_header else [str(number) for number in range(1, len(cells) + 1)]
    if has_header:
        names = [_INTER_TYPE.sub("", name) for name in names]
    by_position = format == "dat" and not has_header and 2 <= len(names) <= 4
    if len(separator) > 1:
        excess = "beyond the last field"
        fields = pl.col("line").str.splitn(separator, len(names) + 1).struct.rename_fields([*names, excess])
        frame = _scan_lines(path, stripped=False).slice(n_blank + has_header).select(fields).unnest("line")
        return OpenTable(
            frame,
            names,
            is_text=True,
            where=where,
            by_position=by_position,
            excess=excess,
            may_be_damaged=lossy,
        )
    quote = '"' if format == "csv" else None
    frame = pl.scan_csv(
        polars_path(path),
        separator=separator,
        quote_char=quote,
        has_header=has_header,
        infer_schema=False,
        new_columns=names,
        encoding="utf8-lossy",
        glob=False,
    )
    return OpenTable(
        frame,
        names,
        is_text=True,
        where=where,
        delimited=(path, separator, quote),
        by_position=by_position,
        may_be_damaged=lossy,
    )


def _separator(line: str, format: str) -> str:
    if format in ("tsv", "inter"):
        return "\t"
    if format == "csv":
        return max((",", ";", "\t", "|"), key=line.count)
    return next((mark for mark in ("::", "\t", ",", ";", "|", " ") if mark in line), "\t")


def _scan_lines(path: Path, *, stripped: bool = True) -> pl.LazyFrame:
    lines = pl.scan_csv(
        polars_path(path),
        separator="\x01",
        quote_char=None,
        has_header=False,
        infer_schema=False,
        new_columns=["line"],
        encoding="utf8-lossy",
        glob=False,
    )
    return lines.with_columns(pl.col("line").str.strip_chars()) if stripped else lines


def _scan_dicts(path: Path, where: str) -> OpenTable:
    names = re.findall(r"'([^']+)': ['\"]", _first_lines(path, where)[1][0])
    # A text ends before a comma or the brace: texts that follow each other, which Python joins, are refused.
    quoted = r"{mark}((?:[^{mark}\\]|\\.)*){mark}\s*[,}}]"
    columns = [
        pl.coalesce(
            pl.col("line")
            .str.extract(rf"(?:^\{{|, ?)'{re.escape(name)}': " + quoted.format(mark=mark))
            .map_batches(partial(_unescaped, mark=mark), return_dtype=pl.String, is_elementwise=True)
            for mark in "'\""
        ).alias(name)
        for name in names
    ]
    return OpenTable(_scan_lines(path).select(columns), names, is_text=True, where=where)


def _unescaped(texts: pl.Series, *, mark: str) -> pl.Series:
    """Return what Python takes literals for, given without their marks; missing where they are none."""
    has_escape = texts.str.contains("\\", literal=True).fill_null(False)
    if not has_escape.any():
        return texts
    return pl.Series(
        [_literal(mark + text + mark) if text and "\\" in text else text for text in texts.to_list()],
        dtype=pl.String,
    )


def _literal(text: str) -> str | None:
    with warnings.catch_warnings():  # Python keeps the backslash of escapes that it does not know, and warns
        warnings.simplefilter("ignore")
        try:
            found = ast.literal_eval(text)
            found.encode()  # no text that is no Unicode
        except (ValueError, SyntaxError, MemoryError):
            return None
    return str(found)


def _item_lists(path: Path, where: str) -> pl.LazyFrame:
    _first_lines(path, where)
    lines = (
        _scan_lines(path).select(pl.col("line").str.split(" ").alias("item")).with_row_index("user").collect()
    )
    counted = pl.col("item").list.first() == (pl.col("item").list.len() - 1).cast(pl.String)
    if lines.select(counted.all()).item():
        lines = lines.with_columns(pl.col("item").list.slice(1))
    return (
        lines.lazy()
        .explode("item")
        .filter(pl.col("item").is_not_null() & (pl.col("item") != ""))
        .with_columns(pl.col("item").cast(pl.Int64))
    )


ROLES = ("user", "item", "rating", "timestamp")

#: Accepted names per role, in lower case and without ``_``, ``-``, ``.`` and blanks.
ALIASES: Mapping[str, tuple[str, ...]] = {
    "user": (
        *("user", "userid", "uid", "reviewerid", "customerid", "visitorid", "memberid"),
        *("profileid", "profilename", "reviewprofilename"),
    ),
    "item": (
        *("item", "itemid", "iid", "movie", "movieid", "asin", "parentasin", "businessid", "isbn", "bookid"),
        *(
            "product",
            "productid",
            "songid",
            "trackid",
            "artistid",
            "articleid",
            "newsid",
            "videoid",
            "gameid",
        ),
        *("beerid", "beerbeerid", "locationid", "venueid", "poiid", "stockcode", "sku"),
    ),
    "rating": (
        *("rating", "ratings", "score", "stars", "overall", "bookrating", "reviewoverall"),
        *("weight", "count", "plays", "playcount", "quantity", "value"),
    ),
    "timestamp": (
        *("timestamp", "time", "ts", "datetime", "date", "eventtime", "createdat", "dateadded"),
        *("unixreviewtime", "invoicedate"),
    ),
}


@dataclass(frozen=True)
class ColumnChoice:
    """The column chosen for each role; ``str()`` writes it as in ``--columns``.

    Examples
    --------
    >>> print(choose(["userId", "movieId", "rating"]))
    user=userId, item=movieId, rating=rating
    """

    user: str
    item: str
    rating: str | None = None
    timestamp: str | None = None
    keep: tuple[str, ...] = ()

    def __str__(self) -> str:
        chosen = [(role, getattr(self, role)) for role in ROLES]
        shown = [f"{role}={column}" for role, column in chosen if column is not None]
        return ", ".join([*shown, *(f"kept {column}" for column in self.keep)])


def parse_columns(text: str) -> dict[str, str]:
    """Read ``user=a,item=b``; an empty name switches an optional role off.

    Examples
    --------
    >>> parse_columns("user=a, item=b, rating=")
    {'user': 'a', 'item': 'b', 'rating': ''}
    """
    requested: dict[str, str] = {}
    for part in text.split(","):
        role, equals, column = (piece.strip() for piece in part.partition("="))
        if not equals or role in requested:
            raise InvalidParameter(
                f"columns must be written once each as user=NAME,item=NAME,rating=NAME,timestamp=NAME, "
                f"got {text!r}."
            )
        requested[role] = column
    _check_roles(requested)
    return requested


def choose(
    names: Sequence[str],
    requested: Mapping[str, str] | None = None,
    *,
    keep: Sequence[str] = (),
    where: str = "the data",
    by_position: bool = False,
) -> ColumnChoice:
    """Choose one column per role from the names a table has.

    Parameters
    ----------
    names : the table's column names
    requested : column name by role, as given by the caller; it has priority over usual names
    keep : further columns to keep
    where : name of the table in messages
    by_position : the table has no header and follows the order user, item, rating, timestamp

    Raises
    ------
    InvalidData
        When a needed role has no column, a role has several, or a named column does not exist.
    """
    requested = dict(requested or {})
    _check_roles(requested)
    for column in [*(name for name in requested.values() if name), *keep]:
        if column not in names:
            raise InvalidData(
                f"{where} must have a column {column!r}, found {_listed(names)}. "
                f"{suggestion(column, tuple(names))}"
            )
    chosen: dict[str, str | None] = {role: requested[role] or None for role in requested}
    free = [name for name in names if name not in requested.values()]
    for position, role in enumerate(ROLES):
        if role not in chosen:
            if by_position and not requested:
                chosen[role] = names[position] if position < len(names) else None
            else:
                chosen[role] = _match(role, free, names, where)
    taken = [column for column in chosen.values() if column is not None]
    if len(set(taken)) < len(taken):
        raise InvalidData(f"each role must have its own column of {where}, got {requested}.")
    return ColumnChoice(
        user=_needed("user", chosen, names, where),
        item=_needed("item", chosen, names, where),
        rating=chosen["rating"],
        timestamp=chosen["timestamp"],
        keep=tuple(keep),
    )


def _check_roles(requested: Mapping[str, str]) -> None:
    for role in requested:
        if role not in ROLES:
            raise InvalidParameter(f"columns has no role {role!r}. {suggestion(role, ROLES)}")


def _match(role: str, free: Sequence[str], names: Sequence[str], where: str) -> str | None:
    matches = [name for name in free if _is_usual(name, role)]
    if len(matches) > 1:
        raise InvalidData(
            f"{where} must have one {role} column, but {' and '.join(map(repr, matches))} both may be it. "
            f"Choose with columns={{{role!r}: {matches[0]!r}}}."
        )
    return matches[0] if matches else None


def _is_usual(name: str, role: str) -> bool:
    return re.sub(r"[-_.\s/]", "", name).lower() in ALIASES[role]


def _names_roles(cells: Sequence[str]) -> bool:
    """Whether the cells of a line name users and items, so that it is a header although it has a number."""
    return all(any(_is_usual(cell, role) for cell in cells) for role in ("user", "item"))


def _needed(role: str, chosen: Mapping[str, str | None], names: Sequence[str], where: str) -> str:
    column = chosen[role]
    if column is None:
        article = "an" if role == "item" else "a"
        raise InvalidData(
            f"{where} must have {article} {role} column, but none of {_listed(names)} is known as one. "
            "Name it with columns={'user': NAME, 'item': NAME} (without a header, columns are 1, 2, ...)."
        )
    return column


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:12]))
    return f"{shown} and {len(names) - 12} more" if len(names) > 12 else shown or "no column"
