"""Numbers as a reader wants to see them."""

from __future__ import annotations

import math
from collections.abc import Iterable

MISSING = "\N{EN DASH}"


def decimals(values: Iterable[float]) -> int:
    """Return how many decimals one column of numbers gets: four, unless its largest is tiny or above ten.

    Examples
    --------
    >>> decimals([0.31, 0.2]), decimals([0.00031]), decimals([123.4]), decimals([0.0])
    (4, 6, 1, 4)
    """
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    exponent = math.floor(math.log10(largest)) if largest > 0 else 0
    if exponent >= 1:
        return max(0, 3 - exponent)
    return 4 if exponent >= -2 else min(2 - exponent, 12)


def fixed(value: float | None, places: int) -> str:
    """Return the number with a fixed number of decimals and thousands marked, or a dash for none.

    Examples
    --------
    >>> fixed(0.12345, 4), fixed(12345.6, 1), fixed(None, 4) == fixed(float("nan"), 4) == MISSING
    ('0.1235', '12,345.6', True)
    """
    if value is None or not math.isfinite(value):
        return MISSING
    return f"{value:,.{places}f}".replace("-", "\N{MINUS SIGN}")


def percent(share: float) -> str:
    """Return a share as a percentage without needless zeros, with a space that does not break.

    Examples
    --------
    >>> [percent(share).split() for share in (0.95, 0.999, 1.0)]
    [['95', '%'], ['99.9', '%'], ['100', '%']]
    """
    return f"{100 * share:.6g}\N{NO-BREAK SPACE}%"


def count_of(number: int, noun: str) -> str:
    """Return a count with its noun.

    Examples
    --------
    >>> count_of(1, "user"), count_of(6040, "user")
    ('1 user', '6,040 users')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
