"""EASE equals the explicit inverse."""

from __future__ import annotations

import numpy as np
import pytest

from tests.models import literal
from tests.models.literal import small_train
from truerank.core.errors import InvalidParameter
from truerank.core.interactions import Interactions
from truerank.core.progress import SILENT
from truerank.models import checks as check
from truerank.models import item_item as symmetric
from truerank.models.ease import Ease
from truerank.models.registry import MODELS


@pytest.mark.parametrize("reg", [0.01, 1.0, 500.0])
def test_equals_the_explicit_inverse(reg: float) -> None:
    train = small_train()
    scorer = Ease(reg=reg).fit(train)
    B = literal.ease(train, reg)
    np.testing.assert_allclose(scorer.weights, B, rtol=1e-9, atol=1e-12)
    scores = scorer.score(np.arange(train.n_users), np.arange(train.n_items))
    np.testing.assert_allclose(scores, literal.dense(train) @ B, rtol=1e-9, atol=1e-12)


def test_the_diagonal_is_zero() -> None:
    assert (Ease().fit(small_train()).weights.diagonal() == 0).all()


def test_two_items_by_hand() -> None:
    """G = [[3, 2], [2, 2]], reg 1: B_01 = 2 / (3 + 1), B_10 = 2 / (2 + 1)."""
    train = Interactions.from_codes([0, 0, 1, 1, 2], [0, 1, 0, 1, 0])
    np.testing.assert_allclose(Ease(reg=1.0).fit(train).weights, [[0, 1 / 2], [2 / 3, 0]], rtol=1e-15)


@pytest.mark.parametrize("n", [1, 5, 16, 17, 50])
def test_block_inverse(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks that divide the size or do not; only the lower triangle is read and written."""
    monkeypatch.setattr(symmetric, "_BLOCK", 8)
    rng = np.random.default_rng(n)
    root = rng.normal(size=(n, n))
    full = root @ root.T + np.eye(n)
    matrix = np.tril(full) + np.triu(np.full((n, n), np.nan), 1)
    symmetric.negate_inverse_lower(matrix, SILENT.task("inverse"))
    symmetric.mirror_lower(matrix)
    np.testing.assert_allclose(matrix, -np.linalg.inv(full), rtol=1e-8, atol=1e-10)
    assert np.array_equal(matrix, matrix.T)


def test_an_indefinite_matrix_asks_for_more_regularisation() -> None:
    with pytest.raises(InvalidParameter, match="reg is too small: the item-item matrix cannot be inverted"):
        symmetric.negate_inverse_lower(-np.eye(3), SILENT.task("inverse"))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("ease(reg=0)", "reg must be greater than 0, got 0.0"),
        ("ease(reg=-1)", "reg must be greater than 0, got -1.0"),
        ("ease(reg=nan)", "must be a number, got 'nan'"),
        ("ease(reg=inf)", "reg must be a finite number, got inf"),
        ("ease(lambda=1)", "has no parameter 'lambda'"),
    ],
)
def test_bad_parameters(spec: str, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        MODELS.make(spec)


def test_not_a_number_in_python() -> None:
    with pytest.raises(InvalidParameter, match="reg must be greater than 0, got nan"):
        Ease(reg=float("nan"))


def test_too_large_a_catalogue_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "_memory", lambda: 1000)
    with pytest.raises(InvalidParameter, match=r"'ease' needs 0\.0 GB .* Filter rare items, or use item-knn"):
        Ease().fit(small_train())
