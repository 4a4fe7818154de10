"""sasrec, svae and ngcf: networks equal to literal twins, learning, and what every model promises."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.models import literal_network as twin
from tests.models.literal import dense, small_train
from tests.models.test_torch_training import literal as in_order
from tests.models.test_torch_training import timed
from truerank.core.errors import DataWarning, InvalidData, InvalidParameter, MissingDependency, NotConverged
from truerank.core.interactions import Interactions
from truerank.core.model import Epoch, EpochModel
from truerank.core.progress import ProgressTask
from truerank.core.scorer import Factors, Scorer
from truerank.core.types import FloatArray, IntArray
from truerank.models.registry import MODELS
from truerank.models.saved_scorer import load_scorer, save_scorer

pytest.importorskip("torch", reason="torch is not installed")

import torch

from truerank.models import ngcf, sasrec, svae
from truerank.models.nets.graph import GraphNet, NormalisedAdjacency
from truerank.models.nets.sequence import AttentionNet, RecurrentNet
from truerank.models.torch_training import Histories, normal_noise

SMALL = {
    "sasrec": "sasrec(max_length=6, factors=4, epochs=3, batch=8, device=cpu)",
    "svae": "svae(max_length=6, embedding=4, recurrent=5, hidden=6, latent=3, epochs=3, batch=8, device=cpu)",
    "ngcf": "ngcf(factors=4, layers=2, epochs=3, batch=64, device=cpu)",
}
ORDERED = ("sasrec", "svae")


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Nets this small only wait for a second thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(params=sorted(SMALL))
def model(request: pytest.FixtureRequest) -> EpochModel:
    made = MODELS.make(SMALL[request.param])
    assert isinstance(made, EpochModel)
    return made


def numbers(module: torch.nn.Module) -> dict[str, FloatArray]:
    """Make all weights random numbers in float64, biases and norms too, and return them as arrays."""
    rng = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(0.5 * torch.randn(parameter.shape, generator=rng))
    return {name: tensor.numpy().copy() for name, tensor in module.double().state_dict().items()}


def scores(fitted: Scorer, train: Interactions) -> FloatArray:
    return fitted.score(np.arange(train.n_users), np.arange(train.n_items))


# networks against their twins


@pytest.mark.parametrize(("blocks", "heads"), [(1, 1), (2, 1), (2, 3)])
def test_attention_equals_its_twin_padded_at_the_front(blocks: int, heads: int) -> None:
    train = timed()
    net = AttentionNet(train.n_items, max_length=6, factors=6, blocks=blocks, heads=heads, dropout=0.3).eval()
    weights = numbers(net)
    histories = Histories.of("sasrec", train)
    padded = histories.latest(np.array([0, 28, 4, 9]), 6)
    with torch.no_grad():
        states = net(torch.from_numpy(padded.items), torch.from_numpy(padded.lengths)).numpy()
    for row, user in enumerate(padded.users):
        history = in_order(train, user)[-6:]
        expected = twin.attention_states(history, weights, blocks=blocks, heads=heads)
        np.testing.assert_allclose(states[row, : len(history)], expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("n_negatives", [1, 3])
def test_attention_loss_equals_its_twin(n_negatives: int) -> None:
    train = timed()
    net = AttentionNet(train.n_items, max_length=6, factors=4, blocks=1, heads=1, dropout=0.0)
    weights = numbers(net)
    padded = Histories.of("sasrec", train).latest(np.array([0, 4, 9]), 7)
    negatives = np.random.default_rng(0).integers(17, size=(int((padded.lengths - 1).sum()), n_negatives))
    expected = twin.attention_loss(
        [in_order(train, user)[-7:] for user in (0, 4, 9)], negatives.tolist(), weights, blocks=1, heads=1
    )
    with torch.no_grad():
        found = float(sasrec.step_loss(net, padded, negatives))
    assert found == pytest.approx(expected, rel=1e-9)


def test_recurrent_net_equals_its_twin() -> None:
    train = timed()
    net = RecurrentNet(train.n_items, embedding=3, recurrent=4, hidden=5, latent=2)
    weights = numbers(net)
    padded = Histories.of("svae", train).latest(np.array([0, 4, 9]), 7)
    histories = [in_order(train, user)[-7:] for user in (0, 4, 9)]
    with torch.no_grad():
        states = net.states(torch.from_numpy(padded.items))
        for row, history in enumerate(histories):
            expected = twin.recurrent_states(history, weights)
            np.testing.assert_allclose(states[row, : len(history)], expected, rtol=1e-9)
            mean, log_variance = net.posterior(states[row, len(history) - 1])
            np.testing.assert_allclose(mean, twin.moments(expected[-1], weights)[0], rtol=1e-9)
            np.testing.assert_allclose(log_variance, twin.moments(expected[-1], weights)[1], rtol=1e-9)
            np.testing.assert_allclose(
                net.output(net.hidden(mean)), twin.logits(mean.numpy(), weights), rtol=1e-9
            )
    n_steps = int((padded.lengths - 1).sum())
    with torch.random.fork_rng():
        torch.manual_seed(5)
        noise = torch.randn((n_steps, 2), dtype=torch.float64).numpy()
        torch.manual_seed(5)
        found = float(svae.multinomial_step_loss(net, padded, next_items=3, beta=0.7).detach())
    assert found == pytest.approx(
        twin.recurrent_loss(histories, noise, weights, next_items=3, beta=0.7), rel=1e-9
    )


@pytest.mark.parametrize("layers", [1, 3])
def test_propagation_equals_its_twin(layers: int) -> None:
    """User 3 and item 5 have no edges, some pairs are repeated."""
    train = small_train()
    graph = NormalisedAdjacency.of(train, torch.device("cpu"))
    net = GraphNet(graph, 63, factors=4, layers=layers, dropout=0.5).eval()
    weights = numbers(net)
    graph.scale = exact_scale(train)
    with torch.no_grad():
        found = net().numpy()
    expected = twin.graph_vectors(dense(train), weights, layers)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def exact_scale(train: Interactions) -> torch.Tensor:
    """Degrees to the power -1/2 in float64."""
    degree = np.concatenate([dense(train).sum(axis=1), dense(train).sum(axis=0)])
    return torch.tensor([[0.0 if n == 0 else n**-0.5] for n in degree], dtype=torch.float64)


def test_scale_is_that_of_the_degrees() -> None:
    scale = NormalisedAdjacency.of(small_train(), torch.device("cpu")).scale
    assert scale.dtype == torch.float32
    torch.testing.assert_close(scale, exact_scale(small_train()).float())
    assert scale[3] == scale[40 + 5] == 0


def test_propagation_has_the_gradient_of_a_dense_product() -> None:
    train = small_train()
    graph = NormalisedAdjacency.of(train, torch.device("cpu"))
    graph.scale = exact_scale(train)
    L = graph.multiply(torch.eye(63, dtype=torch.float64))
    torch.testing.assert_close(L, L.T)
    rng = torch.Generator().manual_seed(0)
    x, weight = torch.randn(2, 63, 3, dtype=torch.float64, generator=rng)
    mine, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    for product in (graph.propagate(mine), L @ theirs):
        (product * weight).sum().backward()
    torch.testing.assert_close(mine.grad, theirs.grad)


def test_pair_loss() -> None:
    train = small_train()
    net = GraphNet(NormalisedAdjacency.of(train, torch.device("cpu")), 63, factors=4, layers=1, dropout=0.0)
    numbers(net.float())
    e = net.float()().detach().numpy().astype(np.float64)
    nodes = np.array([[0, 1, 2], [40, 41, 50], [44, 45, 60]])
    expected = 0.0
    for u, i, j in nodes.T:
        expected += np.log1p(np.exp(e[u] @ e[j] - e[u] @ e[i])) / 3
        expected += 0.01 / 2 * (e[u] @ e[u] + e[i] @ e[i] + e[j] @ e[j]) / 3
    assert float(ngcf.pair_loss(net, nodes, 0.01).detach()) == pytest.approx(expected, rel=1e-5)


def test_fitted_states_are_those_of_the_network() -> None:
    """What the fit returns is the user's last state, whatever block the user was computed in."""
    train, kept = timed(), {}
    for key in ORDERED:
        fitted = MODELS.make(SMALL[key]).fit(train)
        assert isinstance(fitted, Factors)
        kept[key] = fitted
    histories = Histories.of("sasrec", train)
    model = MODELS.make(SMALL["sasrec"])
    net = AttentionNet(train.n_items, max_length=6, factors=4, blocks=2, heads=1, dropout=0.2).eval()
    assert isinstance(model, sasrec.SASRec)
    weights = numbers(net)
    net.float()
    with torch.no_grad():
        factors = model._scorer(net, histories)
    for user in range(train.n_users):
        history = in_order(train, user)[-6:]
        expected = twin.attention_states(history, weights, blocks=2, heads=1)[-1]
        np.testing.assert_allclose(factors.user[user], expected, rtol=1e-4, atol=1e-5)
    assert kept["svae"].user.shape == (30, 6)
    for fitted in kept.values():
        assert fitted.n_items == train.n_items  # the token is no item


