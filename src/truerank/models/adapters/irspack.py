"""Scorers from recommenders of irspack."""

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
    check_model,
    is_dot_product,
    make_alignment,
    probe,
    require,
)

NAME = "from_irspack"


@suggests_arguments
def from_irspack(
    model: Any,
    train: Interactions,
    *,
    user_ids: Any = None,
    item_ids: Any = None,
    unknown: Unknown = "cold",
) -> Scorer:
    """Return the scorer of a fitted recommender of irspack.

    Recommenders whose embeddings' dot products are their scores (iALS, truncated SVD) are ranked through
    factors, item-item models with a sparse matrix through sparse rows, others by ``get_score`` in batches.

    Parameters
    ----------
    model : has learnt from ``train.matrix()``, or from a matrix of your own with the ids of its rows and
        columns below
    train : the train part; says the order of users and items
    user_ids, item_ids : ids of the model's users and items in the order of its rows, such as the lists of an
        ``IDMapper``; None takes the order of ``train``
    unknown : what to do with users and items of the data that the model does not know: ``cold`` ranks those
        without train events last and refuses the others, ``error`` refuses all, ``bottom`` ranks all last

    Raises
    ------
    InvalidData
        When the model has not learnt yet or its users and items are not those of the data.
    """
    base = require(NAME, "irspack.recommenders.base")
    check_model(NAME, model, base.BaseRecommender, "a recommender of irspack")

    def rows(users: IntArray) -> FloatArray:
        scores = model.get_score(users)
        return np.asarray(scores.toarray() if hasattr(scores, "toarray") else scores)

    probe(NAME, model, rows, "learn")
    alignment = make_alignment(train, (model.n_users, model.n_items), user_ids, item_ids, unknown)
    if hasattr(model, "get_user_embedding") and hasattr(model, "get_item_embedding"):
        user, item = (np.asarray(model.get_user_embedding()), np.asarray(model.get_item_embedding()))
        if is_dot_product(rows, user, item):
            return alignment.factors(user, item)
    if isinstance(model, base.BaseSimilarityRecommender) and hasattr(model.W, "tocsr"):
        from scipy.sparse import csr_array

        from truerank.models.adapters.alignment import item_item_scorer, selected

        history = selected(csr_array(model.X_train_all), alignment.user, alignment.item)
        return item_item_scorer(history, csr_array(model.W), alignment)
    return RowScorer(rows, alignment, model.n_items)
