"""Many networks of one shape trained together: each parameter has a leading axis over members of a stack.

A member is one configuration on one sub-sample under one seed. Members share nothing but the calls to the
device: the random numbers of a member are a function of its seed, the epoch and the event, user or slot they
belong to, so that a stack gives every member what it gets alone, up to the order of sums in float32. First
weights are those of the library's own networks.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from truerank.core.errors import InvalidParameter

TRIES = 10  # candidates for a negative; the last one is taken where the user has met them all


@dataclass(frozen=True)
class Events:
    """Events of one part of a split, on the device."""

    user: Tensor
    item: Tensor
    value: Tensor

    def __len__(self) -> int:
        return len(self.user)


@dataclass(frozen=True)
class Problem:
    """One scenario of one data set.

    Parameters
    ----------
    n_users, n_items : sizes
    train : all train events, sorted by user and time
    valid, test : the other parts; without repeated pairs where items are ranked
    is_explicit : whether ratings are predicted
    own_seen : remove a member's own train items from its users' lists; else those of all train events
    known_valid : models that read histories get the validation items at the test, and do not rank them;
        else nobody does, and nobody ranks them
    surviving : items without an event in the sub-sample, validation or test part leave the catalogue
    as_coded : models that read histories are those of the published code, ``variant=s21`` in the library
    """

    n_users: int
    n_items: int
    train: Events
    valid: Events
    test: Events
    is_explicit: bool
    own_seen: bool
    known_valid: bool
    surviving: bool
    as_coded: bool = False

    @property
    def device(self) -> torch.device:
        """Where the events lie."""
        return self.train.user.device


@dataclass(frozen=True)
class Training:
    """Settings of the training that all members of a stack share."""

    epochs: int
    every: int
    patience: int
    batch: int
    weight_decay: float = 1e-6
    beta2: float = 0.98
    dropout: float = 0.0
    max_length: int = 10
    next_items: int = 2
    anneal: tuple[float, float] = (0.2, 1.2)

    def beta(self, epochs_done: float) -> float:
        """Return the weight of the divergence."""
        return self.anneal[0] + (self.anneal[1] - self.anneal[0]) * min(1.0, epochs_done / self.epochs)


@dataclass
class Members:
    """Sub-sample, learning rate and seed of each member.

    Parameters
    ----------
    mask : (m, n_events) which train events a member has
    rate : (m,) learning rates
    seed : (m,) seeds
    number : (m,) where the member stands in the results
    """

    mask: Tensor
    rate: Tensor
    seed: list[int]
    number: Tensor

    def __len__(self) -> int:
        return len(self.rate)

    def seed_rows(self) -> Tensor:
        """Return where each member's seed stands among the distinct seeds, in ascending order."""
        seeds = sorted(set(self.seed))
        return torch.tensor([seeds.index(seed) for seed in self.seed])

    def take(self, rows: Tensor) -> Members:
        """Return some members."""
        seeds = [self.seed[row] for row in rows.tolist()]
        return Members(self.mask[rows], self.rate[rows], seeds, self.number[rows])


def front(values: Tensor, keep: Tensor) -> tuple[Tensor, Tensor]:
    """Return each row's kept values in front, in their order, (m, most kept), and their numbers, (m,)."""
    count = keep.sum(1)
    size = max(1, int(count.max()))
    place = torch.where(keep, keep.cumsum(1) - 1, size)
    out = torch.zeros(len(keep), size + 1, dtype=values.dtype, device=values.device)
    out.scatter_(1, place, values.expand_as(place))
    return out[:, :size], count


class Draws:
    """Random numbers of one epoch, one set per seed, handed to the members by their seeds."""

    def __init__(self, members: Members, stage: str, epoch: int, device: torch.device) -> None:
        seeds = sorted(set(members.seed))
        self.rows = members.seed_rows().to(device)
        self.device = device
        self.generators = []
        for seed in seeds:
            state = np.random.SeedSequence([seed, epoch, *stage.encode()]).generate_state(2, np.uint32)
            generator = torch.Generator(device)
            generator.manual_seed(int(state[0]) << 31 | int(state[1]) >> 1)
            self.generators.append(generator)

    def uniform(self, *shape: int) -> Tensor:
        """Return (seeds, ...) numbers in [0, 1)."""
        return torch.stack([torch.rand(shape, generator=g, device=self.device) for g in self.generators])

    def normal(self, *shape: int) -> Tensor:
        """Return (m, ...) standard normals."""
        return torch.stack([torch.randn(shape, generator=g, device=self.device) for g in self.generators])[
            self.rows
        ]

    def kept(self, probability: float, *shape: int) -> Tensor | float:
        """Return (m, ...) factors of dropout: 0, or one over the probability to be kept."""
        if probability == 0:
            return 1.0
        mask = (self.uniform(*shape) >= probability).float() / (1 - probability)
        return mask[self.rows]


