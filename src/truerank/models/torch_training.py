"""Models that PyTorch trains: their base class, seeds, device, threads, and batches of ordered histories.

A model file imports torch nowhere at its top. It subclasses `TorchModel` and writes ``start``, which hands
its `TorchParts` (the network, one epoch's batches, the loss of a batch and the fitted scorer) to
``training``; the base class chooses the device, seeds, trains and keeps the best epoch.

Models of sequences read `Histories`: a start token and each user's events from the oldest to the newest, cut
into padded batches of similar length.
"""

from __future__ import annotations

import math
import re
from abc import ABC
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import numpy as np

from truerank.core.errors import (
    InvalidData,
    InvalidParameter,
    MissingDependency,
    check_above,
    check_at_least,
)
from truerank.core.interactions import Interactions
from truerank.core.parallel import available_threads
from truerank.core.random import stream
from truerank.core.scorer import Factors, Scorer, check_histories
from truerank.core.types import BoolArray, FloatArray, IntArray, frozen
from truerank.models.checks import check_count, check_finite, check_rate
from truerank.models.training import ScorerT, TrainedModel

if TYPE_CHECKING:
    import torch


BatchT = TypeVar("BatchT")
DEVICE_NAME = re.compile(r"auto|cpu|cuda(:\d+)?")


def require_torch(what: str) -> Any:
    """Import torch for model ``what``, or raise an error that says how to install it."""
    try:
        import torch
    except ImportError:
        raise MissingDependency(f"model {what!r}", "PyTorch", extra="torch") from None
    return torch


def pick_device(name: str) -> torch.device:
    """Return the device: ``auto`` is cuda when there is one, else cpu."""
    import torch

    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    device = torch.device(name)
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        seen = f"only cuda:0 to cuda:{torch.cuda.device_count() - 1}" if torch.cuda.is_available() else "none"
        needs = "such a GPU" if ":" in name else "a GPU"
        raise InvalidParameter(
            f"device {name!r} needs {needs}, but torch sees {seen}. Use device=auto or cpu."
        )
    return device


@contextmanager
def seeded(seed: int, stage: str, number: int = 0) -> Iterator[None]:
    """Seed torch's generators for the length of a ``with`` block; afterwards they are as before."""
    import torch

    devices = list(range(torch.cuda.device_count()))
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(int(stream(seed, stage, number).integers(2**63)))
        yield


def normal_noise(shape: tuple[int, ...], seed: int, stage: str) -> FloatArray:
    """Return standard normal numbers, the same on every device."""
    noise: FloatArray = stream(seed, f"{stage} codes").standard_normal(shape, np.float32)
    return noise


@contextmanager
def limited_threads(most: int | None = None) -> Iterator[None]:
    """Limit torch to the processors this process may use, to its present setting, and to ``most`` threads."""
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


@dataclass(frozen=True, eq=False)
class TorchParts(Generic[BatchT]):
    """What one model gives to be trained.

    Parameters
    ----------
    module : on its device
    batches : (rng, epoch number) to the batches of one epoch, any objects that ``loss`` takes; ``rng`` is a
        NumPy generator that depends on the seed, the stage and the epoch alone
    loss : batch to its mean loss, with gradients
    make_scorer : the fitted model as it is now; called in eval mode under ``no_grad``, copies what it keeps
    n_threads : largest number of threads in torch; 1 where steps are too small to be divided, because torch's
        threads wait by spinning
    """

    module: torch.nn.Module
    batches: Callable[[np.random.Generator, int], Iterable[BatchT]]
    loss: Callable[[BatchT], torch.Tensor]
    make_scorer: Callable[[], Scorer]
    n_threads: int | None = None


