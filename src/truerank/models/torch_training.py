"""Torch modules under the trainer: seeds, device, threads, optimiser.

A model file imports torch nowhere at its top; in ``fit`` it writes::

    require_torch(self.key)                          # MissingDependency with the install hint
    device = pick_device(self.device)
    with seeded(seed, f"{self.key} init"):           # torch's global generators are as before afterwards
        module = SomeModule(...).to(device)
    training = ModuleTraining(
        module,
        optimiser=make_optimiser(module, learning_rate=self.learning_rate),
        batches=lambda rng, number: ...,             # one epoch's batches: any objects the loss understands
        loss=lambda batch: ...,                      # mean loss of one batch, a scalar tensor
        make_scorer=lambda: ...,                     # called in eval mode without gradients
        seed=seed,
        stage=self.key,
    )
    return train(str(self), training, Schedule(self.epochs, self.patience), validate=validate, ...)

Histories in the order of time, and batches of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from truerank.core.errors import (
    InvalidData,
    InvalidParameter,
    MissingDependency,
    check_above,
    check_at_least,
    check_choice,
)
from truerank.core.interactions import Interactions
from truerank.core.parallel import available_threads
from truerank.core.random import stream
from truerank.core.scorer import Scorer
from truerank.core.types import BoolArray, FloatArray, IntArray, frozen
from truerank.models.item_item import check_events, check_finite

if TYPE_CHECKING:
    import torch


BatchT = TypeVar("BatchT")
DEVICES = ("auto", "cpu", "cuda")


def require_torch(what: str) -> Any:
    """Import torch, or raise the sentence that says how to install it; ``what`` needs it."""
    try:
        import torch
    except ImportError:
        raise MissingDependency(f"model {what!r}", "PyTorch", extra="torch") from None
    return torch


def check_training(*, learning_rate: float, device: str, weight_decay: float = 0.0) -> None:
    """Raise unless the settings that all modules share can be used."""
    check_above("learning_rate", learning_rate, 0)
    check_at_least("weight_decay", weight_decay, 0)
    check_finite("learning_rate", learning_rate)
    check_finite("weight_decay", weight_decay)
    check_choice("device", device, DEVICES)


def check_rate(name: str, value: float) -> None:
    """Raise unless 0 <= value < 1, as a share of what dropout drops must be."""
    if not 0 <= value < 1:
        raise InvalidParameter(f"{name} must be at least 0 and below 1, got {value!r}.")


def pick_device(name: str) -> torch.device:
    """Return the device: ``auto`` is cuda when there is one, else cpu."""
    import torch

    if name == "cuda" and not torch.cuda.is_available():
        raise InvalidParameter("device 'cuda' was asked for, but torch sees no GPU. Use device=auto or cpu.")
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(name)


@contextmanager
def seeded(seed: int, stage: str, number: int = 0) -> Iterator[None]:
    """Seed torch's generators for the length of a ``with`` block; afterwards they are as before."""
    import torch

    devices = [torch.cuda.current_device()] if torch.cuda.is_available() else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(int(stream(seed, stage, number).integers(2**63)))
        yield


@contextmanager
def limited_threads(most: int | None = None) -> Iterator[None]:
    """Hold torch to the processors this process may use, to what it was set to before, and to ``most``."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(min(before, available_threads(), most or before))
    try:
        yield
    finally:
        torch.set_num_threads(before)


def make_optimiser(
    module: torch.nn.Module,
    *,
    learning_rate: float,
    weight_decay: float = 0.0,
    betas: tuple[float, float] = (0.9, 0.999),
) -> torch.optim.Optimizer:
    """Return Adam over all parameters; weight decay is coupled (an L2 term of the loss)."""
    import torch

    return torch.optim.Adam(
        module.parameters(), lr=learning_rate, weight_decay=weight_decay, betas=betas, fused=True
    )


def to_numpy(tensor: torch.Tensor) -> FloatArray:
    """Return a read-only copy as an array."""
    array: FloatArray = np.array(tensor.detach().cpu().numpy())
    return frozen(array)


class ModuleTraining(Generic[BatchT]):
    """A torch module under training; satisfies ``trainer.Training``.

    Parameters
    ----------
    module : on its device
    optimiser : over its parameters
    batches : (rng, epoch number) to the batches of one epoch; ``rng`` is a NumPy generator that depends on
        the seed, the stage and the epoch alone
    loss : batch to its mean loss, with gradients
    make_scorer : the fitted model as it is now; called in eval mode under ``no_grad``, copies what it keeps
    seed, stage : of all randomness; dropout and sampling noise within an epoch depend on them and the epoch
    n_threads : at most so many in torch; 1 where steps are too small to be shared, for torch's threads wait
        by spinning

    Notes
    -----
    On the CPU results repeat to the digit for the same number of threads. Torch's global generators and its
    number of threads are as before after every call.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        *,
        optimiser: torch.optim.Optimizer,
        batches: Callable[[np.random.Generator, int], Iterable[BatchT]],
        loss: Callable[[BatchT], torch.Tensor],
        make_scorer: Callable[[], Scorer],
        seed: int,
        stage: str,
        n_threads: int | None = None,
    ) -> None:
        self.module, self.optimiser = module, optimiser
        self.batches, self.loss, self.make_scorer = batches, loss, make_scorer
        self.seed, self.stage, self.n_threads = seed, stage, n_threads

    def run_epoch(self, number: int) -> float:
        """Step once per batch; the loss is the mean over batches, NaN when a parameter is not finite."""
        import torch

        # One running sum: thousands of small tensors kept between large ones would split the heap.
        total, n_batches = torch.zeros((), dtype=torch.float64), 0
        rng = stream(self.seed, f"{self.stage} batches", number)
        self.module.train()
        with seeded(self.seed, f"{self.stage} noise", number), limited_threads(self.n_threads):
            for batch in self.batches(rng, number):
                self.optimiser.zero_grad(set_to_none=True)
                loss = self.loss(batch)
                loss.backward()  # type: ignore[no-untyped-call]
                self.optimiser.step()
                total = total.to(loss.device).add_(loss.detach())
                n_batches += 1
            is_sound = all(bool(torch.isfinite(each).all()) for each in self.module.parameters())
            return float(total) / n_batches if n_batches and is_sound else math.nan

    def scorer(self) -> Scorer:
        """Return the model as it is now."""
        import torch

        self.module.eval()
        with torch.no_grad(), limited_threads(self.n_threads):
            return self.make_scorer()

    def state(self) -> dict[str, torch.Tensor]:
        """Return a copy of the module's parameters and buffers."""
        return {name: tensor.detach().clone() for name, tensor in self.module.state_dict().items()}

    def restore(self, state: dict[str, torch.Tensor]) -> None:
        """Go back to such a copy; the optimiser keeps its moments, for training ends here."""
        self.module.load_state_dict(state)