class Adam:
    """Adam with coupled weight decay over all parameters of a stack, one rate and one step count per member.

    Parameters lie one after the other in one buffer, and so do gradients and moments: a step is a dozen calls
    however many parameters there are.
    """

    def __init__(self, states: list[dict[str, Tensor]], training: Training, device: torch.device) -> None:
        self.training, m = training, len(states)
        self.shapes = {name: tensor.shape for name, tensor in states[0].items()}
        sizes = [m * math.prod(shape) for shape in self.shapes.values()]
        self.flat = torch.empty(sum(sizes), device=device)
        self.grad = torch.zeros_like(self.flat)
        self.mean, self.square = torch.zeros_like(self.flat), torch.zeros_like(self.flat)
        self.member = torch.empty(sum(sizes), dtype=torch.int32, device=device)
        self.values: dict[str, Tensor] = {}
        self.bounds: dict[str, tuple[int, int]] = {}
        start = 0
        for (name, shape), size in zip(self.shapes.items(), sizes, strict=True):
            stop = start + size
            self.bounds[name] = start, stop
            view = self.flat[start:stop].view(m, *shape)
            for row, state in enumerate(states):
                view[row] = state[name]
            self.member[start:stop] = torch.arange(m, dtype=torch.int32, device=device).repeat_interleave(
                size // m
            )
            value = view.detach().requires_grad_()
            value.grad = self.grad[start:stop].view(m, *shape)
            self.values[name] = value
            start = stop
        self.steps = torch.zeros(m, device=device)

    def step(self, loss: Tensor, rate: Tensor, is_active: Tensor | None) -> None:
        """Move every member, or the active ones, along the gradient of the sum of their losses."""
        self.grad.zero_()
        loss.sum().backward()  # type: ignore[no-untyped-call]
        with torch.no_grad():
            b2, g = self.training.beta2, self.grad
            g.add_(self.flat, alpha=self.training.weight_decay)
            if is_active is None:
                self.steps += 1
                self.mean.lerp_(g, 0.1)
                self.square.mul_(b2).addcmul_(g, g, value=1 - b2)
            else:
                self.steps += is_active
                weight = is_active[self.member]
                self.mean.lerp_(g, 0.1 * weight)
                self.square.lerp_(g.square(), (1 - b2) * weight)
                rate = rate * is_active
            steps = self.steps.clamp(min=1)
            root = (1 - b2**steps).rsqrt()
            size = rate / (1 - 0.9**steps)
            bottom = self.square.sqrt().mul_(root[self.member]).add_(1e-8)
            self.flat.sub_(self.mean.div(bottom).mul_(size[self.member]))

    def copy(self) -> Tensor:
        """Return a copy of the parameters."""
        return self.flat.clone()

    def update(self, kept: Tensor, rows: Tensor, *, back: bool = False) -> None:
        """Copy the parameters of the members that ``rows`` marks to ``kept``, or back."""
        chosen = rows[self.member]
        if back:
            self.flat.copy_(torch.where(chosen, kept, self.flat))
        else:
            kept.copy_(torch.where(chosen, self.flat, kept))

    def state(self, flat: Tensor, row: int) -> dict[str, Tensor]:
        """Return the parameters of one member in such a copy."""
        m = len(self.steps)
        return {
            name: flat[a:b].view(m, *self.shapes[name])[row].clone() for name, (a, b) in self.bounds.items()
        }

    def take(self, rows: Tensor) -> Adam:
        """Return the same optimiser for some members."""
        m = len(self.steps)
        few = object.__new__(Adam)
        few.training, few.shapes, few.steps = self.training, self.shapes, self.steps[rows]
        device = self.flat.device

        def chosen(flat: Tensor) -> Tensor:
            parts = [flat[a:b].view(m, -1)[rows].reshape(-1) for a, b in self.bounds.values()]
            return torch.cat(parts)

        few.flat, few.mean, few.square = (chosen(x) for x in (self.flat, self.mean, self.square))
        few.grad = torch.zeros_like(few.flat)
        few.values, few.bounds, start = {}, {}, 0
        members = []
        for name, shape in self.shapes.items():
            stop = start + len(rows) * math.prod(shape)
            few.bounds[name] = start, stop
            value = few.flat[start:stop].view(len(rows), *shape).detach().requires_grad_()
            value.grad = few.grad[start:stop].view(len(rows), *shape)
            few.values[name] = value
            members.append(
                torch.arange(len(rows), dtype=torch.int32, device=device).repeat_interleave(math.prod(shape))
            )
            start = stop
        few.member = torch.cat(members)
        return few


