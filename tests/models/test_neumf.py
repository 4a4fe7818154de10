"""neumf: scores against NumPy and torch, joining of towers, losses, cold users, saving."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.models.literal import small_train
from tests.models.test_factor_models import rated
from truerank.core.errors import DataWarning, InvalidData, InvalidParameter, NotConverged
from truerank.core.interactions import Interactions
from truerank.core.model import Epoch
from truerank.models.nets.towers import TowerScorer
from truerank.models.neumf import NeuMF, _Samples
from truerank.models.registry import MODELS
from truerank.models.training import HasArrays

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Tiny batches gain nothing from threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


SMALL: dict[str, Any] = {
    "factors": 3,
    "layers": "8-6-4",
    "batch": 32,
    "negatives": 4,
    "dropout": 0.0,
    "device": "cpu",
}


def module(*, factors: int = 3, layers: tuple[int, ...] = (8, 6, 4), biased: bool = False) -> Any:
    from truerank.models.nets.fusion import Fusion

    torch.manual_seed(0)
    made = Fusion(9, 11, factors, layers, 0.0, biased=biased, offset=0.5)
    with torch.no_grad():
        for parameter in made.parameters():
            if parameter.requires_grad:
                parameter.copy_(torch.randn_like(parameter))
    return made.eval()


def literal_score(w: dict[str, Any], user: int, item: int, n_layers: int, *, biased: bool) -> float:
    """One pair from the definition."""
    x = np.concatenate([w["mlp_user.weight"][user], w["mlp_item.weight"][item]])
    for layer in range(n_layers):
        x = w[f"steps.{layer}.weight"] @ x + w[f"steps.{layer}.bias"]
        if layer < n_layers - 1 or not biased:
            x = np.maximum(x, 0)
    product = w["gmf_user.weight"][user] * w["gmf_item.weight"][item]
    score = w["last.weight"][0] @ np.concatenate([product, x]) + w["last.bias"][0]
    if biased:
        score += w["user_bias.weight"][user, 0] + w["item_bias.weight"][item, 0]
    return float(score)


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("layers", [(8, 6, 4), (4, 5), (6, 40, 17, 9)])
def test_module_and_scorer_equal_the_definition(layers: tuple[int, ...], biased: bool) -> None:
    made = module(layers=layers, biased=biased)
    w = {name: tensor.numpy().astype(np.float64) for name, tensor in made.state_dict().items()}
    expected = np.array(
        [[literal_score(w, u, i, len(layers) - 1, biased=biased) for i in range(11)] for u in range(9)]
    )
    user, item = torch.meshgrid(torch.arange(9), torch.arange(11), indexing="ij")
    warm = torch.ones(9, dtype=torch.bool), torch.ones(11, dtype=torch.bool)
    with torch.no_grad():
        found, scorer = made(user, item).numpy(), made.scorer(*warm)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(scorer.score(np.arange(9), np.arange(11)), expected, rtol=1e-4, atol=1e-4)


def test_towers_alone_and_joined() -> None:
    """Joined with a share of one half, the score is the mean of the two; the constants are averaged."""
    gmf, mlp, both = module(layers=()), module(factors=0), module()
    both.take(gmf, mlp, 0.5)
    user, item = torch.meshgrid(torch.arange(9), torch.arange(11), indexing="ij")
    warm = torch.ones(9, dtype=torch.bool), torch.ones(11, dtype=torch.bool)
    with torch.no_grad():
        mean = (gmf(user, item) + mlp(user, item)) / 2
        np.testing.assert_allclose(both(user, item).numpy(), mean.numpy(), rtol=1e-4, atol=1e-5)
        for tower in (gmf, mlp):
            np.testing.assert_allclose(
                tower.scorer(*warm).score(np.arange(9), np.arange(11)),
                tower(user, item).numpy(),
                rtol=1e-4,
                atol=1e-5,
            )


def test_arrays_round_trip_bit_for_bit() -> None:
    train = small_train()
    fitted = NeuMF(**SMALL, epochs=2, variant="s21", loss="bpr").fit(train)
    assert isinstance(fitted, HasArrays)
    everything = np.arange(train.n_users), np.arange(train.n_items)
    copy = TowerScorer.from_arrays({name: array.copy() for name, array in fitted.arrays().items()})
    assert np.array_equal(copy.score(*everything), fitted.score(*everything))
    arrays = dict(fitted.arrays())
    with pytest.raises(
        InvalidData, match=r"weights must be float32 of shape \(\d+,\), got float32 of shape \(3,\)"
    ):
        TowerScorer.from_arrays({**arrays, "weights": arrays["weights"][:3]})
    del arrays["item_bias"]
    with pytest.raises(InvalidData, match=r"must include item_bias"):
        TowerScorer.from_arrays(arrays)


@pytest.mark.parametrize("pretrain", [False, True])
@pytest.mark.parametrize(("loss", "variant"), [("bce", "he2017"), ("bpr", "s21")])
def test_it_learns_two_groups_better_than_popularity(loss: str, variant: str, pretrain: bool) -> None:
    rng = np.random.default_rng(0)
    likes = (np.arange(60)[:, None] + np.arange(24)) % 2 == 0
    seen = likes & (rng.random(likes.shape) < 0.6)
    train = Interactions.from_codes(*np.nonzero(seen), n_users=60, n_items=24)
    spec = f"neumf(factors=4, layers=8-4, epochs=25, batch=256, learning_rate=0.03, loss={loss}, device=cpu"
    spec += ", negatives=4, dropout=0"
    model = MODELS.make(f"{spec}, variant={variant}, pretrain={str(pretrain).lower()})")

    def wins(scores: Any) -> float:
        better = scores[:, :, None] > scores[:, None, :]
        return float(better[(likes & ~seen)[:, :, None] & ~likes[:, None, :]].mean())

    everything = np.arange(60), np.arange(24)
    assert wins(model.fit(train).score(*everything)) > 0.9
    assert wins(MODELS.make("popularity").fit(train).score(*everything)) < 0.6


def test_ratings_and_cold_users_and_items() -> None:
    """Under mse scores are ratings; user 3 and item 5 have the mean of the others' embeddings."""
    train = rated()
    assert train.value is not None
    fitted = NeuMF(**SMALL, loss="mse", variant="s21", epochs=60, learning_rate=0.01).fit(train)
    assert isinstance(fitted, TowerScorer)
    scores = fitted.score(np.arange(30), np.arange(20))
    assert np.sqrt(((scores[train.user, train.item] - train.value) ** 2).mean()) < 0.4 * train.value.std()
    for name, row in (("user_product", 3), ("item_product", 5), ("user_bias", 3), ("item_bias", 5)):
        array = getattr(fitted, name)
        others = np.delete(array, row, axis=0)
        np.testing.assert_allclose(array[row], others.mean(axis=0), atol=1e-5)


