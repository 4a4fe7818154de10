"""Verdicts in sentences."""

from __future__ import annotations

from dataclasses import dataclass

from truerank.comparison.difference import Difference
from truerank.comparison.verdict import Strength, Verdict


@dataclass(frozen=True)
class Circumstance:
    """What a sentence must know beside the numbers.

    Parameters
    ----------
    estimator : spec string; empty for exact ranks
    cutoff : of the metric
    n_negatives : of the sample, None where it has several sizes
    margin : what counts as a tie
    sought : whether the number of negatives that would tell was looked for: not where the estimate lies
        outside the bounds
    """

    estimator: str = ""
    cutoff: int | None = None
    n_negatives: int | None = None
    margin: float | None = None
    sought: bool = False


def sentence(one: Difference, at: Circumstance) -> str:
    """Return what can be said about two models in one metric."""
    if one.verdict is Verdict.NOISE:
        return f"{_cannot(one)}: noise. {_noise(one, at)}"
    if one.verdict is Verdict.UNRESOLVED:
        return f"{_cannot(one)}: {_unresolved(one, at)}"
    return f"{_claim(one, at)} {_ground(one, at)}"


def headline(one: Difference) -> str:
    """Return the verdict in a few words: who wins and what that rests on, or why nobody does."""
    if one.verdict is Verdict.UNRESOLVED:
        return f"{one.verdict.value} (by the estimator: {_winner(one, one.by_interval)})"
    if one.verdict is Verdict.NOISE:
        return one.verdict.value
    return f"{_winner(one, one.verdict)}, {one.strength.value}"


def _winner(one: Difference, verdict: Verdict) -> str:
    named = {Verdict.FIRST: one.first, Verdict.SECOND: one.second}
    return named.get(verdict, verdict.value)


def _cannot(one: Difference) -> str:
    return f"this sample cannot tell {one.first} from {one.second} in {one.metric}"


def _noise(one: Difference, at: Circumstance) -> str:
    if one.low is None or one.high is None:
        return "One user does not show how far users differ."
    span = _span(one.low, one.high)
    half = (one.high - one.low) / 2
    margin = f" and exceeds the margin of {at.margin:g}" if at.margin is not None else ""
    text = f"The difference of {one.value:+.4f} has the interval {span}, which holds 0{margin}."
    if abs(one.value) > 0 and one.low <= 0 <= one.high:
        times = (half / abs(one.value)) ** 2
        if 1 < times < 1000:
            more = ", or more negatives," if at.estimator else ""
            text += (
                f" About {_two_digits(times * one.n_users)} users like these{more} would tell if it stays."
            )
    return text


def _unresolved(one: Difference, at: Circumstance) -> str:
    drawn = "these samples" if at.n_negatives is None else f"{at.n_negatives:,} negatives"
    if at.cutoff is None:
        start = f"{drawn} do not resolve it."
    else:
        start = f"K = {at.cutoff} is below what {drawn} resolve."
    text = f"{start} Any difference from {one.bound_low:+.3f} to {one.bound_high:+.3f} fits, though "
    text += f"{at.estimator} says {one.value:+.4f} {_span(one.low, one.high)}"
    text += "." if at.sought else ", which nothing that fits gives."
    if one.needed_negatives is not None:
        text += f" About {one.needed_negatives:,} negatives would tell if the values stay."
    elif at.sought:
        text += " Only ranking all items would tell."
    return text


def _claim(one: Difference, at: Circumstance) -> str:
    if one.verdict is Verdict.FIRST:
        return f"{one.first} beats {one.second} in {one.metric}"
    if one.verdict is Verdict.SECOND:
        return f"{one.second} beats {one.first} in {one.metric}"
    if one.verdict is Verdict.EQUAL:
        return f"{one.first} and {one.second} are equal in {one.metric}"
    return f"{one.first} and {one.second} are equivalent in {one.metric} within {at.margin:g}"


def _ground(one: Difference, at: Circumstance) -> str:
    if one.strength is Strength.RANKS:
        return f"whatever the ranks are: the difference lies in {_span(one.bound_low, one.bound_high)}."
    if one.strength is Strength.EXACT:
        text = f"on these {one.n_users:,} users, exactly: {one.value:+.4f}."
        if one.population_low is not None:
            text += f" Among all users like them: {_span(one.population_low, one.population_high)}."
        return text
    found = f"{one.value:+.4f} {_span(one.low, one.high)}"
    if one.strength is Strength.USERS:
        return f"among users like these: {found}."
    return f"by the estimator {at.estimator}: {found}, its bias not counted."


def _span(low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return "[unknown]"
    return f"[{low:+.4f}, {high:+.4f}]"


def _two_digits(number: float) -> str:
    return f"{int(float(f'{number:.1e}')):,}"
