"""Checks at the borders; inside, types are trusted."""

from __future__ import annotations

import numbers

from truerank.core.errors import InvalidParameter


def check_cutoff(cutoff: int | None) -> None:
    """Raise unless the cut-off is None (no cut-off) or an integer >= 1."""
    if cutoff is None:
        return
    if isinstance(cutoff, bool) or not isinstance(cutoff, numbers.Integral) or cutoff < 1:
        raise InvalidParameter(f"cutoff must be an integer >= 1, got {cutoff!r}.")


def check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    """Raise unless the value is one of the named choices."""
    if value not in choices:
        raise InvalidParameter(f"{name} must be one of {', '.join(choices)}, got {value!r}.")


def check_level(level: float) -> None:
    """Raise unless the confidence level lies strictly between 0 and 1."""
    if not 0 < level < 1:
        raise InvalidParameter(f"level must lie between 0 and 1, got {level!r}. Use for example 0.95.")


def check_at_least(name: str, value: float, least: float) -> None:
    """Raise unless value >= least."""
    if not value >= least:
        raise InvalidParameter(f"{name} must be at least {least}, got {value!r}.")


def check_above(name: str, value: float, bound: float) -> None:
    """Raise unless value > bound."""
    if not value > bound:
        raise InvalidParameter(f"{name} must be greater than {bound}, got {value!r}.")
