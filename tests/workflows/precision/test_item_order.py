"""Orders in which a slow model is asked for items."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from tests.workflows.plan.world import make_world
from truerank.core.errors import TruerankError
from truerank.core.scorer import CallableScores, Factors, HasSparseRows, as_scorer
from truerank.core.types import FloatArray
from truerank.models.item_item import sparse_history_scorer
from truerank.workflows.precision.item_order import (
    Asked,
    PopularFirst,
    ProxyOrder,
    guesses,
    largest_first,
    make_order,
)

SPLIT, SCORES = make_world()
USERS = np.array([3, 7, 400])


def asked(order: ProxyOrder, scores: FloatArray, n: int = 30) -> Asked:
    """Return the answers for the items that an order puts first, for some users."""
    users = np.arange(0, 500, 5)
    guess, known = guesses(order, users)
    items = np.argsort(-guess, axis=1)[:, :n].ravel()
    rows = np.repeat(np.arange(len(users)), n)
    features = np.stack([feature[rows, items] for feature in known], axis=1)
    return Asked(users[rows], items, scores[users[rows], items], features)


def test_popular_items_first_and_the_same_for_all() -> None:
    order, names = make_order("popularity", SPLIT)
    assert isinstance(order, PopularFirst)
    assert names == ["popularity"]
    guess = guesses(order, USERS)[0]
    counts = np.bincount(SPLIT.train.item, minlength=SPLIT.train.n_items)
    assert (np.argsort(-guess, axis=1) == np.argsort(-counts, kind="stable")).all()


def test_one_proxy_is_followed() -> None:
    order = ProxyOrder([as_scorer(SCORES)], SPLIT.train)
    guess = guesses(order, USERS)[0]
    for user, row in zip(USERS.tolist(), guess, strict=True):
        assert np.corrcoef(row, SCORES[user])[0, 1] > 0.999999


def test_the_proxy_that_is_right_gets_the_weight() -> None:
    noise = np.random.default_rng(0).normal(size=SCORES.shape)
    order = ProxyOrder([as_scorer(SCORES), as_scorer(noise)], SPLIT.train)
    assert order.weights.tolist() == [0.5, 0.5, 0.0]
    for _ in range(3):
        order.learn(asked(order, SCORES))
    assert order.weights[0] > 5 * order.weights[1] >= 0


def test_weights_are_never_negative() -> None:
    order = ProxyOrder([as_scorer(SCORES), as_scorer(-SCORES)], SPLIT.train)
    order.learn(asked(order, SCORES))
    assert (order.weights >= 0).all()


def test_scores_that_are_no_numbers_or_all_equal_do_no_harm() -> None:
    broken = np.full(SCORES.shape, np.nan)
    order = ProxyOrder([as_scorer(broken), as_scorer(np.ones(SCORES.shape))], SPLIT.train)
    assert np.isfinite(guesses(order, USERS)[0]).all()
    same = asked(order, np.zeros(SCORES.shape))
    order.learn(same)
    assert np.isfinite(order.weights).all()


@pytest.mark.parametrize(("proxy", "sentence"), [("eas", "Did you mean 'ease'"), ("", "at least one model")])
def test_bad_names_get_a_sentence(proxy: str, sentence: str) -> None:
    with pytest.raises(TruerankError, match=sentence):
        make_order(proxy, SPLIT)


def test_rows_of_proxies_are_their_scores_however_they_are_stored() -> None:
    """Factors, sparse rows and a function are asked in the way that is cheapest for each."""
    rng = np.random.default_rng(4)
    factors = Factors(rng.normal(size=(500, 6)), rng.normal(size=(240, 6)), rng.normal(size=240))
    weights = np.where(rng.random((240, 240)) < 0.1, rng.random((240, 240)), 0.0)
    sparse = sparse_history_scorer(SPLIT.train, csr_array(weights))
    assert isinstance(sparse, HasSparseRows)
    for proxy in (factors, sparse, CallableScores(factors.score, 240)):
        row = ProxyOrder([proxy], SPLIT.train).known(USERS)[0]
        twin = np.asarray(proxy.score(USERS, np.arange(240)), np.float64)
        np.testing.assert_allclose(row, twin / twin.std(axis=1, keepdims=True), rtol=1e-5, atol=1e-6)


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


def test_factors_too_large_for_single_precision_do_no_harm() -> None:
    n_users, n_items = SPLIT.train.n_users, SPLIT.train.n_items
    huge = Factors(np.full((n_users, 2), 1e200), np.full((n_items, 2), 1e90))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        row = ProxyOrder([huge], SPLIT.train).known(USERS)[0]
        large = ProxyOrder([as_scorer(1e30 * SCORES)], SPLIT.train).known(USERS)[0]
    assert not row.any()
    np.testing.assert_allclose(large, SCORES[USERS] / SCORES[USERS].std(axis=1, keepdims=True), rtol=1e-4)
