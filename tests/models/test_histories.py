"""Fitted models that compute users from histories can be given others: as if the user had had them."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.models.test_torch_training import timed
from truerank.core.errors import InvalidData
from truerank.core.interactions import Interactions
from truerank.core.model import Epoch
from truerank.core.scorer import Factors, ReadsHistories, Scorer
from truerank.core.types import FloatArray
from truerank.models.registry import MODELS
from truerank.models.saved_scorer import load_scorer, save_scorer

torch = pytest.importorskip("torch")

READERS = {
    "ease": "ease",
    "item-knn": "item-knn(neighbours=4)",
    "multi-vae": "multi-vae(hidden=6, latent=3, epochs=2, batch=16, device=cpu)",
    "sasrec": "sasrec(max_length=6, factors=4, epochs=2, batch=8, device=cpu)",
    "svae": "svae(max_length=6, embedding=4, recurrent=5, hidden=6, latent=3, epochs=2, batch=8, device=cpu)",
}
OTHERS = ("popularity", "bias-only(epochs=1)", "mf(epochs=1)", "ials(sweeps=1)")


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(params=sorted(READERS))
def fitted(request: pytest.FixtureRequest) -> Scorer:
    return MODELS.make(READERS[request.param]).fit(timed())


def scores(scorer: Scorer, n_users: int) -> FloatArray:
    return scorer.score(np.arange(n_users), np.arange(scorer.n_items))


def given(scorer: Scorer, events: Interactions) -> Scorer:
    assert isinstance(scorer, ReadsHistories)
    return scorer.with_histories(events)


def test_the_train_histories_give_the_fitted_scores(fitted: Scorer) -> None:
    train = timed()
    assert np.array_equal(scores(given(fitted, train), 30), scores(fitted, 30))


def test_histories_can_be_exchanged_between_users(fitted: Scorer) -> None:
    """User u with the events of user 29 - u scores as that user did, and nobody else matters."""
    train = timed()
    turned = Interactions.from_codes(29 - train.user, train.item, time=train.time, n_users=30, n_items=17)
    np.testing.assert_allclose(
        scores(given(fitted, turned), 30), scores(fitted, 30)[::-1], rtol=1e-5, atol=1e-6
    )


def test_more_events_change_their_users_alone(fitted: Scorer) -> None:
    """User 29 had no events; users may also be others than those in training."""
    train = timed()
    more = Interactions.from_codes([29, 29], [1, 2], time=np.array([50, 51]), n_users=30, n_items=17)
    found, before = scores(given(fitted, train.joined(more)), 30), scores(fitted, 30)
    np.testing.assert_allclose(found[:29], before[:29], rtol=1e-5, atol=1e-6)
    assert not np.allclose(found[29], before[29])
    single = Interactions.from_codes([0, 0], [1, 2], time=np.array([50, 51]), n_items=17)
    np.testing.assert_allclose(scores(given(fitted, single), 1)[0], found[29], rtol=1e-5, atol=1e-6)


def test_the_latest_event_counts_as_the_latest() -> None:
    """Later times win over the order of the rows, in histories that are given as in those of train."""
    fitted = MODELS.make(READERS["sasrec"]).fit(timed())
    forth, back = (
        Interactions.from_codes([0, 0], [1, 2], time=np.array(time), n_items=17) for time in ([1, 2], [2, 1])
    )
    assert not np.allclose(scores(given(fitted, forth), 1), scores(given(fitted, back), 1))


def test_other_catalogues_are_refused(fitted: Scorer) -> None:
    few = Interactions.from_codes([0], [1], time=np.array([1]), name="mine")
    with pytest.raises(
        InvalidData,
        match=r"events over the 17 items that the model was fitted to, but those of 'mine' are over 2",
    ):
        given(fitted, few)


@pytest.mark.parametrize("spec", OTHERS)
def test_models_that_learn_users_read_no_histories(spec: str) -> None:
    assert not isinstance(MODELS.make(spec).fit(timed()), ReadsHistories)


@pytest.mark.parametrize("key", ["multi-vae", "sasrec", "svae"])
def test_networks_stay_behind_in_copies_and_files(key: str, tmp_path: Path) -> None:
    train = timed()
    fitted = MODELS.make(READERS[key]).fit(train)
    copy = pickle.loads(pickle.dumps(fitted))
    assert type(copy) is Factors
    save_scorer(tmp_path / "m.truerank", fitted, data=train)
    for again in (copy, load_scorer(tmp_path / "m.truerank").scorer):
        assert np.array_equal(scores(again, 30), scores(fitted, 30))
        assert not isinstance(again, ReadsHistories)


def test_the_best_epoch_encodes_not_the_last() -> None:
    """After early stopping the network is that of the best epoch, for other histories too."""
    train, seen = timed(), list[FloatArray]()

    def look(epoch: Epoch) -> None:
        seen.append(scores(given(epoch.scorer, train), 30))

    quality = iter([0.9, 0.1])
    model = MODELS.make(READERS["svae"])
    fitted = model.fit(train, validate=lambda _: next(quality), on_epoch=look)  # type: ignore[call-arg]
    assert np.array_equal(scores(given(fitted, train), 30), seen[0])
    assert not np.allclose(seen[0], seen[1])
