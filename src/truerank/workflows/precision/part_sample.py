"""Sample of one model's users, of whom those that screening left open are asked for parts of their rows.

Three things decide what such an evaluation costs, and all are forecast: the scores that screening takes, how
much is left open by it, and how many draws it takes to be sure of the rest. Screening goes deeper where that
is expected to save more scores than it takes, user by user.
"""

from __future__ import annotations

import numpy as np

from truerank.core.random import pair_keys
from truerank.core.types import FloatArray, IntArray
from truerank.inference.anytime import predictable_variance
from truerank.inference.estimate_interval.registry import Target
from truerank.ranking.listed import SLACK
from truerank.workflows.precision.model_values import AskedModel
from truerank.workflows.precision.partial_rows import GROWTH
from truerank.workflows.precision.user_sample import (
    UserSample,
    exponential,
    needed_information,
    predicted_variance,
)

_LOWER_SHARE = 0.8  # of 1 - level for lower limits, where ceilings are limits from above
_LEAST_WEIGHT = 1e-3  # of a user, who must have a chance to be drawn
_LARGEST = (0.5, 0.95)  # share of the capital that is bet, at least and at most
_GUESSED = 20.0  # draws that a forecast of the drops counts for where bets are chosen
_BELIEVED = 120.0  # and where it is decided how deep to go
_PASS = 0.5  # of the scores that draws are expected to take, for one pass of screening at most
_OLDER = 0.25  # weight of what was found earlier in a row beside the last pass, in forecasts of the next one
_UNSEEN = 0.02  # items above that a pass is expected to find where none was found before
_COMES_TRUE = 0.3  # of what further items above could take away does
_AFTER = 2.0  # all that a row still holds, as a multiple of what the next pass is expected to find
_RATIO = (0.1, 0.6)  # of expected drops to those that must be excluded: forecasts go no further
_MOST_RATIO = 0.4  # and where it is decided how deep to go
_MOST_PASSES = 60


def growth(drop: float, excluded: float) -> float:
    r"""Return the growth of the logarithm of the capital per draw, of best bets on drops being smaller.

    .. math:: (1 - d) \log\frac{1 - d}{1 - e} + d \log\frac{d}{e}

    for drops that are 0 or 1, with mean d where e is to be excluded; 0 where d is not below e.

    Examples
    --------
    >>> round(growth(0.0, 0.1), 3), round(growth(0.05, 0.1), 3), growth(0.2, 0.1)
    (0.105, 0.017, 0.0)
    """
    if drop >= excluded:
        return 0.0
    found = (1 - drop) * np.log((1 - drop) / (1 - min(excluded, 0.999)))
    return float(found + (drop * np.log(drop / excluded) if drop > 0 else 0.0))


