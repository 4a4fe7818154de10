"""Attacks on spec strings: what is written is what is made, and what is made writes itself as it was read."""

from __future__ import annotations

import math
import random
import typing
from typing import Any, ClassVar

import truerank
from tests.fuzz.harness import Attack, Verdict, WrongAnswer
from tests.fuzz.hostile import NUMBERS, WORDS, mutated_text
from truerank.core.plugin import (
    Plugin,
    Registry,
    Spec,
    format_value,
    parameter_types,
    parse_spec,
    split_specs,
)

#: Every registry of plug-ins, by its public name.
REGISTRIES: dict[str, Registry[Any]] = {
    name: found for name in truerank.__all__ if isinstance(found := getattr(truerank, name), Registry)
}
VALUES: tuple[Any, ...] = (
    *(
        0,
        1,
        2,
        5,
        10,
        99,
        1_000,
        -1,
        0.5,
        0.1,
        1.0,
        1e-9,
        1e9,
        1e300,
        -0.0,
        math.inf,
        -math.inf,
        True,
        False,
        None,
    ),
    *(
        10**9,
        10**12,
        10**19,
        2**63,
        2**64,
        10**25,
        "auto",
        "last",
        "mean",
        "x",
        "",
        "a b",
        "a'b",
        "ä",
        "\\",
        "1",
        "true",
    ),
)


def drawn_spec(registry: Registry[Any], draw: random.Random, depth: int = 0) -> tuple[str, dict[str, Any]]:
    """Return a spec string of a plug-in that exists, and the values of its parameters."""
    name = draw.choice(sorted(registry.table))
    hints = parameter_types(typing.cast(Any, registry.type_of(name)))
    given: dict[str, Any] = {}
    for key, hint in hints.items():
        if key != "cutoff" and draw.random() < 0.4:
            given[key] = drawn_value(hint, draw, depth)
    shown = ", ".join(
        f"{key}={one if isinstance(one, Nested) else format_value(one)}" for key, one in given.items()
    )
    text = f"{name}({shown})" if given else name
    if "cutoff" in hints and draw.random() < 0.7:
        given["cutoff"] = draw.choice([1, 2, 5, 10, 50, 0, -1, 10**9, 10**10, 10**22])
        text += f"@{given['cutoff']}"
    return text, given


class Nested(str):
    """A spec inside a spec."""


def drawn_value(hint: Any, draw: random.Random, depth: int) -> Any:
    """Return a value for a parameter, one in four of a type that it does not take."""
    options = typing.get_args(hint) or (hint,)
    if draw.random() < 0.25:
        return draw.choice(VALUES)
    if Spec in options and depth < 3:
        return Nested(drawn_spec(REGISTRIES[draw.choice(sorted(REGISTRIES))], draw, depth + 1)[0])
    fitting = [one for one in VALUES if type(one) in options or (float in options and type(one) is int)]
    words = [one for one in options if isinstance(one, str)]
    return draw.choice([*words, *fitting] or VALUES)


def check_round_trip(registry: Registry[Any], made: Any) -> None:
    """Raise unless an object writes itself as a text that makes an equal one."""
    again = registry.make(str(made))
    if again != made or str(again) != str(made):
        raise WrongAnswer(f"{made!r} writes itself as {str(made)!r}, which is {again!r}")


class Specs(Attack):
    """Specs of every registry, drawn from its grammar: parameters of all types and sizes."""

    name: ClassVar[str] = "specs: drawn"
    cases: ClassVar[int] = 4_000
    few: ClassVar[int] = 150

    def attempt(self, draw: random.Random) -> Verdict:
        registry = REGISTRIES[draw.choice(sorted(REGISTRIES))]
        text, given = drawn_spec(registry, draw)
        made = registry.make(text)
        for key, value in given.items():
            found = getattr(made, key)
            is_plugin = isinstance(found, Plugin | Spec) or isinstance(value, Nested)
            if not is_plugin and found != value:
                raise WrongAnswer(f"{text}: {key} became {found!r}")
        check_round_trip(registry, made)
        return Verdict.ok


class ChangedSpecs(Attack):
    """Specs with changed letters, nested, repeated, and texts that are no specs at all."""

    name: ClassVar[str] = "specs: letters changed"
    cases: ClassVar[int] = 4_000
    few: ClassVar[int] = 150

    def attempt(self, draw: random.Random) -> Verdict:
        registry = REGISTRIES[draw.choice(sorted(REGISTRIES))]
        text = mutated_text(drawn_spec(registry, draw)[0], draw)
        kind = draw.randrange(12)
        if kind == 0:
            depth = draw.choice([5, 12, 3_000])
            text = f"{text.partition('(')[0]}(a=" * depth + "x" + ")" * draw.choice([0, depth])
        elif kind == 1:
            text = draw.choice([*WORDS, *NUMBERS])
        elif kind == 2:
            text = ",".join([text] * draw.choice([2, 300]))
        listed = registry.make_all(text)
        for part, made in zip(dict.fromkeys(split_specs(text)), listed, strict=False):
            check_round_trip(registry, made)
            check_names(part, made)
        return Verdict.ok


def check_names(text: str, made: Any) -> None:
    """Raise unless every parameter that was named has its value."""
    for key, value in parse_spec(text).params:
        found = getattr(made, key, None)
        if isinstance(value, bool | int | float) and isinstance(found, bool | int | float) and found != value:
            raise WrongAnswer(f"{text}: {key} became {found!r}")


ATTACKS: tuple[type[Attack], ...] = (Specs, ChangedSpecs)
