"""Rows that end early give the gains of whole rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.strategies import splits
from tests.workflows.plan.world import N_ITEMS, Counting, make_world
from truerank.core.errors import InvalidData
from truerank.core.ranks import SEEN_POLICIES, TIE_POLICIES, SeenPolicy, TiePolicy
from truerank.core.scorer import as_scorer
from truerank.core.split import Split
from truerank.core.types import FloatArray, IntArray
from truerank.metrics.registry import make_metrics, values
from truerank.ranking.exact import exact_ranks
from truerank.workflows.precision.item_order import Asked, Guesses
from truerank.workflows.precision.partial_rows import PartialRows

CUT = (
    "ndcg@3,recall@3,recall(norm=min)@2,precision@3,ap@3,ap(norm=hits)@3,ap(norm=rel)@3,mrr@3,hit@1,hit@3,"
    "auc@3,ndcg(discount=clip)@3"
)


@settings(max_examples=60, deadline=None)
@given(
    split=splits(max_users=6, max_items=12),
    seed=st.integers(0, 1000),
    seen=st.sampled_from(SEEN_POLICIES),
    ties=st.sampled_from(TIE_POLICIES),
)
def test_every_metric_with_a_cutoff_is_exact(
    split: Split, seed: int, seen: SeenPolicy, ties: TiePolicy
) -> None:
    """Whatever the ties, the seen items, the targets per user and the metric; AUC@K has a gain beyond K."""
    shape = (split.train.n_users, split.train.n_items)
    scores = np.random.default_rng(seed).integers(0, 6, shape).astype(np.float64)
    whole = exact_ranks(as_scorer(scores), split, seen=seen)
    has_auc = bool((whole.n_pool > whole.n_relevant).all())
    names = [name for name in CUT.split(",") if has_auc or not name.startswith("auc")]
    metrics = make_metrics(names)
    if whole.n_pool.max() < 3:
        metrics = make_metrics("hit@1,recall@1")
    scan = PartialRows(Counting(scores), split, cutoff=3, seen=seen)
    every = np.arange(len(scan))
    scan.advance(every)
    assert not scan.is_open.any()
    np.testing.assert_array_equal(
        values(metrics, scan.ranks(every), ties=ties, seed=seed), values(metrics, whole, ties=ties, seed=seed)
    )


@pytest.mark.parametrize("n_targets", [1, 3])
def test_without_a_cutoff_the_ranks_themselves_are_exact(n_targets: int) -> None:
    split, scores = make_world(n_targets=n_targets)
    scan = PartialRows(Counting(scores), split, cutoff=None)
    scan.advance(np.arange(len(scan)))
    found, exact = scan.ranks(np.arange(len(scan))), exact_ranks(as_scorer(scores), split)
    for name in ("user", "item", "n_above", "n_tied", "n_pool", "n_relevant", "n_relevant_above"):
        np.testing.assert_array_equal(getattr(found, name), getattr(exact, name))


def test_scores_are_counted_and_few() -> None:
    """The count is the scorer's own, no pair is asked for that cannot matter, and most rows end early."""
    split, scores = make_world()
    scorer = Counting(scores)
    scan = PartialRows(scorer, split, cutoff=5)
    scan.advance(np.arange(len(scan)))
    assert scan.n_scores == scorer.count
    assert scorer.count < 0.6 * scores.size
    assert not scorer.is_asked[split.train.user, split.train.item].any()
    assert (scan.depth < scan.rows.n_free).mean() > 0.5


def test_a_row_goes_on_where_it_was_left() -> None:
    split, scores = make_world()
    at_once, in_steps = Counting(scores), Counting(scores)
    first, second = PartialRows(at_once, split, cutoff=5), PartialRows(in_steps, split, cutoff=5)
    rows = np.arange(40)
    first.advance(rows)
    for depth in (7, 40, 60):
        second.advance(rows, depth)
        assert second.depth[rows].max() <= depth
    second.advance(rows)
    np.testing.assert_array_equal(first.is_open, second.is_open)
    metrics = make_metrics("ndcg@5")
    np.testing.assert_array_equal(values(metrics, first.ranks(rows)), values(metrics, second.ranks(rows)))
    assert second.depth[50] == -1


