"""Split: what a model may learn from and what it is judged on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from truerank.core.errors import InvalidData
from truerank.core.interactions import Interactions


@dataclass(frozen=True, eq=False)
class Split:
    """Train, test and perhaps validation events over the same vocabularies.

    Parameters
    ----------
    train, test, valid : events; no pair of test or valid lies in train, nor one of test in valid
    method : the spec string that made it
    counts : what was left out and why, such as ``users_without_targets``

    Raises
    ------
    InvalidData
        When the parts do not share vocabularies or a pair lies in two parts.
    """

    train: Interactions
    test: Interactions
    valid: Interactions | None = None
    method: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        parts = [("train", self.train), ("test", self.test)]
        if self.valid is not None:
            parts.append(("valid", self.valid))
        keys: dict[str, np.ndarray] = {}
        for name, part in parts:
            if part.users != self.train.users or part.items != self.train.items:
                raise InvalidData(
                    f"{name} must use the vocabularies of train. Read it with vocabularies from train."
                )
            keys[name] = part.user.astype(np.int64) * part.n_items + part.item
        for first, second in (("train", "test"), ("train", "valid"), ("test", "valid")):
            if first in keys and second in keys:
                self._check_disjoint(first, second, keys)

    def _check_disjoint(self, first: str, second: str, keys: Mapping[str, np.ndarray]) -> None:
        small, large = sorted((keys[first], keys[second]), key=len)
        hashed = np.zeros(1 << 22, dtype=np.bool_)  # sieve first: the exact test sorts what passes
        hashed[small & (len(hashed) - 1)] = True
        shared = np.intersect1d(small, large[hashed[large & (len(hashed) - 1)]])
        if len(shared):
            user, item = divmod(int(shared[0]), self.train.n_items)
            raise InvalidData(
                f"{first} and {second} must not share pairs, but {len(shared)} pairs lie in both, such as "
                f"user {self.train.users.decode(np.array([user]))[0]!r} and "
                f"item {self.train.items.decode(np.array([item]))[0]!r}. "
                f"Remove them from one part or merge duplicates before splitting."
            )

    def summary(self) -> dict[str, int | str]:
        """Return the counts a result reports."""
        lengths = self.test.user_counts()
        summary: dict[str, int | str] = {
            "name": self.train.name,
            "split": self.method,
            "n_users": self.train.n_users,
            "n_items": self.train.n_items,
            "n_train": len(self.train),
            "n_valid": 0 if self.valid is None else len(self.valid),
            "n_test": len(self.test),
            "users_with_targets": int((lengths > 0).sum()),
            "users_without_targets": int((lengths == 0).sum()),
        }
        return {**summary, **self.train.origin, **self.counts}
