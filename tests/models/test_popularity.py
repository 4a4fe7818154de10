"""Popularity counts events."""

from __future__ import annotations

import numpy as np

from tests.models.literal import small_train
from truerank.core.interactions import Interactions
from truerank.models.popularity import Popularity


def test_score_is_the_number_of_events() -> None:
    """Item 1 has three events (one repeated), item 0 one, item 2 none."""
    train = Interactions.from_codes([0, 0, 1, 1], [1, 1, 1, 0], n_users=3, n_items=3)
    scores = Popularity().fit(train).score(np.arange(3), np.arange(3))
    assert scores.tolist() == [[1.0, 3.0, 0.0]] * 3


def test_counts_are_those_of_the_events() -> None:
    train = small_train()
    scores = Popularity().fit(train).score(np.array([0]), np.arange(train.n_items))
    assert scores[0].tolist() == [np.sum(train.item == item) for item in range(train.n_items)]


def test_large_counts_stay_exact() -> None:
    """2**24 and 2**24 + 1 events differ, which float32 cannot say."""
    item = np.repeat(np.array([0, 1], dtype=np.int8), [2**24, 2**24 + 1])
    train = Interactions.from_codes(np.zeros(len(item), np.int8), item)
    scores = Popularity().fit(train).score(np.array([0]), np.array([0, 1]))
    assert scores.tolist() == [[2**24, 2**24 + 1]]
