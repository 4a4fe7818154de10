"""Slow, literal twins of the models, from their definitions, and small train sets."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from truerank.core.interactions import Interactions

Matrix = NDArray[np.float64]


def small_train(seed: int = 0, *, n_users: int = 40, n_items: int = 23, density: float = 0.2) -> Interactions:
    """Random events in random order, some repeated; user 3 and item 5 have none."""
    rng = np.random.default_rng(seed)
    hit = rng.random((n_users, n_items)) < density * rng.random(n_items) * 2
    hit[0, 0] = True
    hit[3], hit[:, 5] = False, False
    user, item = np.nonzero(hit)
    twice = rng.integers(len(user), size=len(user) // 5)
    order = rng.permutation(len(user) + len(twice))
    user, item = np.append(user, user[twice])[order], np.append(item, item[twice])[order]
    return Interactions.from_codes(user, item, n_users=n_users, n_items=n_items)


def dense(train: Interactions) -> Matrix:
    """The binary matrix X."""
    matrix = np.zeros((train.n_users, train.n_items))
    matrix[train.user, train.item] = 1.0
    return matrix


def item_knn(
    train: Interactions,
    *,
    power: float = 1,
    neighbours: int | None = None,
    keep: str = "row",
    norm: str | None = None,
    include_self: bool = False,
    shrink: float = 0,
) -> Matrix:
    """Scores of item-knn by loops; neighbours are chosen by exact fractions (where nothing is shrunk)."""
    X = dense(train)
    n = train.n_items
    both = X.T @ X
    s, order = np.zeros((n, n)), {}
    for i in range(n):
        for j in range(n):
            if both[i, j] > 0 and (i != j or include_self):
                s[i, j] = both[i, j] / (np.sqrt(both[i, i] * both[j, j]) + shrink)
                order[i, j] = Fraction(int(both[i, j]) ** 2, int(both[i, i] * both[j, j]))
                if shrink:
                    order[i, j] = Fraction(s[i, j])
    mask = np.ones((n, n), dtype=bool)
    if neighbours is not None:
        mask[:] = False
        for a in range(n):
            rivals = [b for b in range(n) if (a, b) in order]
            for b in sorted(rivals, key=lambda b: (-order[a, b], b))[:neighbours]:
                if keep == "row":
                    mask[a, b] = True
                else:
                    mask[b, a] = True
    s = np.where(mask, s, 0.0) ** power
    for i in range(n):
        size = {None: 1.0, "l1": s[i].sum(), "l2": np.sqrt((s[i] ** 2).sum())}[norm]
        s[i] /= size if size > 0 else 1.0
    scores = np.zeros(X.shape)
    for u in range(train.n_users):
        for i in range(n):
            scores[u, i] = sum(s[i, j] for j in range(n) if X[u, j])
    return scores


def ease(train: Interactions, reg: float) -> Matrix:
    """The item-item matrix B of EASE by the explicit inverse."""
    X = dense(train)
    P = np.linalg.inv(X.T @ X + reg * np.eye(train.n_items))
    B = -P / np.diag(P)
    np.fill_diagonal(B, 0.0)
    return np.asarray(B)


def ials_side(X: Matrix, fixed: Matrix, *, reg: float, alpha: float, exponent: float = 0) -> Matrix:
    """One least-squares step by the normal equations; rows of X belong to what is solved for."""
    out = np.zeros((len(X), fixed.shape[1]))
    for row, line in enumerate(X):
        mine = fixed[line > 0]
        weight = reg * (len(mine) + alpha * len(fixed)) ** exponent
        system = mine.T @ mine + alpha * fixed.T @ fixed + weight * np.eye(fixed.shape[1])
        out[row] = np.linalg.solve(system, mine.sum(axis=0))
    return out


def ials_loss(
    X: Matrix, user: Matrix, item: Matrix, *, reg: float, alpha: float, exponent: float = 0
) -> float:
    """The loss of ials, summed over every pair."""
    scores = user @ item.T
    reg_user = reg * (X.sum(axis=1) + alpha * X.shape[1]) ** exponent
    reg_item = reg * (X.sum(axis=0) + alpha * X.shape[0]) ** exponent
    return float(
        (X * (scores - 1) ** 2).sum()
        + alpha * (scores**2).sum()
        + (reg_user * (user**2).sum(axis=1)).sum()
        + (reg_item * (item**2).sum(axis=1)).sum()
    )
