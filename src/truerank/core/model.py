"""Models: the hyper-parameters of a recommender, and the epochs in which some of them are trained."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol, TypeAlias, runtime_checkable

from truerank.core.interactions import Interactions
from truerank.core.plugin import Plugin
from truerank.core.progress import SILENT, Progress
from truerank.core.scorer import Scorer

#: How good a scorer is on held-out events; higher is better. What early stopping watches.
Validate: TypeAlias = Callable[[Scorer], float]


@runtime_checkable
class RestartsValidation(Protocol):
    """A `Validate` that remembers what it has seen, such as the best values so far."""

    def restart(self) -> None:
        """Forget it; called when a training starts."""


@dataclass(frozen=True)
class Model(Plugin, ABC):
    """Hyper-parameters of a recommender; ``fit`` returns a scorer and leaves the model as it is.

    ``revision`` grows when the same parameters, data and seed give another fit than before, so that results
    kept from earlier fits are not taken for those of later ones.
    """

    revision: ClassVar[int] = 1

    @abstractmethod
    def fit(
        self,
        train: Interactions,
        *,
        validate: Validate | None = None,
        seed: int = 0,
        progress: Progress = SILENT,
    ) -> Scorer:
        """Learn from the train events.

        Parameters
        ----------
        train : the events
        validate : says after an epoch how good the scorer is; models that train in epochs keep the best one
            and stop when it is long past. Others have no use for it.
        seed : of everything random
        progress : where long jobs report
        """


@dataclass(frozen=True)
class InterruptedTraining:
    """How far a training had come when Ctrl-C ended it; its scorer says so by an attribute ``interrupted``.

    Parameters
    ----------
    epoch : in which it was interrupted
    epochs : that were asked for; early stopping might have ended it before
    kept : the epoch whose scorer was kept, the best so far
    path : the model file that the scorer was read from; empty where it was trained just now

    Examples
    --------
    >>> str(InterruptedTraining(3, 20, 2))
    'training was interrupted in epoch 3 of 20; epoch 2 is kept'
    """

    epoch: int
    epochs: int
    kept: int
    path: str = ""

    def __str__(self) -> str:
        return f"training was interrupted in epoch {self.epoch} of {self.epochs}; epoch {self.kept} is kept"

    def mark(self, scorer: Scorer) -> None:
        """Let a scorer say that its training was interrupted."""
        object.__setattr__(scorer, "interrupted", self)


def interrupted_training(scorer: object) -> InterruptedTraining | None:
    """Return how far the training of a scorer had come when it was interrupted; None where it was not."""
    found = getattr(scorer, "interrupted", None)
    return found if isinstance(found, InterruptedTraining) else None


@dataclass(frozen=True, eq=False)
class Epoch:
    """What is known at the end of an epoch of training.

    Parameters
    ----------
    number : counted from 1
    loss : mean over the epoch
    validation : what ``validate`` said; None where it was not asked
    scorer : the model as it is now; good until the next epoch starts
    """

    number: int
    loss: float
    validation: float | None
    scorer: Scorer


OnEpoch: TypeAlias = Callable[[Epoch], None]


@dataclass(frozen=True)
class EpochModel(Model, ABC):
    """A model that is trained in epochs; a callback sees the scorer after each of them."""

    @abstractmethod
    def fit(
        self,
        train: Interactions,
        *,
        validate: Validate | None = None,
        seed: int = 0,
        progress: Progress = SILENT,
        on_epoch: OnEpoch | None = None,
    ) -> Scorer:
        """Learn from the train events; ``on_epoch`` is called at the end of every epoch."""
