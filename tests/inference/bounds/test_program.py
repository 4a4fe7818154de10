"""Identification bounds on plain arrays: regions, programs, envelopes, events and words."""

from __future__ import annotations

from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.special import betaincinv

from truerank.core.errors import CannotEstimate, InvalidData, InvalidParameter
from truerank.core.ranks import SampledRanks
from truerank.core.types import FloatArray, IntArray
from truerank.estimation.tally import Contexts, tally
from truerank.inference.bounds.identify import IdentificationBound, Resolution, needed_size
from truerank.inference.bounds.program import LinearProgram, envelope, interior_points
from truerank.inference.bounds.region import (
    Method,
    binomial_limits,
    chernoff_limits,
    group_contexts,
    make_events,
    make_region,
    observed_region,
)

probabilities = st.lists(st.floats(0, 1), min_size=1, max_size=7)
METHODS: tuple[Method, ...] = ("binomial", "chernoff", "dkw")
levels = st.sampled_from([0.001, 0.025, 0.1, 0.4])


def count_law(p: list[float]) -> FloatArray:
    """Return the law of the number of events, one probability per row."""
    law = np.ones(1)
    for one in p:
        law = np.convolve(law, [1 - one, one])
    return law


@given(probabilities, levels)
@settings(max_examples=300, deadline=None)
def test_binomial_limits_hold_for_any_probabilities(p: list[float], alpha: float) -> None:
    """Each end is missed with at most alpha, whatever the rows' own probabilities: exact, by convolution."""
    n, mean = len(p), float(np.mean(p))
    low, high = binomial_limits(np.arange(n + 1) / n, n, alpha)
    law = count_law(p)
    assert law[low > mean + 1e-12].sum() <= alpha + 1e-12
    assert law[high < mean - 1e-12].sum() <= alpha + 1e-12


def test_clopper_and_pearson_alone_would_miss_too_often() -> None:
    """Negative control: one row with all probability breaks the limit for s = 1; the widened one holds."""
    n, alpha = 10, 0.1
    plain = betaincinv(1, n, alpha)  # lower limit after one event
    p = [n * float(plain - 1e-9)] + [0.0] * (n - 1)
    assert count_law(p)[1] > 1.01 * alpha  # missed whenever the event happens
    low, _ = binomial_limits(np.array([1 / n]), n, alpha)
    assert low[0] == 0.0


def test_limits_of_many_rows_are_those_of_clopper_and_pearson() -> None:
    low, high = binomial_limits(np.array([30 / 200]), 200, 0.025)
    assert low[0] == pytest.approx(betaincinv(30, 171, 0.025), rel=1e-12)
    assert high[0] == pytest.approx(betaincinv(31, 170, 0.975), rel=1e-12)


@pytest.mark.slow
@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=6), levels)
@settings(max_examples=200, deadline=None)
def test_chernoff_limits_hold_for_numbers(rows: list[tuple[float, float, float]], alpha: float) -> None:
    """Each row takes one of two numbers within [0, 1]; all outcomes are gone through."""
    mean = float(np.mean([a * (1 - p) + b * p for a, b, p in rows]))
    picks = np.array(list(product((0, 1), repeat=len(rows))))
    table = np.array(rows)
    weight = np.where(picks == 1, table[:, 2], 1 - table[:, 2]).prod(axis=1)
    low, high = chernoff_limits(table[np.arange(len(rows)), picks].mean(axis=1), len(rows), alpha)
    assert weight[low > mean + 1e-9].sum() <= alpha + 1e-9
    assert weight[high < mean - 1e-9].sum() <= alpha + 1e-9


def test_regions_of_the_three_methods() -> None:
    """Binomial limits are inside Chernoff's; the uniform distance is Bretagnolle's."""
    share = np.array([0.0, 0.02, 0.5, 1.0])
    found = {name: make_region(share, 500, level=0.9, method=name) for name in METHODS}
    assert (found["binomial"].low >= found["chernoff"].low - 1e-12).all()
    assert (found["binomial"].high <= found["chernoff"].high + 1e-12).all()
    half = np.sqrt((1 + np.log(20)) / 1000)
    np.testing.assert_allclose(found["dkw"].high, np.minimum(share + half, 1))
    np.testing.assert_allclose(found["dkw"].low, np.maximum(share - half, 0))
    assert found["binomial"].low[2] == pytest.approx(betaincinv(250, 251, 0.1 / 8), rel=1e-12)
    with pytest.raises(InvalidParameter, match="level must lie between 0 and 1, got 1"):
        make_region(share, 500, level=1, method="dkw")


