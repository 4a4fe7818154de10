"""SVP-CF and SVP-CF-Prop, given the importance of events."""

from __future__ import annotations

import dataclasses
import pickle
import re
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.subsampling import literal
from tests.subsampling.strategies import drawn_events, fractions, rows_of
from truerank.core.errors import InvalidData, InvalidParameter
from truerank.core.interactions import Interactions
from truerank.core.plugin import Spec
from truerank.core.types import FloatArray
from truerank.subsampling.base import STRATEGIES, ProxyStrategy, Strategy, largest_count, nearest_count
from truerank.subsampling.selection import mean_of_each
from truerank.subsampling.subsample import select_events
from truerank.subsampling.svp_cf import inverse_propensities

SPECS = [
    *("svp-cf", "svp-cf(unit=user)", "svp-cf(unit=item)"),
    *("svp-cf-prop", "svp-cf-prop(unit=user)", "svp-cf-prop(unit=item)"),
    *("svp-cf-prop(variant=repo)", "svp-cf-prop(unit=user, variant=repo)", "svp-cf-prop(a=1, b=3)"),
]
#: the sixteen of the paper's Table 1
SIXTEEN = [
    *("random", "stratified", "temporal", "s21-svp-cf-mf", "s21-svp-cf-bias"),
    *("s21-svp-cf-prop-mf", "s21-svp-cf-prop-bias", "random-user", "head-user", "s21-svp-cf-mf-user"),
    *("s21-svp-cf-bias-user", "s21-svp-cf-prop-mf-user", "s21-svp-cf-prop-bias-user"),
    *("centrality", "random-walk", "forest-fire"),
]


def made(spec: str) -> ProxyStrategy:
    strategy = STRATEGIES.make(spec)
    assert isinstance(strategy, ProxyStrategy)
    return strategy


@pytest.mark.parametrize(
    "spec", [*SPECS, "svp-cf(proxy=mf(factors=20, epochs=3), feedback=explicit)", "svp-cf(auc=inverse)"]
)
def test_spec_round_trip_frozen_picklable(spec: str) -> None:
    strategy = made(spec)
    assert str(strategy) == spec
    assert STRATEGIES.make(str(strategy)) == strategy
    assert pickle.loads(pickle.dumps(strategy)) == strategy
    assert hash(strategy) == hash(made(spec))
    with pytest.raises(dataclasses.FrozenInstanceError):
        strategy.proxy = Spec("bias")  # type: ignore[misc]


def test_sixteen_strategies() -> None:
    assert set(SIXTEEN) <= set(STRATEGIES.names())
    strategies: set[Strategy] = {STRATEGIES.make(name) for name in SIXTEEN}
    assert len(strategies) == 16
    proxies = [one for one in strategies if isinstance(one, ProxyStrategy)]
    assert sorted(str(one.proxy) for one in proxies) == ["bias"] * 4 + ["mf"] * 4
    assert set(STRATEGIES.presets) <= set(SIXTEEN)


@st.composite
def weighed_events(draw: st.DrawFn, *, repeats: bool = True) -> tuple[Interactions, FloatArray]:
    """Events and importance of them, of which many are equal and some infinite."""
    events = drawn_events(repeats=repeats, least=1)
    train: Interactions = draw(events)
    number = st.one_of(st.integers(0, 5).map(lambda k: k / 50), st.sampled_from([0.1 + 0.2, np.inf]))
    return train, np.array(draw(st.lists(number, min_size=len(train), max_size=len(train))))


@pytest.mark.slow
@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("spec", SPECS)
@given(weighed=weighed_events(), fraction=fractions, seed=st.integers(0, 2**64 - 1))
@settings(max_examples=25, deadline=None)
def test_as_many_as_asked(
    spec: str, exact: bool, weighed: tuple[Interactions, FloatArray], fraction: float, seed: int
) -> None:
    train, importance = weighed
    strategy = dataclasses.replace(made(spec), exact=exact)  # type: ignore[call-arg]
    n_kept = int(strategy.keep_by(train, importance, fraction, seed=seed).sum())
    if exact or fraction in (0, 1):
        assert n_kept == nearest_count(fraction, len(train))
    elif "unit" not in spec:
        assert n_kept == largest_count(fraction, len(train))
    else:
        largest = max(*train.user_counts().tolist(), *train.item_counts().tolist())
        assert fraction * len(train) - 1e-6 - largest < n_kept <= fraction * len(train) + 1e-6


