"""Models: hyper-parameters that can be fitted."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from truerank.core.interactions import Interactions
from truerank.core.progress import SILENT, Progress
from truerank.core.registry import Plugin
from truerank.core.scorer import Scorer


@dataclass(frozen=True)
class Model(Plugin, ABC):
    """Hyper-parameters of a recommender; ``fit`` returns a scorer and leaves the model as it is."""

    @abstractmethod
    def fit(self, train: Interactions, *, seed: int = 0, progress: Progress = SILENT) -> Scorer:
        """Learn from the train events."""
