"""Data sets, fitted models and exact ranks that recipes share, stored between recipes and between runs.

A ``DatasetSetup`` names a data set of a paper with its split and the specs of its models, and says which of
them can be run on this machine. ``PaperStore`` loads, splits, fits and ranks, each once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

import numpy as np

from truerank.core.checkpoint import Store, tell_damaged, whole_or_nothing
from truerank.core.digest import data_hash
from truerank.core.errors import InvalidData
from truerank.core.interactions import Interactions
from truerank.core.model import EpochModel, Model, Validate
from truerank.core.plugin import Spec
from truerank.core.progress import SILENT, Progress
from truerank.core.ranks import Ranks, SeenPolicy
from truerank.core.scorer import DenseScores, Scorer
from truerank.core.split import Split
from truerank.data.catalogue import find_local, load
from truerank.models.registry import MODELS
from truerank.models.saved_scorer import load_scorer, save_scorer
from truerank.ranking.exact import exact_ranks
from truerank.split.base import SPLITS, make_split
from truerank.workflows.fitting import make_validate

#: largest table of scores that is kept, in bytes; beyond it scores are computed as needed
_LARGEST_TABLE = 2_000_000_000
#: bytes of all tables kept between recipes, which use the same models again and again
_HELD_TABLES = 8_000_000_000
_BLOCK = 20_000_000  # scores computed at once


class PaperStore(Store):
    """A store of splits, fitted models and exact ranks.

    Parameters
    ----------
    folder : where results are kept; None keeps them in memory only
    """

    def __init__(self, folder: Path | None = None) -> None:
        super().__init__(folder)
        self._splits: dict[tuple[str, str], Split] = {}
        self._tables: dict[str, DenseScores] = {}

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

        def compute() -> Ranks:
            scorer = self.scorer(dataset, split, model, seed=seed, progress=progress)
            return exact_ranks(scorer, parts, seen=seen, progress=progress)

        return self.ranks_by(key, compute)

    def ranks_by(self, key: str, compute: Callable[[], Ranks]) -> Ranks:
        """Return exact ranks by a key that says everything they depend on, computed once."""
        return Ranks(**self.arrays(key, lambda: compute().columns()))

    def scorer(
        self, dataset: str, split: str, model: str, *, seed: int = 0, progress: Progress = SILENT
    ) -> Scorer:
        """Return a fitted model as a table of scores, or as it is where the table would be too large."""
        parts = self.split(dataset, split)
        instance = MODELS.make(model)
        n_users, n_items = parts.train.n_users, parts.train.n_items
        key = f"fit {dataset} {split} {data_hash(parts)} {instance} seed={seed}"
        if 4 * n_users * n_items > _LARGEST_TABLE:
            return self._fitted(key, instance, parts, seed, progress)
        if key not in self._tables:
            needed = 4 * n_users * n_items
            while (
                self._tables and needed + sum(t.scores.nbytes for t in self._tables.values()) > _HELD_TABLES
            ):
                self._tables.pop(next(iter(self._tables)))  # the oldest
            self._tables[key] = _tabulated(self._fitted(key, instance, parts, seed, progress), n_users)
        return self._tables[key]

    def _fitted(self, key: str, model: Model, parts: Split, seed: int, progress: Progress) -> Scorer:
        """Fit a model; one that trains in epochs is kept as a file."""
        path = self.path_of(key, ".truerank") if isinstance(model, EpochModel) else None
        if path is not None and self.kept_file(key, ".truerank") is not None:
            try:
                kept = load_scorer(path)
            except InvalidData:
                tell_damaged(path)
            else:
                if kept.model == str(model):
                    return kept.scorer
                tell_damaged(path)
        with whole_or_nothing():
            scorer = model.fit(parts.train, validate=make_validate(parts), seed=seed, progress=progress)
        if path is not None:
            save_scorer(path, scorer, model=model)
        return scorer


def _tabulated(scorer: Scorer, n_users: int) -> DenseScores:
    """Return all scores of a model as a table, which serves every sampler with the same bits."""
    step = max(1, _BLOCK // scorer.n_items)
    table = np.empty((n_users, scorer.n_items), np.float32)
    for start in range(0, n_users, step):
        users = np.arange(start, min(start + step, n_users))
        table[users] = scorer.score(users, np.arange(scorer.n_items))
    return DenseScores(table)


#: why a quick run leaves something out
QUICK = "left out of a quick run for the time it takes"
#: why ``--without`` leaves something out
LEFT_OUT = "left out by --without"


@dataclass(frozen=True)
class DatasetSetup:
    """One data set of a paper with its models.

    Parameters
    ----------
    dataset, split : what ``load`` and ``make_split`` take
    models : the paper's name of a model to its spec
    slow : models that a quick run leaves out
    """

    dataset: str
    split: str
    models: Mapping[str, str]
    slow: tuple[str, ...] = ()

    @property
    def is_available(self) -> bool:
        """Whether the data set lies on this machine."""
        return find_local(self.dataset) is not None

    def missing(self, model: str, *, quick: bool = False, without: Sequence[str] = ()) -> str:
        """Return why a model cannot be run here or is left out, '' if it is run."""
        if model in without or f"{self.dataset}:{model}" in without:
            return LEFT_OUT
        if not self.is_available:
            return f"data set {self.dataset} is not at hand"
        instance = MODELS.make(self.models[model])
        if isinstance(instance, EpochModel) and find_spec("torch") is None:
            return f"model {model} needs torch: pip install 'truerank[torch]'"
        return QUICK if quick and model in self.slow else ""

    def fitted(
        self, store: PaperStore, seed: int, *, quick: bool = False, without: Sequence[str] = ()
    ) -> dict[str, Model]:
        """Return the models that can be run here and are not left out, by the paper's names."""
        return {
            name: StoredModel(self.dataset, self.split, spec, seed, store)
            for name, spec in self.models.items()
            if not self.missing(name, quick=quick, without=without)
        }


@dataclass(frozen=True, eq=False)
class StoredModel(Model):
    """A model whose scores a store keeps, so that several recipes share one fit."""

    dataset: str = ""
    split: str = ""
    model: str = ""
    seed: int = 0
    store: PaperStore | None = None
    key: ClassVar[str] = "fitted"

    def spec(self) -> Spec:
        """Return the spec of the model itself."""
        return MODELS.make(self.model).spec()

    def fit(
        self,
        train: Interactions,
        *,
        validate: Validate | None = None,
        seed: int = 0,
        progress: Progress = SILENT,
    ) -> Scorer:
        """Return the scores from the store; the seed of the recipe counts."""
        store = self.store or PaperStore()
        return store.scorer(self.dataset, self.split, self.model, seed=self.seed, progress=progress)
