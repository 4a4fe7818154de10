"""Pipelines of LensKit rank as LensKit recommends."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.models.adapters.world import assert_ranks_agree, events, library, make_split
from truerank.core.errors import InvalidData, InvalidParameter
from truerank.core.scorer import Factors
from truerank.models.adapters.alignment import RowScorer
from truerank.models.adapters.lenskit import from_lenskit

lenskit = library("lenskit")
if not hasattr(lenskit, "Pipeline") and int(str(lenskit.__version__).partition(".")[0]) < 2025:
    pytest.skip("LensKit 2025 or later is needed", allow_module_level=True)
pipelines, data, als, knn, basic = (
    library(f"lenskit.{name}") for name in ("pipeline", "data", "als", "knn", "basic")
)
pandas = library("pandas")

SPLIT = make_split()
EVENTS = events(SPLIT.train)
DATASET = data.from_interactions_df(pandas.DataFrame(EVENTS, columns=["user_id", "item_id", "rating"]))
SMALL = {"embedding_size": 4, "epochs": 3}
MODELS: dict[str, tuple[type, Any]] = {
    "implicit als": (RowScorer, lambda: als.ImplicitMFScorer(**SMALL)),
    "implicit als, trained vectors": (
        Factors,
        lambda: als.ImplicitMFScorer(**SMALL, user_embeddings="prefer"),
    ),
    "biased als": (RowScorer, lambda: als.BiasedMFScorer(**SMALL)),
    "biased als, trained vectors": (Factors, lambda: als.BiasedMFScorer(**SMALL, user_embeddings="prefer")),
    "item-knn": (RowScorer, lambda: knn.ItemKNNScorer(feedback="implicit", max_nbrs=5)),
    "ease": (RowScorer, knn.EASEScorer),
    "popularity": (RowScorer, basic.PopScorer),
}


def pipeline(name: str) -> Any:
    made = pipelines.topn_pipeline(MODELS[name][1]())
    made.train(DATASET)
    return made


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_the_order_of_recommendations(name: str) -> None:
    made = pipeline(name)
    scorer = from_lenskit(made, SPLIT.train)
    assert isinstance(scorer, MODELS[name][0])
    orders = {
        user: list(made.run("recommender", query=user, n=-1).ids())
        for user in SPLIT.train.users.ids.to_list()
    }
    assert_ranks_agree(scorer, SPLIT, orders)


@pytest.mark.parametrize("name", ["implicit als", "biased als"])
def test_a_component_alone_ranks_by_its_trained_vectors(name: str) -> None:
    component = pipeline(name).component("scorer")
    scorer = from_lenskit(component, SPLIT.train)
    assert isinstance(scorer, Factors)
    items = SPLIT.train.items.ids.to_list()
    for code, user in enumerate(SPLIT.train.users.ids.to_list()):
        own = component(query=user, items=data.ItemList(item_ids=items)).scores()
        found = scorer.score(np.array([code]), np.arange(len(items)))[0]
        np.testing.assert_allclose(found - found.mean(), own - own.mean(), atol=1e-5)


def test_a_component_without_vocabularies() -> None:
    component = pipeline("popularity").component("scorer")
    with pytest.raises(
        InvalidData, match=r"needs the ids of the model's users, but PopScorer does not keep them"
    ):
        from_lenskit(component, SPLIT.train)
    scorer = from_lenskit(component, SPLIT.train, dataset=DATASET)
    scores = scorer.score(np.arange(2), np.arange(SPLIT.train.n_items))
    counts = SPLIT.train.item_counts()
    assert (scores[0][:, None] > scores[0])[counts[:, None] > counts].all()
    assert np.array_equal(scores[0], scores[1])


def test_what_does_not_fit() -> None:
    untrained = pipelines.topn_pipeline(als.ImplicitMFScorer(**SMALL))
    with pytest.raises(InvalidData, match=r"this Pipeline is not\. Call its train first"):
        from_lenskit(untrained, SPLIT.train)
    with pytest.raises(InvalidData, match=r"this EASEScorer is not\. Call its train first"):
        from_lenskit(knn.EASEScorer(), SPLIT.train, dataset=DATASET)
    with pytest.raises(InvalidData, match="EASEScorer gave none to any of 5 users"):
        from_lenskit(pipeline("ease").component("scorer"), SPLIT.train, dataset=DATASET)
    with pytest.raises(InvalidParameter, match="takes a Pipeline or Component of LensKit, got str"):
        from_lenskit("als", SPLIT.train)
    with pytest.raises(InvalidParameter, match="the pipeline has no node 'scores'"):
        from_lenskit(pipeline("ease"), SPLIT.train, component="scores")
