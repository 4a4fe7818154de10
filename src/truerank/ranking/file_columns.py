"""Columns of tables of ranks: finding them by their usual names and checking their values.

Every error names the table, the column, what must hold and what was found.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

import numpy as np

from truerank.core.checkpoint import polars_path, readable
from truerank.core.errors import MOST_ITEMS, InvalidData, InvalidParameter, check_at_least, suggestion
from truerank.core.file_checks.cells import check_cells
from truerank.core.file_checks.parquet import check_parquet
from truerank.core.interactions import BLANK, tell_of_blanks, typed_ids
from truerank.core.ranks import Design, SampledRanks, Stopping
from truerank.core.types import FloatArray, IntArray

if TYPE_CHECKING:
    import polars as pl


_TEXT = re.compile(r"while rank <= (\d{1,10}):((?: \d{1,10})+)")


def format_stopping(stopping: Stopping | None) -> str:
    """Return the stopping rule as text, empty for samples of fixed size.

    Examples
    --------
    >>> format_stopping(Stopping((99, 199, 399)))
    'while rank <= 1: 99 199 399'
    >>> format_stopping(None)
    ''
    """
    if stopping is None:
        return ""
    return f"while rank <= {stopping.rank}: {' '.join(map(str, stopping.sizes))}"


def parse_stopping(text: object, where: str) -> Stopping | None:
    """Return the stopping rule of a text, None for an empty text.

    Raises
    ------
    InvalidData
        When the text is not a valid rule.
    """
    if text is None or not str(text).strip():
        return None
    match = _TEXT.fullmatch(" ".join(str(text).split()))
    try:
        if match is not None:
            return Stopping(tuple(map(int, match[2].split())), int(match[1]))
        reason = "that is not how a rule is written"
    except InvalidParameter as error:
        reason = str(error).rstrip(".")
    raise InvalidData(
        f"stopping of {where} must read like 'while rank <= 1: 99 199 399', with the numbers of negatives "
        f"after each round, got {str(text)!r}: {reason}. Correct it."
    )


def check_stopping(ranks: SampledRanks) -> None:
    """Raise when a row contradicts the stopping rule of its table.

    Raises
    ------
    InvalidData
        When a sample has a size that no round has, ended although its rank asked for more, or went on
        although its rank must have ended it before.
    """
    stopping = ranks.design.stopping
    if stopping is None or len(ranks) == 0:
        return
    sizes = np.array(stopping.sizes)
    last_size = np.full(len(ranks), sizes[-1])
    if not ranks.design.replacement:
        last_size = np.minimum(last_size, ranks.n_candidates)
    above = ranks.n_above - ranks.n_relevant_above
    turn = np.minimum(np.searchsorted(sizes, ranks.n_negatives), len(sizes) - 1)
    is_end = ranks.n_negatives == last_size
    before = np.where(turn > 0, sizes[turn - 1], 0)
    most = np.where(turn > 0, stopping.rank - 1, 0) + ranks.n_negatives - before
    for sentence, holds in (
        ("n_negatives must be the size of a round", (sizes[turn] == ranks.n_negatives) | is_end),
        (
            f"a sample with rank <= {stopping.rank} must go on to the last size",
            (above >= stopping.rank) | is_end,
        ),
        ("a sample must end with the round in which its rank exceeds the rule's", above <= most),
    ):
        if not holds.all():
            row = int(np.argmin(holds))
            raise InvalidData(
                f"by the rule '{format_stopping(stopping)}' {sentence}, but row {row} (counted from 0) has "
                f"rank {above[row] + 1} among {ranks.n_negatives[row]} negatives. Correct the table or rule."
            )


_WORDS = {
    **dict.fromkeys(("true", "yes", "1", "with"), True),
    **dict.fromkeys(("false", "no", "0", "without"), False),
}


def counts_above(counts: dict[str, IntArray], zero_based: bool, where: str) -> IntArray:
    """Return n_above from the column rank or n_above."""
    if "rank" not in counts and "n_above" not in counts:
        raise InvalidData(f"{where} must have a column rank or n_above. Rename yours or add it.")
    for name, least in (("n_above", 0), ("rank", 0 if zero_based else 1)):
        if name in counts and counts[name].min() < least:
            lowest = counts[name].min()
            advice = (
                "If the best rank is 0 in this file, set zero_based=True."
                if (name, lowest) == ("rank", 0)
                else "Correct the table."
            )
            raise InvalidData(f"{name} of {where} must be at least {least}, got {lowest}. {advice}")
    if "rank" not in counts:
        return counts["n_above"]
    above = counts["rank"] - (0 if zero_based else 1)
    if "n_above" in counts and (above != counts["n_above"]).any():
        row = int(np.argmax(above != counts["n_above"]))
        raise InvalidData(
            f"rank of {where} must be n_above + 1, but row {row} (counted from 0) has rank "
            f"{counts['rank'][row]} and n_above {counts['n_above'][row]}. Remove one of the columns."
        )
    return above


def with_constant(
    frame: pl.DataFrame, name: str, value: int | None, symbol: str, what: str, where: str
) -> pl.DataFrame:
    """Add a column that is the same for all rows, unless the table has it."""
    import polars as pl

    argument = "n_items" if name == "n_pool" else name
    if value is not None:
        check_at_least(argument, value, 1, MOST_ITEMS)
    if name not in frame.columns:
        if value is None:
            raise InvalidData(
                f"{where} must say {symbol}, {what}, in a column {argument}. Or give {argument}={symbol}."
            )
        return frame.with_columns(pl.lit(value, dtype=pl.Int64).alias(name))
    if value is not None and not (frame[name] == value).all():
        other = frame[name].filter(frame[name] != value).first()
        raise InvalidData(
            f"{argument} of {where} must be {value} as given, got {other!r}. Leave {argument} out."
        )
    return frame


def integers(frame: pl.DataFrame, name: str, where: str) -> IntArray:
    """Return a column as integers; raise and name the row that holds something else."""
    import polars as pl

    column = frame[name]
    shown = "n_items" if name == "n_pool" else name
    if not column.dtype.is_numeric():
        numbers = column.cast(pl.Float64, strict=False) if column.dtype == pl.String else None
        bad = 0 if numbers is None else int(np.argmax(numbers.is_null().to_numpy()))
        raise InvalidData(
            f"{shown} of {where} must be integers, but row {bad} (counted from 0) holds {column[bad]!r}."
            " Correct it."
        )
    values = column.cast(pl.Float64).fill_null(np.nan).to_numpy()
    is_integer = np.isfinite(values) & (np.floor(values) == values) & (np.abs(values) < 2**53)
    if not is_integer.all():
        bad = int(np.argmin(is_integer))
        raise InvalidData(
            f"{shown} of {where} must be integers, but row {bad} (counted from 0) holds {column[bad]}."
            " Correct it."
        )
    return values.astype(np.int64)


def read_gain(frame: pl.DataFrame, where: str) -> FloatArray | None:
    """Return the gain of each target, None in a table without grades; raise where one is no number."""
    if "gain" not in frame.columns:
        return None
    column = frame["gain"]
    if not column.dtype.is_numeric() or column.null_count():
        raise InvalidData(f"gain of {where} must be one number per row. Correct or remove the column.")
    gain: FloatArray = column.to_numpy().astype(np.float64)
    if (gain == 0).any():
        row = int(np.argmax(gain == 0))
        raise InvalidData(
            f"the gain of a target must be above 0, but row {row} (counted from 0) of {where} has 0. "
            "Leave out items that are worth nothing: they are no targets."
        )
    return gain


def read_design(frame: pl.DataFrame, replacement: bool | None, where: str) -> Design:
    """Return the sampling design, which must be the same in all rows."""
    constants: dict[str, bool | str | int | Stopping | None] = {}
    for name in ("replacement", "law", "shared", "stopping", "n_test_users"):
        if name not in frame.columns:
            continue
        values = frame[name].unique().to_list()
        if len(values) > 1:
            shown = " and ".join(sorted(_shown(value) for value in values))
            raise InvalidData(
                f"{where} must have been sampled in one way, but {name} is both {shown}. Split the file."
            )
        constants[name] = _read_constant(name, values[0], where)
    if "law" in constants and constants["law"] not in get_args(get_type_hints(Design)["law"]):
        raise InvalidData(
            f"law of {where} must be uniform, popularity, weighted or given, got {constants['law']!r}. "
            "Correct it."
        )
    if replacement is not None and constants.setdefault("replacement", replacement) != replacement:
        raise InvalidData(
            f"replacement of {where} must be {str(replacement).lower()} as given, "
            f"got {str(constants['replacement']).lower()}. Leave replacement out."
        )
    return Design(**constants)  # type: ignore[arg-type]


def _shown(value: Any) -> str:
    return "empty" if value in (None, "") else str(value).lower()


def _read_constant(name: str, value: Any, where: str) -> bool | str | int | Stopping | None:
    if name == "law":
        return str(value)
    if name == "n_test_users":
        return _count(name, value, where)
    return parse_stopping(value, where) if name == "stopping" else _truth(name, value, where)


def _count(name: str, value: object, where: str) -> int | None:
    text = "" if value is None else str(value).strip()
    if text and not (text.isdigit() and int(text) >= 1):
        raise InvalidData(f"{name} of {where} must be an integer >= 1, got {value!r}. Correct it.")
    return int(text) if text else None


def _truth(name: str, value: object, where: str) -> bool:
    text = str(value).strip().lower()
    if text not in _WORDS:
        raise InvalidData(f"{name} of {where} must be true or false, got {value!r}. Correct it.")
    return _WORDS[text]


#: Accepted names per column, in lower case and without ``_``, ``-``, ``.`` and blanks; the first is written.
ALIASES: Mapping[str, tuple[str, ...]] = {
    "model": ("model", "modelname", "algorithm", "recommender", "system"),
    "user": ("user_id", "user", "uid", "userindex", "query", "queryid", "qid"),
    "item": ("item_id", "item", "iid", "target", "targetid", "movieid"),
    "rank": ("rank", "sampledrank", "position", "r"),
    "n_above": ("n_above", "above", "nhigher", "nbetter"),
    "n_tied": ("n_tied", "tied", "ties", "nties", "nequal"),
    "n_negatives": ("n_negatives", "negatives", "nneg", "numnegatives", "nsampled", "m"),
    "n_pool": ("n_items", "n_pool", "items", "pool", "poolsize", "numitems", "catalogue", "cataloguesize"),
    "n_relevant": ("n_relevant", "relevant", "ntargets"),
    "n_relevant_above": ("n_relevant_above", "relevantabove"),
    "n_relevant_tied": ("n_relevant_tied", "relevanttied"),
    "n_candidates": ("n_candidates", "candidates", "ncandidate"),
    "gain": ("gain", "grade", "relevance"),
    "replacement": ("replacement", "replace", "withreplacement"),
    "law": ("law", "sampling"),
    "shared": ("shared", "paired"),
    "stopping": ("stopping", "stoppingrule"),
    "n_test_users": ("n_test_users", "ntestusers"),
}
SUFFIXES = (".csv", ".tsv", ".parquet")
_IDS = ("user", "item", "model")


def read_rank_frame(path: Path) -> pl.DataFrame:
    """Read a csv, tsv or Parquet file whole.

    Raises
    ------
    InvalidData
        When there is no such file, it is a folder, empty, damaged or of another kind.
    """
    import polars as pl

    with readable(f"'{path}'", "table"):
        is_folder, is_file = path.is_dir(), path.is_file()
    if is_folder:
        raise InvalidData(f"'{path}' must be a file, but it is a folder. Name a file in it.")
    if not is_file:
        raise InvalidData(f"'{path}' must be an existing file, but there is none. Check the path.")
    if path.suffix.lower() not in SUFFIXES:
        raise InvalidData(
            f"'{path}' must end in {', '.join(SUFFIXES)}, got {path.suffix or 'no suffix'!r}. Convert it."
        )
    with readable(f"'{path}'", "table"):
        if path.suffix.lower() == ".parquet":
            check_parquet(path)
            frame = pl.read_parquet(polars_path(path), glob=False)
        else:
            separator = "," if path.suffix.lower() == ".csv" else "\t"
            check_cells(path, separator)
            head = pl.read_csv(
                polars_path(path), separator=separator, n_rows=0, infer_schema=False, glob=False
            )
            texts = {name: pl.String for name in head.columns if _role(name, _IDS) is not None}
            frame = pl.read_csv(
                polars_path(path),
                separator=separator,
                infer_schema_length=None,
                schema_overrides=texts,
                glob=False,
            )
    if frame.height == 0:
        raise InvalidData(f"'{path}' must have at least one row, but it is empty. Check how it was written.")
    return frame


def pick_columns(
    frame: pl.DataFrame, needed: Sequence[str], optional: Sequence[str] = (), *, where: str
) -> pl.DataFrame:
    """Return the known columns under their own names.

    Raises
    ------
    InvalidData
        When a needed column is missing, two columns have the same meaning, a column is not known, or an id
        is missing.
    """
    chosen: dict[str, str] = {}
    for name in frame.columns:
        role = _role(name, (*needed, *optional))
        if role is None:
            known = tuple(ALIASES[role][0] for role in (*needed, *optional))
            raise InvalidData(
                f"{where} must have known columns only, got {name!r}. {suggestion(name, known)} "
                "Rename or remove it."
            )
        if role in chosen:
            raise InvalidData(
                f"{where} must have one column per meaning, but {chosen[role]!r} and {name!r} both are "
                f"{ALIASES[role][0]}. Remove one."
            )
        chosen[role] = name
    for role in needed:
        if role not in chosen:
            raise InvalidData(
                f"{where} must have a column {ALIASES[role][0]}, found {', '.join(frame.columns)}. "
                "Rename yours or add it."
            )
    picked = frame.select(**chosen)
    return picked.with_columns(_ids(picked[name], name, where) for name in _IDS if name in chosen)


def _ids(column: pl.Series, name: str, where: str) -> pl.Series:
    """Return ids as integers where all are written so, else as written (`truerank.core.interactions`)."""
    import polars as pl

    shown = ALIASES[name][0]
    if column.dtype.is_nested() or column.dtype in (pl.Binary, pl.Object):
        raise InvalidData(f"{shown} of {where} must be integers or text, got {column.dtype}. Convert it.")
    texts = column.cast(pl.String)
    is_missing = texts.is_null() | texts.str.contains(BLANK)
    if is_missing.any() or (column.dtype.is_float() and not column.is_finite().all()):
        raise InvalidData(f"{shown} of {where} must have no gaps. Fill them or remove the rows.")
    tell_of_blanks(texts, f"{shown} of {where}")
    return texts if name == "model" else typed_ids(texts, f"{shown} of {where}")


def _role(name: str, roles: Sequence[str]) -> str | None:
    plain = _plain(name)
    return next((role for role in roles if plain in map(_plain, ALIASES[role])), None)


def _plain(name: str) -> str:
    return re.sub(r"[-_.\s]", "", name).lower()
