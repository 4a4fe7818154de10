"""Sample size planning: negatives or users that a wanted half-width needs, and how to divide a budget.

From a pilot sample, or an assumed rank distribution, the error of an estimator is predicted for every number
of negatives: noise in closed form or by simulation, bias if ranks are as assumed, and identification bounds,
which hold whatever the ranks are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri

from truerank.core.display import Displayed, Overview, frame_of
from truerank.core.errors import (
    LEAST_WIDTH,
    MOST_ITEMS,
    MOST_USERS,
    CannotEstimate,
    InvalidData,
    InvalidParameter,
    check_above,
    check_at_least,
    check_choice,
    check_level,
    suggests_arguments,
)
from truerank.core.progress import SILENT, Progress, as_progress, tracked
from truerank.core.ranks import RankDistribution, SampledRanks, Stopping, TiePolicy, check_sampled
from truerank.core.table import about, count_of
from truerank.estimation.distribution.mle import MaximumLikelihood
from truerank.estimation.tally import Contexts, tally
from truerank.inference.bounds.identify import needed_size
from truerank.inference.bounds.sample_size import SampleDesign
from truerank.inference.estimate_interval.registry import TARGETS, Target
from truerank.metrics.base import Metric
from truerank.metrics.registry import make_metrics
from truerank.workflows.options import DEFAULT_ESTIMATOR, Estimators, single_estimator
from truerank.workflows.plan.advice import (
    PlanOption,
    difference_sentences,
    options_of,
    recommend,
    smallest_difference,
    users_to_tell,
)
from truerank.workflows.plan.assumed_users import (
    AssumedUsers,
    UsersFromDistribution,
    UsersFromPilot,
    check_nonnegative,
)
from truerank.workflows.plan.cost import RankingSeconds

if TYPE_CHECKING:
    import polars as pl

_BUDGET_NEGATIVES = 5, 3000  # fewest and most per user that a budget is divided into
_BUDGET_STEPS = 16


@dataclass(frozen=True)
class BudgetAllocation:
    """Users and negatives per user with the smallest error for a budget of scores, for one metric.

    Parameters
    ----------
    metric, target, budget : what was planned for
    n_users, n_negatives : users, and negatives of each, with the smallest sum of noise and absolute bias
    noise, bias : half-width of the noise there, and bias of the estimator if ranks are as assumed
    quiet_negatives : negatives with the smallest noise, bias not counted
    rows : half-width when the same number of scores is spent on fewer users that are scored completely (each
        until the cut-off decides its gain), which has no bias; None when the budget is smaller than a row
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
            exact = f"; ranking fewer users completely gives +-{self.rows:.4f} without bias"
        return (
            f"With {self.budget:,} scores for {self.metric}, {self.n_users:,} users with "
            f"{self.n_negatives:,} negatives give +-{self.half_width:.4f} ({self.noise:.4f} noise, "
            f"{self.bias:+.4f} bias){exact}."
        )


def allocate_budget(
    users: AssumedUsers, metric: Metric, budget: int, *, level: float = 0.95, target: Target = "test-users"
) -> BudgetAllocation:
    """Return the allocation with the smallest error among sample sizes on a grid.

    Parameters
    ----------
    users : assumed ranks, and the estimator
    metric, budget : metric, and number of scores, those of targets included
    level, target : of the interval
    """
    n_all = users.n_test_users
    n_targets = users.n_targets  # a user costs these scores besides those of the negatives
    fewest, most = _BUDGET_NEGATIVES
    most = max(min(users.n_candidates, most, int(budget - n_targets)), 1)
    steps = np.geomspace(min(fewest, most), most, _BUDGET_STEPS)
    for_all_users = np.clip(int(budget / n_all - n_targets), 1, most)
    grid = np.unique(np.append(steps, for_all_users).round().astype(np.int64))
    options = []
    for m in grid.tolist():
        n = max(min(int(budget / (m + n_targets)), n_all), 1)
        error = users.sampled(metric, m)
        options.append((error.noise(n, n_test_users=n_all, target=target, level=level), error.bias, n, m))
    noise, bias, n, m = min(options, key=lambda option: option[0] + abs(option[1]))
    n_rows = min(int(budget / users.row_scores(metric)), n_all)
    rows = None
    if n_rows >= 1:
        rows = users.exact(metric).noise(n_rows, n_test_users=n_all, target=target, level=level)
    return BudgetAllocation(str(metric), target, budget, n, m, noise, bias, min(options)[3], rows)


