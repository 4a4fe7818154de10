"""Growing random sample of users with exact values, and confidence sequences for means over all users.

Users are sampled without replacement in a random order. Screening scores the most promising items of *all*
remaining users first: users whose values that decides are known and need not be sampled, and the others get
ceilings, the values they have if nothing else ranks above their targets. What is left to find out by sampling
is how far values lie below the ceilings, which is little.

One model is sampled for its mean, several models for the differences of their means: their users are the
same, and a user is left for as long as one of them is open.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from truerank.core.errors import InvalidParameter
from truerank.core.random import pair_keys
from truerank.core.types import FloatArray, IntArray
from truerank.inference.anytime import LARGEST_BET, ConfidenceSequence, predictable_variance
from truerank.inference.estimate_interval.registry import Target
from truerank.workflows.precision.model_values import AskedModel, ModelValues
from truerank.workflows.precision.partial_rows import PartialRows

_ROUNDING = 1e-9
_SHARE = 0.5  # of the cost of avoidable rows that going deeper may cost, each time
_SEEN = 8  # sampled users from which the variance is predicted, rather than from how ceilings fell


def needed_information(half_width: float, level: float) -> float:
    """Return the sum over users of squared weight / variance that the bets of ``ConfidenceSequence`` need."""
    return float(2 * np.log(2 / (1 - level)) / half_width**2)


def needed_rows(n_open: int, variance: float, missing: float, n_users: int | None) -> int:
    r"""Return about how many of the R = ``n_open`` undecided users must be sampled.

    .. math:: \sum_{j = R - k + 1}^{R} \frac{(N/j)^2}{\sigma^2} \approx
              \frac{N^2}{\sigma^2} \Big(\frac{1}{R - k} - \frac{1}{R}\Big) = \text{missing}

    Examples
    --------
    >>> needed_rows(1000, 0.25, 4000.0, 1000)  # the finite-population correction halves the 1,000
    500
    >>> needed_rows(1000, 0.25, 4000.0, None)
    1000
    """
    if missing <= 0 or n_open == 0:
        return 0
    if n_users is None:
        return min(int(np.ceil(missing * variance)), n_open)
    return min(int(np.ceil(n_open - 1 / (1 / n_open + missing * variance / n_users**2))), n_open)


def fewest_rows(n_open: int, half_width: float, level: float, n_users: int) -> int:
    """Return how many rows are needed even if no sampled user lies below its ceiling.

    The largest bet, on all of them lying there, must reach its limit against a mean that is two half-widths
    lower.

    Examples
    --------
    >>> fewest_rows(675, 0.01, 0.95, 6040)
    25
    """
    if n_open == 0:
        return 0
    drop = min(2 * half_width * n_users / n_open, 0.999)
    return min(int(np.ceil(np.log(2 / (1 - level)) / np.log1p(LARGEST_BET * drop / (1 - drop)))), n_open)


def predicted_variance(value: FloatArray) -> float:
    """Return the predicted variance of the next user's value."""
    return float(predictable_variance(np.zeros(1), value)[0])


