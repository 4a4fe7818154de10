"""The order of cheap models, and what it learns from scores of the slow one."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.sparse import csr_array

from tests.workflows.plan.world import make_world
from truerank.core.errors import TruerankError
from truerank.core.scorer import CallableScores, Factors, HasSparseRows, as_scorer
from truerank.core.types import FloatArray, IntArray
from truerank.models.item_item import sparse_history_scorer
from truerank.workflows.precision.item_order import Asked
from truerank.workflows.precision.proxy_order import ProxyOrder, make_order
from truerank.workflows.precision.proxy_scores import ProxyScores

SPLIT, SCORES = make_world()
N_USERS, N_ITEMS = SCORES.shape
USERS = np.array([3, 7, 400])
ALL_USERS = np.arange(N_USERS)


def asked(order: ProxyOrder, scores: FloatArray, users: IntArray = ALL_USERS[::5], n: int = 30) -> Asked:
    """Return the answers for the items that an order puts first, for some users."""
    found = order.guesses(users)
    items = np.argsort(-found.guess, axis=1)[:, :n]
    features = found.features(items).reshape(len(users) * n, -1)
    return Asked(np.repeat(users, n), items.ravel(), scores[users[:, None], items].ravel(), features)


def in_spreads(scores: FloatArray) -> FloatArray:
    """The literal twin of scores in units of their spread."""
    return np.asarray(scores / scores.std(axis=1, keepdims=True))


def test_one_proxy_is_followed() -> None:
    order = ProxyOrder.of([as_scorer(SCORES)], SPLIT.train)
    for user, row in zip(USERS.tolist(), order.guesses(USERS).guess, strict=True):
        assert (np.argsort(-row) == np.argsort(-SCORES[user].astype(np.float32))).all()


def test_the_proxy_that_is_right_gets_the_weight() -> None:
    noise = np.random.default_rng(0).normal(size=SCORES.shape)
    order = ProxyOrder.of([as_scorer(SCORES), as_scorer(noise)], SPLIT.train)
    assert order.weights.tolist() == [0.0, 0.0, 0.5, 0.5, 0.0]
    for _ in range(3):
        order.learn(asked(order, SCORES), USERS)
    right, wrong = order.weights[[0, 2]].sum(), order.weights[[1, 3]].sum()
    assert right > 5 * wrong >= 0


def test_weights_are_never_negative() -> None:
    order = ProxyOrder.of([as_scorer(SCORES), as_scorer(-SCORES)], SPLIT.train)
    order.learn(asked(order, SCORES), USERS)
    assert (order.weights >= 0).all()


def test_an_item_that_others_like_comes_earlier_for_all() -> None:
    """The proxy knows nothing of one item; scores of some users put it first for the others too."""
    slow = SCORES.copy()
    slow[:, 17] = slow.max() + 1
    order = ProxyOrder.of([as_scorer(SCORES)], SPLIT.train)
    some, others = ALL_USERS[::2], ALL_USERS[1::2]
    pairs = [asked(order, slow, some)]
    features = order.guesses(some).features(np.full((len(some), 1), 17))[:, 0]
    pairs.append(Asked(some, np.full(len(some), 17), slow[some, 17], features))
    before = order.guesses(others).guess
    order.learn(Asked.joined(pairs), some)
    after = order.guesses(others).guess
    place_before, place = ((row > row[:, [17]]).sum(axis=1).mean() for row in (before, after))
    assert place < place_before / 10


def test_a_taste_that_the_proxy_does_not_know_is_learnt_from_scores_of_the_user() -> None:
    """Items have the right factors, users those of somebody else: without scores the order knows nothing."""
    rng = np.random.default_rng(1)
    item = rng.normal(size=(N_ITEMS, 8))
    slow = rng.normal(size=(N_USERS, 8)) @ item.T
    order = ProxyOrder.of([Factors(rng.normal(size=(N_USERS, 8)), item)], SPLIT.train)

    def agreement(users: IntArray) -> float:
        guess = order.guesses(users).guess
        return float(np.mean([np.corrcoef(guess[at], slow[user])[0, 1] for at, user in enumerate(users)]))

    assert abs(agreement(USERS)) < 0.35
    order.learn(asked(order, slow, ALL_USERS, n=60), USERS)
    assert agreement(USERS) > 0.9
    assert not order.tastes[8].any()  # this user is not asked again
    assert not order.fresh().tastes.any()
    assert order.fresh().weights.tolist() == [0.0, 1.0, 0.0]


def test_guesses_of_listed_pairs_are_those_of_whole_rows() -> None:
    rng = np.random.default_rng(2)
    factors = Factors(
        rng.normal(size=(N_USERS, 5)), rng.normal(size=(N_ITEMS, 5)), rng.normal(size=(N_ITEMS,))
    )
    order = ProxyOrder.of([factors, as_scorer(SCORES)], SPLIT.train)
    order.learn(asked(order, SCORES), ALL_USERS)
    found, items = order.guesses(USERS), rng.integers(0, N_ITEMS, (3, 40))
    listed = order.guess_listed(np.repeat(USERS, 40), items.ravel(), found.features(items).reshape(120, -1))
    np.testing.assert_allclose(listed, np.take_along_axis(found.guess, items, axis=1).ravel(), atol=1e-4)


def test_scores_in_several_rounds_are_fitted_like_those_of_one() -> None:
    """Tastes are those of all scores of a user, whatever was learnt before."""
    rng = np.random.default_rng(3)
    factors = Factors(rng.normal(size=(N_USERS, 5)), rng.normal(size=(N_ITEMS, 5)))
    rounds, once = (ProxyOrder.of([factors], SPLIT.train) for _ in range(2))
    pairs = asked(rounds, SCORES, USERS, n=50)
    is_first = np.arange(len(pairs)) % 50 < 25
    rounds.learn(pairs.where(is_first), USERS)
    rounds.learn(pairs.where(~is_first), USERS)
    once.learn(pairs, USERS)
    assert len(rounds.asked) == len(once.asked) == 150
    for order in (rounds, once):  # weights and effects are found step by step, from where they were
        for _ in range(30):
            order.n_fitted = 0
            order.learn(pairs.where(np.zeros(150, np.bool_)), USERS)
    np.testing.assert_allclose(rounds.weights, once.weights, atol=1e-3)
    np.testing.assert_allclose(rounds.tastes[USERS], once.tastes[USERS], atol=1e-3)


@pytest.mark.parametrize("value", [0.0, np.nan, np.inf, -np.inf, 1e308])
def test_scores_that_are_no_numbers_or_all_equal_do_no_harm(value: float) -> None:
    broken = np.full(SCORES.shape, np.nan)
    order = ProxyOrder.of([as_scorer(broken), as_scorer(np.ones(SCORES.shape))], SPLIT.train)
    assert np.isfinite(order.guesses(USERS).guess).all()
    strange = np.full(SCORES.shape, value)
    strange[:, ::7] = -value
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        order.learn(asked(order, strange), USERS)
    assert np.isfinite(order.weights).all()
    assert np.isfinite(order.guesses(USERS).guess).all()


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
    items = np.tile(np.arange(240), (3, 1))
    for proxy in (factors, sparse, CallableScores(factors.score, 240)):
        rows = ProxyScores([proxy], 240).of(USERS)
        twin = in_spreads(np.asarray(proxy.score(USERS, np.arange(240)), np.float64))
        log = np.sign(twin) * np.log(1 + np.abs(twin))
        np.testing.assert_allclose(rows.at(items)[..., 0], twin, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(rows.at(items)[..., 1], log, rtol=1e-5, atol=1e-5)
        per_item, no_taste = rng.random(240), np.zeros((3, rows.scores.directions.shape[1]), np.float32)
        total = rows.total(np.array([0.3, 2.0]), per_item, no_taste)
        np.testing.assert_allclose(total, 0.3 * twin + 2 * log + per_item, rtol=1e-4, atol=1e-4)


def test_directions_are_uncorrelated_until_they_are_shortened() -> None:
    rng = np.random.default_rng(5)
    factors = Factors(rng.normal(size=(500, 6)), rng.normal(size=(240, 3)) @ rng.normal(size=(3, 6)) + 4)
    directions = ProxyScores([factors, as_scorer(SCORES)], 240).directions.astype(np.float64)
    assert directions.shape == (240, 3)  # three columns say all that the six do
    length = np.linalg.norm(directions, axis=1, keepdims=True)
    assert (length < 1).all()
    whole = directions / np.sqrt(1 - length**2)
    np.testing.assert_allclose(whole.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(whole.T @ whole / 240, np.eye(3) / 3, atol=1e-5)
    assert ProxyScores([as_scorer(SCORES)], 240).directions.shape == (240, 0)


def test_an_error_of_a_taste_moves_no_guess_by_more_than_its_length_however_long_factors_are() -> None:
    rng = np.random.default_rng(0)
    length = np.where(np.arange(N_ITEMS) < 10, 70.0, 1.0)[:, None]
    item = length * rng.normal(size=(N_ITEMS, 16))
    order = ProxyOrder.of([Factors(rng.normal(size=(N_USERS, 16)), item)], SPLIT.train)
    directions = order.scores.directions.astype(np.float64)
    before = order.guesses(USERS).guess
    error = np.tile(directions[:10].mean(axis=0) + directions[0], (N_USERS, 1))
    error *= 0.3 / np.linalg.norm(error, axis=1, keepdims=True)
    order.tastes = error.astype(np.float32)
    moved = np.abs(order.guesses(USERS).guess - before)
    assert moved[:, 0].min() > 0.15  # they have a say,
    assert moved.max() < 0.3 + 1e-6  # and no more than that
    whole = directions / np.sqrt(1 - np.linalg.norm(directions, axis=1, keepdims=True) ** 2)
    assert np.abs(error[USERS] @ whole.T).max() > 0.9  # the control: directions that were not shortened


def test_factors_too_large_for_single_precision_do_no_harm() -> None:
    huge = Factors(np.full((N_USERS, 2), 1e200), np.full((N_ITEMS, 2), 1e90))
    items = np.tile(np.arange(N_ITEMS), (3, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        row = ProxyScores([huge], N_ITEMS).of(USERS).at(items)
        large = ProxyScores([as_scorer(1e30 * SCORES)], N_ITEMS).of(USERS).at(items)[..., 0]
    assert not row.any()
    np.testing.assert_allclose(large, in_spreads(SCORES[USERS]), rtol=1e-4)
