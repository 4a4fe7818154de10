"""Columns of a table of sampled ranks: what must hold for each, and the sentence when it does not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args, get_type_hints

import numpy as np

from truerank.core.errors import InvalidData
from truerank.core.ranks import Design
from truerank.core.stopping import Stopping
from truerank.core.types import IntArray
from truerank.ranks.stopping_column import parse_stopping

if TYPE_CHECKING:
    import polars as pl

_WORDS = {
    **dict.fromkeys(("true", "yes", "1", "with"), True),
    **dict.fromkeys(("false", "no", "0", "without"), False),
}


def counts_above(counts: dict[str, IntArray], zero_based: bool, where: str) -> IntArray:
    """Return n_above from what the table has, a rank or the count itself."""
    if "rank" not in counts and "n_above" not in counts:
        raise InvalidData(f"{where} must have a column rank or n_above. Rename yours or add it.")
    for name, least in (("n_above", 0), ("rank", 0 if zero_based else 1)):
        if name in counts and counts[name].min() < least:
            lowest = counts[name].min()
            advice = (
                "If the best rank is 0 in this file, say so with --zero-based (zero_based=True)."
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
    frame: pl.DataFrame, name: str, value: int | None, what: str, flag: str, where: str
) -> pl.DataFrame:
    """Add a column that is the same for all rows, unless the table has it."""
    import polars as pl

    argument = "n_items" if name == "n_pool" else name
    if name not in frame.columns:
        if value is None:
            raise InvalidData(
                f"{where} must say {what} in a column {argument}. Give it with {flag} ({argument}=...)."
            )
        return frame.with_columns(pl.lit(value, dtype=pl.Int64).alias(name))
    if value is not None and not (frame[name] == value).all():
        other = frame[name].filter(frame[name] != value).first()
        raise InvalidData(
            f"{argument} of {where} must be {value} as given with {flag}, got {other!r}. Leave {flag} out."
        )
    return frame


def integers(frame: pl.DataFrame, name: str, where: str) -> IntArray:
    """Return a column as integers, or say which row holds something else."""
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


def read_design(frame: pl.DataFrame, replacement: bool | None, where: str) -> Design:
    """Return the one design of all rows."""
    found: dict[str, bool | str | int | Stopping | None] = {}
    for name in ("replacement", "law", "shared", "stopping", "n_test_users"):
        if name not in frame.columns:
            continue
        values = frame[name].unique().to_list()
        if len(values) > 1:
            shown = " and ".join(sorted(_shown(value) for value in values))
            raise InvalidData(
                f"{where} must have been sampled in one way, but {name} is both {shown}. Split the file."
            )
        found[name] = _read_constant(name, values[0], where)
    if "law" in found and found["law"] not in get_args(get_type_hints(Design)["law"]):
        raise InvalidData(
            f"law of {where} must be uniform, popularity or given, got {found['law']!r}. Correct it."
        )
    if replacement is not None and found.setdefault("replacement", replacement) != replacement:
        raise InvalidData(
            f"replacement of {where} must be {str(replacement).lower()} as given with --replacement, "
            f"got {str(found['replacement']).lower()}. Leave --replacement out."
        )
    return Design(**found)  # type: ignore[arg-type]


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
