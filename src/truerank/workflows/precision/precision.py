"""Evaluation that stops when every confidence interval has the wanted half-width.

For models that are slow to score. Users are sampled in random order and scored until their values are exact;
a confidence sequence (valid at every sample size at once) allows stopping as soon as the interval is narrow
enough. Metrics without a cut-off may be bounded from sampled negatives of all users instead.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from truerank.core.digest import data_hash
from truerank.core.errors import InvalidParameter, TruerankError, suggests_arguments
from truerank.core.model import Model, Validate, interrupted_training
from truerank.core.progress import SILENT, Progress, tracked
from truerank.core.ranks import Ranks, SeenPolicy, TiePolicy
from truerank.core.result import SAMPLED_USERS, Estimate, Result
from truerank.core.scorer import DenseScores, HasFactors, HasSparseRows, Scorer
from truerank.core.split import Split
from truerank.core.types import FloatArray
from truerank.estimation.base import Estimator
from truerank.estimation.tally import tally
from truerank.inference.bounds.identify import identification_bounds
from truerank.inference.bounds.sample_size import SampleDesign
from truerank.inference.estimate_interval.registry import Target
from truerank.inference.user_interval import INTERVALS
from truerank.metrics.base import Metric
from truerank.metrics.registry import make_metrics, values
from truerank.ranking.exact import exact_ranks
from truerank.ranking.sampled import sample_ranks
from truerank.ranking.samplers.uniform import UniformSampler
from truerank.ranking.simulate import simulate_sample
from truerank.workflows.assembly import EvaluatedModel, assemble_result
from truerank.workflows.estimate import BoundsWithMessages
from truerank.workflows.fitting import (
    check_targets,
    described,
    fit_scorer,
    make_validate,
    name_models,
    unknown_of,
    was_interrupted,
)
from truerank.workflows.options import DEFAULT_ESTIMATOR, DEFAULT_METRICS, Estimators, single_estimator
from truerank.workflows.plan.cost import RankingSeconds
from truerank.workflows.precision.goal import PrecisionDesign, PrecisionGoal, PrecisionResult, PrecisionTrace
from truerank.workflows.precision.partial_rows import PartialRows
from truerank.workflows.precision.user_sample import UserSample

_PILOT_NEGATIVES = 99  # of the sample simulated from the pilot's exact ranks
_FEWEST_NEGATIVES = 30  # fewer save next to nothing beside the pilot, and estimates suffer
_PLANNED_FRACTION = 0.9  # of the wanted half-width: bounds of the actual sample differ from predicted ones


@dataclass(frozen=True, eq=False)
class BoundedSample:
    """Estimates and identification bounds from sampled negatives of all users, and the scores computed."""

    value: FloatArray
    limits: FloatArray
    n_scores: int


def negatives_for_bounds(
    pilot: Ranks, metrics: Sequence[Metric], half_width: float, *, n_users: int, level: float, ties: TiePolicy
) -> int | None:
    """Return about how many negatives per user bound every metric this closely; None if only all items do.

    Parameters
    ----------
    pilot : exact ranks of some users
    metrics, half_width, level, ties : of the bounds
    n_users : users that negatives would be sampled for
    """
    m = min(_PILOT_NEGATIVES, int((pilot.n_pool - pilot.n_relevant).min()) // 2)
    if m < 1:
        return None
    try:
        simulated = simulate_sample(pilot, m)
        is_single = bool((pilot.n_relevant == 1).all()) and not pilot.n_tied.any()
        design = SampleDesign.of(
            tally(simulated, ties=ties),
            level=level,
            method="binomial" if is_single else "chernoff",
            shape=None,
            pools="free",
        )
        design = replace(design, n_users=n_users, start=0)
        sizes = [design.size(metric, _PLANNED_FRACTION * half_width) for metric in metrics]
    except TruerankError:  # there are no bounds for this kind of sample
        return None
    known = [size for size in sizes if size is not None]
    return max(_FEWEST_NEGATIVES, *known) if len(known) == len(sizes) else None


def sample_with_bounds(
    scorer: Scorer,
    split: Split,
    metrics: Sequence[Metric],
    estimator: Estimator,
    *,
    n_negatives: int,
    level: float,
    ties: TiePolicy,
    seen: SeenPolicy,
    seed: int,
    n_threads: int | None,
    progress: Progress,
) -> BoundedSample:
    """Sample negatives for all users; the bounds hold whatever the bias of the estimator is."""
    sampled = sample_ranks(
        scorer,
        split,
        UniformSampler(m=n_negatives),
        seen=seen,
        seed=seed,
        n_threads=n_threads,
        progress=progress,
    )
    counted = tally(sampled.ranks, ties=ties, seed=seed)
    bounds = identification_bounds(counted.unbinned, metrics, level=level, progress=progress)
    limits = np.array([[bound.low, bound.high] for bound in bounds])
    value = estimator.estimate(counted, metrics).value
    return BoundedSample(np.clip(value, limits[:, 0], limits[:, 1]), limits, sampled.n_scores)


#: Users of the first round, the fewest that a budget must allow, and rounds for the forecast number of users.
FIRST_USERS = 200
FIRST_ROWS = 50  # where rows cannot end early
FEWEST_USERS = 20
ROUNDS = 10
_SMALLEST_ROUND = 16


def evaluate_model(scorer: Scorer, split: Split, goal: PrecisionGoal, progress: Progress) -> PrecisionResult:
    """Evaluate one fitted model: exactly where its scores are cheap, else on a growing sample of users."""
    n_users = int((split.test.user_counts() > 0).sum())
    exact_scores = n_users * split.train.n_items
    is_cheap = isinstance(scorer, HasFactors | HasSparseRows | DenseScores) and goal.costs is None
    is_allowed = goal.budget is None or exact_scores <= goal.budget
    if goal.design == "exact" or (goal.design == "auto" and is_cheap and is_allowed):
        if not is_allowed:
            raise InvalidParameter(
                f"exact evaluation takes {exact_scores:,} scores, the budget is {goal.budget:,}. "
                "Raise the budget or use design='rows'."
            )
        why = (
            "as requested" if goal.design == "exact" else "its scores are available without calling the model"
        )
        return _exact(scorer, split, goal, f"all items were ranked for all users: {why}.", progress)
    rows = PartialRows(scorer, split, cutoff=goal.cutoff, seen=goal.seen, n_threads=goal.n_threads)
    sample = UserSample(
        rows,
        goal.metrics,
        precision=goal.precision,
        level=goal.row_level,
        target=goal.target,
        ties=goal.ties,
        seed=goal.seed,
    )
    return PrecisionSearch(scorer, split, goal, sample, exact_scores, progress).run()


def _exact(
    scorer: Scorer, split: Split, goal: PrecisionGoal, why: str, progress: Progress, n_before: int = 0
) -> PrecisionResult:
    ranks = exact_ranks(scorer, split, seen=goal.seen, n_threads=goal.n_threads, progress=progress)
    per_user = values(goal.metrics, ranks, ties=goal.ties, seed=goal.seed)
    value = np.array([per_user[:, column].mean() for column in range(len(goal.metrics))])
    limits, method = np.stack([value, value], axis=1), "exact"
    if goal.target == "population":
        band = INTERVALS.make("auto").band(per_user, level=goal.level, seed=goal.seed)
        limits, method = np.stack([band.low, band.high], axis=1), band.method[0]
    n_scores = ranks.n_users * split.train.n_items
    is_reached = bool((limits[:, 1] - limits[:, 0]).max() <= 2 * goal.precision)
    sentences = [why]
    if not is_reached:
        sentences.append("The variance between users makes the intervals wider than wanted.")
    trace = PrecisionTrace(
        "exact",
        (ranks.n_users,),
        n_scores + n_before,
        n_scores,
        is_reached,
        tuple(sentences),
        ranks.n_users,
    )
    return PrecisionResult(value, limits, trace, method, kind="exact")


class PrecisionSearch:
    """Samples users of one model, round by round, until every interval is narrow enough.

    Parameters
    ----------
    scorer, split, goal : the model, the data, and what is wanted
    sample : users sampled so far; grows
    exact_scores : scores of exact evaluation
    progress : where sampled users are reported
    """

    def __init__(
        self,
        scorer: Scorer,
        split: Split,
        goal: PrecisionGoal,
        sample: UserSample,
        exact_scores: int,
        progress: Progress,
    ) -> None:
        self.scorer, self.split, self.goal, self.sample = scorer, split, goal, sample
        self.exact_scores, self.progress = exact_scores, progress
        self.rounds: list[int] = []
        self.why: list[str] = []
        self.bounded: BoundedSample | None = None
        self.n_negatives = self.screened = 0
        self.step = FIRST_USERS

    @property
    def n_scores(self) -> int:
        """Scores computed so far."""
        return self.sample.rows.n_scores + (self.bounded.n_scores if self.bounded is not None else 0)

    def run(self) -> PrecisionResult:
        """Sample users until the precision is reached, the budget is spent or every user is known."""
        sample, goal = self.sample, self.goal
        with tracked(self.progress, "drawing users", len(sample.queue)) as task:
            for n_added in self._first_round():
                task.advance(n_added)
            self.update_limits()
            if not self.is_reached and goal.costs is not None and self._is_exact_quicker():
                why = (
                    "all items were ranked for all users: by the measured costs that is quicker than "
                    "sampling further users."
                )
                return _exact(self.scorer, self.split, goal, why, self.progress, self.n_scores)
            if not self.is_reached:
                self._choose_next_step()
            while not self.is_reached and not sample.is_complete:
                n = sample.affordable(self.step, self._left())
                if n == 0:
                    self.why.append(f"The budget of {goal.budget:,} scores allows no further user.")
                    break
                sample.add_users(n)
                task.advance(n)
                self.update_limits()
        return self._result()

    def update_limits(self) -> None:
        """Compute the intervals from all users sampled so far, intersected with bounds if there are any."""
        self.limits = self.sample.limits()
        if self.bounded is not None:
            low = np.maximum(self.limits[:, 0], self.bounded.limits[:, 0])
            high = np.minimum(self.limits[:, 1], self.bounded.limits[:, 1])
            self.limits = np.sort(np.stack([low, high], axis=1), axis=1)
        self.rounds.append(len(self.sample.rows) - len(self.sample.queue))

    @property
    def is_reached(self) -> bool:
        """Whether all intervals are narrow enough."""
        return bool((self.limits[:, 1] - self.limits[:, 0]).max() <= 2 * self.goal.precision)

    def _left(self) -> int | None:
        """Return the budget for scores of rows."""
        spent = self.bounded.n_scores if self.bounded is not None else 0
        return None if self.goal.budget is None else self.goal.budget - spent

    def _first_round(self) -> Iterator[int]:
        sample = self.sample
        wanted = min(FIRST_USERS if self.goal.cutoff is not None else FIRST_ROWS, len(sample.queue))
        least = min(FEWEST_USERS, wanted)
        if sample.affordable(least, self.goal.budget) < least:
            needed = int(sample.rows.most_scores(sample.queue[:least]).sum())
            raise InvalidParameter(
                f"budget must allow a first round of {least} users, which may take {needed:,} scores, got "
                f"{self.goal.budget:,}. Raise the budget."
            )
        while len(sample.sampled) < wanted:
            n = sample.affordable(wanted - len(sample.sampled), self.goal.budget)
            if n == 0:
                return
            sample.add_users(n)
            yield n

    def _is_exact_quicker(self) -> bool:
        costs = self.goal.costs
        if costs is None or (self.goal.budget or np.inf) < self.n_scores + self.exact_scores:
            return False
        return costs.exact < min(f.n_scores for f in self.sample.forecasts()) * costs.sampled_score

    def _choose_next_step(self) -> None:
        """Take the step that is expected to need the fewest scores: bounds, screening or further users."""
        sample, goal = self.sample, self.goal
        forecasts = [f for f in sample.forecasts() if f.depth == 0 or self._may_screen(f.depth)]
        best = min(forecasts, key=lambda forecast: forecast.n_scores)
        self.step = max(_SMALLEST_ROUND, -(-best.n_rows // ROUNDS))
        if goal.may_bound and self._bound(best.n_scores):
            return
        if best.depth:
            before = len(sample.queue)
            sample.screen(best.depth)
            self.screened = best.depth
            self.why.append(
                f"The {best.depth:,} most popular items were scored for all remaining users, which decided "
                f"{before - len(sample.queue):,} of {before:,} (expected cost {best.n_scores:,.0f} scores, "
                f"against {forecasts[0].n_scores:,.0f} for sampling users alone)."
            )
            self.update_limits()
        budget = self._left()
        if budget is not None and sample.rows.n_scores + best.n_scores > budget:
            is_open = sample.rows.depth[sample.sampled] > sample.depth
            costs = (sample.rows.depth[sample.sampled] - sample.depth)[is_open]
            per_row = max(float(costs.mean()) if len(costs) else 1.0, 1.0)
            sample.aim_at(int((budget - sample.rows.n_scores) / per_row))

    def _may_screen(self, depth: int) -> bool:
        budget = self._left()
        most = int(self.sample.rows.most_scores(self.sample.queue, depth).sum())
        return budget is None or self.sample.rows.n_scores + most <= budget

    def _bound(self, expected: float) -> bool:
        """Bound the metrics from sampled negatives where that is cheaper; return whether that is enough."""
        sample, goal = self.sample, self.goal
        pilot = sample.rows.ranks(sample.sampled)
        size = negatives_for_bounds(
            pilot,
            goal.metrics,
            goal.precision,
            n_users=len(sample.rows),
            level=goal.row_level,
            ties=goal.ties,
        )
        if size is None:
            self.why.append("No number of sampled negatives is expected to bound every metric this closely.")
            return False
        size = min(size, int(sample.rows.rows.n_free.min()))
        if size < 1:
            return False
        n_scores = int(np.ceil(1.25 * (len(sample.rows) * size + sample.rows.n_targets.sum())))
        is_allowed = goal.budget is None or self.n_scores + n_scores <= goal.budget
        if not is_allowed or (goal.design == "auto" and n_scores >= expected):
            return False
        self.bounded = sample_with_bounds(
            self.scorer,
            self.split,
            goal.metrics,
            goal.estimator,
            n_negatives=size,
            level=goal.row_level,
            ties=goal.ties,
            seen=goal.seen,
            seed=goal.seed,
            n_threads=goal.n_threads,
            progress=self.progress,
        )
        self.n_negatives = size
        self.why.append(
            f"Targets of all users were ranked against {size:,} sampled items to bound the metrics (expected "
            f"cost {n_scores:,} scores, against {expected:,.0f} for sampling users)."
        )
        self.update_limits()
        return self.is_reached

    def _result(self) -> PrecisionResult:
        sample, goal = self.sample, self.goal
        fraction = self.n_scores / self.exact_scores
        n_known = len(sample.rows) - (0 if self.bounded is not None else len(sample.queue))
        until = f"until {goal.cutoff} items ranked above their targets" if goal.cutoff else "completely"
        self.why.insert(
            0,
            f"{len(sample.sampled):,} of {len(sample.rows):,} users were sampled and scored {until}, which "
            "gives their exact values.",
        )
        width = float((self.limits[:, 1] - self.limits[:, 0]).max() / 2)
        is_exact = sample.is_complete and goal.target == "test-users"
        if is_exact:
            self.why.append("Every user is known, so the values are exact.")
        elif self.is_reached:
            self.why.append(f"Every interval is within +-{goal.precision:g}.")
        else:
            self.why.append(f"The widest interval is +-{width:.2g}, not the wanted +-{goal.precision:g}.")
        self.why.append(
            f"It took {self.n_scores:,} scores, {fraction:.1%} of the {self.exact_scores:,} of exact "
            "evaluation."
        )
        value, method = sample.means(), "exact" if is_exact else "betting"
        estimator, n_negatives = "exact" if sample.is_complete else SAMPLED_USERS, None
        if self.bounded is not None and not is_exact:
            value, method = self.bounded.value, "bounds and betting"
            estimator, n_negatives = str(goal.estimator), self.n_negatives
        trace = PrecisionTrace(
            "rows" if self.bounded is None else "negatives",
            tuple(self.rounds),
            self.n_scores,
            self.exact_scores,
            self.is_reached,
            tuple(self.why),
            n_known,
            self.screened,
        )
        return PrecisionResult(
            np.clip(value, self.limits[:, 0], self.limits[:, 1]),
            self.limits,
            trace,
            method,
            kind="exact" if is_exact else "estimate",
            estimator=estimator,
            n_negatives=n_negatives,
        )


@suggests_arguments
def evaluate_to_precision(
    models: Any,
    split: Split,
    metrics: str | Metric | Sequence[str | Metric] = DEFAULT_METRICS,
    *,
    precision: float,
    budget: int | None = None,
    level: float = 0.95,
    target: Target = "test-users",
    estimator: Estimators = DEFAULT_ESTIMATOR,
    design: PrecisionDesign = "auto",
    costs: RankingSeconds | None = None,
    ties: TiePolicy = "expected",
    seen: SeenPolicy = "remove",
    seed: int = 0,
    n_threads: int | None = None,
    progress: Progress = SILENT,
) -> Result:
    r"""Return metrics whose intervals have the wanted half-width, from as few scores as that takes.

    Interrupted with Ctrl-C, it returns the models that are finished, if there are any, as ``evaluate`` does.

    Models whose scores are available without calling them (factors, sparse rows, arrays) are ranked exactly,
    which is quicker than sampling. Other models are evaluated on a growing sample:

    * Users are sampled in random order, 200 in the first round.
    * Each user is scored from popular to rare items until K items rank above the targets: the value is exact
      and no estimator is needed, see ``PartialRows``.
    * From the first round the cheapest next step is forecast: sampling further users, or scoring some popular
      items of *all* remaining users, which decides most of them, and then sampling users among the others.
    * Metrics without a cut-off, such as AUC, may be cheaper to bound by sampled negatives of all users
      (``truerank.inference.bounds``): the bounds hold whatever the bias of the estimator is.
    * After each round the intervals are computed. Evaluation ends when all have the wanted half-width, when
      the budget does not allow one more user, or when every user is known.

    Parameters
    ----------
    models, split, metrics : as in ``evaluate``
    precision : wanted half-width of every interval, such as 0.01
    budget : scores that may be computed for each model; None for no limit
    level, target : of the intervals, for each metric separately. ``test-users`` is the value that exact
        evaluation would print, ``population`` its expectation for the population of users
    estimator : gives the value, not the interval, where negatives are sampled
    design : ``exact`` ranks all items for all users, ``rows`` samples users, ``negatives`` bounds the metrics
        from sampled negatives of all users; ``auto`` chooses
    costs : measured seconds (``measure_costs``), where these and not the number of scores shall decide
        between exact evaluation and sampling users
    ties, seen, seed, n_threads : as in ``evaluate``
    progress : where fitting and sampled users are reported

    Notes
    -----
    *Optional stopping.* Intervals from sampled users are a confidence sequence: they hold for all sample
    sizes at once (proof in ``ConfidenceSequence``), so they hold at the end, whatever the reason to stop.
    Where bounds from negatives may be used as well, which depends on the metrics alone, each kind gets half
    of 1 - level, so both hold together with probability at least ``level``, whichever is reported.

    *Termination.* Each round samples at least one of finitely many users or is the last one.

    Raises
    ------
    InvalidParameter
        When the budget does not allow a first round of 20 users.

    Examples
    --------
    >>> from truerank.core.interactions import Interactions
    >>> train = Interactions.from_codes([0, 0, 1, 2], [0, 1, 1, 1], n_users=3, n_items=3)
    >>> test = Interactions.from_codes([1, 2], [0, 2], n_users=3, n_items=3)
    >>> result = evaluate_to_precision("popularity", Split(train, test), "recall@1", precision=0.1)
    >>> result.estimate("recall@1").value, result.provenance["ways"]["popularity"]["design"]
    (0.5, 'exact')
    """
    goal = PrecisionGoal(
        make_metrics(metrics),
        precision,
        budget,
        single_estimator(estimator, "evaluation to a precision"),
        design=design,
        costs=costs,
        level=level,
        target=target,
        ties=ties,
        seen=seen,
        seed=seed,
        n_threads=n_threads,
    )
    check_targets(split)
    named = name_models(models)
    validate = make_validate(split, seen=goal.seen, n_threads=goal.n_threads)
    done: list[EvaluatedModel] = []
    traces: dict[str, PrecisionTrace] = {}
    for name, model in named.items():
        try:
            scorer, result = _fit_and_evaluate(model, split, goal, validate, progress)
        except KeyboardInterrupt:
            if not done:
                raise
            break
        traces[name] = result.trace
        evaluated = _evaluated(name, described(model), result, goal)
        done.append(replace(evaluated, unknown=unknown_of(scorer), interrupted=interrupted_training(scorer)))
        if was_interrupted(scorer):
            break
    is_exact = all(estimate.kind == "exact" for model in done for estimate in model.estimates)
    return assemble_result(
        done,
        goal,
        split.summary(),
        data_hash(split),
        split=split.method,
        interval="betting",
        sampler=None if is_exact else "users in random order",
        precision=goal.precision,
        budget=goal.budget,
        design=goal.design,
        ways={name: trace.to_dict() for name, trace in traces.items()},
    )


def _fit_and_evaluate(
    model: Model | Scorer, split: Split, goal: PrecisionGoal, validate: Validate | None, progress: Progress
) -> tuple[Scorer, PrecisionResult]:
    started = time.perf_counter()
    scorer = fit_scorer(model, split, validate=validate, seed=goal.seed, progress=progress, keeps_part=True)
    fitted = time.perf_counter()
    result = evaluate_model(scorer, split, goal, progress)
    result.seconds.update(fit=fitted - started, rank=time.perf_counter() - fitted)
    return scorer, result


def _evaluated(name: str, spec: str, result: PrecisionResult, goal: PrecisionGoal) -> EvaluatedModel:
    estimates = tuple(
        Estimate(
            model=name,
            metric=str(metric),
            value=float(result.value[column]),
            low=float(result.limits[column, 0]),
            high=float(result.limits[column, 1]),
            level=goal.level,
            kind=result.kind,
            method=result.method,
            estimator=result.estimator,
            n_users=result.trace.n_users,
            n_negatives=result.n_negatives,
            target=goal.target,
        )
        for column, metric in enumerate(goal.metrics)
    )
    reasons = BoundsWithMessages(notes=(f"{name}: {' '.join(result.trace.why)}",))
    return EvaluatedModel(name, spec, estimates, None, result.seconds, result.trace.n_scores, reasons)
