"""Sample of users, each scored on a random part of the catalogue, for confidence sequences of means.

Before it the most promising items of all users are scored, which is called screening: it decides the metrics
of many users, and leaves others open.

Three things decide what such an evaluation costs, and all are forecast: the scores that screening takes, how
much is left open by it, and how many draws it takes to be sure of the rest. Screening goes deeper where that
is expected to save more scores than it takes, user by user.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from truerank.core.random import pair_keys
from truerank.core.types import BoolArray, FloatArray, IntArray
from truerank.inference.estimate_interval.registry import Target
from truerank.ranking.listed import SLACK
from truerank.workflows.precision.bets import GUESSED, SIZE, Bets, growth
from truerank.workflows.precision.model_values import AskedModel, ModelValues
from truerank.workflows.precision.partial_rows import GROWTH
from truerank.workflows.precision.user_sample import (
    UserSample,
    exponential,
    needed_information,
    predicted_variance,
)

_ONE_SIDE = 0.98  # of 1 - level for the lower limit of a model: its ceilings are upper limits for certain
_ONE_SIDE_OF_DIFFERENCE = 0.9  # the same of a difference, for the limit towards 0; its sign is a guess
_WHOLE = 1.3  # weight of users whose whole rows are asked for, as a multiple of their reach
_LEAST_WEIGHT = 1e-3  # of a user, who must have a chance to be drawn
_BELIEVED = 2.0  # reports of the largest size that a forecast of the drops counts for
_LEAST_IMPORTANCE = 0.05  # of a metric whose interval is not narrow enough yet
_CHANGED = 0.1  # of the importance of a metric, for which parts are chosen anew
_PASS = 0.5  # of the scores that draws are expected to take, for one pass of screening at most
_AFTER = 4.0  # all that a row still holds, as a multiple of what the next pass is expected to find
_AFTER_OF_DIFFERENCE = 2.0  # the same of a difference: a lead that looks lost is asked about too long
_RATIO = (0.02, 0.6)  # of expected drops to those that must be excluded: forecasts go no further
_MOST_RATIO = 0.4  # and where it is decided how deep to go
_SOON = 0.1  # the ratio that screening is expected to reach, by which rows are chosen first
_MOST_PASSES = 60
_SMALL = 1e-3  # drop that is excluded where growths are compared, as a share of the largest


class PartSample(UserSample):
    """Growing sample of users; those left open by screening are asked for parts of their rows.

    After a screening users are drawn with replacement, in proportion to their reach: how far below its
    ceiling a user may be reported (``RowParts``) in a model that is asked. Bets are on the reports, as shares
    of the weight. Users whose whole rows are asked for are drawn more often than that: for them a single item
    often takes the whole hit away, and is found wherever it lies in the row. Such a report would cost most of
    what the bets have won; it is smaller where the weight is larger. Within a round users are drawn from the
    same queue and the order of items stays as it is; decided users leave the queue, and the order learns,
    afterwards.

    Parameters
    ----------
    models, precision, level, target, seed, contrasts : as in ``UserSample``
    is_one_sided : whether one limit of each column matters most: the lower one of a model, which ceilings
        limit from above, and that of a difference towards 0. It gets most of 1 - level then

    Attributes
    ----------
    may_ask_parts : whether users can be drawn in this way: all open models can be asked for parts of rows
    is_by_parts : whether they are drawn in this way now; else whole rows are scored, each user once
    importance : (n_metrics,) the evidence that intervals of a metric still lack, as a share of the most that
        one lacks; 0 where they are narrow enough. Reports of a metric count for so much where parts and
        weights are chosen, so that all metrics become narrow enough at about the same time
    share : (len(queue), n_models) of the row that is asked for
    reach : (len(queue), n_models, n_metrics) the largest drop that may be reported; 0 where nothing is open
    slope : (len(queue), n_models) the largest drop per further item above the targets
    cost : (len(queue), n_models) expected scores of a draw
    ceilings : (n_sampled, n_models, n_metrics) sum of all ceilings and known values before each draw
    """

    of_queue = (*UserSample.of_queue, "share", "reach", "slope", "cost")
    of_models = (*UserSample.of_models, "share", "reach", "slope", "cost", "ceilings")

    def __init__(
        self,
        models: Sequence[ModelValues],
        *,
        precision: float,
        level: float,
        target: Target = "test-users",
        seed: int = 0,
        contrasts: FloatArray | None = None,
        is_one_sided: bool = True,
    ) -> None:
        n, n_models, n_metrics = len(models[0].users), len(models), len(models[0].metrics)
        self.share: FloatArray
        self.slope: FloatArray
        self.cost: FloatArray
        self.share, self.slope, self.cost = np.ones((3, n, n_models))
        self.reach: FloatArray = np.ones((n, n_models, n_metrics))
        self.ceilings: FloatArray = np.zeros((0, n_models, n_metrics))
        self.importance: FloatArray = np.ones(n_metrics)
        self.may_ask_parts = self.is_by_parts = False
        self.is_one_sided = is_one_sided
        self.spent = self.n_drawn = 0  # scores of draws, and their number, since models were chosen
        self.n_open = 0  # users that screening left open
        self.times: IntArray = np.zeros(n, np.int64)  # each user was drawn
        super().__init__(
            models, precision=precision, level=level, target=target, seed=seed, contrasts=contrasts
        )
        self.is_about_differences = bool((self.contrasts < 0).any())

    @property
    def slow(self) -> dict[int, AskedModel]:
        """The models that must be asked for scores, by their places."""
        return {k: model for k, model in enumerate(self.models) if isinstance(model, AskedModel)}

    @property
    def asked(self) -> dict[int, AskedModel]:
        """Those of them whose users are drawn now."""
        return {k: model for k, model in self.slow.items() if self.is_asked[k]}

    @property
    def n_asked(self) -> int:
        """Scores that all models were asked for so far."""
        return sum(model.n_scores for model in self.models if isinstance(model, AskedModel))

    def screen(self, depth: int) -> None:
        """Score the ``depth`` most promising items of all remaining users, and plan parts for the others."""
        super().screen(depth)
        self.n_open = len(self.queue)
        self.is_by_parts = self.may_ask_parts = all(
            isinstance(model, AskedModel) for model in self.models if model.is_open.any()
        )
        if self.is_by_parts:
            self._plan()

    @property
    def _one_side(self) -> float:
        """Part of 1 - level for the limit of each column that matters most."""
        return _ONE_SIDE_OF_DIFFERENCE if self.is_about_differences else _ONE_SIDE

    def _favour_one_side(self) -> None:
        """Give most of 1 - level to the limit of each column that matters most, before any bet is placed."""
        if self.is_one_sided and not len(self.sampled):
            is_larger = self.contrast(self.estimates()) > 0
            is_lower = is_larger if self.is_about_differences else np.ones_like(is_larger)
            self.lower_share = np.where(is_lower, self._one_side, 1 - self._one_side)

    def ask(self, models: Sequence[int]) -> None:
        """Ask some models alone from now on, as in ``UserSample``."""
        before = self.is_asked
        super().ask(models)
        if (self.is_asked != before).any():
            self.spent = self.n_drawn = 0
            if self.is_by_parts:
                self._plan()

    def keep(self, models: Sequence[int], contrasts: Sequence[int]) -> None:
        """Go on with some of the models and of the contrasts between them, in their order."""
        super().keep(models, contrasts)
        self.spent = self.n_drawn = 0
        if self.is_by_parts:
            self._plan()

    @property
    def is_needed(self) -> BoolArray:
        """Metrics with an interval that is not narrow enough; parts are drawn for these alone."""
        return self.importance > 0

    def need(self, metrics: BoolArray) -> None:
        """Draw parts for some metrics alone from now on: those whose intervals are not narrow enough.

        Users who have nothing to lose in these are drawn no more, so that no bet is placed on the other
        metrics; what is known of them stays. Among these the metrics that lack most count most: a report that
        cost one of them most of its capital would else have users drawn for another that is nearly done.
        """
        if not metrics.any():
            return
        missing = self._missing().reshape(-1, len(metrics)).max(axis=0) * metrics
        share = missing / missing.max() if missing.any() else np.ones(len(metrics))
        importance = np.where(metrics, np.maximum(share, _LEAST_IMPORTANCE), 0.0)
        is_changed = np.abs(importance - self.importance) > _CHANGED * self.importance
        if is_changed.any():
            self.importance = importance
            if self.is_by_parts:
                self._plan()

    def _plan(self, places: IntArray | None = None) -> None:
        """Choose the parts of users at some places of the queue, or of all; weigh users by their reach."""
        chosen = np.arange(len(self.queue)) if places is None else places
        self.reach[chosen], self.slope[chosen], self.cost[chosen] = 0.0, 0.0, 0.0
        for k, model in self.slow.items():
            at = chosen[model.is_open[self.queue[chosen]]]
            if len(at):
                parts = model.parts(self.queue[at], importance=self.importance)
                self.share[at, k], self.reach[at, k], self.slope[at, k] = (
                    parts.share,
                    parts.reach,
                    parts.slope,
                )
                self.cost[at, k] = parts.cost() * model.rows.rows.n_free[self.queue[at]]
        reach = (self.importance * self.reach).max(axis=2, initial=0.0)
        reach = (np.where(self.share == 1, _WHOLE, 1.0) * reach)[:, self.is_asked].max(axis=1, initial=0.0)
        self.weight = np.where(reach > 0, np.maximum(reach, _LEAST_WEIGHT), 0.0)

    def add_users(self, n: int) -> None:
        """Draw n users and score parts of their rows; or whole rows of the next n users."""
        if not self.is_by_parts:
            self._add_whole_rows(n)
            return
        self._favour_one_side()
        before, total = self.n_asked, float(self.weight.sum())
        reach = self.reach * self.is_asked[:, None] / np.maximum(self.weight, _LEAST_WEIGHT)[:, None, None]
        below, above = (self.contrast(reach, side).max(axis=0) for side in (1, -1))
        ceilings = self.known + self.ceiling.sum(axis=0)
        forecast = self._forecast() * self.is_asked[:, None]
        guess, seen = self.contrast(forecast) / total, self._seen()
        n_guess = self._believed(self.contrast(forecast, 1) + self.contrast(forecast, -1))
        at = self._draw(n)  # all that bets depend on is known before this
        drop = self._reports(at) / self.weight[at, None, None]
        drawn = np.clip(1 - self.contrast(drop), 1 - below, 1 + above)
        bets = Bets.of(drawn, seen, guess, n_guess)
        distance, excluded = self._distances(bets.mean, total)
        is_needed = np.tile(self.is_needed, len(self.contrasts))
        has_larger, has_smaller = (side & is_needed for side in self._sides())
        ones = np.ones_like(drawn)
        self._append(
            before=ones * (self.contrast(ceilings) - total),
            left=np.full(n, total),
            value=drawn,
            least=ones * (1 - below),
            most=ones * (1 + above),
            variance=bets.variance,
            stake=np.where(has_larger, distance[0] / bets.variance, 0.0),
            stake_smaller=np.where(has_smaller, distance[1] / bets.variance, 0.0),
            largest=bets.at_risk(1, excluded[0], below),
            largest_smaller=bets.at_risk(-1, excluded[1], above),
            sampled=self.queue[at],
            drop=np.where(self.is_asked[:, None] & self.is_needed, drop, np.nan),
            ceilings=np.broadcast_to(ceilings, drop.shape),
        )
        self._lower(np.unique(at))
        self._plan(np.unique(at))
        self.release()
        self.spent += self.n_asked - before
        self.n_drawn += n

    def _add_whole_rows(self, n: int) -> None:
        """Score whole rows of the next n users."""
        ceilings, weight = self.known + self.ceiling.sum(axis=0), self.weight[:n, None, None]
        n_before = len(self.sampled)
        super().add_users(n)
        fallen = np.nan_to_num(self.drop[n_before:]) * weight
        self._append(ceilings=ceilings - np.cumsum(fallen, axis=0) + fallen)

    def _seen(self) -> FloatArray:
        """Return what the last draws showed, as it would be with the weights of now: 1 less the falls."""
        since = slice(self.n_before, None)
        scale = self.left[since, None] / max(float(self.weight.sum()), _LEAST_WEIGHT)
        seen: FloatArray = 1 - (1 - self.value[since]) * scale
        return seen

    def _distances(self, mean: FloatArray, total: float) -> tuple[FloatArray, FloatArray]:
        """Return how far below and above expected means are to be excluded, and from ceilings, by shares.

        A single model is known to lie below its ceilings, so that all of the wanted width is below them;
        a difference is to be excluded on either side of where it is expected.
        """
        fall = mean * total / self.n_all
        aim = np.broadcast_to(self.aim, fall.shape)
        if self.is_about_differences:
            distance = np.stack([aim, aim])
            excluded = np.maximum(np.stack([fall, -fall]), 0.0) + aim
        else:
            excluded = np.stack([2 * aim, aim])
            distance = np.stack([np.maximum(2 * aim - fall, aim / 2), aim])
        return distance, excluded * self.n_all / total

    def _draw(self, n: int) -> IntArray:
        """Return places in the queue, drawn in proportion to weights, with replacement.

        The exponential clocks of ``UserSample`` run; who is drawn gets a new one. So users are nearly the
        same where weights are, as in a run with another precision, and their scores may be kept already.
        """
        users, drawn = self.models[0].users[self.queue], np.empty(n, np.int64)
        speed = np.where(self.weight > 0, self.weight, np.nan)
        for nth in range(n):
            at = int(np.nanargmin(self.clock / speed))
            self.clock -= self.weight * (self.clock[at] / self.weight[at])
            self.times[self.queue[at]] += 1
            count = self.times[self.queue[at : at + 1]]
            self.clock[at] = exponential(pair_keys(self.seed, "plan/again", users[at : at + 1], count))[0]
            drawn[nth] = at
        return drawn

    def _reports(self, at: IntArray) -> FloatArray:
        """Ask for parts of rows of drawn users and return the drops that are reported, per model and metric.

        A user who is drawn again is asked for another part, or for nothing where it is decided by now.
        """
        order = np.argsort(at, kind="stable")
        starts = np.flatnonzero(np.diff(at[order], prepend=-1))
        turn = np.empty(len(at), np.int64)
        turn[order] = np.arange(len(at)) - np.repeat(starts, np.diff(starts, append=len(at)))
        drop = np.zeros((len(at), *self.reach.shape[1:]))
        for k, model in self.asked.items():
            with model.rows.same_order():
                for nth in range(int(turn.max()) + 1):
                    chosen = np.flatnonzero((turn == nth) & self.reach[at, k].any(axis=1))
                    place = at[chosen]
                    if len(chosen):
                        drop[chosen, k] = model.ask_parts(
                            self.queue[place],
                            self.share[place, k],
                            self.ceiling[place, k],
                            self.reach[place, k],
                        )
        return drop

    def expected_drops(self) -> FloatArray:
        """Return about how far the values of the queue lie below their ceilings, (n_models, n_metrics).

        The forecast F and the reports of n draws are believed together: about W (b + S) / (b W / F + n), with
        S the sum of the reports as shares of weights, W the weight of all users, b = ``_BELIEVED``. That is
        the mean of a gamma law after S events, for a law of shape b and mean F before them. So a report that
        was to be expected changes little, and several soon outweigh a forecast that was wrong.
        """
        if not self.may_ask_parts:
            return super().expected_drops()
        drops = self._forecast()
        n_seen = len(self.sampled) - self.n_before
        if n_seen == 0 or self.is_complete:
            return drops
        drawn = np.maximum(self.known + self.ceiling.sum(axis=0) - self.n_all * self._drawn_mean(), 0.0)
        believed = self._believed(drops)
        both = (believed * drops + n_seen * drawn) / (believed + n_seen)
        is_drawn = self.is_asked[:, None] & self.is_needed & ~np.isnan(drawn)
        return np.where(is_drawn, both, drops)

    def _forecast(self) -> FloatArray:
        """Return the same from what passes found, whatever was drawn."""
        forecast = np.zeros(self.known.shape)
        after = _AFTER_OF_DIFFERENCE if self.is_about_differences else _AFTER
        if not self.is_complete:
            for k, model in self.slow.items():
                n_items = after * (GROWTH - 1) * np.maximum(model.rows.depth[self.queue], 1)
                forecast[k] = self._falls(k, n_items).sum()
        return forecast

    def _believed(self, forecast: FloatArray) -> FloatArray:
        """Return how many draws forecasts of drops count for: those in which they expect b full reports."""
        least = _RATIO[0] * 2 * float(self.wanted.min()) * self.n_all
        return _BELIEVED * float(self.weight.sum()) / np.maximum(forecast, least)

    def _expected_fall(self) -> FloatArray:
        """Return about how far the columns lie below those of the ceilings, in all, by models that are asked.

        Others stand at their ceilings.
        """
        return self.contrast(self.expected_drops() * self.is_asked[:, None])

    def _most_drop(self) -> float:
        """Return about how far values of a model that is asked lie below their ceilings, at most."""
        return float((self.expected_drops() * self.is_asked[:, None]).max(initial=0.0))

    def deepen_where_it_pays(self, left: float | None = None) -> None:
        """Screen those users further for whom that is expected to save more scores than it takes.

        Parameters
        ----------
        left : scores that all models may still be asked for; None for no limit
        """
        most_scores = np.inf if left is None else self.n_asked + left
        for _ in range(_MOST_PASSES):
            if not self.is_by_parts or self.is_complete or not self.weight.any():
                return
            allowed = min(_PASS * self.further_scores(), most_scores - self.n_asked)
            chosen = self._worthwhile(allowed, _SOON) or self._worthwhile(allowed, _MOST_RATIO)
            if not chosen:
                return
            for k, (at, depth) in chosen.items():
                self.slow[k].deepen(self.queue[at], depth, self.slope[at, k])
                self.depth = max(self.depth, int(depth.max()))
            self._lower(np.unique(np.concatenate([at for at, _ in chosen.values()])))
            n_before = len(self.queue)
            self.release()
            self.n_open -= n_before - len(self.queue)
            self._plan()

    def _worthwhile(self, allowed: float, ratio: float) -> dict[int, tuple[IntArray, IntArray]]:
        """Return places in the queue and depths, by model, of rows whose next pass is worth its cost.

        Parameters
        ----------
        allowed : scores that all of them may take; those that save most per score come first
        ratio : as for ``worth_of_a_drop``

        Notes
        -----
        Rows that save equally much come in an order that was fixed before users were drawn, not in that of
        the queue: places in the queue tell who is drawn soon, and users who were screened deeper because of
        that would report less than those that the bets are about.
        """
        worth, found = self.worth_of_a_drop(ratio), []
        for k, model in self.slow.items():
            depth, n_free = np.maximum(model.rows.depth[self.queue], 1), model.rows.rows.n_free[self.queue]
            target = np.minimum(np.ceil(depth * GROWTH).astype(np.int64), n_free)
            step = np.where(self.reach[:, k, self.is_needed].any(axis=1), target - depth, 0)
            saved = worth * self._falls(k, step) / np.maximum(step, 1)
            at = np.flatnonzero((step > 0) & (saved > 1))
            found += [(saved[place], k, place, target[place], step[place]) for place in at.tolist()]
        found.sort(key=lambda one: (-one[0], self.queue[one[2]], one[1]))
        most = np.cumsum([np.ceil(SLACK * step) for *_, step in found])
        found = found[: np.searchsorted(most, allowed, side="right")]
        chosen = {}
        for k in sorted({one[1] for one in found}):
            mine = sorted((place, depth) for _, of, place, depth, _ in found if of == k)
            chosen[k] = (np.array([place for place, _ in mine]), np.array([depth for _, depth in mine]))
        return chosen

    def _falls(self, k: int, n_items: FloatArray | IntArray) -> FloatArray:
        """Return about how far values of one model fall in so many further items of each row of the queue."""
        fall = self.slow[k].expected_fall(self.queue, n_items, self.slope[:, k])
        falls: FloatArray = np.minimum(fall, self.ceiling[:, k].max(axis=1))
        return falls

    def _gaps(self) -> FloatArray:
        """Return how far below the ceilings a mean must be excluded, in all: of the column nearest to it."""
        if not self.is_about_differences:
            return 2 * self.wanted * self.n_all
        fall = np.abs(self._expected_fall()) / self.n_all
        gaps: FloatArray = (self.wanted + fall) * self.n_all
        return gaps

    def worth_of_a_drop(self, most_ratio: float) -> float:
        r"""Return how many scores of draws are saved if a drop of 1 is found by screening.

        With R the sum of all drops, E that which is to be excluded and r = R/E, bets take about c/g(r)
        scores, where c is what they still take without drops and g the growth of the bets, as a share of that
        without drops.

        Parameters
        ----------
        most_ratio : r at most, where screening will have found the rest before draws begin
        """
        excluded = float(self._gaps().min())
        ratio = float(np.clip(self._most_drop() / excluded, _RATIO[0], most_ratio))
        without = float(self._missing().max()) * self._planned_cost() / excluded
        step = 0.01
        near, far = (growth(r * _SMALL, _SMALL, SIZE) / _SMALL for r in (ratio, ratio + step))
        return float(without * (1 / far - 1 / near) / step / excluded)

    def _planned_cost(self) -> float:
        """Return the sum over users of weight times the scores that a draw takes of models that are asked."""
        return float((self.weight * self.cost[:, self.is_asked].sum(axis=1)).sum())

    def missing_rows(self) -> int:
        """Return about how many further users must be drawn for the wanted half-widths."""
        if not self.is_by_parts:
            return super().missing_rows()
        total, seen, needed = float(self.weight.sum()), self._seen(), 1.0
        if total == 0:
            return 1
        fall, importance = self._expected_fall(), np.tile(self.importance, len(self.contrasts))
        is_lower = self._is_lower()
        lacking = self._missing()
        for column in np.flatnonzero(lacking > 0):
            missing, wanted = float(lacking[column]), float(self.wanted[column])
            down = fall[column] if is_lower[column] else -fall[column]
            if self.is_about_differences:
                excluded = wanted * self.n_all + max(down, 0.0)
            else:
                excluded = 2 * wanted * self.n_all
            down, excluded = (one * importance[column] / total for one in (down, excluded))
            pace = growth(float(np.clip(down, *(excluded * np.array(_RATIO)))), excluded, SIZE)
            by_one = missing / pace
            if not self.is_about_differences:
                unknown = needed_information(wanted, self.level) - self.gained()[column]
                variance = predicted_variance(seen[:, column]) if len(seen) >= GUESSED else abs(down)
                by_both = max(unknown, 0.0) * variance * (total / self.n_all) ** 2
                by_one = min(by_one, max(by_both, missing / growth(0.0, excluded)))
            needed = max(needed, by_one)
        return int(np.ceil(needed))

    def _is_lower(self) -> BoolArray:
        """Return the columns whose lower limit decides: that of a model, and of a difference towards 0."""
        if not self.is_about_differences:
            return np.ones(len(self.wanted), np.bool_)
        return self.contrast(self.expected_values()) >= 0

    def _missing(self) -> FloatArray:
        """Return what the logarithm of the capital of each column still lacks, 0 where it is enough."""
        threshold, missing, is_lower = self._threshold(), np.zeros(len(self.wanted)), self._is_lower()
        if self.is_about_differences:
            against = self.contrast(self.expected_values()) - np.where(is_lower, 1, -1) * self.wanted
        else:
            low, high = self.limits().T
            against = np.where(high - low > 2 * self.wanted, high - 2 * self.wanted, np.nan)
        for column, sequence in enumerate(self.sequences()):
            if not np.isnan(against[column]):
                capital = sequence.last_log_capital(float(against[column]), bool(is_lower[column]))
                missing[column] = max(threshold - capital, 0.0)
        return missing

    def choose_way(self) -> None:
        """Draw parts of rows, or score whole rows of each user once: what is expected to take fewer scores.

        The choice is made anew in every round, because it rests on forecasts: a single report may make a
        difference look small, and whole rows of everybody cheap.
        """
        if not self.may_ask_parts or self.is_complete or not self.weight.any():
            return
        if not self.is_by_parts:
            self._plan()
        left, total = self._left(), float(self.weight.sum())
        if total == 0:  # nothing that is needed can be lost
            self.draw_parts(False)
            return
        slack, n_left = float(self._slacks().sum()), self.n_candidates
        n_parts, n_whole = (self._draws(one) for one in (total, slack))
        n_whole = n_whole * n_left / (n_whole + n_left)  # nobody is drawn twice
        self.draw_parts(n_parts * self._cost_of_parts() <= n_whole * float(left.sum()) / n_left)

    def draw_parts(self, is_by_parts: bool) -> None:
        """Ask drawn users for parts of their rows from now on, or for whole rows, each user once.

        What is left of the clocks of ``UserSample`` is exponential whatever was drawn before, so that either
        way may follow the other; weights are those of the way, and so are the values that are bet on.
        """
        if is_by_parts != self.is_by_parts:
            self.is_by_parts, self.n_before = is_by_parts, len(self.sampled)
        if is_by_parts:
            self._plan()
        else:
            self._shuffle()

    def _draws(self, total: float) -> float:
        """Return about how many draws all bets take, by weights with a sum."""
        excluded = min(float(self._gaps().min()) / total, 0.999)
        drop = float(np.clip(self._most_drop() / total, *(excluded * np.array(_RATIO))))
        return self._threshold() / growth(drop, excluded, SIZE)

    def aim_at(self, n_rows: int) -> None:
        """Choose the next bets for the half-width that ``n_rows`` more draws can reach."""
        if not self.is_by_parts:
            super().aim_at(n_rows)
            return
        total, n_seen = float(self.weight.sum()), len(self.sampled) - self.n_before
        drop = self._most_drop() / total
        low, high = 0.0, 1.0  # drops that can be excluded, and those that cannot
        for _ in range(20):
            middle = (low + high) / 2
            is_reached = (n_rows + n_seen) * growth(drop, middle, SIZE) >= self._threshold()
            low, high = (low, middle) if is_reached else (middle, high)
        self.aim[:] = np.clip(high * total / (2 * self.n_all), self.wanted, 0.5)

    def _left(self) -> IntArray:
        """Return the candidates of each user of the queue that are not scored, in models that are asked."""
        left = np.zeros(len(self.queue), np.int64)
        for rows in (model.rows for model in self.asked.values()):
            left += np.where(rows.is_open, rows.rows.n_free - np.maximum(rows.depth, 0), 0)[self.queue]
        return left

    def further_scores(self) -> float:
        """Return about how many more scores the wanted half-widths take, at most all that are left."""
        expected = self.missing_rows() * max(self.cost_per_row(), 1.0)
        return min(expected, float(self._left().sum()))

    def cost_per_row(self) -> float:
        """Return about how many scores a draw takes."""
        return self._cost_of_parts() if self.is_by_parts else super().cost_per_row()

    def _cost_of_parts(self) -> float:
        """Return about how many scores a draw takes that asks for parts of rows."""
        expected = self._planned_cost() / max(float(self.weight.sum()), 1e-9)
        return (GUESSED * expected + self.spent) / (GUESSED + self.n_drawn)

    def most_scores(self, row: IntArray, depth: int | None = None) -> IntArray:
        """Return how many scores rows may still take in all models that are asked, up to a depth."""
        most = np.zeros(len(row), np.int64)
        for model in self.asked.values():
            most += model.rows.most_scores(row, depth)
        return most

    def affordable(self, wanted: int, left: float | None) -> int:
        """Return how many users may be sampled even if every row must be scored to its end.

        Parameters
        ----------
        wanted : at most
        left : scores that may still be used; None for no limit
        """
        if self.is_by_parts and (left is None or self.is_complete):
            return wanted
        wanted = wanted if self.is_by_parts else min(wanted, len(self.queue))
        if left is None:
            return wanted
        if not self.is_by_parts:
            most = np.cumsum(self.most_scores(self.queue[:wanted]))
            return int(np.searchsorted(most, left, side="right"))
        longest = int(self.most_scores(self.queue).max())
        return int(np.clip(left // max(longest, 1), 0, wanted))

    def expected_values(self) -> FloatArray:
        """Return about the mean over the test users, for plans: (n_models, n_metrics).

        A few draws say little about it, one report more than the mean of all users; so these are believed
        together with the forecast of the drops, which is not believed beyond half of the ceilings.
        """
        if not self.may_ask_parts or self.is_complete:
            return self.estimates()
        ceilings = self.ceiling.sum(axis=0)
        drops = np.minimum(self.expected_drops(), ceilings / 2)
        expected: FloatArray = (self.known + ceilings - drops) / self.n_all
        return expected

    def estimates(self) -> FloatArray:
        """Return the estimate of the mean over the test users, (n_models, n_metrics)."""
        if not self.is_by_parts or self.is_complete:
            return super().estimates()
        expected = self.expected_values()
        if len(self.sampled) == self.n_before:
            return expected
        drawn = self._drawn_mean()
        estimate: FloatArray = np.where(np.isnan(drawn), expected, drawn)
        return estimate

    def _drawn_mean(self) -> FloatArray:
        """Return the mean by the reports alone, (n_models, n_metrics); NaN where nobody was drawn for it."""
        since = slice(self.n_before, None)
        each = self.ceilings[since] - self.left[since, None, None] * self.drop[since]
        is_drawn = ~np.isnan(each)
        n = is_drawn.sum(axis=0)
        mean: FloatArray = np.where(is_drawn, each, 0.0).sum(axis=0) / np.maximum(n, 1) / self.n_all
        return np.where(n > 0, mean, np.nan)

    def _threshold(self) -> float:
        """Return the logarithm that a capital must reach, on the side that matters."""
        share = np.maximum(self.lower_share, 1 - self.lower_share).min()
        if self.is_one_sided and not len(self.sampled):
            share = self._one_side
        return float(-np.log(share * (1 - self.level)))

    def _lower(self, at: IntArray) -> None:
        super()._lower(at)
        self.reach[at] *= self.slack[at].any(axis=2, keepdims=True)
