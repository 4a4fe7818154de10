"""Sub-samples by strategies that ask a proxy."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.subsampling.strategies import drawn_events, rows_of
from tests.subsampling.test_difficulty import literal_lost
from tests.subsampling.test_svp_cf import SIXTEEN
from truerank.core.checkpoint import Store
from truerank.core.digest import events_hash
from truerank.core.errors import InvalidData, InvalidParameter, MissingDependency, NotConverged, UnknownName
from truerank.core.interactions import Interactions
from truerank.core.model import Epoch, EpochModel, OnEpoch, Validate
from truerank.core.progress import SILENT, Progress
from truerank.core.scorer import DenseScores, Scorer
from truerank.core.types import FloatArray, IntArray
from truerank.data.catalogue import find_local, load
from truerank.models.bias_only import BiasOnly
from truerank.models.factor_training import FactorTraining
from truerank.models.kernels import fill_mask
from truerank.models.mf import MF
from truerank.models.registry import MODELS
from truerank.split.base import make_split
from truerank.subsampling.base import STRATEGIES
from truerank.subsampling.importance import importance, make_proxy, make_strategy
from truerank.subsampling.subsample import select_events as draw
from truerank.subsampling.subsample import subsample


def events(n: int = 600, *, rated: bool = True, repeats: bool = True) -> Interactions:
    """Users and items of very different activity, some pairs twice."""
    rng = np.random.default_rng(2)
    drawn = Interactions.from_codes(
        np.minimum(rng.geometric(0.05, n), 50) - 1,
        np.minimum(rng.geometric(0.1, n), 40) - 1,
        n_users=50,
        n_items=41,
        time=np.arange(n),
        value=rng.integers(1, 6, n).astype(np.float32) if rated else None,
    )
    if repeats:
        return drawn
    return drawn.take(np.unique(drawn.user * 41 + drawn.item, return_index=True)[1])


def epochs_of(model: EpochModel, train: Interactions, seed: int) -> list[FloatArray]:
    """All scores after each epoch of a fit."""
    tables: list[FloatArray] = []
    users, items = np.arange(train.n_users), np.arange(train.n_items)

    def note(epoch: Epoch) -> None:
        tables.append(epoch.scorer.score(users, items).astype(np.float64))

    model.fit(train, seed=seed, on_epoch=note)
    return tables


@pytest.mark.parametrize("proxy", ["mf", "bias"])
def test_implicit_importance_is_that_of_the_slow_twin(proxy: str) -> None:
    train = events(200)
    tables = epochs_of(make_proxy(proxy, epochs=6), train, 5)
    assert len(tables) == 6
    found = importance(train, proxy, epochs=6, negatives=2, seed=5)
    assert found.tolist() == pytest.approx(literal_lost(train, tables, 2, 5), rel=1e-15)
    assert found.max() > 0


@pytest.mark.parametrize("proxy", ["mf", "bias"])
def test_explicit_importance_is_that_of_the_slow_twin(proxy: str) -> None:
    train = events(200)
    tables = epochs_of(make_proxy(proxy, "explicit", epochs=4), train, 5)
    found = importance(train, f"{proxy}(epochs=4)", feedback="explicit", seed=5)
    assert train.value is not None
    errors = [(table[train.user, train.item] - train.value) ** 2 for table in tables]
    assert found == pytest.approx(np.mean(errors, axis=0), rel=1e-12)


def test_proxies_have_the_papers_settings() -> None:
    """Ten factors, dropout .3, Adam (.006, .98, 1e-6), batches of 1,024, 50 epochs."""
    for feedback, loss in (("explicit", "mse"), ("implicit", "bpr")):
        model = make_proxy("mf", feedback)  # type: ignore[arg-type]
        names = ("loss", "factors", "dropout", "learning_rate", "beta2", "weight_decay", "batch", "epochs")
        assert [getattr(model, name) for name in names] == [loss, 10, 0.3, 0.006, 0.98, 1e-6, 1024, 50]
        bias = make_proxy("bias", feedback)  # type: ignore[arg-type]
        shared = [name for name in names if name not in ("factors", "dropout")]
        assert [getattr(bias, name) for name in shared] == [getattr(model, name) for name in shared]
    assert make_proxy("mf(factors=3)") == MODELS.make("s21-mf(factors=3)")
    assert make_proxy("bias-only(epochs=2)") == MODELS.make("bias-only(epochs=2)")
    assert make_proxy(make_proxy("mf")) == make_proxy("mf")


@pytest.mark.parametrize("name", SIXTEEN)
def test_all_sixteen_keep_what_is_asked(name: str) -> None:
    split = make_split(events(repeats=False), "leave-last-out(valid=true)")
    strategy = str(STRATEGIES.make(name)).replace("proxy=bias", "proxy=bias(epochs=2)")
    small = subsample(split, strategy, 0.3, seed=1)
    assert len(small.train) == round(0.3 * len(split.train))
    assert small.split is not None
    assert small.split.test is split.test
    assert small.loss.strategy == strategy
    if name.startswith("s21"):
        given_ = importance(split.train, make_strategy(strategy).proxy, seed=1)  # type: ignore[attr-defined]
        again = draw(split, strategy, 0.3, seed=1, importance=given_)
    else:
        again = draw(split, strategy, 0.3, seed=1)
    assert rows_of(small.train) == rows_of(again.train)


@pytest.mark.parametrize("feedback", ["explicit", "implicit"])
@pytest.mark.parametrize("unit", ["interaction", "user", "item"])
@given(st.integers(0, 5), drawn_events(least=1), st.randoms())
@settings(max_examples=5, deadline=None)
def test_the_order_of_events_does_not_matter(
    feedback: str, unit: str, seed: int, train: Interactions, shuffle: np.random.Generator
) -> None:
    spec = f"svp-cf-prop(proxy=mf(epochs=3), feedback={feedback}, unit={unit})"
    turn = list(range(len(train)))
    shuffle.shuffle(turn)
    turned = train.take(np.array(turn))
    kept, again = (subsample(one, spec, 0.4, seed=seed).train for one in (train, turned))
    assert rows_of(kept) == rows_of(again)


class Slow(FactorTraining):
    """Training in order, with every score of a step computed event by event, dropout included."""

    def __init__(self, train: Interactions, model: MF | BiasOnly, seed: int) -> None:
        super().__init__(train, model.settings(), seed)
        self.wrong: dict[tuple[int, int, float], float] = {}

    def _batches(self, rng: np.random.Generator) -> Iterator[IntArray]:
        rows = np.arange(len(self.user))
        yield from (rows[first : first + 64] for first in range(0, len(rows), 64))

    def score(self, user: int, item: int, word: np.uint64) -> float:
        d = self.settings.factors
        mask = np.ones(d, np.float32)
        if self.keep < 1:
            fill_mask(mask, self.keep, word)
        dot = sum(mask[k] * self.users[user, k] * self.items[item, k] for k in range(d))
        return float(self.offset[0] + self.users[user, d] + self.items[item, d] + dot)

    def add(self, event: tuple[int, int, float], wrong: float) -> None:
        self.wrong[event] = self.wrong.get(event, 0.0) + wrong

    def _pair_step(self, rows: IntArray, negative: IntArray, start: np.uint64) -> float:
        for e, row in enumerate(rows.tolist()):
            word = word_at(start + np.uint64(e) * GOLDEN)
            user, item, other = int(self.user[row]), int(self.item[row]), int(negative[row])
            above = self.score(user, other, word_at(word)) > self.score(user, item, word)
            self.add((user, item, 0.0), float(above))
        return super()._pair_step(rows, negative, start)

    def _rating_step(self, rows: IntArray, value: FloatArray, start: np.uint64) -> float:
        for e, row in enumerate(rows.tolist()):
            word = word_at(start + np.uint64(e) * GOLDEN)
            user, item, rating = int(self.user[row]), int(self.item[row]), float(value[row])
            self.add((user, item, rating), (self.score(user, item, word) - rating) ** 2)
        return super()._rating_step(rows, value, start)


GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def word_at(counter: np.uint64) -> np.uint64:
    """SplitMix64's output function, in Python's integers."""
    mask = (1 << 64) - 1
    word = int(counter)
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & mask
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & mask
    return np.uint64(word ^ (word >> 31))


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # counters of the twin go round
@pytest.mark.parametrize("proxy", ["mf(batch=64, epochs=3)", "bias(batch=64, epochs=3)"])
@pytest.mark.parametrize("feedback", ["explicit", "implicit"])
def test_legacy_scores_before_each_step(proxy: str, feedback: str) -> None:
    train = events(150, repeats=False)
    model = make_proxy(proxy, feedback)  # type: ignore[arg-type]
    assert isinstance(model, MF | BiasOnly)
    slow = Slow(train, model, 6)
    for epoch in (1, 2, 3):
        slow.run_epoch(epoch)
    found = importance(train, model, feedback=feedback, legacy=True, seed=6)  # type: ignore[arg-type]
    values = np.zeros(len(train)) if feedback == "implicit" else np.asarray(train.value)
    rows = zip(train.user.tolist(), train.item.tolist(), values.tolist(), strict=True)
    assert found == pytest.approx([slow.wrong[event] / 3 for event in rows], rel=1e-4)
    assert found.max() > 0


@pytest.mark.parametrize("feedback", ["explicit", "implicit"])
def test_legacy_does_not_depend_on_the_order(feedback: str) -> None:
    train = events(200)
    order = np.random.default_rng(1).permutation(200)
    asked = {"feedback": feedback, "legacy": True, "epochs": 4}
    found = importance(train, "mf", **asked)  # type: ignore[arg-type]
    turned = importance(train.take(order), "mf", **asked)  # type: ignore[arg-type]
    assert np.array_equal(turned, found[order])
    assert not np.array_equal(found, importance(train, "mf", feedback=feedback, epochs=4))  # type: ignore[arg-type]
    small = subsample(train, f"svp-cf(legacy=true, feedback={feedback}, proxy=mf(epochs=4))", 0.3)
    is_kept = np.isin(np.asarray(train.time), np.asarray(small.train.time))
    assert found[is_kept].min() == np.sort(found)[-60]


def test_legacy_watches_two_proxies_alone() -> None:
    with pytest.raises(
        InvalidParameter,
        match="legacy measures errors within the training steps of mf or bias, got the proxy",
    ):
        importance(events(20), Flat(), legacy=True)
    for spec in ("svp-cf(legacy=true, negatives=2)", "svp-cf(legacy=true, auc=inverse)"):
        with pytest.raises(InvalidParameter, match="legacy fixes negatives and auc"):
            make_strategy(spec)


def test_seeds() -> None:
    train = events()
    first, second, other = (importance(train, "mf", epochs=3, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(first, second)
    assert not np.array_equal(first, other)


def test_hard_events_are_kept() -> None:
    """Two groups with tastes of their own, and forty events across that a taste cannot explain.

    A tenth of the events by MF holds nearly all of them; biases alone, which see no tastes, keep four or so.
    """
    rng = np.random.default_rng(0)
    user, item = (part.ravel() for part in np.meshgrid(np.arange(100), np.arange(80), indexing="ij"))
    own = (user < 50) == (item < 40)
    across = np.zeros(len(user), dtype=bool)
    across[rng.choice(np.flatnonzero(~own), 40, replace=False)] = True
    chosen = (own & (rng.random(len(user)) < 0.8)) | across
    train = Interactions.from_codes(user[chosen], item[chosen], n_users=100, n_items=80)
    kept = []
    for proxy in ("mf(factors=1, batch=32, dropout=0, epochs=30)", "bias(batch=32, epochs=30)"):
        small = subsample(train, f"svp-cf(proxy={proxy})", 0.1).train
        kept.append(int(((small.user < 50) != (small.item < 40)).sum()))
    assert kept[0] >= 35
    assert kept[1] <= 10


def test_models_without_factors() -> None:
    """A proxy that only has ``score``: a table that learns nothing."""
    train = events(100)
    found = importance(train, Flat(), seed=3)
    table = np.random.default_rng(0).integers(0, 9, (train.n_users, train.n_items)).astype(float)
    assert found.tolist() == pytest.approx(literal_lost(train, [table, table], 1, 3))


@pytest.mark.slow
def test_proxies_of_the_torch_extra() -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    train, spec = events(100), "neumf(factors=4, layers=8-4, epochs=2, pretrain=false)"
    tables = epochs_of(make_proxy(spec), train, 2)
    assert importance(train, spec, seed=2).tolist() == pytest.approx(literal_lost(train, tables, 1, 2))


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingDependency, match=re.escape("Install it with: pip install 'truerank[torch]'")):
        subsample(events(30), "svp-cf(proxy=neumf(epochs=1))", 0.5)
    assert len(subsample(events(30), "svp-cf(proxy=mf(epochs=1))", 0.5).train) == 15


@dataclass(frozen=True)
class Flat(EpochModel):
    """Two epochs of the same scores; perhaps stopped early, or none that are numbers."""

    key: ClassVar[str] = "flat"
    epochs: int = 2
    done: int = 2
    level: float = 0.0

    def fit(
        self,
        train: Interactions,
        *,
        validate: Validate | None = None,
        seed: int = 0,
        progress: Progress = SILENT,
        on_epoch: OnEpoch | None = None,
    ) -> Scorer:
        table = np.random.default_rng(0).integers(0, 9, (train.n_users, train.n_items)) + self.level
        assert on_epoch is not None
        for number in range(self.done):
            on_epoch(Epoch(number + 1, 0.0, None, DenseScores(table)))
        return DenseScores(table)


def test_an_interrupt_of_the_training_goes_through(monkeypatch: pytest.MonkeyPatch) -> None:
    from truerank.subsampling.importance import Difficulty

    add = Difficulty.add

    def once(self: Difficulty, scorer: Scorer) -> None:
        if self.epochs == 1:
            raise KeyboardInterrupt
        add(self, scorer)

    monkeypatch.setattr(Difficulty, "add", once)
    store = Store()
    with pytest.raises(KeyboardInterrupt):
        importance(events(100), "bias", store=store)
    assert not store._held


def test_a_diverged_proxy() -> None:
    train = events(100)
    with pytest.raises(NotConverged, match="Lower its learning_rate"):
        importance(train, Flat(level=np.nan))
    with pytest.raises(NotConverged, match="Lower learning_rate"):
        subsample(train, "svp-cf(proxy=mf(learning_rate=1e30))", 0.5)


def test_a_store_keeps_the_importance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train = events(150)
    asked = "svp-cf(proxy=mf(epochs=2))"
    first = subsample(train, asked, 0.5, seed=4, store=Store(tmp_path)).train
    assert len(list(tmp_path.iterdir())) == 1
    monkeypatch.setattr("truerank.subsampling.importance.Difficulty", None)  # nothing can be computed now
    assert rows_of(subsample(train, asked, 0.5, seed=4, store=Store(tmp_path)).train) == rows_of(first)
    other = subsample(train, "svp-cf-prop(proxy=mf(epochs=2), unit=user)", 0.2, seed=4, store=Store(tmp_path))
    assert len(other.train) == 30
    for data, strategy, seed in (
        (train, asked, 5),
        (train, "svp-cf(proxy=mf(epochs=3))", 4),
        (train, "svp-cf(proxy=mf(epochs=2), negatives=2)", 4),
        (train.take(np.arange(149)), asked, 4),
    ):
        with pytest.raises(TypeError, match="not callable"):
            subsample(data, strategy, 0.5, seed=seed, store=Store(tmp_path))


def test_hashes_tell_events_apart() -> None:
    train = events(50)
    assert train.value is not None
    others = [
        train.take(np.arange(50)[::-1]),
        replace(train, value=train.value + 1),
        replace(train, time=None),
        replace(train, item=train.user % 41),
    ]
    assert events_hash(train) == events_hash(train.take(np.arange(50)))
    assert len({events_hash(one) for one in [train, *others]}) == 5


@pytest.mark.parametrize("spec", ["svp-cf", "svp-cf-prop(unit=user)", "svp-cf(unit=item, proxy=bias)"])
@pytest.mark.parametrize("fraction", [0, 0.4, 1])
def test_small_worlds(spec: str, fraction: float) -> None:
    """No event, one event, one user, one item, everything met."""
    user, item = (part.ravel() for part in np.meshgrid(np.arange(3), np.arange(3)))
    five = list(range(5))
    worlds = [
        Interactions.from_codes([], [], n_users=2, n_items=2),
        Interactions.from_codes([0], [0]),
        Interactions.from_codes([0] * 5, five),
        Interactions.from_codes([0] * 5, five, n_items=9),
        Interactions.from_codes(five, [0] * 5),
        Interactions.from_codes(user, item),
    ]
    for train in worlds:
        assert len(subsample(train, spec, fraction).train) == round(fraction * len(train))


def test_all_and_nothing_need_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("truerank.subsampling.importance.Difficulty", None)
    assert len(subsample(events(50), "svp-cf", 1).train) == 50
    assert len(subsample(events(50), "svp-cf", 0).train) == 0
    with pytest.raises(InvalidData, match="compares ratings"):
        subsample(events(50, rated=False), "svp-cf(feedback=explicit)", 1)


@pytest.mark.parametrize(
    ("proxy", "feedback", "error", "sentence"),
    [
        ("mff", "implicit", UnknownName, "unknown model 'mff'. Did you mean 'mf'?"),
        ("ease", "implicit", InvalidParameter, "a proxy must be a model that trains in epochs, got 'ease'"),
        (
            "mf(loss=bpr)",
            "explicit",
            InvalidParameter,
            "the proxy must predict ratings for explicit feedback",
        ),
        ("multi-vae", "explicit", InvalidParameter, "the proxy must predict ratings for explicit feedback"),
        ("mf(factor=2)", "implicit", InvalidParameter, "has no parameter 'factor'. Did you mean 'factors'?"),
        ("mf@3", "implicit", InvalidParameter, "takes no cut-off"),
        ("mf(epochs=0)", "implicit", InvalidParameter, "epochs must be"),
    ],
)
def test_bad_proxies(proxy: str, feedback: str, error: type[Exception], sentence: str) -> None:
    with pytest.raises(error, match=re.escape(sentence)):
        importance(events(20), proxy, feedback=feedback)  # type: ignore[arg-type]
    if feedback == "explicit":
        with pytest.raises(error, match=re.escape(sentence)):
            make_strategy(f"svp-cf(proxy={proxy}, feedback=explicit)")


def test_bad_questions() -> None:
    with pytest.raises(InvalidData, match="explicit feedback needs ratings, but 'data' has none"):
        importance(events(20, rated=False), feedback="explicit")
    with pytest.raises(InvalidParameter, match="negatives must be an integer >= 1, got 0"):
        importance(events(20), negatives=0)
    with pytest.raises(InvalidParameter, match="seed must be an integer"):
        importance(events(20), seed=-1)
    with pytest.raises(InvalidParameter, match="fraction must be a number from 0 to 1, got 2"):
        subsample(events(20), "svp-cf", 2)
    with pytest.raises(InvalidParameter, match="strategy 'random' does not choose by importance"):
        subsample(events(20), "random", 0.5, importance=np.ones(20))
    with pytest.raises(InvalidData, match="one number per event, 20 in all"):
        subsample(events(20), "svp-cf", 0.5, importance=np.ones(19))


@pytest.mark.data
@pytest.mark.skipif(find_local("ml-100k") is None, reason="ml-100k is not on this machine")
def test_ml_100k() -> None:
    """On real ratings: MF finds less hard than biases alone, and the hardest ratings are low ones."""
    train = load("ml-100k")
    assert train.value is not None
    factors, biases = (importance(train, proxy, feedback="explicit", epochs=20) for proxy in ("mf", "bias"))
    assert factors.mean() < biases.mean() < float(train.value.var())
    small = subsample(train, "svp-cf(feedback=explicit)", 0.1, importance=biases).train
    assert small.value is not None
    assert (small.value <= 2).mean() > 0.6 > 3 * (train.value <= 2).mean()
