"""What results say about themselves: the version of their JSON form, the software and the data behind them.

Every JSON object that a command writes begins with `head`; docs/schema describes the rest. Tables of ranks
and models carry the same versions in the metadata of their files.
"""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Iterable, Mapping
from importlib import metadata
from typing import Any

import numpy as np

from truerank.core.digest import content_digest
from truerank.core.errors import InvalidData
from truerank.core.ranks import Ranks, SampledRanks
from truerank.version import __version__

#: Version of the JSON form, described by docs/schema/truerank-2.json; files without one have version 1.
SCHEMA_VERSION = 2
#: Key of the provenance among the metadata of Parquet files.
FILE_KEY = "truerank"
_ALWAYS = ("numpy", "numba", "scipy", "polars")
_IF_LOADED = ("torch", "triton")  # no digit depends on the engine


def head(command: str, version: str = __version__) -> dict[str, Any]:
    """Return the fields that every JSON object of a command begins with.

    Examples
    --------
    >>> list(head("evaluate"))
    ['schema_version', 'command', 'version']
    """
    return {"schema_version": SCHEMA_VERSION, "command": command, "version": version}


def check_schema(fields: Mapping[str, Any], what: str) -> None:
    """Raise where a JSON object was written in a form that this truerank does not know.

    Raises
    ------
    InvalidData
        When its schema version is higher than ``SCHEMA_VERSION``, or no version.
    """
    found = fields.get("schema_version", 1)
    if not isinstance(found, int) or not 1 <= found <= SCHEMA_VERSION:
        raise InvalidData(
            f"{what} must have a schema version from 1 to {SCHEMA_VERSION}, got {found!r}. "
            "Read it with the truerank that wrote it, or update truerank."
        )


def versions() -> dict[str, str]:
    """Return the versions that results depend on; of large optional libraries, where they were used.

    Examples
    --------
    >>> list(versions())[:4]
    ['truerank', 'python', 'numpy', 'numba']
    """
    found = {"truerank": __version__, "python": platform.python_version()}
    for name in (*_ALWAYS, *(name for name in _IF_LOADED if name in sys.modules)):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = str(getattr(sys.modules.get(name), "__version__", "unknown"))
    return found


def file_metadata(**fields: Any) -> dict[str, str]:
    """Return provenance as the metadata of a Parquet file, with the versions added.

    Examples
    --------
    >>> file_metadata(data_hash="0f", seed=1)["truerank"][:29]
    '{"data_hash": "0f", "seed": 1'
    """
    return {FILE_KEY: json.dumps({**fields, "versions": versions()}, allow_nan=False)}


def ranks_hash(ranks: Ranks | SampledRanks) -> str:
    """Return a digest of ranks: equal for equal ranks of the same users in the same order.

    Examples
    --------
    >>> some = SampledRanks.single([0, 3], n_negatives=9, n_pool=20)
    >>> ranks_hash(some) == ranks_hash(SampledRanks.single([0, 4], n_negatives=9, n_pool=20))
    False
    """
    return content_digest(_parts((name, value) for name, value in vars(ranks).items() if value is not None))


def _parts(items: Iterable[tuple[str, Any]]) -> Iterable[Any]:
    for name, value in items:
        yield f"{name};"
        yield value if isinstance(value, np.ndarray) else f"{value!r};"
