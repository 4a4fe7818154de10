"""How many negatives or users a wanted half-width needs.

How to divide a budget of scores between users and items.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from truerank.core.errors import (
    CannotEstimate,
    InvalidData,
    InvalidParameter,
    check_above,
    check_at_least,
    check_choice,
    check_level,
)
from truerank.core.progress import SILENT, Progress, tracked
from truerank.core.ranks import RankDistribution, SampledRanks, Stopping, TiePolicy
from truerank.estimation.base import Estimator
from truerank.estimation.distribution.mle import MaximumLikelihood
from truerank.estimation.registry import ESTIMATORS
from truerank.estimation.tally import Contexts, tally
from truerank.inference.bounds.identify import needed_size
from truerank.inference.bounds.sample_size import SampleDesign as BoundPlan
from truerank.inference.estimate_interval.registry import TARGETS, Target
from truerank.metrics.base import Metric
from truerank.metrics.registry import make_metrics
from truerank.workflows.estimate import DEFAULT_LINEAR
from truerank.workflows.plan.assumed_users import (
    AssumedUsers,
    UsersFromDistribution,
    UsersFromPilot,
    check_nonnegative,
)
from truerank.workflows.plan.cost import RankingSeconds

_FEWEST_DIVIDED = 5  # negatives
_MOST_DIVIDED = 3000
_STEPS = 16


@dataclass(frozen=True)
class BudgetAllocation:
    """The best use of a budget for one metric.

    Parameters
    ----------
    metric, target, budget : what was asked
    n_users, n_negatives : users, and negatives of each, with the narrowest half-width when what the estimator
        is off by (if ranks are as assumed) is added to the noise
    noise, bias : its two parts
    quiet_negatives : negatives that make the noise alone smallest
    rows : half-width of the same number of scores spent on exact gains of fewer users, which have no bias;
        rows end at the cut-off. None when the budget is smaller than a row
    """

    metric: str
    target: str
    budget: int
    n_users: int
    n_negatives: int
    noise: float
    bias: float
    quiet_negatives: int
    rows: float | None

    @property
    def half_width(self) -> float:
        """Noise and bias together."""
        return self.noise + abs(self.bias)

    def __str__(self) -> str:
        exact = ""
        if self.rows is not None:
            exact = f"; exact gains of fewer users give +-{self.rows:.4f} without bias"
        return (
            f"{self.budget:,} scores for {self.metric} ({self.target}): {self.n_users:,} users with "
            f"{self.n_negatives:,} negatives give +-{self.half_width:.4f} ({self.noise:.4f} noise, "
            f"{self.bias:+.4f} bias){exact}."
        )


def allocate_budget(
    people: AssumedUsers, metric: Metric, budget: int, *, level: float = 0.95, target: Target = "test-users"
) -> BudgetAllocation:
    """Return the best division among sizes of samples on a grid.

    Parameters
    ----------
    people : whose ranks, and which estimator
    metric, budget : scores, those of targets included
    level, target : of the interval
    """
    n_all = people.n_test_users
    own = people.n_targets  # scores besides those of negatives
    most = max(min(people.n_candidates, _MOST_DIVIDED, int(budget - own)), 1)
    steps = np.geomspace(min(_FEWEST_DIVIDED, most), most, _STEPS)
    everybody = np.clip(int(budget / n_all - own), 1, most)  # negatives when the budget is for all users
    grid = np.unique(np.append(steps, everybody).round().astype(np.int64))
    found = []
    for m in grid.tolist():
        n = max(min(int(budget / (m + own)), n_all), 1)
        spread = people.sampled(metric, m)
        found.append((spread.noise(n, n_test_users=n_all, target=target, level=level), spread.bias, n, m))
    noise, bias, n, m = min(found, key=lambda one: one[0] + abs(one[1]))
    n_rows = min(int(budget / people.row_scores(metric)), n_all)
    rows = None
    if n_rows >= 1:
        rows = people.exact(metric).noise(n_rows, n_test_users=n_all, target=target, level=level)
    return BudgetAllocation(str(metric), target, budget, n, m, noise, bias, min(found)[3], rows)


_MOST = 3000  # negatives a closed form is computed for
_NEARLY = 0.8  # of all candidates: who draws so many can as well rank them all
_FEWEST = 10  # negatives
_START = 100  # items in the first adaptive sample, the target counted


@dataclass(frozen=True)
class MetricRequirement:
    """What one metric needs for the wanted half-width; None where nothing short of all will do.

    Parameters
    ----------
    metric, value : the metric, and what the assumed ranks make it
    noise_negatives : m for the noise: negatives per user with which samples vary by no more
    bias : what the estimator is off by there, if ranks are as assumed
    total_negatives : m for noise and that bias together
    bound_negatives : m for the bounds: negatives with which every distribution that fits is as close
    ceiling, ceiling_mean : the largest size of adaptive samples that vary by no more, the target counted, and
        the negatives these take on average
    users : users that would do with all items ranked for each
    row_scores : scores of these when rows of items in random order end at the cut-off; popular items first
        take fewer
    """

    metric: str
    value: float
    noise_negatives: int | None
    bias: float | None
    total_negatives: int | None
    bound_negatives: int | None
    ceiling: int | None
    ceiling_mean: float | None
    users: int
    row_scores: float

    def __str__(self) -> str:
        noise, total, bounds = (
            f"{size:,}" if size is not None else "(nearly) all"
            for size in (self.noise_negatives, self.total_negatives, self.bound_negatives)
        )
        off = f", where the estimator is off by {self.bias:+.4f}" if self.bias is not None else ""
        return (
            f"{self.metric} (about {self.value:.3f}): {noise} negatives for the noise{off}; {total} for "
            f"noise and bias if ranks are as assumed; {bounds} for the bounds, whatever they are; or exact "
            f"gains of {self.users:,} users, about {self.row_scores:,.0f} scores in random order."
        )


@dataclass(frozen=True)
class SamplePlan:
    """What a half-width needs, in numbers and in words.

    Parameters
    ----------
    half_width, level, target, estimator : what was asked
    n_users, n_items : test users and the largest pool
    needs : one per metric
    divisions : the best split of each budget between users and items, per metric
    costs : seconds on this machine, if measured
    """

    half_width: float
    level: float
    target: Target
    estimator: str
    n_users: int
    n_items: int
    needs: tuple[MetricRequirement, ...]
    divisions: tuple[BudgetAllocation, ...] = ()
    costs: RankingSeconds | None = None

    def words(self) -> tuple[str, ...]:
        """Return sentences."""
        lines = [str(need) for need in self.needs]
        lines += [str(one) for one in self.divisions]
        if self.costs is not None:
            sizes = [n.bound_negatives or n.noise_negatives or self.n_items for n in self.needs]
            lines.append(self.costs.words(max(sizes)))
        return tuple(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return a plain dictionary for JSON."""
        return {**asdict(self), "words": list(self.words())}


