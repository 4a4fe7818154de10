"""The seven models of SVP-CF as stacks; each is the library's network with a leading axis over members."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from benchmarks.svp_cf.stack import TRIES, Draws, Members, Stack, front, linear, pairs_of, pick


class PairStack(Stack, ABC):
    """A model that learns from events one by one: squared error of ratings, or pairs of items.

    All numbers of an epoch lie in tensors that stay where they are, so that on a GPU a step is recorded once
    and replayed.
    """

    def use(self, members: Members) -> None:
        """Mark users and items without events, too, and make room for the numbers of an epoch."""
        super().use(members)
        self.is_cold = ~self.met.any(2), ~self.met.any(1)
        size, n, m = self.training.batch, len(self.problem.train), len(members)
        self.count = members.mask.sum(1)
        self.n_steps = max(1, -(-int(self.count.max()) // size))
        self.rate = members.rate
        kinds = torch.long, torch.long, torch.float32 if self.problem.is_explicit else torch.long
        self.columns = [torch.zeros(m, self.n_steps * size, dtype=kind, device=self.device) for kind in kinds]
        seeds = len(set(members.seed))
        n_sides = 1 if self.problem.is_explicit else 2
        rows = -(-n // size) * size  # of all events, so that a member's do not depend on the others
        self.kept = [
            torch.ones(seeds, rows, width, device=self.device)
            for _ in range(n_sides)
            for width in self.dropped()
        ]
        self.at = torch.zeros((), dtype=torch.long, device=self.device)
        self.graph: torch.cuda.CUDAGraph | None = None

    @abstractmethod
    def dropped(self) -> tuple[int, ...]:
        """Return the widths of the vectors of which entries are dropped while training."""

    def first(self, state: dict[str, Tensor], row: int) -> dict[str, Tensor]:
        """Set users without events to 0, and items where they are not trained as negatives."""
        state = {name: tensor.clone() for name, tensor in state.items()}
        for name, tensor in state.items():
            side = 0 if "user" in name else 1 if "item" in name else None
            if side == 0 or (side == 1 and self.problem.is_explicit):
                tensor[self.is_cold[side][row]] = 0.0
        return state

    @abstractmethod
    def forward(self, user: Tensor, item: Tensor, kept: list[Tensor]) -> Tensor:
        """Return (m, n) scores of pairs (m, n); ``kept`` are the factors of dropout, none to rank."""

    def run_epoch(self, number: int) -> None:
        """Pass over all events once, in random order."""
        members, train = self.members, self.problem.train
        draws = Draws(members, "pairs", number, self.device)
        order = draws.uniform(len(train)).argsort(1)[draws.rows]
        events, _ = front(order, members.mask.gather(1, order))
        user, item = train.user[events], train.item[events]
        if self.problem.is_explicit:
            third = train.value[events]
        else:
            chance = draws.uniform(len(train), TRIES)
            third = self.unmet(user, chance[draws.rows[:, None], events])
        for column, values in zip(self.columns, (user, item, third), strict=True):
            column[:, : values.shape[1]] = values
        p = self.training.dropout
        for kept in self.kept if p else []:
            kept.copy_((draws.uniform(*kept.shape[1:]) >= p).float() / (1 - p))
        self.at.zero_()
        if self.device.type == "cuda" and self.graph is None:
            self.record()
        for _ in range(self.n_steps):
            if self.graph is None:
                self.step()
            else:
                self.graph.replay()

    def record(self) -> None:
        """Record one step; the two that are taken before, as torch asks for, are undone."""
        assert self.adam is not None
        state = (self.adam.flat, self.adam.mean, self.adam.square, self.adam.steps, self.at)
        before = [tensor.clone() for tensor in state]
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.at.zero_()  # there may be one batch alone
                self.step()
        torch.cuda.current_stream().wait_stream(side)
        for tensor, value in zip(state, before, strict=True):
            tensor.copy_(value)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.step()

    def step(self) -> None:
        """Learn from the next batch of every member that has one."""
        assert self.adam is not None
        size, n_kept = self.training.batch, len(self.dropped())
        slot = torch.arange(size, device=self.device)
        user, item, third = (column.index_select(1, self.at + slot) for column in self.columns)
        kept = [factors.index_select(1, self.at + slot)[self.rows] for factors in self.kept]
        left = (self.count - self.at).clamp(0, size)
        weight = (slot < left[:, None]).float() / left.clamp(min=1)[:, None]
        score = self.forward(user, item, kept[:n_kept])
        if self.problem.is_explicit:
            loss = (score - third).square()
        else:
            loss = softplus(self.forward(user, third, kept[n_kept:]) - score)
        self.adam.step((loss * weight).sum(), self.rate, (left > 0).float())
        self.at += size

    def ratings(self, user: Tensor, item: Tensor) -> Tensor:
        """Return (m, n) predicted ratings."""
        m = len(self.members)
        return self.forward(user.expand(m, -1), item.expand(m, -1), [])


def _padded(x: Tensor, size: int) -> Tensor:
    if x.shape[1] == size:
        return x
    return torch.cat([x, x.new_zeros(len(x), size - x.shape[1])], 1)


class FactorNet(nn.Module):
    """Biases and factors at their start."""

    def __init__(self, n_users: int, n_items: int, width: int, offset: float) -> None:
        super().__init__()
        for name, n in (("user", n_users), ("item", n_items)):
            bound = math.sqrt(6 / (n + width))
            if width:
                self.register_buffer(name, torch.empty(n, width).uniform_(-bound, bound))
            self.register_buffer(f"{name}_bias", torch.zeros(n, 1))
        self.register_buffer("offset", torch.tensor([offset]))


class FactorStack(PairStack):
    """Matrix factorisation; with width 0 biases alone."""

    def module(self) -> nn.Module:
        """Return biases and factors at their start."""
        offset = 4.0 if self.problem.is_explicit else 0.0
        return FactorNet(self.problem.n_users, self.problem.n_items, self.width, offset)

    def dropped(self) -> tuple[int, ...]:
        """Return the widths of both vectors."""
        return (self.width, self.width) if self.width else ()

    def forward(self, user: Tensor, item: Tensor, kept: list[Tensor]) -> Tensor:
        """Return the offset, both biases and the product of the vectors, entries dropped while training."""
        values = self.values
        score = values["offset"] + pick(values["item_bias"], item)[..., 0]
        if self.problem.is_explicit:
            score = score + pick(values["user_bias"], user)[..., 0]
        if self.width:
            left, right = pick(values["user"], user), pick(values["item"], item)
            if kept:
                left, right = left * kept[0], right * kept[1]
            score = score + (left * right).sum(-1)
        return score

    def open_scores(self, *, with_valid: bool) -> Any:
        """Nothing is needed."""
        return None

    def scores(self, opened: Any, users: Tensor) -> Tensor:
        """Return (m, users, n_items) scores, without what is the same for all items of a user."""
        bias = self.values["item_bias"][..., 0][:, None]
        if not self.width:
            return bias.expand(-1, len(users), -1)
        return torch.baddbmm(bias, self.values["user"][:, users], self.values["item"].transpose(1, 2))


class FusionStack(PairStack):
    """NeuMF: a product of embeddings and a perceptron, summed by one linear layer."""

    def module(self) -> nn.Module:
        """Return the library's network."""
        from truerank.models.nets.fusion import Fusion

        d = self.width
        return Fusion(
            self.problem.n_users,
            self.problem.n_items,
            d,
            (2 * d, d, d),
            self.training.dropout,
            biased=True,
            offset=4.0 if self.problem.is_explicit else 0.0,
        )

    def dropped(self) -> tuple[int, ...]:
        """Return the width of the perceptron's input."""
        return (2 * self.width,)

    def forward(self, user: Tensor, item: Tensor, kept: list[Tensor]) -> Tensor:
        """Return one score per pair."""
        v = {name.removesuffix(".weight"): value for name, value in self.values.items()}
        product = pick(v["gmf_user"], user) * pick(v["gmf_item"], item)
        x = torch.cat([pick(v["mlp_user"], user), pick(v["mlp_item"], item)], -1)
        if kept:
            x = x * kept[0]
        x = linear(torch.relu(linear(x, v["steps.0"], v["steps.0.bias"])), v["steps.1"], v["steps.1.bias"])
        score = linear(torch.cat([product, x], -1), v["last"], v["last.bias"])[..., 0]
        return score + pick(v["user_bias"], user)[..., 0] + pick(v["item_bias"], item)[..., 0]

    def open_scores(self, *, with_valid: bool) -> Any:
        """Return both halves of the perceptron's first layer."""
        v, d = self.values, self.width
        first = v["steps.0.weight"]
        user = linear(v["mlp_user.weight"], first[:, :, :d].contiguous(), v["steps.0.bias"])
        item = linear(v["mlp_item.weight"], first[:, :, d:].contiguous(), torch.zeros_like(v["steps.0.bias"]))
        return user, item

    def scores(self, opened: Any, users: Tensor) -> Tensor:
        """Return (m, users, n_items) scores, without what is the same for all items of a user."""
        v, d = self.values, self.width
        user, item = opened
        m, n_items = len(user), item.shape[1]
        last = v["last.weight"][:, 0]
        bias = v["item_bias.weight"][..., 0][:, None]
        product = v["gmf_user.weight"][:, users] * last[:, None, :d]
        out = torch.baddbmm(bias, product, v["gmf_item.weight"].transpose(1, 2))
        # the second layer has no ReLU behind it, so it and the last one are one vector
        top = torch.bmm(last[:, None, d:], v["steps.1.weight"])
        hidden = torch.relu(user[:, users][:, :, None] + item[:, None])
        deep = torch.bmm(hidden.view(m, -1, d), top.transpose(1, 2))
        return out.add_(deep.view(m, len(users), n_items))