def test_items_nobody_took_score_low_and_cold_users_get_a_mean_user() -> None:
    train = small_train(n_users=200)
    fitted = NeuMF(**{**SMALL, "batch": 256}, epochs=15, learning_rate=0.03).fit(train)
    scores = fitted.score(np.arange(200), np.arange(train.n_items))
    assert (scores.argmin(axis=1) == 5).mean() > 0.5
    assert isinstance(fitted, TowerScorer)
    np.testing.assert_allclose(
        fitted.user_product[3], np.delete(fitted.user_product, 3, axis=0).mean(axis=0), atol=1e-6
    )


def test_seeds_epochs_and_global_state() -> None:
    train, seen = small_train(), list[Epoch]()
    model = NeuMF(**SMALL, epochs=2, pretrain=True)
    everything = np.arange(train.n_users), np.arange(train.n_items)
    before = torch.get_rng_state()
    first = model.fit(train, seed=3, on_epoch=seen.append).score(*everything)
    assert torch.equal(torch.get_rng_state(), before)
    assert [epoch.number for epoch in seen] == [1, 2]  # the joint training alone
    again = model.fit(train.take(np.argsort(train.item)), seed=3).score(*everything)
    assert np.array_equal(first, again)
    assert not np.array_equal(first, model.fit(train, seed=4).score(*everything))


def test_an_interrupted_training_keeps_the_best_epoch() -> None:
    train, model = small_train(), NeuMF(**SMALL, epochs=9)
    quality, everything = {1: 0.2, 2: 0.9, 3: 0.1}, (np.arange(train.n_users), np.arange(train.n_items))
    rows: list[Any] = []

    def validate(scorer: Any) -> float:
        rows.append(scorer.score(*everything))
        return quality[len(rows)]

    def watch(epoch: Epoch) -> None:
        if epoch.number == 3:
            raise KeyboardInterrupt

    with pytest.warns(DataWarning, match=r"interrupted in epoch 3 of 9; epoch 2 is kept"):
        fitted = model.fit(train, validate=validate, on_epoch=watch)
    assert np.array_equal(fitted.score(*everything), rows[1])


