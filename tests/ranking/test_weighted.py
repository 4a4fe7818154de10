"""Samplers by weights of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from truerank import estimate, sampled_ranks
from truerank.core.errors import CannotEstimate, InvalidData
from truerank.core.interactions import Interactions
from truerank.core.scorer import Scorer, as_scorer
from truerank.core.split import Split
from truerank.ranking.samplers.weighted import WeightedSampler

N_USERS, N_ITEMS = 60, 40


@dataclass(frozen=True)
class ByWeight(WeightedSampler):
    """Weights that a test chooses."""

    which: str = "counts"
    key = "by-weight"

    def weights(self, split: Split) -> Any:
        counts = split.train.item_counts()
        items = np.arange(len(counts))
        return {
            "counts": counts,
            "even": np.where(items % 2 == 0, 0.25, 0.0),
            "short": np.ones(3),
            "words": np.array(["a"] * len(counts)),
            "negative": items - 1.0,
            "nan": np.where(items == 3, np.nan, 1.0),
            "nothing": np.zeros(len(counts)),
        }[self.which]


@pytest.fixture(scope="module")
def split() -> Split:
    rng = np.random.default_rng(0)
    user, item = np.nonzero(rng.random((N_USERS, N_ITEMS)) < 0.2)
    is_test = np.append(np.diff(user) != 0, True)
    train, test = (
        Interactions.from_codes(user[rows], item[rows], n_users=N_USERS, n_items=N_ITEMS)
        for rows in (~is_test, is_test)
    )
    return Split(train, test)


def scores() -> Scorer:
    return as_scorer(np.random.default_rng(1).random((N_USERS, N_ITEMS)))


@pytest.mark.parametrize("replace", [False, True])
def test_counts_as_weights_are_the_popularity_sampler(split: Split, replace: bool) -> None:
    mine = sampled_ranks(scores(), split, ByWeight(m=5, replace=replace))
    built_in = sampled_ranks(scores(), split, f"popularity(m=5, replace={str(replace).lower()})")
    assert (mine.n_above == built_in.n_above).all()
    assert (mine.design.law, built_in.design.law) == ("weighted", "popularity")


def test_items_without_weight_are_never_taken(split: Split) -> None:
    odd_first = as_scorer(np.tile(np.where(np.arange(N_ITEMS) % 2 == 1, 2.0, 0.0), (N_USERS, 1)))
    even = sampled_ranks(odd_first, split, ByWeight(m=3, which="even"))
    is_odd = even.item % 2 == 1
    assert is_odd.any()
    assert (even.n_above + even.n_tied)[is_odd].max() == 0
    assert even.n_candidates.max() <= N_ITEMS // 2


@pytest.mark.slow
def test_only_naive_takes_such_samples(split: Split) -> None:
    sample = sampled_ranks(scores(), split, ByWeight(m=5))
    assert estimate(sample, "recall@3", "naive").value("recall@3") > 0
    with pytest.raises(CannotEstimate, match="drawn uniformly, got design 'weighted'"):
        estimate(sample, "recall@3", "mle")


@pytest.mark.parametrize(
    ("which", "said"),
    [
        ("short", r"one number for each of the 40 items, got float64 of shape \(3,\)"),
        ("words", "one number for each of the 40 items, got <U1"),
        ("negative", "must be finite, at least 0, and not all 0, got -1 to 38"),
        ("nan", "must be finite, at least 0, and not all 0"),
        ("nothing", "must be finite, at least 0, and not all 0, got 0 to 0"),
    ],
)
def test_weights_are_checked(split: Split, which: str, said: str) -> None:
    with pytest.raises(InvalidData, match=said):
        sampled_ranks(scores(), split, ByWeight(m=5, which=which))