_MOST_NEGATIVES = 3000  # for which closed forms are computed
_LARGEST_FRACTION = 0.8  # of all candidates: beyond it, ranking all items costs about the same
_FEWEST_NEGATIVES = 10
_ADAPTIVE_START = 100  # items in the first adaptive sample, the target counted


@dataclass(frozen=True)
class MetricRequirement:
    """Sample sizes with which one metric reaches the wanted half-width; None where only all items would do.

    Parameters
    ----------
    metric, value : the metric, and its value if ranks are as assumed
    noise_negatives : negatives per target that make the interval for the noise this narrow
    bias : bias of the estimator there, if ranks are as assumed
    total_negatives : negatives that make the sum of noise and absolute bias this small
    bound_negatives : negatives that make the identification bounds this narrow, whatever the ranks are
    ceiling, ceiling_mean : the largest size of adaptive samples (the target counted) whose noise is this
        small, and the mean number of negatives that these take
    users : users that are enough if all items are ranked for each
    row_scores : scores of these users if each row, in random order of items, ends when the cut-off decides
        its gain; the order of popularity takes fewer
    variance : of the exact value over users, if ranks are as assumed
    population_half_width : of the interval for the user population when all test users are ranked exactly
    smallest_difference : to another model with this variance that all test users, ranked exactly, find with
        probability 0.8; models that do well for the same users are told apart at less
    difference_users : users that find the difference asked for with probability 0.8, or None
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
    variance: float = 0.0
    population_half_width: float = 0.0
    smallest_difference: float = 0.0
    difference_users: int | None = None


@dataclass(frozen=True, repr=False)
class SamplePlan(Displayed):
    """Sample sizes for a wanted half-width, per metric, and the best use of budgets.

    Parameters
    ----------
    half_width, level, target, estimator : what was planned for
    n_users, n_items : number of test users, and size of the largest pool
    needs : one per metric
    divisions : the best allocation of each budget between users and items, per metric
    costs : seconds of ranking on this machine, if measured
    n_targets : mean number of targets per user
    difference : between two models, that shall be told
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
    n_targets: float = 1.0
    difference: float | None = None

    def recommendation(self) -> str:
        """Return what to do, what it costs and what it gives, in a sentence or two."""
        return recommend(self).sentence

    def options(self) -> list[PlanOption]:
        """Return all ways to the wanted half-width, metric by metric, those without bias first."""
        return [option for need in self.needs for option in options_of(self, need)]

    def sentences(self) -> tuple[str, ...]:
        """Return the plan as sentences: what to do, the smallest difference it tells, the alternatives."""
        alternatives = [
            f"{option.metric}: {option.way} (about {about(option.scores)} scores): {option.gives}."
            for option in self.options()
        ]
        return (
            self.recommendation(),
            *difference_sentences(self),
            *map(str, self.divisions),
            *alternatives,
        )

    def overview(self) -> Overview:
        """Return what a console and a notebook show."""
        goal = f"half-width {self.half_width:g} for {count_of(self.n_users, 'user')}"
        return Overview(f"Plan: {goal}, {count_of(self.n_items, 'item')}", notes=self.sentences())

    def to_polars(self) -> pl.DataFrame:
        """Return one row per metric, with the fields of `MetricRequirement` as columns."""
        return frame_of([asdict(need) for need in self.needs])

    def to_dict(self) -> dict[str, Any]:
        """Return a plain dictionary for JSON."""
        return {
            **asdict(self),
            "recommendation": self.recommendation(),
            "options": [asdict(option) for option in self.options()],
            "words": list(self.sentences()),
        }