def pairs_of(problem: Problem, events: Events) -> Tensor:
    """Return the (n_users, n_items) matrix of the pairs of some events."""
    matrix = torch.zeros(problem.n_users, problem.n_items, dtype=torch.bool, device=problem.device)
    matrix[events.user, events.item] = True
    return matrix


def pick(table: Tensor, index: Tensor) -> Tensor:
    """Return the rows (m, ..., d) of stacked tables (m, n, d) at indices (m, ...)."""
    m, n = table.shape[:2]
    offset = torch.arange(m, device=index.device).view(m, *[1] * (index.ndim - 1)) * n
    rows = table.reshape(m * n, -1).index_select(0, (index + offset).reshape(-1))
    return rows.view(*index.shape, -1)


def linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Apply each member's linear layer to (m, ..., in)."""
    m = len(x)
    flat = torch.baddbmm(bias[:, None], x.reshape(m, -1, x.shape[-1]), weight.transpose(1, 2))
    return flat.view(*x.shape[:-1], -1)


class Stack(ABC):
    """A model with a leading axis over members.

    Parameters
    ----------
    problem, members, training : what is learnt from
    width : of embeddings and layers; 0 where the model has none
    """

    reads_histories = False

    def __init__(self, problem: Problem, members: Members, training: Training, width: int) -> None:
        self.problem, self.training, self.width = problem, training, width
        self.device = problem.device
        starts = {}
        for seed in sorted(set(members.seed)):
            torch.manual_seed(seed)
            module = self.module()
            starts[seed] = {name: x.detach().to(self.device) for name, x in module.state_dict().items()}
        self.use(members)
        states = []
        for row, seed in enumerate(members.seed):
            states.append(self.first(starts[seed], row))
        self.adam = Adam(states, training, self.device) if states[0] else None

    def use(self, members: Members) -> None:
        """Prepare what the members learn from."""
        problem, self.members = self.problem, members
        self.rows = members.seed_rows().to(self.device)
        m, train = len(members), problem.train
        rows, events = members.mask.nonzero(as_tuple=True)
        self.met = torch.zeros(m, problem.n_users, problem.n_items, dtype=torch.bool, device=self.device)
        self.met[rows, train.user[events], train.item[events]] = True
        self.is_alive = torch.ones(m, problem.n_items, dtype=torch.bool, device=self.device)
        if problem.surviving:
            self.is_alive = self.met.any(1)
            self.is_alive[:, problem.valid.item] = True
            self.is_alive[:, problem.test.item] = True
        items = torch.arange(problem.n_items, device=self.device)
        self.alive, self.n_alive = front(items[None], self.is_alive)

    def take(self, rows: Tensor) -> None:
        """Go on with some members."""
        if self.adam is not None:
            self.adam = self.adam.take(rows)
        self.use(self.members.take(rows))

    @property
    def values(self) -> dict[str, Tensor]:
        """The parameters by name."""
        assert self.adam is not None
        return self.adam.values

    @abstractmethod
    def module(self) -> nn.Module:
        """Return the library's network with its first weights."""

    def first(self, state: dict[str, Tensor], row: int) -> dict[str, Tensor]:
        """Return the first weights of a member."""
        return state

    @abstractmethod
    def run_epoch(self, number: int) -> None:
        """Pass over all events once."""

    @abstractmethod
    def open_scores(self, *, with_valid: bool) -> Any:
        """Return what ``scores`` needs, computed once for all users."""

    @abstractmethod
    def scores(self, opened: Any, users: Tensor) -> Tensor:
        """Return (m, users, n_items) scores."""

    def ratings(self, user: Tensor, item: Tensor) -> Tensor:
        """Return (m, n) predicted ratings, which only models that learn from single events have."""
        raise InvalidParameter(f"{type(self).__name__} ranks items and predicts no ratings. Leave it out.")

    def unmet(self, user: Tensor, chance: Tensor) -> Tensor:
        """Return an item that each user (m, ...) has not met, given (m, ..., TRIES) uniform numbers."""
        m = len(user)
        index = (chance * self.n_alive.view(m, *[1] * (chance.ndim - 1))).long()
        flat = index.view(m, -1)
        items = self.alive.gather(1, flat.clamp(max=self.alive.shape[1] - 1)).view_as(index)
        rows = torch.arange(m, device=self.device).view(m, *[1] * (chance.ndim - 1))
        is_new = ~self.met[rows, user[..., None], items]
        is_new[..., -1] = True
        return items.gather(-1, is_new.to(torch.uint8).argmax(-1, keepdim=True)).squeeze(-1)
