"""What every model that is trained in epochs promises: bits, order, threads, smallest data, missing torch."""

from __future__ import annotations

import dataclasses
import pickle
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.models.literal import small_train
from truerank.core.errors import InvalidData, InvalidParameter, MissingDependency
from truerank.core.interactions import Interactions
from truerank.core.model import EpochModel
from truerank.core.scorer import Factors
from truerank.models.registry import MODELS
from truerank.models.torch_training import limited_threads, pick_device, require_torch
from truerank.models.training import HasArrays

torch = pytest.importorskip("torch")

SPECS = [
    "bias-only(epochs=2, batch=32)",
    "mf(factors=3, epochs=2, batch=32, dropout=0.2)",
    "neumf(factors=3, layers=6-5-4, epochs=2, batch=32, device=cpu)",
    "neumf(factors=3, layers=6-4, epochs=1, batch=32, loss=bpr, variant=s21, pretrain=true, device=cpu)",
    "multi-vae(hidden=6, latent=3, epochs=2, batch=16, device=cpu)",
]


@pytest.fixture(params=SPECS)
def spec(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Tiny batches gain nothing from threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_the_same_seed_and_any_order_of_events_give_the_same_bits(spec: str) -> None:
    train, model = small_train(), MODELS.make(spec)
    everything = np.arange(train.n_users), np.arange(train.n_items)
    first = model.fit(train, seed=3).score(*everything)
    again = model.fit(train.take(np.argsort(train.item)), seed=3).score(*everything)
    assert np.array_equal(first, again)
    assert not np.array_equal(first, model.fit(train, seed=4).score(*everything))


def test_a_score_is_a_function_of_the_pair(spec: str) -> None:
    """Bit for bit: one user, a batch, some items, in any order, per-user candidates."""
    train = small_train(n_items=61)
    scorer = MODELS.make(spec).fit(train)
    rng = np.random.default_rng(0)
    users, items = np.arange(train.n_users), np.arange(train.n_items)
    full = scorer.score(users, items)
    assert full.shape == (train.n_users, train.n_items)
    assert full.dtype == np.float64
    assert np.isfinite(full).all()
    for user in users:
        assert np.array_equal(scorer.score(users[[user]], items)[0], full[user])
    for size in (1, 2, 7, 61):
        some, batch = rng.permutation(train.n_items)[:size], rng.integers(train.n_users, size=11)
        assert np.array_equal(scorer.score(batch, some), full[batch][:, some])
        own = rng.integers(train.n_items, size=(11, size)).astype(np.int32)
        assert np.array_equal(scorer.score(batch, own), full[batch[:, None], own])
    assert scorer.score(users[:0], items).shape == (0, train.n_items)
    assert scorer.score(users, items[:0]).shape == (train.n_users, 0)


def test_fitted_arrays_are_read_only_and_travel(spec: str) -> None:
    train = small_train()
    scorer = MODELS.make(spec).fit(train)
    assert isinstance(scorer, Factors | HasArrays)
    held: dict[str, Any] = {field.name: getattr(scorer, field.name) for field in dataclasses.fields(scorer)}
    arrays = [array for array in held.values() if isinstance(array, np.ndarray)]
    assert arrays
    assert not any(array.flags.writeable for array in arrays)
    everything = np.arange(train.n_users), np.arange(train.n_items)
    copy = pickle.loads(pickle.dumps(scorer))
    assert np.array_equal(copy.score(*everything), scorer.score(*everything))


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


def test_epochs_are_reported_and_validated(spec: str) -> None:
    model = MODELS.make(spec)
    assert isinstance(model, EpochModel)
    losses: list[float] = []
    values: list[float | None] = []

    def watch(epoch: Any) -> None:
        losses.append(epoch.loss)
        values.append(epoch.validation)

    model.fit(small_train(), validate=lambda _: 0.25, on_epoch=watch)
    assert len(losses) == model.epochs  # type: ignore[attr-defined]
    assert np.isfinite(losses).all()
    assert values == [0.25] * len(losses)


@pytest.mark.parametrize("spec", [spec for spec in SPECS if "device" in spec])
def test_missing_torch_says_what_to_install(spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(
        MissingDependency, match=r"model '.*' needs PyTorch\. Install.*pip install 'truerank\[torch\]'"
    ):
        MODELS.make(spec).fit(small_train())
    with pytest.raises(MissingDependency):
        require_torch("neumf")


@pytest.mark.slow
def test_models_without_torch_do_not_import_it() -> None:
    code = (
        "import sys; from truerank.models.registry import MODELS;"
        "from truerank.core.interactions import Interactions;"
        "train = Interactions.from_codes([0, 0, 1], [0, 1, 0]);"
        "[MODELS.make(name).fit(train) for name in ('mf(epochs=1)', 'bias-only(epochs=1)')];"
        "[MODELS.make(name) for name in ('neumf', 'multi-vae')];"
        "print('torch' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"


def test_device_and_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert pick_device("auto").type == pick_device("cpu").type == "cpu"
    with pytest.raises(
        InvalidParameter, match=r"device 'cuda' needs a GPU, but torch sees none\. Use device=auto"
    ):
        pick_device("cuda")
    torch.set_num_threads(4)
    monkeypatch.setattr("truerank.models.torch_training.available_threads", lambda: 2)
    with limited_threads():
        assert torch.get_num_threads() == 2
    assert torch.get_num_threads() == 4
    torch.set_num_threads(1)
    with limited_threads():
        assert torch.get_num_threads() == 1