def random_program(seed: int, n_groups: int, n_points: int, n_events: int, slack: float) -> LinearProgram:
    """Return a program that some random masses fit."""
    draw = np.random.default_rng(seed)
    middle = np.sort(draw.random((n_groups, n_points, n_events)), axis=1)[:, ::-1]
    lower, upper = np.clip(middle - 0.01, 0, 1), np.clip(middle + 0.01, 0, 1)
    shares = draw.dirichlet(np.ones(n_groups))
    masses = draw.dirichlet(np.full(n_points, 0.1), n_groups) * shares[:, None]
    mean = np.einsum("gb,gbe->e", masses, middle)
    return LinearProgram(lower, upper, shares, np.clip(mean - slack, 0, 1), np.clip(mean + slack, 0, 1))


@pytest.mark.parametrize("seed", range(4))
def test_program_against_cvxpy(seed: int) -> None:
    cvxpy = pytest.importorskip("cvxpy")
    program = random_program(seed, 2, 7, 3, 0.02)
    gain = np.random.default_rng(seed + 50).random((2, 7))
    masses = cvxpy.Variable((2, 7), nonneg=True)
    limits = [cvxpy.sum(masses, axis=1) == program.masses]
    for event in range(3):
        limits.append(cvxpy.sum(cvxpy.multiply(masses, program.lower[..., event])) <= program.high[event])
        limits.append(cvxpy.sum(cvxpy.multiply(masses, program.upper[..., event])) >= program.low[event])
    for sign in (-1, 1):
        problem = cvxpy.Problem(cvxpy.Maximize(cvxpy.sum(cvxpy.multiply(masses, sign * gain))), limits)
        problem.solve(solver="CLARABEL")
        assert program.upper_bound(sign * gain, program.feasible_columns) == pytest.approx(
            problem.value, abs=2e-6
        )


@pytest.mark.parametrize("seed", range(3))
def test_column_generation_finds_the_optimum_of_the_whole(seed: int) -> None:
    """From above, within 1e-6 of the range of gains; only some of 2,400 columns are used."""
    program = random_program(seed, 4, 600, 9, 0.01)
    gain = (np.linspace(0, 1, 600) ** (seed + 1))[None, :] * np.arange(1, 5)[:, None]
    columns = program.feasible_columns
    found = program.upper_bound(gain, columns)
    whole = linprog(
        -gain.ravel(),
        program.rows.T,
        program.limits,
        (program.group == np.arange(4)[:, None]).astype(float),
        program.masses,
        method="highs",
    )
    assert len(columns) < 1000
    assert 0 <= found + float(whole.fun or 0.0) + 1e-9 <= 5e-6


def test_empty_region_is_said() -> None:
    table = np.array([[[0.2], [0.4]]])
    program = LinearProgram(table, table, np.ones(1), np.array([0.6]), np.array([0.7]))
    with pytest.raises(CannotEstimate, match=r"no rank distribution fits .* Check how they were drawn"):
        _ = program.feasible_columns


@pytest.mark.parametrize("n_users", [4, 9])
def test_program_against_all_rank_lists(n_users: int) -> None:
    """No list of ranks whose probabilities are within limits has a value outside; more users fill it.

    Four ranks, a sample of two, every multiset of ranks; gains of NDCG.
    """
    table = np.array([[1.0, 1.0], [2 / 3, 1.0], [1 / 3, 2 / 3], [0.1, 0.3]])
    low, high = np.array([0.35, 0.6]), np.array([0.6, 0.85])
    gain = 1 / np.log2(np.arange(2, 6))
    values = []
    for ranks in combinations_with_replacement(range(4), n_users):
        mean = table[list(ranks)].mean(axis=0)
        if (mean >= low).all() and (mean <= high).all():
            values.append(gain[list(ranks)].mean())
    program = LinearProgram(table[None], table[None], np.ones(1), low, high)
    largest = program.upper_bound(gain[None], program.feasible_columns)
    smallest = -program.upper_bound(-gain[None], program.feasible_columns)
    assert smallest <= min(values) and max(values) <= largest
    assert largest - max(values) < 1 / n_users and min(values) - smallest < 1 / n_users


