"""What to do: the recommended way to a wanted precision, the alternatives, and what tells two models apart.

A plan knows for every metric how many users or negatives are enough. Here these numbers become ways with a
cost each: rank all items for all users, rank them for some users, or sample negatives. Ways without bias come
first: negatives are recommended only where they cost much less, because their bias is known only if ranks are
as assumed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri

from truerank.core.errors import InvalidParameter, check_above, check_at_least
from truerank.core.table import about, listed_in_words, percent

if TYPE_CHECKING:
    from truerank.workflows.plan.plan import MetricRequirement, SamplePlan

POWER = 0.8  # probability with which a difference is found
_QUICK = 60.0  # seconds: exact ranking that takes no longer is recommended whatever the others take
_MUCH_CHEAPER = 3  # times fewer scores make up for a bias that is not known
_NEARLY_ALL = 0.8  # of the users: then take all of them


def users_to_tell(variance: float, difference: float, *, level: float = 0.95, power: float = POWER) -> int:
    r"""Return how many users find a difference between two models with probability ``power``.

    .. math:: n = \frac{(z_{(1 + level)/2} + z_{power})^2 V}{difference^2}

    Parameters
    ----------
    variance : V, of the difference over users
    difference : between the means of the two models, in either direction
    level : of the interval that has to exclude 0
    power : probability that it does

    Examples
    --------
    >>> users_to_tell(0.2, 0.05)  # (1.96 + 0.84)^2 0.2/0.05^2
    628
    """
    check_above("difference", abs(difference), 0)
    return max(int(np.ceil(variance * (_quantiles(level, power) / difference) ** 2)), 1)


def smallest_difference(variance: float, n_users: int, *, level: float = 0.95, power: float = POWER) -> float:
    """Return the difference that so many users find with probability ``power``; see ``users_to_tell``.

    Examples
    --------
    >>> round(smallest_difference(0.2, 628), 3)
    0.05
    """
    check_at_least("n_users", n_users, 1)
    return float(_quantiles(level, power) * np.sqrt(variance / n_users))


def _quantiles(level: float, power: float) -> float:
    if not 0 < power < 1:
        raise InvalidParameter(f"power must lie between 0 and 1, got {power!r}. Use for example 0.8.")
    return float(ndtri((1 + level) / 2) + ndtri(power))


@dataclass(frozen=True)
class PlanOption:
    """One way to a wanted half-width.

    Parameters
    ----------
    metric : for which it is enough
    way : what to do, in words
    scores : how many have to be computed
    gives : what is then known, in words
    """

    metric: str
    way: str
    scores: float
    gives: str


@dataclass(frozen=True)
class TellingApart:
    """How many users tell two models apart in one metric, if their values are as in the pilot.

    Parameters
    ----------
    first, second, metric : names of the models, and the metric
    difference : first minus second in the pilot
    users : that find such a difference in the population of users with probability 0.8; None where there is
        no difference. The models are taken as uncorrelated: those that do well for the same users need fewer
    n_users : number of test users
    """

    first: str
    second: str
    metric: str
    difference: float
    users: int | None
    n_users: int

    def __str__(self) -> str:
        pair = f"{self.first} and {self.second}"
        if self.users is None:
            return (
                f"{pair} have the same {self.metric} in the pilot: no number of users would tell them apart."
            )
        there = "and there are" if self.users <= self.n_users else "but there are only"
        return (
            f"{pair} differ by {abs(self.difference):.4f} in {self.metric} in the pilot: about "
            f"{about(self.users)} users, ranked exactly, tell them apart, {there} {self.n_users:,}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return a plain dictionary for JSON."""
        return {**asdict(self), "sentence": str(self)}


def tell_apart(plans: Mapping[str, SamplePlan], *, power: float = POWER) -> list[TellingApart]:
    """Return for each pair of planned models and each metric how many users tell them apart."""
    found = []
    for (first, one), (second, other) in combinations(plans.items(), 2):
        for a, b in zip(one.needs, other.needs, strict=True):
            gap, variance = a.value - b.value, a.variance + b.variance
            users = users_to_tell(variance, gap, level=one.level, power=power) if gap else None
            found.append(TellingApart(first, second, a.metric, gap, users, one.n_users))
    return found


