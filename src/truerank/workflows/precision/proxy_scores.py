"""What cheap models, the proxies, say about the items of a user: their scores, and logarithms of these."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.sparse import csr_array

from truerank.core.scorer import Factors, HasFactors, HasSparseRows, Scorer
from truerank.core.types import FloatArray, IntArray

#: Directions of the item factors, at most, that a taste is described in.
MOST_DIRECTIONS = 32
_TINY = 1e-30  # spread of scores that are all alike
_SMALL = 1e-6  # of the largest variance of item factors: a direction below it is rounding


class ProxyScores:
    r"""What several proxies say about pairs: :math:`z_{kui}` and :math:`\pm\log(1 + |z_{kui}|)`.

    z are the scores of proxy k, divided by their spread within user u; 0 where they are all alike, and where
    they are no numbers. A few items often have scores of ten or twenty spreads, and whether the slow model's
    scores grow with these or with their logarithms is different from model to model.

    Parameters
    ----------
    proxies : cheap fitted models
    n_items : size of the catalogue

    Attributes
    ----------
    directions : (n_items, d) item factors of all proxies that have them, shifted and turned so that the
        columns are uncorrelated with mean 0 and variance 1 / d, then shortened to a length below 1; no
        columns where no proxy has factors
    """

    def __init__(self, proxies: Sequence[Scorer], n_items: int) -> None:
        self.n_items, self.n_proxies = n_items, len(proxies)
        self.factors = {
            k: _ScaledFactors(proxy.factors())
            for k, proxy in enumerate(proxies)
            if isinstance(proxy, HasFactors)
        }
        self.others = {k: proxy for k, proxy in enumerate(proxies) if k not in self.factors}
        item = [one.item for one in self.factors.values()] or [np.zeros((n_items, 0), np.float32)]
        self.directions: FloatArray = _shortened(_whitened(np.concatenate(item, axis=1)))

    @property
    def n_features(self) -> int:
        """Numbers that the proxies give for a pair: all scores, then all logarithms."""
        return 2 * self.n_proxies

    def of(self, users: IntArray) -> ProxyRows:
        """Return the scores of some users, to be asked for."""
        return ProxyRows(self, users)


class ProxyRows:
    """Scores of proxies for some users; see ``ProxyScores``."""

    def __init__(self, scores: ProxyScores, users: IntArray) -> None:
        self.scores = scores
        self.user = {k: one.vectors(users) for k, one in scores.factors.items()}
        self.sparse: dict[int, csr_array] = {}
        self.whole: dict[int, FloatArray] = {}
        for k, proxy in scores.others.items():
            if isinstance(proxy, HasSparseRows):
                self.sparse[k] = _scaled_sparse(proxy.sparse_rows(users))
            else:
                self.whole[k] = _scaled(proxy.score(users, np.arange(scores.n_items)))

    def total(self, weights: FloatArray, per_item: FloatArray, tastes: FloatArray) -> FloatArray:
        """Return for all items a weighted sum over proxies, plus a term per item, plus a taste per user.

        Parameters
        ----------
        weights : of the scores of the proxies, then of the logarithms
        per_item : (n_items,)
        tastes : (n_users, d), coefficients of the item directions
        """
        total = np.tile(per_item.astype(np.float32), (len(tastes), 1))
        if tastes.any():  # there are none before anything is learnt
            total += tastes @ self.scores.directions.T
        of_score, of_log = weights.astype(np.float32).reshape(2, -1)
        for k, vectors in self.user.items():
            scores = vectors @ self.scores.factors[k].item.T
            for sums, row in zip(total, scores, strict=True):  # one row at a time stays in the cache
                sums += _weighted(row, of_score[k], of_log[k])
        for k, rows in self.sparse.items():
            at = np.repeat(np.arange(len(total)), np.diff(rows.indptr))
            total[at, rows.indices] += _weighted(rows.data, of_score[k], of_log[k])
        for k, whole in self.whole.items():
            for sums, row in zip(total, whole, strict=True):
                sums += _weighted(row, of_score[k], of_log[k])
        return total

    def at(self, items: IntArray) -> FloatArray:
        """Return (n_users, n, n_features), what the proxies say about n items of each user."""
        found = np.empty((*items.shape, self.scores.n_proxies), np.float32)
        for k, vectors in self.user.items():
            item = self.scores.factors[k].item
            for row, (listed, vector) in enumerate(zip(items, vectors, strict=True)):
                found[row, :, k] = item[listed] @ vector
        dense = np.zeros(self.scores.n_items, np.float32)
        for k, rows in self.sparse.items():
            for row, listed in enumerate(items):
                entries = slice(rows.indptr[row], rows.indptr[row + 1])
                dense[rows.indices[entries]] = rows.data[entries]
                found[row, :, k] = dense[listed]
                dense[rows.indices[entries]] = 0.0
        for k, whole in self.whole.items():
            found[:, :, k] = np.take_along_axis(whole, items, axis=1)
        return np.concatenate([found, _logarithm(found)], axis=2)


class _ScaledFactors:
    """Factors whose products have no larger values than single precision holds."""

    def __init__(self, factors: Factors) -> None:
        self.user_factors, self.has_bias = factors.user, factors.item_bias is not None
        columns = [factors.item] if factors.item_bias is None else [factors.item, factors.item_bias[:, None]]
        item = _numbers(np.concatenate(columns, axis=1))
        self.scale: FloatArray = np.abs(item).max(axis=0, initial=0.0)
        item = item / np.where(self.scale > 0, self.scale, 1.0)
        self.item: FloatArray = item.astype(np.float32)
        self.covariance: FloatArray = np.cov(item, rowvar=False, bias=True).reshape(item.shape[1], -1)

    def vectors(self, users: IntArray) -> FloatArray:
        """Return what gives the scores in units of their spread when it is multiplied by ``item``."""
        user = self.user_factors[users]
        if self.has_bias:
            user = np.concatenate([user, np.ones((len(users), 1))], axis=1)
        with np.errstate(over="ignore"):
            scaled = _numbers(_numbers(user) * self.scale)
        largest = np.abs(scaled).max(axis=1, keepdims=True, initial=0.0)
        scaled = scaled / np.where(largest > 0, largest, 1.0)
        variance = np.einsum("ud,de,ue->u", scaled, self.covariance, scaled, optimize=True)
        spread = np.sqrt(np.maximum(variance, 0.0))[:, None]
        vectors: FloatArray = np.where(spread > _TINY, scaled / np.maximum(spread, _TINY), 0.0)
        return vectors.astype(np.float32)


def _scaled_sparse(rows: csr_array) -> csr_array:
    """Return sparse rows in units of the spread of all their items."""
    found = csr_array(rows).astype(np.float64)
    found.sum_duplicates()
    found.data = _numbers(found.data)
    at = np.repeat(np.arange(found.shape[0]), np.diff(found.indptr))
    largest = np.zeros(found.shape[0])
    np.maximum.at(largest, at, np.abs(found.data))
    found.data = found.data / np.where(largest > 0, largest, 1.0)[at]
    mean = np.bincount(at, found.data, minlength=found.shape[0]) / max(found.shape[1], 1)
    square = np.bincount(at, found.data**2, minlength=found.shape[0]) / max(found.shape[1], 1)
    spread = np.sqrt(np.maximum(square - mean**2, 0.0))
    found.data = np.where(spread > _TINY, 1 / np.maximum(spread, _TINY), 0.0)[at] * found.data
    return found.astype(np.float32)


def _scaled(rows: FloatArray) -> FloatArray:
    """Return whole rows in units of their spread."""
    found = np.array(rows, dtype=np.float32 if rows.dtype == np.float32 else np.float64)
    if not np.isfinite(found).all():
        np.nan_to_num(found, copy=False, nan=0.0, posinf=0.0, neginf=0.0)
    for row in found:  # one row at a time stays in the cache
        largest = max(float(row.max(initial=0.0)), -float(row.min(initial=0.0)))
        row /= largest if largest > 0 else 1.0
        spread = float(row.std())
        row *= 1 / spread if spread > _TINY else 0.0
    return found.astype(np.float32, copy=False)


def _logarithm(scores: FloatArray) -> FloatArray:
    """Return log(1 + |x|), with the sign of x."""
    found = np.abs(scores)
    found += np.float32(1)
    np.log(found, out=found)
    return np.copysign(found, scores, out=found)


def _weighted(scores: FloatArray, of_score: np.float32, of_log: np.float32) -> FloatArray:
    """Return a weighted sum of scores and their logarithms."""
    found = of_log * _logarithm(scores) if of_log else np.zeros_like(scores)
    if of_score:
        found += of_score * scores
    return found


def _numbers(values: FloatArray) -> FloatArray:
    """Return float64 values, 0 where they are no numbers."""
    return np.nan_to_num(values.astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0)


def _whitened(item: FloatArray) -> FloatArray:
    """Return (n_items, d) item factors, turned to uncorrelated columns of mean 0 and variance 1 / d."""
    if item.shape[1] == 0:
        return item
    centred = item.astype(np.float64) - item.mean(axis=0, dtype=np.float64)
    variance, axes = np.linalg.eigh(centred.T @ centred / max(len(item), 1))
    kept = np.argsort(-variance, kind="stable")[:MOST_DIRECTIONS]
    kept = kept[variance[kept] > _SMALL * max(float(variance.max()), _TINY)]
    whitened: FloatArray = centred @ (axes[:, kept] / np.sqrt(variance[kept] * max(len(kept), 1)))
    return whitened.astype(np.float32)


def _shortened(vectors: FloatArray) -> FloatArray:
    r"""Return vectors x of the same directions with the lengths :math:`|x| / \sqrt{1 + |x|^2}`.

    Factors of popular items are often ten or more times as long as those of others, and a taste is known from
    few scores: its error, multiplied by such a length, would send items that many users like to the end of
    the order.

    Examples
    --------
    >>> _shortened(np.array([[0.0, 0.0], [3.0, 4.0]], np.float32)).round(3).tolist()
    [[0.0, 0.0], [0.5879999995231628, 0.7839999794960022]]
    """
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    shortened: FloatArray = vectors / np.sqrt(1 + length**2)
    return shortened.astype(np.float32)
