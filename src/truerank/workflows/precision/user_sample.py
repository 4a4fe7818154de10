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
from truerank.core.types import BoolArray, FloatArray, IntArray
from truerank.inference.anytime import LARGEST_BET, ConfidenceSequence, predictable_variance
from truerank.inference.estimate_interval.registry import Target
from truerank.workflows.precision.model_values import AskedModel, ModelValues
from truerank.workflows.precision.partial_rows import PartialRows

_ROUNDING = 1e-9
_LEAST_WEIGHT = 1e-3  # of a user, who must have a chance to be drawn
_SEEN = 8  # sampled users from which the variance is predicted, rather than from how ceilings fell


def needed_information(half_width: float, level: float) -> float:
    """Return the sum over users of squared weight / variance that the bets of ``ConfidenceSequence`` need."""
    return float(2 * np.log(2 / (1 - level)) / half_width**2)


def needed_rows(n_open: float, variance: float, missing: float, n_users: int | None) -> int:
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
        return int(np.ceil(min(missing * variance, n_open)))
    return int(np.ceil(n_open - 1 / (1 / n_open + missing * variance / n_users**2)))


def fewest_rows(n_open: float, half_width: float, level: float, n_users: int) -> int:
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
    rows = np.log(2 / (1 - level)) / np.log1p(LARGEST_BET * drop / (1 - drop))
    return int(np.ceil(min(rows, n_open)))


def exponential(keys: IntArray) -> FloatArray:
    """Return random numbers with the standard exponential law from keys of 64 bits, in the order of these."""
    uniform = np.minimum(np.asarray(keys).astype(np.float64) / 2.0**64, 1 - 2.0**-53)
    exponential: FloatArray = -np.log1p(-uniform)
    return exponential


