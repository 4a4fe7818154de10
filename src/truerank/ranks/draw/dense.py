"""Comparing targets with growing samples where all scores are stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from truerank.core.errors import InvalidData
from truerank.core.stopping import Stopping
from truerank.core.types import FloatArray, frozen
from truerank.ranks.draw.judge import Judged
from truerank.ranks.kernels.counts import ScoreIsNaN
from truerank.ranks.sampler import Rows

if TYPE_CHECKING:
    from truerank.ranks.draw.sequence import Sequences


class StoredRows:
    """Looks scores up in an array, row by row, in compiled code.

    Parameters
    ----------
    scores : (n_users, n_items) float32 or float64, an array or a memmap
    rows : what is compared
    """

    def __init__(self, scores: FloatArray, rows: Rows) -> None:
        users = rows.queries.users
        if len(users) and users[-1] >= len(scores):
            raise InvalidData(
                f"there must be a row of scores for each user, but user {users[-1]} has none "
                f"({len(scores)} rows). Score the users of this split."
            )
        self.scores, self.rows = frozen(np.asarray(scores)), rows
        self.users = frozen(users.astype(np.int64))
        targets = rows.queries.targets
        owner = np.repeat(users, targets.lengths())
        self.target_scores = self.scores[owner, targets.items]

    def grow(self, start: int, stop: int, sequences: Sequences, stopping: Stopping) -> Judged:
        """Return the counts of the targets of the rows start..stop-1."""
        from truerank.ranks.draw.grow_dense_compiled import grow_dense

        rows = self.rows
        first, last = rows.pairs[[start, stop]]
        above, tied, drawn = np.zeros((3, last - first), np.int64)
        scored = np.zeros(stop - start, np.int64)
        broken = grow_dense(
            start,
            stop,
            *sequences.arguments(stopping),
            rows.pairs,
            self.users,
            self.scores,
            above,
            tied,
            drawn,
            scored,
        )
        if broken >= 0:
            raise ScoreIsNaN(broken - start)
        return Judged(above, tied, drawn, self.target_scores[first:last], int(scored.sum() + last - first))
