"""Ratings are to be predicted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from truerank.agreement.scenario import Arena, Scenario
from truerank.core.errors import InvalidData, InvalidParameter
from truerank.core.interactions import Interactions
from truerank.core.model import Model, Validate
from truerank.core.scorer import Scorer
from truerank.core.source import Source
from truerank.core.split import Split
from truerank.core.strategy import ProxyStrategy, Strategy
from truerank.core.types import FloatArray

_BLOCK = 1 << 16
_CAN_RATE = ("bias-only", "mf", "neumf")


@dataclass(frozen=True)
class Explicit(Scenario):
    r"""Predict ratings; mean squared error over test events.

    .. math:: \mathrm{MSE} = \frac{1}{|T|} \sum_{(u, i, r) \in T} (\hat y_{ui} - r)^2

    Parameters
    ----------
    split, least_history, selection : as in every scenario
    """

    key: ClassVar[str] = "explicit"
    source: ClassVar[Source | None] = Source("sachdeva2021", "Sec. 3.1")
    models: ClassVar[Mapping[str, str]] = {
        "bias-only": "s21-bias-only",
        "mf": "s21-mf",
        "neumf": "s21-neumf",
    }

    split: str = "ratio"

    def check(self, events: Interactions) -> None:
        """Ask for ratings."""
        if events.value is None:
            raise InvalidData(
                f"scenario 'explicit' needs a rating for each event, but {events.name!r} has none. Name the "
                "column with --columns rating=NAME or use scenario 'implicit'."
            )

    def metric_names(self) -> tuple[str, ...]:
        """Return the only one."""
        return ("mse",)

    @property
    def higher_is_better(self) -> bool:
        """Errors are better small."""
        return False

    def adapt(self, model: Model) -> Model:
        """Let the model learn ratings."""
        if model.key not in _CAN_RATE:
            raise InvalidParameter(
                f"scenario 'explicit' needs models that predict ratings, but {str(model)!r} does not. "
                f"Use {', '.join(_CAN_RATE)}."
            )
        learns: dict[str, Any] = {"loss": "mse"}
        return replace(model, **learns)

    def adapt_strategy(self, strategy: Strategy) -> Strategy:
        """Let a proxy learn ratings."""
        if not isinstance(strategy, ProxyStrategy):
            return strategy
        return replace(strategy, feedback="explicit", negatives=1, auc="complement")

    def weights(self, targets: Interactions) -> FloatArray:
        """Return the number of targets of each user."""
        counts = targets.user_counts()
        return counts[counts > 0].astype(np.float64)

    def totals(self, scorer: Scorer, judged: Split) -> FloatArray:
        """Return the sum of squared errors of each user."""
        errors = squared_errors(scorer, judged.test)
        sums = np.zeros(judged.test.n_users)
        np.add.at(sums, judged.test.user, errors)
        return sums[judged.test.user_counts() > 0, None]

    def watch(self, arena: Arena) -> Validate | None:
        """Watch the error of the validation events."""
        validated = arena.validated
        if validated is None:
            return None
        return lambda scorer: -float(squared_errors(scorer, validated.test).mean())


def squared_errors(scorer: Scorer, events: Interactions) -> FloatArray:
    """Return the squared error of each event's rating, by blocks."""
    if events.value is None:
        raise InvalidData(f"{events.name!r} must have ratings to compare with, but has none. Read a column.")
    errors = np.empty(len(events))
    for start in range(0, len(events), _BLOCK):
        rows = slice(start, start + _BLOCK)
        users, items = events.user[rows].astype(np.int64), events.item[rows].astype(np.int64)
        found = np.asarray(scorer.score(users, items[:, None]))[:, 0]
        errors[rows] = (found.astype(np.float64) - events.value[rows]) ** 2
    return errors
