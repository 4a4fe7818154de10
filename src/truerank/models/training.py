"""Training in epochs: early stopping on a validation metric, and the best epoch kept.

What is trained is a `Training`: it runs one epoch, returns its scorer, copies its state and goes back to such
a copy. ``factor_training`` makes one of compiled factor updates, ``torch_training`` one of a torch module;
the loop over epochs knows neither. `TrainedModel` is the base of all models that are fitted this way.

The train events come as sorted arrays, so that the order of the rows cannot matter; negatives are sampled
from the items that a user has not met.
"""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, Self, TypeVar, cast, runtime_checkable

import numpy as np

from truerank.core.checkpoint import must_be_whole
from truerank.core.errors import Interrupted, InvalidData, InvalidParameter, NotConverged
from truerank.core.interactions import Interactions, Lists
from truerank.core.model import (
    Epoch,
    EpochModel,
    InterruptedTraining,
    OnEpoch,
    RestartsValidation,
    Validate,
)
from truerank.core.parallel import even_blocks, run_row_blocks
from truerank.core.progress import SILENT, Progress, ProgressTask, note, tracked
from truerank.core.scorer import Scorer
from truerank.core.types import AnyArray, FloatArray, IntArray
from truerank.models.checks import check_count, check_events

ScorerT = TypeVar("ScorerT", bound=Scorer)


class Training(Protocol):
    """A model under training."""

    def run_epoch(self, number: int) -> float:
        """Run epoch ``number`` (from 1) and return its mean loss, NaN when a parameter is not finite."""

    def scorer(self) -> Scorer:
        """Return the model as it is now."""

    def state(self) -> Any:
        """Return a copy of everything that training changes in the model."""

    def restore(self, state: Any) -> None:
        """Go back to such a copy."""


@dataclass(frozen=True)
class Schedule:
    """Number of epochs, and when training stops early.

    Parameters
    ----------
    epochs : largest number of epochs; without validation all of them are run
    patience : stop after this number of validations without an improvement; None never stops early
    every : epochs between validations; the last epoch is validated too
    first : an epoch that is validated besides, such as 1 where training may be worse than no training; 0 for
        none
    """

    epochs: int
    patience: int | None = 5
    every: int = 1
    first: int = 0

    def __post_init__(self) -> None:
        check_count("epochs", self.epochs, 1)
        check_count("every", self.every, 1)
        check_count("first", self.first, 0)
        if self.patience is not None:
            check_count("patience", self.patience, 1)


class TrainedModel(EpochModel, ABC, Generic[ScorerT]):
    """A model that is fitted in epochs; a subclass makes the `Training` and has the fields of `Schedule`.

    Parameters
    ----------
    epochs, patience, every, first : as in `Schedule`
    """

    epochs: int
    patience: int
    every: int
    first: int

    def __post_init__(self) -> None:
        self.schedule()

    def schedule(self) -> Schedule:
        """Return the schedule of the epochs."""
        return Schedule(self.epochs, self.patience, self.every, self.first)

    @abstractmethod
    def start(self, train: Interactions, seed: int) -> Training:
        """Return the model at the start of its training."""

    def fit(
        self,
        train: Interactions,
        *,
        validate: Validate | None = None,
        seed: int = 0,
        progress: Progress = SILENT,
        on_epoch: OnEpoch | None = None,
    ) -> ScorerT:
        """Train and return the scorer of the best epoch; the progress advances once per epoch."""
        check_events(self.key, train)
        fitted = run_epochs(
            str(self),
            self.start(train, seed),
            self.schedule(),
            validate=validate,
            on_epoch=on_epoch,
            progress=progress,
        )
        return cast(ScorerT, fitted)


def run_epochs(
    label: str,
    training: Training,
    schedule: Schedule,
    *,
    validate: Validate | None = None,
    on_epoch: OnEpoch | None = None,
    progress: Progress = SILENT,
) -> Scorer:
    """Train and return the scorer of the best epoch: the best validated one, else the last.

    ``on_epoch`` is called after every epoch with the scorer of that epoch; the progress shows loss and
    validation. Ctrl-C ends the training early with the best epoch so far, marked as `InterruptedTraining`,
    and a warning `Interrupted`; before the first epoch has ended, and within ``whole_or_nothing``, it is
    raised.

    Parameters
    ----------
    label : spec of the model, for messages and progress
    training : the model under training
    schedule : number of epochs and early stopping
    validate, on_epoch, progress : as in ``EpochModel.fit``

    Raises
    ------
    NotConverged
        When a loss is NaN or infinite; ``last`` is the scorer of the best epoch before, or None.
    """
    if isinstance(validate, RestartsValidation):
        validate.restart()
    run = _EpochLoop(label, training, schedule, validate, on_epoch)
    with tracked(progress, label, schedule.epochs) as task:
        try:
            run.all_epochs(task)
        except KeyboardInterrupt:
            if run.best_epoch == 0 or must_be_whole():
                raise
            interrupted = InterruptedTraining(run.epoch, schedule.epochs, run.best_epoch)
            warnings.warn(f"{label}: {interrupted}.", Interrupted, stacklevel=3)
            scorer = run.best()
            interrupted.mark(scorer)
            return scorer
    return run.best()


