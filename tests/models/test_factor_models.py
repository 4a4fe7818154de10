"""bias-only and mf: gradients and Adam against torch, ratings, preferences, cold users and items."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr

from tests.models.literal import small_train
from truerank.core.errors import InvalidData, InvalidParameter, NotConverged
from truerank.core.interactions import Interactions
from truerank.core.model import Epoch
from truerank.core.scorer import Factors
from truerank.models.factor_training import FactorSettings, FactorTraining
from truerank.models.kernels import fill_mask
from truerank.models.mf import MF
from truerank.models.registry import MODELS

torch = pytest.importorskip("torch")


def rated(seed: int = 0, *, n_users: int = 30, n_items: int = 20) -> Interactions:
    """Ratings with user and item effects; user 3 and item 5 have none."""
    rng = np.random.default_rng(seed)
    effect = rng.normal(size=n_users)[:, None] + 0.7 * rng.normal(size=n_items)
    seen = rng.random(effect.shape) < 0.5
    seen[3], seen[:, 5] = False, False
    user, item = np.nonzero(seen)
    value = 3 + effect[user, item] + 0.1 * rng.normal(size=len(user))
    return Interactions.from_codes(user, item, n_users=n_users, n_items=n_items, value=value)


def settings(**changes: Any) -> FactorSettings:
    given: dict[str, Any] = {
        "loss": "bpr",
        "factors": 3,
        "batch": 17,
        "learning_rate": 0.02,
        "weight_decay": 0.003,
        "beta2": 0.98,
        "offset": 3.5,
    }
    return FactorSettings("mf", **{**given, **changes})


def twin(
    start: FactorTraining, batches: list[tuple[Any, ...]], loss: str, chosen: FactorSettings
) -> list[Any]:
    """Run the same batches by automatic differentiation and torch's Adam, in float64."""
    U, V, offset = (
        torch.tensor(array, dtype=torch.float64, requires_grad=True)
        for array in (start.users, start.items, start.offset[:1])
    )
    adam = torch.optim.Adam(
        [U, V, offset], lr=chosen.learning_rate, weight_decay=chosen.weight_decay, betas=(0.9, chosen.beta2)
    )

    def score(user: Any, item: Any) -> Any:
        u, v = U[torch.tensor(user)], V[torch.tensor(item)]
        return offset + (u[:, :-1] * v[:, :-1]).sum(dim=1) + u[:, -1] + v[:, -1]

    for user, item, third in batches:
        adam.zero_grad()
        if loss == "mse":
            value = (score(user, item) - torch.tensor(third)).square().mean()
        else:
            value = -torch.log(torch.sigmoid(score(user, item) - score(user, third))).mean()
        value.backward()
        adam.step()
    return [tensor.detach().numpy() for tensor in (U, V, offset)]