class CodeStack(Stack, ABC):
    """A variational autoencoder; as coded, z is sampled while ranking too."""

    def deviation(self, log_variance: Tensor) -> Tensor:
        """Return the standard deviation of z; as coded, of what the divergence takes for its log variance."""
        return (log_variance if self.problem.as_coded else 0.5 * log_variance).exp()

    def code(self, mean: Tensor, log_variance: Tensor, users: Tensor) -> Tensor:
        """Return z of some users, (m, n, width), by which they are ranked."""
        if not self.problem.as_coded:
            return mean
        noise = Draws(self.members, "codes", 0, self.device).normal(self.problem.n_users, self.width)
        return mean + noise[:, users] * self.deviation(log_variance)


def divergence(mean: Tensor, log_variance: Tensor) -> Tensor:
    """Return the divergence of each z from a standard normal."""
    return 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum(-1)


class AutoencoderStack(CodeStack):
    """Multi-VAE without dropout on raw histories."""

    reads_histories = True

    def module(self) -> nn.Module:
        """Return the library's network."""
        from truerank.models.nets.autoencoder import Autoencoder

        return Autoencoder(self.problem.n_items, self.width, self.width, 0.0, normalise=False)

    def first(self, state: dict[str, Tensor], row: int) -> dict[str, Tensor]:
        """Leave items out that are not in the catalogue."""
        state = {name: tensor.clone() for name, tensor in state.items()}
        state["last.bias"][~self.is_alive[row]] = -1e9  # no probability, so no gradient
        return state

    def use(self, members: Members) -> None:
        """Note the histories that are learnt from."""
        super().use(members)
        self.history = self.read(self.met)

    def read(self, history: Tensor) -> Tensor:
        """Return (m, n, n_items) histories as they are read: as coded, the first item stands for no event."""
        if not self.problem.as_coded:
            return history
        first = torch.nn.functional.one_hot(self.alive[:, :1], self.problem.n_items).bool()
        return history | (first & ~history.any(2, keepdim=True))

    def encode(self, history: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and log variance of each history, (m, n, n_items)."""
        v = self.values
        summed = torch.baddbmm(v["first_bias"][:, None], history, v["first.weight"])
        moments = linear(torch.tanh(summed), v["to_latent.weight"], v["to_latent.bias"])
        mean, log_variance = moments.chunk(2, dim=-1)
        return mean, log_variance

    def decode(self, z: Tensor) -> Tensor:
        """Return the hidden vectors whose products with the last layer are the scores."""
        return torch.tanh(linear(z, self.values["from_latent.weight"], self.values["from_latent.bias"]))

    def loss(self, history: Tensor, weight: Tensor, noise: Tensor, beta: float) -> Tensor:
        """Return the mean of -log multinomial + beta KL over the users that have a weight, summed."""
        mean, log_variance = self.encode(history)
        z = mean + noise * self.deviation(log_variance)
        logits = linear(self.decode(z), self.values["last.weight"], self.values["last.bias"])
        likelihood = (logits.log_softmax(-1) * history).sum(-1)
        return ((beta * divergence(mean, log_variance) - likelihood) * weight).sum()

    def run_epoch(self, number: int) -> None:
        """Pass over all users with events once, in random order."""
        members, size, n = self.members, self.training.batch, self.problem.n_users
        draws = Draws(members, "users", number, self.device)
        order = draws.uniform(n).argsort(1)[draws.rows]
        users, count = front(order, self.history.any(2).gather(1, order))
        rows = torch.arange(len(members), device=self.device)[:, None]
        slot, least = torch.arange(size, device=self.device), int(count.min())
        steps = -(-users.shape[1] // size)
        assert self.adam is not None
        for step, start in enumerate(range(0, users.shape[1], size)):
            batch = users[:, start : start + size]
            width = batch.shape[1]
            left = (count - start).clamp(0, size)
            weight = (slot[:width] < left[:, None]).float() / left.clamp(min=1)[:, None]
            noise = draws.normal(size, self.width)[:, :width]
            beta = self.training.beta(number - 1 + step / steps)
            loss = self.loss(self.history[rows, batch].float(), weight, noise, beta)
            self.adam.step(loss, members.rate, None if start < least else (left > 0).float())

    def open_scores(self, *, with_valid: bool) -> Any:
        """Return the decoder's hidden vectors of all users."""
        hidden = []
        for users in torch.split(torch.arange(self.problem.n_users, device=self.device), 512):
            history = self.met[:, users]
            if with_valid:
                history = history | pairs_of(self.problem, self.problem.valid)[users]
            hidden.append(self.code(*self.encode(self.read(history).float()), users))
        return self.decode(torch.cat(hidden, 1))

    def scores(self, opened: Any, users: Tensor) -> Tensor:
        """Return (m, users, n_items) scores."""
        v = self.values
        return torch.baddbmm(v["last.bias"][:, None], opened[:, users], v["last.weight"].transpose(1, 2))


class HistoryStack(Stack, ABC):
    """A model of ordered histories: a start token, then the events from the oldest to the newest."""

    reads_histories = True

    def use(self, members: Members) -> None:
        """Cut the latest entries of each history out of the train events."""
        super().use(members)
        self.table, self.lengths = self.latest(self.training.max_length + 1)

    def latest(self, most: int) -> tuple[Tensor, Tensor]:
        """Return up to ``most`` latest entries of each history, (m, n_users, width), and their numbers."""
        problem, mask = self.problem, self.members.mask
        m, n = len(mask), problem.n_users
        count = torch.zeros(m, n, dtype=torch.long, device=self.device)
        user = problem.train.user.expand(m, -1)
        count.scatter_add_(1, user, mask.long())
        before = count.cumsum(1) - count
        cut = (count + 1 - most).clamp(min=0)  # entries that are too old
        place = mask.long().cumsum(1) - before.gather(1, user) - cut.gather(1, user)
        lengths = (count + 1).clamp(max=most)
        width = int(lengths.max())
        flat = torch.where(mask & (place >= 0), user * width + place.clamp(min=0), n * width)
        table = torch.zeros(m, n * width + 1, dtype=torch.long, device=self.device)
        table.scatter_(1, flat, problem.train.item.expand(m, -1))
        table = table[:, :-1].view(m, n, width)
        table[..., 0][cut == 0] = problem.n_items
        return table, lengths

    def known(self, *, with_valid: bool) -> tuple[Tensor, Tensor]:
        """Return the histories that are read to rank, perhaps with the validation item at the end."""
        if not with_valid:
            return self.latest(self.training.max_length)
        valid = self.problem.valid
        table, lengths = self.latest(self.training.max_length - 1)
        table = torch.cat([table, torch.zeros_like(table[..., :1])], -1)
        table[:, valid.user] = table[:, valid.user].scatter(
            2, lengths[:, valid.user, None], valid.item.expand(len(table), -1)[..., None]
        )
        lengths[:, valid.user] += 1
        return table, lengths

    @abstractmethod
    def states(self, items: Tensor, lengths: Tensor, draws: Draws | None) -> Tensor:
        """Return the state (m, n, steps, d) after each item."""

    def last_states(self, *, with_valid: bool) -> Tensor:
        """Return the state (m, n_users, d) after each history."""
        table, lengths = self.known(with_valid=with_valid)
        found = []
        for users in torch.split(torch.arange(self.problem.n_users, device=self.device), 512):
            sizes = lengths[:, users]
            states = self.states(table[:, users], sizes, None)
            at = (sizes - 1)[..., None, None].expand(-1, -1, 1, states.shape[-1])
            found.append(states.gather(2, at)[:, :, 0])
        return torch.cat(found, 1)

    def run_epoch(self, number: int) -> None:
        """Pass over all users with events once, in random order; as coded, over those without any too."""
        members, size, n = self.members, self.training.batch, self.problem.n_users
        draws = Draws(members, "users", number, self.device)
        order = draws.uniform(n).argsort(1)[draws.rows]
        least_entries = 1 if self.problem.as_coded else 2
        users, count = front(order, (self.lengths >= least_entries).gather(1, order))
        slot, least = torch.arange(size, device=self.device), int(count.min())
        assert self.adam is not None
        for start in range(0, users.shape[1], size):
            batch = _padded(users[:, start : start + size], min(size, n))
            left = (count - start).clamp(0, size)
            is_used = slot[: batch.shape[1]] < left[:, None]
            loss = self.step_loss(batch, is_used, draws, number)
            self.adam.step(loss, members.rate, None if start < least else (left > 0).float())

    @abstractmethod
    def step_loss(self, users: Tensor, is_used: Tensor, draws: Draws, number: int) -> Tensor:
        """Return the sum over members of the mean loss of a batch of users (m, n)."""

    def targets(self, users: Tensor, is_used: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return entries, what follows each, (m, n, steps), and which of them there are."""
        rows = torch.arange(len(users), device=self.device)[:, None]
        table, lengths = self.table[rows, users], self.lengths[rows, users]
        step = torch.arange(table.shape[-1] - 1, device=self.device)
        is_step = (step < lengths[..., None] - 1) & is_used[..., None]
        return table[..., :-1], table[..., 1:], is_step


class RecurrentStack(CodeStack, HistoryStack):
    """SVAE: a GRU, and a variational autoencoder on its state after each step."""

    def module(self) -> nn.Module:
        """Return the library's network."""
        from truerank.models.nets.sequence import RecurrentNet

        d = self.width
        return RecurrentNet(self.problem.n_items, embedding=d, recurrent=d, hidden=d, latent=d)

    def first(self, state: dict[str, Tensor], row: int) -> dict[str, Tensor]:
        """Leave items out that are not in the catalogue."""
        state = {name: tensor.clone() for name, tensor in state.items()}
        state["output.bias"][~self.is_alive[row]] = -1e9
        return state

    def states(self, items: Tensor, lengths: Tensor, draws: Draws | None) -> Tensor:
        """Return the state of the GRU after each item."""
        v = self.values
        seen = linear(pick(v["item.weight"], items), v["gru.weight_ih_l0"], v["gru.bias_ih_l0"])
        h = seen.new_zeros(*items.shape[:2], self.width)
        out = []
        for step in range(items.shape[2]):
            past = linear(h, v["gru.weight_hh_l0"], v["gru.bias_hh_l0"])
            xr, xz, xn = seen[:, :, step].chunk(3, -1)
            hr, hz, hn = past.chunk(3, -1)
            new = torch.tanh(xn + torch.sigmoid(xr + hr) * hn)
            keep = torch.sigmoid(xz + hz)
            h = new + keep * (h - new)
            out.append(h)
        return torch.stack(out, 2)

    def posterior(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and log variance of z."""
        v = self.values
        hidden = torch.tanh(linear(states, v["encode.weight"], v["encode.bias"]))
        mean, log_variance = linear(hidden, v["moments.weight"], v["moments.bias"]).chunk(2, -1)
        return mean, log_variance

    def hidden(self, z: Tensor) -> Tensor:
        """Return what the output layer multiplies."""
        return torch.tanh(linear(z, self.values["decode.weight"], self.values["decode.bias"]))

    def step_loss(self, users: Tensor, is_used: Tensor, draws: Draws, number: int) -> Tensor:
        """Return the multinomial loss of the following items plus the weighted divergence."""
        items, following, is_step = self.targets(users, is_used)
        m, _, steps = following.shape
        k = self.training.next_items
        later = [following.roll(-s, -1) for s in range(k)]
        exists = [is_step & (is_step.roll(-s, -1) if s else is_step) for s in range(k)]
        for s in range(1, k):
            exists[s][..., steps - s :] = False
        targets = torch.stack(later, -1).view(m, -1, k)
        weights = torch.stack(exists, -1).view(m, -1, k).float() / k
        noise = draws.normal(users.shape[1], steps, self.width).view(m, -1, self.width)
        states = self.states(items, is_step.sum(-1), draws).reshape(m, -1, self.width)
        place = torch.arange(is_step[0].numel(), device=self.device)[None]
        chosen, count = front(place, is_step.view(m, -1))
        size = chosen.shape[1]
        weight = (torch.arange(size, device=self.device) < count[:, None]).float()
        n_used, most = is_used.sum(1, keepdim=True).clamp(min=1), self.training.max_length
        weight = weight / (n_used if self.problem.as_coded else count.clamp(min=1)[:, None])

        def at(x: Tensor) -> Tensor:
            return x.gather(1, chosen[..., None].expand(-1, -1, x.shape[-1]))

        mean, log_variance = self.posterior(at(states))
        z = mean + at(noise) * self.deviation(log_variance)
        v = self.values
        loss: Tensor = Multinomial.apply(  # type: ignore[no-untyped-call]
            self.hidden(z), v["output.weight"], v["output.bias"], at(targets), at(weights) * weight[..., None]
        )
        kl = (divergence(mean, log_variance) * weight).sum()
        if self.problem.as_coded:  # a mean over all steps that there could be; the others stand at the token
            token = torch.full((m, 1, 1), self.problem.n_items, device=self.device)
            start = divergence(*self.posterior(self.states(token, is_used, None)[:, 0]))
            n_empty = most * n_used - is_step.sum((1, 2))[:, None]
            kl = kl / most + (start * n_empty / (n_used * most)).sum()
        total: Tensor = loss + self.training.beta(number - 1) * kl
        return total

    def open_scores(self, *, with_valid: bool) -> Any:
        """Return the hidden vectors of all users."""
        every = torch.arange(self.problem.n_users, device=self.device)
        return self.hidden(self.code(*self.posterior(self.last_states(with_valid=with_valid)), every))

    def scores(self, opened: Any, users: Tensor) -> Tensor:
        """Return (m, users, n_items) scores."""
        v = self.values
        return torch.baddbmm(v["output.bias"][:, None], opened[:, users], v["output.weight"].transpose(1, 2))


_CELLS = 1 << 28  # logits at a time


class Multinomial(torch.autograd.Function):
    """Weighted cross entropy of softmaxes over all items, summed; logits are made in parts and not kept."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, weights: Tensor
    ) -> Tensor:
        """Return the sum over members and steps, forming the gradients in the same pass."""
        loss = hidden.new_zeros(())
        by_hidden = torch.empty_like(hidden)
        by_weight, by_bias = torch.zeros_like(weight), torch.zeros_like(bias)
        step = max(1, _CELLS // (weight.shape[0] * weight.shape[1]))
        for first in range(0, hidden.shape[1], step):
            rows = slice(first, first + step)
            h, i, q = hidden[:, rows], targets[:, rows], weights[:, rows]
            logits = torch.baddbmm(bias[:, None], h, weight.transpose(1, 2))
            total = torch.logsumexp(logits, 2, keepdim=True)
            loss += (q * (total - logits.gather(2, i))).sum()
            slope = logits.sub_(total).exp_().mul_(q.sum(2, keepdim=True))
            slope.scatter_add_(2, i, -q)
            by_hidden[:, rows] = torch.bmm(slope, weight)
            by_weight.baddbmm_(slope.transpose(1, 2), h)
            by_bias += slope.sum(1)
        ctx.save_for_backward(by_hidden, by_weight, by_bias)
        return loss

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients."""
        by_hidden, by_weight, by_bias = ctx.saved_tensors
        return by_hidden * grads[0], by_weight * grads[0], by_bias * grads[0], None, None


class AttentionStack(HistoryStack):
    """SASRec: causal self-attention in two blocks of one head."""

    blocks = 2

    def module(self) -> nn.Module:
        """Return the library's network."""
        from truerank.models.nets.sequence import AttentionNet

        return AttentionNet(
            self.problem.n_items,
            max_length=self.training.max_length,
            factors=self.width,
            blocks=self.blocks,
            heads=1,
            dropout=self.training.dropout,
        )

    def norm(self, x: Tensor, name: str) -> Tensor:
        """Apply each member's layer norm."""
        weight, bias = self.values[f"{name}.weight"], self.values[f"{name}.bias"]
        normal = torch.nn.functional.layer_norm(x, (self.width,), eps=1e-8)
        return normal * weight[:, None, None] + bias[:, None, None]

    def layer(self, x: Tensor, name: str) -> Tensor:
        """Apply each member's linear layer."""
        return linear(x, self.values[f"{name}.weight"], self.values[f"{name}.bias"])

    def states(self, items: Tensor, lengths: Tensor, draws: Draws | None) -> Tensor:
        """Return the state after each item."""
        m, n, steps = items.shape
        d = self.width
        p = self.training.dropout if draws is not None else 0.0

        def dropped(x: Tensor, *shape: int) -> Tensor:
            return x if draws is None else x * draws.kept(p, *shape)

        table = self.values["position.weight"]
        size = table.shape[1]
        position = (size - lengths[..., None] + torch.arange(steps, device=self.device)).clamp(max=size - 1)
        is_event = (items != self.problem.n_items)[..., None]
        x = pick(self.values["item.weight"], items) * d**0.5 + pick(table, position) * is_event
        x = dropped(x, n, steps, d)
        later = torch.ones(steps, steps, dtype=torch.bool, device=self.device).triu(1)
        for number in range(self.blocks):
            at = f"blocks.{number}."
            q = self.norm(x, at + "norm_attention")
            query, key, value = (
                self.layer(y, at + name).view(m * n, steps, d)
                for y, name in ((q, "query"), (x, "key"), (x, "value"))
            )
            logits = torch.bmm(query, key.transpose(1, 2)) / d**0.5
            share = logits.masked_fill(later, -torch.inf).softmax(-1).view(m, n, steps, steps)
            share = dropped(share, n, steps, steps).view(m * n, steps, steps)
            y = self.norm(q + torch.bmm(share, value).view_as(q), at + "norm_forward")
            inner = dropped(torch.relu(self.layer(y, at + "wide")), n, steps, d)
            x = y + dropped(self.layer(inner, at + "narrow"), n, steps, d)
        return self.norm(x, "norm")

    def step_loss(self, users: Tensor, is_used: Tensor, draws: Draws, number: int) -> Tensor:
        """Return the binary cross entropy of the next item and of one that the user has not met."""
        items, following, is_step = self.targets(users, is_used)
        lengths = is_step.sum(-1)
        states = self.states(items, lengths, draws)
        chance = draws.uniform(self.problem.n_users, TRIES * following.shape[-1])
        chance = chance[draws.rows[:, None], users].view(*following.shape, TRIES)
        negative = self.unmet(users[..., None].expand_as(following), chance)
        table = self.values["item.weight"]
        good = (states * pick(table, following)).sum(-1)
        bad = (states * pick(table, negative)).sum(-1)
        weight = is_step.float() / lengths.sum(-1).clamp(min=1)[:, None, None]
        return ((softplus(-good) + softplus(bad)) * weight).sum()

    def open_scores(self, *, with_valid: bool) -> Any:
        """Return the last states of all users."""
        return self.last_states(with_valid=with_valid)

    def scores(self, opened: Any, users: Tensor) -> Tensor:
        """Return (m, users, n_items) scores."""
        return torch.bmm(opened[:, users], self.values["item.weight"][:, :-1].transpose(1, 2))


class PopularityStack(Stack):
    """Numbers of train events; nothing is trained."""

    def module(self) -> nn.Module:
        """Return nothing to train."""
        return nn.Module()

    def run_epoch(self, number: int) -> None:
        """Nothing is trained."""

    def open_scores(self, *, with_valid: bool) -> Any:
        """Return the number of events of each item."""
        m, train = len(self.members), self.problem.train
        counts = torch.zeros(m, self.problem.n_items, device=self.device)
        return counts.scatter_add_(1, train.item.expand(m, -1), self.members.mask.float())

    def scores(self, opened: Any, users: Tensor) -> Tensor:
        """Return (m, users, n_items) scores."""
        counts: Tensor = opened
        return counts[:, None].expand(-1, len(users), -1)


STACKS: dict[str, type[Stack]] = {
    "popularity": PopularityStack,
    "bias-only": FactorStack,
    "mf": FactorStack,
    "neumf": FusionStack,
    "multi-vae": AutoencoderStack,
    "svae": RecurrentStack,
    "sasrec": AttentionStack,
}
