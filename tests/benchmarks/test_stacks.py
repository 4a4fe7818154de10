"""A stack of networks gives each member what it gets alone, and has the steps of the library's networks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from benchmarks.svp_cf.fitting import fit, part_values  # noqa: E402 - torch may be missing
from benchmarks.svp_cf.networks import STACKS, Multinomial  # noqa: E402
from benchmarks.svp_cf.stack import Draws, Events, Members, Problem, Training, front  # noqa: E402
from truerank.core.errors import InvalidParameter  # noqa: E402
from truerank.core.interactions import Interactions  # noqa: E402
from truerank.core.scorer import DenseScores, Factors  # noqa: E402
from truerank.core.split import Split  # noqa: E402
from truerank.metrics.registry import make_metrics, values  # noqa: E402
from truerank.models import multi_vae, svae  # noqa: E402
from truerank.models.multi_vae import MultiVAE  # noqa: E402
from truerank.models.nets.autoencoder import History  # noqa: E402
from truerank.models.svae import SVAE, multinomial_step_loss  # noqa: E402
from truerank.models.torch_training import Histories, to_numpy  # noqa: E402
from truerank.ranking.exact import exact_ranks  # noqa: E402
from truerank.workflows.agreement.scenarios import Sequential  # noqa: E402

N_USERS, N_ITEMS = 12, 15
TRAINING = Training(epochs=3, every=2, patience=2, batch=16, dropout=0.3, max_length=3)


def events(seed: int, n: int) -> Events:
    """Distinct pairs, sorted by user."""
    rng = np.random.default_rng(seed)
    pairs = np.sort(rng.choice(N_USERS * N_ITEMS, n, replace=False))
    user, item = np.divmod(pairs, N_ITEMS)
    return Events(torch.tensor(user), torch.tensor(item), torch.tensor(rng.integers(1, 6, n)).float())


def problem(*, is_explicit: bool = False, own: bool = False, is_sequential: bool = False) -> Problem:
    every = events(0, 90)
    part = np.random.default_rng(1).permutation(90) % 5
    if is_sequential:  # one validation and one test event per user: the last two in the order of items
        user = every.user.numpy()
        last = np.r_[user[1:] != user[:-1], True]
        part = np.where(last, 1, np.where(np.r_[last[1:], False], 0, 2))
    rows = [torch.tensor(np.flatnonzero(mask)) for mask in (part > 1, part == 0, part == 1)]
    train, valid, test = (Events(every.user[r], every.item[r], every.value[r]) for r in rows)
    return Problem(N_USERS, N_ITEMS, train, valid, test, is_explicit, own, own, own, as_coded=own)


def members(problem: Problem, n: int = 4) -> Members:
    rng = np.random.default_rng(2)
    mask = torch.tensor(rng.random((n, len(problem.train))) < np.linspace(0.3, 0.9, n)[:, None])
    return Members(mask, torch.tensor([0.02, 0.006, 0.02, 0.001][:n]), [0, 1, 1, 0][:n], torch.arange(n))


CASES = [(kind, scenario) for kind in ("bias-only", "mf", "neumf") for scenario in ("explicit", "implicit")]
CASES += [
    ("popularity", "implicit"),
    ("multi-vae", "implicit"),
    ("svae", "sequential"),
    ("sasrec", "sequential"),
]


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize(("kind", "scenario"), CASES)
def test_a_stack_equals_its_members_alone(kind: str, scenario: str, own: bool) -> None:
    given = problem(is_explicit=scenario == "explicit", own=own, is_sequential=scenario == "sequential")
    whole = members(given)
    width = 0 if kind in ("bias-only", "popularity") else 4
    together = fit(kind, given, whole, TRAINING, width)
    for row in range(len(whole)):
        few = whole.take(torch.tensor([row]))
        few.number = torch.tensor([0])
        alone = fit(kind, given, few, TRAINING, width)
        assert alone.best[0] == together.best[row]
        assert alone.last[0] == together.last[row]
        np.testing.assert_allclose(alone.test[0], together.test[row], rtol=2e-5, atol=1e-6)
        np.testing.assert_allclose(alone.valid[0], together.valid[row], rtol=2e-5, atol=1e-6)


def started(kind: str, given: Problem) -> Any:
    """Return a stack at its start and its members' parameters moved a little."""
    stack = STACKS[kind](given, members(given), TRAINING, 4)
    stack.run_epoch(1)
    return stack


def load_member(stack: Any, row: int) -> Any:
    """Return the library's network with the parameters of one member, ready to score."""
    module = stack.module()
    module.load_state_dict({name: value.detach()[row] for name, value in stack.values.items()})
    return module.eval()


