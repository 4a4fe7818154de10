"""Sampled ranks from the definition: Python integers, sets and one loop per row, draw, target and item."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from truerank.core.random import stage_key
from truerank.core.ranks import SeenPolicy
from truerank.core.split import Split

Row = dict[str, int]

_ALL = 2**64 - 1


def mixed(state: int) -> int:
    """The finalizer of SplitMix64."""
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _ALL
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _ALL
    return state ^ (state >> 31)


def literal_words(seed: int, stage: str, user: int, item: int = 0) -> Iterator[int]:
    """The 64-bit words of one user (and item)."""
    golden = 0x9E3779B97F4A7C15
    first, second = stage_key(seed, stage)
    state = mixed(((user + 1) * golden + first) & _ALL)
    state = mixed((state + (item + 1) * golden) & _ALL)
    state = mixed(state ^ second)
    while True:
        state = (state + golden) & _ALL
        yield mixed(state)


def literal_integers(words: Iterator[int], n: int) -> Iterator[int]:
    """Uniform integers below n: both halves of each word, those that would favour some integer left out."""
    for word in words:
        for half in (word >> 32, word & 0xFFFFFFFF):
            whole, fraction = divmod(half * n, 2**32)
            if fraction >= 2**32 % n:
                yield whole


def blocked_items(split: Split, seen: SeenPolicy, user: int) -> tuple[set[int], set[int]]:
    """The targets of a user, and the items that cannot be drawn for it."""
    targets = set(split.test.item[split.test.user == user].tolist())
    known: set[int] = set()
    if seen != "keep":
        known = set(split.train.item[split.train.user == user].tolist())
        if split.valid is not None:
            known |= set(split.valid.item[split.valid.user == user].tolist())
    return targets, targets | known


def literal_uniform(
    words: Iterator[int], n_items: int, blocked: set[int], m: int, *, replacement: bool
) -> list[int]:
    """Uniform negatives of one row, drawn one after another."""
    free = sorted(set(range(n_items)) - blocked)
    left = len(free) if replacement else len(free) - m
    if left * 4 >= n_items:
        drawn: list[int] = []
        for item in literal_integers(words, n_items):
            if item not in blocked and (replacement or item not in drawn):
                drawn.append(item)
            if len(drawn) == m:
                return drawn
    if replacement:
        places = literal_integers(words, len(free))
        return [free[next(places)] for _ in range(m)]
    if m == len(free):
        return free
    keys = sorted((next(words), item) for item in free)
    return sorted(item for _, item in keys[:m])


def literal_counts(
    scores: np.ndarray, split: Split, seen: SeenPolicy, negatives: list[list[int]]
) -> list[Row]:
    """One row of counts per (user, target), given the negatives of each user with targets in turn."""
    rows = []
    left = iter(negatives)
    for user in range(split.train.n_users):
        targets, blocked = blocked_items(split, seen, user)
        known = blocked - targets
        if not targets:
            continue
        drawn = next(left)
        for target in sorted(targets):
            score = scores[user, target]
            relevant_above = sum(scores[user, other] > score for other in targets)
            relevant_tied = sum(scores[user, other] == score for other in targets) - 1
            rows.append(
                {
                    "user": user,
                    "item": target,
                    "n_above": sum(scores[user, item] > score for item in drawn) + relevant_above,
                    "n_tied": sum(scores[user, item] == score for item in drawn) + relevant_tied,
                    "n_pool": split.train.n_items - (len(known) if seen == "remove" else 0),
                    "n_relevant": len(targets),
                    "n_relevant_above": relevant_above,
                    "n_relevant_tied": relevant_tied,
                    "n_negatives": len(drawn),
                    "n_candidates": split.train.n_items - len(blocked),
                }
            )
    return rows
