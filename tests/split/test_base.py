"""What holds for every rule: nothing is lost, parts are disjoint, rows may come in any order."""

from __future__ import annotations

import pickle
import re
from dataclasses import FrozenInstanceError, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.split.strategies import timed_events
from truerank.core.errors import InvalidData, InvalidParameter, UnknownName
from truerank.core.interactions import Interactions
from truerank.core.split import Split
from truerank.split import base as splitter
from truerank.split.base import SPLITS, last_of_each, make_split

RULES = [
    "leave-last-out",
    "leave-last-out(n=2, valid=true)",
    "leave-one-out",
    "leave-one-out(n=2, valid=true)",
    "ratio",
    "ratio(test=0.3, valid=0)",
    "temporal",
    "temporal(test=0.2, valid=0.2)",
    "temporal(at=2)",
    "column(name=part)",
]


def labelled(events: Interactions) -> Interactions:
    parts = np.array(["train", "test", "valid", "other"], dtype=object)[(events.user * 7 + events.item) % 4]
    return replace(events, labels={"part": parts})


def attempt(rule: str, events: Interactions, seed: int = 0) -> Split | None:
    """Return the split, or None where the data are too small for it."""
    try:
        return make_split(labelled(events), rule, seed=seed)
    except InvalidData as error:
        assert re.search("at least one (train|test) event|must hold the (train|test) label", str(error))
        return None


def pairs(part: Interactions | None) -> set[tuple[int, int]]:
    return set() if part is None else set(zip(part.user.tolist(), part.item.tolist(), strict=True))


@pytest.mark.parametrize("rule", RULES)
@given(events=timed_events())
@settings(max_examples=40, deadline=None)
def test_nothing_is_lost(rule: str, events: Interactions) -> None:
    """Train, validation, test and what is counted as dropped make up all events."""
    split = attempt(rule, events)
    if split is None:
        return
    parts = [pairs(split.train), pairs(split.test), pairs(split.valid)]
    assert sum(map(len, parts)) == len(set.union(*parts))
    assert sum(map(len, parts)) + split.counts["events_dropped"] == len(events)
    with_targets = {user for user, _ in parts[1]}
    with_history = {user for user, _ in parts[0]}
    assert split.counts["users_without_targets"] == events.n_users - len(with_targets)
    assert split.counts["users_without_history"] == len(with_targets - with_history)
    items = {item for _, item in parts[1]} - {item for _, item in parts[0]}
    assert split.counts["items_without_history"] == len(items)
    assert split.summary()["split"] == rule


@pytest.mark.parametrize("rule", RULES)
@given(events=timed_events(distinct_times=True), random=st.randoms(use_true_random=False))
@settings(max_examples=30, deadline=None)
def test_row_order_does_not_matter(rule: str, events: Interactions, random: Any) -> None:
    shuffled = events.take(np.array(random.sample(range(len(events)), len(events))))
    first, second = attempt(rule, events), attempt(rule, shuffled)
    if first is None or second is None:
        assert first is second
        return
    for part in ("train", "test", "valid"):
        assert pairs(getattr(first, part)) == pairs(getattr(second, part))
    assert first.counts == second.counts


