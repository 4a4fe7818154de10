"""Metrics per user of one model: exact where enough items are scored, upper bounds (ceilings) elsewhere.

An ``AskedModel`` must be called for each score, an ``ExactModel`` is ranked at once. Both answer alike, so
that a sample of users need not know which is which.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from truerank.core.errors import CannotEstimate
from truerank.core.ranks import Ranks, TiePolicy
from truerank.core.types import BoolArray, FloatArray, IntArray
from truerank.metrics.base import Metric
from truerank.metrics.registry import values
from truerank.workflows.precision.finds import FindsForecast
from truerank.workflows.precision.partial_rows import PartialRows
from truerank.workflows.precision.row_parts import FIRST, RowParts, steps_to

_ROUNDING = 1e-9


class ModelValues(Protocol):
    """What a sample of users asks of a model; rows are the users with targets, by their codes."""

    metrics: tuple[Metric, ...]

    @property
    def users(self) -> IntArray:
        """Codes of the users."""

    @property
    def is_open(self) -> BoolArray:
        """Rows whose values are not decided yet."""

    @property
    def n_scores(self) -> int:
        """Scores computed so far."""

    def advance(self, row: IntArray, depth: int | None = None) -> None:
        """Score rows until they are decided, or up to a depth."""

    def values(self, row: IntArray) -> FloatArray:
        """Return values of decided rows, (len(row), n_metrics)."""

    def ceilings(self, row: IntArray) -> FloatArray:
        """Return the largest values that rows can have, (len(row), n_metrics)."""

    def row_scores(self) -> float:
        """Return the mean length of a row: about what it costs to decide a user that screening left open."""


class AskedModel:
    """Values of a model that is called for each score.

    Parameters
    ----------
    rows : partially scored rows of all users
    metrics : with cut-offs up to that of the rows
    ties, seed : as in ``evaluate``
    """

    def __init__(
        self, rows: PartialRows, metrics: Sequence[Metric], *, ties: TiePolicy = "expected", seed: int = 0
    ) -> None:
        self.rows, self.metrics, self.ties, self.seed = rows, tuple(metrics), ties, seed
        self.forecast = FindsForecast()

    @property
    def users(self) -> IntArray:
        """Codes of the users."""
        return self.rows.rows.queries.users

    @property
    def is_open(self) -> BoolArray:
        """Rows whose values are not decided yet."""
        return self.rows.is_open

    @property
    def n_scores(self) -> int:
        """Scores computed so far."""
        return self.rows.n_scores

    def advance(self, row: IntArray, depth: int | None = None) -> None:
        """Score rows until they are decided, or up to a depth."""
        self.rows.advance(row, depth)

    def values(self, row: IntArray) -> FloatArray:
        """Return values of decided rows, (len(row), n_metrics)."""
        return self._values(row, self.ties)

    def ceilings(self, row: IntArray) -> FloatArray:
        """Return the values of rows if nothing that is not scored yet ranks above or with their targets."""
        ceilings = np.ones((len(row), len(self.metrics)))
        if len(row) == 0:
            return ceilings
        # A random order of ties is another one once more items are tied; none is better than the best.
        found = self._values(row, "best" if self.ties == "random" else self.ties)
        cutoff, n_pool = self.rows.cutoff or self.rows.rows.n_items, self.rows.rows.n_items
        falls = np.array([_falls_with_rank(metric, cutoff, n_pool) for metric in self.metrics])
        ceilings[:, falls] = np.minimum(found[:, falls], 1.0)
        return ceilings

    def expected_fall(self, row: IntArray, n_items: FloatArray | IntArray, slope: FloatArray) -> FloatArray:
        """Return about how far the values of rows fall when so many further items of each are scored.

        Parameters
        ----------
        row, n_items : rows, and items of each
        slope : the largest drop per item above the targets of each
        """
        fall: FloatArray = self.forecast.falls * slope * self.forecast.finds(self.rows, row, n_items)
        return fall

    def deepen(self, row: IntArray, depth: IntArray, slope: FloatArray) -> None:
        """Score rows in one pass up to depths of their own, and learn to forecast what passes find."""
        features, before = self.forecast.features(self.rows, row), self.ceilings(row)
        scored, above = self.rows.depth[row], self.rows.found_above(row)
        self.rows.deepen(row, depth)
        found = self.rows.found_above(row) - above
        fallen = (before - np.minimum(before, self.ceilings(row))).max(axis=1)
        self.forecast.learn(
            features, self.rows.depth[row] - scored, found, float(fallen.sum()), float((found * slope).sum())
        )

    def parts(
        self, row: IntArray, within: FloatArray | None = None, importance: FloatArray | None = None
    ) -> RowParts:
        """Return how large a part of each row says how far its value lies below its ceiling.

        Parameters
        ----------
        row : open rows
        within, importance : (len(row), n_metrics) and (n_metrics,) as in ``RowParts.of``
        """
        cutoff = self.rows.cutoff or self.rows.rows.n_items
        order = np.argsort(row, kind="stable")
        ceilings, steps = self.ceilings(row)[order], steps_to(cutoff)
        ranks = self.rows.ranks(row)
        most = ranks.n_pool - ranks.n_tied - 1
        drops = np.empty((len(row), len(self.metrics), len(steps)))
        for at, step in enumerate(steps):
            fallen = replace(ranks, n_above=np.minimum(ranks.n_above + step, most))
            drops[order, :, at] = ceilings - values(self.metrics, fallen, ties=self.ties, seed=self.seed)
        now = values(self.metrics, ranks, ties=self.ties, seed=self.seed)
        is_whole = np.zeros(len(row), np.bool_)
        is_whole[order] = (ceilings > now + _ROUNDING).any(axis=1) | (self.ties == "random")
        drops[:, :, -1] = self.ceilings(row)  # nothing is left where every target is beyond the cut-off
        return RowParts.of(np.maximum(drops, 0.0), steps, is_whole, within, importance)

    def ask_parts(
        self, row: IntArray, share: FloatArray, ceiling: FloatArray, reach: FloatArray
    ) -> FloatArray:
        """Score promising items and random parts of rows; return by how much values are reported to fall.

        Parameters
        ----------
        row : different rows
        share, reach : of the parts that were planned for them, see ``RowParts``
        ceiling : (len(row), n_metrics) what values are reported to lie below
        """
        first = np.where(share < 1, np.ceil(FIRST * share * self.rows.rows.n_free[row]), 0).astype(np.int64)
        self.rows.deepen(row, self.rows.depth[row] + first)
        drop = ceiling - np.minimum(ceiling, self.ceilings(row))
        is_open = self.rows.is_open[row]
        decided, rest = np.flatnonzero(~is_open), np.flatnonzero(is_open & (share < 1))
        if len(rest):
            share = share.copy()
            share[rest] = self.parts(row[rest], reach[rest] - drop[rest]).share
        chance = self.rows.ask_parts(row, share, self.seed)
        shown = np.flatnonzero((chance > 0) & is_open)
        drop[decided] = ceiling[decided] - self.values(row[decided])
        if len(shown):
            below = ceiling[shown] - drop[shown] - self.values(row[shown])
            drop[shown] += below / chance[shown, None]
        return drop

    def row_scores(self) -> float:
        """Return the mean length of a row: about what it costs to decide a user that screening left open."""
        return float(self.rows.rows.n_free.mean())

    def _values(self, row: IntArray, ties: TiePolicy) -> FloatArray:
        """Return values of rows from what is scored of them, in the order of the rows."""
        order = np.argsort(row, kind="stable")
        per_user = np.empty((len(row), len(self.metrics)))
        per_user[order] = values(self.metrics, self.rows.ranks(row), ties=ties, seed=self.seed)
        return per_user


class ExactModel:
    """Values of a model whose ranks are all known, because its scores need no call.

    Parameters
    ----------
    ranks : of all users with targets
    metrics, ties, seed : as for ``AskedModel``
    n_scores : scores that the ranks stand for
    """

    def __init__(
        self,
        ranks: Ranks,
        metrics: Sequence[Metric],
        *,
        ties: TiePolicy = "expected",
        seed: int = 0,
        n_scores: int = 0,
    ) -> None:
        self.metrics, self.n_scores = tuple(metrics), n_scores
        self.users: IntArray = ranks.user[ranks.starts]
        self.per_user = values(self.metrics, ranks, ties=ties, seed=seed)
        self.is_open: BoolArray = np.zeros(len(self.users), np.bool_)

    def advance(self, row: IntArray, depth: int | None = None) -> None:
        """Do nothing: every row is decided."""

    def values(self, row: IntArray) -> FloatArray:
        """Return values of rows, (len(row), n_metrics)."""
        per_user: FloatArray = self.per_user[row]
        return per_user

    def ceilings(self, row: IntArray) -> FloatArray:
        """Return the values, which nothing can change."""
        return self.values(row)

    def row_scores(self) -> float:
        """Return 0: no row is left to score."""
        return 0.0


def _falls_with_rank(metric: Metric, cutoff: int, n_pool: int) -> bool:
    """Whether a target never gains by a lower rank, so that items not scored yet can only take away."""
    try:
        for above in range(3):
            rank = np.arange(above + 1, cutoff + 2)
            gains = metric.gain(
                rank, np.full_like(rank, above), np.full_like(rank, 3), np.full_like(rank, n_pool)
            )
            if (np.diff(gains) > _ROUNDING).any():
                return False
    except CannotEstimate:
        return False
    return True
