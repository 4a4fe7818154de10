"""Orders in which a slow model is asked for items: popular ones first, and which guesses are the largest."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.workflows.plan.world import make_world
from truerank.workflows.precision.item_order import PopularFirst, largest_first
from truerank.workflows.precision.proxy_order import make_order

SPLIT, _ = make_world()
USERS = np.array([3, 7, 400])


def test_popular_items_first_and_the_same_for_all() -> None:
    order, names = make_order("popularity", SPLIT)
    assert isinstance(order, PopularFirst)
    assert names == ["popularity"]
    found = order.guesses(USERS)
    counts = np.bincount(SPLIT.train.item, minlength=SPLIT.train.n_items)
    assert (np.argsort(-found.guess, axis=1) == np.argsort(-counts, kind="stable")).all()
    items = np.array([[5, 2], [0, 1], [9, 9]])
    assert found.features(items).shape == (3, 2, order.n_features)
    listed = order.guess_listed(np.repeat(USERS, 2), items.ravel(), np.zeros((6, 0)))
    assert listed.tolist() == np.take_along_axis(found.guess, items, axis=1).ravel().tolist()


@given(
    st.integers(1, 6).flatmap(
        lambda n_items: st.tuples(
            st.lists(
                st.lists(st.sampled_from([-np.inf, -1.0, 0.0, 2.0]), min_size=n_items, max_size=n_items)
            ),
            st.integers(0, n_items + 2),
        )
    )
)
def test_the_largest_come_first_and_of_equal_ones_the_lower_code(
    case: tuple[list[list[float]], int],
) -> None:
    rows, n = case
    guess = np.array(rows, np.float32).reshape(len(rows), -1 if rows else 3)
    expected = [[at for _, at in sorted((-one, at) for at, one in enumerate(row))][:n] for row in rows]
    assert largest_first(guess, n).tolist() == expected


@given(st.integers(0, 400), st.integers(2_000, 6_000), st.integers(0, 5), st.booleans())
def test_the_largest_of_long_rows_are_those_of_a_sort(n: int, length: int, seed: int, is_tied: bool) -> None:
    """Long rows are cut by some of their guesses first, which must lose none; many may be equal."""
    rng = np.random.default_rng(seed)
    guess = rng.normal(size=(2, length)).astype(np.float32)
    if is_tied:
        guess = np.round(guess)
        guess[1, : length // 2] = -np.inf
    assert (largest_first(guess, n) == np.argsort(-guess, axis=1, kind="stable")[:, :n]).all()
