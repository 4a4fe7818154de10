"""Torch modules, functions and arrays as scorers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse

from tests.models.adapters.world import library
from truerank.core.errors import InvalidData, InvalidParameter
from truerank.core.interactions import Interactions
from truerank.core.scorer import DenseScores, Factors, SparseScores
from truerank.models.adapters.arrays import scorer_from_arrays
from truerank.models.adapters.function import from_callable
from truerank.models.adapters.torch import from_torch

torch = library("torch")
N_USERS, N_ITEMS = 6, 9
RNG = np.random.default_rng(0)


def make_module() -> Any:
    class Pairs(torch.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(1)
            self.user = torch.nn.Embedding(N_USERS, 3)
            self.item = torch.nn.Embedding(N_ITEMS, 3)
            self.dropout = torch.nn.Dropout(0.5)
            self.out = torch.nn.Linear(3, 1)

        def forward(self, users: Any, items: Any) -> Any:
            assert not torch.is_grad_enabled()
            return self.out(self.dropout(self.user(users) * self.item(items)))

        def row(self, users: Any) -> Any:
            return (self.user(users) * self.out.weight) @ self.item.weight.T

    return Pairs()


def expected(module: Any) -> np.ndarray:
    weights = [part.detach().numpy().astype(float) for part in (module.user.weight, module.item.weight)]
    return np.asarray((weights[0] * module.out.weight.detach().numpy()) @ weights[1].T)


@pytest.mark.parametrize("batch", [1, 7, 1000])
@pytest.mark.parametrize("layout", ["pairs", "rows"])
def test_modules(layout: Any, batch: int) -> None:
    module = make_module()
    module.dropout.eval()  # a part that was put into eval mode by hand stays there
    score = None if layout == "pairs" else module.row
    scorer = from_torch(module, n_items=N_ITEMS, score=score, layout=layout, batch=batch)
    truth = expected(module) + (module.out.bias.item() if layout == "pairs" else 0)
    users = np.array([5, 0, 0, 3], np.int32)
    own = RNG.integers(N_ITEMS, size=(4, 5))
    assert scorer.n_items == N_ITEMS
    np.testing.assert_allclose(scorer.score(users, np.arange(N_ITEMS)), truth[users], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(scorer.score(users, own), truth[users[:, None], own], rtol=1e-5, atol=1e-6)
    assert scorer.score(users[:0], np.arange(N_ITEMS)).shape == (0, N_ITEMS)
    assert module.training
    assert not module.dropout.training


def test_a_scorer_follows_the_module_and_takes_half_precision() -> None:
    module = make_module()
    scorer = from_torch(
        module, n_items=N_ITEMS, score=lambda users: module.row(users).bfloat16(), layout="rows", device="cpu"
    )
    before = scorer.score(np.arange(N_USERS), np.arange(N_ITEMS))
    with torch.no_grad():
        module.user.weight.mul_(2)
    after = scorer.score(np.arange(N_USERS), np.arange(N_ITEMS))
    np.testing.assert_array_equal(after, 2 * before)


def test_what_does_not_fit() -> None:
    module = make_module()
    with pytest.raises(InvalidParameter, match=r"from_torch takes a torch\.nn\.Module, got function"):
        from_torch(test_modules, n_items=3)
    with pytest.raises(InvalidParameter, match="layout must be one of pairs, rows, got 'grid'"):
        from_torch(module, n_items=3, layout="grid")  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="n_items must be an integer >= 1, got 0"):
        from_torch(module, n_items=0)
    with pytest.raises(InvalidParameter, match="score must be a function, got int"):
        from_torch(module, n_items=3, score=5)  # type: ignore[arg-type]
    scorer = from_torch(module, n_items=N_ITEMS, score=lambda users: module.row(users)[:, 1:], layout="rows")
    with pytest.raises(InvalidData, match=r"must return shape \(1, 9\) with layout='rows', got \(1, 8\)"):
        scorer.score(np.array([0]), np.arange(N_ITEMS))


def test_functions() -> None:
    scores = RNG.normal(size=(N_USERS, N_ITEMS))
    scorer = from_callable(lambda users, items: scores[users[:, None], items], N_ITEMS)
    users = np.array([2, 1])
    assert np.array_equal(scorer.score(users, np.array([3, 4])), scores[users][:, [3, 4]])
    assert np.array_equal(
        scorer.score(users, np.array([[3], [4]])), scores[users[:, None], np.array([[3], [4]])]
    )
    flat = from_callable(lambda users, items: np.zeros(3), N_ITEMS)
    with pytest.raises(
        InvalidData, match=r"must return numbers of shape \(2, 1\), got float64 of shape \(3,\)"
    ):
        flat.score(users, np.array([0]))
    with pytest.raises(InvalidParameter, match="takes a function of users and items, got int"):
        from_callable(3, N_ITEMS)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="n_items must be an integer >= 1, got -1"):
        from_callable(lambda users, items: 0, -1)


def test_arrays() -> None:
    train = Interactions.from_codes([0], [0], n_users=N_USERS, n_items=N_ITEMS)
    user, item, bias = RNG.normal(size=(N_USERS, 2)), RNG.normal(size=(N_ITEMS, 2)), RNG.normal(size=N_ITEMS)
    everything = np.arange(N_USERS), np.arange(N_ITEMS)
    assert isinstance(scorer_from_arrays(user @ item.T, train), DenseScores)
    assert isinstance(scorer_from_arrays(scipy.sparse.csr_array(user @ item.T), train), SparseScores)
    factors = scorer_from_arrays((user, item.astype(np.float16), bias), train)
    assert isinstance(factors, Factors)
    half = item.astype(np.float16).astype(float)
    np.testing.assert_allclose(factors.score(*everything), user @ half.T + bias, rtol=1e-12)
    assert scorer_from_arrays((np.ones((2, 1), int), np.ones((3, 1), int))).n_items == 3
    for wrong in (user, (user[1:], item), scipy.sparse.csr_array(user)):
        with pytest.raises(InvalidData, match="scores must be of 6 users and 9 items like the data, got"):
            scorer_from_arrays(wrong, train)
    with pytest.raises(InvalidData, match="item factors must be finite"):
        scorer_from_arrays((user, item * np.nan))
    with pytest.raises(InvalidData, match="factors must be numbers, got <U"):
        scorer_from_arrays((user.astype(str), item))
    with pytest.raises(
        InvalidParameter, match="takes an array, a sparse matrix or a tuple of factors, got list"
    ):
        scorer_from_arrays([[1.0]])
