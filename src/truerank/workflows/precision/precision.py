"""Evaluate until the numbers are good enough.

One model on its way to a precision: which way it takes, and when it ends.

The same number of sampled negatives for every user, and the bounds they give.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from truerank.core.digest import data_hash
from truerank.core.errors import InvalidParameter, TruerankError
from truerank.core.model import Model, Validate
from truerank.core.progress import SILENT, Progress, tracked
from truerank.core.ranks import Ranks, SeenPolicy, TiePolicy
from truerank.core.result import Estimate, Result
from truerank.core.scorer import DenseScores, HasFactors, HasSparseRows, Scorer
from truerank.core.split import Split
from truerank.core.types import FloatArray
from truerank.estimation.base import Estimator
from truerank.estimation.registry import ESTIMATORS
from truerank.estimation.tally import tally
from truerank.inference.bounds.identify import identification_bounds
from truerank.inference.bounds.sample_size import SampleDesign as BoundPlan
from truerank.inference.estimate_interval.registry import Target
from truerank.inference.user_interval import INTERVALS
from truerank.metrics.base import Metric
from truerank.metrics.registry import make_metrics, values
from truerank.ranking.exact import exact_ranks
from truerank.ranking.sampled import sample_ranks
from truerank.ranking.samplers.uniform import UniformSampler
from truerank.ranking.simulate import simulate_sample
from truerank.workflows.estimate import DEFAULT_LINEAR
from truerank.workflows.fitting import check_targets, described, fit_scorer, make_validate, name_models
from truerank.workflows.options import DEFAULT_METRICS
from truerank.workflows.precision.goal import PrecisionGoal, PrecisionResult, PrecisionTrace
from truerank.workflows.precision.partial_rows import PartialRows
from truerank.workflows.precision.user_sample import UserSample

_PILOT = 99  # negatives of the sample that a pilot's exact ranks are turned into
_FEWEST = 30  # negatives: fewer save next to nothing beside the pilot, and estimates suffer
_MARGIN = 0.9  # of the wanted half-width is planned for: the bound of the sample itself will differ


@dataclass(frozen=True, eq=False)
class BoundedSample:
    """What a sample of negatives gave: estimates, their bounds, and the scores it took."""

    value: FloatArray
    limits: FloatArray
    n_scores: int


def negatives_for_bounds(
    pilot: Ranks, metrics: Sequence[Metric], half_width: float, *, n_users: int, level: float, ties: TiePolicy
) -> int | None:
    """Return about how many negatives per user bound every metric that closely; None if only all do.

    Parameters
    ----------
    pilot : exact ranks of some users
    metrics, half_width, level, ties : wanted
    n_users : users that the negatives would be drawn for
    """
    m = min(_PILOT, int((pilot.n_pool - pilot.n_relevant).min()) // 2)
    if m < 1:
        return None
    try:
        drawn = simulate_sample(pilot, m)
        is_single = bool((pilot.n_relevant == 1).all()) and not pilot.n_tied.any()
        plan = BoundPlan.of(
            tally(drawn, ties=ties),
            level=level,
            method="binomial" if is_single else "chernoff",
            shape=None,
            pools="free",
        )
        plan = replace(plan, n_users=n_users, start=0)
        sizes = [plan.size(metric, _MARGIN * half_width) for metric in metrics]
    except TruerankError:  # bounds do not treat every sample; then this is no way to go
        return None
    known = [size for size in sizes if size is not None]
    return max(_FEWEST, *known) if len(known) == len(sizes) else None


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
    """Draw negatives for all users; the bounds hold whatever the estimator is off by."""
    drawn = sample_ranks(
        scorer,
        split,
        UniformSampler(m=n_negatives),
        seen=seen,
        seed=seed,
        n_threads=n_threads,
        progress=progress,
    )
    counted = tally(drawn.ranks, ties=ties, seed=seed)
    found = identification_bounds(counted.unbinned, metrics, level=level, progress=progress)
    limits = np.array([[one.low, one.high] for one in found])
    value = estimator.estimate(counted, metrics).value
    return BoundedSample(np.clip(value, limits[:, 0], limits[:, 1]), limits, drawn.n_scores)


#: Users of the first round, the fewest a budget must allow, and rounds that a forecast is cut into.
FIRST_USERS = 200
FIRST_ROWS = 50  # where rows cannot end early
FEWEST_USERS = 20
ROUNDS = 10
_SMALLEST_ROUND = 16


def evaluate_model(scorer: Scorer, split: Split, goal: PrecisionGoal, progress: Progress) -> PrecisionResult:
    """Evaluate one model."""
    n_users = int((split.test.user_counts() > 0).sum())
    exact_scores = n_users * split.train.n_items
    is_at_hand = isinstance(scorer, HasFactors | HasSparseRows | DenseScores) and goal.costs is None
    is_allowed = goal.budget is None or exact_scores <= goal.budget
    if goal.design == "exact" or (goal.design == "auto" and is_at_hand and is_allowed):
        if not is_allowed:
            raise InvalidParameter(
                f"exact evaluation takes {exact_scores:,} scores, the budget is {goal.budget:,}. "
                "Raise the budget or use design='rows'."
            )
        why = "as asked for" if goal.design == "exact" else "its scores are at hand and need not be asked for"
        return _exact(scorer, split, goal, f"all items were ranked for all users: {why}.", progress)
    scan = PartialRows(scorer, split, cutoff=goal.cutoff, seen=goal.seen, n_threads=goal.n_threads)
    rows = UserSample(
        scan,
        goal.metrics,
        precision=goal.precision,
        level=goal.row_level,
        target=goal.target,
        ties=goal.ties,
        seed=goal.seed,
    )
    return PrecisionSearch(scorer, split, goal, rows, exact_scores, progress).run()


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
        sentences.append("The users themselves leave wider intervals than asked for.")
    way = PrecisionTrace(
        "exact",
        (ranks.n_users,),
        n_scores + n_before,
        n_scores,
        is_reached,
        tuple(sentences),
        ranks.n_users,
    )
    return PrecisionResult(value, limits, way, method, kind="exact")


class PrecisionSearch:
    """One model on its way to the precision."""

    def __init__(
        self,
        scorer: Scorer,
        split: Split,
        goal: PrecisionGoal,
        rows: UserSample,
        exact_scores: int,
        progress: Progress,
    ) -> None:
        self.scorer, self.split, self.goal, self.rows = scorer, split, goal, rows
        self.exact_scores, self.progress = exact_scores, progress
        self.rounds: list[int] = []
        self.why: list[str] = []
        self.bounded: BoundedSample | None = None
        self.n_negatives = self.screened = 0
        self.step = FIRST_USERS

    @property
    def n_scores(self) -> int:
        """Scores computed so far."""
        return self.rows.scan.n_scores + (self.bounded.n_scores if self.bounded is not None else 0)

    def run(self) -> PrecisionResult:
        """Draw round after round."""
        rows, goal = self.rows, self.goal
        with tracked(self.progress, "drawing users", len(rows.queue)) as task:
            for drawn in self._first_round():
                task.advance(drawn)
            self.look()
            if not self.is_reached and goal.costs is not None and self._is_exact_quicker():
                why = (
                    "all items were ranked for all users: measured, that is quicker than what is left to do."
                )
                return _exact(self.scorer, self.split, goal, why, self.progress, self.n_scores)
            if not self.is_reached:
                self._choose()
            while not self.is_reached and not rows.is_complete:
                n = rows.affordable(self.step, self._left())
                if n == 0:
                    self.why.append(
                        f"The budget of {goal.budget:,} scores allows no further row; this is the best."
                    )
                    break
                rows.draw(n)
                task.advance(n)
                self.look()
        return self._found()

    def look(self) -> None:
        """Look at the intervals."""
        self.limits = self.rows.limits()
        if self.bounded is not None:
            low = np.maximum(self.limits[:, 0], self.bounded.limits[:, 0])
            high = np.minimum(self.limits[:, 1], self.bounded.limits[:, 1])
            self.limits = np.sort(np.stack([low, high], axis=1), axis=1)
        self.rounds.append(len(self.rows.scan) - len(self.rows.queue))

    @property
    def is_reached(self) -> bool:
        """Whether all intervals are narrow enough."""
        return bool((self.limits[:, 1] - self.limits[:, 0]).max() <= 2 * self.goal.precision)

    def _left(self) -> int | None:
        """Return the budget of the scan."""
        spent = self.bounded.n_scores if self.bounded is not None else 0
        return None if self.goal.budget is None else self.goal.budget - spent

    def _first_round(self) -> Iterator[int]:
        rows = self.rows
        wanted = min(FIRST_USERS if self.goal.cutoff is not None else FIRST_ROWS, len(rows.queue))
        least = min(FEWEST_USERS, wanted)
        if rows.affordable(least, self.goal.budget) < least:
            needed = int(rows.scan.most_scores(rows.queue[:least]).sum())
            raise InvalidParameter(
                f"budget must allow a first round of {least} users, which may take {needed:,} scores, got "
                f"{self.goal.budget:,}. Raise the budget."
            )
        while len(rows.drawn) < wanted:
            n = rows.affordable(wanted - len(rows.drawn), self.goal.budget)
            if n == 0:
                return
            rows.draw(n)
            yield n

    def _is_exact_quicker(self) -> bool:
        costs = self.goal.costs
        if costs is None or (self.goal.budget or np.inf) < self.n_scores + self.exact_scores:
            return False
        return costs.exact < min(f.n_scores for f in self.rows.forecasts()) * costs.sampled_score

    def _choose(self) -> None:
        """Take the way that is expected to need the fewest scores."""
        rows, goal = self.rows, self.goal
        forecasts = [f for f in rows.forecasts() if f.depth == 0 or self._may_screen(f.depth)]
        best = min(forecasts, key=lambda one: one.n_scores)
        self.step = max(_SMALLEST_ROUND, -(-best.n_rows // ROUNDS))
        if goal.may_bound and self._bound(best.n_scores):
            return
        if best.depth:
            before = len(rows.queue)
            rows.screen(best.depth)
            self.screened = best.depth
            self.why.append(
                f"All users left were looked at {best.depth:,} popular items deep, which settled "
                f"{before - len(rows.queue):,} of {before:,}: expected to take {best.n_scores:,.0f} scores, "
                f"drawing users alone {forecasts[0].n_scores:,.0f}."
            )
            self.look()
        budget = self._left()
        if budget is not None and rows.scan.n_scores + best.n_scores > budget:
            is_open = rows.scan.depth[rows.drawn] > rows.depth
            rest = (rows.scan.depth[rows.drawn] - rows.depth)[is_open]
            rows.aim_at(
                int((budget - rows.scan.n_scores) / max(float(rest.mean()) if len(rest) else 1.0, 1.0))
            )

    def _may_screen(self, depth: int) -> bool:
        budget = self._left()
        most = int(self.rows.scan.most_scores(self.rows.queue, depth).sum())
        return budget is None or self.rows.scan.n_scores + most <= budget

    def _bound(self, expected: float) -> bool:
        """Sample negatives for all users where that is expected to be cheaper; return whether they do it."""
        rows, goal = self.rows, self.goal
        pilot = rows.scan.ranks(rows.drawn)
        size = negatives_for_bounds(
            pilot,
            goal.metrics,
            goal.precision,
            n_users=len(rows.scan),
            level=goal.row_level,
            ties=goal.ties,
        )
        if size is None:
            self.why.append("No number of sampled negatives is expected to bound every metric so closely.")
            return False
        size = min(size, int(rows.scan.rows.n_free.min()))
        if size < 1:
            return False
        n_scores = int(np.ceil(1.25 * (len(rows.scan) * size + rows.scan.n_targets.sum())))
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
            f"All users were ranked against {size:,} sampled items and the metrics bounded: expected to take "
            f"{n_scores:,} scores, exact rows of single users {expected:,.0f}."
        )
        self.look()
        return self.is_reached

    def _found(self) -> PrecisionResult:
        rows, goal = self.rows, self.goal
        share = self.n_scores / self.exact_scores
        known = len(rows.scan) - (0 if self.bounded is not None else len(rows.queue))
        ends = f"each row until {goal.cutoff} items stand above its targets" if goal.cutoff else "whole rows"
        self.why.insert(
            0, f"{len(rows.drawn):,} of {len(rows.scan):,} users were drawn, {ends}: their gains are exact."
        )
        width = float((self.limits[:, 1] - self.limits[:, 0]).max() / 2)
        if rows.is_complete and goal.target == "test-users":
            self.why.append("Every user is known, so the values are exact.")
        elif self.is_reached:
            self.why.append(f"Every interval is within +-{goal.precision:g}.")
        else:
            self.why.append(f"The widest interval is +-{width:.2g}, not the +-{goal.precision:g} asked for.")
        self.why.append(
            f"{self.n_scores:,} scores, {share:.1%} of the {self.exact_scores:,} of exact evaluation."
        )
        is_exact = rows.is_complete and goal.target == "test-users"
        value, method = rows.means(), "exact" if is_exact else "betting"
        estimator, n_negatives = "exact", None
        if self.bounded is not None and not is_exact:
            value, method = self.bounded.value, "bounds and betting"
            estimator, n_negatives = str(goal.estimator), self.n_negatives
        way = PrecisionTrace(
            "rows" if self.bounded is None else "negatives",
            tuple(self.rounds),
            self.n_scores,
            self.exact_scores,
            self.is_reached,
            tuple(self.why),
            known,
            self.screened,
        )
        return PrecisionResult(
            np.clip(value, self.limits[:, 0], self.limits[:, 1]),
            self.limits,
            way,
            method,
            kind="exact" if is_exact else "estimate",
            estimator=estimator,
            n_negatives=n_negatives,
        )


def evaluate_to_precision(
    models: Any,
    split: Split,
    metrics: str | Metric | Sequence[str | Metric] = DEFAULT_METRICS,
    *,
    precision: float,
    budget: int | None = None,
    level: float = 0.95,
    target: Target = "test-users",
    estimator: str | Estimator = DEFAULT_LINEAR,
    progress: Progress = SILENT,
    **options: Any,
) -> Result:
    r"""Return metrics whose intervals are as narrow as asked for, from as few scores as that takes.

    Interrupted with Ctrl-C, it returns the models that are finished, if there are any.

    Scores that are at hand (factors, sparse rows, arrays) are all ranked: exact evaluation by kernels is
    quicker than choosing. A scorer that must be asked is asked for little:

    * Users come in random order. The first round takes 200 of them.
    * Each row is scored from popular to rare items and ends once K items stand above its targets: the gain is
      exact and no estimator is needed, see ``PartialRows``.
    * From the first round the cheapest next step is forecast: going on with single users, or a look at some
      popular items of *all* of them, which settles most, and then single users among those left open.
    * Metrics of the whole list, such as AUC, may be cheaper to bound by sampled negatives of all users
      (``truerank.inference.bounds``): the bounds hold whatever the estimator is off by.
    * After each round the intervals are looked at. It ends when all have the wanted half-width, when the
      budget does not allow one more row, or when every user is known.

    Parameters
    ----------
    models, split, metrics : as in ``evaluate``
    precision : the half-width that every interval shall have, such as 0.01
    budget : scores that may be computed for each model
    level, target : of the intervals; each metric has its own. ``test-users`` is the value exact evaluation
        would print, ``population`` that of all users like these
    estimator : gives the value, not the interval, where negatives are sampled
    progress : where long jobs report
    **options : ``design`` (``auto``, ``exact``, ``rows`` or ``negatives``), ``costs`` (seconds by ``measure``
        that decide between exact and rows), ``ties``, ``seen``, ``seed``, ``n_threads``

    Notes
    -----
    *Why looking often is allowed.* Intervals from rows hold after every single user at once (proof in
    ``Draws``), so they hold at the end, whatever ended it: a narrow interval, the budget, or chance. No level
    is spent on rounds. Where bounds from negatives may be used beside them, which depends on the metrics
    alone, each gets half of the error: that of the bounds and that of the rows add up to 1 - level at most,
    whichever of them is reported in the end, or both.

    *Ends.* Each round draws at least one of finitely many users or is the last one.

    Raises
    ------
    InvalidParameter
        When the budget does not allow a first round of 20 users.

    Examples
    --------
    >>> from truerank.core.interactions import Interactions
    >>> train = Interactions.from_codes([0, 0, 1, 2], [0, 1, 1, 1], n_users=3, n_items=3)
    >>> test = Interactions.from_codes([1, 2], [0, 2], n_users=3, n_items=3)
    >>> found = evaluate_to_precision("popularity", Split(train, test), "recall@1", precision=0.1)
    >>> found.estimate("recall@1").value, found.provenance["ways"]["popularity"]["design"]
    (0.5, 'exact')
    """
    goal = PrecisionGoal(
        make_metrics(metrics),
        precision,
        budget,
        level,
        target,
        ESTIMATORS.make(estimator),
        **options,
    )
    check_targets(split)
    named = name_models(models)
    validate = make_validate(split, seen=goal.seen, n_threads=goal.n_threads)
    found: dict[str, PrecisionResult] = {}
    for name, model in named.items():
        try:
            found[name] = _evaluate_one(model, split, goal, validate, progress)
        except KeyboardInterrupt:
            if not found:
                raise
            break
    specs = {name: described(model) for name, model in named.items() if name in found}
    return _assemble(found, specs, split, goal)


def _evaluate_one(
    model: Model | Scorer, split: Split, goal: PrecisionGoal, validate: Validate | None, progress: Progress
) -> PrecisionResult:
    started = time.perf_counter()
    scorer = fit_scorer(model, split, validate=validate, seed=goal.seed, progress=progress)
    fitted = time.perf_counter()
    found = evaluate_model(scorer, split, goal, progress)
    found.seconds.update(fit=fitted - started, rank=time.perf_counter() - fitted)
    return found


def _assemble(
    found: dict[str, PrecisionResult], specs: dict[str, str], split: Split, goal: PrecisionGoal
) -> Result:
    estimates = [
        Estimate(
            model=name,
            metric=str(metric),
            value=float(one.value[column]),
            low=float(one.limits[column, 0]),
            high=float(one.limits[column, 1]),
            level=goal.level,
            kind=one.kind,
            method=one.method,
            estimator=one.estimator,
            n_users=one.way.n_users,
            n_negatives=one.n_negatives,
            target=goal.target,
        )
        for name, one in found.items()
        for column, metric in enumerate(goal.metrics)
    ]
    is_exact = all(estimate.kind == "exact" for estimate in estimates)
    return Result(
        command="evaluate",
        estimates=tuple(estimates),
        notes=tuple(f"{name}: {' '.join(one.way.why)}" for name, one in found.items()),
        data=split.summary(),
        provenance={
            "models": specs,
            "split": split.method,
            "ties": goal.ties,
            "seen": goal.seen,
            "interval": "betting",
            "sampler": None if is_exact else "users in random order",
            "precision": goal.precision,
            "budget": goal.budget,
            "target": goal.target,
            "design": goal.design,
            "ways": {name: one.way.to_dict() for name, one in found.items()},
            "seed": goal.seed,
            "data_hash": data_hash(split),
            "versions": {"python": platform.python_version(), "numpy": np.__version__},
            "seconds": {name: one.seconds for name, one in found.items()},
            "scores_computed": {name: one.way.n_scores for name, one in found.items()},
        },
    )
