"""Scorers from models of the library implicit."""

from __future__ import annotations

from typing import Any

import numpy as np

from truerank.core.errors import InvalidData, suggests_arguments
from truerank.core.interactions import Interactions
from truerank.core.scorer import Scorer
from truerank.core.types import FloatArray
from truerank.models.adapters.alignment import Unknown, check_model, make_alignment, not_fitted, require

NAME = "from_implicit"


@suggests_arguments
def from_implicit(
    model: Any,
    train: Interactions,
    *,
    user_ids: Any = None,
    item_ids: Any = None,
    unknown: Unknown = "cold",
    history: Any = None,
) -> Scorer:
    """Return the scorer of a fitted model of implicit.

    Matrix factorisations (ALS, BPR, logistic; CPU or GPU) are ranked through their factors, item-item models
    through sparse rows.

    Parameters
    ----------
    model : fitted on ``train.matrix()``, or on a matrix of your own with the ids of its rows and columns
        below
    train : the train part; says the order of users and items
    user_ids, item_ids : ids of the model's users and items in the order of its rows; None takes the order of
        ``train``
    unknown : what to do with users and items of the data that the model does not know: ``cold`` ranks those
        without train events last and refuses the others, ``error`` refuses all, ``bottom`` ranks all last
    history : item-item models only: the matrix you would pass to ``model.recommend`` as ``user_items``, in
        the model's rows and columns; None takes ``train.matrix()``

    Raises
    ------
    InvalidData
        When the model is not fitted or its users and items are not those of the data.

    Notes
    -----
    implicit keeps no ids. A model fitted on a matrix whose rows are in another order than ``train.users``
    needs ``user_ids`` and ``item_ids``; a wrong order cannot be detected.
    """
    base = require(NAME, "implicit.recommender_base")
    check_model(NAME, model, base.RecommenderBase, "a model of implicit")
    if hasattr(model, "similarity"):
        return _item_item(model, train, user_ids, item_ids, unknown, history)
    user, item = (getattr(model, name, None) for name in ("user_factors", "item_factors"))
    if user is None or item is None:
        raise not_fitted(NAME, model, "fit")
    user, item = _array(user), _array(item)
    return make_alignment(train, (len(user), len(item)), user_ids, item_ids, unknown).factors(user, item)


def _array(factors: Any) -> FloatArray:
    """Return factors as an array; those of GPU models lie in a matrix of implicit's own."""
    array: FloatArray = np.asarray(factors.to_numpy() if hasattr(factors, "to_numpy") else factors)
    return array


def _item_item(
    model: Any, train: Interactions, user_ids: Any, item_ids: Any, unknown: Unknown, history: Any
) -> Scorer:
    from scipy.sparse import csr_array

    from truerank.models.adapters.alignment import item_item_scorer, selected

    if model.similarity is None:
        raise not_fitted(NAME, model, "fit")
    weights = csr_array(model.similarity)
    n_items = weights.shape[0]
    if history is None:
        if user_ids is not None:
            raise InvalidData("user_ids name the rows of history, which is not given. Give both or neither.")
        alignment = make_alignment(train, (train.n_users, n_items), None, item_ids, unknown)
        return item_item_scorer(train.matrix(), weights, alignment)
    if history.shape[1] != n_items:
        raise InvalidData(
            f"history must have the {n_items} items of the model as columns, got {history.shape[1]}."
        )
    alignment = make_alignment(train, (history.shape[0], n_items), user_ids, item_ids, unknown)
    return item_item_scorer(selected(csr_array(history), alignment.user, alignment.item), weights, alignment)
