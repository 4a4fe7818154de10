"""Importance of each event: how badly a proxy model predicts it, averaged over the epochs of its training.

`Difficulty` adds up the errors of a model after each epoch: squared errors of ratings, or negatives ranked
above the event. ``difficulty_in_training`` measures them as the published code does, within the training step
and before it learns from the event. ``importance`` fits a proxy and returns the mean; ``make_proxy`` builds
the proxies of the paper by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, cast

import numpy as np

from truerank.core.checkpoint import Store, whole_or_nothing
from truerank.core.digest import events_hash
from truerank.core.errors import InvalidData, InvalidParameter, NotConverged
from truerank.core.interactions import Interactions
from truerank.core.model import EpochModel
from truerank.core.parallel import available_threads, even_blocks, run_row_blocks
from truerank.core.plugin import Spec, parse_spec
from truerank.core.progress import SILENT, Progress
from truerank.core.random import check_seed, stage_key
from truerank.core.scorer import Factors, HasFactors, Scorer
from truerank.core.types import FloatArray, IntArray, frozen
from truerank.models.bias_only import BiasOnly
from truerank.models.factor_training import FactorTraining
from truerank.models.mf import MF
from truerank.models.registry import MODELS
from truerank.models.training import Schedule, run_epochs
from truerank.subsampling.base import STRATEGIES, Auc, Feedback, ProxyStrategy, Strategy, check_difficulty
from truerank.subsampling.selection import EventKeys

_STAGE = "subsample/difficulty"
_ENTRIES = 1 << 16  # scores computed at once, per thread
_SCORED = 1 << 14  # the same for scorers without factors, which may need much memory for each


class Difficulty:
    """Errors of a model at each event, added up over epochs.

    Under implicit feedback an event is compared with items that its user has not met, sampled in each epoch
    as a function of seed, epoch and event. Factor models are scored in compiled code on all cores. Memory: 16
    bytes per event.

    Parameters
    ----------
    train : the events
    feedback, negatives, auc : as in `SvpCf`
    seed : of the negatives

    Examples
    --------
    >>> events = Interactions.from_codes([0, 1], [0, 1], value=np.array([3.0, 5.0]))
    >>> difficulty = Difficulty(events, feedback="explicit")
    >>> difficulty.add(Factors(np.ones((2, 1)), np.full((2, 1), 4.0)))
    >>> difficulty.add(Factors(np.ones((2, 1)), np.full((2, 1), 5.0)))
    >>> difficulty.mean().tolist()
    [2.5, 0.5]
    """

    def __init__(
        self,
        train: Interactions,
        *,
        feedback: Feedback = "implicit",
        negatives: int = 1,
        auc: Auc = "complement",
        seed: int = 0,
    ) -> None:
        check_difficulty(feedback, negatives, auc)
        self.train, self.negatives, self.seed = train, negatives, seed
        self.value = np.empty(0) if train.value is None else train.value
        self.is_explicit, self.is_inverse = feedback == "explicit", auc == "inverse"
        self.epochs = 0
        self.total = np.zeros(len(train))
        if not self.is_explicit:
            self.keys, self.met = frozen(EventKeys(train, seed, _STAGE).all()), train.by_user()

    def add(self, scorer: Scorer) -> None:
        """Add the errors of the model as it is now; one call per epoch."""
        self.epochs += 1
        if isinstance(scorer, HasFactors):
            work = self._factor_work(scorer.factors())
            n_threads, entries = available_threads(), _ENTRIES
        else:
            work = self._score_work(scorer)
            n_threads, entries = 1, _SCORED
        rows = max(entries // self.negatives, 1)
        run_row_blocks(
            lambda first, last: work(slice(first, last)),
            even_blocks(len(self.train), rows),
            n_threads=n_threads,
        )

    def mean(self) -> FloatArray:
        """Return the importance of each event: its mean error over the epochs added.

        Raises
        ------
        NotConverged
            When the model gave scores that are not numbers.
        """
        n_missing = int(np.isnan(self.total).sum())
        if n_missing:
            raise NotConverged(
                f"the proxy must score every event by a number, got NaN for {n_missing} of "
                f"{len(self.train)} events. Lower its learning_rate, such as proxy=mf(learning_rate=0.001).",
                self.total,
            )
        if self.is_inverse:
            return np.where(self.total > 0, np.inf, 1.0)
        return self.total / max(self.epochs * self.negatives, 1)

    def _codes(self, block: slice) -> tuple[IntArray, IntArray]:
        return self.train.user[block].astype(np.int64), self.train.item[block].astype(np.int64)

    def _negatives(self, block: slice, user: IntArray) -> IntArray:
        from truerank.subsampling.kernels import sample_unmet

        word = np.uint64(stage_key(self.seed, f"{_STAGE}/epoch {self.epochs}")[0])
        out = np.empty((len(user), self.negatives), dtype=np.int64)
        sample_unmet(self.met.indptr, self.met.items, self.train.n_items, user, self.keys[block], word, out)
        return out

    def _factor_work(self, factors: Factors) -> Callable[[slice], None]:
        from truerank.subsampling.kernels import add_lost, add_squared

        bias = np.zeros(factors.n_items, np.float32) if factors.item_bias is None else factors.item_bias
        u, v, w = (frozen(np.ascontiguousarray(part)) for part in (factors.user, factors.item, bias))

        def work(block: slice) -> None:
            user, item = self._codes(block)
            if self.is_explicit:
                add_squared(user, item, self.value[block].astype(np.float64), u, v, w, self.total[block])
            else:
                negatives = self._negatives(block, user)
                add_lost(user, item, negatives, u, v, w, self.is_inverse, self.total[block])

        return work

    def _score_work(self, scorer: Scorer) -> Callable[[slice], None]:
        def work(block: slice) -> None:
            user, item = self._codes(block)
            if self.is_explicit:
                error = scorer.score(user, item[:, None])[:, 0].astype(np.float64) - self.value[block]
                self.total[block] += error**2
                return
            negatives = self._negatives(block, user)
            scores = scorer.score(user, np.column_stack([item, np.maximum(negatives, 0)]))
            event, others = scores[:, :1], scores[:, 1:]
            lost = (others > event) | (self.is_inverse & (others == event))
            self.total[block] += np.where(negatives >= 0, lost, False).sum(axis=1)
            self.total[block][np.isnan(scores).any(axis=1)] = np.nan

        return work


#: The proxies of the paper, and the loss that fits each kind of feedback.
PROXIES = {"mf": "s21-mf", "bias": "s21-bias-only"}
LOSSES = {"explicit": "mse", "implicit": "bpr"}


def make_strategy(written: str | Strategy) -> Strategy:
    """Build a strategy and its proxy, so that a wrong name is reported before data are read."""
    strategy = STRATEGIES.make(written)
    if isinstance(strategy, ProxyStrategy):
        make_proxy(strategy.proxy, strategy.feedback)
    return strategy


def make_proxy(
    proxy: str | Spec | EpochModel, feedback: Feedback = "implicit", *, epochs: int | None = None
) -> EpochModel:
    """Build the model behind the name of a proxy.

    ``mf`` and ``bias`` are the presets ``s21-mf`` and ``s21-bias-only`` with the loss that fits the feedback;
    their parameters may be given. Every other name is one of ``truerank list models``.

    Examples
    --------
    >>> make_proxy("bias", "explicit").loss, make_proxy("mf(epochs=7)").epochs
    ('mse', 7)
    """
    model: Any = proxy
    if isinstance(proxy, str | Spec):
        spec = parse_spec(proxy) if isinstance(proxy, str) else proxy
        if spec.name in PROXIES:
            params = {"loss": LOSSES[feedback], **dict(spec.params)}
            spec = Spec(PROXIES[spec.name], tuple(params.items()), spec.cutoff)
        model = MODELS.make(spec)
    if not isinstance(model, EpochModel):
        raise InvalidParameter(
            f"a proxy must be a model that trains in epochs, got {str(model)!r}. Use mf or bias."
        )
    if feedback == "explicit" and getattr(model, "loss", None) != "mse":
        raise InvalidParameter(
            f"the proxy must predict ratings for explicit feedback, but {str(model)!r} does not. Use mf, "
            "bias or a model with loss=mse."
        )
    return model if epochs is None else cast(EpochModel, replace(cast(Any, model), epochs=epochs))


def difficulty_in_training(
    model: EpochModel, events: Interactions, *, seed: int = 0, progress: Progress = SILENT
) -> FloatArray:
    """Return the error of the model at each event in the step that learns from it, averaged over the epochs.

    The scores are those of the training step: with dropout, against the negative of that step, batches in the
    order of users and items, not shuffled. Repeated pairs have one common value, under mse those with equal
    ratings.

    Parameters
    ----------
    model : mf or bias-only
    events : what it learns from
    seed, progress : of the training
    """
    if not isinstance(model, MF | BiasOnly):
        raise InvalidParameter(
            f"legacy measures errors within the training steps of mf or bias, got the proxy {str(model)!r}. "
            "Use one of the two, or leave legacy out."
        )
    watched = _Watched(events, model.settings(), seed)
    with whole_or_nothing():  # a mean over fewer epochs is wrong
        run_epochs(str(model), watched, Schedule(model.epochs, None), progress=progress)
    mean = watched.wrong / model.epochs
    if watched.value is None:
        pairs = watched.user * events.n_items + watched.item
        row = np.searchsorted(pairs, events.user.astype(np.int64) * events.n_items + events.item)
    else:  # events that differ in time alone may come in any order: each gets the mean over them
        columns = watched.user, watched.item, watched.value
        row = np.empty(len(events), dtype=np.int64)
        row[np.lexsort((np.asarray(events.value), events.item, events.user))] = np.arange(len(events))
        starts = np.r_[True, np.any([np.diff(column) != 0 for column in columns], axis=0)]
        group = np.cumsum(starts) - 1
        mean = (np.bincount(group, weights=mean) / np.bincount(group))[group]
    return np.asarray(mean[row])


class _Watched(FactorTraining):
    """Factor training that also adds up the error at each event.

    The gradients of each step are computed once more with a copy of the vectors for each event: the gradient
    of the item's bias is then the slope of that event's loss.
    """

    def __init__(self, *given: object) -> None:
        super().__init__(*given)  # type: ignore[arg-type]
        self.wrong = np.zeros(len(self.user))
        self.epochs = 0

    def run_epoch(self, number: int) -> float:
        """Pass over all events once, in the order of users and items."""
        loss = super().run_epoch(number)
        self.epochs += 1
        return loss

    def _batches(self, rng: np.random.Generator) -> Iterator[IntArray]:
        size = self.settings.batch
        for first in range(0, len(self.user), size):
            yield np.arange(first, min(first + size, len(self.user)))

    def _pair_step(self, rows: IntArray, negative: IntArray, start: np.uint64) -> float:
        from truerank.models.kernels import pair_gradients

        n = len(rows)
        rows_of_batch = np.arange(n)
        users, items = self.users[self.user[rows]], self.items[np.r_[self.item[rows], negative[rows]]]
        slopes = np.zeros_like(items)
        pair_gradients(
            rows_of_batch,
            rows_of_batch,
            rows_of_batch + n,
            users,
            items,
            np.zeros_like(users),
            slopes,
            self.keep,
            start,
        )
        # the slope is -1 / (1 + exp(gap)) / n: below -1/2 / n where the negative is ahead by 1e-7 or more
        self.wrong[rows] += -slopes[:n, -1] > np.float32(1.0 / n) / 2
        return super()._pair_step(rows, negative, start)

    def _rating_step(self, rows: IntArray, value: FloatArray, start: np.uint64) -> float:
        from truerank.models.kernels import rating_gradients

        n = len(rows)
        rows_of_batch = np.arange(n)
        users, items = self.users[self.user[rows]], self.items[self.item[rows]]
        slopes = np.zeros_like(items)
        offset = self.offset.copy()
        given = rows_of_batch, rows_of_batch, value[rows], offset, users, items
        rating_gradients(*given, np.zeros_like(users), slopes, self.keep, start)
        self.wrong[rows] += (slopes[:, -1].astype(np.float64) * n / 2) ** 2  # the slope is 2 / n of the error
        return super()._rating_step(rows, value, start)


def importance(
    train: Interactions,
    proxy: str | Spec | EpochModel = "mf",
    *,
    feedback: Feedback = "implicit",
    epochs: int | None = None,
    negatives: int = 1,
    auc: Auc = "complement",
    legacy: bool = False,
    seed: int = 0,
    progress: Progress = SILENT,
    store: Store | None = None,
) -> FloatArray:
    """Return the error of a proxy model at each event, averaged over the epochs of its training.

    Parameters
    ----------
    train : the events; the proxy learns from all of them
    proxy : ``mf`` or ``bias`` with the paper's settings, or another model that trains in epochs
    feedback : explicit (squared error of ratings) or implicit (fraction of negatives ranked above the event)
    epochs : of the proxy's training; None leaves it to the proxy (50 for mf and bias)
    negatives, auc : for implicit feedback, as in `truerank.subsampling.svp_cf.SvpCf`
    legacy : score events in training mode, before the step that learns from them, as the published code does;
        mf and bias only
    seed : of the training and of the negatives
    progress : advances once per epoch
    store : where the result is kept, and found again for the same events and settings

    Returns
    -------
    (n,) float64, one per event in the order of the events

    Raises
    ------
    NotConverged
        When the proxy's training diverged.

    Examples
    --------
    >>> events = Interactions.from_codes([0, 0, 1, 1, 2, 2], [0, 1, 0, 1, 0, 2])
    >>> importance(events, "bias", epochs=4).tolist()  # item 2 is ranked below item 1
    [0.0, 0.0, 0.0, 0.0, 0.0, 1.0]
    """
    model = make_proxy(proxy, feedback, epochs=epochs)
    check_difficulty(feedback, negatives, auc, legacy=legacy)
    check_seed(seed)
    if feedback == "explicit" and train.value is None:
        raise InvalidData(
            f"explicit feedback needs ratings, but {train.name!r} has none. Read a rating column, or use "
            "feedback='implicit'."
        )

    def compute() -> dict[str, np.ndarray]:
        if legacy:
            return {"importance": difficulty_in_training(model, train, seed=seed, progress=progress)}
        difficulty = Difficulty(train, feedback=feedback, negatives=negatives, auc=auc, seed=seed)
        with whole_or_nothing():  # a mean over fewer epochs is wrong
            model.fit(
                train, seed=seed, progress=progress, on_epoch=lambda epoch: difficulty.add(epoch.scorer)
            )
        return {"importance": difficulty.mean()}

    if store is None:
        return compute()["importance"]
    settings = (
        f"proxy={model} feedback={feedback} negatives={negatives} auc={auc} legacy={legacy} seed={seed}"
    )
    return store.arrays(f"importance {settings} events={events_hash(train)}", compute)["importance"]
