"""Orders in which a slow model is asked for items: those first that it is expected to rank above a target.

The order decides what an evaluation costs, never what it finds. `PopularFirst` needs nothing but the train
part; `ProxyOrder` asks cheap models that were fitted to it, and learns from the scores of the slow model how
far each of them can be trusted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy.optimize import nnls

from truerank.core.interactions import Interactions
from truerank.core.model import Model
from truerank.core.progress import SILENT, Progress
from truerank.core.scorer import HasFactors, HasSparseRows, Scorer, check_scorer
from truerank.core.split import Split
from truerank.core.types import FloatArray, IntArray
from truerank.models.registry import MODELS
from truerank.workflows.fitting import fit_scorer, model_or_scorer

_TINY = 1e-30  # spread of scores that are all alike
_PRIOR_PAIRS = 50.0  # pairs that the equal weights of the beginning count for


def make_order(
    proxy: Any, split: Split, *, seed: int = 0, progress: Progress = SILENT
) -> tuple[ItemOrder, list[str]]:
    """Return the order that cheap models give, and their names.

    Parameters
    ----------
    proxy : spec strings of models separated by commas, models, scorers that are fitted already, or a list of
        these; ``popularity`` alone is not fitted
    split : its train part is looked at, nothing else
    seed, progress : of the fits
    """
    listed = proxy if isinstance(proxy, list | tuple) else [proxy]
    models = [
        model
        for one in listed
        for model in (MODELS.make_all(one) if isinstance(one, str) else [model_or_scorer(one)])
    ]
    names = [str(model) if isinstance(model, Model) else type(model).__name__ for model in models]
    if names == ["popularity"]:
        return PopularFirst(split.train), names
    fitted = [fit_scorer(model, split, seed=seed, progress=progress) for model in models]
    for scorer in fitted:
        check_scorer(scorer, split)
    return ProxyOrder(fitted, split.train), names


@dataclass(frozen=True, eq=False)
class Asked:
    """Scores that the slow model gave so far.

    Parameters
    ----------
    user, item : (n,) codes; pairs of one user lie together
    score : (n,) what the model said
    features : (n, n_features) what the order knew about the pairs
    """

    user: IntArray
    item: IntArray
    score: FloatArray
    features: FloatArray

    @classmethod
    def none(cls, n_features: int) -> Asked:
        """Return no pairs."""
        empty = np.zeros(0, np.int64)
        return cls(empty, empty, np.zeros(0), np.zeros((0, n_features), np.float32))

    @classmethod
    def joined(cls, parts: Sequence[Asked]) -> Asked:
        """Return all pairs, those of one user together."""
        user = np.concatenate([part.user for part in parts])
        order = np.argsort(user, kind="stable")
        return cls(
            user[order],
            np.concatenate([part.item for part in parts])[order],
            np.concatenate([part.score for part in parts])[order],
            np.concatenate([part.features for part in parts])[order],
        )

    def of(self, users: IntArray) -> Asked:
        """Return the pairs of some users."""
        is_kept = np.isin(self.user, users)
        return Asked(self.user[is_kept], self.item[is_kept], self.score[is_kept], self.features[is_kept])

    def __len__(self) -> int:
        return len(self.user)


class ItemOrder(Protocol):
    """Says which items of a user a slow model probably scores high; wrong answers cost scores, no more.

    The guess for a pair is a weighted sum of what is known about it, its features.
    """

    weights: FloatArray

    @property
    def n_items(self) -> int:
        """Size of the catalogue."""

    def known(self, users: IntArray) -> tuple[FloatArray, ...]:
        """Return the features of all pairs of some users, one (len(users), n_items) array each."""

    def learn(self, new: Asked) -> None:
        """Take in scores that the slow model gave."""


def guesses(order: ItemOrder, users: IntArray) -> tuple[FloatArray, tuple[FloatArray, ...]]:
    """Return the guesses of an order for all pairs of some users, and their features."""
    known = order.known(users)
    guess = np.empty(known[0].shape, known[0].dtype)
    weights = order.weights.astype(guess.dtype)
    for row, *features in zip(guess, *known, strict=True):  # one row at a time stays in the cache
        np.multiply(features[0], weights[0], out=row)
        for feature, weight in zip(features[1:], weights[1:], strict=True):
            if weight:
                row += feature * weight
    return guess, known


def largest_first(guess: FloatArray, n: int) -> IntArray:
    """Return the n items of each row with the largest guesses, falling; of equal ones the lower code first.

    Examples
    --------
    >>> largest_first(np.array([[1.0, 3.0, 2.0, 3.0], [0.0, 0.0, 0.0, 5.0]]), 3).tolist()
    [[1, 3, 2], [3, 0, 1]]
    """
    n = min(n, guess.shape[1])
    largest = np.empty((len(guess), n), np.int64)
    for row, chosen in zip(guess, largest, strict=True):
        least = np.partition(row, len(row) - n)[len(row) - n] if n else np.inf
        items = np.flatnonzero(row >= least)
        chosen[:] = items[np.argsort(-row[items], kind="stable")[:n]]
    return largest


class PopularFirst:
    """Popular items first, the same order for all users; items of equal popularity by their code.

    Parameters
    ----------
    train : events that popularity is counted in
    """

    def __init__(self, train: Interactions) -> None:
        counts = np.bincount(train.item, minlength=train.n_items).astype(np.float64)
        self.weights: FloatArray = np.ones(1)
        self.place: FloatArray = np.empty(train.n_items)
        self.place[np.argsort(-counts, kind="stable")] = -np.arange(train.n_items)

    @property
    def n_items(self) -> int:
        """Size of the catalogue."""
        return len(self.place)

    def known(self, users: IntArray) -> tuple[FloatArray, ...]:
        """Return the place of each item, counted downwards from 0."""
        return (np.broadcast_to(self.place, (len(users), self.n_items)),)

    def learn(self, new: Asked) -> None:
        """Learn nothing."""


class ProxyOrder:
    r"""Items that cheap models score high first; the slow model's scores say how far each is trusted.

    The guess for user u and item i is

    .. math:: \sum_k w_k z_{kui}, \qquad w_k \ge 0

    with z_k the scores of proxy k in units of their spread within the user, and the logarithm of popularity
    as one more of them. The weights begin equal and are fitted by least squares, within users, to all scores
    asked so far. They are not negative: items were asked because guesses were high, and among those a proxy
    that was right about the others would look wrong.

    Parameters
    ----------
    proxies : cheap fitted models
    train : the events they were fitted to
    """

    def __init__(self, proxies: Sequence[Scorer], train: Interactions) -> None:
        self.proxies, self.train = tuple(proxies), train
        counts = np.log1p(np.bincount(train.item, minlength=train.n_items).astype(np.float64))
        self.popularity: FloatArray = ((counts - counts.mean()) / (counts.std() or 1.0)).astype(np.float32)
        self.spread: FloatArray = np.full((len(self.proxies), train.n_users), np.nan)  # of scores, once known
        start = np.array([*(1.0 for _ in self.proxies), 0.0])
        self.weights: FloatArray = start / start.sum()
        self.products: FloatArray = _PRIOR_PAIRS * np.eye(len(start))
        self.moments: FloatArray = _PRIOR_PAIRS * self.weights

    @property
    def n_items(self) -> int:
        """Size of the catalogue."""
        return self.train.n_items

    def known(self, users: IntArray) -> tuple[FloatArray, ...]:
        """Return scores of the proxies in units of their spread, and popularity."""
        found = []
        for k, proxy in enumerate(self.proxies):
            scores = _whole_rows(proxy, users, self.n_items)
            if not np.isfinite(scores).all():
                np.nan_to_num(scores, copy=False, nan=0.0, posinf=0.0, neginf=0.0)
            new = np.flatnonzero(np.isnan(self.spread[k, users]))
            if len(new):
                spread = np.array([_spread(scores[at]) for at in new.tolist()])
                self.spread[k, users[new]] = np.where(spread > _TINY, spread, 1.0)
            scores /= self.spread[k, users, None].astype(np.float32)
            found.append(scores)
        return (*found, np.broadcast_to(self.popularity, (len(users), self.n_items)))

    def learn(self, new: Asked) -> None:
        """Fit the weights to all scores so far."""
        x, y = _within_users(new)
        self.products = self.products + x.T @ x
        self.moments = self.moments + x.T @ y
        # The minimum of |L'w - L^-1 m|^2 is that of w'Pw - 2w'm with P = LL'.
        lower = np.linalg.cholesky(self.products)
        self.weights = nnls(lower.T, np.linalg.solve(lower, self.moments))[0]


def _whole_rows(proxy: Scorer, users: IntArray, n_items: int) -> FloatArray:
    """Return scores of all items as new float32 numbers, in the cheapest way that the proxy offers."""
    with np.errstate(over="ignore", invalid="ignore"):  # what is no number is made one by the caller
        if isinstance(proxy, HasFactors):
            factors = proxy.factors()
            scores = factors.user[users].astype(np.float32) @ factors.item.T.astype(np.float32, copy=False)
            if factors.item_bias is not None:
                scores += factors.item_bias.astype(np.float32)
            return scores
        if isinstance(proxy, HasSparseRows):
            return np.asarray(proxy.sparse_rows(users).astype(np.float32).toarray())
        return np.array(proxy.score(users, np.arange(n_items)), dtype=np.float32)


def _spread(row: FloatArray) -> float:
    """Return the standard deviation, in double precision where squares are too large for single precision."""
    with np.errstate(over="ignore"):
        spread = float(row.std())
    return spread if np.isfinite(spread) else float(row.std(dtype=np.float64))


def _within_users(asked: Asked) -> tuple[FloatArray, FloatArray]:
    """Return features and scores as differences from the user's mean, scores in units of their spread."""
    starts = np.flatnonzero(np.diff(asked.user, prepend=asked.user[:1] - 1))
    counts = np.diff(starts, append=len(asked.user))
    x = asked.features.astype(np.float64)
    y = asked.score.astype(np.float64)
    x = x - np.repeat(np.add.reduceat(x, starts, axis=0) / counts[:, None], counts, axis=0)
    y = y - np.repeat(np.add.reduceat(y, starts) / counts, counts)
    spread = np.sqrt(np.add.reduceat(y**2, starts) / counts)
    return x, y / np.repeat(np.where(spread > 0, spread, 1.0), counts)
