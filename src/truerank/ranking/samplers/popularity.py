"""Popularity negatives: items are sampled in proportion to their train counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from truerank.core.errors import InvalidData, InvalidParameter, check_at_least
from truerank.core.split import Split
from truerank.core.types import IntArray
from truerank.ranking.samplers.weighted import WeightedSampler, integer_weights


@dataclass(frozen=True)
class PopularitySampler(WeightedSampler):
    r"""Samples of m items per user, in proportion to a power of the number of train events.

    Common in sequential recommendation, but the sampled rank then depends on which items stand above the
    target and not only on how many: estimators of global metrics do not accept such samples.

    .. math:: P(i) \propto \mathrm{count}(i)^{\mathrm{power}}

    Parameters
    ----------
    power : 1 samples in proportion to train events, 0 uniformly among the items of train

    Notes
    -----
    Without replacement items are sampled successively, each in proportion among those left. Weights are
    integers: exact for power 1, otherwise rounded to one part in 2^52 of the sum, but at least 1.
    Items without train events are no candidates.

    Examples
    --------
    >>> str(PopularitySampler(m=10, power=0.75))
    'popularity(m=10, power=0.75)'
    """

    power: float = 1.0

    key: ClassVar[str] = "popularity"
    law: ClassVar[Literal["popularity", "weighted"]] = "popularity"
    candidates: ClassVar[str] = "unseen items with train events that are not targets"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least("power", self.power, 0)
        if self.power > 16:
            raise InvalidParameter(f"power must be at most 16, got {self.power}. Use for example 1 or 0.75.")

    def weights(self, split: Split) -> IntArray:
        """Return the integer weight of each item."""
        counts = split.train.item_counts().astype(np.int64)
        if not counts.any():
            raise InvalidData(f"{self} must find events in the train part, it has none. Use uniform.")
        if self.power == 1:
            return counts
        return integer_weights(np.where(counts > 0, (counts / counts.max()) ** self.power, 0.0))
