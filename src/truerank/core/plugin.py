"""Plug-ins and their spec strings: one way to write a metric, model or estimator with its parameters.

::

    spec  = name [ "(" key "=" value { "," key "=" value } ")" ] [ "@" cutoff ]
    value = integer | number | true | false | none | 'text' | word | spec

``ndcg@10``, ``ap(norm=rel)@10``, ``ease(reg=500)``, ``bv(prior=beta(a=0.5))``. The same text is used in
Python, on the command line, in JSON and in the documentation. It is read in time proportional to its length;
what is longer than ``MOST_LETTERS``, deeper than ``MOST_NESTED`` or has an integer of more than
``MOST_DIGITS`` digits is refused.

A plug-in is a frozen dataclass with a default for every field. A ``Registry`` finds it by name in a literal
table or among those that installed packages offer (`entry_point`), imports its module when the name is first
used, and turns spec strings into objects; ``Source`` says which publication a plug-in follows.
"""

from __future__ import annotations

import importlib
import math
import re
import types
import typing
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, TypeVar, Union, cast

from truerank.core.display import Displayed, Overview, frame_of
from truerank.core.errors import BrokenPlugin, DataWarning, InvalidParameter, UnknownName, excerpt, suggestion

if TYPE_CHECKING:
    import polars as pl

    from truerank.core.entry_point import InstalledPlugin

Value: TypeAlias = Union[int, float, bool, str, "Spec", None]

