"""Sub-samples of events and of splits, what they lost, and their files."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings

from tests.strategies import splits
from tests.subsampling.strategies import drawn_events, fractions
from truerank.core.errors import InvalidParameter
from truerank.core.interactions import Interactions, Vocabulary
from truerank.core.split import Split
from truerank.data.read import read_interactions
from truerank.split.base import make_split
from truerank.subsampling.base import STRATEGIES
from truerank.subsampling.subsample import events_frame, gini, select_events, write_events

NAMES = [name for name in STRATEGIES.table if name not in ("temporal", "svp-cf", "svp-cf-prop")]


@given(splits(), fractions)
@settings(max_examples=30, deadline=None)
def test_only_train_is_sampled(split: Split, fraction: float) -> None:
    for name in NAMES:
        small = select_events(split, name, fraction, seed=1)
        assert small.split is not None
        assert small.split.test is split.test
        assert small.split.valid is split.valid
        assert small.split.train is small.train
        assert small.train.users == split.train.users
        assert small.train.items == split.train.items
        assert len(small.train) == round(fraction * len(split.train))
        cold = set(split.test.user.tolist()) - set(small.train.user.tolist())
        assert small.split.counts["users_without_history"] == len(cold)
        cold = set(split.test.item.tolist()) - set(small.train.item.tolist())
        assert small.split.counts["items_without_history"] == len(cold)


@given(drawn_events(), fractions)
@settings(max_examples=60, deadline=None)
def test_losses_are_counted(events: Interactions, fraction: float) -> None:
    small = select_events(events, "random-user", fraction, seed=2)
    loss, kept = small.loss, small.train
    assert small.split is None
    assert (loss.before.events, loss.after.events) == (len(events), len(kept))
    users, items = set(events.user.tolist()), set(events.item.tolist())
    assert loss.users_emptied == len(users - set(kept.user.tolist()))
    assert loss.items_emptied == len(items - set(kept.item.tolist()))
    if len(kept):
        lengths = sorted(kept.user.tolist().count(user) for user in set(kept.user.tolist()))
        assert loss.after.history["min"] == lengths[0]
        assert loss.after.history["max"] == lengths[-1]
        counts = [kept.item.tolist().count(item) for item in items]
        pairs = sum(abs(a - b) for a in counts for b in counts)
        assert loss.after.gini == pytest.approx(pairs / (2 * len(counts) * sum(counts)))
        n_head = -(-len(items) // 10)
        tops = sorted(items, key=lambda item: (-events.item.tolist().count(item), item))[:n_head]
        assert loss.after.head == pytest.approx(np.isin(kept.item, tops).mean())
    else:
        assert (loss.after.gini, loss.after.head, loss.after.history) == (None, None, {})
    assert json.loads(json.dumps(loss.to_dict()))["users_emptied"] == loss.users_emptied
    assert loss.rows()[0] == ("events", len(events), len(kept))


def test_loss_by_hand() -> None:
    """Head users of 3, 2 and 1 events: half of the events is one user's."""
    events = Interactions.from_codes([0, 0, 0, 1, 1, 2], [0, 1, 2, 0, 1, 0])
    loss = select_events(events, "head-user", 0.5).loss
    assert loss.before.history == {"min": 1, "q10": 1, "median": 2, "q90": 2, "max": 3}
    assert loss.after.history == dict.fromkeys(("min", "q10", "median", "q90", "max"), 3)
    assert (loss.users_emptied, loss.items_emptied) == (2, 0)
    assert loss.before.gini == pytest.approx(2 / 9)
    assert loss.after.gini == 0
    assert loss.before.head == 0.5
    assert loss.after.head == pytest.approx(1 / 3)
    assert (loss.strategy, loss.fraction, loss.seed) == ("head-user", 0.5, 0)


def test_gini_of_large_counts() -> None:
    """Weighted sums of 10**5 items with 10**6 events each do not overflow."""
    counts = np.full(100_000, 10**6)
    counts[:50_000] = 0
    assert gini(counts) == pytest.approx(0.5)


def named() -> Interactions:
    plain = Interactions.from_codes(
        [0, 0, 0, 1, 1, 1],
        [0, 1, 2, 0, 1, 2],
        time=np.array([3, 1, 2, 6, 5, 4]),
        value=np.array([1.0, 2.5, 3, 4, 5, 0.5], dtype=np.float32),
    )
    return replace(
        plain,
        users=Vocabulary.of(["ann", "bob"]),
        items=Vocabulary.of(["007", "b,c", "ü"]),
        labels={"shop": np.array(list("xyzxyz"), dtype=object)},
    )


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".tsv"])
def test_files_hold_the_original_ids(tmp_path: Path, suffix: str) -> None:
    events = named()
    small = select_events(events, "random", 0.5, seed=4)
    path = tmp_path / f"small{suffix}"
    write_events(path, small.train)
    back = read_interactions(path, keep=["shop"])
    assert events_frame(back).rows() == events_frame(small.train).rows()
    assert set(events_frame(back).rows()) < set(events_frame(events).rows())
    assert events_frame(back).columns == ["user_id", "item_id", "rating", "timestamp", "shop"]
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_files_of_splits_are_read_by_the_column_rule(tmp_path: Path) -> None:
    split = make_split(named(), "leave-last-out(valid=true)")
    small = select_events(split, "head-item", 0.5)
    assert small.split is not None
    path = tmp_path / "small.parquet"
    write_events(path, small.split)
    frame = pl.read_parquet(path)
    assert frame["split"].to_list() == ["train", "valid", "valid", "test", "test"]
    back = make_split(read_interactions(path, keep=["split"]), "column")
    assert back.valid is not None and split.valid is not None
    for part, expected in ((back.test, split.test), (back.valid, split.valid), (back.train, small.train)):
        assert events_frame(part).drop("split").rows() == events_frame(expected).drop("shop").rows()


def test_empty_and_bare_frames() -> None:
    events = Interactions.from_codes([0, 1], [1, 0])
    assert events_frame(events).columns == ["user_id", "item_id"]
    assert events_frame(select_events(events, "random", 0).train, "train").height == 0


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("small.xlsx", "the table of events must end in .parquet, .csv, .tsv, got 'small.xlsx'"),
        ("none/small.csv", "the table of events needs an existing folder"),
    ],
)
def test_bad_places(tmp_path: Path, name: str, sentence: str) -> None:
    with pytest.raises(InvalidParameter, match=sentence):
        write_events(tmp_path / name, named())
    assert not list(tmp_path.iterdir())