def _from_here_on(running: Callable[..., FloatArray], per_user: FloatArray, n: int) -> FloatArray:
    """Return a running sum or maximum over each user and all after it, of the first n users."""
    found: FloatArray = running(per_user[::-1], axis=0)[::-1][:n]
    return found


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
    weight : (len(queue),) users are drawn with probabilities proportional to this: after a screening, to the
        largest slack, so that bets are on drops as shares of what is possible
    known : (n_models, n_metrics) sum of the values of all users that are known
    drop : (n_sampled, n_models, n_metrics) how far values lay below ceilings, as a share of the weight
    is_asked : (n_models,) whose rows are scored when users are sampled
    value, least, most, before, left, variance : per sampled user and column (contrasts by metrics): what was
        bet on (1 plus the distance of the contrast from that of the ceilings, as a share of the weight), its
        limits, the sum before it that the bet is about, the weight of the queue before it, and the predicted
        variance
    stake, stake_smaller : the bets on larger and on smaller values; 0 where they would be about a model that
        was not asked
    largest, largest_smaller : the largest share of the capital that was bet on larger, and on smaller values
    lower_share : (n_columns,) of 1 - level that lower limits get
    aim : (n_columns,) distance from the mean that bets are chosen for
    wanted : (n_columns,) half-width at which a column is narrow enough
    excluded : (n_columns,) distance from the mean at which a mean must be excluded for that
    """

    of_queue: tuple[str, ...] = ("queue", "ceiling", "slack", "weight")  # one entry per user of the queue
    of_models: tuple[str, ...] = ("ceiling", "slack", "drop")  # models are their second axis

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
        self.weight: FloatArray = np.ones(len(users))
        self.clock: FloatArray = np.zeros(0)  # of the queue, once it is drawn by weights
        self.ceiling, self.slack = np.ones((2, len(users), *shape))
        for k, model in enumerate(self.models):
            if not model.is_open.any():
                self.ceiling[:, k], self.slack[:, k] = model.values(self.queue), 0.0
        self.last_drop: FloatArray = self.slack.mean(axis=0)  # of ceilings in the last screening, per user
        self.known: FloatArray = np.zeros(shape)
        self.drop: FloatArray = np.zeros((0, *shape))
        n_columns = len(self.contrasts) * n_metrics
        self.value, self.least, self.most, self.before, self.variance = np.zeros((5, 0, n_columns))
        self.stake, self.stake_smaller = np.zeros((2, 0, n_columns))
        self.is_asked: BoolArray = np.ones(len(self.models), np.bool_)
        self.largest, self.largest_smaller = np.zeros((2, 0, n_columns))
        self.lower_share: FloatArray = np.full(n_columns, 0.5)
        self.aim: FloatArray = np.full(n_columns, precision)
        self.wanted: FloatArray = np.full(n_columns, precision)
        self.excluded: FloatArray = np.full(n_columns, 2 * precision)
        self.left: FloatArray = np.zeros(0)

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
    def n_candidates(self) -> int:
        """Users of the queue who may be drawn: those who are open in a model that is asked."""
        return int((self.weight > 0).sum())

    def ask(self, models: Sequence[int]) -> None:
        """Score rows of some models alone from now on, until another choice is made.

        A model that is not asked is taken to have its ceilings. A difference is then bounded on one side: it
        is at least what the first model has above the ceilings of the second, and at most what the ceilings
        of the first are above the second.
        """
        asked = np.zeros(len(self.models), np.bool_)
        asked[list(models)] = True
        if (asked != self.is_asked).any():
            self.is_asked, self.n_before = asked, len(self.sampled)
            self._shuffle()

    def add_users(self, n: int) -> None:
        """Sample the next n users and score their rows until they are decided."""
        row, ceiling, weight = self.queue[:n], self.ceiling[:n], self.weight[:n, None]
        value = ceiling.copy()
        for k in np.flatnonzero(self.is_asked):
            self.models[k].advance(row)
            value[:, k] = self.models[k].values(row)
        if (value > ceiling + _ROUNDING).any():
            names = ", ".join(str(metric) for metric in self.models[0].metrics)
            raise InvalidParameter(
                f"a metric must not grow when further items rank above a target, got {names}. Evaluate it "
                "without a precision."
            )
        change = self.contrast(value - ceiling)
        ceilings = self.contrast(self.known + self.ceiling.sum(axis=0)) + np.cumsum(change, axis=0) - change
        left = _from_here_on(np.cumsum, self.weight, n)
        share = self.slack * self.is_asked[:, None] / np.maximum(self.weight, _LEAST_WEIGHT)[:, None, None]
        below, above = (
            _from_here_on(np.maximum.accumulate, self.contrast(share, side), n) for side in (1, -1)
        )
        drawn = np.clip(1 + change / weight, 1 - below, 1 + above)
        seen = self.value[self.n_before :]
        variance = np.stack(
            [predictable_variance(drawn[:, c], seen[:, c]) for c in range(drawn.shape[1])], axis=1
        )
        has_larger, has_smaller = self._sides()
        self._append(
            before=ceilings - left[:, None],
            left=left,
            value=drawn,
            least=1 - below,
            most=1 + above,
            variance=variance,
            stake=np.where(has_larger, self.aim / variance, 0.0),
            stake_smaller=np.where(has_smaller, self.aim / variance, 0.0),
            largest=np.full_like(variance, LARGEST_BET),
            largest_smaller=np.full_like(variance, LARGEST_BET),
            sampled=row,
            drop=np.where(self.is_asked[:, None], (ceiling - value) / weight[:, :, None], np.nan),
        )
        if len(self.clock):
            self.clock = self.clock - self.weight * (self.clock[n - 1] / self.weight[n - 1])
        self.ceiling, self.slack = self.ceiling.copy(), self.slack.copy()
        self.ceiling[:n], self.slack[:n, self.is_asked] = value, 0.0
        self.release()
        self._redraw(row)

    def _sides(self) -> tuple[BoolArray, BoolArray]:
        """Return the columns that can be bet on to be larger, and smaller: a model that is asked decides."""
        is_known = ~self.is_asked & ~self.slack.any(axis=(0, 2))
        larger, smaller = (
            np.repeat(
                ((side * self.contrasts <= 0) | self.is_asked | is_known).all(axis=1), self.known.shape[1]
            )
            for side in (1, -1)
        )
        return larger, smaller

    def _append(self, **drawn: FloatArray | IntArray) -> None:
        """Add what belongs to sampled users."""
        for name, new in drawn.items():
            setattr(self, name, np.concatenate([getattr(self, name), new]))

    def decide(self, n: int) -> None:
        """Score the next n users until they are decided, without betting on them."""
        row = self.queue[:n]
        for model in self.models:
            model.advance(row)
        self.known = self.known + self._values(row).sum(axis=0)
        self._take(np.arange(n, len(self.queue)))

    def look(self, n: int, depth: int) -> None:
        """Score the ``depth`` most promising items of the next n users; decided users leave the queue.

        The others come in a random order of their own from now on: what this shows may have a say in all that
        follows.
        """
        self._take_in(np.arange(n), depth)
        self.release()
        self._shuffle()

    def screen(self, depth: int) -> None:
        """Score the ``depth`` most promising items of all remaining users; decided users leave the queue.

        The others come in a random order of their own, drawn for this: the order before it decided who was
        looked at first, and scores of those may have had a say in how all were screened.
        """
        fallen = self.known + self.ceiling.sum(axis=0)
        self._take_in(np.arange(len(self.queue)), depth)
        self.release()
        self._shuffle()
        self.depth, self.n_before = depth, len(self.sampled)
        fallen -= self.known + self.ceiling.sum(axis=0)
        self.last_drop = np.clip(fallen / max(len(self.queue), 1), 0.0, 1.0)

    def settle(self) -> None:
        """Take in what is known of users whose scoring was broken off: values, and ceilings of the others.

        Both are facts, whatever broke it off, so intervals stay valid; no bet is placed on them.
        """
        if self.n_users is None:
            return
        for k, model in enumerate(self.models):
            if isinstance(model, AskedModel):
                self._lower_model(k, np.flatnonzero(model.rows.depth[self.queue] >= 0))
        self.release()

    def release(self) -> None:
        """Take users out of the queue whose values are known for all models."""
        is_open = self.slack.any(axis=(1, 2))
        self.known = self.known + self.ceiling[~is_open].sum(axis=0)
        self._take(np.flatnonzero(is_open))

    def keep(self, models: Sequence[int], contrasts: Sequence[int]) -> None:
        """Go on with some of the models and of the contrasts between them, in their order."""
        n_metrics = len(self.models[0].metrics)
        columns = [contrast * n_metrics + metric for contrast in contrasts for metric in range(n_metrics)]
        self.models = tuple(self.models[k] for k in models)
        self.contrasts = self.contrasts[np.ix_(contrasts, models)]
        for name in self.of_models:
            setattr(self, name, getattr(self, name)[:, models])
        self.last_drop, self.known = self.last_drop[models], self.known[models]
        self.is_asked = np.ones(len(self.models), np.bool_)
        of_columns = ("value", "least", "most", "before", "variance")
        for name in (*of_columns, "stake", "stake_smaller", "largest", "largest_smaller"):
            setattr(self, name, getattr(self, name)[:, columns])
        for name in ("aim", "wanted", "excluded", "lower_share"):
            setattr(self, name, getattr(self, name)[columns])
        self.release()
        if len(self.clock):  # users are drawn by what the models that are left may still lose
            self.n_before = len(self.sampled)
            self._shuffle()

    def cost_per_row(self) -> float:
        """Return about what it costs to decide a user of the queue for all models."""
        total = sum(model.is_open[self.queue].sum() * model.row_scores() for model in self._asked())
        return float(total / max(self.n_candidates, 1))

    def missing_rows(self) -> int:
        """Return about how many further users must be sampled for the wanted half-widths.

        Those sampled since the last screening show how values vary below their ceilings. Before there are
        any, the ceilings themselves do: they are taken to fall once more as they fell in the last screening.
        """
        gained, seen = self.gained(), self.value[self.n_before :]
        total, mean_weight = self._weights()
        drop = np.minimum(self.expected_drops() / max(total, 1e-9), 0.5)
        guessed = np.abs(self.contrasts) @ (drop * (1 - drop))
        needed = 0
        for column, half_width in enumerate(self.wanted):
            variance = predicted_variance(seen[:, column])
            if self.depth and len(seen) < _SEEN:
                variance = float(guessed.ravel()[column])
            missing = needed_information(half_width, self.level) - gained[column]
            units = needed_rows(total, variance, float(missing), self.n_users)
            needed = max(needed, min(int(np.ceil(units / mean_weight)), self.n_candidates))
        if self.depth and self.n_users is not None:
            needed = max(needed, self._fewest() - len(seen), 1)
        return needed

    def aim_at(self, n_rows: int) -> None:
        """Choose the next bets for the half-width that ``n_rows`` more rows can reach, if wider than wanted.

        Bets may change at any time, as long as they do not depend on the users they are placed on.
        """
        seen = self.value[self.n_before :]
        total, mean_weight = self._weights()
        for column, wanted in enumerate(self.wanted):
            variance = predicted_variance(seen[:, column])
            if self.n_users is None:
                more = n_rows / variance
            else:
                left = max(total - n_rows * mean_weight, mean_weight)
                more = self.n_users**2 / variance * (1 / left - 1 / max(total, mean_weight))
            gained = float(self.gained()[column]) + more
            reachable = np.sqrt(needed_information(1.0, self.level) / max(gained, 1e-9))
            self.aim[column] = max(wanted, min(reachable, 0.5))

    def limits(self) -> FloatArray:
        """Return the interval of each column, (n_columns, 2)."""
        return np.array([sequence.limits(level=self.level) for sequence in self.sequences()])

    def sequences(self) -> list[ConfidenceSequence]:
        """Return the bets on each column."""
        known, slack = self.contrast(self.known), self.slack.sum(axis=0)
        ceiling = self.contrast(self.ceiling.sum(axis=0))
        most, least = ceiling + self.contrast(slack, -1), ceiling - self.contrast(slack, 1)
        is_difference = np.repeat((self.contrasts < 0).any(axis=1), self.known.shape[1])
        return [
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
                self.stake_smaller[:, c],
                self.largest[:, c],
                float(self.lower_share[c]),
                self.largest_smaller[:, c],
            )
            for c in range(len(known))
        ]

    def expected_drops(self) -> FloatArray:
        """Return about how far the values of the queue lie below their ceilings, (n_models, n_metrics)."""
        return len(self.queue) * self.last_drop

    def means(self) -> FloatArray:
        """Return the estimate of each column; exact for the test users when all are known."""
        if self.n_users is None:
            mean: FloatArray = self.value.mean(axis=0)
        elif len(self.value) or self.depth or self.is_complete or len(self.models) > 1:
            mean = self.contrast(self.estimates())
        else:  # nothing is known yet
            mean = self.limits().mean(axis=1)
        return mean

    def estimates(self) -> FloatArray:
        """Return the estimate of the mean over the test users, (n_models, n_metrics)."""
        seen = self.drop[self.n_before :]
        drop = self.expected_drops()
        for k, share in enumerate(np.moveaxis(seen, 1, 0)):
            if len(share) and not np.isnan(share).any():
                drop[k] = self.weight.sum() * share.mean(axis=0)
        estimate: FloatArray = (self.known + self.ceiling.sum(axis=0) - drop) / self.n_all
        return estimate

    def gained(self) -> FloatArray:
        """Return the information of the users sampled so far, one number per column."""
        weight = 1.0 if self.n_users is None else (self.n_users / self.left)[:, None]
        gained: FloatArray = (weight**2 / self.variance).sum(axis=0)
        return gained

    def _fewest(self) -> int:
        """Return how many rows are needed even if no sampled user lies below its ceiling."""
        half_width = float(self.excluded.min()) / 2
        return min(fewest_rows(self._weights()[0], half_width, self.level, self.n_all), len(self.queue))

    def _weights(self) -> tuple[float, float]:
        """Return the weight of the queue, and the mean weight of the next user that is drawn."""
        total = float(self.weight.sum())
        return total, float((self.weight**2).sum()) / total if total else 1.0

    def _values(self, row: IntArray) -> FloatArray:
        """Return values of decided rows, (len(row), n_models, n_metrics)."""
        return np.stack([model.values(row) for model in self.models], axis=1)

    def _take_in(self, at: IntArray, depth: int) -> None:
        """Score users at some places of the queue up to a depth, and lower their ceilings."""
        for model in self.models:
            model.advance(self.queue[at], depth)
        self._lower(at)

    def _lower(self, at: IntArray) -> None:
        """Lower ceilings of users at some places of the queue to what is known; values where that is all."""
        for k in range(len(self.models)):
            self._lower_model(k, at)

    def _lower_model(self, k: int, at: IntArray) -> None:
        """Lower ceilings of one model."""
        row, model = self.queue[at], self.models[k]
        is_open = model.is_open[row]
        ceiling = np.minimum(self.ceiling[at, k], model.ceilings(row))
        ceiling[~is_open] = model.values(row[~is_open])
        self.ceiling[at, k], self.slack[at, k] = ceiling, ceiling * is_open[:, None]

    def _shuffle(self) -> None:
        """Bring the queue into a random order, in which users are drawn in proportion to their slack.

        Each user has an exponential clock that runs with the speed of its weight, and the first that rings is
        drawn. What is left of the others' clocks is exponential again, so weights may change between draws.
        """
        if not len(self.clock):
            users = self.models[0].users[self.queue]
            keys = pair_keys(self.seed, "plan/screened", users, np.zeros_like(users))
            self.clock = exponential(keys)
        self.weight = self._slacks()
        with np.errstate(divide="ignore"):
            self._take(np.argsort(self.clock / self.weight, kind="stable"))

    def _slacks(self) -> FloatArray:
        """Return the largest slack of each user in a model that is asked, 0 where all is known."""
        slack = self.slack[:, self.is_asked].max(axis=(1, 2), initial=0.0)
        return np.where(slack > 0, np.maximum(slack, _LEAST_WEIGHT), 0.0)

    def _asked(self) -> list[ModelValues]:
        return [model for model, is_asked in zip(self.models, self.is_asked, strict=True) if is_asked]

    def _redraw(self, row: IntArray) -> None:
        """Give users who were drawn and are still open in another model new clocks, and the last places."""
        if len(self.clock) and len(self.queue):
            is_drawn = np.isin(self.queue, row)
            users = self.models[0].users[self.queue[is_drawn]]
            keys = pair_keys(self.seed, "plan/again", users, np.full_like(users, len(self.sampled)))
            self.clock[is_drawn] = exponential(keys)
            self._shuffle()

    def _take(self, at: IntArray) -> None:
        """Keep the users of the queue at some places, in this order."""
        for name in self.of_queue:
            setattr(self, name, getattr(self, name)[at])
        if len(self.clock):
            self.clock = self.clock[at]

    def contrast(self, per_model: FloatArray, side: int = 0) -> FloatArray:
        """Return contrasts of (..., n_models, n_metrics), columns last; of one sign alone, if it is given."""
        weights = self.contrasts if side == 0 else np.maximum(side * self.contrasts, 0.0)
        found: FloatArray = np.einsum("cm,...mk->...ck", weights, per_model)
        return found.reshape(*found.shape[:-2], found.shape[-2] * found.shape[-1])