def plan(
    pilot: SampledRanks | RankDistribution,
    metrics: str | Metric | Sequence[str | Metric] = "ndcg@10,recall@10",
    half_width: float = 0.01,
    *,
    estimator: str | Estimator = DEFAULT_LINEAR,
    level: float = 0.95,
    target: Target = "test-users",
    budgets: Sequence[int] = (),
    n_users: int | None = None,
    costs: RankingSeconds | None = None,
    ties: TiePolicy = "expected",
    progress: Progress = SILENT,
) -> SamplePlan:
    """Return how many negatives, or users, a wanted half-width needs on each metric.

    Answers are kept apart. *m for the noise* makes repeated samples agree; an estimator that shrinks needs
    few and is off by its bias, which more users do not cure. *m for noise and bias* adds what it is off by if
    ranks are as assumed. *m for the bounds* leaves no distribution that fits the sample further away; no
    estimator enters it.

    Parameters
    ----------
    pilot : sampled ranks, to which a distribution is fitted by ``mle``, or an assumed distribution
    metrics, half_width : wanted
    estimator : spec string or object; fitted ones are simulated, others computed in closed form
    level, target : of the interval
    budgets : numbers of scores to divide between users and items
    n_users : test users there are; those of the pilot unless given, and needed for a distribution
    costs : by ``measure``
    ties : how ties of a pilot count
    progress : where metrics and budgets are reported

    Notes
    -----
    From a distribution, or a pilot with one target per user, each user is given one target in a pool of the
    largest size. Where a pilot has several, its own users are planned with (``UsersFromPilot``). For the test
    users, all of them sampled, the noise is that of the negatives alone; a population adds the users' own
    variance, which no number of negatives takes away. Rows are planned with the correction for a finite
    number of test users.

    Examples
    --------
    >>> ranks = RankDistribution(np.full(1000, 0.001), method="assumed")
    >>> found = plan(ranks, "recall@100", 0.02, estimator="ls", n_users=2000)
    >>> found.needs[0].users  # 0.3 * 1.96 / 0.02 squared is 864 of infinitely many, 604 of 2,000
    604
    """
    chosen = make_metrics(metrics)
    check_above("half_width", half_width, 0)
    check_level(level)
    check_choice("target", target, TARGETS)
    made = ESTIMATORS.make(estimator)
    distribution, n_test_users = _assumed(pilot, n_users, ties)
    n_items = int(pilot.n_pool.max()) if isinstance(pilot, SampledRanks) else distribution.n_pool
    for metric in chosen:
        if metric.cutoff is not None and metric.cutoff > n_items:
            raise InvalidParameter(
                f"cutoff of {metric} must be at most the pool of {n_items} items. Lower it."
            )
    for budget in budgets:
        check_at_least("budget", budget, 2)
    people: AssumedUsers = UsersFromDistribution(distribution, made, n_test_users)
    if isinstance(pilot, SampledRanks) and (pilot.n_relevant > 1).any():
        people = UsersFromPilot.of(pilot, made, chosen, n_test_users)
    bounds = _bounds(pilot, distribution, n_test_users, level, ties)
    needs, divisions = [], []
    with tracked(progress, "planning", len(chosen) * (1 + len(budgets))) as task:
        for metric in chosen:
            needs.append(_need(people, metric, half_width, bounds, level=level, target=target))
            task.advance()
        for budget, metric in product(budgets, chosen):
            divisions.append(allocate_budget(people, metric, budget, level=level, target=target))
            task.advance()
    return SamplePlan(
        half_width,
        level,
        target,
        str(made),
        n_test_users,
        n_items,
        tuple(needs),
        tuple(divisions),
        costs,
    )


