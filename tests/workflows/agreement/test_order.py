"""Tau, certain pairs, places and movement against literal twins, scipy and the paper's tables."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kendalltau, rankdata

from truerank.workflows.agreement.order import (
    average_ranks,
    certain_signs,
    certain_tau,
    kendall,
    mean_ignoring_nan,
    move_up_terms,
    psi,
)
from truerank.workflows.agreement.plan import PAPER_FRACTIONS
from truerank.workflows.agreement.scenarios import SCENARIOS

Pair = tuple[list[float], list[float]]


def literal_tau(x: list[float], y: list[float]) -> float:
    """Count concordant, discordant and tied pairs one by one."""
    concordant = discordant = only_x = only_y = 0
    for a, b in itertools.combinations(range(len(x)), 2):
        dx, dy = x[a] - x[b], y[a] - y[b]
        if dx == 0 and dy == 0:
            continue
        if dx == 0:
            only_x += 1
        elif dy == 0:
            only_y += 1
        elif (dx > 0) == (dy > 0):
            concordant += 1
        else:
            discordant += 1
    both = concordant + discordant
    size = math.sqrt((both + only_x) * (both + only_y))
    return (concordant - discordant) / size if size else math.nan


@st.composite
def pairs(draw: st.DrawFn) -> Pair:
    n = draw(st.integers(2, 8))
    values = st.lists(st.integers(0, 4).map(float), min_size=n, max_size=n)
    return draw(values), draw(values)


@given(pairs())
def test_tau_is_the_literal_one_and_that_of_scipy(pair: Pair) -> None:
    x, y = pair
    found = float(kendall(np.array(x), np.array(y)))
    expected = literal_tau(x, y)
    if math.isnan(expected):
        assert math.isnan(found)
        return
    assert found == pytest.approx(expected, abs=1e-12)
    assert found == pytest.approx(kendalltau(x, y).statistic, abs=1e-12)


def test_tau_broadcasts_over_leading_axes() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.random((3, 5)), rng.random((4, 2, 3, 5))
    found = kendall(x, y)
    assert found.shape == (4, 2, 3)
    for place in np.ndindex(*found.shape):
        assert found[place] == pytest.approx(kendalltau(x[place[-1]], y[place]).statistic)


def test_tau_of_equal_reversed_and_missing_orders() -> None:
    x = np.array([0.1, 0.2, 0.4, 0.8])
    assert kendall(x, 7 * x) == 1
    assert kendall(x, -x) == -1
    assert np.isnan(kendall(x, np.ones(4)))
    assert np.isnan(kendall(x, np.array([0.1, np.nan, 0.4, 0.8])))


def test_three_models_have_four_taus() -> None:
    orders = np.array(list(itertools.permutations([1.0, 2.0, 3.0])))
    assert sorted(set(np.round(kendall(orders[0], orders), 12))) == [-1, -0.333333333333, 0.333333333333, 1]


@settings(max_examples=30)
@given(st.lists(st.integers(0, 3).map(float), min_size=2, max_size=7))
def test_places_are_those_of_scipy(values: list[float]) -> None:
    np.testing.assert_array_equal(average_ranks(np.array(values)), rankdata([-value for value in values]))


@given(pairs())
def test_movement_is_literal_and_stays_in_its_range(pair: Pair) -> None:
    x, y = pair
    n = len(x)
    before, after = rankdata([-value for value in x]), rankdata([-value for value in y])
    expected = [0.5 + (before[r] - after[r]) / (2 * (n - 1)) for r in range(n)]
    found = move_up_terms(np.array(x), np.array(y))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    assert found.min() >= 0
    assert found.max() <= 1
    assert found.mean() == pytest.approx(0.5)  # what one model wins another one loses


def test_movement_of_an_unchanged_and_of_a_reversed_order() -> None:
    full = np.array([0.3, 0.2, 0.1])
    assert move_up_terms(full, full).tolist() == [0.5, 0.5, 0.5]
    assert move_up_terms(full, -full).tolist() == [0.0, 0.5, 1.0]


def test_certain_pairs_are_those_in_one_order_in_nearly_all_resamples() -> None:
    resampled = np.zeros((200, 3))
    resampled[:, 0] = 1.0
    resampled[:, 1] = np.where(np.arange(200) < 195, 0.5, -0.5)  # 97.5 percent above the third
    assert certain_signs(resampled, 0.95).tolist() == [1, 1, 1]
    resampled[194, 1] = -0.5  # 97 percent
    assert certain_signs(resampled, 0.95).tolist() == [1, 1, 0]
    assert certain_signs(resampled, 0.9).tolist() == [1, 1, 1]
    assert certain_signs(-resampled, 0.95).tolist() == [-1, -1, 0]
    assert certain_signs(np.zeros((50, 3)), 0.95).tolist() == [0, 0, 0]  # ties are no order


def test_tau_over_certain_pairs_leaves_near_ties_out() -> None:
    certain = np.array([1.0, 1.0, 0.0])  # the first model wins, the others are too close to call
    full = np.array([0.9, 0.5001, 0.5])
    small = np.array([0.8, 0.3, 0.4])
    assert certain_tau(certain, small) == 1
    assert kendall(full, small) == pytest.approx(1 / 3)  # what it would be with them
    assert certain_tau(certain, np.array([0.3, 0.2, 0.4])) == 0
    assert certain_tau(certain, np.array([0.3, 0.3, 0.2])) == 0.5  # a pair that is tied now counts nothing
    assert certain_tau(certain, np.array([0.1, 0.2, 0.4])) == -1
    assert np.isnan(certain_tau(np.zeros(3), small))
    assert np.isnan(certain_tau(certain, np.array([0.1, np.nan, 0.4])))


def test_psi_is_the_mean_of_the_taus_there_are() -> None:
    taus = np.linspace(-1, 1, 42).reshape(7, 6)
    assert psi(taus) == pytest.approx(sum(taus.ravel().tolist()) / 42)
    taus[0, 0] = np.nan
    assert psi(taus) == pytest.approx(sum(taus.ravel().tolist()[1:]) / 41)
    assert np.isnan(psi(np.full(3, np.nan)))


#: Table 1 of Sachdeva et al. 2021: Psi on Magazine, ML-100k, Luxury, Video-games, BeerAdvocate and Goodreads,
#: and the printed average
TABLE_1 = {
    ("interaction", "Random"): (0.428, 0.551, 0.409, 0.047, 0.455, 0.552, 0.407),
    ("interaction", "Stratified"): (0.27, 0.499, 0.291, -0.01, 0.468, 0.538, 0.343),
    ("interaction", "Temporal"): (0.289, 0.569, 0.416, -0.02, 0.539, 0.634, 0.405),
    ("interaction", "SVP-CF w/ MF"): (0.418, 0.674, 0.398, 0.326, 0.425, 0.662, 0.484),
    ("interaction", "SVP-CF w/ Bias-only"): (0.38, 0.684, 0.431, 0.348, 0.365, 0.6, 0.468),
    ("interaction", "SVP-CF-PROP w/ MF"): (0.381, 0.617, 0.313, 0.305, 0.356, 0.608, 0.43),
    ("interaction", "SVP-CF-PROP w/ Bias-only"): (0.408, 0.617, 0.351, 0.316, 0.437, 0.617, 0.458),
    ("user", "Random"): (0.436, 0.622, 0.429, 0.17, 0.344, 0.582, 0.431),
    ("user", "Head"): (0.369, 0.403, 0.315, 0.11, -0.04, -0.02, 0.19),
    ("user", "SVP-CF w/ MF"): (0.468, 0.578, 0.308, 0.13, 0.136, 0.444, 0.344),
    ("user", "SVP-CF w/ Bias-only"): (0.49, 0.608, 0.276, 0.124, 0.196, 0.362, 0.343),
    ("user", "SVP-CF-PROP w/ MF"): (0.438, 0.683, 0.307, 0.098, 0.458, 0.592, 0.429),
    ("user", "SVP-CF-PROP w/ Bias-only"): (0.434, 0.751, 0.233, 0.107, 0.506, 0.637, 0.445),
    ("graph", "Centrality"): (0.307, 0.464, 0.407, 0.063, 0.011, 0.343, 0.266),
    ("graph", "Random-walk"): (0.596, 0.5, 0.395, 0.306, 0.137, 0.442, 0.396),
    ("graph", "Forest-fire"): (0.564, 0.493, 0.415, 0.265, 0.099, 0.454, 0.382),
}


def test_averages_of_table_1_are_means_of_its_columns() -> None:
    assert len(TABLE_1) == 16
    values = np.array(list(TABLE_1.values()))
    np.testing.assert_allclose(mean_ignoring_nan(values[:, :-1], axis=1), values[:, -1], rtol=0, atol=0.0011)


def test_psi_of_the_paper_has_42_taus() -> None:
    scenarios = [SCENARIOS.make(name) for name in SCENARIOS.names()]
    assert [len(scenario.models) for scenario in scenarios] == [3, 5, 7]
    assert sum(len(scenario.metric_names()) for scenario in scenarios) * len(PAPER_FRACTIONS) == 42
