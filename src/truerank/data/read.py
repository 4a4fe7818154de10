"""Read interactions from files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from truerank.core.check import check_choice
from truerank.core.interactions import Interactions
from truerank.core.progress import SILENT, Progress, tracked
from truerank.core.types import IntArray
from truerank.core.vocabulary import Vocabulary
from truerank.data.cast import Reader
from truerank.data.coding import encode, encode_with
from truerank.data.columns import ColumnChoice, choose
from truerank.data.duplicate import merge_duplicates
from truerank.data.scan import Table, scan


def read_interactions(
    path: str | Path,
    *,
    columns: Mapping[str, str] | None = None,
    keep: Sequence[str] = (),
    duplicates: str = "last",
    name: str | None = None,
    vocabularies: tuple[Vocabulary, Vocabulary] | None = None,
    unknown: Literal["error", "drop"] = "error",
    format: str | None = None,
    progress: Progress = SILENT,
    tell: Callable[[str], None] | None = None,
) -> Interactions:
    """Read a csv, tsv, parquet, .inter, .dat or JSON-lines file of interactions.

    Only the needed columns are read, one after the other; memory stays near that of the result.

    Parameters
    ----------
    path : the file
    columns : role (user, item, rating, timestamp) to column name; common names are found without it,
        and an empty name switches rating or timestamp off
    keep : further columns to carry in ``labels``
    duplicates : policy for repeated pairs, see `merge_duplicates`
    name : what the data are called in results; the file's name by default
    vocabularies : those of users and items to use, such as those of the train data
    unknown : what to do with ids that are not in the given vocabularies
    format : one of ``csv, tsv, parquet, inter, dat, json, lists, dicts``; by default the suffix decides
    progress, tell : where to show progress and to say which columns were chosen

    Raises
    ------
    InvalidData
        One sentence for each thing a file can have wrong.
    """
    table = scan(path, format=format)
    choice = choose(table.names, columns, keep=keep, where=table.where, by_position=table.by_position)
    if tell is not None:
        tell(f"columns of {path}: {choice}")
    name = name if name is not None else Path(path).name.split(".")[0]
    with tracked(progress, f"reading {name}"):
        return read_table(
            table, choice, duplicates=duplicates, name=name, vocabularies=vocabularies, unknown=unknown
        )


def choose_columns(
    path: str | Path, columns: Mapping[str, str] | None = None, *, format: str | None = None
) -> ColumnChoice:
    """Return the columns that `read_interactions` would take from a file."""
    table = scan(path, format=format)
    return choose(table.names, columns, where=table.where, by_position=table.by_position)


def read_table(
    table: Table,
    choice: ColumnChoice,
    *,
    duplicates: str = "last",
    name: str = "data",
    vocabularies: tuple[Vocabulary, Vocabulary] | None = None,
    unknown: str = "error",
) -> Interactions:
    """Read the chosen columns of an opened table."""
    check_choice("unknown", unknown, ("error", "drop"))
    reader = Reader(table)
    reader.check_lines()
    user, users = _codes(reader, choice.user, "user", vocabularies and vocabularies[0], unknown)
    item, items = _codes(reader, choice.item, "item", vocabularies and vocabularies[1], unknown)
    value = None if choice.rating is None else reader.numbers(choice.rating)
    time = None if choice.timestamp is None else reader.times(choice.timestamp)
    labels = {column: reader.labels(column) for column in choice.keep}
    origin = {"rows_read": len(user)}
    known = None
    if vocabularies is not None:
        known = (user >= 0) & (item >= 0)
        origin["unknown_rows"] = int(len(known) - known.sum())
        if not origin["unknown_rows"]:
            known = None
    if known is not None:
        user, item = user[known], item[known]
        value = None if value is None else value[known]
        time = None if time is None else time[known]
        labels = {column: array[known] for column, array in labels.items()}
    read = Interactions(
        user, item, users, items, value=value, time=time, labels=labels, name=name, origin=origin
    )
    return merge_duplicates(read, duplicates)


def _codes(
    reader: Reader, column: str, what: str, vocabulary: Vocabulary | None, unknown: str
) -> tuple[IntArray, Vocabulary]:
    ids = reader.ids(column)
    if vocabulary is None:
        return encode(ids)
    return encode_with(ids, vocabulary, unknown=unknown, what=what), vocabulary