class _EpochLoop:
    """One training from start to end."""

    def __init__(
        self,
        label: str,
        training: Training,
        schedule: Schedule,
        validate: Validate | None,
        on_epoch: OnEpoch | None,
    ) -> None:
        self.label, self.training, self.schedule = label, training, schedule
        self.validate, self.on_epoch = validate, on_epoch
        self.epoch = 0  # the current one
        self.best_epoch, self.best_value, self.kept = 0, -math.inf, None
        self.moved = False  # whether the model differs from the kept state

    def all_epochs(self, task: ProgressTask) -> None:
        """Run epochs until the last one or until the patience is exhausted."""
        stale = 0
        while self.epoch < self.schedule.epochs:
            self.epoch += 1
            self.moved = True
            loss = self.training.run_epoch(self.epoch)
            if not math.isfinite(loss):
                raise NotConverged(
                    f"the loss of {self.label} became {loss} in epoch {self.epoch}. Lower learning_rate, or "
                    "check the values of the data.",
                    self.best() if self.best_epoch else None,
                )
            scorer = self.training.scorer() if self._is_watched() else None
            value = self._validated(scorer) if scorer is not None else None
            if value is None:
                if self.best_value == -math.inf:  # nothing is validated so far
                    self._keep(value)
            elif value > self.best_value:
                self._keep(value)
                stale = 0
            else:
                stale += 1
            if scorer is not None and self.on_epoch is not None:
                self.on_epoch(Epoch(self.epoch, loss, value, scorer))
            task.advance()
            note(task, self._summary(loss, value))
            if self.schedule.patience is not None and stale >= self.schedule.patience:
                return

    def best(self) -> Scorer:
        """Go back to the kept state and return its scorer."""
        if self.moved:
            self.training.restore(self.kept)
            self.moved = False
        return self.training.scorer()

    def _is_due(self) -> bool:
        return self.epoch % self.schedule.every == 0 or self.epoch in (
            self.schedule.first,
            self.schedule.epochs,
        )

    def _is_watched(self) -> bool:
        return self.on_epoch is not None or (self.validate is not None and self._is_due())

    def _validated(self, scorer: Scorer) -> float | None:
        if self.validate is None or not self._is_due():
            return None
        value = float(self.validate(scorer))
        if not math.isfinite(value):
            raise InvalidParameter(
                f"validate must return a finite number, got {value} after epoch {self.epoch} of "
                f"{self.label}. Check the validation part."
            )
        return value

    def _summary(self, loss: float, value: float | None) -> str:
        parts = [f"loss {loss:.4g}"]
        if value is not None:
            parts.append(f"validation {value:.4f}")
        if self.best_value > -math.inf:
            parts.append(f"best {self.best_value:.4f} in epoch {self.best_epoch}")
        return ", ".join(parts)

    def _keep(self, value: float | None) -> None:
        self.kept = self.training.state()
        self.best_epoch, self.moved = self.epoch, False
        if value is not None:
            self.best_value = value


@runtime_checkable
class HasArrays(Protocol):
    """A scorer that is nothing but named arrays.

    ``type(x).from_arrays(x.arrays())`` scores like ``x``, bit for bit. ``from_arrays`` raises `InvalidData`
    with one sentence where arrays are missing or do not fit together.
    """

    def arrays(self) -> Mapping[str, AnyArray]:
        """Return the arrays by name."""

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray]) -> Self:
        """Build the scorer from such arrays."""


_BLOCK = 1 << 16  # rows of negatives per call


def distinct_pairs(train: Interactions) -> tuple[IntArray, IntArray]:
    """Return user and item of each distinct pair, sorted, so that the order of the events cannot matter.

    Examples
    --------
    >>> [array.tolist() for array in distinct_pairs(Interactions.from_codes([1, 0, 1], [0, 2, 0]))]
    [[0, 1], [2, 0]]
    """
    lists = train.by_user()
    return np.repeat(np.arange(train.n_users), lists.lengths()), lists.items.astype(np.int64)


def rated_events(model: str, train: Interactions) -> tuple[IntArray, IntArray, FloatArray]:
    """Return user, item and value of every event, sorted by all three; repeated events stay."""
    if train.value is None:
        raise InvalidData(
            f"{model} with loss=mse learns ratings, but the data have no values. Read a rating column, or "
            "use loss=bpr."
        )
    order = np.lexsort((train.value, train.item, train.user))
    user, item = train.user[order].astype(np.int64), train.item[order].astype(np.int64)
    return user, item, train.value[order].astype(np.float32)


def sample_negatives(
    lists: Lists, n_items: int, user: IntArray, n_negatives: int, rng: np.random.Generator
) -> IntArray:
    """Return (len(user), n_negatives) items that each user has not met, uniformly and with replacement.

    A user who has met every item gets any items. The negatives depend on the generator and the index of the
    row, not on threads.
    """
    from truerank.models.kernels import fill_negatives

    out = np.empty((len(user), n_negatives), dtype=np.int64)
    start = np.uint64(rng.integers(2**63))

    def fill(first: int, last: int) -> None:
        fill_negatives(lists.indptr, lists.items, n_items, user[first:last], start, first, out[first:last])

    run_row_blocks(fill, even_blocks(len(user), _BLOCK))
    return out


def shuffled_batches(n: int, size: int, rng: np.random.Generator) -> Iterator[IntArray]:
    """Yield 0..n-1 in random order, cut into batches of ``size``; the last one may be smaller."""
    order = rng.permutation(n)
    for first in range(0, n, size):
        yield order[first : first + size]
