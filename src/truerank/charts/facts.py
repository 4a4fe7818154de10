"""What is needed to repeat a result, as names and texts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def facts_of(entries: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return nested entries as flat pairs of names and texts.

    Examples
    --------
    >>> facts_of({"seed": 0, "tie_margin": None, "data": {"n_users": 6040}, "metrics": ["auc", "ap"]})
    (('seed', '0'), ('tie margin', 'none'), ('data: n users', '6040'), ('metrics', 'auc, ap'))
    """
    return tuple(_leaves("", entries))


def _leaves(name: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, entry in value.items():
            words = str(key).replace("_", " ")
            yield from _leaves(f"{name}: {words}" if name else words, entry)
    elif isinstance(value, list | tuple):
        yield name, ", ".join(_plain(entry) for entry in value)
    else:
        yield name, _plain(value)


def _plain(value: Any) -> str:
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)