@pytest.mark.parametrize(("batch", "negatives"), [(7, 2), (64, 3), (1000, 1)])
def test_an_epoch_has_each_event_once_and_its_own_negatives(
    monkeypatch: pytest.MonkeyPatch, batch: int, negatives: int
) -> None:
    """Whether all samples are mixed at once or, to bound memory, some events after others."""
    train = small_train()
    model = NeuMF(**{**SMALL, "batch": batch, "negatives": negatives})
    met = train.matrix().toarray() > 0
    for n_samples in (1, 200, 1 << 22):
        monkeypatch.setattr("truerank.models.neumf._SAMPLES", n_samples)
        batches = list(_Samples(model, train).batches(np.random.default_rng(1)))
        assert max(len(user) for user, _, _ in batches) <= batch
        assert sum(len(user) < batch for user, _, _ in batches) <= 1
        user, item, label = (np.concatenate(part) for part in zip(*batches, strict=True))
        is_event = label == 1
        drawn = np.zeros(met.shape, int)
        np.add.at(drawn, (user[is_event], item[is_event]), 1)
        assert np.array_equal(drawn, met)
        assert not met[user[~is_event], item[~is_event]].any()
        per_user = np.bincount(user[~is_event], minlength=len(met))
        assert np.array_equal(per_user, negatives * met.sum(axis=1))


def test_presets_do_not_follow_the_defaults() -> None:
    """What a paper's setting leaves out is what the paper has, not what the default became."""
    l23, s21 = MODELS.make("l23-neumf"), MODELS.make("s21-neumf")
    assert isinstance(l23, NeuMF) and isinstance(s21, NeuMF)
    assert (l23.factors, l23.widths(), l23.negatives, l23.dropout, l23.pretrain) == (
        64,
        (512, 256, 64),
        2,
        0,
        True,
    )
    assert (s21.factors, s21.loss, s21.dropout, s21.weight_decay) == (50, "bpr", 0.3, 1e-6)


def test_divergence_stops_with_a_sentence() -> None:
    with pytest.raises(
        NotConverged, match=r"the loss of neumf\(.*\) became nan in epoch \d+\. Lower learning_rate"
    ):
        NeuMF(**SMALL, learning_rate=1e30, epochs=50).fit(small_train())


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("neumf(layers=7-3)", r"layers must be two or more widths >= 1 joined by '-', the first one even"),
        ("neumf(layers='8')", r"such as 64-32-16-8, got '8'"),
        ("neumf(layers=8-x)", r"got '8-x'"),
        ("neumf(negatives=0)", r"negatives must be an integer >= 1, got 0"),
        ("neumf(loss=hinge)", r"neumf\(loss=\.\.\.\) must be bce or bpr or mse, got 'hinge'"),
        ("neumf(variant=other)", r"must be he2017 or s21, got 'other'"),
        ("neumf(depth=3)", r"model 'neumf' has no parameter 'depth'"),
    ],
)
def test_bad_parameters(spec: str, sentence: str) -> None:
    with pytest.raises(InvalidParameter, match=sentence):
        MODELS.make(spec)


@pytest.mark.parametrize(("layers", "expected"), [("256-4", 1), ("258-4", 2)])
def test_narrow_layers_are_trained_on_one_thread(
    layers: str, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("truerank.models.torch_training.available_threads", lambda: 2)
    torch.set_num_threads(2)
    seen: list[int] = []
    compute = _Samples.loss

    def loss(self: _Samples, module: Any, device: Any, batch: Any) -> Any:
        seen.append(torch.get_num_threads())
        return compute(self, module, device, batch)

    monkeypatch.setattr(_Samples, "loss", loss)
    NeuMF(**{**SMALL, "layers": layers, "epochs": 1}).fit(small_train())
    assert set(seen) == {expected}
    assert torch.get_num_threads() == 2


def test_dropout_takes_part_in_training_alone() -> None:
    """With dropout the fit differs and repeats; the scorer of a fitted model has none."""
    train = small_train()
    dropped = NeuMF(**{**SMALL, "dropout": 0.5, "epochs": 2})
    first, again = dropped.fit(train), dropped.fit(train)
    plain = NeuMF(**{**SMALL, "epochs": 2}).fit(train)
    users, items = np.arange(5), np.arange(7)
    assert np.array_equal(first.score(users, items), again.score(users, items))
    assert not np.array_equal(first.score(users, items), plain.score(users, items))
