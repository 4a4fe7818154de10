"""Adaptive samples from the definition: Algorithm 1 of Li et al. (2023), in plain loops."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np

from tests.reference.sampled import Row, blocked_items, literal_integers, mixed
from truerank.core.random import stage_key
from truerank.core.ranks import SeenPolicy
from truerank.core.split import Split

_ALL = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15


def literal_words_from(seed: int, stage: str, user: int, begin: int) -> Iterator[int]:
    """The 64-bit words begin, begin + 1, ... of one user."""
    first, second = stage_key(seed, stage)
    state = mixed(((user + 1) * GOLDEN + first) & _ALL)
    state = mixed((state + GOLDEN) & _ALL)
    state = mixed(state ^ second)
    for j in itertools.count(begin + 1):
        yield mixed((state + j * GOLDEN) & _ALL)


def literal_sequence(
    seed: int, stage: str, user: int, n_items: int, blocked: set[int], first: int, *, replacement: bool
) -> Iterator[int]:
    """The negatives of one user in the order in which rounds take them."""
    words = literal_words_from(seed, stage, user, 0)
    free = sorted(set(range(n_items)) - blocked)
    if replacement:
        if len(free) * 4 < n_items:
            yield from (free[place] for place in literal_integers(words, len(free)))
        yield from (item for item in literal_integers(words, n_items) if item not in blocked)
    head = len(free) - math.ceil(n_items / 4)
    if head < first:
        yield from (item for _, item in sorted((next(words), item) for item in free))
        return
    drawn: list[int] = []
    for item in literal_integers(words, n_items):
        if item not in blocked and item not in drawn:
            drawn.append(item)
            yield item
        if len(drawn) == head:
            break
    rest = [item for item in free if item not in drawn]
    words = literal_words_from(seed, stage, user, 2**40)
    halves = (half for word in words for half in (word >> 32, word & 0xFFFFFFFF))
    for at in range(len(rest)):
        left = len(rest) - at
        half = next(half for half in halves if half * left % 2**32 >= 2**32 % left)
        other = at + half * left // 2**32
        rest[at], rest[other] = rest[other], rest[at]
        yield rest[at]


def literal_adaptive(
    scores: np.ndarray,
    split: Split,
    seen: SeenPolicy,
    *,
    sizes: list[int],
    rank: int,
    replacement: bool,
    seed: int,
    stage: str,
) -> tuple[list[Row], int]:
    """One row of counts per (user, target), and how many scores they need."""
    rows, n_scores = [], 0
    for user in np.unique(split.test.user).tolist():
        targets, blocked = blocked_items(split, seen, user)
        known, n_free = blocked - targets, split.train.n_items - len(blocked)
        drawn: list[int] = []
        left = literal_sequence(
            seed, stage, user, split.train.n_items, blocked, sizes[0], replacement=replacement
        )
        longest = 0
        for target in sorted(targets):
            score, sampled, above = scores[user, target], 0, 0
            for size in sizes:
                sampled = size if replacement else min(size, n_free)
                while len(drawn) < sampled:
                    drawn.append(next(left))
                above = sum(scores[user, item] > score for item in drawn[:sampled])
                if 1 + above > rank:
                    break
            longest = max(longest, sampled)
            relevant_above = sum(scores[user, other] > score for other in targets)
            relevant_tied = sum(scores[user, other] == score for other in targets) - 1
            rows.append(
                {
                    "user": user,
                    "item": target,
                    "n_above": above + relevant_above,
                    "n_tied": sum(scores[user, item] == score for item in drawn[:sampled]) + relevant_tied,
                    "n_pool": split.train.n_items - (len(known) if seen == "remove" else 0),
                    "n_relevant": len(targets),
                    "n_relevant_above": relevant_above,
                    "n_relevant_tied": relevant_tied,
                    "n_negatives": sampled,
                    "n_candidates": n_free,
                }
            )
        n_scores += longest + len(targets)
    return rows, n_scores
