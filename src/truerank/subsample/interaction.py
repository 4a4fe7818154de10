"""Events at random."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from truerank.core.interactions import Interactions
from truerank.core.progress import Progress
from truerank.core.source import Source
from truerank.core.strategy import Strategy, wanted
from truerank.core.types import BoolArray
from truerank.subsample.key import EventKeys
from truerank.subsample.selection import keep_largest


@dataclass(frozen=True)
class Random(Strategy):
    """Events at random, all equally likely.

    Examples
    --------
    >>> events = Interactions.from_codes([0, 0, 1, 1], [0, 1, 0, 1])
    >>> int(Random().keep(events, 0.5).sum())
    2
    """

    key: ClassVar[str] = "random"
    source: ClassVar[Source] = Source("sachdeva2021", "Sec. 3.2, random interaction")

    def choose(self, train: Interactions, fraction: float, seed: int, progress: Progress) -> BoolArray:
        """Keep the events of largest key."""
        keys = EventKeys(train, seed, "subsample/random")
        return keep_largest(keys.all(), wanted(fraction, len(train)), keys)
