"""Scorers from models of Cornac."""

from __future__ import annotations

from typing import Any

import numpy as np

from truerank.core.errors import suggests_arguments
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

NAME = "from_cornac"


@suggests_arguments
def from_cornac(model: Any, train: Interactions, *, unknown: Unknown = "cold") -> Scorer:
    """Return the scorer of a fitted model of Cornac.

    Users and items are found by the ids the model was fitted with. Models that offer vectors whose dot
    products are their scores (MF, BPR, WMF, PMF, ...) are ranked through factors; this is checked on a few
    users. Others are scored one user after the other by ``model.score``.

    Parameters
    ----------
    model : fitted on a ``cornac.data.Dataset`` with the ids of the data, as numbers or text
    train : the train part; says the order of users and items
    unknown : what to do with users and items of the data that the model does not know: ``cold`` ranks those
        without train events last and refuses the others, ``error`` refuses all, ``bottom`` ranks all last
        (Cornac itself lets them tie with the worst)

    Raises
    ------
    InvalidData
        When the model is not fitted or its ids are not those of the data.
    """
    require(NAME, "cornac")
    base = require(NAME, "cornac.models.recommender")
    check_model(NAME, model, base.Recommender, "a model of Cornac")
    if not model.is_fitted:
        raise not_fitted(NAME, model, "fit")
    alignment = align_ids(
        train,
        _ids(model.uid_map, model.num_users),
        _ids(model.iid_map, model.num_items),
        unknown=unknown,
    )

    def rows(users: IntArray) -> FloatArray:
        return np.stack([np.ravel(model.score(int(user)))[: model.num_items] for user in users])

    vectors = _vectors(model, base.MEASURE_DOT)
    if vectors is not None and is_dot_product(rows, *vectors):
        return alignment.factors(*vectors)
    return RowScorer(rows, alignment, model.num_items)


def _ids(rows: dict[Any, int], n_known: int) -> list[Any]:
    """Return the ids of the rows the model has learnt; later ones are of users and items held out."""
    named = sorted((row, id_) for id_, row in rows.items() if row < n_known)
    return [id_ for _, id_ in named]


def _vectors(model: Any, dot: str) -> tuple[FloatArray, FloatArray] | None:
    """Return user and item vectors where the model has them as plain arrays."""
    if not getattr(model, "_ann_supported", False) or model.get_vector_measure() != dot:
        return None
    user, item = model.get_user_vectors(), model.get_item_vectors()
    if not (isinstance(user, np.ndarray) and isinstance(item, np.ndarray)):
        return None
    return user[: model.num_users], item[: model.num_items]