class ModuleTraining(Generic[BatchT]):
    """A torch module under training; satisfies ``training.Training``.

    Parameters
    ----------
    parts : the module, its batches, its loss and its scorer
    optimiser : over the module's parameters
    seed, stage : of all randomness; dropout and sampling noise within an epoch depend on them and the epoch

    Notes
    -----
    On the CPU results repeat to the digit for the same number of threads. Torch's global generators and its
    number of threads are as before after every call.
    """

    def __init__(
        self, parts: TorchParts[BatchT], *, optimiser: torch.optim.Optimizer, seed: int, stage: str
    ) -> None:
        self.parts, self.module, self.optimiser = parts, parts.module, optimiser
        self.seed, self.stage = seed, stage

    def run_epoch(self, number: int) -> float:
        """Step once per batch; the loss is the mean over batches, NaN when a parameter is not finite."""
        import torch

        # One running sum: thousands of small tensors kept between large ones would split the heap.
        total, n_batches = torch.zeros((), dtype=torch.float64), 0
        rng = stream(self.seed, f"{self.stage} batches", number)
        self.module.train()
        with seeded(self.seed, f"{self.stage} noise", number), limited_threads(self.parts.n_threads):
            for batch in self.parts.batches(rng, number):
                self.optimiser.zero_grad(set_to_none=True)
                loss = self.parts.loss(batch)
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
        with torch.no_grad(), limited_threads(self.parts.n_threads):
            return self.parts.make_scorer()

    def state(self) -> dict[str, torch.Tensor]:
        """Return a copy of the module's parameters and buffers."""
        return {name: tensor.detach().clone() for name, tensor in self.module.state_dict().items()}

    def restore(self, state: dict[str, torch.Tensor]) -> None:
        """Go back to such a copy; the optimiser keeps its moments, for training ends here."""
        self.module.load_state_dict(state)


class TorchModel(TrainedModel[ScorerT], ABC):
    """A model that PyTorch trains by Adam; a subclass writes ``start`` with its `TorchParts`.

    Parameters
    ----------
    batch : samples per step, in the unit that the model says
    learning_rate, weight_decay, beta2 : of Adam; the decay is coupled, an L2 term of the loss
    device : auto (a GPU when there is one), cpu, cuda or cuda:1
    """

    init_stage: ClassVar[str] = "init"  # names the random stream of the first weights

    batch: int
    learning_rate: float
    weight_decay: float = 0.0
    beta2: float = 0.999
    device: str

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("batch", self.batch, 1)
        check_above("learning_rate", self.learning_rate, 0)
        check_at_least("weight_decay", self.weight_decay, 0)
        for name in ("learning_rate", "weight_decay"):
            check_finite(name, getattr(self, name))
        check_rate("beta2", self.beta2)
        if not DEVICE_NAME.fullmatch(self.device):
            raise InvalidParameter(f"device must be auto, cpu, cuda or cuda:1, got {self.device!r}.")

    def training(
        self, make_parts: Callable[[torch.device], TorchParts[BatchT]], seed: int, stage: str
    ) -> ModuleTraining[BatchT]:
        """Return the training of what is made for a device; its first weights and its epochs are seeded."""
        require_torch(self.key)
        device = pick_device(self.device)
        with seeded(seed, f"{stage} {self.init_stage}"):
            parts = make_parts(device)
        optimiser = make_optimiser(
            parts.module,
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            betas=(0.9, self.beta2),
        )
        return ModuleTraining(parts, optimiser=optimiser, seed=seed, stage=stage)


class AnnealedModel(TorchModel[ScorerT], ABC):
    """A variational autoencoder, whose divergence has a weight beta that grows over the first epochs.

    Parameters
    ----------
    anneal_start, anneal_cap : beta at the start and at its largest
    anneal_epochs : epochs over which beta grows linearly from start to cap
    """

    anneal_start: float
    anneal_cap: float
    anneal_epochs: int

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("anneal_epochs", self.anneal_epochs, 1)
        for name in ("anneal_start", "anneal_cap"):
            check_at_least(name, getattr(self, name), 0)
            check_finite(name, getattr(self, name))

    def beta(self, epochs_done: float) -> float:
        """Return the weight of the divergence after a number of epochs, which need not be whole."""
        grown = min(1.0, epochs_done / self.anneal_epochs)
        return self.anneal_start + (self.anneal_cap - self.anneal_start) * grown


@dataclass(frozen=True, eq=False)
class EncodedFactors(Factors):
    """Factors whose user vectors a network encodes from histories; satisfies `ReadsHistories`.

    Copied to another process or written to a file it is plain `Factors`: the network stays behind.

    Parameters
    ----------
    user, item, item_bias : as in `Factors`
    encode : events to the (n_users, d) vectors of the users whose histories they are, by the network as it is
        then: a scorer seen during training encodes other histories until the next epoch starts
    """

    encode: Callable[[Interactions], FloatArray] = field(kw_only=True)

    def with_histories(self, events: Interactions) -> EncodedFactors:
        """Return the factors of the users whose histories the events are."""
        import torch

        check_histories(events, self.n_items)
        with torch.no_grad():
            return replace(self, user=self.encode(events))

    def factors(self) -> Factors:
        """Return the matrices alone."""
        return Factors(self.user, self.item, self.item_bias)

    def __reduce__(self) -> tuple[type[Factors], tuple[FloatArray | None, ...]]:
        return Factors, (self.user, self.item, self.item_bias)


