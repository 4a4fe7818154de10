"""Models of implicit rank as implicit recommends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from tests.models.adapters.world import N_ITEMS, N_USERS, assert_ranks_agree, library, make_split, shuffled
from truerank.core.errors import InvalidData, InvalidParameter
from truerank.core.interactions import Interactions
from truerank.core.scorer import Factors, HasSparseRows
from truerank.models.adapters.implicit import from_implicit

library("implicit")
als, bpr, lmf, neighbours = (
    library(f"implicit.{name}") for name in ("als", "bpr", "lmf", "nearest_neighbours")
)

#: what implicit says about its own threads and matrices
pytestmark = [
    pytest.mark.filterwarnings("ignore:OpenBLAS is configured:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:Method expects CSR"),
]

SPLIT = make_split()
MATRIX = csr_matrix(SPLIT.train.matrix())
FACTORS: dict[str, Callable[[], Any]] = {
    "als": lambda: als.AlternatingLeastSquares(factors=5, iterations=3, random_state=0, num_threads=1),
    "bpr": lambda: bpr.BayesianPersonalizedRanking(factors=5, iterations=9, random_state=0, num_threads=1),
    "lmf": lambda: lmf.LogisticMatrixFactorization(factors=5, iterations=9, random_state=0, num_threads=1),
}
ITEM_ITEM: dict[str, Callable[[], Any]] = {
    "cosine": lambda: neighbours.CosineRecommender(K=8, num_threads=1),
    "tfidf": lambda: neighbours.TFIDFRecommender(K=8, num_threads=1),
    "bm25": lambda: neighbours.BM25Recommender(K=8, num_threads=1),
}
MODELS = {**FACTORS, **ITEM_ITEM}


def fit(model: Any, matrix: csr_matrix) -> None:
    model.fit(matrix, show_progress=False)


def recommended(model: Any, matrix: csr_matrix, users: list[Any], items: list[Any]) -> dict[Any, list[Any]]:
    """The whole list of implicit for each user; item-item models append seen items with a score of 0."""
    orders = {}
    for row, user in enumerate(users):
        ids, scores = model.recommend(row, matrix[row], N=len(items), filter_already_liked_items=True)
        real = scores > (0 if hasattr(model, "similarity") else -np.finfo(np.float32).max)
        orders[user] = [items[one] for one in ids[real]]
    return orders


@pytest.mark.parametrize("name", MODELS)
def test_a_model_of_the_train_matrix(name: str) -> None:
    model = MODELS[name]()
    fit(model, MATRIX)
    scorer = from_implicit(model, SPLIT.train)
    assert isinstance(scorer, Factors if name in FACTORS else HasSparseRows)
    every_user, every_item = np.arange(N_USERS), np.arange(N_ITEMS)
    assert_ranks_agree(
        scorer,
        SPLIT,
        recommended(
            model, MATRIX, SPLIT.train.users.decode(every_user), SPLIT.train.items.decode(every_item)
        ),
    )


@pytest.mark.parametrize("name", ["als", "cosine"])
def test_a_model_of_a_matrix_in_another_order(name: str) -> None:
    """By ids; without them the ranks would be those of other items (negative control)."""
    users, user_codes = shuffled(SPLIT.train.users)
    items, item_codes = shuffled(SPLIT.train.items, seed=3)
    matrix = csr_matrix(MATRIX[user_codes][:, item_codes])
    model = MODELS[name]()
    fit(model, matrix)
    history = None if name == "als" else matrix
    scorer = from_implicit(model, SPLIT.train, user_ids=users, item_ids=items, history=history)
    assert_ranks_agree(scorer, SPLIT, recommended(model, matrix, users, items))
    with pytest.raises(AssertionError, match=r"is not in \d+\.\.\d+"):
        assert_ranks_agree(from_implicit(model, SPLIT.train), SPLIT, recommended(model, matrix, users, items))


def test_weighted_histories() -> None:
    model = ITEM_ITEM["cosine"]()
    fit(model, MATRIX)
    weighted = csr_matrix(SPLIT.train.matrix(values=True))
    scorer = from_implicit(model, SPLIT.train, history=weighted)
    expected = (weighted @ model.similarity).toarray()
    found = scorer.score(np.arange(N_USERS), np.arange(N_ITEMS))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("name", MODELS)
def test_not_fitted(name: str) -> None:
    with pytest.raises(InvalidData, match=r"needs a fitted model, but this \w+ is not\. Call its fit first"):
        from_implicit(MODELS[name](), SPLIT.train)


def test_what_does_not_fit() -> None:
    model = FACTORS["als"]()
    fit(model, MATRIX)
    with pytest.raises(InvalidParameter, match="from_implicit takes a model of implicit, got dict"):
        from_implicit({}, SPLIT.train)
    other = Interactions.from_codes([0], [0], n_users=2, n_items=3)
    with pytest.raises(InvalidData, match="must have 2 users and 3 items like the data, but it has 50"):
        from_implicit(model, other)
    narrow = FACTORS["als"]()
    fit(narrow, csr_matrix(MATRIX[:, 1:]))
    with pytest.raises(InvalidData, match="the model must have 30 items like the data, but it has 29"):
        from_implicit(narrow, SPLIT.train, user_ids=SPLIT.train.users.ids.to_list())
    with pytest.raises(InvalidData, match=r"user_ids must name the 50 users of the model .* got 2"):
        from_implicit(model, SPLIT.train, user_ids=["u1", "u2"])
    knn = ITEM_ITEM["cosine"]()
    fit(knn, MATRIX)
    with pytest.raises(InvalidData, match="user_ids name the rows of history, which is not given"):
        from_implicit(knn, SPLIT.train, user_ids=list(range(N_USERS)))
    with pytest.raises(InvalidData, match="history must have the 30 items of the model as columns, got 29"):
        from_implicit(knn, SPLIT.train, history=MATRIX[:, 1:])
    model.item_factors[3, 0] = np.nan
    with pytest.raises(InvalidData, match="item factors of the model must be finite"):
        from_implicit(model, SPLIT.train)
