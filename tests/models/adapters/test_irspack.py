"""Recommenders of irspack rank as irspack does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from tests.models.adapters.world import N_ITEMS, N_USERS, assert_ranks_agree, library, make_split, shuffled
from truerank.core.errors import InvalidData, InvalidParameter
from truerank.core.scorer import Factors
from truerank.models.adapters.alignment import RowScorer
from truerank.models.adapters.irspack import from_irspack
from truerank.models.item_item import SparseHistoryScorer

irspack = library("irspack")

SPLIT = make_split()
KINDS: dict[str, type] = {
    "IALSRecommender": Factors,
    "TruncatedSVDRecommender": Factors,
    "CosineKNNRecommender": SparseHistoryScorer,
    "P3alphaRecommender": SparseHistoryScorer,
    "DenseSLIMRecommender": RowScorer,
    "CosineUserKNNRecommender": RowScorer,
    "TopPopRecommender": RowScorer,
}
SETTINGS = {
    "IALSRecommender": {"n_components": 4, "train_epochs": 3},
    "TruncatedSVDRecommender": {"n_components": 4},
}


def make(name: str, matrix: csr_matrix) -> Any:
    return getattr(irspack, name)(matrix, **SETTINGS.get(name, {}))


def ranked(model: Any, users: list[Any], items: list[Any]) -> dict[Any, list[Any]]:
    """All unseen items by irspack's own masked scores."""
    scores = model.get_score_remove_seen(np.arange(len(users)))
    return {
        user: [items[one] for one in np.argsort(-row, kind="stable") if row[one] > -np.inf]
        for user, row in zip(users, scores, strict=True)
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_in_the_order_of_the_data_and_in_another(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    users, user_codes = shuffled(SPLIT.train.users)
    items, item_codes = shuffled(SPLIT.train.items, seed=3)
    matrix = csr_matrix(SPLIT.train.matrix(values=True))
    model = make(name, matrix).learn()
    own = SPLIT.train.users.decode(np.arange(N_USERS)), SPLIT.train.items.decode(np.arange(N_ITEMS))
    scorer = from_irspack(model, SPLIT.train)
    assert isinstance(scorer, KINDS[name])
    assert_ranks_agree(scorer, SPLIT, ranked(model, *own))
    model = make(name, csr_matrix(matrix[user_codes][:, item_codes])).learn()
    scorer = from_irspack(model, SPLIT.train, user_ids=users, item_ids=items)
    assert isinstance(scorer, KINDS[name])
    assert_ranks_agree(scorer, SPLIT, ranked(model, users, items))


@pytest.mark.parametrize("name", KINDS)
def test_not_fitted(name: str) -> None:
    with pytest.raises(InvalidData, match=rf"this {name} is not\. Call its learn first"):
        from_irspack(make(name, csr_matrix(SPLIT.train.matrix())), SPLIT.train)


def test_what_does_not_fit() -> None:
    model = make("TopPopRecommender", csr_matrix(SPLIT.train.matrix()[1:])).learn()
    with pytest.raises(InvalidData, match="50 users and 30 items like the data, but it has 49 and 30"):
        from_irspack(model, SPLIT.train)
    with pytest.raises(InvalidParameter, match="takes a recommender of irspack, got int"):
        from_irspack(3, SPLIT.train)
