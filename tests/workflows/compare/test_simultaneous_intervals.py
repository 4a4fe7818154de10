"""Simultaneous intervals and adjusted p-values against their definitions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import t as student_t

from tests.workflows.compare import literal
from truerank.core.types import FloatArray
from truerank.inference.score_interval import ScoreTest
from truerank.workflows.compare.differences import PairedDifferences, score_tests, simultaneous_intervals
from truerank.workflows.compare.options import CORRECTIONS, Correction


def normal_differences(
    value: list[list[float]], error: list[list[float]], n_users: int, *, resamples: int = 199, seed: int = 0
) -> PairedDifferences:
    """Build differences whose resamples are normal and share half of their variance."""
    sizes = np.array(error)
    draw = np.random.default_rng(seed)
    common = draw.standard_normal((resamples, 1, 1))
    scores = (common + draw.standard_normal((resamples, *sizes.shape))) / np.sqrt(2)
    n_pairs = len(value)
    return PairedDifferences(
        np.array(value), sizes, np.full(n_pairs, n_users), scores * sizes, np.full(sizes.shape, np.nan)
    )


@pytest.mark.parametrize("level", [0.9, 0.95])
def test_max_t_is_the_count_of_maxima(level: float) -> None:
    found = normal_differences([[0.1, 0.02], [-0.05, 0.3]], [[0.03, 0.02], [0.04, 0.1]], 20)
    family = simultaneous_intervals(found, level=level, correction="max-t")
    intervals, p_values = literal.max_t(
        found.value.ravel().tolist(), found.error.ravel().tolist(), found.shifts.reshape(199, -1), 20, level
    )
    assert np.stack([family.low.ravel(), family.high.ravel()], 1) == pytest.approx(
        np.array(intervals), rel=1e-9
    )
    assert family.p_adjusted.ravel() == pytest.approx(p_values)


def test_holm_and_no_correction() -> None:
    """Student's p-values; Holm's steps, intervals by Bonferroni's level."""
    value, error = [[0.1, 0.02], [-0.05, 0.3]], [[0.03, 0.02], [0.04, 0.1]]
    found = normal_differences(value, error, 20)
    t = found.value / found.error
    p_value = 2 * student_t.sf(np.abs(t), 19)
    alone = simultaneous_intervals(found, level=0.95, correction="none")
    assert alone.p_value == pytest.approx(p_value)
    assert alone.p_adjusted == pytest.approx(p_value)
    assert alone.high - found.value == pytest.approx(student_t.isf(0.025, 19) * found.error)
    assert alone.probability == pytest.approx(student_t.cdf(t, 19))
    holm = simultaneous_intervals(found, level=0.95, correction="holm")
    assert holm.p_adjusted.ravel() == pytest.approx(literal.holm(p_value.ravel().tolist()))
    assert holm.high - found.value == pytest.approx(student_t.isf(0.025 / 4, 19) * found.error)


def test_one_comparison_needs_no_correction() -> None:
    """With many resamples max-t of a single difference is Student's interval, to the noise of a quantile."""
    found = normal_differences([[0.05]], [[0.03]], 15, resamples=20_000)
    joint = simultaneous_intervals(found, level=0.95, correction="max-t")
    alone = simultaneous_intervals(found, level=0.95, correction="none")
    assert joint.high == pytest.approx(alone.high, abs=0.002)
    assert joint.p_adjusted == pytest.approx(alone.p_value, abs=0.01)


def test_max_t_is_narrower_than_bonferroni_where_differences_go_together() -> None:
    draw = np.random.default_rng(3)
    one = draw.standard_normal((2000, 1, 1))
    shifts = np.tile(one, (1, 5, 2)) + 0.1 * draw.standard_normal((2000, 5, 2))
    shifts /= shifts.std(axis=0)
    found = PairedDifferences(
        np.zeros((5, 2)), np.ones((5, 2)) / 10, np.full(5, 500), shifts / 10, np.zeros((5, 2))
    )
    joint, bonferroni = (simultaneous_intervals(found, level=0.95, correction=c) for c in ("max-t", "holm"))
    assert joint.high[0, 0] < 0.8 * bonferroni.high[0, 0]
    assert joint.high[0, 0] >= 1.96 / 10