@suggests_arguments
def plan(
    pilot: SampledRanks | RankDistribution,
    metrics: str | Metric | Sequence[str | Metric] = "ndcg@10,recall@10",
    half_width: float = 0.01,
    *,
    estimator: Estimators = DEFAULT_ESTIMATOR,
    level: float = 0.95,
    target: Target = "test-users",
    budgets: Sequence[int] = (),
    difference: float | None = None,
    n_users: int | None = None,
    costs: RankingSeconds | None = None,
    ties: TiePolicy = "expected",
    progress: Progress | bool = SILENT,
) -> SamplePlan:
    """Return how many negatives, or users, a wanted half-width needs on each metric.

    Three numbers of negatives are given. That *for the noise* makes the interval for sampling noise this
    narrow; an estimator that shrinks needs few, but has a bias that more users do not reduce. That *for noise
    and bias* adds the bias if ranks are as assumed. That *for the bounds* makes the identification bounds
    this narrow; it does not depend on the estimator.

    Parameters
    ----------
    pilot : sampled ranks, to which a distribution is fitted by ``mle``, or an assumed distribution
    metrics, half_width : metrics, and half-width that the interval of each shall have
    estimator : spec string or object; its error is simulated if it is fitted to the sample, and computed in
        closed form otherwise
    level, target : of the interval
    budgets : numbers of scores to divide between users and items
    difference : between two models; the plan says how many users tell it
    n_users : number of test users; that of the pilot by default, required with a distribution
    costs : seconds of ranking as returned by ``measure_costs``
    ties : how ties of a pilot count
    progress : where metrics and budgets are reported; True shows bars

    Notes
    -----
    From a distribution, or a pilot with one target per user, each user has one target in a pool of the
    largest size. Where a pilot has several targets per user, its own users are used (``UsersFromPilot``). For
    the test users, all of them sampled, the noise is that of the negatives alone; a population adds the
    variance between users, which no number of negatives reduces. Numbers of users include the
    finite-population correction.

    Examples
    --------
    >>> ranks = RankDistribution(np.full(1000, 0.001), method="assumed")
    >>> made = plan(ranks, "recall@100", 0.02, estimator="ls", n_users=2000)
    >>> made.needs[0].users  # 0.3 * 1.96 / 0.02 squared is 864 of infinitely many, 604 of 2,000
    604
    >>> print(made.recommendation())
    Rank all items for 604 of the 2,000 users, drawn at random (about 600,000 scores, 30 % of exact ...
    """
    progress = as_progress(progress)
    if not isinstance(pilot, RankDistribution):
        check_sampled(pilot, "plan")
    parsed_metrics = make_metrics(metrics)
    check_above("half_width", half_width, 0)
    check_at_least("half_width", half_width, LEAST_WIDTH, 1)
    check_level(level)
    check_choice("target", target, TARGETS)
    if difference is not None:
        check_above("difference", difference, 0)
        check_at_least("difference", difference, LEAST_WIDTH, 1)
    parsed_estimator = single_estimator(estimator, "plan")
    distribution, n_test_users = _assumed_distribution(pilot, n_users, ties)
    n_items = int(pilot.n_pool.max()) if isinstance(pilot, SampledRanks) else distribution.n_pool
    for metric in parsed_metrics:
        if metric.cutoff is not None and metric.cutoff > n_items:
            raise InvalidParameter(
                f"cutoff of {metric} must be at most the pool of {n_items} items. Lower it."
            )
    for budget in budgets:
        check_at_least("budget", budget, 2, MOST_USERS * MOST_ITEMS)
    users: AssumedUsers = UsersFromDistribution(distribution, parsed_estimator, n_test_users)
    if isinstance(pilot, SampledRanks) and (pilot.n_relevant > 1).any():
        users = UsersFromPilot.of(pilot, parsed_estimator, parsed_metrics, n_test_users)
    bounds = _bound_design(pilot, distribution, n_test_users, level, ties)
    requirements, allocations = [], []
    with tracked(progress, "planning", len(parsed_metrics) * (1 + len(budgets))) as task:
        for metric in parsed_metrics:
            need = _requirement(users, metric, half_width, bounds, level=level, target=target)
            if difference is not None:
                told_by = users_to_tell(2 * need.variance, difference, level=level)
                need = replace(need, difference_users=told_by)
            requirements.append(need)
            task.advance()
        for budget, metric in product(budgets, parsed_metrics):
            allocations.append(allocate_budget(users, metric, budget, level=level, target=target))
            task.advance()
    return SamplePlan(
        half_width,
        level,
        target,
        str(parsed_estimator),
        n_test_users,
        n_items,
        tuple(requirements),
        tuple(allocations),
        costs,
        float(users.n_targets),
        difference,
    )


