"""Models fitted on exactly the train part are taken, though it has no events of some items."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import truerank
from tests.models.adapters.world import library
from truerank.core.errors import InvalidData, InvalidParameter
from truerank.core.split import Split
from truerank.data.demo import demo
from truerank.models.adapters.alignment import align_ids
from truerank.models.adapters.cornac import from_cornac
from truerank.models.adapters.lenskit import from_lenskit

NAME = "other library"


def demo_split() -> Split:
    """The demo data have items of the tail without any train event."""
    split = truerank.make_split(demo(n_users=120, n_items=600), "leave-last-out")
    assert (split.train.item_counts() == 0).sum() > 10
    return split


def triples(split: Split) -> list[tuple[Any, Any, float]]:
    train = split.train
    users, items = train.users.decode(train.user), train.items.decode(train.item)
    return [(user, item, 1.0) for user, item in zip(users, items, strict=True)]


def check(scorer: Any, split: Split) -> None:
    """Items without events rank last, and their number stands in the result."""
    cold = split.train.item_counts() == 0
    scores = np.asarray(scorer.score(np.arange(5), np.arange(split.train.n_items)))
    assert (scores[:, cold].max(axis=1) < scores[:, ~cold].min(axis=1)).all()
    result = truerank.evaluate({NAME: scorer}, split, "recall@20", interval="normal")
    assert result.provenance["unknown"] == {NAME: {"items": int(cold.sum())}}
    said = f"{NAME}: the model does not know {cold.sum():,} items of the data, which rank below all others."
    assert said in result.notes
    assert truerank.evaluate("popularity", split, "recall@20").provenance.get("unknown") is None


@pytest.mark.slow
@pytest.mark.parametrize("name", ["BPR", "MostPop"])
def test_cornac_on_the_demo_data(name: str) -> None:
    cornac, models = library("cornac"), library("cornac.models")
    split = demo_split()
    settings = {"k": 8, "max_iter": 5, "seed": 1, "verbose": False} if name == "BPR" else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = getattr(models, name)(**settings).fit(cornac.data.Dataset.build(triples(split), seed=1))
    check(from_cornac(model, split.train), split)


@pytest.mark.slow
def test_lenskit_on_the_demo_data() -> None:
    pipelines, data, basic = (library(f"lenskit.{name}") for name in ("pipeline", "data", "basic"))
    pandas = library("pandas")
    split = demo_split()
    frame = pandas.DataFrame(triples(split), columns=["user_id", "item_id", "rating"])
    pipeline = pipelines.topn_pipeline(basic.PopScorer())
    dataset = data.from_interactions_df(frame)
    pipeline.train(dataset)
    check(from_lenskit(pipeline, split.train, dataset=dataset), split)


def test_what_is_cold_and_what_is_wrong() -> None:
    """Items with train events must be known; users without train events may be unknown."""
    split = demo_split()
    train = split.train
    known = np.flatnonzero(train.item_counts())
    users = train.users.ids.to_list()
    aligned = align_ids(train, users, train.items.decode(known))
    assert aligned.unknown == {"items": train.n_items - len(known)}
    assert (aligned.item[known] >= 0).all()
    with pytest.raises(
        InvalidData, match=r"must know every item with train events, but it does not know 1, such"
    ):
        align_ids(train, users, train.items.decode(known[1:]))
    with pytest.raises(
        InvalidData, match=r"must know every item of the data, but it does not know \d+, such as"
    ):
        align_ids(train, users, train.items.decode(known), unknown="error")
    some = train.where(train.user != 3)
    both = align_ids(some, [user for user in users if user != 3], train.items.ids.to_list())
    assert both.unknown == {"users": 1} and both.user[3] == -1
    with pytest.raises(InvalidParameter, match="unknown must be one of cold, error, bottom, got 'ignore'"):
        align_ids(train, users, users, unknown="ignore")  # type: ignore[arg-type]
