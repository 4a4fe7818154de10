"""Sub-sampling strategies: which train events a smaller data set keeps.

A `Strategy` returns a mask over the events for a fraction. A `ProxyStrategy` chooses by the importance of
each event for a small model, the proxy, which ``importance`` fits. `STRATEGIES` lists all of them by name.
"""

from __future__ import annotations

import math
import numbers
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from truerank.core.errors import InvalidData, InvalidParameter, check_choice
from truerank.core.interactions import Interactions
from truerank.core.plugin import Plugin, Registry, Spec
from truerank.core.progress import SILENT, Progress
from truerank.core.random import check_seed
from truerank.core.types import BoolArray, FloatArray

#: What an event says: a rating, or that the user took the item.
Feedback: TypeAlias = Literal["explicit", "implicit"]
#: Fraction of negatives ranked above the event's item, or the formula as printed, a sum of 1 / 0 and 1 / 1.
Auc: TypeAlias = Literal["complement", "inverse"]

_MF = Spec("mf")


@dataclass(frozen=True)
class Strategy(Plugin, ABC):
    """A rule that says for each event whether the smaller data set keeps it."""

    def keep(
        self, train: Interactions, fraction: float, *, seed: int = 0, progress: Progress = SILENT
    ) -> BoolArray:
        """Say which events are kept.

        Parameters
        ----------
        train : the events; a repeated pair counts as often as it occurs
        fraction : of the events to keep, 0 to 1; 0 keeps none and 1 keeps all under every strategy
        seed : of everything random
        progress : where long jobs report

        Returns
        -------
        (n,) true where the event is kept. The same events are kept whatever their order and the number of
        threads. Their number is `nearest_count`, unless the strategy keeps whole users or items or a fraction
        of each history.
        """
        check_fraction(fraction)
        check_seed(seed)
        self.check(train)
        if len(train) == 0 or fraction in (0, 1):
            return np.full(len(train), fraction == 1, dtype=np.bool_)
        return self.choose(train, float(fraction), seed, progress)

    def check(self, train: Interactions) -> None:
        """Raise when the events lack what the strategy needs."""

    @abstractmethod
    def choose(self, train: Interactions, fraction: float, seed: int, progress: Progress) -> BoolArray:
        """Choose among at least one event, for a fraction strictly between 0 and 1."""


@dataclass(frozen=True)
class ProxyStrategy(Strategy):
    """A strategy that keeps the events which a small model, the proxy, predicts worst.

    The strategy does not fit the proxy: ``subsample`` does, and passes the importance of each event to
    ``keep_by``.

    Parameters
    ----------
    proxy : the model whose errors make an event important
    feedback : explicit compares ratings, implicit the scores of items taken and not taken
    negatives : items not taken that each event is compared with in every epoch; for implicit feedback
    auc : complement counts the negatives ranked above the event, inverse is the formula as printed
    legacy : score events while training, as the published code does, and not after each epoch
    """

    proxy: Spec = _MF
    feedback: Feedback = "implicit"
    negatives: int = 1
    auc: Auc = "complement"
    legacy: bool = False

    def __post_init__(self) -> None:
        check_difficulty(self.feedback, self.negatives, self.auc, legacy=self.legacy)

    def keep_by(
        self,
        train: Interactions,
        importance: FloatArray,
        fraction: float,
        *,
        seed: int = 0,
        progress: Progress = SILENT,
    ) -> BoolArray:
        """Say which events are kept, given the importance of each; otherwise as `keep`."""
        check_fraction(fraction)
        check_seed(seed)
        self.check(train)
        check_importance(importance, len(train))
        if len(train) == 0 or fraction in (0, 1):
            return np.full(len(train), fraction == 1, dtype=np.bool_)
        return self.choose_by(train, importance, float(fraction), seed, progress)

    def check(self, train: Interactions) -> None:
        """Raise when ratings are to be compared and there are none."""
        if self.feedback == "explicit" and train.value is None:
            raise InvalidData(
                f"strategy {str(self)!r} compares ratings with those of its proxy, but {train.name!r} has "
                "none. Name the column with columns={'rating': NAME} or use feedback=implicit."
            )

    def choose(self, train: Interactions, fraction: float, seed: int, progress: Progress) -> BoolArray:
        """Raise: without a fitted proxy nothing can be chosen."""
        raise InvalidParameter(
            f"strategy {str(self)!r} needs the importance of each event. Use truerank.subsample, which fits "
            "the proxy, or give importance."
        )

    @abstractmethod
    def choose_by(
        self, train: Interactions, importance: FloatArray, fraction: float, seed: int, progress: Progress
    ) -> BoolArray:
        """Choose among at least one event, for a fraction strictly between 0 and 1."""


