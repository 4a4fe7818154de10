"""Intervals by betting: laws, a literal twin, and coverage when one looks again and again."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, norm

from truerank.core.errors import InvalidData
from truerank.core.types import FloatArray
from truerank.inference.anytime import ConfidenceSequence, predictable_variance


def literal_limits(value: list[float], aim: float, n_users: int | None, level: float) -> tuple[float, float]:
    """Return the limits by trying many means, one bet after the other."""
    left_over = []
    for mean in np.linspace(0, 1, 2001).tolist():
        rich, poor, known = 1.0, 1.0, 0.0
        is_left = True
        for i, x in enumerate(value):
            seen = value[:i]
            centre = sum(seen) / max(len(seen), 1)
            variance = (0.25 + sum((s - centre) ** 2 for s in seen)) / (1 + len(seen))
            expected, weight = mean, 1.0
            if n_users is not None:
                expected, weight = (n_users * mean - known) / (n_users - i), n_users / (n_users - i)
            if not -1e-9 <= expected <= 1 + 1e-9:
                is_left = False
                break
            bet = weight * aim / variance
            rich *= 1 + min(bet, 0.75 / max(expected, 1e-9)) * (x - expected)
            poor *= 1 - min(bet, 0.75 / max(1 - expected, 1e-9)) * (x - expected)
            is_left &= max(rich, poor) < 2 / (1 - level)
            known += x
        if is_left:
            left_over.append(mean)
    return min(left_over), max(left_over)


@pytest.mark.parametrize("n_users", [None, 60, 45])
@pytest.mark.parametrize("aim", [0.05, 0.3])
def test_ends_are_those_of_the_literal_bets(n_users: int | None, aim: float) -> None:
    value = (np.random.default_rng(4).random(40) < 0.3) * 1.0
    found = ConfidenceSequence.simple(value, aim, n_users=n_users).limits(level=0.9)
    literal = literal_limits(value.tolist(), aim, n_users, 0.9)
    known = [] if n_users is None else [value.sum() / n_users, (value.sum() + n_users - 40) / n_users]
    assert found[0] == pytest.approx(max([literal[0], *known[:1]]), abs=1 / 2000)
    assert found[1] == pytest.approx(min([literal[1], *known[1:]]), abs=1 / 2000)


@pytest.mark.parametrize("n_users", [None, 60])
def test_differences_are_values_on_another_scale(n_users: int | None) -> None:
    """Differences in [-1, 1] are bet on as (1 + difference)/2 in [0, 1] is, with twice the bets there."""
    rng = np.random.default_rng(6)
    difference = rng.choice([-1.0, 0.0, 0.0, 0.5, 1.0], 40)
    halves = ConfidenceSequence.simple((1 + difference) / 2, 0.1, n_users=n_users)
    total = float(40 if n_users is None else n_users)
    whole = ConfidenceSequence(
        difference,
        2 * halves.sum_before - np.arange(40),
        halves.n_remaining,
        halves.bet / 2,
        n_users,
        2 * halves.known_sum - 40,
        total - 40,
        40 - total,
        -1.0,
        1.0,
        -1.0,
    )
    low, high = halves.limits(level=0.9)
    assert whole.limits(level=0.9) == pytest.approx((2 * low - 1, 2 * high - 1), abs=1e-6)


def test_known_values_outweigh_bets() -> None:
    """A capital that was won against the true mean does not matter once all values are known."""
    value = np.concatenate([np.ones(30), np.zeros(30)])
    sequence = ConfidenceSequence.simple(value, 0.2, n_users=60)
    assert sequence.limits(level=0.9) == (0.5, 0.5)
    assert ConfidenceSequence.simple(value[:30], 0.2, n_users=60).limits(level=0.9)[0] > 0.5


@settings(max_examples=40, deadline=None)
@given(value=st.lists(st.floats(0, 1), min_size=1, max_size=30), more=st.integers(0, 50))
def test_more_users_never_widen_the_interval(value: list[float], more: int) -> None:
    """What was left out stays left out, and the whole is known when all are drawn."""
    every = np.array(value)
    n_users = len(every) + more
    before = (0.0, 1.0)
    for n in range(1, len(every) + 1):
        low, high = ConfidenceSequence.simple(every[:n], 0.1, n_users=n_users).limits()
        assert before[0] - 1e-7 <= low <= high <= before[1] + 1e-7
        before = (low, high)
    if more == 0:
        assert before == pytest.approx((every.mean(), every.mean()), abs=1e-12)


@pytest.mark.parametrize(("n_users", "n"), [(None, 1476), (6000, 1185)])
def test_so_many_users_give_the_half_width(n_users: int | None, n: int) -> None:
    """2 log(2/0.05) 0.08 / 0.02^2 = 1,476; of 6,000 users 1,476 / (1 + 1,476/6,000) = 1,185."""
    value = np.tile([0.4, 0.0, 0.0, 0.4, 0.0, 0.8, 0.0, 0.4, 0.0, 0.9], 200)[:n] * 1.0
    scale = np.sqrt(0.08 / value.var())
    low, high = ConfidenceSequence.simple(np.clip(value * scale, 0, 1), 0.02, n_users=n_users).limits()
    assert (high - low) / 2 == pytest.approx(0.02, rel=0.06)


def test_no_hit_at_all_leaves_what_it_must() -> None:
    """300 users without a hit do not make the mean 0: rule of three and a little more."""
    low, high = ConfidenceSequence.simple(np.zeros(300), 0.01, n_users=None).limits()
    assert low == 0
    assert 3 / 300 < high < 8 / 300


def test_values_beyond_one_are_refused() -> None:
    with pytest.raises(InvalidData, match=r"values per user must lie in \[0, 1\]"):
        ConfidenceSequence.simple(np.array([0.5, 1.5]), 0.1, n_users=None).limits()


def test_variance_uses_the_past_alone() -> None:
    value = np.random.default_rng(0).random(20)
    found = predictable_variance(value)
    changed = predictable_variance(np.append(value[:10], np.zeros(10)))
    np.testing.assert_array_equal(found[:11], changed[:11])
    np.testing.assert_allclose(predictable_variance(value[5:], value[:5]), found[5:])


def naive_limits(value: FloatArray, n_users: int) -> tuple[float, float]:
    """Return the normal interval at the full level, corrected for the finite number of users."""
    n = len(value)
    half = norm.ppf(0.975) * value.std(ddof=1) * np.sqrt((1 - n / n_users) / n)
    return float(value.mean() - half), float(value.mean() + half)


def hits(is_betting: bool, n_runs: int) -> int:
    """Count the runs in which the interval at the stop holds the mean."""
    rng = np.random.default_rng(12)
    n_users, aim = 600, 0.05
    population = np.where(rng.random(n_users) < 0.1, rng.choice([0.3, 0.5, 1.0], n_users), 0.0)
    found = 0
    for _ in range(n_runs):
        drawn = rng.permutation(population)
        for n in (20, 60, 150, 300, 600):
            low, high = (
                ConfidenceSequence.simple(drawn[:n], aim, n_users=n_users).limits()
                if is_betting
                else naive_limits(drawn[:n], n_users)
            )
            if high - low <= 2 * aim:
                break
        found += low - 1e-9 <= population.mean() <= high + 1e-9
    return found


@pytest.mark.stat
def test_coverage_at_a_stop_that_depends_on_the_data() -> None:
    """800 runs find a coverage of 88 % with 99 %; peeking with normal intervals must be rejected."""
    n_runs = 800
    least = binom.ppf(1e-6, n_runs, 0.95)
    assert hits(True, n_runs) >= least
    assert hits(False, n_runs) < least


@pytest.mark.parametrize("is_lower", [True, False])
def test_capital_after_the_last_bet_and_the_largest_ever(is_lower: bool) -> None:
    """Bets on larger values win and then lose: the limit stays, what they still lack grows."""
    value, mean, aim = np.array([1.0, 1.0, 0.0, 0.0]), 0.4, 0.2
    if not is_lower:
        value = 1 - value
        mean = 1 - mean
    capital, path = 0.0, [0.0]
    for at, x in enumerate(value.tolist()):
        seen = value[:at]
        variance = (0.25 + float(((seen - seen.mean()) ** 2).sum() if at else 0.0)) / (1 + at)
        room = mean if is_lower else 1 - mean
        gain = x - mean if is_lower else mean - x
        capital += float(np.log1p(min(aim / variance, 0.75 / room) * gain))
        path.append(capital)
    sequence = ConfidenceSequence.simple(value, aim, n_users=None)
    assert sequence.last_log_capital(mean, is_lower) == pytest.approx(path[-1])
    middle = float(np.median(path[1:]))
    first = next(capital for capital in path[1:] if capital >= middle)
    assert sequence.last_log_capital(mean, is_lower, stop=middle - 1e-9) == pytest.approx(first)
    assert sequence.last_log_capital(mean, is_lower, stop=max(path) + 1) == pytest.approx(path[-1])
    assert sequence.log_capital(mean, is_lower) == pytest.approx(max(path))
    assert path[-1] < 0 < max(path)
    nobody = ConfidenceSequence.simple(np.zeros(0), aim, n_users=None)
    assert nobody.last_log_capital(mean, is_lower) == nobody.log_capital(mean, is_lower) == 0.0
