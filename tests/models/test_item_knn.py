"""Item-based nearest neighbours equal their definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.models import literal
from tests.models.literal import small_train
from truerank.core.errors import InvalidParameter
from truerank.core.interactions import Interactions
from truerank.core.scorer import HasSparseRows
from truerank.models import checks as check
from truerank.models.item_item import SparseHistoryScorer, dense_history_scorer
from truerank.models.item_knn import ItemKNN
from truerank.models.registry import MODELS

VARIANTS: list[dict[str, Any]] = [
    {"neighbours": None},
    {"neighbours": None, "power": 3.0, "norm": "l2", "include_self": True},
    {"neighbours": None, "norm": "l1", "shrink": 2.5},
    {"neighbours": 3},
    {"neighbours": 3, "keep": "column"},
    {"neighbours": 1, "keep": "column", "norm": "l2"},
    {"neighbours": 4, "keep": "row", "norm": "l1", "include_self": True},
    {"neighbours": 5, "keep": "column", "norm": "l2", "power": 0.5, "shrink": 1.0},
    {"neighbours": 20, "keep": "column", "norm": "l2", "power": 2.0},
    {"neighbours": 1000, "keep": "row", "norm": "l2"},
]


@pytest.mark.parametrize("options", VARIANTS, ids=str)
def test_equals_the_definition(options: dict[str, Any]) -> None:
    train = small_train()
    scorer = ItemKNN(**options).fit(train)
    scores = scorer.score(np.arange(train.n_users), np.arange(train.n_items))
    np.testing.assert_allclose(scores, literal.item_knn(train, **options), rtol=1e-12, atol=1e-14)


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    n_items=st.integers(6, 40),
    neighbours=st.none() | st.integers(1, 12),
    keep=st.sampled_from(["row", "column"]),
    norm=st.sampled_from([None, "l1", "l2"]),
    include_self=st.booleans(),
)
def test_equals_the_definition_on_any_data(seed: int, n_items: int, **options: Any) -> None:
    """Sparse rows with many equal cosines: the choice among them is the stated one."""
    train = small_train(seed, n_users=9, n_items=n_items, density=0.3)
    scores = ItemKNN(**options).fit(train).score(np.arange(train.n_users), np.arange(train.n_items))
    np.testing.assert_allclose(scores, literal.item_knn(train, **options), rtol=1e-12, atol=1e-14)


def test_one_common_user_of_two_and_three() -> None:
    """Items 0 (users 0, 1) and 1 (users 0, 2, 3): cosine 1 / sqrt(6), to the power 2 one sixth."""
    train = Interactions.from_codes([0, 1, 0, 2, 3], [0, 0, 1, 1, 1])
    scores = ItemKNN(power=2, neighbours=None).fit(train).score(np.array([1]), np.array([1]))
    assert scores[0, 0] == pytest.approx(1 / 6, rel=1e-15)


def test_equal_cosines_keep_the_lower_code() -> None:
    """Items 1, 2 and 3 are equally near to item 0; with one neighbour per history item, item 1 is kept."""
    train = Interactions.from_codes([0, 0, 0, 0, 1], [3, 2, 1, 0, 0], n_users=2)
    scores = ItemKNN(neighbours=1, keep="column").fit(train).score(np.array([1]), np.arange(4))
    assert (scores[0] > 0).tolist() == [False, True, False, False]


def test_equal_cosines_are_equal_bits() -> None:
    """3 / sqrt(18) and 1 / sqrt(2) differ when the root is taken first; here they tie."""
    assert 3 / np.sqrt(18.0) != 1 / np.sqrt(2.0) or 5 / np.sqrt(50.0) != 1 / np.sqrt(2.0)
    pairs = [(user, 0) for user in range(5)] + [(user, 1) for user in range(10)]  # 5 / sqrt(5 * 10)
    pairs += [(10, 2), (10, 3), (11, 3)]  # 1 / sqrt(1 * 2)
    train = Interactions.from_codes([u for u, _ in pairs], [i for _, i in pairs])
    for neighbours in (None, 3):
        scorer = ItemKNN(neighbours=neighbours).fit(train)
        one = scorer.score(np.array([9]), np.array([0]))
        other = scorer.score(np.array([11]), np.array([2]))
        assert one[0, 0] == other[0, 0]


def test_sparse_and_full_matrices_give_the_same_bits() -> None:
    """Neighbour lists long enough to hold everything equal the full matrix."""
    train = small_train(n_items=30)
    everything = np.arange(train.n_users), np.arange(train.n_items)
    full = ItemKNN(neighbours=None).fit(train).score(*everything)
    assert np.array_equal(full, ItemKNN(neighbours=30).fit(train).score(*everything))
    few = small_train(n_items=60)
    sparse = ItemKNN(neighbours=14, norm="l2").fit(few)
    assert isinstance(sparse, SparseHistoryScorer)
    dense = dense_history_scorer(few, sparse.weights.toarray())
    users, items = np.arange(few.n_users), np.arange(few.n_items)
    assert np.array_equal(sparse.score(users, items), dense.score(users, items))


def test_few_neighbours_give_sparse_rows() -> None:
    assert isinstance(ItemKNN(neighbours=2).fit(small_train()), HasSparseRows)
    assert not isinstance(ItemKNN(neighbours=None).fit(small_train()), HasSparseRows)


def test_presets_of_krichene_and_rendle() -> None:
    assert MODELS.make("kr20-y") == ItemKNN(power=3, neighbours=None, norm="l2", include_self=True)
    assert MODELS.make("kr20-z") == ItemKNN(neighbours=10, keep="column", norm="l2")
    assert MODELS.make("l23-knn(neighbours=350)") == ItemKNN(neighbours=350, keep="column")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("item-knn(power=0)", "power must be greater than 0, got 0.0"),
        ("item-knn(power=inf)", "power must be a finite number, got inf"),
        ("item-knn(neighbours=0)", "neighbours must be an integer >= 1, got 0"),
        ("item-knn(neighbours=1.5)", "must be an integer or none, got 1.5"),
        ("item-knn(keep=both)", "must be row or column, got 'both'"),
        ("item-knn(norm=l3)", "must be l1 or l2 or none, got 'l3'"),
        ("item-knn(shrink=-1)", "shrink must be at least 0, got -1.0"),
        ("item-knn(neighbors=5)", "has no parameter 'neighbors'. Did you mean 'neighbours'?"),
    ],
)
def test_bad_parameters(spec: str, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message.replace("(", r"\(").replace("?", r"\?")):
        MODELS.make(spec)


def test_bad_parameters_in_python() -> None:
    with pytest.raises(InvalidParameter, match="keep must be one of row, column, got 'both'"):
        ItemKNN(keep="both")  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="neighbours must be an integer >= 1, got True"):
        ItemKNN(neighbours=True)


def test_too_large_a_catalogue_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "_memory", lambda: 1000)
    with pytest.raises(InvalidParameter, match=r"this machine has 0\.0 GB\. Keep fewer similarities"):
        ItemKNN(neighbours=None).fit(small_train())
