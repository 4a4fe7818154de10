"""Spec strings: one way to write a plug-in with its parameters everywhere.

::

    spec  = name [ "(" key "=" value { "," key "=" value } ")" ] [ "@" cutoff ]
    value = integer | number | true | false | none | 'text' | word | spec

``ndcg@10``, ``ap(norm=rel)@10``, ``ease(reg=500)``, ``bv(prior=beta(a=0.5))``.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TypeAlias, Union

from truerank.core.errors import InvalidParameter

Value: TypeAlias = Union[int, float, bool, str, "Spec", None]

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?=[\s(),=@]|\Z))
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
        self.text = text
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
            f"cannot read {self.text.strip()!r}: {what}. Write it as name(key=value, key=value)@cutoff."
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
            raise self.error(f"expected {mark!r} but found {text!r}")

    def end(self) -> None:
        kind, text = self.peek()
        if kind != "end":
            raise self.error(f"unexpected {text!r}")

    def spec(self) -> Spec:
        kind, name = self.take()
        if kind != "word" or not _NAMES.match(name):
            raise self.error(f"expected a name but found {name!r}")
        params = self.params() if self.peek()[1] == "(" else ()
        cutoff = None
        if self.peek()[1] == "@":
            self.take()
            kind, text = self.take()
            if kind != "number" or not re.fullmatch(r"[+-]?\d+", text):
                raise InvalidParameter(
                    f"cutoff must be an integer >= 1, got {text!r} in {self.text.strip()!r}."
                )
            cutoff = int(text)
        return Spec(name, params, cutoff)

    def params(self) -> tuple[tuple[str, Value], ...]:
        self.expect("(")
        found: dict[str, Value] = {}
        while self.peek()[1] != ")":
            kind, key = self.take()
            if kind != "word":
                raise self.error(f"expected a parameter name but found {key!r}")
            self.expect("=")
            if key in found:
                raise self.error(f"parameter {key!r} is given twice")
            found[key] = self.value()
            if self.peek()[1] != ")":
                self.expect(",")
        self.expect(")")
        return tuple(found.items())

    def value(self) -> Value:
        kind, text = self.peek()
        if kind == "word" and self.next + 1 < len(self.tokens) and self.tokens[self.next + 1][1] in "(@":
            return self.spec()
        self.take()
        if kind == "number":
            return int(text) if re.fullmatch(r"[+-]?\d+", text) else float(text)
        if kind == "quoted":
            return re.sub(r"\\(.)", r"\1", text[1:-1])
        if kind == "word":
            return _WORDS.get(text.lower(), text)
        raise self.error(f"expected a value but found {text!r}")