def test_neumf_is_the_network_of_the_library() -> None:
    stack = started("neumf", problem())
    user, item = torch.arange(N_USERS).repeat_interleave(N_ITEMS), torch.arange(N_ITEMS).repeat(N_USERS)
    ours = stack.ratings(user, item)
    ranked = stack.scores(stack.open_scores(with_valid=False), torch.arange(N_USERS))
    for row in range(4):
        theirs = load_member(stack, row)(user, item).detach().numpy()
        np.testing.assert_allclose(ours[row].detach().numpy(), theirs, rtol=1e-4, atol=1e-6)
        gap = ranked[row].detach().numpy() - theirs.reshape(N_USERS, N_ITEMS)
        np.testing.assert_allclose(gap, np.broadcast_to(gap[:, :1], gap.shape), atol=1e-5)


def test_multi_vae_is_the_network_of_the_library() -> None:
    stack = started("multi-vae", problem())
    ours = stack.scores(stack.open_scores(with_valid=False), torch.arange(N_USERS)).detach().numpy()
    for row in range(4):
        net = load_member(stack, row)
        for user in range(N_USERS):
            items = stack.met[row, user].nonzero()[:, 0]
            mean, _ = net.encode(items, torch.tensor([0]))
            theirs = net.last(net.decode(mean)).detach().numpy()[0]
            np.testing.assert_allclose(ours[row, user], theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["svae", "sasrec"])
def test_networks_of_histories_are_those_of_the_library(kind: str) -> None:
    stack = started(kind, problem(is_sequential=True))
    table, lengths = stack.latest(TRAINING.max_length)
    ours = stack.states(table, lengths, None).detach().numpy()
    for row in range(4):
        net = load_member(stack, row)
        theirs = net.states(table[row]) if kind == "svae" else net(table[row], lengths[row])
        for user, length in enumerate(lengths[row].tolist()):
            expected = theirs[user, :length].detach().numpy()
            np.testing.assert_allclose(ours[row, user, :length], expected, rtol=1e-4, atol=1e-5)


def test_histories_are_the_latest_events_behind_the_token() -> None:
    given = problem(is_sequential=True)
    stack = started("sasrec", given)
    known, n_known = stack.known(with_valid=True)
    following = dict(zip(given.valid.user.tolist(), given.valid.item.tolist(), strict=True))
    for row in range(4):
        for user in range(N_USERS):
            own = stack.members.mask[row] & (given.train.user == user)
            entries = [N_ITEMS, *given.train.item[own].tolist(), following[user]]
            assert known[row, user, : n_known[row, user]].tolist() == entries[-TRAINING.max_length :]


