"""Names that must fit."""

from __future__ import annotations

LONGEST_NAME = 28  # what fits beside a value on a phone


def shortened(name: str, longest: int = LONGEST_NAME) -> str:
    """Return the name, or its two ends when it is too long.

    Examples
    --------
    >>> shortened("item-knn(power=3, norm=l2)", 13)
    'item-knn…=l2)'
    """
    if len(name) <= longest:
        return name
    tail = longest // 3
    return f"{name[: longest - 1 - tail]}…{name[-tail:]}"