@pytest.mark.parametrize("rule", RULES)
def test_blocks_do_not_matter(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(0)
    cells = draw.permutation(20 * 30)[:300]
    user, item = np.divmod(cells, 30)
    events = Interactions.from_codes(user, item, time=draw.integers(0, 50, 300))
    whole = attempt(rule, events)
    monkeypatch.setattr(splitter, "CHUNK", 11)
    monkeypatch.setattr("truerank.split.ratio.CHUNK", 11)
    pieces = attempt(rule, events)
    assert whole is not None and pieces is not None
    assert pieces.test.item.tolist() == whole.test.item.tolist()


@pytest.mark.parametrize("rule", RULES)
def test_specs(rule: str) -> None:
    """Rules are frozen, picklable, and written the way they are read."""
    made = SPLITS.make(rule)
    assert str(made) == rule
    assert SPLITS.make(str(made)) == made
    assert pickle.loads(pickle.dumps(made)) == made
    assert made.columns == (("part",) if rule.startswith("column") else ())
    with pytest.raises(FrozenInstanceError):
        made.n = 3  # type: ignore[attr-defined]


def test_every_rule_is_listed() -> None:
    assert [entry.name for entry in SPLITS.entries()] == sorted(SPLITS.table)
    assert all(entry.summary.endswith(".") for entry in SPLITS.entries())


@pytest.mark.parametrize(
    ("rule", "error", "sentence"),
    [
        ("leave-last", UnknownName, "unknown split 'leave-last'. Did you mean 'leave-last-out'"),
        ("leave-last-out(n=0)", InvalidParameter, "n must be at least 1, got 0"),
        ("leave-one-out(n=0)", InvalidParameter, "n must be at least 1, got 0"),
        (
            "ratio(test=0)",
            InvalidParameter,
            "test must be greater than 0, valid at least 0 and their sum less than 1",
        ),
        ("ratio(test=0.5, valid=0.5)", InvalidParameter, "sum less than 1, got test=0.5 and valid=0.5"),
        ("ratio(first=valid)", InvalidParameter, "must be train or test, got 'valid'"),
        ("temporal(test=2)", InvalidParameter, "sum less than 1, got test=2"),
        (
            "temporal(at=yesterday)",
            InvalidParameter,
            "at must be a number or a date such as '2015-03-31', got",
        ),
    ],
)
def test_bad_rules(rule: str, error: type[Exception], sentence: str) -> None:
    with pytest.raises(error, match=sentence):
        SPLITS.make(rule)


@pytest.mark.parametrize(("rule", "instead"), [("leave-last-out", "leave-one-out"), ("temporal", "ratio")])
def test_rules_that_need_times(rule: str, instead: str) -> None:
    with pytest.raises(
        InvalidData, match=f"split '{rule}' needs a timestamp .* 'data' has none.*use split '{instead}'"
    ):
        make_split(Interactions.from_codes([0, 0], [0, 1]), rule)


def test_repeated_pairs_are_refused() -> None:
    events = Interactions.from_codes([0, 0], [1, 1], time=np.array([1, 2]))
    with pytest.raises(
        InvalidData, match=r"train and test must not share pairs.*merge duplicates before splitting"
    ):
        make_split(events, "leave-last-out")


def test_repeated_pairs_are_dropped_before_a_target() -> None:
    """Literal: an event stays unless its pair lies in a later part; what is dropped is counted."""
    rng = np.random.default_rng(0)
    user, item = rng.integers(12, size=160), rng.integers(6, size=160)
    events = Interactions.from_codes(user, item, time=rng.permutation(160))
    rule = SPLITS.make("leave-last-out(valid=true)")
    parts = rule.assign(events, 0)
    assert len(set(zip(user.tolist(), item.tolist(), strict=True))) < 80  # most pairs are repeated
    expected: dict[int, list[tuple[int, int]]] = {0: [], 1: [], 2: []}
    for row, part in enumerate(parts.tolist()):
        same = [parts[other] for other in range(160) if (user[other], item[other]) == (user[row], item[row])]
        if max(same) == part:
            expected[part].append((int(user[row]), int(item[row])))
    split = rule.split(events, repeated="drop")
    assert split.valid is not None
    for part, found in enumerate((split.train, split.valid, split.test)):
        assert list(zip(found.user.tolist(), found.item.tolist(), strict=True)) == expected[part]
    assert split.counts["events_dropped"] == 160 - sum(map(len, expected.values())) > 0
    with pytest.raises(InvalidParameter, match="repeated must be one of refuse, drop, keep, got 'yes'"):
        rule.split(events, repeated="yes")  # type: ignore[arg-type]


def test_too_little_data() -> None:
    single = Interactions.from_codes([0], [1], time=np.array([1]))
    with pytest.raises(
        InvalidData, match=r"split 'leave-last-out' must give at least one test event of 'data'"
    ):
        make_split(single, "leave-last-out")
    with pytest.raises(InvalidData, match="must hold at least one event to be split"):
        make_split(Interactions.from_codes([], []), "leave-one-out")


def test_last_of_each() -> None:
    user = np.array([0, 1, 0, 1, 0])
    keys = np.array([5.0, -np.inf, 5.0, -np.inf, 1.0])
    free = np.array([True, True, True, False, True])
    rows = last_of_each(user, lambda block: keys[block], free, np.array([True, True, True]))
    assert rows.tolist() == [2, 1]
