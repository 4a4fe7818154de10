"""What every strategy promises."""

from __future__ import annotations

import dataclasses
import pickle
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.subsampling.strategies import EXACT, LEGACY, WHOLE, drawn_events, fractions, rows_of
from truerank.core.errors import InvalidData, InvalidParameter, UnknownName
from truerank.core.interactions import Interactions
from truerank.subsampling import graph as centrality
from truerank.subsampling import selection as cut
from truerank.subsampling.base import STRATEGIES, largest_count, nearest_count

ALL = [*EXACT, *WHOLE, *LEGACY]


@pytest.mark.parametrize("spec", ALL)
def test_spec_round_trip_frozen_picklable(spec: str) -> None:
    strategy = STRATEGIES.make(spec)
    assert STRATEGIES.make(str(strategy)) == strategy
    assert pickle.loads(pickle.dumps(strategy)) == strategy
    with pytest.raises(dataclasses.FrozenInstanceError):
        strategy.key = "other"  # type: ignore[misc]


def test_every_name_is_examined() -> None:
    """Those that choose by a proxy's importance are examined in test_proxy.py."""
    with_proxy = {"svp-cf", "svp-cf-prop"}
    assert {STRATEGIES.make(spec).key for spec in ALL} | with_proxy == set(STRATEGIES.table)


@pytest.mark.slow
@pytest.mark.parametrize("spec", EXACT)
@given(events=drawn_events(), fraction=fractions, seed=st.integers(0, 2**64 - 1))
@settings(max_examples=40, deadline=None)
def test_exactly_as_many_as_asked(spec: str, events: Interactions, fraction: float, seed: int) -> None:
    mask = STRATEGIES.make(spec).keep(events, fraction, seed=seed)
    assert mask.dtype == np.bool_
    assert mask.shape == (len(events),)
    assert mask.sum() == round(fraction * len(events))


@pytest.mark.parametrize("spec", WHOLE)
@given(events=drawn_events(), fraction=fractions, seed=st.integers(0, 100))
@settings(max_examples=40, deadline=None)
def test_whole_units_overshoot_by_one_at_most(
    spec: str, events: Interactions, fraction: float, seed: int
) -> None:
    """At least the asked number is removed, and the last unit removed was needed for that."""
    n = len(events)
    n_kept = int(STRATEGIES.make(spec).keep(events, fraction, seed=seed).sum())
    assert n_kept <= fraction * n + 1e-6
    largest = max([0, *events.user_counts().tolist(), *events.item_counts().tolist()])
    assert n_kept > fraction * n - 1e-6 - max(largest, 1)


@pytest.mark.slow
@pytest.mark.parametrize("spec", ALL)
@given(events=drawn_events(), fraction=fractions, seed=st.integers(0, 9), shuffle=st.randoms())
@settings(max_examples=30, deadline=None)
def test_the_order_of_events_does_not_matter(
    spec: str, events: Interactions, fraction: float, seed: int, shuffle: np.random.Generator
) -> None:
    strategy, order = STRATEGIES.make(spec), list(range(len(events)))
    shuffle.shuffle(order)
    turned = events.take(np.array(order, dtype=np.int64))
    kept = events.where(strategy.keep(events, fraction, seed=seed))
    again = turned.where(strategy.keep(turned, fraction, seed=seed))
    assert rows_of(kept) == rows_of(again)