def test_svae_scores_are_the_logits_at_the_mean() -> None:
    train = timed()
    model = MODELS.make(SMALL["svae"])
    assert isinstance(model, svae.SVAE)
    net = RecurrentNet(train.n_items, embedding=4, recurrent=5, hidden=6, latent=3).eval()
    weights = numbers(net)
    net.float()
    with torch.no_grad():
        factors = model._scorer(net, Histories.of("svae", train), 0)
    for user in range(train.n_users):
        state = twin.recurrent_states(in_order(train, user)[-6:], weights)[-1]
        expected = twin.logits(twin.moments(state, weights)[0], weights)
        np.testing.assert_allclose(
            factors.score(np.array([user]), np.arange(train.n_items))[0], expected, rtol=1e-4, atol=1e-5
        )


def test_svae_as_coded_equals_its_twin() -> None:
    """Likelihood per user, divergence per step that there could be, exp(log variance) as deviation of z."""
    train, most = timed(), 7
    net = RecurrentNet(train.n_items, embedding=3, recurrent=4, hidden=5, latent=2)
    weights = numbers(net)
    padded = Histories.of("svae", train).latest(np.array([0, 4, 9]), most + 1)
    with torch.random.fork_rng():
        torch.manual_seed(5)
        noise = iter(torch.randn((int((padded.lengths - 1).sum()), 2), dtype=torch.float64).numpy())
        torch.manual_seed(5)
        loss = svae.multinomial_step_loss(net, padded, next_items=2, beta=0.7, most=most)
    likelihood, divergence = 0.0, 0.0

    def divergence_of(state: FloatArray) -> float:
        mean, log_variance = twin.moments(state, weights)
        return float(0.5 * (mean**2 + np.exp(log_variance) - 1 - log_variance).sum())

    start = divergence_of(twin.recurrent_states([train.n_items], weights)[0])
    for user in (0, 4, 9):
        history = in_order(train, user)[-most - 1 :]
        states = twin.recurrent_states(history, weights)
        for step in range(len(history) - 1):
            mean, log_sigma = twin.moments(states[step], weights)
            scores = twin.logits(mean + next(noise) * np.exp(log_sigma), weights)
            following = history[step + 1 : step + 3]
            likelihood += (len(following) * np.log(np.exp(scores).sum()) - scores[following].sum()) / 2
            divergence += divergence_of(states[step])
        divergence += (most - len(history) + 1) * start
    expected = likelihood / 3 + 0.7 * divergence / (3 * most)
    assert float(loss.detach()) == pytest.approx(expected, rel=1e-9)


