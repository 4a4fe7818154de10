"""What every library is given; runs in their environments, so NumPy and SciPy are all it needs."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

CUTOFF = 10
BLOCK_BYTES = 1 << 25


@dataclass(frozen=True)
class Job:
    """Factors of a dot-product model, seen items and targets of every user.

    Parameters
    ----------
    user, item : (n_users, 64) and (n_items, 64) float32
    seen_start, seen_item : user u has seen ``seen_item[seen_start[u] : seen_start[u + 1]]``
    target_start, target_item : the same for the targets; every user has at least one
    """

    user: np.ndarray
    item: np.ndarray
    seen_start: np.ndarray
    seen_item: np.ndarray
    target_start: np.ndarray
    target_item: np.ndarray

    @classmethod
    def load(cls, path: str | Path) -> Job:
        """Read the file that ``save`` wrote."""
        with np.load(path) as file:
            return cls(**{field.name: file[field.name] for field in fields(cls)})

    def save(self, path: Path) -> None:
        """Write one npz file."""
        np.savez(path, **{field.name: getattr(self, field.name) for field in fields(self)})

    @property
    def n_users(self) -> int:
        """Number of users."""
        return len(self.user)

    @property
    def n_items(self) -> int:
        """Size of the catalogue."""
        return len(self.item)

    @cached_property
    def seen_user(self) -> np.ndarray:
        """The user of every entry of ``seen_item``."""
        return np.repeat(np.arange(self.n_users), np.diff(self.seen_start))

    @cached_property
    def target_user(self) -> np.ndarray:
        """The user of every entry of ``target_item``."""
        return np.repeat(np.arange(self.n_users), np.diff(self.target_start))

    @cached_property
    def seen_matrix(self) -> Any:
        """Seen items as a CSR matrix of float32 ones."""
        return self._matrix(self.seen_start, self.seen_item)

    @cached_property
    def target_matrix(self) -> Any:
        """Targets as a CSR matrix of float32 ones."""
        return self._matrix(self.target_start, self.target_item)

    def _matrix(self, start: np.ndarray, item: np.ndarray) -> Any:
        ones = np.ones(len(item), np.float32)
        matrix = scipy.sparse.csr_matrix((ones, item, start), shape=(self.n_users, self.n_items))
        matrix.sort_indices()
        return matrix

    def best_by_numpy(self) -> tuple[np.ndarray, np.ndarray]:
        """Return items and scores of the ten best of every user, for libraries that do not rank.

        Blocks of a float32 matrix product, seen items at minus infinity, ``argpartition``, the ten sorted.
        """
        items = np.empty((self.n_users, CUTOFF), np.int64)
        scores = np.empty((self.n_users, CUTOFF), np.float32)
        step = max(1, BLOCK_BYTES // (4 * self.n_items))
        block = np.empty((step, self.n_items), np.float32)
        for first in range(0, self.n_users, step):
            last = min(first + step, self.n_users)
            part = np.matmul(self.user[first:last], self.item.T, out=block[: last - first])
            seen = slice(self.seen_start[first], self.seen_start[last])
            part[self.seen_user[seen] - first, self.seen_item[seen]] = -np.inf
            best = np.argpartition(part, -CUTOFF, axis=1)[:, -CUTOFF:]
            found = np.take_along_axis(part, best, axis=1)
            order = np.argsort(-found, axis=1)
            items[first:last] = np.take_along_axis(best, order, axis=1)
            scores[first:last] = np.take_along_axis(found, order, axis=1)
        return items, scores