def options_of(plan: SamplePlan, need: MetricRequirement) -> list[PlanOption]:
    """Return the ways to the wanted half-width in one metric: without bias first, then with more and more."""
    n, items, wanted = plan.n_users, plan.n_items, f"+-{plan.half_width:g}"
    options = [PlanOption(need.metric, "all items, all users", n * items, _of_all_users(need))]
    if need.users < n:
        options.append(
            PlanOption(need.metric, f"all items, {need.users:,} users", need.users * items, wanted)
        )
        if need.row_scores < need.users * items:
            options.append(PlanOption(need.metric, "same, until the cut-off", need.row_scores, wanted))
    if need.bound_negatives is not None:
        options.append(
            PlanOption(
                need.metric,
                f"{need.bound_negatives:,} negatives",
                _sampled_scores(plan, need.bound_negatives),
                f"{wanted}, any ranks",
            )
        )
    if need.total_negatives is not None:
        options.append(
            PlanOption(
                need.metric,
                f"{need.total_negatives:,} negatives",
                _sampled_scores(plan, need.total_negatives),
                f"{wanted}, as in the pilot",
            )
        )
    if need.noise_negatives is not None and need.noise_negatives != need.total_negatives:
        options.append(
            PlanOption(
                need.metric,
                f"{need.noise_negatives:,} negatives",
                _sampled_scores(plan, need.noise_negatives),
                f"{wanted}, bias {need.bias:+.4f}",
            )
        )
    return options


def _of_all_users(need: MetricRequirement) -> str:
    return f"exact, population +-{need.population_half_width:.2g}"


@dataclass(frozen=True)
class Recommendation:
    """What to do for a wanted half-width.

    Parameters
    ----------
    sentence : what to do, what it costs and what it gives
    flags : of ``truerank evaluate`` that do it; none to rank all items for all users
    """

    sentence: str
    flags: tuple[str, ...] = ()


def recommend(plan: SamplePlan) -> Recommendation:
    """Return the cheapest way to the wanted half-width in all metrics, if possible one without bias."""
    n, n_needed = plan.n_users, max(need.users for need in plan.needs)
    wanted, level = f"+-{plan.half_width:g}", percent(plan.level, space=" ")
    spread = [f"+-{need.population_half_width:.2g} ({need.metric})" for need in plan.needs]
    everything = (
        f"Rank all items for all {n:,} users ({_exact_cost(plan, n)}): the values are then exact for these "
        f"users, and {listed_in_words(spread, most=len(spread))} for the user population at {level} "
        "confidence."
    )
    if plan.target == "population" and n_needed > n:
        return Recommendation(f"{everything} To reach {wanted} there takes about {about(n_needed)} users.")
    if (plan.costs is not None and plan.costs.exact <= _QUICK) or n_needed >= _NEARLY_ALL * n:
        return Recommendation(everything)
    some_users = f"all items for {n_needed:,} of the {n:,} users, drawn at random"
    cost = _exact_cost(plan, n_needed)
    sizes = [need.total_negatives for need in plan.needs]
    most = None if None in sizes else max(size for size in sizes if size is not None)
    if most is not None and _MUCH_CHEAPER * _sampled_scores(plan, most) < n_needed * plan.n_items:
        sentence = (
            f"Sample {most:,} negatives for every user ({_sampled_cost(plan, most)}): the values are then "
            f"within {wanted}, if ranks are as in the pilot. To assume nothing, rank {some_users} ({cost})."
        )
        return Recommendation(sentence, ("--negatives", str(most), "--estimator", plan.estimator))
    part = percent(n_needed / n, 2, space=" ")
    sentence = (
        f"Rank {some_users} ({cost}, {part} of exact evaluation): every interval is then within {wanted}, "
        "without bias."
    )
    return Recommendation(sentence, ("--users", str(n_needed)))


def _sampled_scores(plan: SamplePlan, n_negatives: int) -> float:
    return plan.n_users * (plan.n_targets + n_negatives)


def _exact_cost(plan: SamplePlan, n_users: int) -> str:
    """Return the scores of so many users in words, and the seconds where they were measured."""
    seconds = None if plan.costs is None else n_users * plan.costs.exact_user
    return _in_words(n_users * plan.n_items, seconds)


def _sampled_cost(plan: SamplePlan, n_negatives: int) -> str:
    seconds = None if plan.costs is None else plan.costs.sampled(n_negatives)
    return _in_words(_sampled_scores(plan, n_negatives), seconds)


def _in_words(scores: float, seconds: float | None) -> str:
    words = f"about {about(scores)} scores"
    if seconds is None:
        return words
    return f"{words}, {seconds:,.0f} s here" if seconds >= 1.5 else f"{words}, {seconds:.1g} s here"


def difference_sentences(plan: SamplePlan) -> list[str]:
    """Return the smallest difference between models that all users tell, and how many tell that asked for."""
    level = percent(plan.level, space=" ")
    smallest = [f"{need.smallest_difference:.2g} in {need.metric}" for need in plan.needs]
    sentences = [
        f"The smallest difference between two models that {plan.n_users:,} users, ranked exactly, tell: "
        f"{listed_in_words(smallest, most=len(smallest))} (with probability {POWER:g}, at {level} "
        "confidence; less where both do well for the same users)."
    ]
    if plan.difference is not None:
        users = [f"{about(need.difference_users or 0)} users in {need.metric}" for need in plan.needs]
        sentences.append(
            f"A difference of {plan.difference:g} takes about {listed_in_words(users, most=len(users))}."
        )
    return sentences
