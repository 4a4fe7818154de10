"""Models of Cornac rank as Cornac recommends."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from tests.models.adapters.world import assert_ranks_agree, events, library, make_split
from truerank.core.errors import InvalidData, InvalidParameter
from truerank.core.interactions import Interactions, Vocabulary
from truerank.core.scorer import Factors
from truerank.core.split import Split
from truerank.models.adapters.alignment import RowScorer
from truerank.models.adapters.cornac import from_cornac

cornac = library("cornac")
models = library("cornac.models")

SPLIT = make_split()
DATASET = cornac.data.Dataset.build(events(SPLIT.train), seed=1)
QUIET = {"verbose": False}
MODELS: dict[str, tuple[type, Any]] = {
    "mf": (Factors, lambda: models.MF(k=4, max_iter=5, seed=1, **QUIET)),
    "mf without bias": (Factors, lambda: models.MF(k=4, max_iter=5, use_bias=False, seed=1, **QUIET)),
    "bpr": (Factors, lambda: models.BPR(k=4, max_iter=9, seed=1, **QUIET)),
    "pmf": (Factors, lambda: models.PMF(k=4, max_iter=5, seed=1, **QUIET)),
    "ease": (RowScorer, lambda: models.EASE(**QUIET)),
    "most-pop": (RowScorer, models.MostPop),
    "item-knn": (RowScorer, lambda: models.ItemKNN(k=5, **QUIET)),
}


def fitted(name: str, dataset: Any = None) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return MODELS[name][1]().fit(DATASET if dataset is None else dataset)


@pytest.mark.parametrize("name", MODELS)
def test_the_order_of_recommendations(name: str) -> None:
    """Cornac numbers users and items as they come, so its rows are in another order than ours."""
    model = fitted(name)
    assert list(model.iid_map) != SPLIT.train.items.decode(np.arange(SPLIT.train.n_items))
    scorer = from_cornac(model, SPLIT.train)
    assert isinstance(scorer, MODELS[name][0])
    orders = {
        user: model.recommend(user, remove_seen=True, train_set=DATASET)
        for user in SPLIT.train.users.decode(np.arange(SPLIT.train.n_users))
    }
    assert_ranks_agree(scorer, SPLIT, orders)


def test_vectors_that_are_not_what_it_ranks_by() -> None:
    """EASE offers a matrix whose rows, not columns, meet the user: only the check on scores shows it."""
    model = fitted("ease")
    assert model._ann_supported
    assert isinstance(from_cornac(model, SPLIT.train), RowScorer)


@pytest.mark.parametrize("name", ["mf", "most-pop"])
def test_users_and_items_of_the_test_part_only(name: str) -> None:
    users, items = (
        Vocabulary.of([*vocabulary.ids.to_list(), f"{kind}new"])
        for kind, vocabulary in (("u", SPLIT.train.users), ("i", SPLIT.train.items))
    )
    train, test = (
        Interactions(
            users.encode(part.users.take(part.user)), items.encode(part.items.take(part.item)), users, items
        )
        for part in (SPLIT.train, SPLIT.test)
    )
    model = fitted(name)
    with pytest.raises(InvalidData, match=r"does not know 1, such as 'unew'\. Fit it on this train part"):
        from_cornac(model, train, unknown="error")
    scorer = from_cornac(model, train)
    assert scorer.unknown == {"users": 1, "items": 1}  # type: ignore[attr-defined]
    orders = {
        user: model.recommend(user, remove_seen=True, train_set=DATASET) for user in SPLIT.train.users.ids
    }
    assert_ranks_agree(scorer, Split(train, test), orders)
    new_item = int(items.encode(["inew"])[0])
    scores = scorer.score(np.arange(train.n_users), np.arange(train.n_items))
    assert (scores[:, new_item] < np.delete(scores, new_item, axis=1).min(axis=1)).all()


def test_held_out_ids_of_the_dataset_are_unknown() -> None:
    """Ids that only the evaluation part of Cornac's own data brought have no row in the model."""
    model = fitted("bpr")
    model.iid_map = {**model.iid_map, "inew": model.num_items}
    assert from_cornac(model, SPLIT.train).n_items == SPLIT.train.n_items


def test_what_does_not_fit() -> None:
    with pytest.raises(InvalidData, match=r"this BPR is not\. Call its fit first"):
        from_cornac(MODELS["bpr"][1](), SPLIT.train)
    with pytest.raises(InvalidParameter, match="from_cornac takes a model of Cornac, got list"):
        from_cornac([], SPLIT.train)
    other = Interactions.from_codes([0], [0])
    with pytest.raises(InvalidData, match=r"no id is the same: it has 'u[0-9]+' and the data 0"):
        from_cornac(fitted("most-pop"), other)
