"""What models of biases and factors have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import cast

from truerank.core.interactions import Interactions
from truerank.core.model import EpochModel, OnEpoch, Validate
from truerank.core.progress import SILENT, Progress
from truerank.core.scorer import Factors
from truerank.models.check import check_events
from truerank.models.neural.factor import FactorSettings, FactorTraining
from truerank.models.neural.trainer import Schedule
from truerank.models.neural.trainer import train as run


class FactorModel(EpochModel, ABC):
    """A model that `FactorTraining` trains.

    Parameters
    ----------
    epochs, patience, every : as in ``Schedule``
    """

    epochs: int
    patience: int
    every: int

    def __post_init__(self) -> None:
        self.settings().check()
        self._schedule()

    @abstractmethod
    def settings(self) -> FactorSettings:
        """Return what the training needs to know."""

    def fit(
        self,
        train: Interactions,
        *,
        validate: Validate | None = None,
        seed: int = 0,
        progress: Progress = SILENT,
        on_epoch: OnEpoch | None = None,
    ) -> Factors:
        """Train; the progress advances once per epoch."""
        check_events(self.key, train)
        training = FactorTraining(train, self.settings(), seed)
        fitted = run(
            str(self), training, self._schedule(), validate=validate, on_epoch=on_epoch, progress=progress
        )
        return cast(Factors, fitted)

    def _schedule(self) -> Schedule:
        return Schedule(self.epochs, self.patience, self.every)
