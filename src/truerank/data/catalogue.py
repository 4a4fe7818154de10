"""Catalogue of public data sets: finding local copies, and reading data sets by name."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import polars as pl

from truerank.core.checkpoint import readable
from truerank.core.errors import (
    DataWarning,
    InvalidData,
    InvalidParameter,
    UnknownName,
    suggests_arguments,
)
from truerank.core.interactions import Interactions
from truerank.core.progress import SILENT, Progress, as_progress, tracked
from truerank.data.clean import merge_duplicates, min_history, min_rating
from truerank.data.datasets import Dataset, datasets
from truerank.data.demo import demo
from truerank.data.download import download
from truerank.data.read import read_interactions, read_table
from truerank.data.table import OpenTable, choose, scan

_OWN_FORMAT = (".parquet", ".csv", ".csv.gz", ".tsv", ".tsv.gz", ".inter")
_SUFFIXES = (*_OWN_FORMAT, ".dat", ".data", ".txt", ".txt.gz", ".json", ".json.gz", ".jsonl", ".jsonl.gz")


def list_datasets() -> list[Dataset]:
    """Return all entries of the catalogue by name."""
    return [datasets()[name] for name in sorted(datasets())]


def describe(name: str) -> Dataset:
    """Return one entry of the catalogue.

    Examples
    --------
    >>> describe("ml-1m").n_items
    3706
    """
    if name not in datasets():
        raise UnknownName("data set", name, [*datasets(), "demo"])
    return datasets()[name]


def find_local(name: str) -> Path | None:
    """Return the local file of a data set, None if there is none.

    Searched, in this order, as ``NAME.parquet``, ``NAME.csv`` and so on in the folder ``$TRUERANK_DATA``
    and in ``../shared/data`` beside the working directory and beside the project.
    """
    local = _locate(describe(name))
    return None if local is None else local.path


def fetch(
    name: str,
    *,
    folder: str | Path | None = None,
    progress: Progress = SILENT,
    tell: Callable[[str], None] | None = None,
) -> list[Path]:
    """Return the files of a data set, downloading them if needed; parameters as in `download`.

    Raises
    ------
    InvalidData
        When the download fails, or must be done by hand; the message says how.
    """
    entry = describe(name)
    local = _locate(entry)
    if local is not None:
        return [local.path]
    if not entry.is_automatic:
        raise InvalidData(f"{name!r} cannot be downloaded automatically: {entry.by_hand}.")
    return [download(file, name=name, folder=folder, progress=progress, tell=tell) for file in entry.files]


@suggests_arguments
def load(
    name: str,
    *,
    columns: Mapping[str, str] | None = None,
    keep: Sequence[str] = (),
    duplicates: str = "last",
    folder: str | Path | None = None,
    time_format: str | None = None,
    times: Literal["needed", "optional"] = "needed",
    drop_missing: bool = False,
    progress: Progress | bool = SILENT,
    tell: Callable[[str], None] | None = None,
) -> Interactions:
    """Read a data set of the catalogue, from a local copy or after a download.

    Filters that belong to its definition are applied before repeated pairs are merged. An incomplete copy
    is used with a `DataWarning` and marked by ``origin["partial"]``.

    Parameters are those of `read_interactions` and `fetch`.
    """
    progress = as_progress(progress)
    if name == "demo":
        return demo()
    if name not in datasets() and Path(name).exists():
        raise InvalidParameter(
            f"load takes the name of a data set, but {name!r} is a path. Read it with "
            "truerank.read_interactions(path)."
        )
    entry = describe(name)
    local = _locate(entry)
    if local is not None and local.is_partial:
        warnings.warn(
            f"{name!r} is read from an incomplete copy, '{local.path}'; figures differ from those of the "
            f"whole data set.",
            DataWarning,
            stacklevel=2,
        )
    paths = fetch(name, folder=folder, progress=progress, tell=tell)
    table = _open(entry, paths)
    columns = columns or _own_columns(entry, table)
    choice = choose(table.names, columns, keep=keep, where=table.where, by_position=table.by_position)
    if tell is not None:
        tell(f"columns of {paths[0]}: {choice}")
    is_filtered = entry.min_rating is not None or entry.min_history > 0
    with tracked(progress, f"reading {name}"):
        events = read_table(
            table,
            choice,
            duplicates="keep" if is_filtered else duplicates,
            name=name,
            time_format=time_format,
            times=times,
            drop_missing=drop_missing,
            tell=tell,
        )
        if local is not None and local.is_partial:
            events = replace(events, origin={**events.origin, "partial": 1})
        return merge_duplicates(_defined(events, entry), duplicates) if is_filtered else events


def open_data(
    data: str | Path,
    *,
    columns: Mapping[str, str] | None = None,
    keep: Sequence[str] = (),
    duplicates: str = "last",
    format: str | None = None,
    time_format: str | None = None,
    times: Literal["needed", "optional"] = "needed",
    drop_missing: bool = False,
    progress: Progress = SILENT,
    tell: Callable[[str], None] | None = None,
) -> Interactions:
    """Read what a DATA argument names: an existing file, else a data set of the catalogue, else ``demo``.

    Raises
    ------
    UnknownName
        When there is no such file and no such data set.
    """
    text = str(data)
    if not text.strip():
        raise InvalidData("data must be named, but the name is empty. Name a file or a data set.")
    is_known = text == "demo" or text in datasets()
    looks_like_path = any(mark in text for mark in (os.sep, "/")) or Path(text).suffix in (
        *_SUFFIXES,
        ".xlsx",
        ".xls",
    )
    with readable(f"'{text}'", "file"):
        is_there, is_file = Path(data).exists(), Path(data).is_file()
    if is_file or (not is_known and (looks_like_path or is_there)):
        return read_interactions(
            data,
            columns=columns,
            keep=keep,
            duplicates=duplicates,
            format=format,
            time_format=time_format,
            times=times,
            drop_missing=drop_missing,
            progress=progress,
            tell=tell,
        )
    return load(
        text,
        columns=columns,
        keep=keep,
        duplicates=duplicates,
        time_format=time_format,
        times=times,
        drop_missing=drop_missing,
        progress=progress,
        tell=tell,
    )


def _defined(events: Interactions, entry: Dataset) -> Interactions:
    """Apply the filters that belong to the definition of a data set."""
    if entry.min_rating is not None and events.value is not None:
        events = min_rating(events, entry.min_rating)
    return min_history(events, entry.min_history) if entry.min_history else events


@dataclass(frozen=True)
class _Local:
    path: Path
    is_partial: bool


def _folders() -> list[Path]:
    folders = []
    named = os.environ.get("TRUERANK_DATA")
    if named:
        if not Path(named).is_dir():
            raise InvalidData(f"TRUERANK_DATA must be a folder, but {named!r} is none. Correct or unset it.")
        folders.append(Path(named))
    folders.append(Path("..") / "shared" / "data")
    project = Path(__file__).resolve().parents[3]
    if (project / "pyproject.toml").exists():
        folders.append(project.parent / "shared" / "data")
    return [folder for folder in folders if folder.is_dir()]


def _locate(entry: Dataset) -> _Local | None:
    for stems, is_partial in (((entry.name, *entry.local), False), (entry.partial, True)):
        for folder in _folders():
            for stem in stems:
                for suffix in _SUFFIXES:
                    path = folder / f"{stem}{suffix}"
                    if path.is_file():
                        return _Local(path, is_partial)
    return None


def _open(entry: Dataset, paths: Sequence[Path]) -> OpenTable:
    tables = [
        scan(
            path,
            format=None if path.name.endswith(_OWN_FORMAT) else entry.format,
            encoding=entry.encoding,
        )
        for path in paths
    ]
    if len(tables) == 1:
        return tables[0]
    frames = [
        table.frame.with_columns(pl.lit(file.part).alias(entry.part_column))
        for table, file in zip(tables, entry.files, strict=True)
    ]
    return replace(tables[0], frame=pl.concat(frames), names=[*tables[0].names, entry.part_column])


def _own_columns(entry: Dataset, table: OpenTable) -> Mapping[str, str] | None:
    """Return the entry's columns if the table has them, otherwise None: usual names are found without."""
    named = [column for column in entry.columns.values() if column]
    return entry.columns if named and all(column in table.names for column in named) else None