@pytest.mark.parametrize("spec", ALL)
def test_threads_code_types_and_compilation_do_not_matter(spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    events = random_events(2000)
    strategy = STRATEGIES.make(spec)
    expected = strategy.keep(events, 0.37, seed=3)
    for threads, compiled_from in ((1, 0), (3, 0), (2, 10**9)):
        monkeypatch.setattr(centrality, "available_threads", lambda threads=threads: threads)
        monkeypatch.setattr(cut, "available_threads", lambda threads=threads: threads)
        monkeypatch.setattr(centrality, "THREADED_FROM", compiled_from)
        monkeypatch.setattr(cut, "COMPILED_FROM", compiled_from)
        assert np.array_equal(strategy.keep(events, 0.37, seed=3), expected)
    narrow = dataclasses.replace(events, user=events.user.astype(np.int16), item=events.item.astype(np.uint8))
    assert np.array_equal(strategy.keep(narrow, 0.37, seed=3), expected)


@pytest.mark.parametrize("spec", [spec for spec in ALL if "head" not in spec and "centrality" not in spec])
def test_the_seed_matters(spec: str) -> None:
    events = dataclasses.replace(random_events(500), time=np.zeros(500))
    first, second = (STRATEGIES.make(spec).keep(events, 0.3, seed=seed) for seed in (0, 1))
    assert not np.array_equal(first, second)


@pytest.mark.parametrize("spec", ALL)
@pytest.mark.parametrize("fraction", [0, 0.3, 1])
def test_small_worlds(spec: str, fraction: float) -> None:
    """No event, one event, one user, one item, and ten components of one event each."""
    strategy = STRATEGIES.make(spec)
    pairs: list[tuple[list[int], list[int]]] = [
        ([], []),
        ([0], [0]),
        ([0] * 9, list(range(9))),
        (list(range(9)), [0] * 9),
        (list(range(10)), list(range(10))),
    ]
    for user, item in pairs:
        events = Interactions.from_codes(user, item, time=np.arange(len(user)))
        n_kept = int(strategy.keep(events, fraction).sum())
        if fraction in (0, 1) or spec in EXACT:
            assert n_kept == round(fraction * len(user))
        assert n_kept <= nearest_count(fraction, len(user))


@pytest.mark.parametrize("spec", ALL)
def test_the_events_stay_as_they_are(spec: str) -> None:
    events = random_events(300)
    before = rows_of(events)
    STRATEGIES.make(spec).keep(events, 0.5)
    assert rows_of(events) == before


@pytest.mark.parametrize("fraction", [-0.1, 1.01, float("nan"), True, "0.5", None])
def test_bad_fractions(fraction: float) -> None:
    sentence = (
        f"fraction must be a number from 0 to 1, got {fraction!r}. Write 0.1 for a tenth of the events."
    )
    with pytest.raises(InvalidParameter, match=re.escape(sentence)):
        STRATEGIES.make("random").keep(random_events(5), fraction)


def test_bad_seed() -> None:
    with pytest.raises(InvalidParameter, match="seed must be an integer"):
        STRATEGIES.make("random").keep(random_events(5), 1, seed=-1)


@pytest.mark.parametrize("fraction", [0, 0.5, 1])
@pytest.mark.parametrize("spec", ["temporal", "temporal(legacy=true)"])
def test_times_are_needed(spec: str, fraction: float) -> None:
    sentence = (
        f"strategy '{spec}' needs a timestamp for each event, but 'data' has none. "
        "Name the column with columns={'timestamp': NAME} or use strategy 'stratified'."
    )
    with pytest.raises(InvalidData, match=re.escape(sentence)):
        STRATEGIES.make(spec).keep(Interactions.from_codes([0], [0]), fraction)


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("centrality(damping=1)", "damping must be at least 0 and less than 1, got 1"),
        ("centrality(damping=-0.1)", "damping must be at least 0 and less than 1, got -0.1"),
        ("centrality(tolerance=0)", "tolerance must be greater than 0"),
        ("centrality(edges=none_)", "must be any or both, got 'none_'"),
        ("centrality(legacy=true, damping=0.5)", "legacy fixes damping and edges"),
        ("centrality(legacy=true, edges=both)", "legacy fixes damping and edges"),
        ("random-walk(restart=1.1)", "restart must be a probability from 0 to 1, got 1.1"),
        ("random-walk(patience=0)", "patience must be at least 1, got 0"),
        ("forest-fire(burn=0)", "burn must be greater than 0 and at most 1, got 0"),
        ("random(exact=false)", "takes no parameters"),
    ],
)
def test_bad_parameters(spec: str, sentence: str) -> None:
    with pytest.raises(InvalidParameter, match=sentence):
        STRATEGIES.make(spec)


def test_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(UnknownName, match=r"unknown strategy 'randomwalk'\. Did you mean 'random-walk'\?"):
        STRATEGIES.make("randomwalk")


@given(st.floats(0, 1), st.integers(0, 10**8))
def test_numbers_to_keep(fraction: float, n: int) -> None:
    assert abs(nearest_count(fraction, n) - fraction * n) <= 0.5
    assert -1 < largest_count(fraction, n) - fraction * n <= 1e-8


def random_events(n: int) -> Interactions:
    """Events of 60 users and 40 items, with repeats, ties in time and users of very different activity."""
    draw = np.random.default_rng(5)
    user = np.minimum(draw.geometric(0.06, n), 60) - 1
    return Interactions.from_codes(
        user,
        draw.integers(0, 40, n),
        n_users=60,
        n_items=40,
        time=draw.integers(0, 50, n),
        value=draw.integers(1, 6, n).astype(np.float32),
    )
