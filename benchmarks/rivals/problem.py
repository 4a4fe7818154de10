"""The jobs, made by truerank."""

from __future__ import annotations

import numpy as np

from benchmarks.rivals.job import Job
from truerank import Split, load, make_split
from truerank.core.interactions import Interactions
from truerank.core.scorer import Factors
from truerank.models.registry import MODELS

WIDTH = 64


def split_of(job: Job) -> Split:
    """Return the job's events as truerank wants them."""
    train, test = (
        Interactions.from_codes(user, item, n_users=job.n_users, n_items=job.n_items)
        for user, item in ((job.seen_user, job.seen_item), (job.target_user, job.target_item))
    )
    return Split(train, test)


def movielens() -> Job:
    """Return iALS with 64 factors on MovieLens-1M, one target per user (split of He et al. 2017)."""
    split = make_split(load("ml-1m", keep=["ncf_split"]), "column(name=ncf_split)")
    model = MODELS.make(f"ials(factors={WIDTH})").fit(split.train, seed=0)
    assert isinstance(model, Factors)
    return _job(model.user, model.item, split.train, split.test)


def wide(n_users: int = 20_000, n_items: int = 50_000) -> Job:
    """Return Gaussian factors with 1 to 10 targets per user, the best of 1,000 random items, and 50 seen."""
    draw = np.random.default_rng(0)
    user, item = (draw.standard_normal((n, WIDTH), dtype=np.float32) for n in (n_users, n_items))
    seen, targets = [], []
    for one in user:
        few = np.unique(draw.integers(0, n_items, 1_000))
        best_first = few[np.argsort(-(item[few] @ one))]
        targets.append(best_first[: draw.integers(1, 11)])
        seen.append(draw.permutation(best_first[10:])[:50])
    return _job(user, item, _events(seen, n_items), _events(targets, n_items))


def tied(n_users: int = 400, n_items: int = 300) -> Job:
    """Return factors that are small whole numbers, so that most scores are shared by many items."""
    draw = np.random.default_rng(0)
    user, item = (
        np.pad(draw.integers(0, 3, (n, 3)), ((0, 0), (0, WIDTH - 3))).astype(np.float32)
        for n in (n_users, n_items)
    )
    seen, targets = [], []
    for one in user:
        shuffled = draw.permutation(n_items)
        liked = shuffled[np.argsort(-(item[shuffled] @ one + draw.normal(0, 2, n_items)))]
        targets.append(liked[: draw.integers(1, 16)])
        seen.append(liked[15:25])
    return _job(user, item, _events(seen, n_items), _events(targets, n_items))


JOBS = {"tied": tied, "ml-1m": movielens, "wide": wide}
TIMED = ("ml-1m", "wide")


def _events(lists: list[np.ndarray], n_items: int) -> Interactions:
    users = np.repeat(np.arange(len(lists)), [len(each) for each in lists])
    return Interactions.from_codes(users, np.concatenate(lists), n_users=len(lists), n_items=n_items)


def _job(user: np.ndarray, item: np.ndarray, train: Interactions, test: Interactions) -> Job:
    seen, targets = train.by_user(), test.by_user()
    assert (targets.lengths() > 0).all(), "every user has a target"
    factors = (np.ascontiguousarray(each, np.float32) for each in (user, item))
    return Job(*factors, *(_list(each) for each in (seen.indptr, seen.items, targets.indptr, targets.items)))


def _list(codes: np.ndarray) -> np.ndarray:
    return np.array(codes, np.int64)