_POOL = 16  # batches sorted by length together; more padding is saved with more, less is random


@dataclass(frozen=True, eq=False)
class Padded:
    """Some users' latest events, one row each, padded at the end.

    Parameters
    ----------
    users : (n,)
    items : (n, width) oldest first; 0 behind the end
    lengths : (n,) how much of a row is filled
    """

    users: IntArray
    items: IntArray
    lengths: IntArray

    def is_filled(self) -> BoolArray:
        """Return the (n, width) mask of true events."""
        mask: BoolArray = np.arange(self.items.shape[1]) < self.lengths[:, None]
        return mask


@dataclass(frozen=True, eq=False)
class Histories:
    """Each user's train events from the oldest to the newest; repeated items stay.

    Parameters
    ----------
    indptr : (n_users + 1,) int64, user u's events lie at ``indptr[u]:indptr[u + 1]``
    items : (n,) int64

    Examples
    --------
    >>> train = Interactions.from_codes([0, 1, 0, 0], [3, 0, 1, 2], time=np.array([7, 1, 5, 6]))
    >>> histories = Histories.of("sasrec", train)
    >>> histories.latest(np.array([0, 1]), 2).items.tolist()
    [[2, 3], [0, 0]]
    """

    indptr: IntArray
    items: IntArray

    @classmethod
    def of(cls, model: str, train: Interactions) -> Histories:
        """Sort by user and time; of equal times the later row counts as later, as in the splits."""
        check_events(model, train)
        if train.time is None:
            raise InvalidData(
                f"model {model!r} learns from the order of events and needs a timestamp for each, but "
                f"{train.name!r} has none. Name the column with --columns timestamp=NAME or use a model "
                "without order, such as 'ease'."
            )
        order = np.lexsort((train.time, train.user))
        indptr = np.zeros(train.n_users + 1, np.int64)
        np.cumsum(train.user_counts(), out=indptr[1:])
        histories = cls(frozen(indptr), frozen(train.item[order].astype(np.int64)))
        if histories.lengths().max() < 2:
            raise InvalidData(
                f"model {model!r} learns what follows what and needs a user with at least two train events, "
                f"but {train.name!r} has none. Check the split and the filters, or use a model without "
                "order, such as 'ease'."
            )
        return histories

    def lengths(self) -> IntArray:
        """Return the number of events of each user."""
        return np.diff(self.indptr)

    def latest(self, users: IntArray, most: int) -> Padded:
        """Return up to ``most`` latest events of each user."""
        last = self.indptr[users + 1]
        lengths = np.minimum(last - self.indptr[users], most)
        place = np.arange(max(1, int(lengths.max(initial=0))))
        is_filled = place < lengths[:, None]
        items = self.items[np.where(is_filled, (last - lengths)[:, None] + place, 0)]
        return Padded(users, np.where(is_filled, items, 0), lengths)

    def batches(self, rng: np.random.Generator, batch_size: int, most: int) -> Iterator[Padded]:
        """Yield all users with two or more events once, in random batches of similar lengths."""
        lengths = np.minimum(self.lengths(), most)
        users = rng.permutation(np.flatnonzero(lengths >= 2))
        pools = [
            users[first : first + _POOL * batch_size] for first in range(0, len(users), _POOL * batch_size)
        ]
        chosen = [
            pool[first : first + batch_size]
            for pool in (pool[np.argsort(lengths[pool], kind="stable")] for pool in pools)
            for first in range(0, len(pool), batch_size)
        ]
        for number in rng.permutation(len(chosen)):
            yield self.latest(chosen[number], most)

    def blocks(self, batch_size: int, most: int) -> Iterator[Padded]:
        """Yield every user with events once, shortest histories first."""
        lengths = np.minimum(self.lengths(), most)
        users = np.argsort(lengths, kind="stable")
        users = users[lengths[users] > 0]
        for first in range(0, len(users), batch_size):
            yield self.latest(users[first : first + batch_size], most)
