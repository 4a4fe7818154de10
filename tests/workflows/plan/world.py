"""A small world with popular items, and a scorer that counts what it is asked for."""

from __future__ import annotations

import numpy as np

from truerank.core.interactions import Interactions
from truerank.core.split import Split
from truerank.core.types import FloatArray, IntArray

N_USERS, N_ITEMS = 500, 240


def make_world(seed: int = 3, n_targets: int = 1) -> tuple[Split, FloatArray]:
    """Return a split and scores; popular items score high, and targets a little higher."""
    rng = np.random.default_rng(seed)
    popular = 1 / np.arange(3, N_ITEMS + 3)
    items = np.stack(
        [rng.choice(N_ITEMS, 8 + n_targets, replace=False, p=popular / popular.sum()) for _ in range(N_USERS)]
    )
    users = np.arange(N_USERS)
    train = Interactions.from_codes(
        np.repeat(users, 8), items[:, :8].ravel(), n_users=N_USERS, n_items=N_ITEMS
    )
    test = Interactions.from_codes(
        np.repeat(users, n_targets), items[:, 8:].ravel(), n_users=N_USERS, n_items=N_ITEMS
    )
    scores = rng.normal(size=(N_USERS, N_ITEMS)) + 0.8 * np.log(popular / popular.mean())
    scores[test.user, test.item] += 0.7
    return Split(train, test, method="toy"), scores.round(2)  # rounded: some scores tie


class Counting:
    """Scores that must be asked for, one by one; ``is_asked`` marks what was."""

    def __init__(self, scores: FloatArray) -> None:
        self.scores, self.n_items = scores, scores.shape[1]
        self.count = 0
        self.is_asked = np.zeros(scores.shape, np.bool_)

    def score(self, users: IntArray, items: IntArray) -> FloatArray:
        columns = np.broadcast_to(items, (len(users), np.shape(items)[-1]))
        self.count += columns.size
        rows = np.asarray(users)[:, None]
        self.is_asked[rows, columns] = True
        return self.scores[rows, columns]


def few_users(split: Split, n: int) -> Split:
    """Return the split with the test events of the first n users alone."""
    is_first = split.test.user < n
    test = Interactions.from_codes(
        split.test.user[is_first], split.test.item[is_first], n_users=N_USERS, n_items=N_ITEMS
    )
    return Split(split.train, test, method="toy")
