"""What every model promises."""

from __future__ import annotations

import dataclasses
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.models.literal import small_train
from truerank.core import parallel as threads
from truerank.core.errors import InvalidData, UnknownName
from truerank.core.interactions import Interactions
from truerank.core.scorer import HasSparseRows, Scorer
from truerank.models import ials
from truerank.models import item_item as cooccurrence
from truerank.models.registry import MODELS

SPECS = [
    "popularity",
    "item-knn(neighbours=none)",
    "item-knn(neighbours=4, keep=column, norm=l2)",
    "kr20-y",
    "kr20-z",
    "ease(reg=2)",
    "ials(factors=5, reg=0.2, sweeps=3)",
]


@pytest.fixture(params=SPECS)
def spec(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("name", MODELS.names())
def test_spec_round_trip_frozen_picklable(name: str) -> None:
    model = MODELS.make(name)
    assert MODELS.make(str(model)) == model
    assert pickle.loads(pickle.dumps(model)) == model
    assert hash(model) == hash(MODELS.make(name))
    with pytest.raises(dataclasses.FrozenInstanceError):
        model.key = "other"  # type: ignore[misc]


def test_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(UnknownName, match=r"unknown model 'itemknn'\. Did you mean 'item-knn'\?"):
        MODELS.make("itemknn")


def test_listing_names_summary_parameters_and_source() -> None:
    entries = {entry.name: entry for entry in MODELS.entries()}
    assert entries["ease"].parameters == "reg=500"
    assert entries["item-knn"].summary.startswith("Sum of cosine similarities")
    assert "preset: item-knn(power=3" in entries["kr20-y"].summary
    assert all(entry.summary.endswith(".") for entry in entries.values() if "preset" not in entry.summary)


def test_fitted_arrays_are_read_only(spec: str) -> None:
    def arrays(value: object) -> Iterator[np.ndarray]:
        if isinstance(value, np.ndarray):
            yield value
        elif hasattr(value, "tocsr"):
            yield from (value.data, value.indices, value.indptr)  # type: ignore[attr-defined]
        elif dataclasses.is_dataclass(value):
            for field in dataclasses.fields(value):
                yield from arrays(getattr(value, field.name))

    found = list(arrays(MODELS.make(spec).fit(small_train())))
    assert found
    assert not any(array.flags.writeable for array in found)


def test_the_same_seed_and_any_order_of_events_give_the_same_bits(spec: str) -> None:
    train = small_train()
    users, items = np.arange(train.n_users), np.arange(train.n_items)
    first = MODELS.make(spec).fit(train, seed=3).score(users, items)
    again = MODELS.make(spec).fit(train.take(np.argsort(train.item)), seed=3).score(users, items)
    assert np.array_equal(first, again)


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_any_number_of_threads_gives_the_same_bits(
    spec: str, n_threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many small blocks; 600 items make three blocks of the inverse."""
    train = small_train(n_users=100, n_items=600, density=0.05)
    users, items = np.arange(train.n_users), np.arange(train.n_items)
    expected = MODELS.make(spec).fit(train).score(users, items)
    monkeypatch.setattr(threads, "available_threads", lambda: n_threads)
    monkeypatch.setattr(cooccurrence, "_ENTRIES", 100)
    monkeypatch.setattr(ials, "_ENTRIES", 100)
    assert np.array_equal(MODELS.make(spec).fit(train).score(users, items), expected)


def test_a_score_is_a_function_of_the_pair(spec: str) -> None:
    """Bit for bit: one user, a batch, some items, in any order, per-user candidates, sparse rows."""
    train = small_train(n_items=61)
    scorer = MODELS.make(spec).fit(train)
    rng = np.random.default_rng(0)
    users, items = np.arange(train.n_users), np.arange(train.n_items)
    full = scorer.score(users, items)
    assert full.shape == (train.n_users, train.n_items)
    assert full.dtype == np.float64
    for user in users:
        assert np.array_equal(scorer.score(users[[user]], items)[0], full[user])
    for size in (1, 2, 7, 61):
        some = rng.permutation(train.n_items)[:size]
        batch = rng.integers(train.n_users, size=11)
        assert np.array_equal(scorer.score(batch, some), full[batch][:, some])
        own = rng.integers(train.n_items, size=(11, size))
        assert np.array_equal(scorer.score(batch, own), full[batch[:, None], own])
        assert np.array_equal(
            scorer.score(batch.astype(np.int32), own.astype(np.int32)), full[batch[:, None], own]
        )
    if isinstance(scorer, HasSparseRows):
        rows = scorer.sparse_rows(users)
        assert np.array_equal(rows.toarray(), full)
        assert rows.has_sorted_indices
        assert np.array_equal(scorer.sparse_rows(users[5:9]).toarray(), full[5:9])
    assert scorer.score(users[:0], items).shape == (0, train.n_items)
    assert scorer.score(users, items[:0]).shape == (train.n_users, 0)


def test_a_fitted_scorer_can_be_pickled(spec: str) -> None:
    train = small_train()
    scorer = MODELS.make(spec).fit(train)
    copy: Scorer = pickle.loads(pickle.dumps(scorer))
    everything = np.arange(train.n_users), np.arange(train.n_items)
    assert np.array_equal(copy.score(*everything), scorer.score(*everything))


def test_users_and_items_without_events(spec: str) -> None:
    """User 3 and item 5 have no events: zero scores (but popularity is the same for everybody)."""
    train = small_train()
    scores = MODELS.make(spec).fit(train).score(np.arange(train.n_users), np.arange(train.n_items))
    assert np.isfinite(scores).all()
    assert (scores[:, 5] == 0).all()
    assert (scores[3] == (scores[0] if spec == "popularity" else 0)).all()


@pytest.mark.parametrize(
    ("user", "item"),
    [([0], [0]), ([0, 0, 0], [0, 1, 2]), ([0, 1, 2], [0, 0, 0])],
    ids=["one event", "one user", "one item"],
)
def test_the_smallest_data(spec: str, user: list[int], item: list[int]) -> None:
    train = Interactions.from_codes(user, item)
    scores = MODELS.make(spec).fit(train).score(np.arange(train.n_users), np.arange(train.n_items))
    assert scores.shape == (train.n_users, train.n_items)
    assert np.isfinite(scores).all()


def test_train_without_events(spec: str) -> None:
    train = Interactions.from_codes([], [], n_users=3, n_items=4)
    with pytest.raises(InvalidData, match=r"train must hold at least one event to fit '.*', got 0"):
        MODELS.make(spec).fit(train)


def test_blocks_cover_everything_and_errors_come_through(monkeypatch: pytest.MonkeyPatch) -> None:
    for n_threads in (1, 3):
        monkeypatch.setattr(threads, "available_threads", lambda n=n_threads: n)
        seen = np.zeros(100, int)

        def mark(first: int, last: int, seen: np.ndarray = seen) -> None:
            seen[first:last] += 1

        threads.run_row_blocks(mark, threads.even_blocks(100, 7))
        assert (seen == 1).all()
        begun: list[int] = []
        with pytest.raises(KeyboardInterrupt):
            threads.run_row_blocks(_interrupt_at(begun, 3), threads.even_blocks(1000, 1))
        assert len(begun) < 1000
    indptr = np.array([0, 0, 5, 5, 100, 101, 101])
    blocks = threads.balanced_blocks(indptr, 10)
    assert [first for first, _ in blocks] == [0, *[last for _, last in blocks[:-1]]]
    assert blocks[-1][1] == 6


def _interrupt_at(begun: list[int], when: int) -> Callable[[int, int], None]:
    def work(first: int, last: int) -> None:
        begun.append(first)
        if first == when:
            raise KeyboardInterrupt

    return work


def test_import_is_light() -> None:
    """The table of models costs neither numba nor scipy."""
    code = "import sys, truerank.models; print({'numba', 'scipy', 'polars'} & set(sys.modules))"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path(__file__).parent
    )
    assert run.stdout.strip() == "set()"
