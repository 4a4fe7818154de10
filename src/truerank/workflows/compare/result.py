"""Result of a comparison: differences with intervals, bounds and a verdict each, as data, text and table.

A verdict says which model is better, or why this cannot be told: the interval for noise contains 0, or ranks
that the sample does not resolve leave the sign open. Its strength says what the verdict rests on, from exact
ranks over bounds and posterior down to an estimate whose bias is not counted.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from truerank.core.display import Displayed, Overview, frame_of
from truerank.core.errors import InvalidData
from truerank.core.provenance import check_schema, from_fields, head, parse_json
from truerank.core.result import Estimate, Group, Segments, find_segments
from truerank.core.table import Table, about, count_of, percent
from truerank.version import __version__

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.figure import Figure


#: Means of equal values in another order differ by rounding: differences up to this size count as 0.
ROUNDING = 1e-12


class Verdict(StrEnum):
    """Which of two models is better, or why that cannot be told."""

    FIRST = "A beats B"
    SECOND = "B beats A"
    EQUIVALENT = "equivalent within the margin"
    EQUAL = "equal"
    NOISE = "cannot tell: noise"
    UNRESOLVED = "cannot tell: not resolved"

    @property
    def is_decided(self) -> bool:
        """Whether the verdict is a statement about the difference."""
        return self not in (Verdict.NOISE, Verdict.UNRESOLVED)


class Strength(StrEnum):
    """Evidence for a verdict: exact ranks, bounds over all compatible ranks, users, posterior, estimator.

    Sampled users are those that slow models were asked about until they could be told apart.

    Of a posterior it says whether the sample resolves the ranks that the metric counts, or the prior decides
    how targets are spread over them.
    """

    EXACT = "exactly"
    RANKS = "whatever the ranks are"
    USERS = "for users like these"
    SAMPLE = "by the posterior, the sample decides"
    PRIOR = "by the posterior, the prior decides"
    ESTIMATOR = "by the estimator"
    INTERVALS = "by the intervals of both results"
    SAMPLED_USERS = "by sampled users"
    NONE = ""


def verdict_of_interval(low: float, high: float, margin: float | None) -> Verdict:
    """Return the verdict that an interval of A - B supports; an interval with NaN limits supports none.

    Examples
    --------
    >>> [verdict_of_interval(low, 0.03, None).value for low in (0.01, -0.01)]
    ['A beats B', 'cannot tell: noise']
    >>> verdict_of_interval(0.01, 0.03, 0.05).value
    'equivalent within the margin'
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


def decide_verdict(
    interval: tuple[float, float],
    bounds: tuple[float, float] | None,
    *,
    posterior: tuple[float, float] | None = None,
    prior_decides: bool = False,
    margin: float | None,
    is_exact: bool,
    is_population: bool,
) -> tuple[Verdict, Strength, Verdict]:
    """Return the verdict, its strength, and the verdict that the interval for noise alone supports.

    Parameters
    ----------
    interval : for the noise of the difference; of zero width for exact ranks of all test users
    bounds : of the difference on these users over all rank distributions that the samples allow; None where
        they were not requested or do not exist
    posterior : interval of the difference for the target; None where there is none
    prior_decides : whether the metric counts ranks that the sample does not resolve
    margin : differences up to this size count as equivalent
    is_exact : whether all items were ranked for both models
    is_population : whether the verdict is about the population of users

    Notes
    -----
    From samples a verdict about these users stands if the bounds support it, or else the posterior. An
    interval for noise that excludes 0 only reflects the estimator, which is not enough where posterior or
    bounds allow either sign. Bounds hold for these users, so for the population the posterior, or the
    interval for noise, must support the verdict too.
    """
    by_interval = verdict_of_interval(*interval, margin)
    if is_exact:
        strength = Strength.USERS if is_population else Strength.EXACT
        return by_interval, strength if by_interval.is_decided else Strength.NONE, by_interval
    by_bounds = None if bounds is None else verdict_of_interval(*bounds, margin)
    if by_bounds is not None and by_bounds.is_decided and not is_population:
        return by_bounds, Strength.RANKS, by_interval
    if posterior is not None:
        by_posterior = verdict_of_interval(*posterior, margin)
        if by_posterior.is_decided:
            return by_posterior, Strength.PRIOR if prior_decides else Strength.SAMPLE, by_interval
        return Verdict.UNRESOLVED if by_interval.is_decided else Verdict.NOISE, Strength.NONE, by_interval
    if by_bounds is not None:
        if not by_interval.is_decided:
            return Verdict.NOISE, Strength.NONE, by_interval
        if by_bounds is not by_interval:
            return Verdict.UNRESOLVED, Strength.NONE, by_interval
    return by_interval, Strength.ESTIMATOR if by_interval.is_decided else Strength.NONE, by_interval