#: Limits of one spec string: its length, how deep specs stand in specs, and the digits of an integer.
MOST_LETTERS, MOST_NESTED, MOST_DIGITS = 10_000, 10, 20

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<number>[+-]?(?:\d++(?:\.\d*+)?+|\.\d++)(?:[eE][+-]?\d++)?+(?=[\s(),=@]|\Z))
    | (?P<quoted>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
    | (?P<word>[^\s(),=@'"]+)
    | (?P<mark>[(),=@])
    )""",
    re.VERBOSE,
)
_BARE = re.compile(r"[A-Za-z_./~\\:][\w.\-/~\\:+%]*\Z")
_WORDS: dict[str, Value] = {
    "true": True,
    "false": False,
    "none": None,
    "inf": math.inf,
    "+inf": math.inf,
    "-inf": -math.inf,
}
_NAMES = re.compile(r"[A-Za-z][\w.-]*\Z")


@dataclass(frozen=True)
class Spec:
    """A parsed spec string.

    Examples
    --------
    >>> parse_spec("ap( norm=rel )@10")
    Spec(name='ap', params=(('norm', 'rel'),), cutoff=10)
    >>> str(parse_spec("bv(gamma=0.10, prior=beta(a=.5))"))
    'bv(gamma=0.1, prior=beta(a=0.5))'
    """

    name: str
    params: tuple[tuple[str, Value], ...] = ()
    cutoff: int | None = None

    def __str__(self) -> str:
        inner = ", ".join(f"{key}={format_value(value)}" for key, value in self.params)
        cut = f"@{self.cutoff}" if self.cutoff is not None else ""
        return f"{self.name}({inner}){cut}" if inner else f"{self.name}{cut}"


def parse_spec(text: str) -> Spec:
    """Parse one spec string."""
    parser = _Parser(text)
    spec = parser.spec()
    parser.end()
    return spec


def split_specs(text: str) -> list[str]:
    """Split a comma-separated list of spec strings, leaving commas inside parentheses alone.

    Examples
    --------
    >>> split_specs("ndcg@10, ap(norm=rel, a=1)@5,auc")
    ['ndcg@10', 'ap(norm=rel, a=1)@5', 'auc']
    """
    parts, depth, quote, start = [], 0, "", 0
    for index, char in enumerate(text):
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char in "()":
            depth += 1 if char == "(" else -1
        elif char == "," and depth == 0:
            parts.append(text[start:index])
            start = index + 1
    parts.append(text[start:])
    return [part.strip() for part in parts if part.strip()]


def format_value(value: Value) -> str:
    """Return a value as it stands in a spec string."""
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        if _BARE.match(value) and value.lower() not in _WORDS:
            return value
        escaped = value.replace("\\", "\\\\").replace("'", "\\'")
        return f"'{escaped}'"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))  # 500, not 500.0: the reader turns it back where a number is wanted
    return repr(value) if isinstance(value, int | float) else str(value)


class _Parser:
    """Recursive descent over the grammar at the top of the module."""

    def __init__(self, text: str) -> None:
        if len(text) > MOST_LETTERS:
            raise InvalidParameter(
                f"{excerpt(text.strip())!r} must have at most {MOST_LETTERS:,} letters, got {len(text):,}."
            )
        self.text = text
        self.depth = 0
        self.tokens: list[tuple[str, str]] = []
        position, text = 0, text.rstrip()
        while position < len(text):
            match = _TOKEN.match(text, position)
            if match is None:
                raise self.error(f"unexpected {text[position:].strip()[:1]!r}")
            kind = str(match.lastgroup)
            self.tokens.append((kind, match[kind]))
            position = match.end()
        self.next = 0

    def error(self, what: str) -> InvalidParameter:
        return InvalidParameter(
            f"cannot read {excerpt(self.text.strip())!r}: {what}. "
            "Write it as name(key=value, key=value)@cutoff."
        )

    def peek(self) -> tuple[str, str]:
        return self.tokens[self.next] if self.next < len(self.tokens) else ("end", "the end")

    def take(self) -> tuple[str, str]:
        token = self.peek()
        self.next += 1
        return token

    def expect(self, mark: str) -> None:
        _, text = self.take()
        if text != mark:
            raise self.error(f"expected {mark!r} but found {excerpt(text)!r}")

    def integer(self, text: str) -> int:
        if len(text.lstrip("+-")) > MOST_DIGITS:
            raise self.error(f"integers have at most {MOST_DIGITS} digits, got {excerpt(text)}")
        return int(text)

    def end(self) -> None:
        kind, text = self.peek()
        if kind != "end":
            raise self.error(f"unexpected {excerpt(text)!r}")

    def spec(self) -> Spec:
        kind, name = self.take()
        if kind != "word" or not _NAMES.match(name):
            raise self.error(f"expected a name but found {excerpt(name)!r}")
        params = self.params() if self.peek()[1] == "(" else ()
        cutoff = None
        if self.peek()[1] == "@":
            self.take()
            kind, text = self.take()
            if kind != "number" or not re.fullmatch(r"[+-]?\d+", text):
                where = excerpt(self.text.strip())
                raise InvalidParameter(f"cutoff must be an integer >= 1, got {excerpt(text)!r} in {where!r}.")
            cutoff = self.integer(text)
        return Spec(name, params, cutoff)

    def params(self) -> tuple[tuple[str, Value], ...]:
        self.expect("(")
        found: dict[str, Value] = {}
        while self.peek()[1] != ")":
            kind, key = self.take()
            if kind != "word":
                raise self.error(f"expected a parameter name but found {excerpt(key)!r}")
            self.expect("=")
            if key in found:
                raise self.error(f"parameter {excerpt(key)!r} is given twice")
            found[key] = self.value()
            if self.peek()[1] != ")":
                self.expect(",")
        self.expect(")")
        return tuple(found.items())

    def value(self) -> Value:
        kind, text = self.peek()
        if kind == "word" and self.next + 1 < len(self.tokens) and self.tokens[self.next + 1][1] in "(@":
            self.depth += 1
            if self.depth > MOST_NESTED:
                raise self.error(f"specs stand at most {MOST_NESTED} deep in one another")
            spec = self.spec()
            self.depth -= 1
            return spec
        self.take()
        if kind == "number":
            return self.integer(text) if re.fullmatch(r"[+-]?\d+", text) else float(text)
        if kind == "quoted":
            return re.sub(r"\\(.)", r"\1", text[1:-1])
        if kind == "word":
            return _WORDS.get(text.lower(), text)
        raise self.error(f"expected a value but found {excerpt(text)!r}")


@dataclass(frozen=True)
class Source:
    """A key of ``docs/references.bib`` and the place in that work.

    Examples
    --------
    >>> str(Source("krichene2020", "Sec. 9"))
    'krichene2020, Sec. 9'
    """

    key: str
    place: str = ""

    def __str__(self) -> str:
        return f"{self.key}, {self.place}" if self.place else self.key


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
class PluginSummary:
    """One line of ``truerank list``; ``package`` is the distribution that the plug-in belongs to."""

    name: str
    summary: str
    parameters: str
    source: str
    package: str = "truerank"


class Registry(Displayed, Mapping[str, type[PluginT]]):
    """The plug-ins of one kind: a mapping from names to classes, and a maker of objects from spec strings.

    Parameters
    ----------
    kind : what an entry is called in messages, such as ``metric``
    table : name to ``module:Class``; the module is imported when the name is first used
    presets : further names for specs, such as ``{"hit": "recall"}`` or ``{"kr20-y": "item-knn(power=3)"}``
    base : the public class that plug-ins of other packages are derived from; these are found by the entry
        points of the group ``truerank.`` and the plural of ``kind``. None takes no plug-ins of others.
    """

    def __init__(
        self,
        kind: str,
        table: Mapping[str, str],
        presets: Mapping[str, str] | None = None,
        *,
        base: type[Any] | None = None,
    ) -> None:
        self.kind = kind
        self.table = dict(table)
        self.presets = dict(presets or {})
        self.base = base

    def installed(self) -> dict[str, InstalledPlugin]:
        """Return what other packages offer, by name; none of it is imported."""
        if self.base is None:
            return {}
        from truerank.core.entry_point import installed_plugins

        return installed_plugins(self.kind, self.base, self.group, self.table.keys() | self.presets.keys())

    @property
    def group(self) -> str:
        """The group of entry points that other packages offer plug-ins of this kind in."""
        return f"truerank.{self.plural}"

    def names(self) -> list[str]:
        """All names, presets and those of other packages included, sorted."""
        return sorted({*self.table, *self.presets, *self.installed()})

    def __getitem__(self, name: str) -> type[PluginT]:
        return self.type_of(name if name in self.table else self._expand(Spec(name)).name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __len__(self) -> int:
        return len(self.names())

    def __contains__(self, name: object) -> bool:
        return name in self.table or name in self.presets or name in self.installed()

    def get(self, name: str, default: Any = None) -> Any:
        """Return the class behind a name, or the default where there is none."""
        return self[name] if name in self else default  # noqa: SIM401 - this is that method

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def overview(self) -> Overview:
        """Return what a console and a notebook show."""
        from truerank.core.table import Table

        columns = ("name", "parameters", "summary", "source", "package")
        rows = tuple(tuple(getattr(entry, column) for column in columns) for entry in self.entries())
        return Overview(f"{len(self)} {self.plural}", Table(columns, rows))

    def __repr__(self) -> str:
        return f"<{len(self)} {self.plural}: {', '.join(self.names())}>"

    def to_polars(self) -> pl.DataFrame:
        """Return one row per name, with the fields of `PluginSummary` as columns."""
        return frame_of([asdict(entry) for entry in self.entries()])

    @property
    def plural(self) -> str:
        """What several entries are called, such as ``strategies``."""
        return f"{self.kind[:-1]}ies" if re.search("[^aeiou]y$", self.kind) else f"{self.kind}s"

    @property
    def _article(self) -> str:
        return "an" if self.kind[0] in "aeiou" else "a"

    def type_of(self, name: str) -> type[PluginT]:
        """Import and return the class behind a name."""
        if name not in self.table:
            plugin = self.installed().get(name)
            if plugin is None:
                raise UnknownName(self.kind, name, self.names())
            return cast(type[PluginT], plugin.load())
        module, _, attribute = self.table[name].partition(":")
        return cast(type[PluginT], getattr(importlib.import_module(module), attribute))

    def make(self, written: str | Spec | PluginT) -> PluginT:
        """Build the object a spec string describes; an object is returned as it is."""
        if not isinstance(written, str | Spec):
            if self.base is not None and not isinstance(written, self.base):
                raise InvalidParameter(
                    f"{self._article} {self.kind} must be a text such as {min(self.table)!r} or an object of "
                    f"truerank.{self.base.__name__}, got {type(written).__name__}."
                )
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
        try:
            return cls(**given)
        except InvalidParameter as error:  # say which of several specs is meant
            raise InvalidParameter(f"{spec}: {error}") from None

    def make_all(self, written: str | PluginT | Sequence[str | PluginT]) -> tuple[PluginT, ...]:
        """Build from comma-separated texts, objects, or a list of both; repeated ones are kept once."""
        listed = written if isinstance(written, Sequence) and not isinstance(written, str) else [written]
        parts = [part for one in listed for part in (split_specs(one) if isinstance(one, str) else [one])]
        made = tuple(dict.fromkeys(self.make(part) for part in parts))
        if not made:
            raise InvalidParameter(
                f"at least one {self.kind} is needed, got none. Name {self._article} {self.kind}, such as "
                f"{min(self.table)}."
            )
        return made

    def entries(self) -> list[PluginSummary]:
        """One line per name: truerank's own, its presets, those of other packages.

        Warns of plug-ins of other packages that cannot be used.
        """
        lines = [self.entry(name) for name in (*sorted(self.table), *sorted(self.presets))]
        for name, plugin in sorted(self.installed().items()):
            try:
                lines.append(_summary(name, plugin.load(), plugin.package))
            except BrokenPlugin as error:
                warnings.warn(str(error), DataWarning, stacklevel=2)
        return lines

    def entry(self, name: str) -> PluginSummary:
        """Return the line of one name."""
        if name in self.presets:
            return PluginSummary(name, f"preset: {self.presets[name]}", "", "")
        package = "truerank" if name in self.table or name not in self else self.installed()[name].package
        return _summary(name, self.type_of(name), package)

    def _expand(self, spec: Spec) -> Spec:
        if spec.name not in self.presets:
            return spec
        base = parse_spec(self.presets[spec.name])
        params = {**dict(base.params), **dict(spec.params)}
        cutoff = spec.cutoff if spec.cutoff is not None else base.cutoff
        return self._expand(Spec(base.name, tuple(params.items()), cutoff))

    def _unknown_parameter(self, name: str, key: str, known: list[str]) -> InvalidParameter:
        if not known:
            return InvalidParameter(
                f"{self.kind} {name!r} takes no parameters, got {excerpt(key)!r}. Leave it out."
            )
        return InvalidParameter(
            f"{self.kind} {name!r} has no parameter {excerpt(key)!r}. {suggestion(key, tuple(sorted(known)))}"
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
            return _as_float(where, value)
        if option is Spec and isinstance(value, str):
            return Spec(value)
        if isinstance(option, type) and type(value) is option:
            return value
    if str in options and isinstance(value, Spec):
        return str(value)  # text that is itself a spec, such as stop=recall@20, needs no quotes
    wanted = " or ".join(_wanted(option) for option in options)
    shown = "none" if value is None else repr(value) if isinstance(value, str) else str(value).lower()
    raise InvalidParameter(f"{where} must be {wanted}, got {excerpt(shown)}.")


def _as_float(where: str, value: float) -> float:
    """Return a number as float64; raise where that would change an integer."""
    number = float(value)
    if isinstance(value, int) and number != value:  # Python compares all digits
        raise InvalidParameter(
            f"{where} must be a number that float64 holds, got {value}. Write {number!r}, the nearest."
        )
    return number


def _alternatives(hint: Any) -> tuple[Any, ...]:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return typing.get_args(hint)
    return (hint,)


def _wanted(option: Any) -> str:
    if typing.get_origin(option) is Literal:
        return " or ".join(str(choice) for choice in typing.get_args(option))
    names = {int: "an integer", float: "a number", bool: "true or false", str: "text", type(None): "none"}
    return names.get(option, "a spec such as name(key=value)")


def _summary(name: str, cls: Any, package: str = "truerank") -> PluginSummary:
    shown = [
        f"{field.name}={format_value(default_of(field))}" for field in fields(cls) if field.name != "cutoff"
    ]
    source = str(getattr(cls, "source", None) or "")
    return PluginSummary(name, _first_line(cls), ", ".join(shown), source, package)


def _first_line(cls: type) -> str:
    return (cls.__doc__ or "").strip().splitlines()[0] if cls.__doc__ else ""
