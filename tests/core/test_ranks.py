"""Rank tables refuse what cannot be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from truerank.core.distribution import RankDistribution
from truerank.core.errors import InvalidData
from truerank.core.ranks import Design, Ranks, SampledRanks


def table(**changes: Any) -> Ranks:
    columns: dict[str, Any] = {
        "user": [0, 0, 4],
        "item": [1, 2, 0],
        "n_above": [0, 2, 5],
        "n_tied": [1, 0, 0],
        "n_pool": [9, 9, 8],
        "n_relevant": [2, 2, 1],
        "n_relevant_above": [0, 1, 0],
        "n_relevant_tied": [0, 0, 0],
    }
    columns.update(changes)
    return Ranks(**{name: np.asarray(column) for name, column in columns.items()})


def test_best_and_worst_ranks() -> None:
    ranks = table()
    assert (ranks.best.tolist(), ranks.worst.tolist()) == ([1, 3, 6], [2, 3, 6])
    assert (ranks.starts.tolist(), ranks.n_users, len(ranks)) == ([0, 2], 2, 3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_above": [0, 2, 8]}, "n_above \\+ n_tied must be smaller than n_pool, but row 2"),
        ({"n_above": [-1, 2, 5]}, "n_above must be >= 0, but row 0"),
        ({"n_tied": [1, -1, 0]}, "n_tied must be >= 0, but row 1"),
        ({"n_relevant_above": [1, 1, 0]}, "n_relevant_above must be at most n_above, but row 0"),
        ({"n_relevant": [2, 1, 1]}, "n_relevant must count more targets"),
        ({"n_relevant_tied": [0, 1, 0]}, "n_relevant_tied must be at most n_tied, but row 1"),
        ({"n_above": [0.0, 2.0, 5.0]}, "n_above must be one integer per row"),
        ({"n_above": [0, 2]}, "n_above must be one integer per row"),
        ({"user": [0, 4, 0]}, "rows of one user must lie together"),
    ],
)
def test_impossible_rows(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidData, match=message):
        table(**changes)


def test_empty_tables_are_allowed() -> None:
    assert Ranks.single([], n_pool=5).n_users == 0


def test_sampled_rank_cannot_exceed_its_sample() -> None:
    ranks = Ranks.single([0, 7], n_pool=100)
    assert len(SampledRanks(ranks, np.array([9, 9]))) == 2
    with pytest.raises(InvalidData, match="at most n_negatives \\+ 1, but row 1"):
        SampledRanks(ranks, np.array([9, 6]))


def test_sample_cannot_exceed_the_pool_without_replacement() -> None:
    ranks = Ranks.single([0], n_pool=10)
    SampledRanks(ranks, np.array([9]))
    SampledRanks(ranks, np.array([20]), Design(replacement=True))
    with pytest.raises(InvalidData, match="without replacement"):
        SampledRanks(ranks, np.array([10]))


@pytest.mark.parametrize(
    ("weights", "signed", "message"),
    [
        ([0.5, 0.6], False, "must sum to 1"),
        ([1.5, -0.5], False, "must be >= 0"),
        ([np.nan, 1.0], True, "finite"),
        ([], True, "non-empty"),
    ],
)
def test_distribution_weights(weights: list[float], signed: bool, message: str) -> None:
    with pytest.raises(InvalidData, match=message):
        RankDistribution(np.array(weights), "x", signed=signed)


def test_signed_distribution() -> None:
    assert RankDistribution(np.array([1.5, -0.5]), "bv", signed=True).n_pool == 2