@given(st.integers(0, 1000), st.integers(3, 12))
@settings(max_examples=50, deadline=None)
def test_envelope_holds_between_evaluated_points(seed: int, n_points: int) -> None:
    """Smooth curves stay between the lines everywhere, not only where they were looked at."""
    draw = np.random.default_rng(seed)
    points = np.sort(draw.random(n_points)) * 2
    phase, speed = draw.random(2) * 6, 0.5 + 2 * draw.random(2)
    at = interior_points(points)
    curves = [np.sin(f * at + p)[..., None] for f, p in zip(speed, phase, strict=True)]
    low, high = (line[:, 0] for line in envelope(points, at, np.stack(curves)))
    x = np.linspace(points[0], points[-1], 1000)
    for f, p in zip(speed, phase, strict=True):
        y = np.sin(f * x + p)
        assert (np.interp(x, points, low) <= y + 1e-12).all()
        assert (np.interp(x, points, high) >= y - 1e-12).all()


def test_envelope_sees_kinks() -> None:
    """A peak between two looks is found where it is said to be, and missed where it is not."""
    points = np.array([0.0, 1.0, 2.0])
    at = interior_points(points)

    def peak(x: FloatArray) -> FloatArray:
        found: FloatArray = np.maximum(0, 0.05 - np.abs(x - 0.56))[..., None]
        return found

    _, high = envelope(points, at, peak(at)[None], (np.array([[0.56]]), peak(np.array([[0.56]]))))
    _, without = envelope(points, at, peak(at)[None] * 0)
    assert np.interp(0.56, points, high[:, 0]) >= 0.05 > np.interp(0.56, points, without[:, 0])


@given(st.integers(1, 5000))
def test_events_begin_at_the_top_and_leave_out_what_always_happens(m: int) -> None:
    events = make_events(m)
    assert events.n_above[0] == 0 and events.n_above[-1] < m and (np.diff(events.n_above) > 0).all()
    happen = events.indicators(np.full(m + 1, m), np.arange(m + 1))
    assert happen.shape == (m + 1, len(events))
    below, between = np.split(happen, [len(events.n_above)], axis=1)
    assert np.array_equal(below.sum(axis=0), events.n_above + 1)
    assert np.array_equal(between.sum(axis=0), np.diff(events.n_above))
    assert np.array_equal(below[:, 0] + between.sum(axis=1), below[:, -1])  # disjoint, and together all


def test_observed_shares_count_users() -> None:
    """Users with two targets count each by half; ties by their weights; both need Chernoff's limits."""
    events = make_events(2)
    one = tally(SampledRanks.single([0, 1, 2, 0], n_negatives=2, n_pool=9), width=0)
    everything = np.ones(1, dtype=np.bool_)
    region, n = observed_region(one, everything, events, level=0.9)
    wanted = make_region(np.array([0.5, 0.75, 0.25]), 4, level=0.9, method="binomial")
    assert n == 4 and region.method == "binomial"
    np.testing.assert_allclose(region.low, wanted.low)
    tied = SampledRanks.single([0, 1], n_negatives=2, n_pool=9, n_tied=np.array([1, 0]))
    region, _ = observed_region(tally(tied, width=0), everything, events, level=0.9)
    wanted = make_region(np.array([0.25, 1.0, 0.75]), 2, level=0.9, method="chernoff")
    assert region.method == "chernoff"
    np.testing.assert_allclose(region.high, wanted.high)


def test_more_rows_than_targets_is_said() -> None:
    zeros = np.zeros(2, dtype=np.int64)
    sample = SampledRanks(
        zeros, np.arange(2), zeros, zeros, zeros + 9, zeros + 1, zeros, zeros, zeros + 2, zeros + 8
    )
    counted = tally(sample, width=0)
    with pytest.raises(InvalidData, match="n_relevant must be at least the number of rows of a user"):
        observed_region(counted, np.ones(len(counted.contexts), dtype=np.bool_), make_events(2), level=0.9)


