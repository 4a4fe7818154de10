"""Entries of the catalogue of public data sets, read from ``datasets.toml``."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

_NO_CHECKSUM = "not known; the first download records one"


@dataclass(frozen=True)
class RemoteFile:
    """One file to download.

    Parameters
    ----------
    url : where it lies, with https
    checksum : ``md5:...`` or ``sha256:...`` as the source or others state it; may be empty
    member : the file to take out of a zip archive
    part : the label of its events, for data sets that come as several files
    """

    url: str
    checksum: str = ""
    member: str = ""
    part: str = ""


@dataclass(frozen=True)
class Dataset:
    """One entry of the catalogue.

    Parameters
    ----------
    name : how it is called on the command line
    description : one line
    n_users, n_items, n_events : as published; None where the source does not say
    homepage, licence, citation : where it comes from and on which terms
    checksum_source : who states the checksums of its files
    files : what to download; empty if that must be done by hand
    by_hand : what to do by hand
    format, encoding, columns : how to read the downloaded files where the reader cannot see it
    part_column : the label column for the part each file stands for
    min_history, min_rating : filters that belong to the definition of the data set
    local, partial : further file names (without suffix) of whole and of incomplete copies
    note : what to know when comparing with papers
    """

    name: str
    description: str
    homepage: str
    licence: str
    n_users: int | None = None
    n_items: int | None = None
    n_events: int | None = None
    citation: str = ""
    checksum_source: str = ""
    files: tuple[RemoteFile, ...] = ()
    by_hand: str = ""
    format: str | None = None
    encoding: str = "utf8"
    columns: Mapping[str, str] = field(default_factory=dict)
    part_column: str = ""
    min_history: int = 0
    min_rating: float | None = None
    local: tuple[str, ...] = ()
    partial: tuple[str, ...] = ()
    note: str = ""

    @property
    def is_automatic(self) -> bool:
        """Whether ``fetch`` can download it."""
        return bool(self.files)

    def facts(self) -> dict[str, str | int | None]:
        """Return what ``truerank data describe`` shows."""
        return {
            "name": self.name,
            "description": self.description,
            "users": self.n_users,
            "items": self.n_items,
            "events": self.n_events,
            "homepage": self.homepage,
            "licence": self.licence,
            "citation": self.citation,
            "download": ", ".join(file.url for file in self.files) or "by hand",
            "checksum": ", ".join(file.checksum for file in self.files if file.checksum) or _NO_CHECKSUM,
            "checksum from": self.checksum_source,
            "by hand": self.by_hand,
            "note": self.note,
        }


@functools.cache
def datasets() -> dict[str, Dataset]:
    """Return all entries of ``datasets.toml`` by name, in its order."""
    tables = tomllib.loads((resources.files("truerank.data") / "datasets.toml").read_text("utf-8"))
    shared = {**tables.pop("shared"), None: {}}
    return {name: _entry(name, shared[table.pop("like", None)] | table) for name, table in tables.items()}


def _entry(name: str, table: dict[str, Any]) -> Dataset:
    files = tuple(RemoteFile(**file) for file in table.pop("files", ()))
    copies: dict[str, Any] = {key: tuple(table.pop(key, ())) for key in ("local", "partial")}
    return Dataset(name, files=files, **copies, **table)
