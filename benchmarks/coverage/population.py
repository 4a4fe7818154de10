"""Exact ranks of four models on three data sets: what the intervals should hold."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from truerank.core.checkpoint import Store
from truerank.core.ranks import Ranks
from truerank.core.split import Split
from truerank.data.catalogue import load
from truerank.models.registry import MODELS
from truerank.ranking.exact import exact_ranks
from truerank.split.base import SPLITS

#: per data set its split, and how many test users are taken
DATA = {
    "citeulike-a": ("leave-one-out", 5_551),
    "pinterest-20": ("column(name=ncf_test, train=false, test=true)", 10_000),
    "ml-1m": ("column(name=ncf_split)", 6_040),
}
FITTED = ("popularity", "item-knn", "ease", "ials(factors=32)")
COLUMNS = (
    "user",
    "item",
    "n_above",
    "n_tied",
    "n_pool",
    "n_relevant",
    "n_relevant_above",
    "n_relevant_tied",
)


def population(name: str, model: str, keep: Path | None) -> Ranks:
    """Return exact ranks, from the folder when they were computed before."""
    found = Store(keep).arrays(f"ranks {name} {model}", lambda: _columns(_ranks(name, model)))
    return Ranks(**{column: found[column] for column in COLUMNS})


def _split(name: str) -> Split:
    rule, _ = DATA[name]
    splitter = SPLITS.make(rule)
    return splitter.split(load(name, keep=list(splitter.columns)))


def _ranks(name: str, model: str) -> Ranks:
    split = _split(name)
    ranks = exact_ranks(MODELS.make(model).fit(split.train, seed=0), split)
    return take_users(ranks, np.arange(min(ranks.n_users, DATA[name][1])))


def take_users(ranks: Ranks, users: np.ndarray) -> Ranks:
    """Return the rows of some users, by their place among all."""
    place = np.cumsum(np.diff(ranks.user, prepend=ranks.user[:1]) != 0)
    rows = np.flatnonzero(np.isin(place, users))
    return Ranks(**{column: getattr(ranks, column)[rows] for column in COLUMNS})


def _columns(ranks: Ranks) -> dict[str, np.ndarray]:
    return {column: np.asarray(getattr(ranks, column)) for column in COLUMNS}
