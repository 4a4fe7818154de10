"""Data sets, fitted models and their exact ranks, kept between recipes and between runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from truerank.core.interactions import Interactions
from truerank.core.model import Validate
from truerank.core.progress import SILENT, Progress
from truerank.core.ranks import Ranks, SeenPolicy
from truerank.core.scorer import DenseScores, Scorer
from truerank.core.split import Split
from truerank.core.store import Store
from truerank.data import load
from truerank.evaluation import data_hash
from truerank.models import MODELS
from truerank.ranks import exact_ranks
from truerank.split import SPLITS, make_split
from truerank.validation import make_validate

_COLUMNS = (
    "user",
    "item",
    "n_above",
    "n_tied",
    "n_pool",
    "n_relevant",
    "n_relevant_above",
    "n_relevant_tied",
)
#: scores held as a table, in bytes; a larger one is computed as needed
_LARGEST_TABLE = 2_000_000_000
_BLOCK = 20_000_000  # scores computed at once


class PaperStore(Store):
    """A store that knows how to prepare data and rank models.

    Parameters
    ----------
    folder : where results are kept; None keeps them in memory only
    """

    def __init__(self, folder: Path | None = None) -> None:
        super().__init__(folder)
        self._splits: dict[tuple[str, str], Split] = {}
        self._table: tuple[str, DenseScores] | None = None

    def split(self, dataset: str, split: str) -> Split:
        """Return a data set, split; columns that the split needs are read too."""
        key = (dataset, split)
        if key not in self._splits:
            data: Interactions = load(dataset, keep=SPLITS.make(split).columns)
            self._splits.clear()  # one at a time: the largest ones fill the memory
            self._splits[key] = make_split(data, split)
        return self._splits[key]

    def ranks(
        self,
        dataset: str,
        split: str,
        model: str,
        *,
        seen: SeenPolicy = "remove",
        seed: int = 0,
        progress: Progress = SILENT,
    ) -> Ranks:
        """Return the exact ranks of a model, fitted once."""
        parts = self.split(dataset, split)
        key = f"ranks {dataset} {split} {data_hash(parts)} {MODELS.make(model)} seen={seen} seed={seed}"

        def compute() -> dict[str, np.ndarray]:
            found = exact_ranks(
                self.scorer(dataset, split, model, seed=seed, progress=progress),
                parts,
                seen=seen,
                progress=progress,
            )
            return {name: getattr(found, name) for name in _COLUMNS}

        return Ranks(**self.arrays(key, compute))

    def scorer(
        self, dataset: str, split: str, model: str, *, seed: int = 0, progress: Progress = SILENT
    ) -> Scorer:
        """Return a fitted model as a table of scores, or as it is where the table would be too large."""
        parts = self.split(dataset, split)
        made = MODELS.make(model)
        n_users, n_items = parts.train.n_users, parts.train.n_items
        validate: Validate | None = make_validate(parts)

        def fitted() -> Scorer:
            return made.fit(parts.train, validate=validate, seed=seed, progress=progress)

        if 4 * n_users * n_items > _LARGEST_TABLE:
            return fitted()
        key = f"scores {dataset} {split} {made} {seed}"
        if self._table is None or self._table[0] != key:
            self._table = None  # before the next one is made: the largest ones fill the memory
            self._table = (key, _tabulated(fitted(), n_users))
        return self._table[1]


def _tabulated(scorer: Scorer, n_users: int) -> DenseScores:
    """Return all scores of a model; a table answers any sampler fast and in the same bits."""
    step = max(1, _BLOCK // scorer.n_items)
    table = np.empty((n_users, scorer.n_items), np.float32)
    for start in range(0, n_users, step):
        users = np.arange(start, min(start + step, n_users))
        table[users] = scorer.score(users, np.arange(scorer.n_items))
    return DenseScores(table)