class PartSample(UserSample):
    """Growing sample of one model's users; those left open by screening are asked for parts of their rows.

    After a screening users are drawn with replacement, in proportion to their reach: how far below its
    ceiling a user may be reported (``RowParts``). Bets are on the reports. Within a round users are drawn
    from the same queue; those that are decided leave it afterwards.

    Parameters
    ----------
    model : the model that is asked
    precision, level, target, seed : as in ``UserSample``

    Attributes
    ----------
    is_by_parts : whether users are drawn in this way now; else whole rows are scored, each user once
    share : (len(queue),) of the row that is asked for
    reach : (len(queue), n_metrics) the largest drop that may be reported
    slope : (len(queue),) the largest drop per further item above the targets
    cost : (len(queue),) expected scores of a draw
    """

    of_queue = (*UserSample.of_queue, "share", "reach", "slope", "cost")

    def __init__(
        self,
        model: AskedModel,
        *,
        precision: float,
        level: float,
        target: Target = "test-users",
        seed: int = 0,
    ) -> None:
        self.model = model
        n, n_metrics = len(model.users), len(model.metrics)
        self.share: FloatArray
        self.slope: FloatArray
        self.cost: FloatArray
        self.share, self.slope, self.cost = np.ones((3, n))
        self.reach: FloatArray = np.ones((n, n_metrics))
        self.is_by_parts = False
        self.spent = self.n_open = 0  # scores of draws, and users that screening left open
        self.times: IntArray = np.zeros(n, np.int64)  # each user was drawn
        self.expected_finds = 1.0  # calibrates forecasts
        super().__init__([model], precision=precision, level=level, target=target, seed=seed)

    def screen(self, depth: int) -> None:
        """Score the ``depth`` most promising items of all remaining users, and plan parts for the others."""
        if not len(self.sampled):
            self.lower_share = _LOWER_SHARE
        super().screen(depth)
        self.is_by_parts, self.n_open = True, len(self.queue)
        self._plan()

    def _plan(self) -> None:
        """Choose the parts of all users of the queue."""
        if len(self.queue) == 0:
            return
        parts = self.model.parts(self.queue)
        self.share, self.reach, self.slope = parts.share, parts.reach, parts.slope
        self.cost = parts.cost() * self.rows.rows.n_free[self.queue]
        self.weight = np.maximum(self.reach.max(axis=1), _LEAST_WEIGHT)

    def add_users(self, n: int) -> None:
        """Draw n users and score parts of their rows; or whole rows of the next n users."""
        if not self.is_by_parts:
            super().add_users(n)
            return
        before = self.rows.n_scores
        total, n_columns = float(self.weight.sum()), self.reach.shape[1]
        below = (self.reach / self.weight[:, None]).max(axis=0)
        ceilings = self.known[0] + self.ceiling[:, 0].sum(axis=0)
        guess, seen = self.expected_drop() / total, self.value[self.n_before :]
        at = self._draw(n)  # all that bets depend on is known before this
        drop = self._reports(at)
        drawn = np.clip(1 - drop / self.weight[at, None], 1 - below, 1.0)
        variance = np.stack(
            [
                predictable_variance(
                    drawn[:, c], seen[:, c], prior=float(max(guess * (1 - guess), 1e-4)), n_prior=_GUESSED / 4
                )
                for c in range(n_columns)
            ],
            axis=1,
        )
        past = np.concatenate([seen, drawn])
        n_past = np.arange(len(past))[:, None]
        mean = ((_GUESSED * guess + np.cumsum(1 - past, axis=0) - (1 - past)) / (_GUESSED + n_past))[
            len(seen) :
        ]
        excluded = 2 * self.aim * self.n_all / total
        distance = np.maximum(excluded - mean, excluded / 4) * total / self.n_all
        ones = np.ones((n, n_columns))
        self._append(
            before=ones * (ceilings - total),
            left=np.full(n, total),
            value=drawn,
            least=ones * (1 - below),
            most=ones,
            variance=variance,
            stake=distance / variance,
            stake_smaller=self.aim / variance,
            largest=np.clip(1 - mean / excluded, *_LARGEST),
            sampled=self.queue[at],
            drop=(drop / self.weight[at, None])[:, None],
        )
        self._lower(np.unique(at))
        self.release()
        self.spent += self.rows.n_scores - before

    def _draw(self, n: int) -> IntArray:
        """Return places in the queue, drawn in proportion to weights, with replacement.

        The exponential clocks of ``UserSample`` run; who is drawn gets a new one. So users are nearly the
        same where weights are, as in a run with another precision, and their scores may be kept already.
        """
        users, drawn = self.model.users[self.queue], np.empty(n, np.int64)
        for nth in range(n):
            at = int(np.argmin(self.clock / self.weight))
            self.clock -= self.weight * (self.clock[at] / self.weight[at])
            self.times[self.queue[at]] += 1
            count = self.times[self.queue[at : at + 1]]
            self.clock[at] = exponential(pair_keys(self.seed, "plan/again", users[at : at + 1], count))[0]
            drawn[nth] = at
        return drawn

    def _reports(self, at: IntArray) -> FloatArray:
        """Ask for parts of rows of drawn users and return the drops that are reported.

        A user who is drawn again is asked for another part, or for nothing where it is decided by now.
        """
        order = np.argsort(at, kind="stable")
        starts = np.flatnonzero(np.diff(at[order], prepend=-1))
        turn = np.empty(len(at), np.int64)
        turn[order] = np.arange(len(at)) - np.repeat(starts, np.diff(starts, append=len(at)))
        drop = np.zeros((len(at), self.reach.shape[1]))
        for nth in range(int(turn.max()) + 1):
            chosen = np.flatnonzero(turn == nth)
            place = at[chosen]
            drop[chosen] = self.model.ask_parts(self.queue[place], self.share[place], self.ceiling[place, 0])
        return drop

    def expected_finds_of(self, row: IntArray, n_items: FloatArray | IntArray) -> FloatArray:
        """Return how many of the next items of rows are expected to rank above their targets.

        What the last pass found goes on, and so does, with less weight, what the row held in all.
        """
        rows = self.rows
        asked, found = rows.recent[:, row]
        overall = rows.found_above(row) / np.maximum(rows.depth[row], 1)
        rate = (found + _OLDER * overall * asked + _UNSEEN) / ((1 + _OLDER) * np.maximum(asked, 1))
        finds: FloatArray = self.expected_finds * rate * n_items
        return finds

    def expected_drop(self) -> float:
        """Return about how far the values of the queue lie below their ceilings, in all."""
        if len(self.queue) == 0:
            return 0.0
        step = (GROWTH - 1) * np.maximum(self.rows.depth[self.queue], 1)
        finds = _AFTER * self.expected_finds_of(self.queue, step)
        guess = _COMES_TRUE * float(np.minimum(finds * self.slope, self.ceiling.max(axis=(1, 2))).sum())
        n_seen = len(self.sampled) - self.n_before
        if n_seen:
            now = self.known[0] + self.ceiling[:, 0].sum(axis=0)
            drawn = float(np.maximum(now - self.n_all * self.estimates()[0], 0.0).max())
            guess = (_BELIEVED * guess + n_seen * drawn) / (_BELIEVED + n_seen)
        return guess

    def deepen_where_it_pays(self, left: int | None = None) -> None:
        """Screen those users further for whom that is expected to save more scores than it takes.

        Parameters
        ----------
        left : scores that may be used; None for no limit
        """
        rows = self.rows
        for _ in range(_MOST_PASSES):
            if not self.is_by_parts or self.is_complete:
                return
            depth = np.maximum(rows.depth[self.queue], 1)
            target = np.minimum(np.ceil(depth * GROWTH), rows.rows.n_free[self.queue]).astype(np.int64)
            step = target - depth
            finds = self.expected_finds_of(self.queue, step)
            fall = _COMES_TRUE * np.minimum(finds * self.slope, self.ceiling.max(axis=(1, 2)))
            at = np.flatnonzero((step > 0) & (fall * self.worth_of_a_drop() > step))
            allowed = _PASS * self.further_scores()
            if left is not None:
                allowed = min(allowed, left - rows.n_scores)
            at = at[np.argsort(-(fall / np.maximum(step, 1))[at], kind="stable")]
            most = np.cumsum(np.ceil(SLACK * step[at]))
            at = np.sort(at[: np.searchsorted(most, allowed, side="right")])
            if len(at) == 0:
                return
            row = self.queue[at]
            before = rows.found_above(row).sum()
            rows.deepen(row, target[at])
            self.depth = max(self.depth, int(target[at].max()))
            found = float(rows.found_above(row).sum() - before)
            ratio = (found + 1) / (float(finds[at].sum()) + 1)
            self.expected_finds = float(np.clip(self.expected_finds * np.sqrt(ratio), 0.1, 3.0))
            self._lower(at)
            n_before = len(self.queue)
            self.release()
            self.n_open -= n_before - len(self.queue)
            self._plan()

    def worth_of_a_drop(self) -> float:
        r"""Return how many scores of draws are saved if a drop of 1 is found by screening.

        With R the sum of all drops, E that which is to be excluded and r = R/E, bets take about
        :math:`c / (1 - r + r \log r)` scores, where c is what they take without drops.
        """
        excluded = 2 * float(self.wanted.min()) * self.n_all
        ratio = float(np.clip(self.expected_drop() / excluded, _RATIO[0], _MOST_RATIO))
        share = 1 - ratio + ratio * np.log(ratio)
        without = self._threshold() * float((self.weight * self.cost).sum()) / excluded
        return float(without * -np.log(ratio) / share**2 / excluded)

    def missing_rows(self) -> int:
        """Return about how many further users must be drawn for the wanted half-widths."""
        if not self.is_by_parts:
            return super().missing_rows()
        total, seen, needed = float(self.weight.sum()), self.value[self.n_before :], 1.0
        guess = self.expected_drop() / total
        for column, (sequence, wanted) in enumerate(zip(self.sequences(), self.wanted, strict=True)):
            low, high = sequence.limits(level=self.level)
            if high - low <= 2 * wanted:
                continue
            drops = 1 - seen[:, column]
            drop = (_GUESSED * guess + float(drops.sum())) / (_GUESSED + len(drops))
            excluded = 2 * wanted * self.n_all / total
            so_far = min(sequence.log_capital(high - 2 * wanted, True), self._threshold())
            pace = growth(float(np.clip(drop, *(excluded * np.array(_RATIO)))), excluded)
            by_lower = (self._threshold() - so_far) / pace
            missing = needed_information(wanted, self.level) - self.gained()[column]
            variance = predicted_variance(seen[:, column]) if len(seen) >= _GUESSED else drop
            by_both = max(missing, 0.0) * variance * (total / self.n_all) ** 2
            needed = max(needed, min(by_lower, max(by_both, 1.0)))
        return int(np.ceil(needed))

    def choose_way(self) -> None:
        """Score whole rows from now on, each user once, where that is expected to take fewer scores."""
        if not self.is_by_parts or self.is_complete:
            return
        left = self._left()
        slack, n_left = float(self.slack.max(axis=(1, 2)).sum()), len(left)
        n_parts, n_whole = (self._draws(total) for total in (float(self.weight.sum()), slack))
        n_whole = n_whole * n_left / (n_whole + n_left)  # nobody is drawn twice
        if n_parts * self.cost_per_row() > n_whole * float(left.mean()):
            self.is_by_parts, self.n_before = False, len(self.sampled)
            self._shuffle()

    def _draws(self, total: float) -> float:
        """Return about how many draws all bets take, by weights with a sum."""
        excluded = min(2 * float(self.wanted.min()) * self.n_all / total, 0.999)
        drop = float(np.clip(self.expected_drop() / total, *(excluded * np.array(_RATIO))))
        return self._threshold() / growth(drop, excluded)

    def aim_at(self, n_rows: int) -> None:
        """Choose the next bets for the half-width that ``n_rows`` more draws can reach."""
        if not self.is_by_parts:
            super().aim_at(n_rows)
            return
        total, n_seen = float(self.weight.sum()), len(self.sampled) - self.n_before
        drop = self.expected_drop() / total
        low, high = 0.0, 1.0  # drops that can be excluded, and those that cannot
        for _ in range(20):
            middle = (low + high) / 2
            is_reached = (n_rows + n_seen) * growth(drop, middle) >= self._threshold()
            low, high = (low, middle) if is_reached else (middle, high)
        self.aim[:] = np.clip(high * total / (2 * self.n_all), self.wanted, 0.5)

    def _left(self) -> IntArray:
        """Return the candidates of each user of the queue that are not scored."""
        left: IntArray = (self.rows.rows.n_free - self.rows.depth)[self.queue]
        return left

    def further_scores(self) -> float:
        """Return about how many more scores the wanted half-widths take, at most all that are left."""
        expected = self.missing_rows() * max(self.cost_per_row(), 1.0)
        return min(expected, float(self._left().sum()))

    def cost_per_row(self) -> float:
        """Return about how many scores a draw takes."""
        if not self.is_by_parts:
            return super().cost_per_row()
        n_seen = len(self.sampled) - self.n_before
        expected = float((self.weight * self.cost).sum() / max(self.weight.sum(), 1e-9))
        return (_GUESSED * expected + self.spent) / (_GUESSED + n_seen)

    def affordable(self, wanted: int, budget: int | None) -> int:
        """Return how many users may be drawn even if every row must be scored to its end."""
        if not self.is_by_parts:
            return super().affordable(wanted, budget)
        if budget is None or self.is_complete:
            return wanted
        longest = int(self.rows.most_scores(self.queue).max())
        return int(np.clip((budget - self.rows.n_scores) // max(longest, 1), 0, wanted))

    def estimates(self) -> FloatArray:
        """Return the estimate of the mean over the test users, (1, n_metrics)."""
        if not self.is_by_parts or len(self.sampled) == self.n_before or self.is_complete:
            return super().estimates()
        since = slice(self.n_before, None)
        each = (self.before[since] + self.left[since, None] * self.value[since]) / self.n_all
        estimate: FloatArray = each.mean(axis=0, keepdims=True)
        return estimate

    def _threshold(self) -> float:
        return float(-np.log(self.lower_share * (1 - self.level)))

    def _lower(self, at: IntArray) -> None:
        super()._lower(at)
        is_open = self.slack[at, 0].any(axis=1)
        self.reach[at] *= is_open[:, None]