def test_svae_as_coded_ranks_by_a_sampled_z() -> None:
    train = timed()
    model = MODELS.make(SMALL["svae"].replace("device", "variant=s21, device"))
    assert isinstance(model, svae.SVAE)
    net = RecurrentNet(train.n_items, embedding=4, recurrent=5, hidden=6, latent=3).eval()
    weights = numbers(net)
    net.float()
    with torch.no_grad():
        factors = model._scorer(net, Histories.of("svae", train), 1)
    noise = normal_noise((train.n_users, 3), 1, "svae")
    for user in range(train.n_users):
        mean, log_sigma = twin.moments(
            twin.recurrent_states(in_order(train, user)[-6:], weights)[-1], weights
        )
        expected = twin.logits(mean + noise[user] * np.exp(log_sigma), weights)
        found = factors.score(np.array([user]), np.arange(train.n_items))[0]
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_as_coded_everyone_takes_a_place_in_the_batches() -> None:
    """Two users of thirty have events: one step of an epoch, or as many as there are batches with them."""
    events = Interactions.from_codes([3, 3, 17], [0, 1, 2], time=np.arange(3), n_users=30, n_items=4)
    histories = Histories.of("sasrec", events)
    usual = list(histories.batches(np.random.default_rng(0), 10, 5))
    assert [padded.users.tolist() for padded in usual] in ([[17, 3]], [[3, 17]])
    found = list(histories.batches(np.random.default_rng(0), 10, 5, everyone=True))
    assert 1 <= len(found) <= 2
    assert all(len(padded.users) == 10 for padded in found)
    assert sum(int((padded.lengths - 1).sum()) for padded in found) == 3
    for spec in SMALL["sasrec"], SMALL["svae"]:
        fitted = MODELS.make(spec.replace("device", "variant=s21, device")).fit(events)
        assert np.isfinite(scores(fitted, events)).all()


