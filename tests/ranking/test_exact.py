"""Exact ranks equal the definition whatever the scorer is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from tests.reference.ranks import literal_ranks
from tests.strategies import splits
from truerank.core.errors import InvalidData, InvalidParameter
from truerank.core.interactions import Interactions, Vocabulary
from truerank.core.ranks import SEEN_POLICIES, Ranks, SeenPolicy
from truerank.core.scorer import as_scorer
from truerank.core.split import Split
from truerank.ranking.exact import exact_ranks
from truerank.ranking.files import ranks_table

KINDS: dict[str, Callable[[np.ndarray, np.ndarray], Any]] = {
    "float32 factors": lambda u, v: (u.astype(np.float32), v.astype(np.float32)),
    "float64 factors": lambda u, v: (u, v),
    "dense": lambda u, v: u @ v.T,
    "sparse": lambda u, v: csr_array(u @ v.T),
    "function": lambda u, v: lambda users, items: (u @ v.T)[users][:, items],
}


def as_rows(ranks: Ranks) -> list[dict[str, int]]:
    columns = ranks.columns()
    return [dict(zip(columns, map(int, row), strict=True)) for row in zip(*columns.values(), strict=True)]


@given(
    split=splits(),
    seed=st.integers(0, 99),
    seen=st.sampled_from(SEEN_POLICIES),
    kind=st.sampled_from(sorted(KINDS)),
)
def test_equals_the_definition(split: Split, seed: int, seen: SeenPolicy, kind: str) -> None:
    """Small integer factors: many ties, and every product is exact."""
    draw = np.random.default_rng(seed)
    user = draw.integers(-2, 3, (split.train.n_users, 3)).astype(np.float64)
    item = draw.integers(-2, 3, (split.train.n_items, 3)).astype(np.float64)
    scorer = as_scorer(KINDS[kind](user, item), n_items=split.train.n_items)
    assert as_rows(exact_ranks(scorer, split, seen=seen)) == literal_ranks(user @ item.T, split, seen)


def hand_made() -> Split:
    train = Interactions.from_codes([0, 1], [0, 1], n_users=3, n_items=4)
    return Split(train, Interactions.from_codes([0, 1], [3, 2], n_users=3, n_items=4))


def test_blocks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(0)
    user, item = np.divmod(draw.choice(50 * 30, 400, replace=False), 30)
    events = Interactions.from_codes(user, item, n_users=50, n_items=30)
    is_test = draw.random(400) < 0.2
    split = Split(events.where(~is_test), events.where(is_test))
    scorer = as_scorer(draw.integers(0, 5, (50, 30)).astype(np.float64))
    whole = as_rows(exact_ranks(scorer, split))
    monkeypatch.setattr("truerank.ranking.exact._BLOCK_BYTES", 8 * 30 * 3)
    assert as_rows(exact_ranks(scorer, split)) == whole


def test_a_catalogue_of_another_size_is_refused() -> None:
    with pytest.raises(InvalidData, match="must know the 4 items of the data, it knows 5"):
        exact_ranks(as_scorer(np.zeros((3, 5))), hand_made())


def test_missing_users_are_refused() -> None:
    with pytest.raises(InvalidData, match="user 1 has none"):
        exact_ranks(as_scorer((np.zeros((1, 2)), np.zeros((4, 2)))), hand_made())


def test_wrong_shape_is_refused() -> None:
    scorer = as_scorer(lambda users, items: np.zeros(len(items)), n_items=4)
    with pytest.raises(InvalidData, match=r"must return shape \(2, 4\), got \(4,\)"):
        exact_ranks(scorer, hand_made())


@pytest.mark.parametrize("kind", ["dense", "sparse", "factors"])
def test_nan_scores_are_refused(kind: str) -> None:
    scores = np.ones((3, 4))
    scores[1, 2] = np.nan
    given_scores = {"dense": scores, "sparse": csr_array(scores), "factors": (scores, np.ones((4, 4)))}[kind]
    with pytest.raises(InvalidData, match=r"NaN|finite"):
        exact_ranks(as_scorer(given_scores), hand_made())


def test_unknown_policy_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="seen must be one of remove, bottom, keep, got 'drop'"):
        exact_ranks(as_scorer(np.zeros((3, 4))), hand_made(), seen="drop")  # type: ignore[arg-type]


def test_table_has_the_users_own_ids() -> None:
    ranks = exact_ranks(as_scorer(np.arange(12.0).reshape(3, 4)), hand_made())
    table = ranks_table({"m": ranks}, Vocabulary.of(["u", "v", "w"]), Vocabulary.of([10, 20, 30, 40]))
    assert table.select("model", "user_id", "item_id", "rank", "n_pool").rows() == [
        ("m", "u", 40, 1, 3),
        ("m", "v", 30, 2, 3),
    ]
