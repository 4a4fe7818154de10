"""What can be compared, and the sentence where it cannot."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from truerank.core.errors import InvalidData, InvalidParameter, UnknownName
from truerank.core.ranks import Design, Ranks, SampledRanks
from truerank.workflows.compare.compare import compare as run_compare
from truerank.workflows.compare.differences import pairing

compare = partial(run_compare, estimator="bv(gamma=0.1)")  # differences per user: quicker than a fit

A = Ranks.single([0, 3, 0, 7], n_pool=10)
B = Ranks.single([1, 0, 2, 5], n_pool=10)
M = SampledRanks.single([0, 3, 0, 7], n_negatives=8, n_pool=100)


def test_kinds_of_pairs() -> None:
    shared = Design(shared=True)
    assert str(pairing(A, B)) == "paired users"
    assert str(pairing(A, replace(B, user=B.user + 4))) == "independent users"
    assert (
        str(pairing(replace(M, design=shared), replace(M, design=shared))) == "paired users, shared negatives"
    )
    assert str(pairing(replace(M, design=shared), M)) == "paired users"
    assert str(pairing(A, M)) == "paired users"


def test_users_in_part_the_same() -> None:
    other = replace(B, user=np.array([2, 3, 4, 5]))
    with pytest.raises(
        InvalidData, match=r"share 2 of 4 and 4. Compare the shared ones with common_users=True"
    ):
        compare({"a": A, "b": other})
    found = compare({"a": A, "b": other}, metrics="mrr", common_users=True)
    assert found.estimates[0].value == pytest.approx((1 + 1 / 8) / 2)
    assert found.estimates[1].value == pytest.approx((1 / 2 + 1) / 2)
    assert found.notes == (
        "a: 2 of 4 users left out, because not all models have them.",
        "b: 2 of 4 users left out, because not all models have them.",
    )
    with pytest.raises(InvalidData, match="no user is in all of them"):
        compare({"a": A, "b": replace(B, user=B.user + 4)}, metrics="mrr", common_users=True)
    shuffled = replace(B, user=np.array([3, 2, 1, 0]))
    with pytest.raises(InvalidData, match="must come in the same order"):
        compare({"a": A, "b": shuffled}, metrics="mrr")


def test_other_targets_and_pools() -> None:
    columns = {"user": np.array([0, 0, 1, 2, 3]), "item": np.arange(5), "n_above": np.array([0, 1, 2, 3, 4])}
    zeros = np.zeros(5, np.int64)
    more = Ranks(
        **columns,
        n_tied=zeros,
        n_pool=zeros + 10,
        n_relevant=np.array([2, 2, 1, 1, 1]),
        n_relevant_above=np.array([0, 1, 0, 0, 0]),
        n_relevant_tied=zeros,
    )
    with pytest.raises(InvalidData, match="same targets, but some users have more of them"):
        compare({"a": A, "b": more}, metrics="mrr")
    items = [replace(B, item=np.array(own)) for own in ([1, 2, 3, 4], [1, 2, 3, 5])]
    with pytest.raises(InvalidData, match="same targets, but some users have other items"):
        compare({"a": items[0], "b": items[1]}, metrics="mrr")
    assert compare({"a": items[0], "b": B}, metrics="mrr").differences[0].value == 0
    with pytest.raises(
        InvalidData, match="same pools of items, but one user's pool has 10 items in one and 12 in the other"
    ):
        compare({"a": A, "b": replace(B, n_pool=B.n_pool + np.array([0, 2, 0, 0]))}, metrics="mrr")


def test_naive_values_of_different_samples() -> None:
    larger = replace(M, n_negatives=M.n_negatives + 1)
    popular = replace(M, design=Design(law="popularity"))
    for other in (larger, popular):
        with pytest.raises(
            InvalidData, match="only at one sample size and design, but those of 'a' and 'b' differ"
        ):
            compare({"a": M, "b": other}, metrics="mrr", estimator="naive")
    exact = Ranks.single([0, 3, 0, 7], n_pool=100)
    for given in ({"a": exact, "b": M}, {"b": M, "a": exact}):
        with pytest.raises(InvalidData, match="'a' was ranked against all items and 'b' against a sample"):
            compare(given, metrics="mrr", estimator="naive")
    assert len(compare({"a": M, "b": larger}, metrics="mrr").differences) == 1


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"target": "users"}, "target must be one of test-users, population"),
        ({"level": 1.0}, "level must lie between 0 and 1"),
        ({"correction": "fdr"}, "correction must be one of max-t, holm, none"),
        ({"tie_margin": -0.1}, "tie_margin must lie between 0 and 1"),
        ({"shape": "convex"}, "shape must be one of decreasing"),
        ({"shape": "decreasing", "bounds": False}, "shape is an assumption of the bounds"),
        ({"resamples": 100}, "resamples must be at least 200"),
        ({"ties": "coin"}, "ties must be one of"),
        ({"seed": -1}, "seed must be an integer"),
        ({"metrics": "recall@11"}, "cutoff of recall@11 must be at most the largest pool of 10 items"),
        ({"n_test_users": 3}, "n_test_users must be at least the 4 users that were ranked, got 3"),
        ({"sampler": "uniform"}, "sampler is used when models are ranked here, which needs a split"),
    ],
)
def test_bad_options(options: dict[str, object], sentence: str) -> None:
    with pytest.raises(InvalidParameter, match=sentence):
        compare({"a": A, "b": B}, **{"metrics": "mrr", **options})  # type: ignore[arg-type]


def test_unknown_keyword() -> None:
    with pytest.raises(TypeError, match="margin"):
        compare({"a": A, "b": B}, metrics="mrr", margin=0.1)  # type: ignore[call-arg]


def test_who_is_compared() -> None:
    models = {"a": A, "b": B, "c": A}
    pairs = [(one.first, one.second) for one in compare(models, metrics="mrr").differences]
    assert pairs == [("a", "b"), ("a", "c"), ("b", "c")]
    based = compare(models, metrics="mrr", baseline="b")
    assert [(one.first, one.second) for one in based.differences] == [("a", "b"), ("c", "b")]
    with pytest.raises(UnknownName, match="unknown baseline 'd'"):
        compare(models, metrics="mrr", baseline="d")
    with pytest.raises(InvalidParameter, match="at least two models, got 1"):
        compare({"a": A}, metrics="mrr")
    with pytest.raises(InvalidParameter, match="mapping from names to exact or sampled ranks"):
        compare(["popularity", "ease"])
    empty = Ranks.single([], n_pool=10)
    with pytest.raises(InvalidData, match="model 'a' must have at least one user"):
        compare({"a": empty, "b": empty}, metrics="mrr")
