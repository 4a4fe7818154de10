"""Rounds of an evaluation to a wanted precision: which users are scored next, and when to stop.

Users are screened or sampled, round by round, until every interval is narrow enough, the budget has ended, or
every user is known.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from truerank.core.progress import Progress, ProgressTask, note, tracked
from truerank.core.result import SAMPLED_USERS
from truerank.core.scorer import Scorer
from truerank.core.split import Split
from truerank.core.table import count_of, listed_in_words, percent
from truerank.core.types import FloatArray, IntArray
from truerank.inference.user_interval import INTERVALS
from truerank.metrics.registry import values
from truerank.models.slow.slow_scorer import TimeIsUp
from truerank.ranking.exact import exact_ranks
from truerank.workflows.precision.bounded_sample import (
    BoundedSample,
    negatives_for_bounds,
    sample_with_bounds,
)
from truerank.workflows.precision.budget import Spending
from truerank.workflows.precision.goal import PrecisionGoal, PrecisionResult, PrecisionTrace
from truerank.workflows.precision.part_sample import PartSample
from truerank.workflows.precision.user_sample import (
    fewest_rows,
    needed_information,
    needed_rows,
    predicted_variance,
)

#: Users of the first round, and rounds for the forecast number of users.
FIRST_USERS = 200
FIRST_ROWS = 50  # where rows cannot end early
ROUNDS = 10
_SMALLEST_ROUND = 16
_SMALLEST_ROWS = 4  # of a round after screening, when rows are whole ones
_LOOK = 4  # items of the first look at some users, as a multiple of the cut-off
_TIMED = 2  # users that tell how long a score takes, where the budget is a time
_FOR_SCREENING = 0.4  # of a budget that is not enough for the goal
_PART = 0.4  # of a row that is asked for in the mean, by a user drawn after screening
_GUESSED_DROP = 0.1  # of values below their ceilings, before anything is known


def evaluate_exactly(
    scorer: Scorer, split: Split, goal: PrecisionGoal, why: str, progress: Progress, n_before: int = 0
) -> PrecisionResult:
    """Rank all items for all users."""
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
        sample: PartSample,
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
        self.allows_rows = True  # whether the budget allows a first round of complete rows

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
        sample, goal = self.sample, self.goal
        depth = None if goal.target == "population" else goal.cutoff
        self.allows_rows = goal.limit.allows_rows(
            self._budget_left(),
            sample.most_scores(sample.queue),
            screening=None if depth is None else sample.most_scores(sample.queue, depth),
            depth=depth,
        )
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
            return evaluate_exactly(self.scorer, self.split, goal, why, self.progress, self.n_scores)
        if not self.is_reached and goal.may_bound:
            self._bound(sample.missing_rows() * self._row_scores())
        while self._needs_more():
            self._tell(task)
            before = len(sample.queue)
            if self.screened:
                sample.deepen_where_it_pays(self._for_screening())
                sample.choose_way()
                self.update_limits()
                if not self._needs_more():
                    break
            n = sample.affordable(self._step(), self._for_rows())
            if n == 0 and goal.limit.seconds is not None:
                n = 1
            if n == 0:
                self.why.append(f"The budget of {goal.limit} allows no further user.")
                break
            sample.add_users(n)
            task.advance(before - len(sample.queue))
            self.update_limits()
        return None

    def _needs_more(self) -> bool:
        return not (self.is_reached or self.sample.is_complete)

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
        self.sample.need(self.limits[:, 1] - self.limits[:, 0] > 2 * self.goal.precision)
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
        if self.screened:
            return self.sample.further_scores()
        return self.sample.missing_rows() * max(self._cost_per_user(), 1.0)

    def _for_rows(self) -> float | None:
        """Return the scores that rows may still take; half of the time that is left is for one round."""
        in_time = self.spending.affordable(self.n_scores)
        if self.goal.limit.seconds is not None and in_time is not None:
            return (in_time - self.n_scores) / 2  # a round that the clock ends is lost
        return self._budget_left()

    def _budget_left(self) -> float | None:
        return None if self.goal.budget is None else float(self.goal.budget - self.n_scores)

    def _begin(self) -> None:
        """Take the first step that is expected to need fewest scores: screen all users, or sample some."""
        sample, goal = self.sample, self.goal
        if goal.cutoff is None or goal.target == "population":
            wanted = min(FIRST_ROWS if goal.cutoff is None else FIRST_USERS, len(sample.queue))
            n = sample.affordable(wanted, self._budget_left())
            sample.add_users(n)
            return
        if not self.allows_rows:
            self._screen()
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
            sample.decide(sample.affordable(n_looked, self._budget_left()))

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
        screening = n_left * asked + n_rows * _PART * self._row_scores()
        ceilings = sample.models[0].ceilings(looked)
        variance = max(predicted_variance(ceilings[:, c]) for c in range(ceilings.shape[1]))
        n_sampled = needed_rows(n_left, variance, missing, n_users)
        per_user = asked + share * self._row_scores()
        return screening, len(looked) * share * self._row_scores() + n_sampled * per_user

    def _screen(self) -> None:
        """Score the most promising items of all users, as deep as that is expected to pay."""
        self.sample.screen(min(self.goal.cutoff or 1, self.sample.rows.depths[-1]))
        self.sample.deepen_where_it_pays(self._for_screening(_FOR_SCREENING))

    def _for_screening(self, share: float = 0.0) -> float | None:
        """Return the scores that screening may take: a share of what is left, where that is not enough.

        All of it, where it is not enough for a single draw: ceilings still fall.
        """
        budget = self.spending.affordable(self.n_scores)
        if budget is None:
            return None
        left = budget - self.n_scores
        is_enough, may_draw = self.sample.further_scores() <= left, self.sample.affordable(1, left) > 0
        return float(left if is_enough or not (may_draw or self.goal.limit.seconds) else share * left)

    def _how_screened(self) -> str:
        screening, sampling = self.expected
        n_users, n_open = len(self.sample.rows), self.sample.n_open
        why = "the budget allows no first round of complete rows"
        if self.allows_rows:
            why = f"expected cost {screening:,.0f} scores, against {sampling:,.0f} for sampling users alone"
        return (
            f"Up to {self.screened:,} items per user were scored first, in the order of "
            f"{listed_in_words(self.proxies)}. That decided {n_users - n_open:,} of {n_users:,} users "
            f"({why})."
        )

    def _how_sampled(self) -> str:
        sample, cutoff = self.sample, self.goal.cutoff
        until = f"until {cutoff} items ranked above their targets" if cutoff else "completely"
        n_drawn = int(sample.times.sum())
        told = []
        if n_drawn:
            told.append(
                f"Among the others users were drawn at random, {count_of(n_drawn, 'time')}: some promising "
                "items and a random part of the rest were scored, and all items where that part held one "
                "that ranks above a target."
            )
        if self.screened and not len(sample.sampled) and (self.is_reached or sample.is_complete):
            told.append("That was enough: nobody had to be sampled.")
        elif len(sample.sampled) > n_drawn or not (n_drawn or self.screened):
            told.append(
                f"{len(sample.sampled) - n_drawn:,} of {len(sample.rows):,} users were sampled and scored "
                f"{until}, which gives their exact values."
            )
        return " ".join(told)

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
        if self.screened:
            return self.sample.cost_per_row()
        rows = self.sample.rows.depth[self.sample.sampled]
        return float(rows.mean()) if len(rows) else self._row_scores()

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
        how = [self._how_screened() if self.screened else "", self._how_sampled()]
        self.why = [*filter(None, how), *self.why]
        width = float((self.limits[:, 1] - self.limits[:, 0]).max() / 2)
        is_exact = sample.is_complete and goal.target == "test-users"
        if is_exact:
            self.why.append("Every user is known, so the values are exact.")
        elif self.is_reached:
            self.why.append(f"Every interval has a half-width of {goal.precision:g} at most.")
        else:
            self.why.append(f"The widest interval is +-{width:.2g}, not the wanted +-{goal.precision:g}.")
            if goal.target == "test-users":
                self.why += self.spending.what_more_takes(
                    self._further_scores(), self.n_scores, goal.precision
                )
        self.why.append(
            f"It took {self.n_scores:,} scores, {percent(fraction, 2, space=' ')} of the "
            f"{self.exact_scores:,} of exact evaluation{self.spending.told(self.n_scores)}."
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
