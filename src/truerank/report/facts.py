"""Facts of a report: counts of the data, all that is needed to repeat a result, and cost by model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from truerank.core.result import Result
from truerank.core.table import MISSING, Table, decimals, fixed

_COUNTS = {
    "n_users": "users",
    "n_items": "items",
    "n_train": "events in train",
    "n_valid": "events in valid",
    "n_test": "events in test (targets)",
}
_PER_MODEL = {"models": "spec"}
_COST = ("seconds", "scores_computed")


class Fact(NamedTuple):
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
    return [Fact(_COUNTS.get(key, key_words(key)), formatted_quantity(value)) for key, value in data.items()]


def repeat_facts(result: Result) -> list[Fact]:
    """Return every option, seed, hash and version; nested entries are named by their path."""
    facts = [
        Fact("command", f"truerank {result.command}"),
        Fact("models", "; ".join(result.models())),
        Fact("metrics", "; ".join(result.metrics())),
        Fact("truerank", result.version),
    ]
    common = {key: value for key, value in result.provenance.items() if not _is_per_model(value, result)}
    return [*facts, *flat_facts(common)]


def flat_facts(entries: Mapping[str, Any]) -> list[Fact]:
    """Return nested entries as facts that are named by their path.

    Examples
    --------
    >>> [fact.name for fact in flat_facts({"tie_margin": None, "data": {"n_users": 6040}})]
    ['tie margin', 'data: n users']
    >>> [fact.text for fact in flat_facts({"tie_margin": None, "metrics": ["auc", "ap"]})]
    ['none', 'auc, ap']
    """
    return [
        Fact(name, as_typed(leaf))
        for key, value in entries.items()
        for name, leaf in _leaves(key_words(key), value)
    ]


def model_table(result: Result) -> Table | None:
    """Return what the provenance holds by model, cost excepted, or None when it holds nothing."""
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
                for name, leaf in _leaves(_PER_MODEL.get(key, key_words(key)), entry):
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
        model: fixed(value, places) if isinstance(value, float) else formatted_quantity(value)
        for model, value in column.items()
    }


def key_words(key: str) -> str:
    """Return a key with spaces instead of underscores.

    Examples
    --------
    >>> key_words("users_without_targets")
    'users without targets'
    """
    return str(key).replace("_", " ").strip()


def formatted_quantity(value: Any) -> str:
    """Return a quantity for reading, with thousands marked in whole numbers.

    Examples
    --------
    >>> formatted_quantity(1234567), formatted_quantity(0.5), formatted_quantity("ml-1m")
    ('1,234,567', '0.5', 'ml-1m')
    """
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else as_typed(value)


def as_typed(value: Any) -> str:
    """Return a value as it is typed in an option: lists with commas, none, true, false."""
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={as_typed(entry)}" for key, entry in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(as_typed(entry) for entry in value)
    return str(value)


def _is_per_model(value: Any, result: Result) -> bool:
    return isinstance(value, Mapping) and len(value) > 0 and set(value) <= set(result.models())


def _leaves(name: str, value: Any) -> Iterable[tuple[str, Any]]:
    if not isinstance(value, Mapping):
        yield name, value
        return
    for key, entry in value.items():
        yield from _leaves(f"{name}: {key_words(key)}", entry)
