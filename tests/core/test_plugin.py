"""Registries build what a spec string says and refuse the rest with a sentence."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar, Literal

import pytest

from truerank.core.errors import InvalidParameter, UnknownName
from truerank.core.plugin import Plugin, Registry, Spec


@dataclass(frozen=True)
class Toy(Plugin):
    """A toy with every kind of parameter."""

    key: ClassVar[str] = "toy"

    cutoff: int | None = None
    size: int = 3
    rate: float = 0.5
    mode: Literal["row", "column"] = "row"
    deep: bool = False
    path: str = "x"
    top: int | None = None


@dataclass(frozen=True)
class Bare(Plugin):
    """A toy with none."""

    key: ClassVar[str] = "bare"


TOYS: Registry[Plugin] = Registry(
    "toy",
    {"toy": f"{__name__}:Toy", "bare": f"{__name__}:Bare"},
    presets={"big": "toy(size=9)", "bigger": "big(rate=1)@7"},
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("toy", Toy()),
        ("toy@4", Toy(cutoff=4)),
        (
            "toy(size=5, rate=1, mode=column, deep=true, path='a b', top=2)",
            Toy(None, 5, 1.0, "column", True, "a b", 2),
        ),
        ("toy(top=none)", Toy()),
        ("big", Toy(size=9)),
        ("big(size=2)@3", Toy(size=2, cutoff=3)),
        ("bigger", Toy(size=9, rate=1.0, cutoff=7)),
    ],
)
def test_makes(text: str, expected: Toy) -> None:
    made = TOYS.make(text)
    assert made == expected
    assert TOYS.make(str(made)) == expected
    assert TOYS.make(made) is made


def test_makes_all_of_a_list_once() -> None:
    assert TOYS.make_all("big, toy(size=9),bare") == (Toy(size=9), Bare())
    assert TOYS.make_all(["toy@2", Bare()]) == (Toy(cutoff=2), Bare())
    assert TOYS.make_all(["toy@2,toy(size=9)", "bare"]) == (Toy(cutoff=2), Toy(size=9), Bare())
    assert TOYS.make_all(Bare()) == (Bare(),)
    nothing: list[str] = []
    for written in ("", " , ", nothing):
        with pytest.raises(InvalidParameter, match=r"at least one toy is needed, got none\. Name a toy"):
            TOYS.make_all(written)


def test_defaults_are_not_written() -> None:
    assert str(Toy()) == "toy"
    assert str(Toy(cutoff=10, rate=2.0)) == "toy(rate=2)@10"
    assert Toy(size=4).spec() == Spec("toy", (("size", 4),))


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("tyo", UnknownName, "unknown toy 'tyo'. Did you mean 'toy'?"),
        ("zzz", UnknownName, "unknown toy 'zzz'. Known: bare, big, bigger, toy."),
        ("toy(sise=3)", InvalidParameter, "toy 'toy' has no parameter 'sise'. Did you mean 'size'?"),
        ("toy(cutoff=3)", InvalidParameter, "has no parameter 'cutoff'"),
        ("toy(size=1.5)", InvalidParameter, "toy(size=...) must be an integer, got 1.5."),
        ("toy(size=true)", InvalidParameter, "must be an integer, got true"),
        ("toy(rate=fast)", InvalidParameter, "must be a number, got 'fast'"),
        (
            "toy(rate=9007199254740993)",
            InvalidParameter,
            "9007199254740993. Write 9007199254740992.0, the nearest",
        ),
        ("toy(mode=diagonal)", InvalidParameter, "must be row or column, got 'diagonal'"),
        ("toy(deep=1)", InvalidParameter, "must be true or false, got 1"),
        ("toy(top=x)", InvalidParameter, "must be an integer or none, got 'x'"),
        ("bare@3", InvalidParameter, "toy 'bare' takes no cut-off, got '@3'"),
        ("bare(a=1)", InvalidParameter, "takes no parameters, got 'a'"),
    ],
)
def test_refuses(text: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        TOYS.make(text)
    assert message in str(caught.value)


def test_entries_list_parameters_and_presets() -> None:
    by_name = {entry.name: entry for entry in TOYS.entries()}
    assert by_name["toy"].summary == "A toy with every kind of parameter."
    assert by_name["toy"].parameters == "size=3, rate=0.5, mode=row, deep=false, path=x, top=none"
    assert by_name["big"].summary == "preset: toy(size=9)"


def test_a_registry_is_a_mapping_from_names_to_classes() -> None:
    assert list(TOYS) == ["bare", "big", "bigger", "toy"]
    assert len(TOYS) == 4
    assert TOYS["toy"] is TOYS["bigger"] is Toy
    assert dict(TOYS)["bare"] is Bare
    assert "big" in TOYS
    assert "huge" not in TOYS
    assert TOYS.get("huge") is None
    with pytest.raises(UnknownName, match=re.escape("unknown toy 'bige'. Did you mean 'big'?")):
        TOYS["bige"]
    assert repr(TOYS) == "<4 toys: bare, big, bigger, toy>"