# learning


def cycle(n_users: int = 120, n_items: int = 12, length: int = 6) -> tuple[Interactions, IntArray]:
    """Everybody walks round the same circle from a random start; what comes next is the next item."""
    start = np.random.default_rng(0).integers(n_items, size=n_users)
    walk = (start[:, None] + np.arange(length + 1)) % n_items
    train = Interactions.from_codes(
        np.repeat(np.arange(n_users), length),
        walk[:, :-1].ravel(),
        time=np.tile(np.arange(length), n_users),
        n_items=n_items,
    )
    return train, walk[:, -1]


def taste(n_groups: int = 4, size: int = 10) -> tuple[Interactions, IntArray]:
    """Each group of users meets its own items; one of them is held out for each user."""
    held = np.random.default_rng(0).integers(size, size=n_groups * size)
    pairs = [
        (user, user // size * size + item)
        for user in range(n_groups * size)
        for item in range(size)
        if item != held[user]
    ]
    train = Interactions.from_codes(*np.array(pairs).T, n_items=n_groups * size)
    return train, np.arange(n_groups * size) // size * size + held


def hits(fitted: Scorer, train: Interactions, target: IntArray) -> float:
    """Share of users whose target leads all items they have not met."""
    found = scores(fitted, train)
    found[train.user, train.item] = -np.inf
    mine = found[np.arange(len(target)), target]
    return float(((found >= mine[:, None]).sum(axis=1) == 1).mean())


@pytest.mark.parametrize(
    "spec",
    [
        "sasrec(max_length=6, factors=16, blocks=1, learning_rate=0.01, epochs=40, batch=32, device=cpu)",
        "svae(max_length=6, embedding=8, recurrent=16, hidden=16, latent=8, next_items=1, "
        "learning_rate=0.01, epochs=40, batch=32, device=cpu)",
    ],
)
def test_sequence_models_learn_what_follows_what(spec: str) -> None:
    train, target = cycle()
    assert hits(MODELS.make("popularity").fit(train), train, target) < 0.4
    assert hits(MODELS.make(spec).fit(train), train, target) > 0.95


def test_the_graph_carries_taste() -> None:
    train, target = taste()
    spec = "ngcf(factors=8, layers=2, learning_rate=0.02, epochs=40, batch=128, device=cpu)"
    assert hits(MODELS.make("popularity").fit(train), train, target) < 0.1
    assert hits(MODELS.make(spec).fit(train), train, target) > 0.95


@pytest.mark.parametrize("key", ORDERED)
def test_order_matters_to_them(key: str) -> None:
    train = timed()
    assert train.time is not None
    backwards = Interactions.from_codes(train.user, train.item, time=-train.time, n_users=30, n_items=17)
    model = MODELS.make(SMALL[key])
    assert not np.array_equal(scores(model.fit(train), train), scores(model.fit(backwards), train))


# promises


def test_a_seed_repeats_to_the_digit_and_leaves_torch_alone(model: EpochModel) -> None:
    train = timed()
    before = torch.random.get_rng_state()
    first, again, other = (scores(model.fit(train, seed=seed), train) for seed in (3, 3, 4))
    assert torch.equal(before, torch.random.get_rng_state())
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_rows_may_come_in_any_order(model: EpochModel) -> None:
    """Where no two events of a user share a time."""
    train = timed()
    train = Interactions.from_codes(
        train.user, train.item, time=np.random.default_rng(2).permutation(len(train)), n_users=30, n_items=17
    )
    shuffled = train.take(np.random.default_rng(1).permutation(len(train)))
    assert np.array_equal(scores(model.fit(train), train), scores(model.fit(shuffled), train))


def test_score_is_part_of_the_full_scores(model: EpochModel) -> None:
    train = timed()
    fitted = model.fit(train)
    full, rng = scores(fitted, train), np.random.default_rng(0)
    assert full.shape == (30, 17)
    for n in (1, 5, 17):
        users, some, own = rng.integers(30, size=7), rng.integers(17, size=n), rng.integers(17, size=(7, n))
        assert np.array_equal(fitted.score(users, some), full[users][:, some])
        assert np.array_equal(fitted.score(users, own), full[users[:, None], own])
    copy: Scorer = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(scores(copy, train), full)
    assert isinstance(fitted, Factors)
    assert not fitted.user.flags.writeable
    assert not fitted.item.flags.writeable


@pytest.mark.slow
def test_cold_items_score_little_and_so_do_cold_users_of_the_graph() -> None:
    """Nobody meets items 17..20: they end below the mean. User 29 has no events and no edges."""
    base = timed(n=600)
    train = Interactions.from_codes(base.user, base.item, time=base.time, n_users=30, n_items=21)
    for key, more in (("sasrec", "epochs=60"), ("svae", "epochs=60"), ("ngcf", "epochs=60")):
        spec = SMALL[key].replace("epochs=3", f"{more}, learning_rate=0.02")
        found = scores(MODELS.make(spec).fit(train), train)
        assert np.isfinite(found).all()
        assert found[29].any() == (key in ORDERED), key
        assert found[:28, :17].any(axis=1).all()
        assert found[:28, 17:].mean() < found[:28, :17].mean() - 0.5, key


@pytest.mark.parametrize("key", ORDERED)
def test_a_user_with_one_event_is_learnt_from(key: str) -> None:
    """Their only item follows the token: with another one, everybody's scores are others."""
    train = timed()
    assert train.user_counts()[28] == 1
    item = train.item.copy()
    item[train.user == 28] = (item[train.user == 28] + 1) % train.n_items
    other = Interactions.from_codes(train.user, item, time=train.time, n_users=30, n_items=17)
    model = MODELS.make(SMALL[key])
    before, after = (scores(model.fit(events), train)[:28] for events in (train, other))
    assert not np.isclose(before, after).all(axis=1).any()


FIRST = {
    "sasrec": "sasrec(max_length=6, factors=16, blocks=1, learning_rate=0.01, epochs=60, batch=32, "
    "device=cpu)",
    "svae": "svae(max_length=6, embedding=8, recurrent=16, hidden=16, latent=8, learning_rate=0.01, "
    "next_items=1, epochs=40, batch=32, device=cpu)",
}


@pytest.mark.slow
@pytest.mark.parametrize("key", ORDERED)
@pytest.mark.parametrize("length", [1, 4])
def test_a_user_without_events_ranks_frequent_first_items_first(key: str, length: int) -> None:
    """Histories of equal length, so that with four events nobody's history is the token and one event.

    Items 0, 1, 2 come first 60, 30 and 15 times, 3 to 11 only later, all of those more often than item 2.
    """
    first = np.repeat([0, 1, 2], [60, 30, 15])
    later = np.random.default_rng(0).integers(3, 12, size=(len(first), length - 1))
    walk = np.column_stack([first, later])
    train = Interactions.from_codes(
        np.repeat(np.arange(len(first)), length),
        walk.ravel(),
        time=np.tile(np.arange(length), len(first)),
        n_users=len(first) + 2,
        n_items=12,
    )
    found = scores(MODELS.make(FIRST[key]).fit(train), train)
    assert np.array_equal(found[-1], found[-2])
    assert np.argsort(-found[-1])[:3].tolist() == [0, 1, 2]
    if length > 1:
        assert train.item_counts()[3:].min() > train.item_counts()[2]


@pytest.mark.parametrize("key", ORDERED)
def test_saved_models_score_users_without_events_as_before(key: str, tmp_path: Path) -> None:
    train = timed()
    fitted = MODELS.make(SMALL[key]).fit(train)
    save_scorer(tmp_path / "m.truerank", fitted, model=SMALL[key], data=train)
    again = load_scorer(tmp_path / "m.truerank").scorer
    assert np.array_equal(scores(again, train), scores(fitted, train))
    assert scores(again, train)[29].any()


def test_validation_keeps_the_best_epoch_and_progress_is_told(model: EpochModel) -> None:
    train, seen = timed(), []
    quality = iter([0.1, 0.9, 0.2])

    class Bars:
        steps = 0

        def task(self, label: str, total: int | None = None) -> ProgressTask:
            assert (label, total) == (str(model), 3)
            return self

        def advance(self, steps: int = 1) -> None:
            self.steps += steps

        def done(self, task: ProgressTask) -> None:
            pass

    def look(epoch: Epoch) -> None:
        assert np.isfinite(epoch.loss)
        seen.append((epoch.number, epoch.validation, scores(epoch.scorer, train)))

    bars = Bars()
    fitted = model.fit(train, validate=lambda scorer: next(quality), on_epoch=look, progress=bars)
    assert [entry[:2] for entry in seen] == [(1, 0.1), (2, 0.9), (3, 0.2)]
    assert bars.steps == 3
    assert np.array_equal(scores(fitted, train), seen[1][2])
    assert not np.array_equal(seen[1][2], seen[2][2])


@pytest.mark.parametrize("key", sorted(SMALL))
def test_a_loss_astray_stops_with_a_sentence(key: str) -> None:
    model = MODELS.make(SMALL[key].replace("epochs=3", "epochs=3, learning_rate=1e30"))
    with pytest.raises(NotConverged, match=rf"the loss of {key}\(.*\) became .* Lower learning_rate"):
        model.fit(timed())


def test_an_interrupt_keeps_what_is_there(model: EpochModel) -> None:
    train, kept = timed(), []

    def stop(epoch: Epoch) -> None:
        kept.append(scores(epoch.scorer, train))
        if epoch.number == 2:
            raise KeyboardInterrupt

    with pytest.warns(DataWarning, match="was interrupted in epoch 2 of 3; epoch 2 is kept"):
        fitted = model.fit(train, on_epoch=stop)
    assert np.array_equal(scores(fitted, train), kept[-1])


def test_without_torch(model: EpochModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(
        MissingDependency, match=r"needs PyTorch\. Install it with: pip install 'truerank\[torch\]'"
    ):
        model.fit(timed())


def test_without_events(model: EpochModel) -> None:
    train = Interactions.from_codes([], [], time=np.array([]), n_users=3, n_items=4)
    with pytest.raises(InvalidData, match=r"train must hold at least one event to fit '.*', got 0"):
        model.fit(train)


@pytest.mark.parametrize(
    ("user", "item"),
    [([0, 0], [0, 0]), ([0, 0, 0], [0, 1, 2]), ([0, 1, 2], [0, 1, 1]), ([0], [0])],
    ids=["one item", "one user, every item", "one event each", "one event"],
)
def test_the_smallest_data(model: EpochModel, user: list[int], item: list[int]) -> None:
    train = Interactions.from_codes(user, item, time=np.arange(len(user)))
    assert np.isfinite(scores(model.fit(train), train)).all()


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("sasrec(heads=3)", "heads must divide factors, got 3 heads for 50 factors"),
        ("sasrec(max_length=0)", "max_length must be an integer >= 1, got 0"),
        ("sasrec(dropout=1)", "dropout must be at least 0 and below 1, got 1.0"),
        ("sasrec(negatives=0)", "negatives must be an integer >= 1, got 0"),
        ("sasrec(epochs=0)", "epochs must be an integer >= 1, got 0"),
        ("sasrec(length=3)", "Did you mean 'max_length'"),
        ("svae(latent=0)", "latent must be an integer >= 1, got 0"),
        ("svae(anneal_cap=-1)", "anneal_cap must be at least 0, got -1.0"),
        ("svae(anneal_start=inf)", "anneal_start must be a finite number, got inf"),
        ("svae(learning_rate=0)", "learning_rate must be greater than 0, got 0.0"),
        ("svae(every=0)", "every must be an integer >= 1, got 0"),
        ("ngcf(layers=0)", "layers must be an integer >= 1, got 0"),
        ("ngcf(reg=-1)", "reg must be at least 0, got -1.0"),
        ("ngcf(device=tpu)", "device must be auto, cpu, cuda or cuda:1, got 'tpu'"),
        ("ngcf(patience=0)", "patience must be an integer >= 1, got 0"),
        ("ngcf(dropouts=0)", "Did you mean 'dropout'"),
    ],
)
def test_bad_parameters(spec: str, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        MODELS.make(spec)


def test_presets() -> None:
    assert MODELS.make("s21-sasrec") == sasrec.SASRec(
        max_length=100, dropout=0.3, learning_rate=0.006, weight_decay=1e-6, batch=1024, patience=5, every=5
    )
    small = MODELS.make("s21-svae")
    assert isinstance(small, svae.SVAE)
    assert (small.next_items, small.anneal_start, small.anneal_cap) == (2, 0.2, 1.2)
    assert [small.beta(epochs) for epochs in (0, 50, 100, 199)] == pytest.approx([0.2, 0.7, 1.2, 1.2])
    assert MODELS.make("l20-ngcf(epochs=9)") == ngcf.NGCF(
        batch=1024, learning_rate=0.0001, epochs=9, patience=50
    )
