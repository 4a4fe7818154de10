"""Plug-ins: frozen dataclasses found by name in a literal table and imported on use."""

from __future__ import annotations

import importlib
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from functools import cache
from typing import Any, ClassVar, Generic, Literal, TypeVar, cast

from truerank.core.errors import InvalidParameter, UnknownName, suggestion
from truerank.core.source import Source
from truerank.core.spec import Spec, Value, format_value, parse_spec, split_specs


@dataclass(frozen=True)
class Plugin:
    """Base of everything that can be written as a spec string.

    A subclass is a frozen dataclass with defaults for all its fields; ``key`` is how it is written and
    ``source`` says which work it follows. A field called ``cutoff`` is written behind ``@``.
    """

    key: ClassVar[str] = ""
    source: ClassVar[Source | None] = None

    def spec(self) -> Spec:
        """Return the spec that builds an equal object; parameters at their default are left out."""
        params: list[tuple[str, Value]] = []
        cutoff: int | None = None
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "cutoff":
                cutoff = value
            elif value != default_of(field):
                params.append((field.name, value.spec() if isinstance(value, Plugin) else value))
        return Spec(self.key, tuple(params), cutoff)

    def __str__(self) -> str:
        return str(self.spec())


PluginT = TypeVar("PluginT")


@dataclass(frozen=True)
class Entry:
    """One line of ``truerank list``."""

    name: str
    summary: str
    parameters: str
    source: str


class Registry(Generic[PluginT]):
    """The plug-ins of one kind.

    Parameters
    ----------
    kind : what an entry is called in messages, such as ``metric``
    table : name to ``module:Class``; the module is imported when the name is first used
    presets : further names for specs, such as ``{"hit": "recall"}`` or ``{"kr20-y": "item-knn(power=3)"}``
    """

    def __init__(self, kind: str, table: Mapping[str, str], presets: Mapping[str, str] | None = None) -> None:
        self.kind = kind
        self.table = dict(table)
        self.presets = dict(presets or {})

    def names(self) -> list[str]:
        """All names, presets included, sorted."""
        return sorted([*self.table, *self.presets])

    def type_of(self, name: str) -> type[PluginT]:
        """Import and return the class behind a name."""
        if name not in self.table:
            raise UnknownName(self.kind, name, self.names())
        module, _, attribute = self.table[name].partition(":")
        return cast(type[PluginT], getattr(importlib.import_module(module), attribute))

    def make(self, written: str | Spec | PluginT) -> PluginT:
        """Build the object a spec string describes; an object is returned as it is."""
        if not isinstance(written, str | Spec):
            return written
        spec = parse_spec(written) if isinstance(written, str) else written
        spec = self._expand(spec)
        cls = self.type_of(spec.name)
        hints = parameter_types(cast(Any, cls))
        given: dict[str, Any] = {}
        for key, value in spec.params:
            if key not in hints or key == "cutoff":
                raise self._unknown_parameter(spec.name, key, [name for name in hints if name != "cutoff"])
            given[key] = _coerce(f"{spec.name}({key}=...)", hints[key], value)
        if spec.cutoff is not None:
            if "cutoff" not in hints:
                raise InvalidParameter(
                    f"{self.kind} {spec.name!r} takes no cut-off, got '@{spec.cutoff}'. Leave it out."
                )
            given["cutoff"] = spec.cutoff
        return cls(**given)

    def make_all(self, written: str | PluginT | Sequence[str | PluginT]) -> tuple[PluginT, ...]:
        """Build from a comma-separated text, a list, or one object; repeated ones are kept once."""
        listed: Sequence[str | PluginT]
        if isinstance(written, str):
            listed = split_specs(written)
        else:
            listed = written if isinstance(written, Sequence) else [written]
        made = tuple(dict.fromkeys(self.make(one) for one in listed))
        if not made:
            article = "an" if self.kind[0] in "aeiou" else "a"
            raise InvalidParameter(
                f"at least one {self.kind} is needed, got none. Name {article} {self.kind}, such as "
                f"{min(self.table)}."
            )
        return made

    def entries(self) -> list[Entry]:
        """One line per name, presets last."""
        lines = []
        for name in sorted(self.table):
            cls = self.type_of(name)
            shown = [
                f"{field.name}={format_value(default_of(field))}"
                for field in fields(cast(Any, cls))
                if field.name != "cutoff"
            ]
            source = getattr(cls, "source", None)
            lines.append(Entry(name, _first_line(cls), ", ".join(shown), str(source or "")))
        for name in sorted(self.presets):
            lines.append(Entry(name, f"preset: {self.presets[name]}", "", ""))
        return lines

    def _expand(self, spec: Spec) -> Spec:
        if spec.name not in self.presets:
            return spec
        base = parse_spec(self.presets[spec.name])
        params = {**dict(base.params), **dict(spec.params)}
        cutoff = spec.cutoff if spec.cutoff is not None else base.cutoff
        return self._expand(Spec(base.name, tuple(params.items()), cutoff))

    def _unknown_parameter(self, name: str, key: str, known: list[str]) -> InvalidParameter:
        if not known:
            return InvalidParameter(f"{self.kind} {name!r} takes no parameters, got {key!r}. Leave it out.")
        return InvalidParameter(
            f"{self.kind} {name!r} has no parameter {key!r}. {suggestion(key, tuple(sorted(known)))}"
        )


def default_of(field: Any) -> Any:
    """Return a dataclass field's default."""
    return field.default_factory() if field.default_factory is not MISSING else field.default


@cache
def parameter_types(cls: Callable[..., Any]) -> dict[str, Any]:
    """Return field name to annotation for a plug-in class."""
    hints = typing.get_type_hints(cls)
    return {field.name: hints[field.name] for field in fields(cast(Any, cls))}


def _coerce(where: str, hint: Any, value: Value) -> Any:
    """Return the value as the annotated type, or raise the sentence that says what was expected."""
    options = _alternatives(hint)
    for option in options:
        if typing.get_origin(option) is Literal and value in typing.get_args(option):
            return value
        if option is type(None) and value is None:
            return None
        if option is float and isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
        if option is Spec and isinstance(value, str):
            return Spec(value)
        if isinstance(option, type) and type(value) is option:
            return value
    wanted = " or ".join(_wanted(option) for option in options)
    shown = "none" if value is None else repr(value) if isinstance(value, str) else str(value).lower()
    raise InvalidParameter(f"{where} must be {wanted}, got {shown}.")


def _alternatives(hint: Any) -> tuple[Any, ...]:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return typing.get_args(hint)
    return (hint,)


def _wanted(option: Any) -> str:
    if typing.get_origin(option) is Literal:
        return " or ".join(str(choice) for choice in typing.get_args(option))
    names = {int: "an integer", float: "a number", bool: "true or false", str: "text", type(None): "none"}
    return names.get(option, "a spec such as name(key=value)")


def _first_line(cls: type) -> str:
    return (cls.__doc__ or "").strip().splitlines()[0] if cls.__doc__ else ""
