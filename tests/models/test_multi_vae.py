"""multi-vae: the forward pass and the loss against NumPy, cold users, annealing, seeds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.models.literal import dense, small_train
from truerank.core.errors import InvalidParameter, NotConverged
from truerank.core.interactions import Interactions
from truerank.core.scorer import Factors
from truerank.models.multi_vae import MultiVAE
from truerank.models.registry import MODELS
from truerank.models.torch_training import EncodedFactors, normal_noise

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Tiny batches gain nothing from threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def weights(module: Any) -> dict[str, Any]:
    return {name: tensor.detach().numpy().astype(np.float64) for name, tensor in module.state_dict().items()}


def literal_encode(w: dict[str, Any], x: Any) -> tuple[Any, Any]:
    """Mean and log variance from rows of input."""
    hidden = np.tanh(x @ w["first.weight"] + w["first_bias"])
    both = hidden @ w["to_latent.weight"].T + w["to_latent.bias"]
    mean, log_variance = np.split(both, 2, axis=1)
    return mean, log_variance


def literal_scores(w: dict[str, Any], z: Any) -> Any:
    return (
        np.tanh(z @ w["from_latent.weight"].T + w["from_latent.bias"]) @ w["last.weight"].T + w["last.bias"]
    )


def make(train: Interactions, *, normalise: bool, dropout: float = 0.0) -> tuple[Any, Any]:
    from truerank.models.nets.autoencoder import Autoencoder, History

    torch.manual_seed(0)
    module = Autoencoder(train.n_items, 7, 4, dropout, normalise=normalise)
    return module, History(train.by_user(), torch.device("cpu"))


@pytest.mark.parametrize("normalise", [True, False])
def test_encoder_loss_and_scores_equal_their_definition(
    normalise: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """User 3 has no history; the noise of z is replaced by a constant."""
    train = small_train()
    module, history = make(train, normalise=normalise)
    w, users = weights(module), np.array([5, 3, 0, 7])
    X = dense(train)[users]
    x = X / np.maximum(np.sqrt(X.sum(axis=1, keepdims=True)), 1) if normalise else X
    mean, log_variance = literal_encode(w, x)
    found = module.encode(*history.of(users))
    np.testing.assert_allclose(found[0].detach().numpy(), mean, atol=1e-6)
    np.testing.assert_allclose(found[1].detach().numpy(), log_variance, atol=1e-6)
    monkeypatch.setattr(torch, "randn_like", lambda like: torch.full_like(like, 0.3))
    scores = literal_scores(w, mean + 0.3 * np.exp(log_variance / 2))
    log_p = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
    kl = 0.5 * (mean**2 + np.exp(log_variance) - 1 - log_variance).sum(axis=1)
    expected = (-(X * log_p).sum(axis=1) + 0.7 * kl).mean()
    assert module.loss(*history.of(users), 0.7).item() == pytest.approx(expected, rel=1e-5)


def test_the_scorer_is_the_decoder_of_the_mean() -> None:
    train = small_train()
    kept: list[Any] = []
    model = MultiVAE(hidden=6, latent=3, epochs=3, batch=8, device="cpu")
    fitted = model.fit(train, on_epoch=lambda epoch: kept.append(epoch.scorer))
    assert isinstance(fitted, Factors)
    users, items = np.arange(train.n_users), np.arange(train.n_items)
    assert np.array_equal(kept[-1].score(users, items), fitted.score(users, items))
    assert fitted.user.shape == (40, 6)
    assert np.abs(fitted.user).max() <= 1  # tanh


def test_as_coded_z_is_sampled_and_the_first_item_stands_for_no_event(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """User 3 has no history."""
    from truerank.models.nets.autoencoder import Autoencoder, History

    train = small_train()
    torch.manual_seed(0)
    module = Autoencoder(train.n_items, 7, 4, 0.0, normalise=False, as_coded=True)
    model = MultiVAE(hidden=7, latent=4, normalise=False, variant="s21", device="cpu")
    history = History(model.read(train), torch.device("cpu"))
    X = dense(train)
    assert X[3].sum() == 0
    X[3, 0] = 1
    w = weights(module)
    mean, log_sigma = literal_encode(w, X)
    noise = normal_noise((train.n_users, 4), 9, "multi-vae")
    with torch.no_grad():
        found = model._encoded(module, history, train.n_users, 9) @ w["last.weight"].T + w["last.bias"]
    np.testing.assert_allclose(found, literal_scores(w, mean + noise * np.exp(log_sigma)), atol=1e-5)
    monkeypatch.setattr(torch, "randn_like", lambda like: torch.full_like(like, 0.3))
    scores = literal_scores(w, mean + 0.3 * np.exp(log_sigma))
    log_p = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
    kl = 0.5 * (mean**2 + np.exp(log_sigma) - 1 - log_sigma).sum(axis=1)
    expected = (-(X * log_p).sum(axis=1) + 0.7 * kl).mean()
    assert module.loss(*history.of(np.arange(40)), 0.7).item() == pytest.approx(expected, rel=1e-5)


def test_as_coded_fits_repeat_and_take_other_histories() -> None:
    train = small_train()
    model = MultiVAE(hidden=6, latent=3, epochs=2, batch=8, variant="s21", device="cpu")
    fitted, again, other = (model.fit(train, seed=seed) for seed in (0, 0, 1))
    users, items = np.arange(train.n_users), np.arange(train.n_items)
    assert np.array_equal(fitted.score(users, items), again.score(users, items))
    assert not np.array_equal(fitted.score(users, items), other.score(users, items))
    assert isinstance(fitted, EncodedFactors)
    assert np.array_equal(fitted.with_histories(train).score(users, items), fitted.score(users, items))
    with pytest.raises(InvalidParameter, match="variant"):
        MultiVAE(variant="s22")  # type: ignore[arg-type]


def test_dropout_drops_history_items_and_keeps_the_mean() -> None:
    train = small_train()
    module, history = make(train, normalise=False, dropout=0.5)
    items, offsets = history.of(np.arange(40))
    seen: list[Any] = []
    module.first.register_forward_hook(
        lambda _m, _a, k, _o: seen.append(k["per_sample_weights"]), with_kwargs=True
    )
    module.train()
    for _ in range(200):
        module.encode(items, offsets)
    values = torch.stack(seen)
    assert set(values.unique().tolist()) == {0.0, 2.0}
    assert abs(values.mean().item() - 1) < 5 / np.sqrt(values.numel())
    module.eval()
    module.encode(items, offsets)
    assert set(seen[-1].tolist()) == {1.0}


def test_the_weight_of_the_kl_term_grows_to_its_cap() -> None:
    model = MultiVAE(batch=10, anneal_epochs=4, anneal_cap=0.2, anneal_start=0.1)
    rng = np.random.default_rng(0)
    found = [
        [round(weight, 4) for _, weight in model._batches(np.arange(20), rng, number)]
        for number in (1, 2, 5, 9)
    ]
    assert found == [[0.1, 0.1125], [0.125, 0.1375], [0.2, 0.2], [0.2, 0.2]]


def test_it_learns_two_groups_better_than_popularity() -> None:
    rng = np.random.default_rng(0)
    likes = (np.arange(200)[:, None] + np.arange(24)) % 2 == 0
    seen = likes & (rng.random(likes.shape) < 0.5)
    train = Interactions.from_codes(*np.nonzero(seen), n_users=200, n_items=24)
    model = MultiVAE(hidden=16, latent=4, epochs=40, batch=20, learning_rate=0.01, device="cpu")

    def wins(scores: Any) -> float:
        better = scores[:, :, None] > scores[:, None, :]
        return float(better[(likes & ~seen)[:, :, None] & ~likes[:, None, :]].mean())

    everything = np.arange(200), np.arange(24)
    assert wins(model.fit(train).score(*everything)) > 0.99
    assert wins(MODELS.make("popularity").fit(train).score(*everything)) < 0.6


def test_cold_users_get_the_answer_to_an_empty_history_and_cold_items_score_low() -> None:
    train = small_train(n_users=200)
    fitted = MultiVAE(hidden=16, latent=4, epochs=20, batch=20, learning_rate=0.01, device="cpu").fit(train)
    more = Interactions.from_codes(train.user, train.item, n_users=202, n_items=train.n_items)
    wider = MultiVAE(hidden=16, latent=4, epochs=20, batch=20, learning_rate=0.01, device="cpu").fit(more)
    scores = wider.score(np.arange(202), np.arange(train.n_items))
    assert np.array_equal(scores[201], scores[3])
    assert np.array_equal(wider.user[:200], fitted.user)  # users without events change nothing
    assert (scores.argmin(axis=1) == 5).mean() > 0.9


def test_seeds_and_global_state() -> None:
    train, model = small_train(), MultiVAE(hidden=6, latent=3, epochs=2, batch=8, device="cpu")
    torch.manual_seed(5)
    before = torch.get_rng_state()
    n_threads = torch.get_num_threads()
    first = model.fit(train, seed=3)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.get_num_threads() == n_threads
    torch.manual_seed(6)
    again = model.fit(train.take(np.argsort(train.item, kind="stable")), seed=3)
    other = model.fit(train, seed=4)
    assert np.array_equal(first.user, again.user)
    assert np.array_equal(first.item, again.item)
    assert not np.array_equal(first.user, other.user)


def test_divergence_stops_with_a_sentence() -> None:
    with pytest.raises(NotConverged, match=r"the loss of multi-vae\(.*\) became nan in epoch \d+\. Lower"):
        MultiVAE(hidden=4, latent=2, learning_rate=1e30, device="cpu").fit(small_train())


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("multi-vae(hidden=0)", r"hidden must be an integer >= 1, got 0"),
        ("multi-vae(dropout=1)", r"dropout must be at least 0 and below 1, got 1\.0"),
        ("multi-vae(anneal_cap=-1)", r"anneal_cap must be at least 0, got -1\.0"),
        ("multi-vae(learning_rate=0)", r"learning_rate must be greater than 0, got 0\.0"),
        ("multi-vae(device=tpu)", "device must be auto, cpu, cuda or cuda:1, got 'tpu'"),
        ("multi-vae(layers=3)", r"model 'multi-vae' has no parameter 'layers'"),
    ],
)
def test_bad_parameters(spec: str, sentence: str) -> None:
    with pytest.raises(InvalidParameter, match=sentence):
        MODELS.make(spec)