@dataclass(frozen=True)
class Difference:
    """One metric of two models: first minus second.

    Parameters
    ----------
    first, second, metric : names of the models A and B, and the metric
    value : A - B
    low, high, level, target : the interval for the target; of zero width where the difference is known, None
        where there is none. Intervals of a comparison are simultaneous, unless no correction was chosen
    probability : that A beats B: of the posterior, or with bias not counted; 0, 1/2 or 1 where the difference
        is known
    population_low, population_high : the interval for the population of users, for noise only
    p_value, p_adjusted : of no difference in the population, unadjusted and adjusted for all comparisons
    p_randomised : unadjusted, by the sign-flip test of users' differences; None where users are not paired
    bound_low, bound_high : bounds over all rank distributions that the samples allow, for these users; None
        where there are none
    method : how the interval was computed
    pairing : whether users and negatives are the same
    verdict, strength : which model is better or why that is open, and the evidence
    by_interval : the verdict that the interval for noise alone supports
    n_users : users of the difference
    needed_negatives : about how many would separate the bounds; None where this was not computed, or where
        only ranking all items would
    sentence : the verdict as a sentence
    relative, relative_low, relative_high : difference and interval divided by the value of B; None where that
        is 0
    wins, ties, losses : users for whom A has the larger value, an equal one, the smaller one; None from
        sampled ranks, which do not show the value of a user, and where users are not paired
    is_least_p : whether ``p_adjusted`` is the least that so many resamples can show
    needed_users : about how many would tell the models apart if the difference stays this large; None where
        noise is not what leaves the verdict open, or where a thousand times as many would not do
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
    relative: float | None = None
    relative_low: float | None = None
    relative_high: float | None = None
    wins: int | None = None
    ties: int | None = None
    losses: int | None = None
    is_least_p: bool = False
    needed_users: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return a plain dictionary for JSON."""
        return {
            name: value.value if isinstance(value, (Verdict, Strength)) else value
            for name, value in asdict(self).items()
        }

    @classmethod
    def from_dict(cls, entries: Mapping[str, Any]) -> Difference:
        """Build from what ``to_dict`` returned."""
        return from_fields(cls, entries, "a difference")


