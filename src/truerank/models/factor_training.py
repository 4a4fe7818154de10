"""Training of biases and factors by compiled mini-batch gradients and Adam.

`FactorTraining` is the training of `FactorModel`, the base class of matrix factorisation and of biases alone.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from truerank.core.errors import check_above, check_at_least, check_choice
from truerank.core.interactions import Interactions
from truerank.core.random import stream
from truerank.core.scorer import Factors
from truerank.core.types import AnyArray, FloatArray, IntArray, frozen
from truerank.models.checks import check_count, check_finite, check_rate
from truerank.models.training import (
    TrainedModel,
    distinct_pairs,
    rated_events,
    sample_negatives,
    shuffled_batches,
)

FactorLoss = Literal["mse", "bpr"]


@dataclass(frozen=True)
class FactorSettings:
    """Hyper-parameters of `FactorTraining`; the fields are those of `MF`."""

    name: str
    loss: FactorLoss
    batch: int
    learning_rate: float
    weight_decay: float
    beta2: float
    offset: float
    factors: int = 0
    dropout: float = 0.0

    def check(self) -> None:
        """Raise unless the settings can be used."""
        check_choice("loss", self.loss, ("mse", "bpr"))
        check_count("batch", self.batch, 1)
        check_above("learning_rate", self.learning_rate, 0)
        check_at_least("weight_decay", self.weight_decay, 0)
        check_rate("beta2", self.beta2)
        for name in ("learning_rate", "weight_decay", "offset"):
            check_finite(name, getattr(self, name))


class FactorTraining:
    """Biases and factors under training; satisfies ``training.Training``.

    Users and items each have one float32 matrix of d factors and a bias. Factors start Xavier-uniform for an
    (n, d) matrix, biases at 0. One thread trains: the result depends on the seed alone.
    """

    def __init__(self, train: Interactions, settings: FactorSettings, seed: int) -> None:
        self.settings, self.seed, self.lists, self.n_items = settings, seed, train.by_user(), train.n_items
        self.value: FloatArray | None = None
        if settings.loss == "mse":
            self.user, self.item, self.value = rated_events(settings.name, train)
        else:
            self.user, self.item = distinct_pairs(train)
        self.users = self._start("users", train.n_users)
        self.items = self._start("items", train.n_items)
        self.users[np.bincount(self.user, minlength=train.n_users) == 0] = 0.0
        if settings.loss == "mse":
            self.items[np.bincount(self.item, minlength=train.n_items) == 0] = 0.0
        self.offset = np.array([settings.offset, 0.0], np.float32)  # the constant and its gradient
        self.gradients = (np.zeros_like(self.users), np.zeros_like(self.items))
        sides = (self.users, self.items, self.offset[:1])
        self.moments = [(np.zeros(side.size, np.float32), np.zeros(side.size, np.float32)) for side in sides]
        self.keep = (1 - settings.dropout) ** 2  # probability that a product of entries is kept
        self.step = 0

    def _start(self, side: str, n: int) -> FloatArray:
        d = self.settings.factors
        matrix = np.zeros((n, d + 1), np.float32)
        bound = math.sqrt(6 / (n + d))
        matrix[:, :d] = stream(self.seed, f"{self.settings.name} {side}").uniform(-bound, bound, (n, d))
        return matrix

    def run_epoch(self, number: int) -> float:
        """Pass over all events once, in random order."""
        rng = stream(self.seed, f"{self.settings.name} epoch", number)
        start = np.uint64(rng.integers(2**63))
        total = 0.0
        if self.value is None:
            negative = sample_negatives(self.lists, self.n_items, self.user, 1, rng)[:, 0]
            for rows in self._batches(rng):
                total += self._pair_step(rows, negative, start)
                start += np.uint64(1)
        else:
            for rows in self._batches(rng):
                total += self._rating_step(rows, self.value, start)
                start += np.uint64(1)
        is_sound = np.isfinite(self.users).all() and np.isfinite(self.items).all()
        return total / len(self.user) if is_sound else math.nan

    def _batches(self, rng: np.random.Generator) -> Iterator[IntArray]:
        return shuffled_batches(len(self.user), self.settings.batch, rng)

    def _pair_step(self, rows: IntArray, negative: IntArray, start: np.uint64) -> float:
        from truerank.models.kernels import pair_gradients

        events = self.user[rows], self.item[rows], negative[rows]
        loss = pair_gradients(*events, self.users, self.items, *self.gradients, self.keep, start)
        self._move()
        return loss

    def _rating_step(self, rows: IntArray, value: FloatArray, start: np.uint64) -> float:
        from truerank.models.kernels import rating_gradients

        events = self.user[rows], self.item[rows], value[rows], self.offset
        loss = rating_gradients(*events, self.users, self.items, *self.gradients, self.keep, start)
        self._move()
        return loss

    def _move(self) -> None:
        from truerank.models.kernels import adam_step

        self.step += 1
        chosen = self.settings
        parts = list(zip((self.users, self.items), self.gradients, strict=True))
        if chosen.loss == "mse":
            parts.append((self.offset[:1], self.offset[1:]))
        for (x, slope), moments in zip(parts, self.moments, strict=False):
            rates = chosen.learning_rate, chosen.weight_decay, chosen.beta2
            adam_step(x.ravel(), slope.ravel(), *moments, self.step, *rates)

    def scorer(self) -> Factors:
        """Return the factors; under mse with one more column, so that scores are ratings."""
        d = self.settings.factors
        user, item = self.users[:, :d], self.items[:, :d]
        if self.settings.loss == "mse":
            level = self.offset[0] + self.users[:, d:]
            user = np.hstack([user, level])
            item = np.hstack([item, np.ones_like(self.items[:, d:])])
        elif d == 0:
            user, item = np.ones_like(self.users), self.items
            return Factors(frozen(user), frozen(item.copy()))
        return Factors(
            frozen(np.ascontiguousarray(user)),
            frozen(np.ascontiguousarray(item)),
            frozen(self.items[:, d].copy()),
        )

    def state(self) -> tuple[AnyArray, ...]:
        """Return a copy of both sides and the constant."""
        return self.users.copy(), self.items.copy(), self.offset.copy()

    def restore(self, state: tuple[AnyArray, ...]) -> None:
        """Go back to such a copy."""
        self.users[:], self.items[:], self.offset[:] = state


class FactorModel(TrainedModel[Factors], ABC):
    """A model that `FactorTraining` trains."""

    def __post_init__(self) -> None:
        self.settings().check()
        super().__post_init__()

    @abstractmethod
    def settings(self) -> FactorSettings:
        """Return the hyper-parameters of the training."""

    def start(self, train: Interactions, seed: int) -> FactorTraining:
        """Return the biases and factors at the start of their training."""
        return FactorTraining(train, self.settings(), seed)
