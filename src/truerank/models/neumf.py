"""NeuMF: neural matrix factorisation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias, cast

import numpy as np

from truerank.core.errors import InvalidParameter, check_choice
from truerank.core.interactions import Interactions
from truerank.core.model import OnEpoch, Validate
from truerank.core.plugin import Source
from truerank.core.progress import SILENT, Progress
from truerank.core.scorer import Scorer
from truerank.core.types import AnyArray, IntArray
from truerank.models.checks import check_count, check_events, check_rate
from truerank.models.torch_training import ModuleTraining, TorchModel, TorchParts
from truerank.models.training import (
    distinct_pairs,
    rated_events,
    run_epochs,
    sample_negatives,
    shuffled_batches,
)

if TYPE_CHECKING:
    import torch

    from truerank.models.nets.fusion import Fusion


Batch: TypeAlias = tuple[AnyArray, ...]
_NARROW = 256  # layers up to this width are trained on one thread
_SAMPLES = 1 << 22  # events with their negatives that are mixed together: memory stays bounded


@dataclass(frozen=True)
class NeuMF(TorchModel[Scorer]):
    r"""Product of embeddings and a perceptron over other embeddings, joined by a linear layer.

    .. math:: \hat y_{ui} = w^\top [\, p_u \odot q_i \,;\, \mathrm{MLP}(p'_u ; q'_i) \,]

    Layers of up to 256 units are trained on one thread of a CPU: their steps are too small to be divided.
    Slow to rank with: a pair costs the layers of the perceptron above its first one, whose halves are
    computed once per user and item.

    Parameters
    ----------
    factors : width of p and q
    layers : widths of the perceptron, from its input (p' and q' have half of it each) up
    loss : bce (events against sampled negatives), bpr (each event against one negative) or mse (ratings)
    negatives : per event, sampled in every epoch from the items the user has not met (bce)
    pretrain : train both towers alone first, for ``epochs`` each, and start from them
    epochs : largest number of epochs; without validation all are run
    batch : samples per step
    learning_rate, weight_decay, beta2 : of Adam
    dropout : of the perceptron's input
    variant : he2017 (ReLU after every layer; last layers halved when towers are joined) or s21 (biases of
        users and items, no ReLU after the last layer, last layers joined as they are)
    patience : validations without an improvement before training stops
    every, first : epochs between validations, and an epoch to validate besides (0: none)
    device : auto (a GPU when there is one), cpu, cuda or cuda:1

    Notes
    -----
    [he2017]_; ``l23-neumf`` has the sizes of [li2023]_, ``s21-neumf`` the variant of [sachdeva2022]_'s code.
    Defaults were chosen on the last train events of MovieLens-1M (``docs/models_neural.md``).
    A validated pre-training keeps its best epoch too; ``on_epoch`` is called in the joint training alone.
    Repeated pairs count once (under mse as often as they come). Users without train events have the mean of
    the other users' embeddings, not zero vectors as in `MF`: part of what all users share, popularity and
    level, is learnt in the embeddings themselves, and zeros lose it (measured in ``docs/models_neural.md``).
    So have, under mse, items without events, which under bce and bpr are trained as negatives.

    Examples
    --------
    >>> train = Interactions.from_codes([0, 0, 1], [0, 1, 0])
    >>> fitted = NeuMF(factors=2, layers="4-2", epochs=1, device="cpu").fit(train)
    >>> fitted.score(np.array([0]), np.array([1, 0])).shape
    (1, 2)
    """

    key: ClassVar[str] = "neumf"
    source: ClassVar[Source | None] = Source("he2017", "Sec. 3")
    init_stage: ClassVar[str] = "start"

    factors: int = 64
    layers: str = "128-64-32-16"
    loss: Literal["bce", "bpr", "mse"] = "bce"
    negatives: int = 16
    pretrain: bool = False
    epochs: int = 5
    batch: int = 4096
    learning_rate: float = 0.001
    weight_decay: float = 0.0
    beta2: float = 0.999
    dropout: float = 0.5
    variant: Literal["he2017", "s21"] = "he2017"
    patience: int = 5
    every: int = 1
    first: int = 0
    device: str = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("loss", self.loss, ("bce", "bpr", "mse"))
        check_choice("variant", self.variant, ("he2017", "s21"))
        for name in ("factors", "negatives"):
            check_count(name, getattr(self, name), 1)
        check_rate("dropout", self.dropout)
        self.widths()

    def widths(self) -> tuple[int, ...]:
        """Return the widths of the perceptron's layers, its input first."""
        parts = self.layers.split("-")
        sizes = tuple(int(part) for part in parts if part.isdecimal())
        if len(sizes) != len(parts) or len(sizes) < 2 or min(sizes) < 1 or sizes[0] % 2:
            raise InvalidParameter(
                "layers must be two or more widths >= 1 joined by '-', the first one even, "
                f"such as 64-32-16-8, got {self.layers!r}."
            )
        return sizes

    def start(self, train: Interactions, seed: int, tower: str = "") -> ModuleTraining[Batch]:
        """Return the joint network at its start, or one of its towers: gmf (products) or mlp (perceptron)."""
        samples = _Samples(self, train)
        factors = 0 if tower == "mlp" else self.factors
        layers = () if tower == "gmf" else self.widths()
        return self.training(
            lambda device: samples.parts(device, factors, layers), seed, f"{self.key} {tower}"
        )

    def fit(
        self,
        train: Interactions,
        *,
        validate: Validate | None = None,
        seed: int = 0,
        progress: Progress = SILENT,
        on_epoch: OnEpoch | None = None,
    ) -> Scorer:
        """Train; the progress advances once per epoch."""
        check_events(self.key, train)
        schedule, joint = self.schedule(), self.start(train, seed)
        if self.pretrain:
            gmf, mlp = self.start(train, seed, "gmf"), self.start(train, seed, "mlp")
            for tower, alone in (("gmf", gmf), ("mlp", mlp)):
                run_epochs(f"{tower} of {self}", alone, schedule, validate=validate, progress=progress)
            modules = [cast("Fusion", training.module) for training in (joint, gmf, mlp)]
            modules[0].take(modules[1], modules[2], 0.5 if self.variant == "he2017" else 1.0)
        return run_epochs(str(self), joint, schedule, validate=validate, on_epoch=on_epoch, progress=progress)


