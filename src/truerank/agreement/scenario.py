"""What every scenario is: a split, models, metrics, and how a fitted model is judged."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

import numpy as np

from truerank.core.check import check_at_least, check_choice
from truerank.core.interactions import Interactions
from truerank.core.model import Model, Validate
from truerank.core.registry import Plugin
from truerank.core.scorer import Scorer
from truerank.core.split import Split
from truerank.core.strategy import Strategy
from truerank.core.types import FloatArray
from truerank.data import min_history
from truerank.split import make_split

Selection: TypeAlias = Literal["validation", "test"]


@dataclass(frozen=True, eq=False)
class Arena:
    """Where one sub-sample is fitted and judged.

    Parameters
    ----------
    train : what models learn from
    judged : its test events are the targets; its train and validation events are what users have seen
    """

    train: Interactions
    judged: Split

    @property
    def validated(self) -> Split | None:
        """The validation events as targets, None where there are none."""
        if self.judged.valid is None or len(self.judged.valid) == 0:
            return None
        return Split(self.judged.train, self.judged.valid, method=self.judged.method)


@dataclass(frozen=True)
class Scenario(Plugin, ABC):
    """A kind of feedback with its split, models and metrics.

    A subclass has its own default for ``split`` and lists the models of [sachdeva2021]_, Table 2.

    Parameters
    ----------
    split : how events are divided
    least_history : users with fewer events are left out
    selection : the part on which hyper-parameters are chosen; ``test`` is what the published code does
    """

    models: ClassVar[Mapping[str, str]] = {}

    split: str = ""
    least_history: int = 3
    selection: Selection = "validation"

    def __post_init__(self) -> None:
        check_choice("selection", self.selection, ("validation", "test"))
        check_at_least("least_history", self.least_history, 1)

    def divide(self, events: Interactions, seed: int) -> Split:
        """Filter and split the events.

        Raises
        ------
        InvalidData
            When the events lack what the scenario needs.
        """
        self.check(events)
        kept = min_history(events, self.least_history)
        return make_split(kept, self.split, seed=seed)

    def arena(self, full: Split, train: Interactions) -> Arena:
        """Return where a sub-sample of the train events is fitted and judged."""
        return Arena(train, full)

    def adapt_strategy(self, strategy: Strategy) -> Strategy:
        """Return the strategy as this scenario uses it: a proxy learns from the scenario's feedback."""
        return strategy

    def weights(self, targets: Interactions) -> FloatArray:
        """Return what each user's total is divided by, over users with targets."""
        return np.ones(int((targets.user_counts() > 0).sum()))

    @abstractmethod
    def check(self, events: Interactions) -> None:
        """Raise when the events lack what the scenario needs."""

    @abstractmethod
    def metric_names(self) -> tuple[str, ...]:
        """Return the metrics as written."""

    @property
    @abstractmethod
    def higher_is_better(self) -> bool:
        """Whether larger values are better, for all metrics of the scenario."""

    @abstractmethod
    def adapt(self, model: Model) -> Model:
        """Return the model as this scenario trains it.

        Raises
        ------
        InvalidParameter
            When the model cannot be used here.
        """

    @abstractmethod
    def totals(self, scorer: Scorer, judged: Split) -> FloatArray:
        """Return one total per user with test events and metric, (n_users, n_metrics)."""

    @abstractmethod
    def watch(self, arena: Arena) -> Validate | None:
        """Return what early stopping watches; None without validation events."""
