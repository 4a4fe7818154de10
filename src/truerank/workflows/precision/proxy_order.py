"""The order of items that cheap models give, the proxies, corrected by the scores that were asked so far.

Scores of the slow model say how far each proxy can be trusted, which items it likes more than they do, and
in which directions of the item factors the taste of a user differs from what they take it for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from scipy.optimize import nnls

from truerank.core.errors import InvalidParameter
from truerank.core.interactions import Interactions
from truerank.core.model import Model
from truerank.core.progress import SILENT, Progress
from truerank.core.scorer import Scorer, check_scorer
from truerank.core.split import Split
from truerank.core.types import FloatArray, IntArray
from truerank.models.registry import MODELS
from truerank.workflows.fitting import fit_scorer, is_slow, model_or_scorer
from truerank.workflows.precision.item_order import Asked, Guesses, ItemOrder, PopularFirst
from truerank.workflows.precision.proxy_scores import ProxyRows, ProxyScores

_PRIOR_PAIRS = 50.0  # pairs that the equal weights of the beginning count for
_PRIOR_ITEM = 2.0  # scores of an item that its effect of 0 counts for
_PRIOR_TASTE = 3.0  # scores of a user that a taste as the proxies see it counts for
_SWEEPS = 2  # fits of weights and effects, each to what the other leaves over
_GROWN = 1.15  # weights and effects are fitted anew when so many times as many scores are known
_PAIRS_AT_ONCE = 1 << 17  # whose item directions are held


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
    for name, model in zip(names, models, strict=True):
        if is_slow(model):
            raise InvalidParameter(
                f"a proxy must be cheap, because it is asked for every item of many users, but {name} is a "
                "slow model. Name a model that is fitted to the train part, or give its scores as an array."
            )
    if names == ["popularity"]:
        return PopularFirst(split.train), names
    fitted = [fit_scorer(model, split, seed=seed, progress=progress) for model in models]
    for scorer in fitted:
        check_scorer(scorer, split)
    return ProxyOrder.of(fitted, split.train), names


class ProxyOrder:
    r"""Items that cheap models score high first; scores of the slow model correct the guesses.

    The guess for user u and item i is

    .. math:: \sum_k w_k x_{kui} + e_i + t_u \cdot v_i, \qquad w_k \ge 0

    with x what the proxies say (``ProxyScores``), and the logarithm of popularity as one more of them; an
    effect of the item; and a taste of the user in the directions v of the proxies' item factors. It is fitted
    to all scores asked so far as differences from the user's mean, in units of the user's spread, by least
    squares within users, each part to what the others leave over:

    * the weights; at first those of the logarithms alone are not 0, all equal. None is negative: items were
      asked because guesses were high, and among those a proxy that was right about the others would look
      wrong.
    * the effect of an item to its scores by all users, drawn towards 0.
    * the taste of a user to the scores of this user, drawn towards 0.

    Parameters
    ----------
    scores : of the proxies
    popularity : (n_items,) in units of its spread
    n_users : of the train part
    """

    def __init__(self, scores: ProxyScores, popularity: FloatArray, n_users: int) -> None:
        self.scores, self.popularity, self.n_users = scores, popularity, n_users
        n = scores.n_proxies
        self.start: FloatArray = np.array([0.0] * n + [1 / n] * n + [0.0])
        self.weights: FloatArray = self.start
        self.effects: FloatArray = np.zeros(scores.n_items)
        self.tastes: FloatArray = np.zeros((n_users, scores.directions.shape[1]), np.float32)
        self.asked = Asked.none(self.n_features)
        self.n_fitted = 0  # scores that weights and effects were fitted to

    @classmethod
    def of(cls, proxies: Sequence[Scorer], train: Interactions) -> ProxyOrder:
        """Return the order of proxies that were fitted to the train part, before anything is learnt."""
        counts = np.log1p(np.bincount(train.item, minlength=train.n_items).astype(np.float64))
        popularity = ((counts - counts.mean()) / (counts.std() or 1.0)).astype(np.float32)
        return cls(ProxyScores(proxies, train.n_items), popularity, train.n_users)

    def fresh(self) -> ProxyOrder:
        """Return the order of the same proxies, before anything is learnt."""
        return ProxyOrder(self.scores, self.popularity, self.n_users)

    @property
    def n_features(self) -> int:
        """What the proxies say, and popularity."""
        return self.scores.n_features + 1

    def guesses(self, users: IntArray) -> Guesses:
        """Return what is expected of all items of some users."""
        rows = self.scores.of(users)
        per_item = self.weights[-1] * self.popularity + self.effects
        return _ProxyGuesses(
            rows, self.popularity, rows.total(self.weights[:-1], per_item, self.tastes[users])
        )

    def guess_listed(self, users: IntArray, items: IntArray, features: FloatArray) -> FloatArray:
        """Return what is expected of pairs whose features are known."""
        guess: FloatArray = features @ self.weights + self.effects[items] + self._taste_of(users, items)
        return guess

    def learn(self, new: Asked, again: IntArray) -> None:
        """Fit the weights, the effects of items, and the tastes of users who may be asked about again."""
        self.asked = Asked.joined([self.asked, new.where(np.isfinite(new.score))])
        if len(self.asked) >= max(_GROWN * self.n_fitted, 1):
            self._fit_weights_and_effects()
        self._fit_tastes(self.asked.where(np.isin(self.asked.user, again)))

    def _fit_weights_and_effects(self) -> None:
        asked, within = self.asked, _WithinUsers(self.asked.user)
        score, x = within.standard(asked.score), within.centred(asked.features.astype(np.float64))
        score -= within.centred(self._taste_of(asked.user, asked.item))
        products = x.T @ x + _PRIOR_PAIRS * np.eye(self.n_features)
        # The minimum of |L'w - L^-1 m|^2 is that of w'Pw - 2w'm with P = LL'.
        lower = np.linalg.cholesky(products)
        counts = np.bincount(asked.item, minlength=len(self.effects)) + _PRIOR_ITEM
        for _ in range(_SWEEPS):
            effect = self.effects[asked.item]
            moments = x.T @ (score - within.centred(effect)) + _PRIOR_PAIRS * self.start
            self.weights = nnls(lower.T, np.linalg.solve(lower, moments))[0]
            left_over = score - x @ self.weights + within.means(effect)
            self.effects = np.bincount(asked.item, left_over, minlength=len(counts)) / counts
        self.n_fitted = len(asked)

    def _fit_tastes(self, asked: Asked) -> None:
        """Fit the tastes of all users of some pairs."""
        if self.tastes.shape[1] == 0:
            return
        starts = np.flatnonzero(np.diff(asked.user, prepend=-1))
        for block in _blocks(np.append(starts, len(asked)), _PAIRS_AT_ONCE):
            pairs = asked.where(block)
            within = _WithinUsers(pairs.user)
            left_over = within.standard(pairs.score) - within.centred(
                pairs.features @ self.weights + self.effects[pairs.item]
            )
            directions = within.centred(self.scores.directions[pairs.item])
            self.tastes[within.users] = _ridge(
                directions, left_over.astype(np.float32), within.starts, _PRIOR_TASTE
            )

    def _taste_of(self, users: IntArray, items: IntArray) -> FloatArray:
        """Return the part of guesses that the taste of users has."""
        found = np.zeros(len(users))
        for start in range(0, len(items), _PAIRS_AT_ONCE):
            at = slice(start, start + _PAIRS_AT_ONCE)
            directions = self.scores.directions[items[at]]
            found[at] = np.einsum("nd,nd->n", self.tastes[users[at]], directions)
        return found


class _ProxyGuesses:
    """Guesses for all items of some users, and the features behind them."""

    def __init__(self, rows: ProxyRows, popularity: FloatArray, guess: FloatArray) -> None:
        self.rows, self.popularity, self.guess = rows, popularity, guess

    def features(self, items: IntArray) -> FloatArray:
        """Return what the proxies say about items, and their popularity."""
        return np.concatenate([self.rows.at(items), self.popularity[items][..., None]], axis=2)


class _WithinUsers:
    """Pairs of users, those of one user together, and means over the pairs of each.

    Parameters
    ----------
    user : of each pair
    """

    def __init__(self, user: IntArray) -> None:
        self.users, self.starts, self.counts = np.unique(user, return_index=True, return_counts=True)

    def means(self, values: FloatArray) -> FloatArray:
        """Return for each pair the mean over all pairs of its user."""
        if len(values) == 0:
            return values
        counts = self.counts.reshape(-1, *(1 for _ in values.shape[1:]))
        means = np.add.reduceat(values, self.starts, axis=0) / counts
        return np.repeat(means.astype(values.dtype), self.counts, axis=0)

    def centred(self, values: FloatArray) -> FloatArray:
        """Return differences from the means of users."""
        return values - self.means(values)

    def standard(self, values: FloatArray) -> FloatArray:
        """Return differences from the means of users in units of their spread; 0 where that is no number."""
        with np.errstate(all="ignore"):
            centred = self.centred(values)
            found = centred / np.sqrt(self.means(centred**2))
        return np.where(np.isfinite(found), found, 0.0)


def _blocks(starts: IntArray, most: int) -> Iterator[slice]:
    """Yield slices of pairs with at most so many of them, or those of one user; all pairs of a user together.

    Examples
    --------
    >>> list(_blocks(np.array([0, 3, 5, 12, 13]), 5))
    [slice(0, 5, None), slice(5, 12, None), slice(12, 13, None)]
    """
    first = 0
    while first < len(starts) - 1:
        last = max(int(np.searchsorted(starts, starts[first] + most, side="right")) - 1, first + 1)
        yield slice(int(starts[first]), int(starts[last]))
        first = last


def _ridge(x: FloatArray, y: FloatArray, starts: IntArray, penalty: float) -> FloatArray:
    """Return coefficients of one regression per group of rows, which begin at ``starts``, drawn towards 0."""
    left = np.empty((len(starts), x.shape[1], x.shape[1]), x.dtype)
    for at, (start, stop) in enumerate(zip(starts, np.append(starts[1:], len(x)), strict=True)):
        np.matmul(x[start:stop].T, x[start:stop], out=left[at])
    left += x.dtype.type(penalty) * np.eye(x.shape[1], dtype=x.dtype)
    right = np.add.reduceat(x * y[:, None], starts, axis=0)
    found: FloatArray = np.linalg.solve(left, right[:, :, None])[:, :, 0]
    return found