def test_the_loss_over_all_items_is_that_of_the_library() -> None:
    from truerank.models.nets.sequence import multinomial_loss

    rng = torch.Generator().manual_seed(0)
    hidden, weight, bias = (torch.randn(shape, generator=rng) for shape in ((2, 6, 3), (2, 9, 3), (2, 9)))
    targets = torch.randint(9, (2, 6, 2), generator=rng)
    weights = torch.rand(2, 6, 2, generator=rng)
    ours = [x.clone().requires_grad_() for x in (hidden, weight, bias)]
    total: Any = Multinomial.apply(*ours, targets, weights)  # type: ignore[no-untyped-call]
    total.backward()
    for row in range(2):
        theirs = [x[row].clone().requires_grad_() for x in (hidden, weight, bias)]
        single: Any = 6 * multinomial_loss(theirs[0], theirs[1], theirs[2], targets[row], weights[row])
        single.backward()
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(a.grad[row].numpy(), b.grad.numpy(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", ["popularity", "bias-only", "mf"])
def test_metrics_are_those_of_the_library(kind: str) -> None:
    """Ties, several targets and seen items included: popularity ties often."""
    given = problem()
    stack = STACKS[kind](given, members(given), TRAINING, 0 if kind != "mf" else 4)
    stack.run_epoch(1)
    scores = stack.scores(stack.open_scores(with_valid=False), torch.arange(N_USERS)).detach()
    parts = {
        name: Interactions.from_codes(part.user.numpy(), part.item.numpy(), n_users=N_USERS, n_items=N_ITEMS)
        for name, part in (("train", given.train), ("valid", given.valid), ("test", given.test))
    }
    metrics = make_metrics("auc,recall(norm=min)@10,ndcg@10")
    for row in range(4):
        scorer = DenseScores(scores[row].numpy().copy())
        for name, split in (
            ("valid", Split(parts["train"], parts["valid"])),
            ("test", Split(parts["train"], parts["test"], parts["valid"])),
        ):
            expected = values(metrics, exact_ranks(scorer, split)).mean(axis=0)
            found = part_values(stack, name, recall_at=10)[row]
            np.testing.assert_allclose(found.detach().numpy(), expected, rtol=1e-9)


@pytest.mark.parametrize("kind", ["multi-vae", "svae"])
def test_as_coded_losses_and_scores_are_those_of_the_library(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One step over all users, whose noise is a constant: the same gradient, and the same scores."""
    given = problem(own=True, is_sequential=True)
    given = replace(given, surviving=False)
    stack: Any = STACKS[kind](given, members(given), replace(TRAINING, batch=64, dropout=0.0), 4)
    monkeypatch.setattr(Draws, "normal", lambda self, *shape: torch.full((len(self.rows), *shape), 0.3))
    caught: list[Any] = []
    monkeypatch.setattr(stack.adam, "step", lambda loss, rate, active: caught.append(loss.sum().backward()))
    before = stack.adam.copy()
    stack.run_epoch(3)
    assert len(caught) == 1
    model: Any
    loss: Any
    if kind == "svae":
        model = SVAE(max_length=3, next_items=2, latent=4, hidden=4, variant="s21", device="cpu")
    else:
        model = MultiVAE(latent=4, hidden=4, dropout=0.0, normalise=False, variant="s21", device="cpu")
    monkeypatch.setattr(torch, "randn_like", lambda like: torch.full_like(like, 0.3))
    for module in (multi_vae, svae):
        monkeypatch.setattr(module, "normal_noise", lambda shape, *_: np.full(shape, 0.3, np.float32))
    for row in range(4):
        own = stack.members.mask[row].numpy()
        train = Interactions.from_codes(
            given.train.user.numpy()[own],
            given.train.item.numpy()[own],
            time=np.arange(own.sum()),
            n_users=N_USERS,
            n_items=N_ITEMS,
        )
        net = stack.module()
        net.as_coded = True
        net.load_state_dict(stack.adam.state(before, row))
        beta = TRAINING.beta(2)
        if kind == "svae":
            histories = Histories.of("svae", train)
            padded = histories.latest(np.arange(N_USERS), 4)
            loss = multinomial_step_loss(net, padded, next_items=2, beta=beta, most=3)
            scorer = model._scorer(net.eval(), histories, 0)
        else:
            history = History(model.read(train), torch.device("cpu"))
            loss = net.loss(*history.of(np.arange(N_USERS)), beta)
            user = model._encoded(net.eval(), history, N_USERS, 0)
            scorer = Factors(user, to_numpy(net.last.weight), to_numpy(net.last.bias))
        loss.backward()
        for name, parameter in net.named_parameters():
            found = stack.values[name].grad[row].numpy()
            np.testing.assert_allclose(found, parameter.grad.numpy(), rtol=1e-3, atol=1e-6)
        with torch.no_grad():
            ranked = stack.scores(stack.open_scores(with_valid=False), torch.arange(N_USERS))[row].numpy()
        expected = scorer.score(np.arange(N_USERS), np.arange(N_ITEMS))
        np.testing.assert_allclose(ranked, expected, rtol=1e-3, atol=1e-5)


def test_known_targets_are_missed_as_in_the_library() -> None:
    """Half of the users repeat a train or validation item at the test."""
    given = problem(own=True, is_sequential=True)
    item = given.test.item.clone()
    item[::4] = given.valid.item[::4]
    first = dict(zip(given.train.user.tolist(), given.train.item.tolist(), strict=True))
    for row in range(2, len(item), 4):
        item[row] = first.get(int(given.test.user[row]), int(item[row]))
    given = replace(given, test=Events(given.test.user, item, given.test.value), surviving=False)
    scenario = Sequential(repeated="keep", known="validation", seen="own", metrics="auc,recall@10,ndcg@10")
    for kind, reads in (("mf", False), ("multi-vae", True)):
        stack = STACKS[kind](given, members(given), TRAINING, 4)
        scores = stack.scores(stack.open_scores(with_valid=reads), torch.arange(N_USERS)).detach()
        found = part_values(stack, "test", recall_at=10)
        for row in range(4):
            own = stack.members.mask[row].numpy()
            train, valid, test = (
                Interactions.from_codes(
                    part.user.numpy()[rows], part.item.numpy()[rows], n_users=N_USERS, n_items=N_ITEMS
                )
                for part, rows in (
                    (given.train, own),
                    (given.valid, slice(None)),
                    (given.test, slice(None)),
                )
            )
            split = Split(train, test, valid if reads else None, repeats=True)
            expected = scenario.user_totals(DenseScores(scores[row].numpy().copy()), split).mean(axis=0)
            np.testing.assert_allclose(found[row].detach().numpy(), expected, rtol=1e-9)


def test_kept_values_come_in_front() -> None:
    kept, count = front(torch.tensor([[5, 6, 7]]), torch.tensor([[True, False, True], [False, False, True]]))
    assert kept.tolist() == [[5, 7], [7, 0]]
    assert count.tolist() == [2, 1]


def test_models_that_rank_predict_no_ratings() -> None:
    posed = problem(is_explicit=True)
    stack = STACKS["multi-vae"](posed, members(posed), TRAINING, 4)
    with pytest.raises(InvalidParameter, match="ranks items and predicts no ratings"):
        stack.ratings(posed.test.user, posed.test.item)
