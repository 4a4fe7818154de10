"""Catalogue of public data sets: finding local copies, downloading, and reading them by name."""

from __future__ import annotations

import logging
import os
import shutil
import warnings
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import polars as pl

from truerank.core.checkpoint import readable, replace_file
from truerank.core.errors import (
    DataWarning,
    InvalidData,
    InvalidParameter,
    MissingDependency,
    UnknownName,
    suggests_arguments,
)
from truerank.core.interactions import Interactions
from truerank.core.progress import SILENT, Progress, ProgressTask, as_progress, tracked
from truerank.data.clean import merge_duplicates, min_history, min_rating
from truerank.data.datasets import Dataset, RemoteFile, datasets
from truerank.data.demo import demo
from truerank.data.read import read_interactions, read_table
from truerank.data.table import OpenTable, choose, scan


def download(
    file: RemoteFile, *, name: str, folder: str | Path | None = None, progress: Progress = SILENT
) -> Path:
    """Download a file of the catalogue and return its path (that of the member, if it is an archive).

    An existing file with the right checksum is not downloaded again. No partial file is left behind.

    Parameters
    ----------
    file : what to download
    name : the data set, for its folder and for messages
    folder : where to put it; by default the user's cache (see ``pooch.os_cache``)

    Raises
    ------
    MissingDependency
        Without pooch.
    InvalidData
        When there is no connection, the server refuses, or the checksum differs.
    """
    try:
        import pooch
    except ImportError:
        raise MissingDependency("downloading data", "pooch", extra="data") from None
    target = Path(folder) if folder is not None else Path(pooch.os_cache("truerank"))
    target = target / name
    filename = file.url.rsplit("/", 1)[-1]
    logger = pooch.get_logger()
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        with tracked(progress, f"downloading {filename}") as task:
            downloader = pooch.HTTPDownloader(progressbar=_Bar(task), chunk_size=1 << 16, timeout=30)
            path = pooch.retrieve(
                file.url, file.checksum or None, fname=filename, path=target, downloader=downloader
            )
    except (OSError, ValueError) as error:  # requests' errors are OSError, pooch's checksum a ValueError
        raise _sentence(file, name, error) from None
    finally:
        logger.setLevel(level)
    return _member(Path(path), file) if file.member else Path(path)


def _member(archive: Path, file: RemoteFile) -> Path:
    """Unpack one member of a zip archive into the same folder."""
    target = archive.parent / Path(file.member).name
    if target.exists() and target.stat().st_mtime >= archive.stat().st_mtime:
        return target
    try:
        with zipfile.ZipFile(archive) as packed, packed.open(file.member) as source:
            replace_file(target, lambda part: shutil.copyfileobj(source, part, 1 << 20), "the unpacked file")
    except (zipfile.BadZipFile, KeyError):
        raise InvalidData(
            f"'{archive}' must be a zip archive with {file.member!r} inside, but it is not. Remove it and "
            f"download it again."
        ) from None
    return target


def _sentence(file: RemoteFile, name: str, error: Exception) -> InvalidData:
    if isinstance(error, ValueError) and "hash" in str(error).lower():
        return InvalidData(
            f"{file.url} must have the checksum {file.checksum}, but what came has another: the source has "
            f"changed or the transfer failed. Try again later."
        )
    source = Path(file.member or file.url.rsplit("/", 1)[-1])
    return InvalidData(
        f"{name!r} cannot be downloaded from {file.url} ({_reason(error)}). Try again later, or put "
        f"{source.name!r} as {name + ''.join(source.suffixes)!r} into the folder $TRUERANK_DATA."
    )


def _reason(error: Exception) -> str:
    response = getattr(error, "response", None)
    if response is not None:
        return f"the server answers {response.status_code}"
    if isinstance(error, OSError) and "Connection" in type(error).__name__:
        return "no connection"
    return type(error).__name__


class _Bar:
    """Progress bar as pooch expects it, which reports to a progress task."""

    total: int = 0

    def __init__(self, task: ProgressTask) -> None:
        self._task = task

    def update(self, size: int) -> None:
        self._task.advance(size)

    def reset(self) -> None:
        self._task = _Finished()

    def close(self) -> None:
        pass


class _Finished:
    def advance(self, steps: int = 1) -> None:
        """Ignore the total that pooch reports once more at the end."""


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


def fetch(name: str, *, folder: str | Path | None = None, progress: Progress = SILENT) -> list[Path]:
    """Return the files of a data set, downloading them if needed.

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
    return [download(file, name=name, folder=folder, progress=progress) for file in entry.files]


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
    paths = fetch(name, folder=folder, progress=progress)
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
