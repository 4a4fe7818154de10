"""Rank tables refuse what cannot be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from truerank.core.errors import InvalidData
from truerank.core.provenance import ranks_hash
from truerank.core.ranks import Design, RankDistribution, Ranks, SampledRanks


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


def sampled(**changes: Any) -> SampledRanks:
    """One user with two targets among 9 negatives drawn from 98 of 100 items."""
    columns: dict[str, Any] = {
        "user": [0, 0],
        "item": [1, 2],
        "n_above": [3, 10],
        "n_tied": [0, 0],
        "n_pool": [100, 100],
        "n_relevant": [2, 2],
        "n_relevant_above": [0, 1],
        "n_relevant_tied": [0, 0],
        "n_negatives": [9, 9],
        "n_candidates": [98, 98],
    }
    replacement = changes.pop("replacement", False)
    columns.update(changes)
    return SampledRanks(
        **{name: np.asarray(column) for name, column in columns.items()},
        design=Design(replacement=replacement),
    )


def test_sampled_ranks_count_users_and_rows() -> None:
    assert (len(sampled()), sampled().n_users, sampled().starts.tolist()) == (2, 1, [0])
    single = SampledRanks.single([0, 7], n_negatives=9, n_pool=100)
    assert single.n_candidates.tolist() == [99, 99]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_above": [3, 11]}, r"at most n_negatives \+ 1, but row 1"),
        ({"n_above": [9, 10], "n_tied": [1, 0]}, r"at most n_negatives \+ 1, but row 0"),
        ({"n_above": [-1, 10]}, "a sampled rank must be >= 1, but row 0"),
        ({"n_negatives": [0, 9], "n_above": [0, 10]}, "n_negatives must be >= 1, but row 0"),
        ({"n_candidates": [98, 99]}, "at most the irrelevant items of the pool, but row 1"),
        ({"n_candidates": [8, 98]}, "without replacement n_negatives must be at most the candidates"),
        ({"n_relevant": [2, 1]}, "n_relevant must count more targets"),
        ({"n_negatives": [9.5, 9]}, "n_negatives must be one integer per row"),
    ],
)
def test_impossible_samples(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidData, match=message):
        sampled(**changes)


def test_with_replacement_a_sample_may_exceed_its_candidates() -> None:
    assert len(sampled(n_negatives=[500, 500], n_above=[300, 400], replacement=True)) == 2


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


@pytest.mark.parametrize(
    "plain",
    [Ranks.single([0, 3], n_pool=9), SampledRanks.single([0, 3], n_pool=9, n_negatives=4)],
    ids=["exact", "sampled"],
)
def test_gains_are_a_column_where_there_are_any(plain: Ranks | SampledRanks) -> None:
    """A table without grades has no such column, and the digest it always had."""
    graded = replace(plain, gain=np.array([2, 0.5]))
    assert plain.gain is None and "gain" not in plain.columns()
    assert graded.columns()["gain"].tolist() == [2.0, 0.5]
    assert not graded.columns()["gain"].flags.writeable
    assert graded.take(np.array([False, True])).columns()["gain"].tolist() == [0.5]
    assert graded.to_polars()["gain"].to_list() == [2.0, 0.5]
    assert ranks_hash(graded) != ranks_hash(plain) == ranks_hash(replace(graded, gain=None))


@pytest.mark.parametrize(
    ("gain", "sentence"),
    [
        ([1.0, 0.0], "gain of a target must be a number above 0, but row 1 .* has 0"),
        ([-1.0, 1.0], "but row 0 .* has -1"),
        ([1.0, np.nan], "but row 1 .* has nan"),
        ([np.inf, 1.0], "but row 0 .* has inf"),
        ([1.0], "gain must be one number per row .2 rows., got float64 of shape .1,"),
        (["a", "b"], "gain must be one number per row"),
    ],
)
def test_gains_are_numbers_above_zero(gain: list[object], sentence: str) -> None:
    with pytest.raises(InvalidData, match=sentence):
        replace(Ranks.single([0, 3], n_pool=9), gain=np.array(gain))


def counted(scores: Any, user: Any, item: Any) -> Ranks:
    """Ranks of targets counted from the scores of all items, one target after the other."""
    rows = []
    for u, i in zip(user, item, strict=True):
        others = [j for v, j in zip(user, item, strict=True) if v == u and j != i]
        row = scores[u]
        rows.append(
            [
                (row > row[i]).sum(),
                (row == row[i]).sum() - 1,
                len(row),
                len(others) + 1,
                sum(row[j] > row[i] for j in others),
                sum(row[j] == row[i] for j in others),
            ]
        )
    columns = np.array(rows, dtype=np.int64).reshape(len(user), 6).T
    return Ranks(np.asarray(user), np.asarray(item), *columns)


@pytest.mark.parametrize("seed", range(20))
def test_targets_left_out_stay_in_the_pool(seed: int) -> None:
    """Where some targets are left out, the others have the counts of scores with fewer relevant items."""
    random = np.random.default_rng(seed)
    scores = random.integers(0, 4, (5, 9))
    user, item = np.nonzero(random.random((5, 9)) < 0.4)
    ranks, kept = counted(scores, user, item), random.random(len(user)) < 0.6
    found, expected = ranks.where(kept), counted(scores, user[kept], item[kept])
    for name, column in expected.columns().items():
        assert found.columns()[name].tolist() == column.tolist(), name


def test_sampled_ranks_keep_whole_users() -> None:
    sample = sampled()
    assert len(sample.where(np.array([True, True]))) == 2
    assert sample.where(np.array([False, False])).n_users == 0
    some = sample.where(np.array([True, False]))  # the other is an item whose place is known
    assert some.gain is not None and some.gain.tolist() == [1, 0] and some.n_relevant.tolist() == [2, 2]