@pytest.mark.parametrize("spec", SPECS)
@given(weighed=weighed_events(), fraction=fractions, seed=st.integers(0, 9), shuffle=st.randoms())
@settings(max_examples=25, deadline=None)
def test_the_order_of_events_does_not_matter(
    spec: str,
    weighed: tuple[Interactions, FloatArray],
    fraction: float,
    seed: int,
    shuffle: np.random.Generator,
) -> None:
    train, importance = weighed
    train = dataclasses.replace(train, time=np.arange(len(train)))  # every event is one of its own
    turn = list(range(len(train)))
    shuffle.shuffle(turn)
    order = np.array(turn, dtype=np.int64)
    turned = train.take(order)
    kept = train.where(made(spec).keep_by(train, importance, fraction, seed=seed))
    again = turned.where(made(spec).keep_by(turned, importance[order], fraction, seed=seed))
    assert rows_of(kept) == rows_of(again)


@given(weighed_events(repeats=False), st.integers(1, 99), st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_events_of_largest_importance(
    weighed: tuple[Interactions, FloatArray], percent: int, seed: int
) -> None:
    train, importance = weighed
    pairs = literal.events_of(train)
    for key, weights in (("svp-cf", np.ones(len(train))), ("svp-cf-prop", inverse_propensities(train))):
        score = dict(zip(pairs, (importance * weights).tolist(), strict=True))
        ordered = sorted(pairs, key=lambda pair: (score[pair], literal.key_of(seed, key, pair)))
        expected = set(ordered[len(pairs) - nearest_count(percent / 100, len(pairs)) :])
        mask = made(key).keep_by(train, importance, percent / 100, seed=seed)
        assert set(literal.events_of(train.where(mask))) == expected


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize(("unit", "side"), [("user", 0), ("item", 1)])
@given(weighed_events(repeats=False), st.integers(1, 99), st.integers(0, 99))
@settings(max_examples=30, deadline=None)
def test_units_of_largest_mean(
    unit: str, side: int, exact: bool, weighed: tuple[Interactions, FloatArray], percent: int, seed: int
) -> None:
    """Means by exact fractions of multiples of 1/64, which the sums must not round."""
    train, importance = weighed
    importance = np.where(np.isinf(importance), 9.0, np.rint(importance * 64) / 64)
    groups: dict[int, list[literal.Event]] = {}
    value = dict(zip(literal.events_of(train), map(Fraction, importance.tolist()), strict=True))
    for event in value:
        groups.setdefault(event[side], []).append(event)
    order = sorted(
        groups,
        key=lambda one: (
            sum(value[event] for event in groups[one]) / len(groups[one]),
            literal.unit_key(seed, "svp-cf", (side, one)),
        ),
        reverse=True,
    )
    n_keep = (nearest_count if exact else largest_count)(percent / 100, len(train))
    expected = literal.fill([groups[one] for one in order], n_keep, seed, "svp-cf", exact=exact)
    strategy = made(f"svp-cf(unit={unit}, exact={str(exact).lower()})")
    mask = strategy.keep_by(train, importance, percent / 100, seed=seed)
    assert set(literal.events_of(train.where(mask))) == expected


def test_propensities_of_units() -> None:
    """Two easy users: under the paper's rule rare items lift user 1, under the code's only own counts do."""
    train = Interactions.from_codes([0, 0, 1, 1, 2, 3, 4, 5], [0, 1, 2, 3, 0, 1, 0, 1])
    importance = np.array([0.2, 0.2, 0.2, 0.2, 0, 0, 0, 0])
    for seed in range(8):
        mask = made("svp-cf-prop(unit=user)").keep_by(train, importance, 0.25, seed=seed)
        assert train.user[mask].tolist() == [1, 1]
    kept = {
        made("svp-cf-prop(unit=user, variant=repo)").keep_by(train, importance, 0.25, seed=seed).tobytes()
        for seed in range(20)
    }
    assert len(kept) == 2  # a tie between users 0 and 1


def test_infinite_importance_comes_first() -> None:
    train = Interactions.from_codes([0, 0, 1, 1], [0, 1, 0, 1])
    importance = np.array([1.0, np.inf, 1.0, np.inf])
    assert made("svp-cf(auc=inverse)").keep_by(train, importance, 0.5).tolist() == [False, True] * 2
    assert mean_of_each(train.user, 3, importance).tolist() == [np.inf, np.inf, 0.0]


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=50), st.randoms())
@settings(max_examples=100)
def test_means_do_not_depend_on_the_order(values: list[float], shuffle: np.random.Generator) -> None:
    scores = np.array(values)
    group = np.arange(len(scores)) % 3
    turn = list(range(len(scores)))
    shuffle.shuffle(turn)
    order = np.array(turn)
    found = mean_of_each(group, 3, scores)
    assert np.array_equal(mean_of_each(group[order], 3, scores[order]), found)
    own = [scores[group == k].mean() if (group == k).any() else 0 for k in range(3)]
    assert found == pytest.approx(own, rel=1e-9, abs=1e-9 * scores.max())


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("fraction", [0, 0.3, 1])
def test_small_worlds(spec: str, fraction: float) -> None:
    """No event, one event, one user, one item."""
    pairs: list[tuple[list[int], list[int]]] = [
        ([], []),
        ([0], [0]),
        ([0] * 9, list(range(9))),
        (list(range(9)), [0] * 9),
    ]
    for user, item in pairs:
        train = Interactions.from_codes(user, item)
        importance = np.linspace(0, 1, len(user))
        assert made(spec).keep_by(train, importance, fraction).sum() == round(fraction * len(user))