def test_no_row_takes_more_than_was_said() -> None:
    split, scores = make_world(n_targets=3)
    for depth in (None, 50):
        scorer = Counting(scores)
        scan = PartialRows(scorer, split, cutoff=5)
        rows = np.arange(len(scan))
        most = scan.most_scores(rows, depth).sum()
        scan.advance(rows, depth)
        assert scorer.count <= most


@pytest.mark.parametrize("is_target", [True, False])
def test_a_score_that_is_no_number_names_the_user(is_target: bool) -> None:
    split, scores = make_world()
    item = int(split.test.item[split.test.user == 7][0]) if is_target else 0
    if not is_target:
        seen = set(split.train.item[split.train.user == 7]) | {int(split.test.item[split.test.user == 7][0])}
        item = next(i for i in range(N_ITEMS) if i not in seen)
    scores[7, item] = np.nan
    scan = PartialRows(Counting(scores), split, cutoff=None)
    with pytest.raises(InvalidData, match="scores must be numbers, but user 7 gets NaN"):
        scan.advance(np.arange(len(scan)))


def test_a_scorer_of_other_items_is_refused() -> None:
    split, scores = make_world()
    with pytest.raises(InvalidData, match="must know the 240 items of the data, it knows 239"):
        PartialRows(Counting(scores[:, :-1]), split, cutoff=5)


class Shuffled:
    """A random order, another one in every pass."""

    n_features = 0

    def __init__(self, n_items: int, seed: int) -> None:
        self.n_items, self.rng = n_items, np.random.default_rng(seed)

    def fresh(self) -> Shuffled:
        return self

    def guesses(self, users: IntArray) -> Guesses:
        return RandomGuesses(self.rng.random((len(users), self.n_items)))

    def guess_listed(self, users: IntArray, items: IntArray, features: FloatArray) -> FloatArray:
        assert features.shape == (len(items), 0)
        return self.rng.random(len(items))

    def learn(self, new: Asked, again: IntArray) -> None:
        assert len(new) == len(np.unique(new.user * self.n_items + new.item))
        assert np.isin(again, new.user).all()


@dataclass
class RandomGuesses:
    """Guesses that know nothing."""

    guess: FloatArray

    def features(self, items: IntArray) -> FloatArray:
        return np.zeros((*items.shape, 0), np.float32)


@pytest.mark.parametrize("n_targets", [1, 3])
def test_any_order_gives_the_same_values_and_asks_no_pair_twice(n_targets: int) -> None:
    split, scores = make_world(n_targets=n_targets)
    metrics = make_metrics("ndcg@5,recall@5,mrr@5")
    exact = values(metrics, exact_ranks(as_scorer(scores), split))
    rows = np.arange(len(exact))
    for seed in range(3):
        scorer = Counting(scores)
        scan = PartialRows(scorer, split, cutoff=5, order=Shuffled(N_ITEMS, seed))
        for depth in (5, 11, 60, None):
            scan.advance(rows, depth)
        np.testing.assert_array_equal(values(metrics, scan.ranks(rows)), exact)
        assert scan.n_scores == scorer.count
        padding = scorer.count - scorer.is_asked.sum()  # rows that share a call are as long as the longest
        assert padding <= 0.02 * scorer.count


def test_items_come_from_popular_to_rare_without_those_left_out() -> None:
    split, scores = make_world(n_targets=3)
    scan = PartialRows(Counting(scores), split, cutoff=5)
    counts = np.bincount(split.train.item, minlength=N_ITEMS)
    rows = np.array([0, 4, 9])
    items, _, _ = scan._next_items(rows, np.full(3, 40))
    for row, listed in zip(rows.tolist(), items.tolist(), strict=True):
        left_out = set(scan.rows.blocked(row).tolist())
        free = [item for item in np.argsort(-counts, kind="stable").tolist() if item not in left_out]
        assert listed[:40] == free[:40]
    scan.advance(rows, 12)
    again, _, _ = scan._next_items(rows, np.full(3, 5))
    for row, listed, before in zip(rows.tolist(), again.tolist(), items.tolist(), strict=True):
        if scan.is_open[row]:
            assert listed[:5] == before[scan.depth[row] : scan.depth[row] + 5]
