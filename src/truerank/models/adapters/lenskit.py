"""Scorers from pipelines and components of LensKit."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from truerank.core.errors import InvalidData, InvalidParameter, suggests_arguments
from truerank.core.interactions import Interactions
from truerank.core.scorer import Scorer
from truerank.core.types import FloatArray, IntArray
from truerank.models.adapters.alignment import (
    RowScorer,
    Unknown,
    align_ids,
    check_model,
    is_dot_product,
    not_fitted,
    require,
)

NAME = "from_lenskit"


@suggests_arguments
def from_lenskit(
    model: Any,
    train: Interactions,
    *,
    dataset: Any = None,
    component: str = "scorer",
    unknown: Unknown = "cold",
) -> Scorer:
    """Return the scorer of a trained LensKit pipeline or scoring component (LensKit 2025 or later).

    A pipeline scores all items, one user after the other, and looks up the user's train history itself.
    Where its scores are dot products of the component's embeddings, they are
    ranked through factors; this is checked on a few users. Items that LensKit leaves without a score, which
    it never recommends, rank below all others.

    Parameters
    ----------
    model : a trained ``Pipeline``, or a component that is called with ``query`` and ``items``
    train : the train part; says the order of users and items
    dataset : the LensKit ``Dataset`` it was trained on; needed where the component does not keep its
        vocabularies of users and items
    component : name of the scoring node of the pipeline
    unknown : what to do with users and items of the data that the model does not know: ``cold`` ranks those
        without train events last and refuses the others, ``error`` refuses all, ``bottom`` ranks all last

    Raises
    ------
    InvalidData
        When the model is not trained, scores nothing, or its ids are not those of the data.

    Notes
    -----
    Implicit and explicit ALS in a pipeline compute the user's vector anew from the history; with the setting
    ``user_embeddings="prefer"`` they take the trained one, and ranking is far faster.
    """
    pipelines, data = (require(NAME, f"lenskit.{part}", extra="lenskit") for part in ("pipeline", "data"))
    is_pipeline = isinstance(model, pipelines.Pipeline)
    check_model(NAME, model, (pipelines.Pipeline, pipelines.Component), "a Pipeline or Component of LensKit")
    if is_pipeline and model.node(component, missing="none") is None:
        raise InvalidParameter(
            f"the pipeline has no node {component!r}. Name its scoring node: component=...."
        )
    parts = [model.component(node.name) for node in model.nodes()] if is_pipeline else [model]
    if any(_is_untrained(part) for part in parts):
        raise not_fitted(NAME, model, "train")
    scorer = model.component(component) if is_pipeline else model
    users, items = _vocabularies([scorer, *parts], dataset)
    alignment = align_ids(train, list(users.ids()), list(items.ids()), unknown=unknown)
    ask = _pipeline_call(model, component) if is_pipeline else _component_call(model, data.RecQuery)
    everything = data.ItemList.from_vocabulary(items)

    def rows(wanted: IntArray) -> FloatArray:
        scores = np.empty((len(wanted), len(everything)))
        for row, user in enumerate(wanted):
            scored = ask(users.term(int(user)), everything).scores()
            scores[row] = np.nan if scored is None else scored
        return np.where(np.isnan(scores), -np.inf, scores)

    _check_scores(rows, model, len(users))
    for user, item, bias in _embeddings(scorer, users, items):
        if is_dot_product(rows, user, item, bias):
            return alignment.factors(user, item, bias)
    return RowScorer(rows, alignment, len(everything))


def _is_untrained(part: Any) -> bool:
    """Return whether a component that can be trained holds nothing but its settings."""
    return hasattr(part, "train") and not set(vars(part)) - {"config"}


def _vocabularies(parts: list[Any], dataset: Any) -> tuple[Any, Any]:
    """Return LensKit's vocabularies of users and items: those of the dataset, or what a component keeps."""
    sources = parts if dataset is None else [dataset]
    history = [getattr(part, "interactions", None) for part in sources if dataset is None]
    vocabularies = []
    for what, side in (("user", "row"), ("item", "col")):
        kept = [getattr(source, name, None) for source in sources for name in (f"{what}s", f"{what}s_")]
        kept += [getattr(events, f"{side}_vocabulary", None) for events in history]
        named = [vocabulary for vocabulary in kept if hasattr(vocabulary, "term")]
        if not named:
            raise InvalidData(
                f"{NAME} needs the ids of the model's {what}s, but {type(sources[0]).__name__} does not keep "
                "them. Give the Dataset it was trained on: dataset=...."
            )
        vocabularies.append(named[0])
    return vocabularies[0], vocabularies[1]


def _pipeline_call(pipeline: Any, component: str) -> Callable[[Any, Any], Any]:
    return lambda user, items: pipeline.run(component, query=user, items=items)


def _component_call(component: Any, query: Any) -> Callable[[Any, Any], Any]:
    if "query" in inspect.signature(component.__call__).parameters:
        return lambda user, items: component(query=query.create(user), items=items)
    return lambda user, items: component(items=items)


def _check_scores(rows: Callable[[IntArray], FloatArray], model: Any, n_users: int) -> None:
    """Raise unless some of a few users get a score."""
    few = np.unique(np.linspace(0, n_users - 1, 5).astype(np.int64))
    if not np.isfinite(rows(few)).any():
        raise InvalidData(
            f"{NAME} needs scores, but {type(model).__name__} gave none to any of {len(few)} users. A "
            "component that needs the user's history must come inside its trained Pipeline."
        )


def _embeddings(
    scorer: Any, users: Any, items: Any
) -> list[tuple[FloatArray, FloatArray, FloatArray | None]]:
    """Return what may be the factors, with and without item biases."""
    user, item = (getattr(scorer, name, None) for name in ("user_embeddings", "item_embeddings"))
    if not (isinstance(user, np.ndarray) and isinstance(item, np.ndarray)):
        return []
    if (len(user), len(item)) != (len(users), len(items)):
        return []
    biases = getattr(getattr(scorer, "bias", None), "item_biases", None)
    candidates: list[tuple[FloatArray, FloatArray, FloatArray | None]] = [(user, item, None)]
    if biases is not None and len(biases) == len(item):
        candidates.append((user, item, np.asarray(biases)))
    return candidates