def test_equal_differences() -> None:
    """n users who all differ by c: at most s = 1 - (a/2)^(1/n) of all users do not; p = 2 (1 + c)^-n."""
    found = normal_differences([[0.5]], [[0.0]], 8)
    for correction in CORRECTIONS:
        family = simultaneous_intervals(found, level=0.95, correction=correction)  # type: ignore[arg-type]
        share = 1 - 0.025 ** (1 / 8)
        assert family.low[0, 0] == pytest.approx(0.5 * (1 - share) - share)
        assert family.high[0, 0] == pytest.approx(0.5 * (1 - share) + share)
        assert family.p_adjusted[0, 0] == pytest.approx(2 * 1.5**-8)
        edge = simultaneous_intervals(found, level=1 - 2 * 1.5**-8, correction=correction)  # type: ignore[arg-type]
        assert edge.low[0, 0] == pytest.approx(0, abs=1e-12)
    found = normal_differences([[0.0, 0.1]], [[0.0, 0.02]], 50, resamples=20_000)
    same = simultaneous_intervals(found, level=0.95, correction="max-t")
    assert same.p_adjusted[0, 0] == 1 and same.low[0, 0] == -same.high[0, 0] < 0
    assert same.probability[0, 0] == 0.5
    # the flat one takes half of the 5 %
    share = 1 - 0.0125 ** (1 / 50)
    assert same.high[0, 0] == pytest.approx(share)
    assert same.high[0, 1] - 0.1 == pytest.approx(0.02 * student_t.isf(0.0125, 49), rel=0.03)


def test_one_user_has_no_interval() -> None:
    family = simultaneous_intervals(
        normal_differences([[0.5]], [[np.nan]], 1), level=0.95, correction="max-t"
    )
    for name in ("low", "high", "p_value", "p_adjusted", "probability"):
        assert np.isnan(getattr(family, name)).all()


def test_too_few_resamples_tell_nothing() -> None:
    found = normal_differences([[0.9]], [[0.01]], 50, resamples=10)
    family = simultaneous_intervals(found, level=0.95, correction="max-t")
    assert (family.low[0, 0], family.high[0, 0]) == (-1, 1)
    assert family.p_adjusted[0, 0] > 0.05


@given(
    st.lists(st.tuples(st.floats(-0.5, 0.5), st.floats(0.0, 0.2)), min_size=1, max_size=6),
    st.sampled_from(["max-t", "none"]),
    st.integers(2, 60),
    st.sampled_from([0.8, 0.95]),
)
@settings(max_examples=60, deadline=None)
def test_intervals_and_p_values_agree(
    rows: list[tuple[float, float]], correction: Correction, n_users: int, level: float
) -> None:
    """An adjusted p-value lies below 1 - level exactly where the interval leaves out 0; swapping mirrors."""
    value: FloatArray = np.array([[v] for v, _ in rows])
    error = [[0.0 if e < 1e-3 else e] for _, e in rows]
    found = normal_differences(value.tolist(), error, n_users)
    family = simultaneous_intervals(found, level=level, correction=correction)
    is_out = (family.low > 1e-9) | (family.high < -1e-9)
    decided = np.abs(family.p_adjusted - (1 - level)) > 1e-9
    assert (is_out == (family.p_adjusted < 1 - level))[decided].all()
    assert (family.low <= found.value + 1e-12).all() and (found.value <= family.high + 1e-12).all()
    assert (family.p_adjusted >= family.p_value - 1e-12).all()
    mirrored = PairedDifferences(-found.value, found.error, found.n_users, -found.shifts, found.p_randomised)
    swapped = simultaneous_intervals(mirrored, level=level, correction=correction)
    assert np.array_equal(swapped.low, -family.high) and np.array_equal(swapped.high, -family.low)
    assert np.array_equal(swapped.p_adjusted, family.p_adjusted)
    assert swapped.probability == pytest.approx(1 - family.probability, abs=1e-12)


def test_few_users_who_differ_widen_intervals() -> None:
    """Three of 300 users differ: intervals end where the score test does, p-values agree with them."""
    values = np.zeros((300, 2))
    values[:3, 0], values[:150, 1], values[150:, 1] = 1.0, 0.4, -0.35
    error = values.std(axis=0, ddof=1) / np.sqrt(300)
    draw = np.random.default_rng(0).standard_normal((4000, 1, 2)) * error
    found = PairedDifferences(
        values.mean(axis=0)[None],
        error[None],
        np.array([300]),
        draw,
        np.full((1, 2), np.nan),
        score_tests(values),
    )
    student = replace(found, scores=())
    for correction in CORRECTIONS:
        wide = simultaneous_intervals(found, level=0.95, correction=correction)  # type: ignore[arg-type]
        narrow = simultaneous_intervals(student, level=0.95, correction=correction)  # type: ignore[arg-type]
        assert (wide.low <= narrow.low).all() and (wide.high >= narrow.high).all()
        assert (wide.p_adjusted >= narrow.p_adjusted).all()
        critical = float((narrow.high - found.value)[0, 0] / error[0])
        below, above = ScoreTest.of(values[:, 0]).distances(critical)
        assert wide.high[0, 0] == pytest.approx(0.01 + above) and wide.low[0, 0] == pytest.approx(
            0.01 - below
        )
        assert wide.high[0, 0] > narrow.high[0, 0]
        assert wide.p_value[0, 0] == pytest.approx(2 * student_t.sf(np.sqrt(3 * 299 / 300), 299))  # McNemar's