@pytest.mark.parametrize(
    ("importance", "sentence"),
    [
        (
            [0.1, np.nan, np.nan],
            "importance must be numbers, got NaN for 2 of 3 events. Train the proxy with",
        ),
        ([0.1, 0.2], "importance must have one number per event, 3 in all, got shape (2,)"),
        ([[0.1, 0.2, 0.3]], "importance must have one number per event, 3 in all, got shape (1, 3)"),
    ],
)
@pytest.mark.parametrize("fraction", [0, 0.5, 1])
def test_bad_importance(importance: list[float], sentence: str, fraction: float) -> None:
    train = Interactions.from_codes([0, 1, 2], [0, 1, 2])
    with pytest.raises(InvalidData, match=re.escape(sentence)):
        made("svp-cf").keep_by(train, np.array(importance), fraction)


def test_importance_is_needed() -> None:
    train = Interactions.from_codes([0, 1, 2], [0, 1, 2])
    sentence = "strategy 'svp-cf(unit=user)' needs the importance of each event. Use truerank.subsample"
    with pytest.raises(InvalidParameter, match=re.escape(sentence)):
        select_events(train, "svp-cf(unit=user)", 0.5)
    assert len(select_events(train, "svp-cf", 1).train) == 3
    assert select_events(train, "svp-cf", 1 / 3, importance=np.array([0, 1, 0])).train.user.tolist() == [1]


def test_importance_is_for_proxies() -> None:
    train = Interactions.from_codes([0, 1], [0, 1])
    with pytest.raises(InvalidParameter, match="strategy 'random' does not choose by importance"):
        select_events(train, "random", 0.5, importance=np.ones(2))


@pytest.mark.parametrize("fraction", [0, 0.5, 1])
def test_ratings_are_needed(fraction: float) -> None:
    sentence = (
        "strategy 'svp-cf(feedback=explicit)' compares ratings with those of its proxy, but 'data' has none. "
        "Name the column with columns={'rating': NAME} or use feedback=implicit."
    )
    train = Interactions.from_codes([0, 1], [0, 1])
    with pytest.raises(InvalidData, match=re.escape(sentence)):
        made("svp-cf(feedback=explicit)").keep_by(train, np.ones(2), fraction)
    with pytest.raises(InvalidData, match=re.escape(sentence)):
        made("svp-cf(feedback=explicit)").keep(train, fraction)


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("svp-cf(unit=shop)", "must be interaction or user or item, got 'shop'"),
        ("svp-cf(feedback=loud)", "must be explicit or implicit, got 'loud'"),
        ("svp-cf(negatives=0)", "negatives must be an integer >= 1, got 0"),
        ("svp-cf(feedback=explicit, auc=inverse)", "negatives and auc belong to feedback=implicit"),
        ("svp-cf(variant=repo)", "has no parameter 'variant'"),
        ("svp-cf-prop(variant=code)", "must be paper or repo, got 'code'"),
        ("svp-cf-prop(a=-1)", "a must be at least 0, got -1"),
        ("svp-cf-prop(b=0)", "b must be greater than 0, got 0"),
        ("svp-cf(proxy=3)", "must be a spec such as name"),
    ],
)
def test_bad_parameters(spec: str, sentence: str) -> None:
    with pytest.raises(InvalidParameter, match=re.escape(sentence)):
        STRATEGIES.make(spec)