@pytest.mark.parametrize("loss", ["mse", "bpr"])
def test_steps_equal_automatic_differentiation_and_torchs_adam(
    loss: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    train, chosen = rated(), settings(loss=loss)
    training = FactorTraining(train, chosen, seed=1)
    reference = FactorTraining(train, chosen, seed=1)
    batches: list[tuple[Any, ...]] = []
    name = "_rating_step" if loss == "mse" else "_pair_step"
    step = getattr(training, name)

    def record(rows: Any, third: Any, start: Any) -> float:
        batches.append((training.user[rows], training.item[rows], third[rows]))
        return float(step(rows, third, start))

    monkeypatch.setattr(training, name, record)
    for number in (1, 2, 3):
        training.run_epoch(number)
    assert len(batches) == 3 * math.ceil(len(train) / 17)
    U, V, offset = twin(reference, batches, loss, chosen)
    np.testing.assert_allclose(training.users, U, atol=2e-5)
    np.testing.assert_allclose(training.items, V, atol=2e-5)
    if loss == "mse":
        assert training.offset[0] == pytest.approx(offset[0], abs=1e-5)
        assert abs(offset[0] - 3.5) > 0.01


@pytest.mark.parametrize("loss", ["mse", "bpr"])
def test_the_reported_loss_is_the_mean_of_the_loss(loss: str) -> None:
    """At a learning rate near zero it is the loss at the start."""
    train = rated()
    training = FactorTraining(train, settings(loss=loss, learning_rate=1e-12, weight_decay=0.0), seed=0)
    found = training.run_epoch(1)
    if loss == "mse":
        scores = training.scorer().score(np.arange(30), np.arange(20))
        assert train.value is not None
        assert found == pytest.approx(((scores[train.user, train.item] - train.value) ** 2).mean(), rel=1e-4)
    else:
        assert found == pytest.approx(math.log(2), abs=0.02)  # small factors, no biases


@pytest.mark.parametrize("loss", ["mse", "bpr"])
def test_dropout_is_unbiased(loss: str) -> None:
    """The mean gradient over many masks is near that without dropout where the loss is nearly linear."""
    keep = 0.49
    masks = np.empty((4000, 6), np.float32)
    for row, mask in enumerate(masks):
        fill_mask(mask, keep, np.uint64(row * 1_000_003))
    assert set(np.unique(masks).tolist()) == {0.0, float(np.float32(1 / keep))}
    error = np.sqrt((1 - keep) / keep / masks.size)
    assert abs(masks.mean() - 1) < 5 * error
    related = np.asarray(np.corrcoef(masks.T))[np.triu_indices(6, 1)]
    assert np.abs(related).max() < 5 / np.sqrt(len(masks))
    train = rated()
    with_dropout = FactorTraining(train, settings(loss=loss, dropout=0.3), seed=0)
    without = FactorTraining(train, settings(loss=loss), seed=0)
    assert with_dropout.run_epoch(1) != without.run_epoch(1)
    assert np.isfinite(with_dropout.users).all()


def test_bias_only_with_mse_finds_the_effects() -> None:
    """Against least squares over the same design, solved in closed form."""
    train = rated()
    assert train.value is not None
    model = MODELS.make("bias-only(loss=mse, epochs=400, batch=64, learning_rate=0.01, weight_decay=0)")
    scores = model.fit(train).score(train.user, np.arange(20))[np.arange(len(train)), train.item]
    design = np.zeros((len(train), 50))
    design[np.arange(len(train)), train.user] = 1
    design[np.arange(len(train)), 30 + train.item] = 1
    best = design @ np.linalg.lstsq(design, train.value, rcond=None)[0]
    assert np.abs(scores - best).max() < 0.1
    assert ((scores - train.value) ** 2).mean() < 1.02 * ((best - train.value) ** 2).mean() + 1e-4


def test_bias_only_with_bpr_is_the_same_order_for_everybody() -> None:
    train = small_train(n_users=300)
    fitted = MODELS.make("bias-only(batch=64, epochs=30)").fit(train)
    scores = fitted.score(np.arange(train.n_users), np.arange(train.n_items))
    assert (scores == scores[0]).all()
    counts = np.array([len(set(train.user[train.item == item])) for item in range(train.n_items)])
    assert spearmanr(scores[0], counts).statistic > 0.97
    assert isinstance(fitted, Factors)
    assert fitted.user.shape[1] == 1


def test_mf_learns_two_groups() -> None:
    """Even users like even items: an unseen item of one's own kind stands above one of the other kind."""
    rng = np.random.default_rng(0)
    likes = (np.arange(60)[:, None] + np.arange(24)) % 2 == 0
    seen = likes & (rng.random(likes.shape) < 0.6)
    train = Interactions.from_codes(*np.nonzero(seen), n_users=60, n_items=24)
    scores = (
        MF(factors=4, epochs=40, batch=64, learning_rate=0.01).fit(train).score(np.arange(60), np.arange(24))
    )
    wins = [
        scores[u, i] > scores[u, j]
        for u in range(60)
        for i in np.flatnonzero(likes[u] & ~seen[u])
        for j in np.flatnonzero(~likes[u])
    ]
    assert np.mean(wins) > 0.97


def test_mf_with_mse_predicts_ratings_it_has_not_seen() -> None:
    rng = np.random.default_rng(1)
    truth = 3 + rng.normal(size=(80, 2)) @ rng.normal(size=(2, 40)) * 0.8
    known = rng.random(truth.shape) < 0.6
    user, item = np.nonzero(known)
    train = Interactions.from_codes(user, item, n_users=80, n_items=40, value=truth[known])
    spec = "mf(loss=mse, factors=4, epochs=150, batch=128, learning_rate=0.01, weight_decay=1e-5)"
    scores = MODELS.make(spec).fit(train).score(np.arange(80), np.arange(40))
    left = np.sqrt(((scores - truth)[~known] ** 2).mean())
    assert left < 0.3 * truth[~known].std()


def test_cold_users_and_items() -> None:
    """User 3 and item 5 have no events; under bpr the item is one nobody took."""
    train = rated()
    users, items = np.arange(30), np.arange(20)
    ratings = MF(loss="mse", factors=3, epochs=30, batch=32).fit(train)
    level = ratings.user[:, -1].astype(np.float64)
    assert np.allclose(ratings.score(users, items)[:, 5], level)  # alpha + the user's bias
    assert (ratings.user[3, :-1] == 0).all()
    assert ratings.item_bias is not None
    assert np.array_equal(ratings.score(users, items)[3], level[3] + ratings.item_bias.astype(np.float64))
    pairs = MF(factors=3, epochs=60, batch=32, learning_rate=0.01).fit(train)
    scores = pairs.score(users, items)
    assert pairs.item_bias is not None
    assert np.array_equal(scores[3], pairs.item_bias.astype(np.float64))
    assert scores[3].argmin() == 5
    bias = MODELS.make("bias-only(loss=mse, epochs=3)").fit(train).score(users, items)
    assert (bias[:, 5] == bias[:, 5].astype(np.float32)).all()


def test_epochs_can_be_watched() -> None:
    seen: list[Epoch] = []
    train = small_train()
    fitted = MF(factors=2, epochs=3).fit(train, on_epoch=seen.append)
    assert [epoch.number for epoch in seen] == [1, 2, 3]
    everything = np.arange(train.n_users), np.arange(train.n_items)
    assert np.array_equal(seen[-1].scorer.score(*everything), fitted.score(*everything))
    assert not np.array_equal(seen[0].scorer.score(*everything), fitted.score(*everything))
    quality = iter([0.2, 0.3, 0.1])
    best = MF(factors=2, epochs=3).fit(train, validate=lambda _: next(quality))
    assert np.array_equal(best.score(*everything), seen[1].scorer.score(*everything))


def test_divergence_stops_with_a_sentence() -> None:
    huge = Interactions.from_codes([0, 0, 1], [0, 1, 0], value=np.array([1e30, 1e30, 2e30]))
    with pytest.raises(NotConverged, match=r"the loss of mf\(loss=mse.*\) became (inf|nan) in epoch \d"):
        MF(loss="mse", learning_rate=1e10).fit(huge)


def test_mse_without_ratings() -> None:
    for name in ("mf", "bias-only"):
        with pytest.raises(
            InvalidData, match=rf"{name} with loss=mse learns ratings, but the data have no values"
        ):
            MODELS.make(f"{name}(loss=mse)").fit(small_train())


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("mf(factors=0)", r"factors must be an integer >= 1, got 0"),
        ("mf(learning_rate=0)", r"learning_rate must be greater than 0, got 0\.0"),
        ("mf(learning_rate=inf)", r"learning_rate must be a finite number, got inf"),
        ("mf(weight_decay=-1)", r"weight_decay must be at least 0, got -1\.0"),
        ("mf(dropout=1)", r"dropout must be at least 0 and below 1, got 1\.0"),
        ("mf(beta2=1)", r"beta2 must be at least 0 and below 1, got 1\.0"),
        ("mf(loss=hinge)", r"mf\(loss=\.\.\.\) must be mse or bpr, got 'hinge'"),
        ("mf(epochs=0)", r"epochs must be an integer >= 1, got 0"),
        ("mf(patience=0)", r"patience must be an integer >= 1, got 0"),
        ("mf(rank=3)", r"model 'mf' has no parameter 'rank'"),
        ("bias-only(batch=0)", r"batch must be an integer >= 1, got 0"),
        ("bias-only(factors=3)", r"model 'bias-only' has no parameter 'factors'"),
    ],
)
def test_bad_parameters(spec: str, sentence: str) -> None:
    with pytest.raises(InvalidParameter, match=sentence):
        MODELS.make(spec)