def _assumed(
    pilot: SampledRanks | RankDistribution, n_users: int | None, ties: TiePolicy
) -> tuple[RankDistribution, int]:
    """Return the distribution that is planned with, and the number of test users."""
    if n_users is not None:
        check_at_least("n_users", n_users, 1)
    if isinstance(pilot, RankDistribution):
        if n_users is None:
            raise InvalidParameter("a plan from a distribution needs n_users, the number of test users.")
        check_nonnegative(pilot)
        return pilot, n_users
    if len(pilot) == 0:
        raise InvalidData("a plan needs at least one user in the pilot, got none.")
    if pilot.design.law != "uniform":
        raise CannotEstimate(
            f"a plan needs a pilot whose negatives were drawn uniformly, got design '{pilot.design.law}'. "
            "Sample uniformly."
        )
    fitted = MaximumLikelihood().distribution(tally(pilot, ties=ties))
    return fitted, n_users or pilot.design.n_test_users or pilot.n_users


def _need(
    people: AssumedUsers,
    metric: Metric,
    half_width: float,
    bounds: BoundPlan,
    *,
    level: float,
    target: Target,
) -> MetricRequirement:
    n = people.n_test_users

    def noise(size: int | Stopping) -> float:
        return people.sampled(metric, size).noise(n, n_test_users=n, target=target, level=level)

    def total(size: int) -> float:
        return noise(size) + abs(people.sampled(metric, size).bias)

    most = max(min(int(_NEARLY * people.n_candidates), _MOST), 1)
    start = min(_FEWEST, most)
    size = needed_size(noise, half_width, start=start, most=most)
    ceiling, mean = None, None
    try:
        for stopping in _ceilings(people.n_candidates):
            if noise(stopping) <= half_width:
                ceiling, mean = stopping.sizes[-1] + 1, people.mean_size(stopping)
                break
    except CannotEstimate:  # the estimator knows no adaptive samples
        ceiling = None
    users = _users(people.exact(metric).users, half_width, n, level=level, target=target)
    return MetricRequirement(
        str(metric),
        people.value(metric),
        size,
        None if size is None else people.sampled(metric, size).bias,
        needed_size(total, half_width, start=start, most=most),
        bounds.size(metric, half_width),
        ceiling,
        mean,
        users,
        users * people.row_scores(metric),
    )


def _users(variance: float, half_width: float, n_test_users: int, *, level: float, target: Target) -> int:
    """Return the users whose exact values are enough."""
    from scipy.special import ndtri

    alone = variance * (float(ndtri((1 + level) / 2)) / half_width) ** 2
    if target == "test-users":
        alone /= 1 + alone / n_test_users
    return max(int(np.ceil(alone)), 1)


def _ceilings(n_candidates: int) -> list[Stopping]:
    """Return adaptive rules with larger and larger last samples."""
    sizes, found = [_START - 1], []
    while 2 * (sizes[-1] + 1) - 1 <= min(n_candidates, _MOST + 500):
        sizes.append(2 * (sizes[-1] + 1) - 1)
        found.append(Stopping(tuple(sizes)))
    return found


def _bounds(
    pilot: SampledRanks | RankDistribution,
    distribution: RankDistribution,
    n_users: int,
    level: float,
    ties: TiePolicy,
) -> BoundPlan:
    """Return what says how close the identification bounds of a sample would be."""
    if isinstance(pilot, SampledRanks) and pilot.design.stopping is None:
        is_single = bool((pilot.n_relevant == 1).all()) and not pilot.n_tied.any()
        found = BoundPlan.of(
            tally(pilot, ties=ties),
            level=level,
            method="binomial" if is_single else "chernoff",
            shape=None,
            pools="free",
        )
        return replace(found, n_users=n_users, start=0)
    one = np.ones(1, np.int64)
    return BoundPlan(
        contexts=Contexts(one, (distribution.n_pool - 1) * one, 0 * one, one, distribution.n_pool * one),
        shares=np.ones(1),
        weights=distribution.weights,
        start=0,
        n_users=n_users,
        replacement=False,
        level=level,
        method="binomial",
        shape=None,
        pools="free",
    )
