"""What a model gets wrong about each event, added up over the epochs of its training."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from truerank.core.errors import NotConverged
from truerank.core.interactions import Interactions
from truerank.core.scorer import Factors, HasFactors, Scorer
from truerank.core.strategy import Auc, Feedback, check_difficulty
from truerank.core.stream import stage_key
from truerank.core.threads import available_threads, ordered_map
from truerank.core.types import FloatArray, IntArray, frozen
from truerank.subsample.key import EventKeys

_STAGE = "subsample/difficulty"
_ENTRIES = 1 << 16  # scores computed at once, per thread
_SCORED = 1 << 14  # the same for scorers without factors, which may need much memory for each


class Difficulty:
    """How hard each event is for a model.

    Under implicit feedback an event is compared with items that its user has not met, drawn anew each time as
    a function of seed, epoch and event. Factor models are scored in compiled code on all cores. Memory: 16
    bytes per event.

    Parameters
    ----------
    train : the events
    feedback, negatives, auc : as in `SvpCf`
    seed : of the draws

    Examples
    --------
    >>> events = Interactions.from_codes([0, 1], [0, 1], value=np.array([3.0, 5.0]))
    >>> difficulty = Difficulty(events, feedback="explicit")
    >>> difficulty.add(Factors(np.ones((2, 1)), np.full((2, 1), 4.0)))
    >>> difficulty.add(Factors(np.ones((2, 1)), np.full((2, 1), 5.0)))
    >>> difficulty.mean().tolist()
    [2.5, 0.5]
    """

    def __init__(
        self,
        train: Interactions,
        *,
        feedback: Feedback = "implicit",
        negatives: int = 1,
        auc: Auc = "complement",
        seed: int = 0,
    ) -> None:
        check_difficulty(feedback, negatives, auc)
        self.train, self.negatives, self.seed = train, negatives, seed
        self.value = np.empty(0) if train.value is None else train.value
        self.is_explicit, self.is_inverse = feedback == "explicit", auc == "inverse"
        self.epochs = 0
        self.total = np.zeros(len(train))
        if not self.is_explicit:
            self.keys, self.met = frozen(EventKeys(train, seed, _STAGE).all()), train.by_user()

    def add(self, scorer: Scorer) -> None:
        """Add what the model gets wrong now; one call per epoch."""
        self.epochs += 1
        if isinstance(scorer, HasFactors):
            work = self._factor_work(scorer.factors())
            n_threads, entries = available_threads(), _ENTRIES
        else:
            work = self._score_work(scorer)
            n_threads, entries = 1, _SCORED
        rows = max(entries // self.negatives, 1)
        blocks = [slice(first, first + rows) for first in range(0, len(self.train), rows)]
        for _ in ordered_map(work, blocks, n_threads=n_threads):
            pass

    def mean(self) -> FloatArray:
        """Return the importance of each event: the mean over what was added.

        Raises
        ------
        NotConverged
            When the model gave scores that are not numbers.
        """
        n_missing = int(np.isnan(self.total).sum())
        if n_missing:
            raise NotConverged(
                f"the proxy must score every event by a number, got NaN for {n_missing} of "
                f"{len(self.train)} events. Lower its learning_rate, such as proxy=mf(learning_rate=0.001).",
                self.total,
            )
        if self.is_inverse:
            return np.where(self.total > 0, np.inf, 1.0)
        return self.total / max(self.epochs * self.negatives, 1)

    def _codes(self, block: slice) -> tuple[IntArray, IntArray]:
        return self.train.user[block].astype(np.int64), self.train.item[block].astype(np.int64)

    def _drawn(self, block: slice, user: IntArray) -> IntArray:
        from truerank.subsample.kernels.difficulty import draw_unmet

        word = np.uint64(stage_key(self.seed, f"{_STAGE}/epoch {self.epochs}")[0])
        out = np.empty((len(user), self.negatives), dtype=np.int64)
        draw_unmet(self.met.indptr, self.met.items, self.train.n_items, user, self.keys[block], word, out)
        return out

    def _factor_work(self, factors: Factors) -> Callable[[slice], None]:
        from truerank.subsample.kernels.difficulty import add_lost, add_squared

        bias = np.zeros(factors.n_items, np.float32) if factors.item_bias is None else factors.item_bias
        u, v, w = (frozen(np.ascontiguousarray(part)) for part in (factors.user, factors.item, bias))

        def work(block: slice) -> None:
            user, item = self._codes(block)
            if self.is_explicit:
                add_squared(user, item, self.value[block].astype(np.float64), u, v, w, self.total[block])
            else:
                drawn = self._drawn(block, user)
                add_lost(user, item, drawn, u, v, w, self.is_inverse, self.total[block])

        return work

    def _score_work(self, scorer: Scorer) -> Callable[[slice], None]:
        def work(block: slice) -> None:
            user, item = self._codes(block)
            if self.is_explicit:
                error = scorer.score(user, item[:, None])[:, 0].astype(np.float64) - self.value[block]
                self.total[block] += error**2
                return
            drawn = self._drawn(block, user)
            scores = scorer.score(user, np.column_stack([item, np.maximum(drawn, 0)]))
            own, others = scores[:, :1], scores[:, 1:]
            lost = (others > own) | (self.is_inverse & (others == own))
            self.total[block] += np.where(drawn >= 0, lost, False).sum(axis=1)
            self.total[block][np.isnan(scores).any(axis=1)] = np.nan

        return work
