"""One model on its way to a precision: which way it takes, and when it ends."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from truerank.core.errors import InvalidParameter
from truerank.core.progress import Progress, tracked
from truerank.core.scorer import DenseScores, HasFactors, HasSparseRows, Scorer
from truerank.core.split import Split
from truerank.inference import INTERVALS
from truerank.metrics import values
from truerank.planning.goal import Found, Goal, Way
from truerank.planning.negatives import Bounded, bound, bounding_size
from truerank.planning.rows import RowSample
from truerank.planning.scan import Scan
from truerank.ranks import exact_ranks

#: Users of the first round, the fewest a budget must allow, and rounds that a forecast is cut into.
FIRST_USERS = 200
FIRST_ROWS = 50  # where rows cannot end early
FEWEST_USERS = 20
ROUNDS = 10
_SMALLEST_ROUND = 16


def find(scorer: Scorer, split: Split, goal: Goal, progress: Progress) -> Found:
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
    scan = Scan(scorer, split, cutoff=goal.cutoff, seen=goal.seen, n_threads=goal.n_threads)
    rows = RowSample(
        scan,
        goal.metrics,
        precision=goal.precision,
        level=goal.row_level,
        target=goal.target,
        ties=goal.ties,
        seed=goal.seed,
    )
    return Search(scorer, split, goal, rows, exact_scores, progress).run()


def _exact(
    scorer: Scorer, split: Split, goal: Goal, why: str, progress: Progress, n_before: int = 0
) -> Found:
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
    way = Way(
        "exact",
        (ranks.n_users,),
        n_scores + n_before,
        n_scores,
        is_reached,
        tuple(sentences),
        ranks.n_users,
    )
    return Found(value, limits, way, method, kind="exact")


class Search:
    """One model on its way to the precision."""

    def __init__(
        self,
        scorer: Scorer,
        split: Split,
        goal: Goal,
        rows: RowSample,
        exact_scores: int,
        progress: Progress,
    ) -> None:
        self.scorer, self.split, self.goal, self.rows = scorer, split, goal, rows
        self.exact_scores, self.progress = exact_scores, progress
        self.rounds: list[int] = []
        self.why: list[str] = []
        self.bounded: Bounded | None = None
        self.n_negatives = self.screened = 0
        self.step = FIRST_USERS

    @property
    def n_scores(self) -> int:
        """Scores computed so far."""
        return self.rows.scan.n_scores + (self.bounded.n_scores if self.bounded is not None else 0)

    def run(self) -> Found:
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
        size = bounding_size(
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
        self.bounded = bound(
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

    def _found(self) -> Found:
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
        way = Way(
            "rows" if self.bounded is None else "negatives",
            tuple(self.rounds),
            self.n_scores,
            self.exact_scores,
            self.is_reached,
            tuple(self.why),
            known,
            self.screened,
        )
        return Found(
            np.clip(value, self.limits[:, 0], self.limits[:, 1]),
            self.limits,
            way,
            method,
            kind="exact" if is_exact else "estimate",
            estimator=estimator,
            n_negatives=n_negatives,
        )