def _assumed_distribution(
    pilot: SampledRanks | RankDistribution, n_users: int | None, ties: TiePolicy
) -> tuple[RankDistribution, int]:
    """Return the assumed rank distribution, fitted to the pilot or given, and the number of test users."""
    if n_users is not None:
        check_at_least("n_users", n_users, 1, MOST_USERS)
    if isinstance(pilot, RankDistribution):
        if n_users is None:
            raise InvalidParameter(
                "a plan from a distribution needs n_users, the number of test users, got None. Give it."
            )
        check_nonnegative(pilot)
        return pilot, n_users
    if len(pilot) == 0:
        raise InvalidData(
            "a plan needs at least one user in the pilot, got none. Sample ranks of some users."
        )
    if pilot.design.law != "uniform":
        raise CannotEstimate(
            f"a plan needs a pilot whose negatives were sampled uniformly, got design '{pilot.design.law}'. "
            "Use sampler 'uniform' for the pilot."
        )
    fitted = MaximumLikelihood().distribution(tally(pilot, ties=ties))
    return fitted, n_users or pilot.design.n_test_users or pilot.n_users


def _requirement(
    users: AssumedUsers,
    metric: Metric,
    half_width: float,
    bounds: SampleDesign,
    *,
    level: float,
    target: Target,
) -> MetricRequirement:
    n = users.n_test_users

    def noise(size: int | Stopping) -> float:
        return users.sampled(metric, size).noise(n, n_test_users=n, target=target, level=level)

    def total(size: int) -> float:
        return noise(size) + abs(users.sampled(metric, size).bias)

    most = max(min(int(_LARGEST_FRACTION * users.n_candidates), _MOST_NEGATIVES), 1)
    start = min(_FEWEST_NEGATIVES, most)
    size = needed_size(noise, half_width, start=start, most=most)
    ceiling, mean = None, None
    try:
        for stopping in _adaptive_rules(users.n_candidates):
            if noise(stopping) <= half_width:
                ceiling, mean = stopping.sizes[-1] + 1, users.mean_size(stopping)
                break
    except CannotEstimate:  # the estimator does not treat adaptive samples
        ceiling = None
    spread = users.exact(metric)
    n_exact = _exact_users(spread.users, half_width, n, level=level, target=target)
    return MetricRequirement(
        str(metric),
        users.value(metric),
        size,
        None if size is None else users.sampled(metric, size).bias,
        needed_size(total, half_width, start=start, most=most),
        bounds.size(metric, half_width),
        ceiling,
        mean,
        n_exact,
        n_exact * users.row_scores(metric),
        variance=spread.users,
        population_half_width=spread.noise(n, n_test_users=n, target="population", level=level),
        smallest_difference=smallest_difference(2 * spread.users, n, level=level),
    )


def _exact_users(
    variance: float, half_width: float, n_test_users: int, *, level: float, target: Target
) -> int:
    """Return the number of users whose exact values are enough."""
    n_users = variance * (float(ndtri((1 + level) / 2)) / half_width) ** 2
    if target == "test-users":
        n_users /= 1 + n_users / n_test_users
    return max(int(np.ceil(n_users)), 1)


def _adaptive_rules(n_candidates: int) -> list[Stopping]:
    """Return stopping rules of adaptive samples whose last sample doubles from rule to rule."""
    sizes, rules = [_ADAPTIVE_START - 1], []
    while 2 * (sizes[-1] + 1) - 1 <= min(n_candidates, _MOST_NEGATIVES + 500):
        sizes.append(2 * (sizes[-1] + 1) - 1)
        rules.append(Stopping(tuple(sizes)))
    return rules


def _bound_design(
    pilot: SampledRanks | RankDistribution,
    distribution: RankDistribution,
    n_users: int,
    level: float,
    ties: TiePolicy,
) -> SampleDesign:
    """Return the design from which widths of identification bounds are predicted for any sample size."""
    if isinstance(pilot, SampledRanks) and pilot.design.stopping is None:
        is_single = bool((pilot.n_relevant == 1).all()) and not pilot.n_tied.any()
        design = SampleDesign.of(
            tally(pilot, ties=ties),
            level=level,
            method="binomial" if is_single else "chernoff",
            shape=None,
            pools="free",
        )
        return replace(design, n_users=n_users, start=0)
    ones = np.ones(1, np.int64)
    return SampleDesign(
        contexts=Contexts(ones, (distribution.n_pool - 1) * ones, 0 * ones, ones, distribution.n_pool * ones),
        target_weights=np.ones(1),
        rank_weights=distribution.weights,
        start=0,
        n_users=n_users,
        replacement=False,
        level=level,
        method="binomial",
        shape=None,
        pools="free",
    )
