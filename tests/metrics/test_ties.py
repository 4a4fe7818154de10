"""Tie policies against the enumeration of all orders."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reference import metrics as twin
from truerank.core.errors import InvalidData, InvalidParameter
from truerank.core.ranks import TIE_POLICIES, Ranks, TiePolicy
from truerank.metrics.registry import METRICS, values
from truerank.metrics.ties import ResolvedRanks

#: every definition, as (spec, name and variant in the reference)
DEFINITIONS = [
    ("recall", "recall", ""),
    ("recall(norm=min)", "recall", "min"),
    ("precision", "precision", ""),
    ("hit", "hit", ""),
    ("mrr", "mrr", ""),
    ("ap", "ap", "min"),
    ("ap(norm=rel)", "ap", "rel"),
    ("ap(norm=k)", "ap", "k"),
    ("ap(norm=hits)", "ap", "hits"),
    ("ndcg", "ndcg", ""),
    ("ndcg(ideal=k)", "ndcg", "k"),
    ("ndcg(ideal=all)", "ndcg", "all"),
    ("ndcg(discount=clip)", "ndcg", "clip"),
    ("auc", "auc", ""),
    ("err", "err", ""),
]


@st.composite
def tied_users(draw: st.DrawFn, most: int = 6) -> twin.User:
    """One user with a small pool, few distinct scores, and both relevant and irrelevant items."""
    n = draw(st.integers(2, most))
    scores = draw(st.lists(st.integers(0, 2).map(float), min_size=n, max_size=n))
    relevant = draw(
        st.lists(st.booleans(), min_size=n, max_size=n).filter(lambda marks: 0 < sum(marks) < len(marks))
    )
    return scores, relevant


@pytest.mark.parametrize(("spec", "name", "variant"), DEFINITIONS)
@settings(max_examples=25, deadline=None)
@given(user=tied_users(), data=st.data())
def test_expected_is_the_mean_over_all_orders(
    spec: str, name: str, variant: str, user: twin.User, data: st.DataObject
) -> None:
    """Expected, best and worst equal the literal definitions on every order of the tied items."""
    cutoff = data.draw(st.none() | st.integers(1, len(user[0])))
    metric = METRICS.make(spec if cutoff is None else f"{spec}@{cutoff}")
    ranks = twin.counts([user])
    expected = float(twin.expected(name, user, cutoff, variant))
    assert metric.per_user(ranks).tolist() == [pytest.approx(expected, rel=1e-12, abs=1e-15)]
    policies: tuple[tuple[TiePolicy, bool], ...] = (("best", True), ("worst", False))
    for ties, best in policies:
        extreme = float(twin.extreme(name, user, cutoff, variant, best=best))
        assert metric.per_user(ranks, ties=ties).tolist() == [pytest.approx(extreme, rel=1e-12, abs=1e-15)]


@pytest.mark.slow
@pytest.mark.parametrize("spec", [spec for spec, _, _ in DEFINITIONS if "hits" not in spec])
@settings(max_examples=25, deadline=None)
@given(users=st.lists(tied_users(most=12), min_size=1, max_size=4), cutoff=st.none() | st.integers(1, 6))
def test_expected_and_random_lie_between_worst_and_best(
    spec: str, users: list[twin.User], cutoff: int | None
) -> None:
    metric = METRICS.make(spec if cutoff is None else f"{spec}@{cutoff}")
    ranks = twin.counts(users)
    if cutoff is not None and cutoff > ranks.n_pool.max():
        return
    found = {ties: metric.per_user(ranks, ties=ties) for ties in TIE_POLICIES}
    for ties in ("expected", "random"):
        assert (found["worst"] <= found[ties] + 1e-12).all()
        assert (found[ties] <= found["best"] + 1e-12).all()


def all_tied(n_users: int, size: int, relevant: int) -> Ranks:
    """Users whose whole pool is one tied block."""
    rows = n_users * relevant
    whole = np.full(rows, size)
    zeros = np.zeros(rows, dtype=np.int64)
    return Ranks(
        user=np.repeat(np.arange(n_users), relevant),
        item=np.tile(np.arange(relevant), n_users),
        n_above=zeros,
        n_tied=whole - 1,
        n_pool=whole,
        n_relevant=zeros + relevant,
        n_relevant_above=zeros,
        n_relevant_tied=zeros + relevant - 1,
    )


@pytest.mark.parametrize(("size", "relevant"), [(4, 1), (5, 2), (4, 3), (3, 3)])
def test_random_draws_every_order_equally_often(size: int, relevant: int) -> None:
    """Counts of the ordered slots of 12,000 users stay within five standard deviations (fixed seed)."""
    n_users = 12_000
    ranks = ResolvedRanks.of(all_tied(n_users, size, relevant), "random", seed=3).rank.reshape(
        n_users, relevant
    )
    counts = Counter(map(tuple, ranks.tolist()))
    outcomes = list(itertools.permutations(range(1, size + 1), relevant))
    share = n_users / len(outcomes)
    assert set(counts) <= set(outcomes)
    assert max(abs(counts[outcome] - share) for outcome in outcomes) < 5 * share**0.5


def test_random_gives_distinct_ranks_and_counts_relevant_items_before() -> None:
    ranks = all_tied(50, 9, 4)
    placement = ResolvedRanks.of(ranks, "random", seed=0)
    for rank, above in zip(
        placement.rank.reshape(50, 4), placement.n_relevant_above.reshape(50, 4), strict=True
    ):
        assert sorted(above) == [0, 1, 2, 3]
        assert len(set(rank)) == 4
        assert [sum(rank < r) for r in rank] == above.tolist()


def test_random_depends_on_nothing_but_seed_user_and_item() -> None:
    """Reversing the rows of each user, or dropping users, changes no draw; another seed does."""
    ranks = all_tied(40, 30, 3)
    base = ResolvedRanks.of(ranks, "random", seed=5).rank
    part = ranks.take(np.arange(len(ranks))[::-1][:60])
    assert ResolvedRanks.of(part, "random", seed=5).rank.tolist() == base[::-1][:60].tolist()
    assert ResolvedRanks.of(ranks, "random", seed=6).rank.tolist() != base.tolist()


def test_random_mean_tends_to_expected() -> None:
    """The mean over 200 seeds of 500 users lies within five standard errors of the expected value."""
    ranks = all_tied(500, 20, 3)
    metrics = [METRICS.make(text) for text in ("ap@5", "mrr@5", "ndcg@5", "hit@5")]
    expected = values(metrics, ranks).mean(axis=0)
    draws = np.array([values(metrics, ranks, ties="random", seed=seed).mean(axis=0) for seed in range(200)])
    error = draws.std(axis=0) / np.sqrt(len(draws))
    assert (np.abs(draws.mean(axis=0) - expected) < 5 * error).all()


def test_all_tied_targets_must_be_there() -> None:
    ranks = all_tied(1, 6, 3)
    part = ranks.take(np.arange(2))
    METRICS.make("recall@2").per_user(part)
    with pytest.raises(InvalidData, match="must count the other rows of its user"):
        METRICS.make("recall@2").per_user(part, ties="best")


def test_unknown_policy() -> None:
    with pytest.raises(
        InvalidParameter, match="ties must be one of expected, best, worst, random, got 'mid'"
    ):
        METRICS.make("recall@2").per_user(all_tied(1, 3, 1), ties="mid")  # type: ignore[arg-type]
