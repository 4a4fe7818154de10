"""What the scenarios share in which items are ranked."""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np

from truerank.agreement.scenario import Arena, Scenario
from truerank.core.check import check_choice
from truerank.core.interactions import Interactions
from truerank.core.model import Model, Validate
from truerank.core.scorer import Scorer
from truerank.core.split import Split
from truerank.core.types import BoolArray, FloatArray
from truerank.core.vocabulary import Vocabulary
from truerank.metrics import make_metrics, values
from truerank.ranks import exact_ranks
from truerank.validation import make_validate

Catalogue: TypeAlias = Literal["full", "surviving"]


@dataclass(frozen=True)
class Ranked(Scenario, ABC):
    """Rank all items that a user has not seen.

    Parameters
    ----------
    metrics : of ranks, separated by commas; the defaults are those of [sachdeva2021]_
    stop : the metric that early stopping watches
    catalogue : ``full`` keeps the pool of every user as it is on the full data: all items, without those of
        the user's full train and validation events, so that values are comparable. ``surviving`` is what the
        published code does: items that are left in no part leave the catalogue, and train events that were
        sampled away count as not seen
    """

    metrics: str = "auc,recall(norm=min)@100,ndcg@10"
    stop: str = "ndcg@10"
    catalogue: Catalogue = "full"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("catalogue", self.catalogue, ("full", "surviving"))
        make_metrics(self.metrics)
        make_metrics(self.stop)

    def check(self, events: Interactions) -> None:
        """Need nothing but events."""

    def metric_names(self) -> tuple[str, ...]:
        """Return the metrics as written."""
        return tuple(str(metric) for metric in make_metrics(self.metrics))

    @property
    def higher_is_better(self) -> bool:
        """All metrics of ranks are better large."""
        return True

    def adapt(self, model: Model) -> Model:
        """Take the model as it is: every model ranks."""
        return model

    def arena(self, full: Split, train: Interactions) -> Arena:
        """Keep the catalogue, or shrink it to what is left."""
        if self.catalogue == "full" or train is full.train:
            return Arena(train, full)
        parts = [train, full.test, *([] if full.valid is None else [full.valid])]
        alive = np.sum([part.item_counts() for part in parts], axis=0) > 0
        vocabulary = Vocabulary(train.items.take(np.flatnonzero(alive)))
        kept = [_recoded(part, alive, vocabulary) for part in parts]
        valid = None if full.valid is None else kept[2]
        return Arena(kept[0], Split(kept[0], kept[1], valid, method=full.method))

    def totals(self, scorer: Scorer, judged: Split) -> FloatArray:
        """Return the value of each user."""
        return values(make_metrics(self.metrics), exact_ranks(scorer, judged, n_threads=1))

    def watch(self, arena: Arena) -> Validate | None:
        """Watch one metric on the validation events."""
        return make_validate(arena.judged, self.stop, n_threads=1)


def _recoded(events: Interactions, alive: BoolArray, vocabulary: Vocabulary) -> Interactions:
    codes = np.cumsum(alive) - 1
    return replace(events, item=codes[events.item], items=vocabulary)