class UserSample:
    """Growing random sample of users, with estimates and intervals of means over all of them.

    The order of users is a function of (seed, user), so that a larger sample begins with the smaller one, and
    all models are evaluated on the same users.

    Parameters
    ----------
    models : one or several, with the same users and metrics
    precision : half-width that bets are chosen for at first
    level : of each interval
    target : whose mean is estimated: that of the test users or of the population
    seed : as in ``evaluate``
    contrasts : (n_contrasts, n_models) weights of the models in the means that are estimated: 1 and -1 in the
        row of a difference. None: each model alone

    Attributes
    ----------
    queue : rows of users that are neither sampled nor decided by screening, in random order
    sampled : rows of sampled users, in their order
    depth : items per row that screening scored; 0 before
    ceiling : (len(queue), n_models, n_metrics) the largest value that each of these users can have
    slack : the same shape: how far below that the value may lie, 0 where it is known
    known : (n_models, n_metrics) sum of the values of all users that are known
    drop : (n_sampled, n_models, n_metrics) how far values lay below ceilings
    value, least, most, before, left, variance, stake : per sampled user and column (contrasts by metrics):
        what was bet on (the contrast of values, raised by the distance of that of the ceilings from 1), its
        limits, the sum before it that the bet is about, the length of the queue before it, the predicted
        variance, and the bet
    aim : (n_columns,) distance from the mean that bets are chosen for
    wanted : (n_columns,) half-width at which a column is narrow enough
    excluded : (n_columns,) distance from the mean at which a mean must be excluded for that
    """

    def __init__(
        self,
        models: Sequence[ModelValues],
        *,
        precision: float,
        level: float,
        target: Target = "test-users",
        seed: int = 0,
        contrasts: FloatArray | None = None,
    ) -> None:
        self.models, self.level, self.target, self.seed = tuple(models), level, target, seed
        self.contrasts: FloatArray = np.eye(len(self.models)) if contrasts is None else contrasts
        users, n_metrics = self.models[0].users, len(self.models[0].metrics)
        shape = (len(self.models), n_metrics)
        keys = pair_keys(seed, "plan/users", users, np.zeros_like(users))
        self.queue: IntArray = np.argsort(keys, kind="stable")
        self.sampled: IntArray = np.zeros(0, np.int64)
        self.depth = self.n_before = 0  # sampled users before the last screening
        self.ceiling, self.slack = np.ones((2, len(users), *shape))
        for k, model in enumerate(self.models):
            if not model.is_open.any():
                self.ceiling[:, k], self.slack[:, k] = model.values(self.queue), 0.0
        self.last_drop: FloatArray = self.slack.mean(axis=0)  # of ceilings in the last screening, per user
        self.known: FloatArray = np.zeros(shape)
        self.drop: FloatArray = np.zeros((0, *shape))
        n_columns = len(self.contrasts) * n_metrics
        self.value, self.least, self.most, self.before, self.variance, self.stake = np.zeros(
            (6, 0, n_columns)
        )
        self.aim: FloatArray = np.full(n_columns, precision)
        self.wanted: FloatArray = np.full(n_columns, precision)
        self.excluded: FloatArray = np.full(n_columns, 2 * precision)
        self.left: IntArray = np.zeros(0, np.int64)

    @property
    def rows(self) -> PartialRows:
        """The rows of the model, where there is one and it is asked."""
        (model,) = self.models
        if not isinstance(model, AskedModel):
            raise TypeError("the model is not asked for scores")
        return model.rows

    @property
    def n_all(self) -> int:
        """Number of test users."""
        return len(self.models[0].users)

    @property
    def n_users(self) -> int | None:
        """Number of users whose mean is estimated; None for a population."""
        return self.n_all if self.target == "test-users" else None

    @property
    def is_complete(self) -> bool:
        """Whether the value of every test user is known."""
        return len(self.queue) == 0

    @property
    def n_open_rows(self) -> int:
        """Rows of all models that are open among the users of the queue."""
        return sum(int(model.is_open[self.queue].sum()) for model in self.models)

    def affordable(self, wanted: int, budget: int | None) -> int:
        """Return how many of the next users the budget allows even if every row must be scored to its end."""
        wanted = min(wanted, len(self.queue))
        if budget is None:
            return wanted
        most = np.cumsum(self.rows.most_scores(self.queue[:wanted]))
        return int(np.searchsorted(most, budget - self.rows.n_scores, side="right"))

    def add_users(self, n: int) -> None:
        """Sample the next n users and score their rows until they are decided."""
        row, ceiling = self.queue[:n], self.ceiling[:n]
        for model in self.models:
            model.advance(row)
        value = self._values(row)
        if (value > ceiling + _ROUNDING).any():
            names = ", ".join(str(metric) for metric in self.models[0].metrics)
            raise InvalidParameter(
                f"a metric must not grow when further items rank above a target, got {names}. Evaluate it "
                "without a precision."
            )
        room = np.cumsum((self.contrast(self.ceiling) - 1)[::-1], axis=0)[::-1][:n]  # of all from here on
        sums = np.cumsum(value, axis=0)
        slack = np.maximum.accumulate(self.slack[::-1], axis=0)[::-1][:n]
        least, most = 1 - self.contrast(slack, 1), 1 + self.contrast(slack, -1)
        drawn = np.clip(1 + self.contrast(value - ceiling), least, most)
        seen = self.value[self.n_before :]
        variance = np.stack(
            [predictable_variance(drawn[:, c], seen[:, c]) for c in range(drawn.shape[1])], axis=1
        )
        before = self.contrast(self.known + sums - value) + room
        self.before = np.concatenate([self.before, before])
        self.left = np.concatenate([self.left, len(self.queue) - np.arange(len(row))])
        self.value = np.concatenate([self.value, drawn])
        self.least, self.most = np.concatenate([self.least, least]), np.concatenate([self.most, most])
        self.variance = np.concatenate([self.variance, variance])
        self.stake = np.concatenate([self.stake, self.aim / variance])
        self.sampled = np.concatenate([self.sampled, row])
        self.drop = np.concatenate([self.drop, ceiling - value])
        self.known = self.known + sums[-1]
        self._take(np.arange(n, len(self.queue)))

    def decide(self, n: int) -> None:
        """Score the next n users until they are decided, without betting on them."""
        row = self.queue[:n]
        for model in self.models:
            model.advance(row)
        self.known = self.known + self._values(row).sum(axis=0)
        self._take(np.arange(n, len(self.queue)))

    def screen(self, depth: int) -> None:
        """Score the ``depth`` most promising items of all remaining users; decided users leave the queue.

        The others come in a random order of their own, drawn for this: the order before it decided who was
        looked at first, and scores of those may have had a say in how all were screened.
        """
        if not self.depth:
            users = self.models[0].users[self.queue]
            keys = pair_keys(self.seed, "plan/screened", users, np.zeros_like(users))
            self._take(np.argsort(keys, kind="stable"))
        for model in self.models:
            model.advance(self.queue, depth)
        fallen = self.known + self.ceiling.sum(axis=0)
        self.ceiling = np.stack([model.ceilings(self.queue) for model in self.models], axis=1)
        is_open = np.stack([model.is_open[self.queue] for model in self.models], axis=1)
        self.slack = self.ceiling * is_open[:, :, None]
        self.release()
        self.depth, self.n_before = depth, len(self.sampled)
        fallen -= self.known + self.ceiling.sum(axis=0)
        self.last_drop = np.clip(fallen / max(len(self.queue), 1), 0.0, 1.0)

    def settle(self) -> None:
        """Take in what is known of users whose scoring was broken off: values, and ceilings of the others.

        Both are facts, whatever broke it off, so intervals stay valid; no bet is placed on them.
        """
        if self.n_users is None:
            return
        is_begun = self.rows.depth[self.queue] >= 0
        ceiling = self.models[0].ceilings(self.queue[is_begun])
        self.ceiling[is_begun, 0] = np.minimum(self.ceiling[is_begun, 0], ceiling)
        self.slack[is_begun, 0] = self.ceiling[is_begun, 0]
        self.release()

    def deepen(self, may_screen: Callable[[int], bool]) -> None:
        """Screen further as long as that costs at most a share of the rows that it may make unnecessary.

        Parameters
        ----------
        may_screen : whether the budget allows to go as deep
        """
        for depth in max((model.depths for model in self.models), key=len):
            if depth <= self.depth or self.is_complete:
                continue
            avoidable = max(self.missing_rows() - self._fewest(), 0) * self.cost_per_row()
            if self.n_open_rows * (depth - self.depth) > _SHARE * avoidable or not may_screen(depth):
                return
            self.screen(depth)

    def release(self) -> None:
        """Take users out of the queue whose rows are decided for all models."""
        is_open = np.any([model.is_open[self.queue] for model in self.models], axis=0)
        decided = self.queue[~is_open]
        if len(decided):
            self.known = self.known + self._values(decided).sum(axis=0)
        self._take(np.flatnonzero(is_open))

    def keep(self, models: Sequence[int], contrasts: Sequence[int]) -> None:
        """Go on with some of the models and of the contrasts between them, in their order."""
        n_metrics = len(self.models[0].metrics)
        columns = [contrast * n_metrics + metric for contrast in contrasts for metric in range(n_metrics)]
        self.models = tuple(self.models[k] for k in models)
        self.contrasts = self.contrasts[np.ix_(contrasts, models)]
        for name in ("ceiling", "slack", "drop"):
            setattr(self, name, getattr(self, name)[:, models])
        self.last_drop, self.known = self.last_drop[models], self.known[models]
        for name in ("value", "least", "most", "before", "variance", "stake"):
            setattr(self, name, getattr(self, name)[:, columns])
        for name in ("aim", "wanted", "excluded"):
            setattr(self, name, getattr(self, name)[columns])
        self.release()

    def cost_per_row(self) -> float:
        """Return about what it costs to decide a user of the queue for all models."""
        total = sum(model.is_open[self.queue].sum() * model.row_scores() for model in self.models)
        return float(total / max(len(self.queue), 1))

    def missing_rows(self) -> int:
        """Return about how many further users must be sampled for the wanted half-widths.

        Those sampled since the last screening show how values vary below their ceilings. Before there are
        any, the ceilings themselves do: they are taken to fall once more as they fell in the last screening.
        """
        gained, seen = self.gained(), self.value[self.n_before :]
        drop = np.minimum(self.last_drop, 0.5)
        guessed = np.abs(self.contrasts) @ (drop * (1 - drop))
        needed = 0
        for column, half_width in enumerate(self.wanted):
            variance = predicted_variance(seen[:, column])
            if self.depth and len(seen) < _SEEN:
                variance = float(guessed.ravel()[column])
            missing = needed_information(half_width, self.level) - gained[column]
            needed = max(needed, needed_rows(len(self.queue), variance, float(missing), self.n_users))
        if self.depth and self.n_users is not None:
            needed = max(needed, self._fewest() - len(seen), 1)
        return needed

    def aim_at(self, n_rows: int) -> None:
        """Choose the next bets for the half-width that ``n_rows`` more rows can reach, if wider than wanted.

        Bets may change at any time, as long as they do not depend on the users they are placed on.
        """
        seen = self.value[self.n_before :]
        for column, wanted in enumerate(self.wanted):
            variance = predicted_variance(seen[:, column])
            if self.n_users is None:
                more = n_rows / variance
            else:
                n_left = max(len(self.queue) - n_rows, 1)
                more = self.n_users**2 / variance * (1 / n_left - 1 / max(len(self.queue), 1))
            gained = float(self.gained()[column]) + more
            reachable = np.sqrt(needed_information(1.0, self.level) / max(gained, 1e-9))
            self.aim[column] = max(wanted, min(reachable, 0.5))

    def limits(self) -> FloatArray:
        """Return the interval of each column, (n_columns, 2)."""
        known, slack = self.contrast(self.known), self.slack.sum(axis=0)
        ceiling = self.contrast(self.ceiling.sum(axis=0))
        most, least = ceiling + self.contrast(slack, -1), ceiling - self.contrast(slack, 1)
        is_difference = np.repeat((self.contrasts < 0).any(axis=1), self.known.shape[1])
        limits = [
            ConfidenceSequence(
                self.value[:, c],
                self.before[:, c],
                self.left,
                self.stake[:, c],
                self.n_users,
                float(known[c]),
                float(most[c]),
                float(least[c]),
                self.least[:, c],
                self.most[:, c],
                -1.0 if is_difference[c] else 0.0,
            ).limits(level=self.level)
            for c in range(len(known))
        ]
        return np.array(limits)

    def means(self) -> FloatArray:
        """Return the estimate of each column; exact for the test users when all are known."""
        if self.n_users is None:
            mean: FloatArray = self.value.mean(axis=0)
        elif len(self.value) == self.n_before and not self.is_complete and len(self.models) == 1:
            mean = self.limits().mean(axis=1)
        else:
            mean = self.contrast(self.estimates())
        return mean

    def estimates(self) -> FloatArray:
        """Return the estimate of the mean over the test users, (n_models, n_metrics)."""
        seen = self.drop[self.n_before :]
        drop = seen.mean(axis=0) if len(seen) else self.last_drop
        estimate: FloatArray = (self.known + self.ceiling.sum(axis=0) - len(self.queue) * drop) / self.n_all
        return estimate

    def gained(self) -> FloatArray:
        """Return the information of the users sampled so far, one number per column."""
        weight = 1.0 if self.n_users is None else (self.n_users / self.left)[:, None]
        gained: FloatArray = (weight**2 / self.variance).sum(axis=0)
        return gained

    def _fewest(self) -> int:
        """Return how many rows are needed even if no sampled user lies below its ceiling."""
        return fewest_rows(len(self.queue), float(self.excluded.min()) / 2, self.level, self.n_all)

    def _values(self, row: IntArray) -> FloatArray:
        """Return values of decided rows, (len(row), n_models, n_metrics)."""
        return np.stack([model.values(row) for model in self.models], axis=1)

    def _take(self, at: IntArray) -> None:
        """Keep the users of the queue at some places, in this order."""
        self.queue, self.ceiling, self.slack = self.queue[at], self.ceiling[at], self.slack[at]

    def contrast(self, per_model: FloatArray, side: int = 0) -> FloatArray:
        """Return contrasts of (..., n_models, n_metrics), columns last; of one sign alone, if it is given."""
        weights = self.contrasts if side == 0 else np.maximum(side * self.contrasts, 0.0)
        found: FloatArray = np.einsum("cm,...mk->...ck", weights, per_model)
        return found.reshape(*found.shape[:-2], -1)
