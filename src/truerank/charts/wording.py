"""Numbers and lists as they stand in sentences."""

from __future__ import annotations

from collections.abc import Sequence

_MOST = 6  # entries of a list in a sentence


def listed(entries: Sequence[str], most: int = _MOST) -> str:
    """Return entries as a list in a sentence; those beyond ``most`` are counted.

    Examples
    --------
    >>> listed(["a"]), listed(["a", "b", "c"]), listed(["a", "b", "c", "d"], most=2)
    ('a', 'a, b and c', 'a, b and 2 more')
    """
    shown = list(entries[:most])
    if len(entries) > most:
        return f"{', '.join(shown)} and {len(entries) - most:,} more"
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def each(entries: Sequence[str], most: int = 2 * _MOST) -> str:
    """Return clauses that hold commas of their own; those beyond ``most`` are counted.

    Examples
    --------
    >>> each(["ease, exact 0.1", "ease, bv 0.2"]), each(["a", "b", "c"], most=1)
    ('ease, exact 0.1; ease, bv 0.2', 'a; and 2 more')
    """
    more = [f"and {len(entries) - most:,} more"] if len(entries) > most else []
    return "; ".join([*entries[:most], *more])


def share(value: float) -> str:
    """Return a share as a percentage for reading.

    Examples
    --------
    >>> share(0.1234), share(0.0004), share(1.0)
    ('12 %', '0.04 %', '100 %')
    """
    return f"{100 * value:.2g} %" if value < 0.995 else f"{100 * value:.3g} %"


def about(value: float) -> str:
    """Return a number to two digits, thousands marked.

    Examples
    --------
    >>> about(1234.5), about(7), about(0.126)
    ('1,200', '7', '0.13')
    """
    rounded = float(f"{value:.1e}")
    return f"{rounded:,.0f}" if rounded >= 10 or rounded == round(rounded) else f"{rounded:g}"
