"""Counts of the data, and what is needed to repeat a result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from truerank.core.number import MISSING, decimals, fixed
from truerank.core.result import Result
from truerank.core.table import Table

_COUNTS = {
    "n_users": "users",
    "n_items": "items",
    "n_train": "events in train",
    "n_valid": "events in valid",
    "n_test": "events in test (targets)",
}

_PER_MODEL = {"models": "spec"}
_COST = ("seconds", "scores_computed")


@dataclass(frozen=True)
class Fact:
    """One named value as shown."""

    name: str
    text: str


def data_facts(data: Mapping[str, Any]) -> list[Fact]:
    """Return the counts of data and split.

    Examples
    --------
    >>> data_facts({"n_users": 6040, "users_without_targets": 3})
    [Fact(name='users', text='6,040'), Fact(name='users without targets', text='3')]
    """
    return [Fact(_COUNTS.get(key, words(key)), shown(value)) for key, value in data.items()]


def repeat_facts(result: Result) -> list[Fact]:
    """Return every option, seed, hash and version; nested entries are named by their path."""
    facts = [
        Fact("command", f"truerank {result.command}"),
        Fact("models", "; ".join(result.models())),
        Fact("metrics", "; ".join(result.metrics())),
        Fact("truerank", result.version),
    ]
    for key, value in result.provenance.items():
        if not _is_per_model(value, result):
            facts += [Fact(name, plain(leaf)) for name, leaf in _leaves(words(key), value)]
    return facts


def model_table(result: Result) -> Table | None:
    """Return what the provenance holds for each model beside its cost, or None when it holds nothing."""
    return _per_model(result, [key for key in result.provenance if key not in _COST])


def cost_table(result: Result) -> Table | None:
    """Return seconds and scores computed by model, or None when they are not known."""
    return _per_model(result, [key for key in _COST if key in result.provenance])


def _per_model(result: Result, keys: Iterable[str]) -> Table | None:
    columns: dict[str, dict[str, Any]] = {}
    for key in keys:
        value = result.provenance[key]
        if _is_per_model(value, result):
            for model, entry in value.items():
                for name, leaf in _leaves(_PER_MODEL.get(key, words(key)), entry):
                    columns.setdefault(name, {})[model] = leaf
    if not columns:
        return None
    texts = [_aligned(column) for column in columns.values()]
    rows = [(model, *(text.get(model, MISSING) for text in texts)) for model in result.models()]
    return Table(("Model", *columns), tuple(rows))


def _aligned(column: Mapping[str, Any]) -> dict[str, str]:
    """Return a column as text; fractions get the same number of decimals."""
    fractions = [value for value in column.values() if isinstance(value, float)]
    places = min(decimals(fractions), 3)
    return {
        model: fixed(value, places) if isinstance(value, float) else shown(value)
        for model, value in column.items()
    }


def words(key: str) -> str:
    """Return a key as words.

    Examples
    --------
    >>> words("users_without_targets")
    'users without targets'
    """
    return str(key).replace("_", " ").strip()


def shown(value: Any) -> str:
    """Return a quantity for reading, with thousands marked in whole numbers.

    Examples
    --------
    >>> shown(1234567), shown(0.5), shown("ml-1m")
    ('1,234,567', '0.5', 'ml-1m')
    """
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else plain(value)


def plain(value: Any) -> str:
    """Return a value as it would be typed."""
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={plain(entry)}" for key, entry in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(plain(entry) for entry in value)
    return str(value)


def _is_per_model(value: Any, result: Result) -> bool:
    return isinstance(value, Mapping) and len(value) > 0 and set(value) <= set(result.models())


def _leaves(name: str, value: Any) -> Iterable[tuple[str, Any]]:
    if not isinstance(value, Mapping):
        yield name, value
        return
    for key, entry in value.items():
        yield from _leaves(f"{name}: {words(key)}", entry)
