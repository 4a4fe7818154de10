"""Finished pieces of a long experiment, kept in a folder so that it can be resumed."""

from __future__ import annotations

import hashlib
import json
import re
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from truerank.core.errors import InvalidParameter
from truerank.core.output import replace_file, replace_text
from truerank.core.whole import whole_or_nothing
from truerank.version import __version__


class Store:
    """Results by key; each is written in one step when it is finished, and read instead of computed later.

    The key must say everything that the result depends on; the version of truerank is added. What cannot be
    read (a damaged file) is computed again. What is interrupted is not kept.

    Parameters
    ----------
    folder : where results are kept; None keeps them in memory only

    Examples
    --------
    >>> store = Store()
    >>> store.value("two", lambda: 1 + 1), store.value("two", lambda: 1 / 0)
    (2, 2)
    """

    def __init__(self, folder: Path | None = None) -> None:
        if folder is not None:
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise InvalidParameter(
                    f"results must be kept in a folder, but '{folder}' cannot be made one "
                    f"({error.strerror}). Choose another place."
                ) from None
        self.folder = folder
        self._held: dict[str, Any] = {}

    def value(self, key: str, compute: Callable[[], Any]) -> Any:
        """Return a result that JSON can hold; floats come back to the digit."""
        if key not in self._held:
            found = self._read(key, ".json", _read_json)
            if found is None:
                with whole_or_nothing():
                    found = json.loads(json.dumps(compute()))
                path = self.path_of(key, ".json")
                if path is not None:
                    replace_text(path, json.dumps({"key": key, "value": found}), "a finished result")
            self._held[key] = found
        return self._held[key]

    def arrays(
        self, key: str, compute: Callable[[], Mapping[str, np.ndarray]], *, hold: bool = True
    ) -> Mapping[str, np.ndarray]:
        """Return named arrays; with ``hold`` they stay in memory too."""
        if key in self._held:
            held: Mapping[str, np.ndarray] = self._held[key]
            return held
        found: Mapping[str, np.ndarray] | None = self._read(key, ".npz", _read_arrays)
        if found is None:
            with whole_or_nothing():
                found = dict(compute())
            path = self.path_of(key, ".npz")
            if path is not None:
                named: dict[str, Any] = {**found, "key": np.array(key)}
                replace_file(path, lambda part: np.savez(part, **named), "a finished result")
        if hold:
            self._held[key] = found
        return found

    def path_of(self, key: str, suffix: str) -> Path | None:
        """Return the file of a key, None without a folder."""
        if self.folder is None:
            return None
        digest = hashlib.blake2b(f"{__version__}\n{key}".encode(), digest_size=8).hexdigest()
        readable = re.sub(r"[^a-z0-9]+", "-", key.lower()).strip("-")[:80]
        return self.folder / f"{readable}-{digest}{suffix}"

    def _read(self, key: str, suffix: str, read: Callable[[Path, str], Any]) -> Any:
        path = self.path_of(key, suffix)
        return read(path, key) if path is not None and path.is_file() else None


def _read_json(path: Path, key: str) -> Any:
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return held["value"] if isinstance(held, dict) and held.get("key") == key else None


def _read_arrays(path: Path, key: str) -> dict[str, np.ndarray] | None:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as held:
            found = {name: held[name] for name in held.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile):
        return None
    return found if str(found.pop("key", "")) == key else None
