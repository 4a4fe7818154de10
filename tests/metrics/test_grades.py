"""Graded metrics against their definitions on every order of tied items; gains of ratings; bad input."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reference import metrics as twin
from truerank.core.errors import InvalidData, InvalidParameter
from truerank.core.interactions import Interactions
from truerank.core.ranks import Ranks, TiePolicy
from truerank.core.split import Split
from truerank.metrics.grades import GAINS, graded_split, with_gains
from truerank.metrics.registry import METRICS, TABLE, make_metrics, values

#: One user: scores of the items of the pool, and the gain of each; 0 for irrelevant items.
GradedUser = tuple[Sequence[float], Sequence[float]]


def dcg(gains: Sequence[float]) -> float:
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, start=1))


def literal_ndcg(gains: Sequence[float], cutoff: int, ideal: str) -> float:
    best = sorted(gains, reverse=True)
    return dcg(gains[:cutoff]) / dcg(best if ideal == "all" else best[:cutoff])


def literal_err(gains: Sequence[float], cutoff: int, highest: float) -> float:
    total, goes_on = 0.0, 1.0
    for rank, gain in enumerate(gains[:cutoff], start=1):
        stop = gain / (highest + 1)
        total += goes_on * stop / rank
        goes_on *= 1 - stop
    return total


def orders(user: GradedUser) -> list[list[float]]:
    """Return the gains from top to bottom for every order of the tied items."""
    scores, gains = user
    blocks = [
        [gain for score, gain in zip(scores, gains, strict=True) if score == level]
        for level in sorted(set(scores), reverse=True)
    ]
    arranged = itertools.product(*(itertools.permutations(block) for block in blocks))
    return [[gain for block in blocks for gain in block] for blocks in arranged]


def graded_counts(users: Sequence[GradedUser]) -> Ranks:
    ranks = twin.counts([(scores, [gain > 0 for gain in gains]) for scores, gains in users])
    gain = np.array([gain for _, gains in users for gain in gains if gain > 0])
    return replace(ranks, gain=gain)


@st.composite
def graded_users(draw: st.DrawFn, most: int = 7) -> GradedUser:
    n = draw(st.integers(2, most))
    scores = draw(st.lists(st.integers(0, 2).map(float), min_size=n, max_size=n))
    gains = draw(st.lists(st.sampled_from([0.0, 0.0, 1.0, 2.5, 7.0]), min_size=n, max_size=n).filter(any))
    return scores, gains


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(user=graded_users(), data=st.data())
def test_graded_values_are_means_over_all_orders(user: GradedUser, data: st.DataObject) -> None:
    """Expected is the mean, best the largest and worst the smallest value over the orders of tied items."""
    n = len(user[0])
    cutoff = data.draw(st.none() | st.integers(1, n))
    highest = max(user[1])
    wanted = {
        "ndcg": [literal_ndcg(gains, cutoff or n, "min") for gains in orders(user)],
        "ndcg(ideal=all)": [literal_ndcg(gains, cutoff or n, "all") for gains in orders(user)],
        "err": [literal_err(gains, cutoff or n, highest) for gains in orders(user)],
        "err(highest=9.0)": [literal_err(gains, cutoff or n, 9.0) for gains in orders(user)],
    }
    ranks = graded_counts([user])
    policies: dict[TiePolicy, float]
    for spec, found in wanted.items():
        metric = METRICS.make(spec if cutoff is None else f"{spec}@{cutoff}")
        policies = {"expected": sum(found) / len(found), "best": max(found)}
        if cutoff is None:  # with one, putting the best items outside may be worse than putting them last
            policies["worst"] = min(found)
        for ties, value in policies.items():
            assert metric.per_user(ranks, ties=ties).tolist() == [pytest.approx(value, rel=1e-12)]


def test_random_ties_have_every_order() -> None:
    """Of a block of two targets and one other item each of the six orders comes up."""
    user: GradedUser = ([1.0, 1.0, 1.0], [3.0, 1.0, 0.0])
    found = METRICS.make("err").per_user(graded_counts([user] * 600), ties="random", seed=1)
    wanted = {round(literal_err(gains, 3, 3.0), 12) for gains in orders(user)}
    assert {round(value, 12) for value in found.tolist()} == wanted


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(users=st.lists(graded_users(), min_size=1, max_size=5), ties=st.sampled_from(["expected", "random"]))
def test_gains_of_one_are_no_gains(users: list[GradedUser], ties: TiePolicy) -> None:
    """A law for all metrics; and those that know no grades ignore them whatever they are."""
    graded = graded_counts(users)
    plain = replace(graded, gain=None)
    ones = replace(graded, gain=np.ones(len(graded)))
    specs = [name for name in TABLE if name != "auc"]
    metrics = make_metrics(
        [*specs, *(f"{name}@2" for name in specs), "ndcg(ideal=all)@2", "err(highest=3)@2"]
    )
    assert np.allclose(
        values(metrics, ones, ties=ties), values(metrics, plain, ties=ties), rtol=1e-12, atol=0
    )
    blind = tuple(metric for metric in metrics if metric.key not in ("ndcg", "err"))
    if ties == "expected":
        assert np.array_equal(values(blind, graded), values(blind, plain))


def test_one_target_per_user() -> None:
    """NDCG of a single target is that without grades; ERR is its probability over its rank."""
    ranks = replace(Ranks.single([0, 4, 9], n_pool=99), gain=np.array([5.0, 1.0, 3.0]))
    assert METRICS.make("ndcg@10").per_user(ranks).tolist() == [
        pytest.approx(1 / math.log2(rank + 1)) for rank in (1, 5, 10)
    ]
    assert METRICS.make("err@10").per_user(ranks).tolist() == [5 / 6, 1 / 6 / 5, 3 / 6 / 10]


@pytest.mark.slow
def test_many_tied_targets() -> None:
    """Hundreds of targets in one block: equal gains are a metric without gains of the same probability."""
    n = 300
    scores, gains = [0.0] * (n + 50), [2.0] * n + [0.0] * 50
    found = float(METRICS.make("err").per_user(graded_counts([(scores, gains)]))[0])
    plain = replace(graded_counts([(scores, gains)]), gain=None)
    same = float(METRICS.make("err(highest=0.5)").per_user(plain)[0])  # p = 1/(0.5 + 1) as well
    assert found == pytest.approx(same, rel=1e-10)


def test_gains_of_ratings() -> None:
    """Items of gain 0 are no targets, but stay in the pool; users left without targets are counted."""
    ratings = np.array([0.0, 3.0, 1.0, 0.0])
    train = Interactions.from_codes([0, 1, 2], [0, 0, 0], n_users=3, n_items=6)
    test = Interactions.from_codes([0, 0, 1, 2], [1, 2, 3, 4], n_users=3, n_items=6, value=ratings)
    split = graded_split(Split(train, test, counts={"users_without_targets": 0}), GAINS.make("rating"))
    assert split.test.item.tolist() == [2, 3]
    assert split.counts == {"users_without_targets": 1, "targets_without_gain": 2}
    assert split.summary()["users_with_targets"] == 2
    powers = graded_split(Split(train, test), GAINS.make("rating(form=exp2)"))
    assert powers.test.value is not None and powers.test.value.tolist() == [7.0, 1.0]
    ranks = replace(Ranks.single([0, 0], n_pool=5), item=np.array([2, 3]))
    assert with_gains(ranks, powers.test).columns()["gain"].tolist() == [7.0, 1.0]


@pytest.mark.parametrize(
    ("ratings", "spec", "sentence"),
    [
        (None, "rating", "gain 'rating' needs a rating for each test event, but 'data' has none"),
        ([-1.0], "rating", "ratings that are gains must be at least 0, got -1"),
        ([0.0], "rating", "at least one test event must have a gain above 0"),
        ([2000.0], "rating(form=exp2)", "gains must be finite, but 2 to the power of 2000 is not"),
    ],
)
def test_ratings_that_are_no_gains(ratings: list[float] | None, spec: str, sentence: str) -> None:
    train = Interactions.from_codes([0], [0], n_users=1, n_items=3)
    value = None if ratings is None else np.array(ratings)
    test = Interactions.from_codes([0], [1], n_users=1, n_items=3, value=value)
    with pytest.raises(InvalidData, match=sentence):
        graded_split(Split(train, test), GAINS.make(spec))


def test_what_graded_metrics_refuse() -> None:
    ranks = graded_counts([([2.0, 1.0, 0.0], [3.0, 1.0, 0.0])])
    with pytest.raises(InvalidParameter, match="has an ideal list of equal items, so it knows no gains"):
        METRICS.make("ndcg(ideal=k)@2").per_user(ranks)
    with pytest.raises(InvalidData, match=r"gains must be at most 2, the highest of err\(highest=2"):
        METRICS.make("err(highest=2)").per_user(ranks)
    with pytest.raises(InvalidParameter, match="highest must be a finite number above 0, got -1"):
        METRICS.make("err(highest=-1)")
    with pytest.raises(InvalidParameter, match="form"):
        GAINS.make("rating(form=cubic)")
    part = ranks.take(np.array([0]))
    for spec in ("ndcg@2", "err@2"):
        with pytest.raises(InvalidData, match="needs the gains of all targets of a user, but row 0"):
            METRICS.make(spec).per_user(part)
    assert METRICS.make("recall@2").per_user(part).tolist() == [0.5]
