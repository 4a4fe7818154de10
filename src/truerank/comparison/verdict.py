"""Verdicts, and how strong they are."""

from __future__ import annotations

from enum import StrEnum

#: Means of equal values in another order differ by rounding; what is smaller counts as no difference.
ROUNDING = 1e-12


class Verdict(StrEnum):
    """What can be said about A and B."""

    FIRST = "A beats B"
    SECOND = "B beats A"
    EQUIVALENT = "equivalent within the margin"
    EQUAL = "equal"
    NOISE = "cannot tell: noise"
    UNRESOLVED = "cannot tell: not resolved"

    @property
    def is_decided(self) -> bool:
        """Whether the sample can tell."""
        return self not in (Verdict.NOISE, Verdict.UNRESOLVED)


class Strength(StrEnum):
    """What a verdict rests on."""

    EXACT = "exactly"
    RANKS = "whatever the ranks are"
    USERS = "for users like these"
    ESTIMATOR = "by the estimator"
    NONE = ""


def from_ends(low: float, high: float, margin: float | None) -> Verdict:
    """Return what the ends of an interval of A - B say; NaN ends say nothing.

    Examples
    --------
    >>> [from_ends(low, 0.03, None).value for low in (0.01, -0.01)], from_ends(0.01, 0.03, 0.05).value
    (['A beats B', 'cannot tell: noise'], 'equivalent within the margin')
    """
    if max(abs(low), abs(high)) <= ROUNDING:
        return Verdict.EQUAL
    if margin is not None and -margin <= low and high <= margin:
        return Verdict.EQUIVALENT
    if low > ROUNDING:
        return Verdict.FIRST
    if high < -ROUNDING:
        return Verdict.SECOND
    return Verdict.NOISE


def judge(
    interval: tuple[float, float],
    bounds: tuple[float, float] | None,
    *,
    margin: float | None,
    is_exact: bool,
    is_population: bool,
) -> tuple[Verdict, Strength, Verdict]:
    """Return the verdict, what it rests on, and what the interval alone says.

    Parameters
    ----------
    interval : of the difference, for noise; that of exact ranks and these users has no width
    bounds : of the difference over all rank distributions that the samples allow, for these users; None where
        they were not asked for or cannot be had
    margin : differences up to this much count as none
    is_exact : whether all items were ranked for both models
    is_population : whether the verdict is about all users like these

    Notes
    -----
    From samples a verdict about these users stands if the bounds give it. Otherwise an interval that leaves
    out 0 only says what the estimator makes of the sample, and that is not enough where the bounds allow
    either sign. Bounds hold for these users, so for all users like them the interval must decide too.
    """
    alone = from_ends(*interval, margin)
    if is_exact:
        own = Strength.USERS if is_population else Strength.EXACT
        return alone, own if alone.is_decided else Strength.NONE, alone
    if bounds is not None:
        over_all = from_ends(*bounds, margin)
        if over_all.is_decided and not is_population:
            return over_all, Strength.RANKS, alone
        if not alone.is_decided:
            return Verdict.NOISE, Strength.NONE, alone
        if over_all is not alone:
            return Verdict.UNRESOLVED, Strength.NONE, alone
    return alone, Strength.ESTIMATOR if alone.is_decided else Strength.NONE, alone