class _Samples:
    """The train events, and batches and losses over them."""

    def __init__(self, model: NeuMF, train: Interactions) -> None:
        self.model, self.train = model, train
        if model.loss == "mse":
            self.user, self.item, self.value = rated_events(model.key, train)
        else:
            self.user, self.item = distinct_pairs(train)

    def parts(self, device: torch.device, factors: int, layers: tuple[int, ...]) -> TorchParts[Batch]:
        """Return a network with its first weights, without products or without a perceptron where asked."""
        import torch

        from truerank.models.nets.fusion import Fusion

        module = Fusion(
            self.train.n_users,
            self.train.n_items,
            factors,
            layers,
            self.model.dropout,
            biased=self.model.variant == "s21",
            offset=4.0 if self.model.loss == "mse" else 0.0,
        ).to(device)
        has_events = self.train.user_counts() > 0, self.train.item_counts() > 0
        if self.model.loss != "mse":
            has_events[1][:] = True  # items without events are learnt from as negatives
        is_warm = [torch.tensor(mask, device=device) for mask in has_events]
        return TorchParts(
            module,
            batches=lambda rng, _: self.batches(rng),
            loss=lambda batch: self.loss(module, device, batch),
            make_scorer=lambda: module.scorer(*is_warm),
            n_threads=1 if max(self.model.widths()) <= _NARROW else None,
        )

    def batches(self, rng: np.random.Generator) -> Iterator[Batch]:
        """Yield (user, item, value), (user, item, label) or (user, item, negative) arrays."""
        n, size = len(self.user), self.model.batch
        if self.model.loss == "bce":
            width = 1 + self.model.negatives
            for events in shuffled_batches(n, size * max(1, _SAMPLES // (size * width)), rng):
                yield from self.labelled_batches(events, rng)
            return
        if self.model.loss == "bpr":
            negative = sample_negatives(self.train.by_user(), self.train.n_items, self.user, 1, rng)[:, 0]
        for rows in shuffled_batches(n, size, rng):
            third = self.value[rows] if self.model.loss == "mse" else negative[rows]
            yield self.user[rows], self.item[rows], third

    def labelled_batches(self, events: IntArray, rng: np.random.Generator) -> Iterator[Batch]:
        """Yield some events and their negatives in random order, as (user, item, label) arrays."""
        user = self.user[events]
        negative = sample_negatives(self.train.by_user(), self.train.n_items, user, self.model.negatives, rng)
        item = np.hstack([self.item[events, None], negative])
        for samples in shuffled_batches(item.size, self.model.batch, rng):
            rows, columns = np.divmod(samples, item.shape[1])
            yield user[rows], item[rows, columns], (columns == 0).astype(np.float32)

    def loss(self, module: Fusion, device: torch.device, batch: Batch) -> torch.Tensor:
        """Return the mean loss of a batch."""
        import torch
        from torch.nn.functional import binary_cross_entropy_with_logits, mse_loss, softplus

        user, item, third = (torch.from_numpy(array).to(device) for array in batch)
        score = module(user, item)
        if self.model.loss == "bce":
            return binary_cross_entropy_with_logits(score, third)
        if self.model.loss == "mse":
            return mse_loss(score, third)
        return softplus(module(user, third) - score).mean()
