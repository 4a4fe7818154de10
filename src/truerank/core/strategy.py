"""Strategies: which events of the train data a smaller data set keeps."""

from __future__ import annotations

import math
import numbers
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from truerank.core.errors import InvalidParameter
from truerank.core.interactions import Interactions
from truerank.core.progress import SILENT, Progress
from truerank.core.registry import Plugin
from truerank.core.stream import check_seed
from truerank.core.types import BoolArray


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
        fraction : share of the events to keep, 0 to 1; 0 keeps none and 1 keeps all under every strategy
        seed : of everything random
        progress : where long jobs report

        Returns
        -------
        (n,) true where the event is kept. The same events are kept whatever their order and the number of
        threads; `wanted` says how many, unless the strategy keeps whole users, items or shares.
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


def check_fraction(fraction: float) -> None:
    """Raise unless the fraction is a number from 0 to 1."""
    is_number = isinstance(fraction, numbers.Real) and not isinstance(fraction, bool | np.bool_)
    if not is_number or not 0 <= fraction <= 1:
        raise InvalidParameter(
            f"fraction must be a number from 0 to 1, got {fraction!r}. Write 0.1 for a tenth of the events."
        )


def wanted(fraction: float, n_events: int) -> int:
    """Return the number of events to keep: the nearest integer, a half to the even one.

    Examples
    --------
    >>> wanted(0.1, 1234), wanted(0.5, 5)
    (123, 2)
    """
    return round(fraction * n_events)


def at_most(fraction: float, n_events: int) -> int:
    """Return the largest number of events that is no more than the fraction of all.

    Examples
    --------
    >>> at_most(0.7, 10), at_most(0.7, 9)
    (7, 6)
    """
    return math.floor(fraction * n_events + 1e-9)  # 0.7 * 10 must be 7