_POOL = 16  # batches sorted by length together; a larger pool saves more padding but mixes less


@dataclass(frozen=True, eq=False)
class PaddedHistories:
    """The latest entries of some users' histories, one row each, padded at the end.

    Parameters
    ----------
    users : (n,)
    items : (n, width) oldest first, the start token before the first event; 0 after the last event
    lengths : (n,) number of entries of each row, at least 1
    """

    users: IntArray
    items: IntArray
    lengths: IntArray

    def is_filled(self) -> BoolArray:
        """Return the (n, width) mask of the entries that are not padding."""
        mask: BoolArray = np.arange(self.items.shape[1]) < self.lengths[:, None]
        return mask


@dataclass(frozen=True, eq=False)
class Histories:
    """A start token and then each user's events from the oldest to the newest; repeated items stay.

    The token is one more item, with the code ``n_items``. It is the whole history of a user without events,
    and what the first event of every other user follows. Where only the latest entries of a history are
    read, it is dropped like an oldest event: what it is followed by is always a user's first event.

    Parameters
    ----------
    indptr : (n_users + 1,) int64, user u's history lies at ``indptr[u]:indptr[u + 1]``
    items : (n_users + n_events,) int64

    Examples
    --------
    >>> train = Interactions.from_codes([0, 1, 0, 0], [3, 0, 1, 2], time=np.array([7, 1, 5, 6]))
    >>> histories = Histories.of("sasrec", train)
    >>> histories.latest(np.array([0, 1]), 2).items.tolist()
    [[2, 3], [4, 0]]
    """

    indptr: IntArray
    items: IntArray

    @classmethod
    def of(cls, model: str, events: Interactions) -> Histories:
        """Sort by user and time; of equal times the later row counts as later, as in the splits."""
        if events.time is None:
            raise InvalidData(
                f"model {model!r} learns from the order of events and needs a timestamp for each, but "
                f"{events.name!r} has none. Name the column with columns={{'timestamp': NAME}} or use a "
                "model without order, such as 'ease'."
            )
        order = np.lexsort((events.time, events.user))
        indptr = np.zeros(events.n_users + 1, np.int64)
        np.cumsum(events.user_counts() + 1, out=indptr[1:])
        items = np.full(indptr[-1], events.n_items, np.int64)
        is_event = np.ones(len(items), np.bool_)
        is_event[indptr[:-1]] = False
        items[is_event] = events.item[order]
        return cls(frozen(indptr), frozen(items))

    def lengths(self) -> IntArray:
        """Return the number of entries of each user's history: the token and the events."""
        return np.diff(self.indptr)

    def latest(self, users: IntArray, most: int) -> PaddedHistories:
        """Return up to ``most`` latest entries of each user's history."""
        last = self.indptr[users + 1]
        lengths = np.minimum(last - self.indptr[users], most)
        step = np.arange(int(lengths.max(initial=1)))
        is_filled = step < lengths[:, None]
        items = self.items[np.where(is_filled, (last - lengths)[:, None] + step, 0)]
        return PaddedHistories(users, np.where(is_filled, items, 0), lengths)

    def batches(
        self, rng: np.random.Generator, batch_size: int, most: int, *, everyone: bool = False
    ) -> Iterator[PaddedHistories]:
        """Yield all users with events once, in random batches of similar lengths.

        With ``everyone`` batches are random alone and users without events take places in them, as in the
        code of [sachdeva2022]_: there are as many steps however few users have events.
        """
        lengths = np.minimum(self.lengths(), most)
        if everyone:
            users = rng.permutation(len(lengths))
            for first in range(0, len(users), batch_size):
                padded = self.latest(users[first : first + batch_size], most)
                if padded.lengths.max() >= 2:
                    yield padded
            return
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

    def blocks(self, batch_size: int, most: int) -> Iterator[PaddedHistories]:
        """Yield every user once, shortest histories first."""
        users = np.argsort(np.minimum(self.lengths(), most), kind="stable")
        for first in range(0, len(users), batch_size):
            yield self.latest(users[first : first + batch_size], most)
