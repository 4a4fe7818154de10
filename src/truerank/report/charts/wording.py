"""Lists and percentages in the sentences of a report."""

from __future__ import annotations

from collections.abc import Sequence

from truerank.core.table import percent

_MOST = 6  # entries of a list in a sentence


def listed_in_words(entries: Sequence[str], most: int = _MOST) -> str:
    """Return entries as a list in a sentence; those beyond ``most`` are counted.

    Examples
    --------
    >>> listed_in_words(["a", "b", "c"]), listed_in_words(["a", "b", "c", "d"], most=2)
    ('a, b and c', 'a, b and 2 more')
    """
    shown = list(entries[:most])
    if len(entries) > most:
        return f"{', '.join(shown)} and {len(entries) - most:,} more"
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def joined_clauses(entries: Sequence[str], most: int = 2 * _MOST) -> str:
    """Return clauses that hold commas of their own; those beyond ``most`` are counted.

    Examples
    --------
    >>> joined_clauses(["ease, exact 0.1", "ease, bv 0.2"]), joined_clauses(["a", "b", "c"], most=1)
    ('ease, exact 0.1; ease, bv 0.2', 'a; and 2 more')
    """
    more = [f"and {len(entries) - most:,} more"] if len(entries) > most else []
    return "; ".join([*entries[:most], *more])


def rounded_percent(fraction: float) -> str:
    """Return a fraction as a percentage to two significant digits.

    Examples
    --------
    >>> rounded_percent(0.1234), rounded_percent(0.0004), rounded_percent(1.0)
    ('12 %', '0.04 %', '100 %')
    """
    return percent(fraction, 2 if fraction < 0.995 else 3, space=" ")