def contexts_of(sizes: IntArray, m: IntArray | int, relevant: IntArray | int) -> Contexts:
    size = np.asarray(sizes, dtype=np.int64)
    zeros = np.zeros_like(size)
    return Contexts(zeros + m, size, zeros, zeros + relevant, size + relevant)


def test_groups() -> None:
    """Few sizes are kept apart, many are merged by nearness; kinds are, as long as they are few."""
    group, kind = group_contexts(contexts_of(np.array([10, 20, 30]), 5, 1), by_sample=True)
    assert group.tolist() == [0, 1, 2] and kind.tolist() == [0, 0, 0]
    sizes = np.arange(1000, 3000)
    group, _ = group_contexts(contexts_of(sizes, 5, 1), by_sample=True)
    assert group.max() == 11 and (np.diff(group) >= 0).all()
    spans = [sizes[group == g] for g in range(12)]
    assert max(span.max() / span.min() for span in spans) < 1.1
    many = np.arange(1, 2001)
    group, kind = group_contexts(contexts_of(np.full(2000, 4000), 5, many), by_sample=True)
    assert 50 < group.max() + 1 <= 240 and len(kind) == group.max() + 1
    by_size = contexts_of(np.full(500, 4000), np.arange(1, 501), 1)
    assert group_contexts(by_size, by_sample=False)[0].max() == 0
    with pytest.raises(CannotEstimate, match="at most 240 different numbers of negatives, got 500"):
        group_contexts(by_size, by_sample=True)


def test_words() -> None:
    bound = IdentificationBound("recall@10", 0.0, 0.26, 0.95, "binomial")
    said = str(Resolution(bound, 0.05, 10, 300, None))
    assert said == (
        "K = 10 is below what this sample can resolve: any recall@10 from 0.00 to 0.26 fits; only ranking "
        "all items would resolve it to +-0.05. The smallest K it resolves is about 300."
    )
    assert str(Resolution(bound, 0.2, 10)) == "recall@10 from 0.00 to 0.26: this sample resolves it to +-0.2."
    whole = Resolution(IdentificationBound("ap", 0.01, 0.2, 0.95, "binomial"), 0.001, None, None, 12_000)
    assert str(whole).startswith(
        "This sample cannot resolve ap: any ap from 0.010 to 0.200 fits; about 12,000"
    )


@given(st.integers(2, 900), st.integers(1, 50))
def test_needed_size_is_close_and_enough(size: int, start: int) -> None:
    """Never too few; too many by 4 % and the rounding to two digits at most."""
    found = needed_size(lambda m: 1.0 if m < size else 0.0, 0.5, start=start, most=1000)
    assert found is not None and max(size, start) <= found <= max(size * 1.05 * 1.1 + 2, start * 1.1 + 1)


def test_needed_size_wants_a_width() -> None:
    with pytest.raises(InvalidParameter, match="half_width must be greater than 0"):
        needed_size(lambda m: 1.0, 0.0, start=1, most=2)


def test_a_program_that_the_simplex_method_gives_up_on_is_solved_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program, gain = random_program(3, 2, 40, 6, 0.05), np.random.default_rng(3).random((2, 40))
    usual = program.upper_bound(gain, program.feasible_columns)
    tried: list[str] = []

    def gives_up(*arguments: object, method: str, **options: object) -> object:
        tried.append(method)
        found = linprog(*arguments, method=method, **options)  # type: ignore[call-overload]
        if method == "highs":
            found.status = 4
        return found

    monkeypatch.setattr("scipy.optimize.linprog", gives_up)
    assert program.upper_bound(gain, program.feasible_columns) == pytest.approx(usual, abs=1e-6)
    assert tried[:3] == ["highs", "highs", "highs-ipm"]


def test_a_program_that_nothing_solves(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*arguments: object, **options: object) -> object:
        found = linprog(*arguments, **options)  # type: ignore[call-overload]
        found.status = 4
        return found

    program = random_program(3, 2, 40, 6, 0.05)
    monkeypatch.setattr("scipy.optimize.linprog", never)
    with pytest.raises(CannotEstimate, match="could not be solved"):
        program.upper_bound(np.ones((2, 40)), np.arange(80))
