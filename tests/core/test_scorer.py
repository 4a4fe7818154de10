"""Whatever a user has at hand becomes a scorer, and both forms of items agree."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from truerank.core.errors import InvalidData, InvalidParameter
from truerank.core.scorer import Factors, as_scorer

RNG = np.random.default_rng(0)
U, V, B = RNG.normal(size=(4, 3)), RNG.normal(size=(6, 3)), RNG.normal(size=6)
DENSE = U @ V.T + B


class Own:
    n_items = 6

    def score(self, users: Any, items: Any) -> Any:
        return DENSE[users][:, items] if np.ndim(items) == 1 else DENSE[np.asarray(users)[:, None], items]


@pytest.mark.parametrize(
    "given",
    [DENSE, csr_matrix(DENSE), (U, V, B), Own(), Own().score],
    ids=["dense", "sparse", "factors", "object", "function"],
)
def test_scores(given: Any) -> None:
    scorer = as_scorer(given, n_items=6)
    assert scorer.n_items == 6
    users, shared = np.array([2, 0]), np.array([5, 1, 1])
    own = np.array([[0, 1], [5, 2]])
    np.testing.assert_allclose(scorer.score(users, shared), DENSE[np.ix_(users, shared)], atol=1e-12)
    np.testing.assert_allclose(scorer.score(users, own), DENSE[users[:, None], own], atol=1e-12)
    np.testing.assert_allclose(scorer.score(users, np.arange(6)), DENSE[users], atol=1e-12)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ((U, V[:, :2]), "equal width, got 3 and 2"),
        ((U, V, B[:2]), "item_bias must have 6 entries, got 2"),
        ((U.astype(int), V), "must be float32 or float64"),
        ((U[0], V), "2 dimensions"),
    ],
)
def test_bad_factors(parts: tuple[Any, ...], message: str) -> None:
    with pytest.raises(InvalidData, match=message):
        Factors(*parts)


@pytest.mark.parametrize("given", ["x", 3, Own().score])
def test_what_is_no_scorer(given: Any) -> None:
    with pytest.raises(InvalidParameter, match="scores must be an array"):
        as_scorer(given)


def test_scores_must_be_a_matrix_of_numbers() -> None:
    with pytest.raises(InvalidData, match="users x items array of numbers"):
        as_scorer(np.zeros(3))
