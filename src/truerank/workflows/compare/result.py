"""The result of a comparison: differences, and all that is needed to repeat them.

Verdicts, and how strong they are.

Verdicts in sentences.

Differences as a table.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from truerank.core.errors import InvalidData
from truerank.core.result import Estimate
from truerank.core.table import Table
from truerank.version import __version__

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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


@dataclass(frozen=True)
class Difference:
    """One metric of two models: first minus second.

    Parameters
    ----------
    first, second, metric : A, B and what is compared
    value : A - B
    low, high, level, target : the interval for the target; no width where the difference is known, None where
        there is none. All intervals of a comparison hold at once, unless no correction was made
    probability : that A beats B, as far as noise goes; 0, 1/2 or 1 where the difference is known
    population_low, population_high : the interval for all users like these
    p_value, p_adjusted : of no difference among all users like these, alone and among all comparisons
    p_randomised : the same alone, by flipping signs of users' differences; None where users are not paired
    bound_low, bound_high : what all rank distributions allow for these users; None where it was not found
    method : how the interval was made
    pairing : whether users and negatives are the same
    verdict, strength : what can be said, and what that rests on
    by_interval : what the interval alone says, whatever the bounds
    n_users : users behind it
    needed_negatives : about how many would let the bounds part; None where not sought or where only ranking
        all items would
    sentence : the verdict in words
    """

    first: str
    second: str
    metric: str
    value: float
    low: float | None
    high: float | None
    level: float
    target: str
    probability: float | None
    population_low: float | None
    population_high: float | None
    p_value: float | None
    p_adjusted: float | None
    p_randomised: float | None
    bound_low: float | None
    bound_high: float | None
    method: str
    pairing: str
    verdict: Verdict
    strength: Strength
    by_interval: Verdict
    n_users: int
    needed_negatives: int | None = None
    sentence: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return a plain dictionary for JSON."""
        return {
            name: value.value if isinstance(value, (Verdict, Strength)) else value
            for name, value in asdict(self).items()
        }

    @classmethod
    def from_dict(cls, entries: Mapping[str, Any]) -> Difference:
        """Build from what ``to_dict`` returned."""
        kinds = {"verdict": Verdict, "strength": Strength, "by_interval": Verdict}
        try:
            read: dict[str, Any] = {**entries, **{name: kind(entries[name]) for name, kind in kinds.items()}}
            return cls(**read)
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidData(
                f"a difference in the comparison file is damaged ({error}). Write it anew."
            ) from None


@dataclass(frozen=True)
class Comparison:
    """Values of all models, their differences, and how they were found.

    Parameters
    ----------
    estimates : value of each model and metric, without intervals of their own
    differences : one per pair and metric
    notes : what a reader must know, in sentences
    provenance : options, seed and what was compared
    version : of truerank
    """

    estimates: tuple[Estimate, ...]
    differences: tuple[Difference, ...]
    notes: tuple[str, ...] = ()
    provenance: Mapping[str, Any] = field(default_factory=dict)
    version: str = __version__

    def models(self) -> list[str]:
        """Return model names in the order they were given."""
        return list(dict.fromkeys(estimate.model for estimate in self.estimates))

    def difference(self, first: str, second: str, metric: str) -> Difference:
        """Return one difference by the names of both models and the metric.

        Raises
        ------
        InvalidData
            When it was not compared this way round.
        """
        for one in self.differences:
            if (one.first, one.second, one.metric) == (first, second, metric):
                return one
        known = "; ".join(f"{one.first} - {one.second} in {one.metric}" for one in self.differences)
        raise InvalidData(f"there is no difference {first} - {second} in {metric}. There are: {known}.")

    def to_table(self) -> Table:
        """Return one row per pair and metric: the difference with its interval, and the verdict."""
        return difference_table(self)

    def plot(self, metric: str | None = None, *, width: float | None = None) -> Figure:
        """Return the differences with their intervals as a matplotlib figure, the bounds in grey behind them.

        Parameters
        ----------
        metric : one of those compared; a panel for each by default
        width : inches; one column of a paper by default, more where panels need it

        Raises
        ------
        InvalidData
            When the metric was not compared.
        """
        from truerank.report.charts.documents import draw_forests

        return draw_forests(self, metric, width=width)

    def to_dict(self) -> dict[str, Any]:
        """Return a plain dictionary for JSON."""
        return {
            "command": "compare",
            "version": self.version,
            "estimates": [estimate.to_dict() for estimate in self.estimates],
            "differences": [one.to_dict() for one in self.differences],
            "notes": list(self.notes),
            "provenance": dict(self.provenance),
        }

    def to_json(self) -> str:
        """Return the JSON text."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)

    @classmethod
    def from_dict(cls, entries: Mapping[str, Any]) -> Comparison:
        """Build from what ``to_dict`` returned."""
        try:
            return cls(
                estimates=tuple(Estimate.from_dict(entry) for entry in entries["estimates"]),
                differences=tuple(Difference.from_dict(entry) for entry in entries["differences"]),
                notes=tuple(entries["notes"]),
                provenance=entries["provenance"],
                version=entries["version"],
            )
        except (KeyError, TypeError) as error:
            raise InvalidData(f"a comparison must be the JSON that truerank wrote ({error!r}).") from None

    @classmethod
    def from_json(cls, text: str) -> Comparison:
        """Read what ``to_json`` wrote."""
        try:
            return cls.from_dict(json.loads(text))
        except json.JSONDecodeError as error:
            raise InvalidData(f"a comparison must be the JSON that truerank wrote ({error!r}).") from None


#: Columns of a table of differences.
COLUMNS = tuple(entry.name for entry in fields(Difference))


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


TABLE_COLUMNS = ("A", "B", "metric", "A - B", "P(A > B)", "adjusted p", "verdict")


def difference_table(found: Comparison) -> Table:
    """Return one row per pair and metric, the verdict last."""
    return Table(TABLE_COLUMNS, tuple(_row(one) for one in found.differences))


def _row(one: Difference) -> tuple[str, ...]:
    interval = "" if one.low is None or one.high is None else f" [{one.low:+.4f}, {one.high:+.4f}]"
    probability = "" if one.probability is None else f"{one.probability:.3f}"
    p_value = "" if one.p_adjusted is None else f"{one.p_adjusted:.2g}"
    value = f"{one.value:+.4f}{interval}"
    return one.first, one.second, one.metric, value, probability, p_value, headline(one)
