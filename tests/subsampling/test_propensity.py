"""Propensities: the printed formula, both variants, and what they are for."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tests.subsampling import literal
from tests.subsampling.strategies import drawn_events
from truerank.core.interactions import Interactions
from truerank.subsampling.svp_cf import inverse_propensities, inverse_propensity


def printed(frequency: int, n: int, a: float = 0.55, b: float = 1.5) -> float:
    """1 / p as the paper writes it: 1 + C exp(-A log(N + B)), with C = (log n - 1) (B + 1)^A."""
    c = (math.log(n) - 1) * (b + 1) ** a
    return float(1 + c * math.exp(-a * math.log(frequency + b)))


@given(st.integers(0, 10**6), st.integers(3, 10**9), st.floats(0, 3), st.floats(0.01, 50))
def test_the_printed_formula(frequency: int, n: int, a: float, b: float) -> None:
    found = inverse_propensity(np.array([frequency]), n, a=a, b=b)
    assert found.tolist() == pytest.approx([printed(frequency, n, a, b)], rel=1e-12)


def test_by_hand() -> None:
    """At N = 1 the powers cancel: 1 / p = log n. With 20 events 2.5^.55 / 21.5^.55 is left."""
    assert inverse_propensity(np.array([1]), 6040)[0] == pytest.approx(math.log(6040))
    expected = 1 + (math.log(6040) - 1) * (2.5 / 21.5) ** 0.55
    assert inverse_propensity(np.array([20]), 6040)[0] == pytest.approx(expected)


@pytest.mark.parametrize("n", [0, 1, 2])
def test_few_users_have_propensity_one(n: int) -> None:
    assert inverse_propensity(np.array([0, 1, 50]), n).tolist() == [1.0, 1.0, 1.0]


@given(st.integers(0, 10**8))
def test_never_less_than_one_and_falling(n: int) -> None:
    found = inverse_propensity(np.arange(200), n)
    assert (found >= 1).all()
    assert (np.diff(found) <= 0).all()


@given(drawn_events(least=1))
@settings(max_examples=60, deadline=None)
def test_both_variants(train: Interactions) -> None:
    pairs = literal.events_of(train)
    users, items = ([pair[side] for pair in pairs] for side in (0, 1))

    def weights(user: int, item: int, n_users: int, n_items: int) -> tuple[float, float]:
        sizes = ((users.count(user), n_users), (items.count(item), n_items))
        first, second = (printed(count, n) if n > 2 else 1.0 for count, n in sizes)
        return first, second

    ours = [weights(*pair, len(set(users)), len(set(items))) for pair in pairs]
    theirs = [weights(*pair, len(pairs), len(pairs)) for pair in pairs]
    for unit in ("interaction", "user", "item"):
        found = inverse_propensities(train, unit=unit)
        assert found.tolist() == pytest.approx([u * i for u, i in ours], rel=1e-12)
    pooled = {
        "interaction": [max(pair) for pair in theirs],
        "user": [u for u, _ in theirs],
        "item": [i for _, i in theirs],
    }
    for unit, expected in pooled.items():
        found = inverse_propensities(train, unit=unit, variant="repo")  # type: ignore[arg-type]
        assert found.tolist() == pytest.approx(expected, rel=1e-12)


@pytest.mark.stat
def test_weighted_importance_is_unbiased() -> None:
    """Prop. 3.1: sums of importance over propensity estimate the sum over all that could have been seen.

    An event that could be seen is seen when its user shows it (p_u) and its item is found (p_i). The mean of
    2,000 weighted sums is normal about the true sum with known variance; level 1e-6. A bias of half a percent
    is found with more than 99 %. Negative controls: the maximum instead of the product, and no weights.
    """
    draw = np.random.default_rng(8)
    user, item = np.unravel_index(draw.choice(30 * 20, 300, replace=False), (30, 20))
    events = Interactions.from_codes(user, item, n_users=30, n_items=20)
    importance = draw.exponential(size=300)
    of_user = inverse_propensity(events.user_counts(), int(np.count_nonzero(events.user_counts())))[user]
    of_item = inverse_propensity(events.item_counts(), int(np.count_nonzero(events.item_counts())))[item]
    weights = inverse_propensities(events)
    seen = (draw.random((2000, 300)) < 1 / of_user) & (draw.random((2000, 300)) < 1 / of_item)
    deviation = math.sqrt(float(np.sum(importance**2 * (weights - 1))) / 2000)

    def p_value(weight: np.ndarray) -> float:
        mean = float((seen * (importance * weight)).sum(axis=1).mean())
        return float(2 * stats.norm.sf(abs(mean - importance.sum()) / deviation))

    assert p_value(weights) > 1e-6
    assert p_value(np.maximum(of_user, of_item)) < 1e-6
    assert p_value(np.ones(300)) < 1e-6
    assert deviation * 9 < 0.05 * importance.sum()
