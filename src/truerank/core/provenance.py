"""What results say about themselves: the version of their JSON form, the software and the data behind them.

Every JSON object that a command writes begins with `head`; docs/schema describes the rest. Tables of ranks
and models carry the same versions in the metadata of their files.

`parse_json` and `from_fields` read back results, comparisons, agreements and records of papers. A class says
by its annotations what its fields hold. What is missing, unknown, of another type or no finite number is
refused by its place, so that no later step meets it; nothing is converted in silence.
"""

from __future__ import annotations

import json
import math
import platform
import sys
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from importlib import metadata
from typing import Any, TypeVar, cast

import numpy as np

from truerank.core.digest import content_digest
from truerank.core.errors import InvalidData, excerpt
from truerank.core.ranks import Ranks, SampledRanks
from truerank.version import __version__

ReadT = TypeVar("ReadT")

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


def check_schema(document: Any, what: str) -> None:
    """Raise where a JSON object was written in a form that this truerank does not know.

    Raises
    ------
    InvalidData
        When its schema version is higher than ``SCHEMA_VERSION``, or no version.
    """
    found = document.get("schema_version", 1) if isinstance(document, Mapping) else 1
    if type(found) is not int or not 1 <= found <= SCHEMA_VERSION:
        raise InvalidData(
            f"{what} must have a schema version from 1 to {SCHEMA_VERSION}, got {found!r}. "
            "Read it with the truerank that wrote it, or update truerank."
        )


_PLAIN = {float: "a number", int: "an integer", str: "a text", bool: "true or false", type(None): "null"}


class _WrongValue(Exception):  # noqa: N818 - turned into a sentence at once
    """A value that its place cannot hold, with the place and what was expected."""


def parse_json(text: str, what: str) -> Any:
    """Return the value of a JSON text whose numbers are finite and whose texts are Unicode.

    Parameters
    ----------
    text : the JSON
    what : how messages call it, such as ``a result``

    Raises
    ------
    InvalidData
        When the text is no such JSON, or too deeply nested.

    Examples
    --------
    >>> parse_json('{"a": 1}', "a result")
    {'a': 1}
    >>> parse_json('{"a": NaN}', "a result")
    Traceback (most recent call last):
    truerank.core.errors.InvalidData: a result must be the JSON that truerank wrote (NaN is no JSON).
    """
    try:
        value = json.loads(text, parse_constant=_finite, parse_float=_finite)
        json.dumps(value, ensure_ascii=False).encode("utf-8")  # half a pair of surrogates is no letter
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else excerpt(str(error))
        raise InvalidData(f"{what} must be the JSON that truerank wrote ({reason}).") from None
    return value


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is no JSON")
    return value


def from_fields(
    kind: type[ReadT], value: Any, what: str, *, without: Sequence[str] = (), is_open: bool = False
) -> ReadT:
    """Return the object of a class, or of another annotated type, from a JSON value.

    Parameters
    ----------
    kind : a dataclass, or a type such as ``tuple[str, ...]``
    value : what `parse_json` returned
    what : how messages call it, such as ``a result``
    without : fields of the class that its JSON form does not have
    is_open : whether unknown fields of the outermost object are left aside instead of refused

    Raises
    ------
    InvalidData
        When a field is missing, unknown or of another type.

    Examples
    --------
    >>> from_fields(tuple[str, ...], ["a", "b"], "the notes")
    ('a', 'b')
    >>> from_fields(tuple[str, ...], "ab", "the notes")
    Traceback (most recent call last):
    truerank.core.errors.InvalidData: the notes must be the JSON that truerank wrote, but it is 'ab' instead \
of a list.
    """
    try:
        if is_dataclass(kind):
            return cast(ReadT, _object(kind, value, "", without, is_open))
        return cast(ReadT, _read(kind, value, ""))
    except _WrongValue as error:
        raise InvalidData(f"{what} must be the JSON that truerank wrote, but {error}.") from None


def _object(cls: Any, value: Any, place: str, without: Sequence[str] = (), is_open: bool = False) -> Any:
    if not isinstance(value, Mapping):
        raise _wrong(place, value, "an object")
    hints = typing.get_type_hints(cls)
    known = {field.name: field for field in fields(cls) if field.name not in without}
    if not is_open and not value.keys() <= known.keys():
        unknown = min(value.keys() - known.keys())
        raise _WrongValue(f"{place or 'it'} has an unknown field {excerpt(unknown)!r}")
    for name, field in known.items():
        if name not in value and field.default is MISSING and field.default_factory is MISSING:
            raise _WrongValue(f"{place or 'it'} lacks the field {name!r}")
    start = f"{place}." if place else ""
    given = {name: _read(hints[name], value[name], f"{start}{name}") for name in known if name in value}
    return cls(**given)


def _read(kind: Any, value: Any, place: str) -> Any:
    origin, inside = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return value
    if origin in (typing.Union, types.UnionType):
        return _one_of(inside, value, place)
    if origin is typing.Literal:
        if not any(type(value) is type(one) and value == one for one in inside):
            raise _wrong(place, value, " or ".join(map(str, inside)))
        return value
    if kind in _PLAIN:
        is_whole = type(value) is int and abs(value) < 2**63
        if not (is_whole if kind is int else type(value) is kind or (kind is float and is_whole)):
            raise _wrong(place, value, _PLAIN[kind])
        return value
    if is_dataclass(kind):
        return _object(kind, value, place)
    if isinstance(kind, type) and issubclass(kind, Enum):
        named = {member.value: member for member in kind}
        if not isinstance(value, str) or value not in named:
            raise _wrong(place, value, " or ".join(map(repr, named)))
        return named[value]
    if isinstance(origin, type) and issubclass(origin, Mapping):
        if not isinstance(value, dict):
            raise _wrong(place, value, "an object")
        return {name: _read(inside[1], one, f"{place}.{name}") for name, one in value.items()}
    if not isinstance(value, list):
        raise _wrong(place, value, "a list")
    made = [_read(inside[0], one, f"{place}[{at}]") for at, one in enumerate(value)]
    return tuple(made) if origin is tuple else made


def _one_of(kinds: tuple[Any, ...], value: Any, place: str) -> Any:
    for kind in kinds:
        try:
            return _read(kind, value, place)
        except _WrongValue:
            continue
    raise _wrong(place, value, " or ".join(_PLAIN.get(kind, "an object") for kind in kinds))


def _wrong(place: str, value: Any, wanted: str) -> _WrongValue:
    shown = "it" if not place else excerpt(place)
    return _WrongValue(f"{shown} is {excerpt(repr(value))} instead of {wanted}")


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


def file_metadata(**told: Any) -> dict[str, str]:
    """Return provenance as the metadata of a Parquet file, with the versions added.

    Examples
    --------
    >>> file_metadata(data_hash="0f", seed=1)["truerank"][:29]
    '{"data_hash": "0f", "seed": 1'
    """
    return {FILE_KEY: json.dumps({**told, "versions": versions()}, allow_nan=False)}


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
