"""Small tables of users' own: reading them and finding columns by their usual names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from truerank.core.errors import InvalidData, suggestion

if TYPE_CHECKING:
    import polars as pl

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
    "replacement": ("replacement", "replace", "withreplacement"),
    "law": ("law", "sampling"),
    "shared": ("shared", "paired"),
    "stopping": ("stopping", "stoppingrule"),
    "n_test_users": ("n_test_users", "ntestusers"),
}
SUFFIXES = (".csv", ".tsv", ".parquet")


def read_frame(path: Path) -> pl.DataFrame:
    """Read a csv, tsv or Parquet file whole.

    Raises
    ------
    InvalidData
        When there is no such file, it is a folder, empty, damaged or of another kind.
    """
    import polars as pl

    if path.is_dir():
        raise InvalidData(f"'{path}' must be a file, but it is a folder. Name a file in it.")
    if not path.is_file():
        raise InvalidData(f"'{path}' must be an existing file, but there is none. Check the path.")
    if path.suffix.lower() not in SUFFIXES:
        raise InvalidData(
            f"'{path}' must end in {', '.join(SUFFIXES)}, got {path.suffix or 'no suffix'!r}. Convert it."
        )
    try:
        if path.suffix.lower() == ".parquet":
            frame = pl.read_parquet(path, glob=False)
        else:
            separator = "," if path.suffix.lower() == ".csv" else "\t"
            frame = pl.read_csv(path, separator=separator, infer_schema_length=None, glob=False)
    except (pl.exceptions.PolarsError, OSError) as error:
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise InvalidData(f"'{path}' must be a readable table, but {reason}. Write it anew.") from None
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
        When a needed column is missing, two columns have the same meaning or a column is not known.
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
    return frame.select(**chosen)


def _role(name: str, roles: Sequence[str]) -> str | None:
    plain = _plain(name)
    return next((role for role in roles if plain in map(_plain, ALIASES[role])), None)


def _plain(name: str) -> str:
    return re.sub(r"[-_.\s]", "", name).lower()