@dataclass(frozen=True)
class ComparedGroup(Group):
    """One group of users or of targets, with the values of every model and their differences in it.

    Parameters
    ----------
    name, n_users, n_targets, estimates : as in ``Group``
    differences : one per pair and metric; none where a model has no targets in the group
    """

    differences: tuple[Difference, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return a plain dictionary for JSON."""
        return {**super().to_dict(), "differences": [one.to_dict() for one in self.differences]}


@dataclass(frozen=True, repr=False)
class ComparedSegments(Segments):
    """The differences of a comparison by groups of users or of targets.

    Parameters
    ----------
    by, of, rule, notes : as in ``Segments``
    groups : in the order of their cut points, empty ones too; intervals are simultaneous over all of them
    """

    groups: tuple[ComparedGroup, ...]

    def to_table(self, *, intervals: bool = True) -> Table:
        """Return one row per group, pair and metric, as the table of all users has them."""
        rows = [(group, one) for group in self.groups for one in group.differences]
        table = difference_table(Comparison((), tuple(one for _, one in rows)), intervals=intervals)
        return Table(
            (self.heading, *table.columns),
            tuple((group.name, *row) for (group, _), row in zip(rows, table.rows, strict=True)),
            f"By {self.by}. {self.rule}",
            (*self.notes, *table.notes),
            frozenset((row, column + 1) for row, column in table.strong),
        )

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per group, pair and metric: ``by``, ``group``, and the fields of `Difference`."""
        return [
            {"by": self.by, "group": group.name, **one.to_dict()}
            for group in self.groups
            for one in group.differences
        ]


@dataclass(frozen=True, repr=False)
class Comparison(Displayed):
    """Values of all models, their differences, and how they were computed.

    Parameters
    ----------
    estimates : value of each model and metric, without intervals of their own
    differences : one per pair and metric
    notes : what a reader must know, in sentences
    provenance : options, seed and what was compared
    version : of truerank
    segments : the differences by groups of users or targets, one entry for each grouping that was asked for
    """

    estimates: tuple[Estimate, ...]
    differences: tuple[Difference, ...]
    notes: tuple[str, ...] = ()
    provenance: Mapping[str, Any] = field(default_factory=dict)
    version: str = __version__
    segments: tuple[ComparedSegments, ...] = ()

    def models(self) -> list[str]:
        """Return model names in the order they were given."""
        return list(dict.fromkeys(estimate.model for estimate in self.estimates))

    def difference(self, first: str, second: str, metric: str) -> Difference:
        """Return one difference by the names of both models and the metric.

        Raises
        ------
        InvalidData
            When these two were not compared in this order.
        """
        for difference in self.differences:
            if (difference.first, difference.second, difference.metric) == (first, second, metric):
                return difference
        known = "; ".join(
            f"{difference.first} - {difference.second} in {difference.metric}"
            for difference in self.differences
        )
        raise InvalidData(f"there is no difference {first} - {second} in {metric}. There are: {known}.")

    def by(self, grouping: str) -> ComparedSegments:
        """Return the differences by groups, as they were asked for in ``compare(..., by="history")``."""
        return find_segments(self.segments, grouping)

    def to_table(self) -> Table:
        """Return one row per pair and metric: the difference with its interval, and the verdict."""
        return difference_table(self)

    def overview(self) -> Overview:
        """Return what a console and a notebook show."""
        decided = sum(difference.verdict.is_decided for difference in self.differences)
        counts = f"{decided} of {count_of(len(self.differences), 'difference')} decided"
        title = f"Comparison of {count_of(len(self.models()), 'model')}: {counts}"
        return Overview(title, self.to_table(), self.notes)

    def to_polars(self) -> pl.DataFrame:
        """Return one row per pair and metric, with the fields of `Difference` as columns."""
        return frame_of([difference.to_dict() for difference in self.differences])

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
        from truerank.report.charts.comparison import plot_forests

        return plot_forests(self, metric, width=width)

    def to_dict(self) -> dict[str, Any]:
        """Return a plain dictionary for JSON."""
        return {
            **head("compare", self.version),
            "estimates": [estimate.to_dict() for estimate in self.estimates],
            "differences": [difference.to_dict() for difference in self.differences],
            "notes": list(self.notes),
            "provenance": dict(self.provenance),
            "segments": [segments.to_dict() for segments in self.segments],
        }

    def to_json(self) -> str:
        """Return the JSON text."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)

    @classmethod
    def from_dict(cls, entries: Mapping[str, Any]) -> Comparison:
        """Build from what ``to_dict`` returned."""
        check_schema(entries, "a comparison")
        return from_fields(cls, entries, "a comparison", is_open=True)

    @classmethod
    def from_json(cls, text: str) -> Comparison:
        """Read what ``to_json`` wrote."""
        return cls.from_dict(parse_json(text, "a comparison"))


#: Columns of a table of differences.
COLUMNS = tuple(entry.name for entry in fields(Difference))


@dataclass(frozen=True)
class SentenceContext:
    """What the sentence of a verdict needs beside the numbers of the difference.

    Parameters
    ----------
    estimator : spec string; empty for exact ranks
    cutoff : of the metric
    n_negatives : of the sample, None where it has several sizes
    margin : differences up to this size count as equivalent
    is_searched : whether the number of negatives that would be enough was computed: not where the estimate
        lies outside the bounds
    noise : interval for noise; None where it is the interval of the difference
    resolved : first rank that the samples resolve, where the interval is a posterior one; None elsewhere
    """

    estimator: str = ""
    cutoff: int | None = None
    n_negatives: int | None = None
    margin: float | None = None
    is_searched: bool = False
    noise: tuple[float, float] | None = None
    resolved: int | None = None


def verdict_sentence(difference: Difference, context: SentenceContext) -> str:
    """Return the verdict about two models in one metric as a sentence, with its reason."""
    if difference.verdict is Verdict.NOISE:
        return f"{_cannot_tell(difference, context)}: noise. {_noise(difference, context)}"
    if difference.verdict is Verdict.UNRESOLVED:
        return f"{_cannot_tell(difference, context)}: {_unresolved(difference, context)}"
    return f"{_claim(difference, context)} {_evidence(difference, context)}"


def headline(difference: Difference) -> str:
    """Return the verdict in a few words: which model is better and on what evidence, or why it is open."""
    if difference.verdict is Verdict.UNRESOLVED:
        return f"{difference.verdict.value} (by the estimator: {_winner(difference, difference.by_interval)})"
    if difference.verdict is Verdict.NOISE:
        needed = difference.needed_users
        return difference.verdict.value + ("" if needed is None else f" (about {about(needed)} users needed)")
    return f"{_winner(difference, difference.verdict)}, {difference.strength.value}"


def _winner(difference: Difference, verdict: Verdict) -> str:
    named = {Verdict.FIRST: difference.first, Verdict.SECOND: difference.second}
    return named.get(verdict, verdict.value)


def _cannot_tell(difference: Difference, context: SentenceContext) -> str:
    what = "this sample" if context.estimator else f"these {difference.n_users:,} users"
    return f"{what} cannot tell {difference.first} from {difference.second} in {difference.metric}"


def _noise(difference: Difference, context: SentenceContext) -> str:
    low, high = context.noise or (difference.low, difference.high)
    if low is None or high is None or math.isnan(low):
        return "One user does not show how much users vary."
    margin = f" and exceeds the margin of {context.margin:g}" if context.margin is not None else ""
    if context.estimator:
        text = f"The difference of {difference.value:+.4f} has the interval {_interval(low, high)}"
    else:
        whom = "in the population of users" if difference.target == "population" else "over all test users"
        text = (
            f"On these users the difference is exactly {difference.value:+.4f}; its interval {whom} is "
            f"{_interval(low, high)}"
        )
    text += f", which contains 0{margin}."
    if context.resolved is not None:
        text = f"{text[:-1]}; so does its posterior, {_interval(difference.low, difference.high)}."
    if difference.needed_users is not None:
        more = " (or more negatives)" if context.estimator else ""
        text += (
            f" About {about(difference.needed_users)} users{more} would be enough to tell, if the difference "
            "stays this large."
        )
    return text


def _unresolved(difference: Difference, context: SentenceContext) -> str:
    sample = "these samples" if context.n_negatives is None else f"{context.n_negatives:,} negatives"
    is_below = context.cutoff is not None and (context.resolved is None or context.cutoff < context.resolved)
    if is_below:
        text = f"K = {context.cutoff} is below what {sample} resolve."
    else:
        text = f"{sample} do not resolve the difference."
    if context.resolved is not None:
        text += f" The posterior of the difference, {_interval(difference.low, difference.high)}, contains 0."
    noise = context.noise or (difference.low, difference.high)
    estimate = f"{context.estimator} estimates {difference.value:+.4f} {_interval(*noise)}"
    if difference.bound_low is None:
        return f"{text} {estimate}, its bias not counted."
    text += (
        f" Any difference from {difference.bound_low:+.3f} to {difference.bound_high:+.3f} is compatible "
        f"with the sampled ranks; {estimate}"
    )
    if not context.is_searched:
        return f"{text}, which no compatible rank distribution gives."
    if difference.needed_negatives is None:
        return f"{text}. Only ranking all items would tell."
    return (
        f"{text}. About {difference.needed_negatives:,} negatives would be enough to tell, if the difference "
        "stays this large."
    )


def _claim(difference: Difference, context: SentenceContext) -> str:
    first, second, metric = difference.first, difference.second, difference.metric
    if difference.verdict is Verdict.FIRST:
        return f"{first} beats {second} in {metric}"
    if difference.verdict is Verdict.SECOND:
        return f"{second} beats {first} in {metric}"
    if difference.verdict is Verdict.EQUAL:
        return f"{first} and {second} are equal in {metric}"
    return f"{first} and {second} are equivalent in {metric} within {context.margin:g}"


def _evidence(difference: Difference, context: SentenceContext) -> str:
    """Return what a verdict rests on, with numbers that are positive for the model that it names first."""
    value, interval = f"{_named_first(difference, difference.value):+.4f}", _oriented(difference)
    if difference.strength is Strength.RANKS:
        bounds = _oriented(difference, difference.bound_low, difference.bound_high)
        return f"whatever the ranks are: the difference lies in {bounds}."
    if difference.strength is Strength.EXACT:
        text = f"on these {difference.n_users:,} users, exactly: {value}."
        if difference.population_low is not None:
            limits = _oriented(difference, difference.population_low, difference.population_high)
            text += f" In the population of users: {limits}."
        return text
    if difference.strength is Strength.USERS:
        return (
            f"in the population of users: {value} {interval}. On these {difference.n_users:,} users the "
            "difference is exact."
        )
    if difference.strength is Strength.SAMPLED_USERS:
        level = percent(difference.level, space=" ")
        return f"on these {difference.n_users:,} users: {value} {interval} at {level} confidence."
    if difference.strength in (Strength.SAMPLE, Strength.PRIOR):
        text = f"by the posterior: {interval}. {_ground(difference, context)}"
        if difference.target == "test-users" and difference.by_interval is Verdict.NOISE:
            text += " That is about these users: noise leaves open what holds for others."
        return text
    return f"by the estimator {context.estimator}: {value} {interval}, its bias not counted."


def _named_first(difference: Difference, value: float) -> float:
    """Return a difference as the sentence says it: B minus A where B is the better one."""
    return -value if difference.verdict is Verdict.SECOND else value


def _oriented(difference: Difference, low: float | None = None, high: float | None = None) -> str:
    """Return limits, those of the interval by default, as the sentence says the difference."""
    limits = (difference.low, difference.high) if low is None and high is None else (low, high)
    if limits[0] is None or limits[1] is None:
        return _interval(*limits)
    return _interval(*sorted(_named_first(difference, limit) for limit in limits if limit is not None))


def _ground(difference: Difference, context: SentenceContext) -> str:
    """Return what decides a verdict of the posterior, and what the estimator says."""
    if difference.strength is Strength.PRIOR:
        text = f"The prior decides: it says how ranks below {context.resolved:,} are spread"
    elif context.resolved is not None and context.resolved > 1:
        text = f"The sample decides: it resolves ranks from {context.resolved:,} on"
    else:
        text = "The sample decides: it resolves all ranks"
    text += f"; {context.estimator} estimates {_named_first(difference, difference.value):+.4f}"
    is_inside = (
        difference.low is not None
        and difference.high is not None
        and difference.low <= difference.value <= difference.high
    )
    return f"{text}." if is_inside else f"{text}, which the posterior leaves out."


def _interval(low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return "[unknown]"
    return f"[{low:+.4f}, {high:+.4f}]"


def difference_table(comparison: Comparison, *, intervals: bool = True) -> Table:
    """Return one row per pair and metric, the verdict last; columns that would be empty are left out.

    Differences that are told from 0 are strong, and a note says at which level.
    """
    cells: dict[str, list[str]] = {
        "A": [one.first for one in comparison.differences],
        "B": [one.second for one in comparison.differences],
        "metric": [one.metric for one in comparison.differences],
        "A - B": [
            _with_interval(one) if intervals else f"{one.value:+.4f}" for one in comparison.differences
        ],
        "relative": [_relative(one) for one in comparison.differences],
        "wins/ties/losses": [_record(one) for one in comparison.differences],
        "adjusted p": [_p_value(one) for one in comparison.differences],
        "verdict": [headline(one) for one in comparison.differences],
    }
    shown = {name: column for name, column in cells.items() if any(column)}
    strong = frozenset(
        (row, list(shown).index("A - B"))
        for row, one in enumerate(comparison.differences)
        if one.verdict in (Verdict.FIRST, Verdict.SECOND)
    )
    notes = (_significance(comparison),) if strong else ()
    return Table(tuple(shown), tuple(zip(*shown.values(), strict=True)), notes=notes, strong=strong)


def _significance(comparison: Comparison) -> str:
    """Return what the bold differences of a table mean."""
    first = comparison.differences[0]
    correction = comparison.provenance.get("correction")
    number = len(comparison.differences)
    joint = "" if correction == "none" or number == 1 else f", for all {number} comparisons together"
    whom = "the population of users" if first.target == "population" else "these test users"
    level = percent(first.level, space=" ")
    return f"Bold: the difference is told from 0 for {whom}, at {level} confidence{joint}."


def _with_interval(difference: Difference) -> str:
    value = f"{difference.value:+.4f}"
    if difference.low is None or difference.high is None:
        return value
    return f"{value} {_interval(difference.low, difference.high)}"


def _relative(difference: Difference) -> str:
    return "" if difference.relative is None else f"{100 * difference.relative:+.1f} %"


def _record(difference: Difference) -> str:
    counts = (difference.wins, difference.ties, difference.losses)
    return "" if None in counts else "/".join(f"{count:,}" for count in counts)


def _p_value(difference: Difference) -> str:
    if difference.p_adjusted is None:
        return ""
    return f"<= {difference.p_adjusted:.1g}" if difference.is_least_p else f"{difference.p_adjusted:.2g}"
