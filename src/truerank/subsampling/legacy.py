"""Difficulty as the published code measures it: in training, before the step that learns from the event."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from truerank.core.errors import InvalidParameter
from truerank.core.interactions import Interactions
from truerank.core.model import EpochModel
from truerank.core.progress import SILENT, Progress
from truerank.core.types import FloatArray, IntArray
from truerank.models.bias_only import BiasOnly
from truerank.models.mf import MF
from truerank.models.neural.factor import FactorTraining
from truerank.models.neural.trainer import Schedule, train


def difficulty_in_training(
    model: EpochModel, events: Interactions, *, seed: int = 0, progress: Progress = SILENT
) -> FloatArray:
    """Return what the model got wrong about each event when it met it, averaged over the epochs.

    The scores are those of the step: with dropout, against the step's own negative, batches in the order of
    users and items, not shuffled. Repeated pairs share one value, under mse those with equal ratings.

    Parameters
    ----------
    model : mf or bias-only
    events : what it learns from
    seed, progress : of the training
    """
    if not isinstance(model, MF | BiasOnly):
        raise InvalidParameter(
            f"legacy needs the proxy mf or bias, whose steps can be watched, got {str(model)!r}. Use one of "
            "them or leave legacy out."
        )
    watched = _Watched(events, model.settings(), seed)
    train(str(model), watched, Schedule(model.epochs, None), progress=progress)
    if watched.epochs < model.epochs:
        raise KeyboardInterrupt  # the trainer ends early on Ctrl-C; half a training is not the answer
    mean = watched.wrong / model.epochs
    if watched.value is None:
        pairs = watched.user * events.n_items + watched.item
        place = np.searchsorted(pairs, events.user.astype(np.int64) * events.n_items + events.item)
    else:  # events that nothing tells apart but their time stand in any order: they share their mean
        columns = watched.user, watched.item, watched.value
        place = np.empty(len(events), dtype=np.int64)
        place[np.lexsort((np.asarray(events.value), events.item, events.user))] = np.arange(len(events))
        starts = np.r_[True, np.any([np.diff(column) != 0 for column in columns], axis=0)]
        group = np.cumsum(starts) - 1
        mean = (np.bincount(group, weights=mean) / np.bincount(group))[group]
    return np.asarray(mean[place])


class _Watched(FactorTraining):
    """Training that notes what it got wrong.

    Each step's gradients are computed once more with vectors that belong to one event alone: the gradient of
    the item's bias is then the slope of that event's loss.
    """

    def __init__(self, *given: object) -> None:
        super().__init__(*given)  # type: ignore[arg-type]
        self.wrong = np.zeros(len(self.user))
        self.epochs = 0

    def run_epoch(self, number: int) -> float:
        """Pass over all events once, in their order."""
        loss = super().run_epoch(number)
        self.epochs += 1
        return loss

    def _batches(self, rng: np.random.Generator) -> Iterator[IntArray]:
        size = self.settings.batch
        for first in range(0, len(self.user), size):
            yield np.arange(first, min(first + size, len(self.user)))

    def _pair_step(self, rows: IntArray, negative: IntArray, start: np.uint64) -> float:
        from truerank.models.neural.kernels.factor import pair_gradients

        n = len(rows)
        own = np.arange(n)
        users, items = self.users[self.user[rows]], self.items[np.r_[self.item[rows], negative[rows]]]
        slopes = np.zeros_like(items)
        pair_gradients(own, own, own + n, users, items, np.zeros_like(users), slopes, self.keep, start)
        # the slope is -1 / (1 + exp(gap)) over n: below -1/2 where the negative stands above by 1e-7 or more
        self.wrong[rows] += -slopes[:n, -1] > np.float32(1.0 / n) / 2
        return super()._pair_step(rows, negative, start)

    def _rating_step(self, rows: IntArray, value: FloatArray, start: np.uint64) -> float:
        from truerank.models.neural.kernels.factor import rating_gradients

        n = len(rows)
        own = np.arange(n)
        users, items = self.users[self.user[rows]], self.items[self.item[rows]]
        slopes = np.zeros_like(items)
        offset = self.offset.copy()
        given = own, own, value[rows], offset, users, items
        rating_gradients(*given, np.zeros_like(users), slopes, self.keep, start)
        self.wrong[rows] += (slopes[:, -1].astype(np.float64) * n / 2) ** 2  # the slope is 2 / n of the error
        return super()._rating_step(rows, value, start)
