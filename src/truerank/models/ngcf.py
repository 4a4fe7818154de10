"""NGCF: neural graph collaborative filtering."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from truerank.core.errors import check_at_least
from truerank.core.interactions import Interactions
from truerank.core.plugin import Source
from truerank.core.scorer import Factors
from truerank.core.types import IntArray, frozen
from truerank.models.checks import check_count, check_finite, check_rate
from truerank.models.torch_training import ModuleTraining, TorchModel, TorchParts, to_numpy
from truerank.models.training import (
    distinct_pairs,
    sample_negatives,
    shuffled_batches,
)

if TYPE_CHECKING:
    import torch

    from truerank.models.nets.graph import GraphNet


@dataclass(frozen=True)
class NGCF(TorchModel[Factors]):
    r"""Embeddings propagated along the user-item graph, scored by dot products, trained by BPR.

    Each step of training propagates the vectors of all nodes through all layers, in about 8 n_pairs d +
    12 (n_users + n_items) d^2 operations each, so large batches pay. Ranking costs as much as matrix
    factorisation of width d (layers + 1).

    .. math:: E^{(l)} = \mathrm{LeakyReLU}\bigl((L + I) E^{(l-1)} W_1
              + (L E^{(l-1)} \odot E^{(l-1)}) W_2\bigr), \qquad
              \hat y_{ui} = e_u \cdot e_i, \quad e = e^{(0)} \| \dots \| e^{(l)}

    .. math:: loss = \frac1B \sum_{(u,i,j)} \Bigl[-\log \sigma(\hat y_{ui} - \hat y_{uj})
              + \tfrac{reg}{2} (\lVert e_u \rVert^2 + \lVert e_i \rVert^2 + \lVert e_j \rVert^2)\Bigr]

    Parameters
    ----------
    factors : d, width of the first vectors and of every layer
    layers : number of propagation layers
    dropout : probability that an entry of a layer's output is dropped in training
    reg : weight of the squared norms of the vectors in a batch
    learning_rate : of Adam
    batch : train pairs per step
    epochs : largest number of epochs; without validation all are run
    patience : validations without an improvement before training stops
    every, first : epochs between validations, and an epoch to validate besides (0: none)
    device : auto (a GPU when there is one), cpu, cuda or cuda:1

    Notes
    -----
    Eq. 7 of [wang2019]_ with L the symmetrically normalised adjacency. From the authors' code come the
    biases, the scaling of each layer's output to length 1, and Xavier-uniform starts; the code's default
    matrix (each row divided by its degree, loops included) is not used, nor is node dropout. Larger batches
    and a larger learning rate than the authors' are the default, for each step costs a whole propagation;
    theirs is the preset ``l20-ngcf``. Negatives are uniform over the items a user has not met. Repeated
    events count once.

    A user without train events scores 0 everywhere. An item without train events was only a negative in
    training and keeps the low scores it learnt.

    Examples
    --------
    >>> train = Interactions.from_codes([0, 0, 1], [0, 1, 0])
    >>> fitted = NGCF(factors=2, layers=1, epochs=1, device="cpu").fit(train)
    >>> fitted.user.shape
    (2, 4)
    """

    key: ClassVar[str] = "ngcf"
    source: ClassVar[Source | None] = Source("wang2019", "Eq. 7")

    factors: int = 64
    layers: int = 3
    dropout: float = 0.1
    reg: float = 1e-5
    learning_rate: float = 0.002
    batch: int = 4096
    epochs: int = 100
    patience: int = 10
    every: int = 1
    first: int = 0
    device: str = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("factors", "layers"):
            check_count(name, getattr(self, name), 1)
        check_rate("dropout", self.dropout)
        check_at_least("reg", self.reg, 0)
        check_finite("reg", self.reg)

    def start(self, train: Interactions, seed: int) -> ModuleTraining[IntArray]:
        """Return the network at its start; the scorer is `Factors`, all layers side by side."""

        def parts(device: torch.device) -> TorchParts[IntArray]:
            from truerank.models.nets.graph import GraphNet, NormalisedAdjacency

            net = GraphNet(
                NormalisedAdjacency.of(train, device),
                train.n_users + train.n_items,
                factors=self.factors,
                layers=self.layers,
                dropout=self.dropout,
            ).to(device)
            user, item = distinct_pairs(train)
            lists = train.by_user()

            def batches(rng: np.random.Generator, number: int) -> Iterator[IntArray]:
                other = sample_negatives(lists, train.n_items, user, 1, rng)[:, 0]
                for rows in shuffled_batches(len(user), self.batch, rng):
                    yield np.stack([user[rows], train.n_users + item[rows], train.n_users + other[rows]])

            return TorchParts(
                net,
                batches=batches,
                loss=lambda nodes: pair_loss(net, nodes, self.reg),
                make_scorer=lambda: _scorer(net, train),
            )

        return self.training(parts, seed, self.key)


def pair_loss(net: GraphNet, nodes: IntArray, reg: float) -> torch.Tensor:
    """Return the mean loss of a batch; ``nodes`` (3, n) are users, met items and others, as nodes."""
    import torch
    from torch.nn.functional import softplus

    vectors = net()[torch.from_numpy(nodes).to(net.node.weight.device)]
    user, met, other = vectors
    size = vectors.square().sum() / (2 * nodes.shape[1])
    loss: torch.Tensor = softplus((user * (other - met)).sum(1)).mean() + reg * size
    return loss


def _scorer(net: GraphNet, train: Interactions) -> Factors:
    vectors = to_numpy(net())
    user = np.where(train.user_counts()[:, None] > 0, vectors[: train.n_users], np.float32(0))
    return Factors(frozen(user), vectors[train.n_users :])
