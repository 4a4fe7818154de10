"""Ranks collected in a validation loop are those of sampled ranking."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from truerank.core.errors import InvalidData, InvalidParameter
from truerank.core.interactions import Interactions
from truerank.core.ranks import SampledRanks
from truerank.core.scorer import as_scorer
from truerank.core.split import Split
from truerank.ranking.accumulator import RankCollector
from truerank.ranking.sampled import sampled_ranks
from truerank.workflows.estimate import RankAccumulator, estimate

N_USERS, N_ITEMS, N_NEGATIVES, N_TARGETS = 30, 40, 7, 3
COLUMNS = [name for name in SampledRanks.__dataclass_fields__ if name != "design"]


def make_problem(seed: int = 0) -> tuple[Any, Split, Any, Any]:
    """Scores with many ties, targets (n, t), negatives (n, m)."""
    rng = np.random.default_rng(seed)
    items = np.argsort(rng.random((N_USERS, N_ITEMS)), axis=1)
    seen, targets, negatives = items[:, :4], np.sort(items[:, 4:7], axis=1), items[:, 7 : 7 + N_NEGATIVES]
    users = np.arange(N_USERS)[:, None]
    parts = [
        Interactions.from_codes(
            np.broadcast_to(users, part.shape).ravel(), part.ravel(), n_users=N_USERS, n_items=N_ITEMS
        )
        for part in (seen, targets)
    ]
    scores = rng.integers(6, size=(N_USERS, N_ITEMS)).astype(np.float32)
    return scores, Split(parts[0], parts[1]), targets, negatives


def assert_equal(found: SampledRanks, expected: SampledRanks) -> None:
    assert found.design == expected.design
    for name in COLUMNS:
        assert np.array_equal(getattr(found, name), getattr(expected, name)), name


def as_numpy(array: Any) -> Any:
    return array


def as_torch(array: Any) -> Any:
    torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'truerank[torch]'")
    return torch.tensor(array)


@pytest.mark.parametrize("kind", [as_numpy, as_torch])
def test_the_same_draws_give_the_same_ranks(kind: Any) -> None:
    """In batches of shuffled users, several targets each, with ties."""
    scores, split, targets, negatives = make_problem()
    expected = sampled_ranks(as_scorer(scores), split, {u: negatives[u].tolist() for u in range(N_USERS)})
    assert expected.n_tied.max() > 0
    collector = RankCollector(N_ITEMS, law="given", shared=True)
    users = np.arange(N_USERS)[:, None]
    for batch in np.array_split(np.random.default_rng(1).permutation(N_USERS), 4):
        positive, negative = scores[users, targets][batch], scores[users, negatives][batch]
        collector.update(
            kind(positive), kind(negative), users=kind(batch), items=kind(targets[batch]), n_seen=4
        )
    assert len(collector) == N_USERS * N_TARGETS
    assert_equal(collector.ranks(), expected)


def test_one_target_per_row_without_names() -> None:
    scores, _, targets, negatives = make_problem()
    users = np.arange(N_USERS)[:, None]
    positive, negative = scores[users, targets][:, 0], scores[users, negatives]
    whole, halves = RankAccumulator(N_ITEMS), RankAccumulator(N_ITEMS)
    whole.update(positive, negative)
    halves.update(positive[:11], negative[:11])
    halves.update(positive[11:], negative[11:])
    expected = SampledRanks.single(
        (negative > positive[:, None]).sum(axis=1),
        n_negatives=N_NEGATIVES,
        n_pool=N_ITEMS,
        n_tied=(negative == positive[:, None]).sum(axis=1),
    )
    assert_equal(whole.ranks(), expected)
    assert_equal(halves.ranks(), expected)
    computed = halves.compute("recall@5,ndcg@5", "naive,bv(gamma=0.1)", seed=3)
    assert (
        computed.estimates == estimate(expected, "recall@5,ndcg@5", "naive,bv(gamma=0.1)", seed=3).estimates
    )
    halves.reset()
    assert len(halves) == 0
    halves.update(positive, negative)
    assert_equal(halves.ranks(), expected)


@pytest.mark.parametrize("named", [True, False])
def test_merged_processes(named: bool) -> None:
    scores, _, targets, negatives = make_problem()
    users = np.arange(N_USERS)[:, None]
    positive, negative = scores[users, targets], scores[users, negatives]

    def collect(rows: Any) -> RankAccumulator:
        one = RankAccumulator(N_ITEMS)
        one.update(positive[rows], negative[rows], users=users[rows, 0] if named else None)
        return one

    parts = [pickle.loads(pickle.dumps(collect(rows))) for rows in np.array_split(np.arange(N_USERS), 3)]
    merged = parts[0].merge(RankAccumulator(N_ITEMS), *parts[1:])
    assert merged is parts[0]
    assert_equal(merged.ranks(), collect(np.arange(N_USERS)).ranks())
    assert_equal(parts[1].ranks(), parts[1].ranks())


@given(
    arrays(np.float32, (5, 3), elements=st.sampled_from([-1.0, 0.0, 0.5, np.inf, -np.inf])),
    arrays(np.float32, (5, 4), elements=st.sampled_from([-1.0, 0.0, 0.5, np.inf, -np.inf])),
    arrays(np.bool_, (5, 3)),
)
def test_masked_targets_against_counting_by_hand(positive: Any, negative: Any, mask: Any) -> None:
    mask[:, 1] = True
    padded = np.where(mask, positive, np.nan)
    collector = RankCollector(50)
    collector.update(padded, negative, mask=mask)
    found = collector.ranks()
    row = 0
    for u in range(5):
        for t in np.flatnonzero(mask[u]):
            others = [positive[u, k] for k in np.flatnonzero(mask[u]) if k != t]
            score = positive[u, t]
            above, tied = sum(o > score for o in others), sum(o == score for o in others)
            assert (found.user[row], found.item[row]) == (u, t)
            assert found.n_relevant[row] == mask[u].sum()
            assert (found.n_relevant_above[row], found.n_relevant_tied[row]) == (above, tied)
            assert found.n_above[row] == above + sum(negative[u] > score)
            assert found.n_tied[row] == tied + sum(negative[u] == score)
            assert found.n_candidates[row] == 50 - mask[u].sum()
            row += 1
    assert row == len(found)


def test_half_precision_and_mixed_kinds() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'truerank[torch]'")
    positive, negative = np.array([0.5, 1.0], np.float32), np.array([[0.25, 0.5], [2.0, 3.0]], np.float32)
    expected = RankCollector(9)
    expected.update(positive, negative)
    for left, right in (
        (torch.tensor(positive).bfloat16(), torch.tensor(negative).bfloat16()),
        (torch.tensor(positive).half(), torch.tensor(negative).double()),
        (torch.tensor(positive, requires_grad=True), negative),
        (positive, torch.tensor(negative).bfloat16()),
        (positive.tolist(), negative.tolist()),
    ):
        collector = RankCollector(9)
        collector.update(left, right)
        assert_equal(collector.ranks(), expected.ranks())


def test_sentences() -> None:
    two: Any = np.zeros(2)
    three: Any = np.zeros((2, 3))
    for positive, negative in ((two, two), (np.zeros(3), three), (np.zeros((2, 1, 1)), three)):
        with pytest.raises(
            InvalidData, match=r"positive_scores must be \(n,\) or \(n, t\) and negative_scores"
        ):
            RankCollector(9).update(positive, negative)
    for positive, negative in ((two, np.zeros((2, 0))), (np.zeros((2, 0)), three)):
        with pytest.raises(InvalidData, match="a row must hold at least one target and one negative"):
            RankCollector(9).update(positive, negative)
    with pytest.raises(
        InvalidData, match="positive_scores must be numbers, but row 1 of the batch holds NaN"
    ):
        RankCollector(9).update(np.array([0, np.nan]), three)
    with pytest.raises(
        InvalidData, match="negative_scores must be numbers, but row 0 of the batch holds NaN"
    ):
        RankCollector(9).update(two, as_torch(np.full((2, 3), np.nan)))
    with pytest.raises(InvalidData, match="scores must be numbers, got <U1"):
        RankCollector(9).update(np.array(["a", "b"]), three)
    with pytest.raises(InvalidData, match=r"every row must have enough candidates, but row 1 .* 3 items in"):
        RankCollector(9).update(two, three, n_seen=[0, 6])
    with pytest.raises(
        InvalidData, match="every row must have a target, but row 0 of the batch has 0 targets"
    ):
        RankCollector(9).update(two, three, mask=[False, True])
    with pytest.raises(InvalidData, match=r"users must have shape \(2,\) like the scores, got \(3,\)"):
        RankCollector(9).update(two, three, users=[1, 2, 3])
    with pytest.raises(InvalidData, match="items must be integers, got float64"):
        RankCollector(9).update(two, three, items=two)
    with pytest.raises(InvalidData, match="there must be at least one batch before ranks are asked for"):
        RankCollector(9).ranks()
    with pytest.raises(InvalidParameter, match="n_items must be an integer >= 2, got 1"):
        RankCollector(1)
    with pytest.raises(InvalidParameter, match="law must be one of uniform, popularity, given, got 'normal'"):
        RankCollector(9, law="normal")  # type: ignore[arg-type]


def test_users_that_come_twice_and_names_that_are_missing() -> None:
    two, three = np.zeros(2), np.zeros((2, 3))
    collector = RankCollector(9)
    collector.update(two, three, users=[4, 5])
    collector.update(two, three, users=[6, 5])
    with pytest.raises(InvalidData, match="in one row, but user 5 came several times"):
        collector.ranks()
    with pytest.raises(InvalidData, match="users must be given with every batch or with none"):
        collector.update(two, three)
    nameless = RankCollector(9)
    nameless.update(two, three)
    with pytest.raises(InvalidParameter, match="users must be given in all collectors or in none"):
        collector.merge(nameless)
    with pytest.raises(
        InvalidParameter, match="must agree on n_items, replacement, law and shared to be merged"
    ):
        collector.merge(RankCollector(9, replacement=True))
    repeated = RankCollector(9)
    repeated.update(np.zeros((1, 2)), np.zeros((1, 3)), items=[[3, 3]])
    with pytest.raises(InvalidData, match="items must tell the targets of a user apart"):
        repeated.ranks()


def test_an_empty_batch_adds_nothing_and_replacement_allows_long_samples() -> None:
    collector = RankCollector(3, replacement=True)
    collector.update(np.zeros(0), np.zeros((0, 8)))
    collector.update(np.ones(1), np.zeros((1, 8)))
    assert collector.ranks().n_negatives.tolist() == [8]
    assert collector.ranks().design.replacement
