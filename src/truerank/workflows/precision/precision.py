"""Evaluation that stops when every confidence interval has the wanted half-width.

For models that are slow to score. Users are sampled in random order and scored until their values are exact;
a confidence sequence (valid at every sample size at once) allows stopping as soon as the interval is narrow
enough. Metrics without a cut-off may be bounded from sampled negatives of all users instead.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from truerank.core.digest import data_hash
from truerank.core.errors import InvalidParameter, suggests_arguments
from truerank.core.model import Model, Validate, interrupted_training
from truerank.core.progress import SILENT, Progress, ProgressTask, note, tracked
from truerank.core.ranks import SeenPolicy, TiePolicy
from truerank.core.result import SAMPLED_USERS, Result
from truerank.core.scorer import DenseScores, HasFactors, HasSparseRows, Scorer
from truerank.core.split import Split
from truerank.core.table import listed_in_words
from truerank.core.types import FloatArray, IntArray
from truerank.inference.estimate_interval.registry import Target
from truerank.inference.user_interval import INTERVALS
from truerank.metrics.base import Metric
from truerank.metrics.registry import make_metrics, values
from truerank.models.slow.score_file import ScoreFile
from truerank.models.slow.slow_scorer import TimeIsUp
from truerank.ranking.exact import exact_ranks
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
from truerank.workflows.precision.bounded_sample import (
    BoundedSample,
    negatives_for_bounds,
    sample_with_bounds,
)
from truerank.workflows.precision.budget import Budget, Spending, kept_scores, open_scores
from truerank.workflows.precision.goal import (
    DEFAULT_PROXY,
    PrecisionDesign,
    PrecisionGoal,
    PrecisionResult,
    PrecisionTrace,
)
from truerank.workflows.precision.item_order import make_order
from truerank.workflows.precision.model_values import AskedModel
from truerank.workflows.precision.partial_rows import PartialRows
from truerank.workflows.precision.user_sample import (
    UserSample,
    fewest_rows,
    needed_information,
    needed_rows,
    predicted_variance,
)

#: Users of the first round, the fewest that a budget must allow, and rounds for the forecast number of users.
FIRST_USERS = 200
FIRST_ROWS = 50  # where rows cannot end early
FEWEST_USERS = 20
ROUNDS = 10
_SMALLEST_ROUND = 16
_SMALLEST_ROWS = 4  # of a round after screening, when rows are whole ones
_LOOK = 4  # items of the first look at some users, as a multiple of the cut-off
_TIMED = 2  # users that tell how long a score takes, where the budget is a time
_GUESSED_DROP = 0.1  # of values below their ceilings, before anything is known


def evaluate_model(scorer: Scorer, split: Split, goal: PrecisionGoal, progress: Progress) -> PrecisionResult:
    """Evaluate one fitted model: exactly where its scores are cheap, else on a growing sample of users."""
    n_users = int((split.test.user_counts() > 0).sum())
    exact_scores = n_users * split.train.n_items
    is_cheap = isinstance(scorer, HasFactors | HasSparseRows | DenseScores) and goal.costs is None
    is_allowed = goal.budget is None or exact_scores <= goal.budget
    if goal.design == "exact" or (goal.design == "auto" and is_cheap and is_allowed):
        if not is_allowed:
            raise InvalidParameter(
                f"exact evaluation takes {exact_scores:,} scores, the budget is {goal.limit}. "
                "Raise the budget or use design='rows'."
            )
        why = (
            "as requested" if goal.design == "exact" else "its scores are available without calling the model"
        )
        return _exact(scorer, split, goal, f"all items were ranked for all users: {why}.", progress)
    order, proxies = make_order(goal.proxy, split, seed=goal.seed, progress=progress)
    rows = PartialRows(
        scorer, split, cutoff=goal.cutoff, order=order, seen=goal.seen, n_threads=goal.n_threads
    )
    sample = UserSample(
        [AskedModel(rows, goal.metrics, ties=goal.ties, seed=goal.seed)],
        precision=goal.precision,
        level=goal.row_level,
        target=goal.target,
        seed=goal.seed,
    )
    return PrecisionSearch(scorer, split, goal, sample, exact_scores, proxies, progress).run()


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
    proxies : names of the cheap models that order the items
    progress : where sampled users are reported
    """

    def __init__(
        self,
        scorer: Scorer,
        split: Split,
        goal: PrecisionGoal,
        sample: UserSample,
        exact_scores: int,
        proxies: list[str],
        progress: Progress,
    ) -> None:
        self.scorer, self.split, self.goal, self.sample = scorer, split, goal, sample
        self.exact_scores, self.proxies, self.progress = exact_scores, proxies, progress
        self.rounds: list[int] = []
        self.why: list[str] = []
        self.bounded: BoundedSample | None = None
        self.n_negatives = 0
        self.spending = Spending(scorer, goal.limit)
        self.limits: FloatArray = np.tile([0.0, 1.0], (len(goal.metrics), 1))
        self.expected_end: float | None = None  # scores that the goal takes in all, forecast after each round
        self.expected = (0.0, 0.0)  # scores of screening all users first, and of sampling users alone

    @property
    def n_scores(self) -> int:
        """Scores computed so far."""
        return self.sample.rows.n_scores + (self.bounded.n_scores if self.bounded is not None else 0)

    @property
    def screened(self) -> int:
        """Items that were scored for all users first, at most; 0 for none."""
        return self.sample.depth

    def run(self) -> PrecisionResult:
        """Sample users until the precision is reached, the budget is spent or every user is known."""
        sample = self.sample
        self._check_budget()
        sample.rows.deadline = self.spending.deadline
        with tracked(self.progress, "users", len(sample.queue)) as task:
            try:
                with self.spending.watched(partial(self._tell, task)):
                    exact = self._search(task)
            except TimeIsUp:
                exact = None
                self.why.append(f"The budget of {self.goal.limit} has ended.")
                sample.settle()
                self.update_limits()
        return self._result() if exact is None else exact

    def _search(self, task: ProgressTask) -> PrecisionResult | None:
        """Sample users until there is a reason to stop; return a result where exact evaluation is quicker."""
        sample, goal = self.sample, self.goal
        before = len(sample.queue)
        self._begin()
        self.update_limits()
        task.advance(before - len(sample.queue))
        if not self.is_reached and goal.costs is not None and self._is_exact_quicker():
            why = (
                "all items were ranked for all users: by the measured costs that is quicker than "
                "sampling further users."
            )
            return _exact(self.scorer, self.split, goal, why, self.progress, self.n_scores)
        if not self.is_reached and goal.may_bound:
            self._bound(sample.missing_rows() * self._row_scores())
        while not self.is_reached and not sample.is_complete:
            self._tell(task)
            before = len(sample.queue)
            if self.screened:
                sample.deepen(self._may_screen)
            n = sample.affordable(self._step(), self._left())
            if n == 0 and goal.limit.seconds is not None:
                n = 1
            if n == 0:
                self.why.append(f"The budget of {goal.limit} allows no further user.")
                break
            sample.add_users(n)
            task.advance(before - len(sample.queue))
            self.update_limits()
        return None

    def _tell(self, task: ProgressTask) -> None:
        """Show the scores asked for, the widest interval, and about what is left."""
        width = float((self.limits[:, 1] - self.limits[:, 0]).max() / 2)
        note(task, self.spending.progress(self.n_scores, width, self.expected_end))

    def update_limits(self) -> None:
        """Compute the intervals from all users sampled so far, intersected with bounds if there are any."""
        self.limits = self.sample.limits()
        if self.bounded is not None:
            low = np.maximum(self.limits[:, 0], self.bounded.limits[:, 0])
            high = np.minimum(self.limits[:, 1], self.bounded.limits[:, 1])
            self.limits = np.sort(np.stack([low, high], axis=1), axis=1)
        self.rounds.append(len(self.sample.rows) - len(self.sample.queue))
        self.expected_end = self.n_scores + self._further_scores()

    @property
    def is_reached(self) -> bool:
        """Whether all intervals are narrow enough."""
        return bool((self.limits[:, 1] - self.limits[:, 0]).max() <= 2 * self.goal.precision)

    def _further_scores(self) -> float:
        """Return about how many more scores the wanted precision takes."""
        if self.is_reached or self.sample.is_complete:
            return 0.0
        if len(self.sample.sampled) == 0 and not self.screened and any(self.expected):
            return max(min(self.expected) - self.n_scores, 0.0)
        return self.sample.missing_rows() * max(self._cost_per_user(), 1.0)

    def _left(self) -> int | None:
        """Return the budget for scores of rows; half of the time that is left is for one round at most."""
        spent = self.bounded.n_scores if self.bounded is not None else 0
        budget = self.goal.budget
        in_time = self.spending.affordable(self.n_scores)
        if self.goal.limit.seconds is not None and in_time is not None:
            budget = (self.n_scores + in_time) // 2  # a round that the clock ends is lost
        return None if budget is None else budget - spent

    def _check_budget(self) -> None:
        sample = self.sample
        least = min(FEWEST_USERS, len(sample.queue))
        if sample.affordable(least, self.goal.budget) < least:
            needed = int(sample.rows.most_scores(sample.queue[:least]).sum())
            raise InvalidParameter(
                f"budget must allow a first round of {least} users, which may take {needed:,} scores, got "
                f"{self.goal.limit}. Raise the budget."
            )

    def _begin(self) -> None:
        """Take the first step that is expected to need fewest scores: screen all users, or sample some."""
        sample, goal = self.sample, self.goal
        if goal.cutoff is None or goal.target == "population":
            wanted = min(FIRST_ROWS if goal.cutoff is None else FIRST_USERS, len(sample.queue))
            n = sample.affordable(wanted, goal.budget)
            sample.add_users(n)
            return
        depth = _LOOK * goal.cutoff
        n_looked = min(FIRST_USERS, len(sample.queue))
        if goal.limit.seconds is not None:
            sample.rows.advance(sample.queue[:_TIMED], goal.cutoff)  # tells how long a score takes
        budget = self.spending.affordable(self.n_scores)
        if budget is not None:
            n_looked = min(n_looked, max(budget // (10 * depth), 1))
        looked = sample.queue[:n_looked]
        sample.rows.advance(looked, depth)
        self.expected = screening, sampling = self._forecasts(looked)
        if screening <= sampling and self._may_screen(goal.cutoff):
            self._screen()
        else:
            sample.decide(sample.affordable(n_looked, goal.budget))

    def _forecasts(self, looked: IntArray) -> tuple[float, float]:
        """Return the expected scores of screening all users, and of sampling users alone."""
        sample, goal = self.sample, self.goal
        is_open = sample.rows.is_open[looked]
        n_users, n_left = len(sample.rows), len(sample.queue) - len(looked)
        asked, share = float(sample.rows.depth[looked].mean()), float(is_open.mean())
        n_open = round(share * n_users)
        missing = needed_information(goal.precision, goal.row_level)
        n_rows = max(
            needed_rows(n_open, _GUESSED_DROP * (1 - _GUESSED_DROP), missing, n_users),
            fewest_rows(n_open, goal.precision, goal.row_level, n_users),
        )
        screening = n_left * asked + n_rows * self._row_scores()
        ceilings = sample.models[0].ceilings(looked)
        variance = max(predicted_variance(ceilings[:, c]) for c in range(ceilings.shape[1]))
        n_sampled = needed_rows(n_left, variance, missing, n_users)
        per_user = asked + share * self._row_scores()
        return screening, len(looked) * share * self._row_scores() + n_sampled * per_user

    def _screen(self) -> None:
        """Score the most promising items of all users, as deep as that is expected to pay."""
        self.sample.screen(min(self.goal.cutoff or 1, self.sample.rows.depths[-1]))
        self.sample.deepen(self._may_screen)

    def _how_screened(self) -> str:
        screening, sampling = self.expected
        n_users = len(self.sample.rows)
        n_open = len(self.sample.queue) + len(self.sample.sampled)
        return (
            f"Up to {self.screened:,} items per user were scored first, in the order of "
            f"{listed_in_words(self.proxies)}. That "
            f"decided {n_users - n_open:,} of {n_users:,} users (expected cost {screening:,.0f} scores, "
            f"against {sampling:,.0f} for sampling users alone)."
        )

    def _row_scores(self) -> float:
        """Return the mean length of a row: about what it costs to decide a user that screening left open."""
        return float(self.sample.rows.rows.n_free.mean())

    def _step(self) -> int:
        """Return the users of the next round, and aim the bets at what the budget can reach."""
        sample = self.sample
        needed = sample.missing_rows()
        budget = self.spending.affordable(self.n_scores)
        if budget is not None:
            allowed = int((budget - self.n_scores) / max(self._cost_per_user(), 1.0))
            if allowed < needed:
                sample.aim_at(allowed)
        return max(_SMALLEST_ROWS if self.screened else _SMALLEST_ROUND, -(-needed // ROUNDS))

    def _cost_per_user(self) -> float:
        """Return the mean number of scores that a sampled user took, beyond screening."""
        rows = self.sample.rows.depth[self.sample.sampled]
        return float((rows - self.screened).mean()) if len(rows) else self._row_scores()

    def _is_exact_quicker(self) -> bool:
        costs = self.goal.costs
        if costs is None or self.goal.limit.seconds is not None:
            return False
        if (self.goal.budget or np.inf) < self.n_scores + self.exact_scores:
            return False
        return costs.exact < self.sample.missing_rows() * self._cost_per_user() * costs.sampled_score

    def _may_screen(self, depth: int) -> bool:
        budget = self.spending.affordable(self.n_scores)
        most = int(self.sample.rows.most_scores(self.sample.queue, depth).sum())
        return budget is None or self.n_scores + most <= budget

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
        if self.screened:
            self.why.insert(0, self._how_screened())
        width = float((self.limits[:, 1] - self.limits[:, 0]).max() / 2)
        is_exact = sample.is_complete and goal.target == "test-users"
        if is_exact:
            self.why.append("Every user is known, so the values are exact.")
        elif self.is_reached:
            self.why.append(f"Every interval is within +-{goal.precision:g}.")
        else:
            self.why.append(f"The widest interval is +-{width:.2g}, not the wanted +-{goal.precision:g}.")
            if goal.target == "test-users":
                self.why += self.spending.what_more_takes(
                    self._further_scores(), self.n_scores, goal.precision
                )
        self.why.append(
            f"It took {self.n_scores:,} scores, {fraction:.1%} of the {self.exact_scores:,} of exact "
            f"evaluation{self.spending.told(self.n_scores)}."
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
            tuple(self.proxies),
            self.spending.asked(self.n_scores),
            self.spending.cost(self.n_scores),
            None if self.is_reached else round(self._further_scores()),
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
    budget: int | str | None = None,
    price: float | None = None,
    scores: str | Path | None = None,
    level: float = 0.95,
    target: Target = "test-users",
    estimator: Estimators = DEFAULT_ESTIMATOR,
    design: PrecisionDesign = "auto",
    proxy: Any = DEFAULT_PROXY,
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

    * Items are asked in the order of cheap models, the proxies, see ``ProxyOrder``. A user is scored until K
      items rank above the targets: the value is exact and no estimator is needed, see ``PartialRows``.
    * A look at 200 users says what is cheaper: to sample users in random order, or to score some items of
      *all* users first. That decides most misses, and gives the others a ceiling: the value they have if
      nothing else ranks above their targets. Users are then sampled among those, to find out how far values
      lie below ceilings, see ``UserSample``. How deep to go is forecast anew after each round.
    * Metrics without a cut-off, such as AUC, may be cheaper to bound by sampled negatives of all users
      (``truerank.inference.bounds``): the bounds hold whatever the bias of the estimator is.
    * After each round the intervals are computed. Evaluation ends when all have the wanted half-width, when
      the budget does not allow one more user, or when every user is known.

    Parameters
    ----------
    models, split, metrics : as in ``evaluate``
    precision : wanted half-width of every interval, such as 0.01
    budget : what each model may cost: a number of scores (those kept from earlier runs count too, so that a
        run that was interrupted ends as one that was not), a time of this run (``600s``, ``10min``, ``2h``)
        or, with a price, money (``20usd``); None for no limit
    price : of 1,000 scores
    scores : file in which the scores of slow models (``slow_scorer``, ``http``) are kept, made where there is
        none
    level, target : of the intervals, for each metric separately. ``test-users`` is the value that exact
        evaluation would print, ``population`` its expectation for the population of users
    estimator : gives the value, not the interval, where negatives are sampled
    design : ``exact`` ranks all items for all users, ``rows`` samples users, ``negatives`` bounds the metrics
        from sampled negatives of all users; ``auto`` chooses
    proxy : cheap models whose scores say which items are asked for first: spec strings separated by commas,
        which are fitted to the train part, scorers, or a list of these. ``popularity`` alone needs no fit.
        The proxies decide what the evaluation costs, not what it finds
    costs : measured seconds (``measure_costs``), where these and not the number of scores shall decide
        between exact evaluation and sampling users
    ties, seen, seed, n_threads : as in ``evaluate``
    progress : where fitting and sampled users are reported

    Notes
    -----
    *Optional stopping.* Intervals from sampled users are a confidence sequence: they hold for all sample
    sizes at once (proof in ``ConfidenceSequence``), so they hold at the end, whatever the reason to stop: the
    precision, a number of scores, or the clock, even where slow answers and values have to do with each
    other. When the clock ends a round, no bet is placed on its users; what is known of them (values and
    ceilings) is a fact and is used as such.
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
        single_estimator(estimator, "evaluation to a precision"),
        design=design,
        proxy=proxy,
        costs=costs,
        limit=Budget.read(budget, price=price),
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
    with open_scores(scores, split, named) as file:
        for name, model in named.items():
            try:
                scorer, result = _fit_and_evaluate(name, model, split, goal, validate, progress, file)
            except KeyboardInterrupt:
                if not done:
                    raise
                break
            traces[name] = result.trace
            done.append(_evaluated(name, described(model), scorer, result, goal))
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
        budget=budget,
        **({} if price is None else {"price": price}),
        **({} if scores is None else {"scores": str(scores)}),
        design=goal.design,
        ways={name: trace.to_dict() for name, trace in traces.items()},
    )


def _fit_and_evaluate(
    name: str,
    model: Model | Scorer,
    split: Split,
    goal: PrecisionGoal,
    validate: Validate | None,
    progress: Progress,
    file: ScoreFile | None,
) -> tuple[Scorer, PrecisionResult]:
    started = time.perf_counter()
    scorer = fit_scorer(model, split, validate=validate, seed=goal.seed, progress=progress, keeps_part=True)
    fitted = time.perf_counter()
    with kept_scores(scorer, file, name) as told:
        result = evaluate_model(scorer, split, goal, progress)
    result.seconds.update(fit=fitted - started, rank=time.perf_counter() - fitted)
    return scorer, replace(result, trace=replace(result.trace, why=(*result.trace.why, *told)))


def _evaluated(
    name: str, spec: str, scorer: Scorer, result: PrecisionResult, goal: PrecisionGoal
) -> EvaluatedModel:
    return EvaluatedModel(
        name,
        spec,
        result.estimates(name, goal),
        None,
        result.seconds,
        result.trace.n_scores,
        BoundsWithMessages(notes=(f"{name}: {' '.join(result.trace.why)}",)),
        unknown=unknown_of(scorer),
        interrupted=interrupted_training(scorer),
    )
