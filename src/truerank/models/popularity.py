"""Popularity: the same list for everybody."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from truerank.core.interactions import Interactions
from truerank.core.model import Model, Validate
from truerank.core.plugin import Source
from truerank.core.progress import SILENT, Progress
from truerank.core.scorer import Factors
from truerank.core.types import frozen
from truerank.models.checks import check_events

_EXACT_IN_FLOAT32 = 2**24


@dataclass(frozen=True)
class Popularity(Model):
    r"""Number of train events per item, the same for every user.

    The baseline every other model has to beat. It is written as factors of width one, so that the exact
    ranking of factor models applies. Items without events score 0; equally popular items tie.

    .. math:: \hat y_{ui} = |\{\text{train events with item } i\}|

    Notes
    -----
    Repeated events count each time. Counts are exact: float32 below 2**24 events per item, float64 above.

    Examples
    --------
    >>> train = Interactions.from_codes([0, 1, 1], [2, 2, 0])
    >>> Popularity().fit(train).score(np.array([0]), np.array([0, 1, 2])).tolist()
    [[1.0, 0.0, 2.0]]
    """

    key: ClassVar[str] = "popularity"
    source: ClassVar[Source | None] = Source("cremonesi2010", "Sec. 3.1")

    def fit(
        self,
        train: Interactions,
        *,
        validate: Validate | None = None,
        seed: int = 0,
        progress: Progress = SILENT,
    ) -> Factors:
        """Count the events."""
        check_events(self.key, train)
        counts = train.item_counts()
        dtype = np.float32 if counts.max() < _EXACT_IN_FLOAT32 else np.float64
        return Factors(
            frozen(np.ones((train.n_users, 1), dtype)),
            frozen(counts.astype(dtype)[:, None]),
        )
