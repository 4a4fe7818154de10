"""A small catalogue with ids of text, and what a slow model says about it."""

from __future__ import annotations

import numpy as np

from truerank.core.interactions import Interactions, Vocabulary
from truerank.core.split import Split
from truerank.core.types import FloatArray, IntArray

N_USERS, N_ITEMS = 7, 11


def make_split(shift: int = 0, prefix: str = "u") -> Split:
    """Return a train and a test event per user; ``shift`` moves the targets, ``prefix`` renames the users."""
    users = Vocabulary.of([f"{prefix}{at}" for at in range(N_USERS)])
    items = Vocabulary.of([f"i{at:02}" for at in range(N_ITEMS)])
    code = np.arange(N_USERS)
    train = Interactions(code, code % N_ITEMS, users, items, name="small")
    test = Interactions(code, (code + 2 + shift) % N_ITEMS, users, items, name="small")
    return Split(train, test, method="toy")


def true_score(user: str, item: str) -> float:
    """What the model says of a pair of ids."""
    return float(int(user[-1]) * 7 % 5 + 0.1 * (int(item[1:]) * 3 % 11))


def score_pairs(users: list[str], items: list[str]) -> list[float]:
    """The model as a function of pairs."""
    return [true_score(user, item) for user, item in zip(users, items, strict=True)]


def table() -> FloatArray:
    """All scores."""
    return np.array([[true_score(f"u{u}", f"i{i:02}") for i in range(N_ITEMS)] for u in range(N_USERS)])


def all_pairs() -> tuple[IntArray, IntArray]:
    """All users and items, as codes."""
    return np.repeat(np.arange(N_USERS), N_ITEMS), np.tile(np.arange(N_ITEMS), N_USERS)
