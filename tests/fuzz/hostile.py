"""Hostile material: changed bytes, odd values, and JSON with one value changed."""

from __future__ import annotations

import copy
import random
from typing import Any

#: Text in files that readers trip over.
PIECES = (
    *(b"\x00", b'"', b"\n", b",", b"9" * 20, b"-", b"1e400", b"\xff", b"::", b"nan", b"\r", b"\t", b"'"),
    *(
        b"\xef\xbb\xbf",
        b"\xc3\x28",
        b"\xe2\x80\xae",
        b"\x1b[31m",
        b"null",
        b"{",
        b"}",
        b"[",
        b"]",
        b"\x1f\x8b",
    ),
    *(b"PAR1", b"PK\x03\x04", b"0x10", b"1_000", b"\xd9\xa1", b";", b"|", b" ", b"\\", b"=1+1", b"%00"),
)

#: Numbers as one may write them, most of which nothing may take.
NUMBERS = (
    *("0", "1", "2", "3", "5", "10", "0.5", "0.95", "-1", "-0", "+1", "007", "1.0", "1e0", "1e3", "1e-3"),
    *(
        "nan",
        "inf",
        "-inf",
        "1e400",
        "1e-400",
        "-1e9",
        "0x10",
        "1_000",
        "1,000",
        "1 ",
        " 1",
        "\u0661",
        "\u216b",
        "\xbd",
    ),
    *("9" * 18, "9" * 20, "9" * 400, "9" * 5_000, "-" + "9" * 30, str(2**31), str(2**32), str(2**53 + 1)),
    *(
        str(2**63 - 1),
        str(2**63),
        str(2**64 - 1),
        str(2**64),
        "0.1e",
        "1.5",
        "99",
        "100",
        "1e9",
        "1e12",
        "1e14",
    ),
    *("0." + "0" * 400 + "1", "0." + "9" * 30, "1e5", "100000", "100000000000", "4294967295", "1e308"),
)

#: Text that is no number, path or name.
WORDS = (
    *(
        "",
        " ",
        "\t",
        "\n",
        "x",
        "X" * 300,
        "x" * 5_000,
        "\x00",
        "a\x00b",
        "\x1b[31mred\x1b[0m",
        "\u202e",
        "\ud800",
    ),
    *(
        "ß",
        "naïve",
        "日本",
        "😀",
        "e\u0301",
        "none",
        "None",
        "null",
        "true",
        "false",
        "nan",
        "..",
        ".",
        "/",
        "~",
    ),
    *(
        "-",
        "--",
        "-1",
        "--help-me",
        "@file",
        "=",
        ",",
        ";",
        ",,,",
        "a=b",
        "a,b",
        "*",
        "?",
        "[",
        "]",
        "{}",
        "{0}",
    ),
    *("%s", "%n", "%(x)s", "$HOME", "`id`", "$(id)", "' or 1=1", '"', "'", "\\", "\\n", "<script>", "=1+1"),
    *(
        "/dev/null",
        "/dev/zero",
        "/dev/full",
        "/proc/self/mem",
        "/etc",
        "/root/x",
        "nosuch/x.csv",
        "x" * 260 + ".csv",
    ),
    *(
        "http://127.0.0.1:9/x.csv",
        "https://",
        "s3://bucket/x",
        "file:///etc/passwd",
        "ftp://x",
        "data:,x",
        "://",
    ),
    *("zip://a::b", "memory://x", "hf://x/y", "C:\\x.csv", "//host/x", "a" * 90 + ".json", "x.json", "x.csv"),
)


def mutated(data: bytes, draw: random.Random) -> bytes:
    """Return the bytes cut off, or with a few of them flipped, inserted, removed, repeated or swapped."""
    kind = draw.randrange(7)
    if not data or kind == 0:
        return data[: draw.randrange(len(data) + 1)]
    changed = bytearray(data)
    for _ in range(draw.choice([1, 1, 1, 2, 8])):
        if not changed:
            break
        at, length = draw.randrange(len(changed)), draw.randrange(1, 10)
        if kind == 1:
            changed[at] ^= 1 << draw.randrange(8)
        elif kind == 2:
            changed[at:at] = draw.choice(PIECES)
        elif kind == 3:
            del changed[at : at + length]
        elif kind == 4:
            changed[at] = draw.randrange(256)
        elif kind == 5:
            changed[at:at] = changed[at : at + length] * draw.choice([1, 2, 50])
        else:
            other = draw.randrange(len(changed))
            changed[at : at + length], changed[other : other + length] = (
                changed[other : other + length],
                changed[at : at + length],
            )
    return bytes(changed)


def mutated_text(text: str, draw: random.Random) -> str:
    """Return a text with a few letters changed, as a terminal or a JSON file could hold it."""
    letters = list(text)
    for _ in range(draw.choice([1, 1, 2, 4])):
        at = draw.randrange(len(letters) + 1)
        kind = draw.randrange(4)
        if kind == 0:
            letters[at:at] = draw.choice("()=,@'\"\\ .-+0123456789eEnNaA\t\n☃\u202e")
        elif kind == 1:
            del letters[at : at + draw.randrange(1, 4)]
        elif kind == 2:
            letters[at : at + 1] = draw.choice([*NUMBERS, *WORDS])
        else:
            letters[at:at] = letters[: draw.randrange(len(letters) + 1)]
    return "".join(letters)


def odd_value(draw: random.Random) -> Any:
    """Return a JSON value of any kind."""
    number = draw.choice([0, 1, -1, 0.5, 1e308, -1e308, 5e-324, 2**53 + 1, 2**64, 10**400, True, False, None])
    container: Any = draw.choice([[], {}, [[]], {"a": 1}, [1, "x"], [None], {"": {}}, ["x"] * 50])
    return draw.choice(
        [number, draw.choice(WORDS), draw.choice(NUMBERS), container, float("nan"), float("inf")]
    )


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path of every value inside a JSON value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(found for key, one in inner for found in places(one, (*path, key)))]


def changed_json(value: Any, draw: random.Random) -> tuple[Any, str]:
    """Return a JSON value with one place changed, and how."""
    made = copy.deepcopy(value)
    path = draw.choice([path for path in places(made) if path])
    parent = made
    for key in path[:-1]:
        parent = parent[key]
    kind = draw.randrange(6)
    if kind == 0:
        del parent[path[-1]]
        return made, "removed"
    if kind == 1 and isinstance(parent, dict):
        parent[draw.choice(WORDS)] = odd_value(draw)
        return made, "added"
    if kind == 2:
        nested: Any = 1
        for _ in range(draw.choice([5, 200])):
            nested = draw.choice([[nested], {"a": nested}])
        parent[path[-1]] = nested
    elif kind == 3 and isinstance(parent[path[-1]], int | float):
        parent[path[-1]] = parent[path[-1]] * draw.choice([-1, 0.5, 1 + 1e-9, 1e9]) + draw.choice([0, 1e-12])
    else:
        parent[path[-1]] = odd_value(draw)
    return made, "changed"
