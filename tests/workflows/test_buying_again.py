"""Evaluation where people buy again: pairs in train and test, ranked with seen items kept."""

from __future__ import annotations

import numpy as np
import pytest

import truerank
from truerank.core.errors import InvalidData, InvalidParameter
from truerank.core.interactions import Interactions
from truerank.core.split import Split


def buying_again() -> Split:
    """User 0 buys item 1 again, user 1 buys item 2 for the first time; popularity is 1, 0, 2, 3."""
    made = Interactions.from_codes(
        [0, 0, 0, 1, 1, 1, 1],
        [0, 1, 1, 0, 1, 1, 2],
        n_items=4,
        time=np.array([1, 2, 9, 1, 2, 3, 9]),
    )
    return truerank.make_split(made, repeated="keep")


def test_a_target_that_was_bought_before() -> None:
    """Popularity ranks 1 (3 events), 0 (2), then 2 and 3: of the targets 1 is first and 2 is third."""
    split = buying_again()
    result = truerank.evaluate("popularity", split, "mrr", seen="keep", ties="best")
    assert result.value("mrr") == pytest.approx((1 + 1 / 3) / 2)
    assert result.data["targets_in_train"] == 1
    assert result.notes[-1].endswith("buying again is evaluated.")
    sampled = truerank.evaluate(
        "popularity",
        split,
        "recall@1",
        seen="keep",
        sampler="uniform(m=3, replace=false)",
        estimators="naive",
    )
    assert sampled.value("recall@1") == pytest.approx(1 / 2)


def test_seen_items_that_do_not_compete_cannot_be_targets() -> None:
    split = buying_again()
    for seen in ("remove", "bottom"):
        with pytest.raises(
            InvalidData, match=r"1 held-out events must be of items .* Use seen='keep', or merge"
        ):
            truerank.evaluate("popularity", split, "mrr", seen=seen)
    with pytest.raises(InvalidParameter, match=r"takes splits whose parts share no pair.* Leave engine out"):
        truerank.evaluate("popularity", split, "mrr", seen="keep", engine="local")


def test_validation_on_what_was_bought_before() -> None:
    made = Interactions.from_codes(
        [0] * 4 + [1] * 4, [0, 1, 1, 1, 0, 2, 1, 0], n_items=3, time=np.array([1, 2, 3, 4] * 2)
    )
    split = truerank.make_split(made, "leave-last-out(valid=true)", repeated="keep")
    assert split.valid is not None
    result = truerank.evaluate("bias-only(epochs=2)", split, "mrr", seen="keep")
    assert 0 < result.value("mrr") <= 1