def check_difficulty(feedback: str, negatives: int, auc: str, *, legacy: bool = False) -> None:
    """Raise unless these settings define the importance of events."""
    check_choice("feedback", feedback, ("explicit", "implicit"))
    check_choice("auc", auc, ("complement", "inverse"))
    if isinstance(negatives, bool) or not isinstance(negatives, numbers.Integral) or negatives < 1:
        raise InvalidParameter(f"negatives must be an integer >= 1, got {negatives!r}.")
    if feedback == "explicit" and (negatives != 1 or auc != "complement"):
        raise InvalidParameter(
            "negatives and auc belong to feedback=implicit, but feedback is explicit. Leave them out."
        )
    if legacy and (negatives != 1 or auc != "complement"):
        raise InvalidParameter("legacy fixes negatives and auc. Leave them out, or legacy.")


def check_importance(importance: FloatArray, n_events: int) -> None:
    """Raise unless there is one number per event."""
    if np.shape(importance) != (n_events,):
        raise InvalidData(
            f"importance must have one number per event, {n_events} in all, got shape "
            f"{np.shape(importance)}. Compute it on the same train events."
        )
    n_missing = int(np.isnan(importance).sum())
    if n_missing:
        raise InvalidData(
            f"importance must be numbers, got NaN for {n_missing} of {n_events} events. Train the proxy "
            "with a lower learning_rate, such as proxy=mf(learning_rate=0.001)."
        )


def check_fraction(fraction: float) -> None:
    """Raise unless the fraction is a number from 0 to 1."""
    is_number = isinstance(fraction, numbers.Real) and not isinstance(fraction, bool | np.bool_)
    if not is_number or not 0 <= fraction <= 1:
        raise InvalidParameter(
            f"fraction must be a number from 0 to 1, got {fraction!r}. Write 0.1 for a tenth of the events."
        )


def nearest_count(fraction: float, n_events: int) -> int:
    """Return the number of events to keep: the nearest integer, a half to the even one.

    Examples
    --------
    >>> nearest_count(0.1, 1234), nearest_count(0.5, 5)
    (123, 2)
    """
    return round(fraction * n_events)


def largest_count(fraction: float, n_events: int) -> int:
    """Return the largest number of events that is no more than the fraction of all.

    Examples
    --------
    >>> largest_count(0.7, 10), largest_count(0.7, 9)
    (7, 6)
    """
    return math.floor(fraction * n_events + 1e-9)  # 0.7 * 10 must be 7


STRATEGIES: Registry[Strategy] = Registry(
    "strategy",
    {
        "centrality": "truerank.subsampling.graph:Centrality",
        "forest-fire": "truerank.subsampling.graph:ForestFire",
        "head-item": "truerank.subsampling.units:HeadItem",
        "head-user": "truerank.subsampling.units:HeadUser",
        "random": "truerank.subsampling.random:Random",
        "random-item": "truerank.subsampling.units:RandomItem",
        "random-user": "truerank.subsampling.units:RandomUser",
        "random-walk": "truerank.subsampling.graph:RandomWalk",
        "stratified": "truerank.subsampling.random:Stratified",
        "svp-cf": "truerank.subsampling.svp_cf:SvpCf",
        "svp-cf-prop": "truerank.subsampling.svp_cf:SvpCfProp",
        "temporal": "truerank.subsampling.random:MostRecent",
    },
    presets={
        "s21-svp-cf-bias": "svp-cf(proxy=bias)",
        "s21-svp-cf-bias-user": "svp-cf(proxy=bias, unit=user)",
        "s21-svp-cf-mf": "svp-cf(proxy=mf)",
        "s21-svp-cf-mf-user": "svp-cf(proxy=mf, unit=user)",
        "s21-svp-cf-prop-bias": "svp-cf-prop(proxy=bias)",
        "s21-svp-cf-prop-bias-user": "svp-cf-prop(proxy=bias, unit=user)",
        "s21-svp-cf-prop-mf": "svp-cf-prop(proxy=mf)",
        "s21-svp-cf-prop-mf-user": "svp-cf-prop(proxy=mf, unit=user)",
    },
    base=Strategy,
)
