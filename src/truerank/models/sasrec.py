"""SASRec: self-attention over ordered histories."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from truerank.core.errors import InvalidParameter, check_choice
from truerank.core.interactions import Interactions
from truerank.core.plugin import Source
from truerank.core.types import FloatArray, IntArray, frozen
from truerank.models.checks import check_count, check_rate
from truerank.models.torch_training import (
    EncodedFactors,
    Histories,
    ModuleTraining,
    PaddedHistories,
    TorchModel,
    TorchParts,
    to_numpy,
)
from truerank.models.training import sample_negatives

if TYPE_CHECKING:
    import torch

    from truerank.models.nets.sequence import AttentionNet


@dataclass(frozen=True)
class SASRec(TorchModel[EncodedFactors]):
    r"""Causal self-attention over a user's latest events; the last state times the item vectors.

    For data where the next item depends on the latest ones. Needs timestamps. An epoch costs about
    n_events d (30 d + 12 max_length) operations per block; ranking costs no more than matrix factorisation.

    .. math:: L = -\frac1n \sum_{u,t} \Bigl[\log \sigma(h_{ut} \cdot v_{i_{u,t+1}})
                  + \sum_{j} \log \bigl(1 - \sigma(h_{ut} \cdot v_j)\bigr)\Bigr],
                  \qquad \hat y_{ui} = h_u \cdot v_i

    with :math:`h_{ut}` the state after user u's t-th event (t = 0: before the first), n the number of such
    steps, and negatives j sampled uniformly from the items the user has not met in train.

    Parameters
    ----------
    max_length : number of latest events that are used; the start token counts as the oldest one
    factors : d, width of item vectors and states
    blocks : attention blocks
    heads : attention heads; must divide ``factors``
    dropout : probability that an input, attention weight or inner unit is dropped in training
    negatives : sampled for each step
    learning_rate, weight_decay : of Adam with betas 0.9 and 0.98
    batch : users per step of training
    epochs : largest number of epochs; without validation all are run
    patience : validations without an improvement before training stops
    every, first : epochs between validations, and an epoch to validate besides (0: none)
    variant : kang2018, or s21 as in the code of [sachdeva2022]_: users without events take places in the
        batches, which makes more steps of an epoch
    device : auto (a GPU when there is one), cpu, cuda or cuda:1

    Notes
    -----
    Architecture, loss and defaults of [kang2018]_ (ML-1M), whose code adds residuals to the normalised
    inputs; so it is here. Weights start Xavier-uniform. Histories are padded at the end and positions
    count back from the latest event, which gives the states of padding at the front without computing them.
    Events at the same time keep the order of the rows. Repeated events stay in the history.

    Every history begins with a start token, an input with a vector but no position, never predicted, so that
    first events are learnt too: users with one event are trained on, and a user without train events
    gets the items that histories begin with. An item without train events was only a negative in training
    and keeps the low scores it learnt.

    Examples
    --------
    >>> train = Interactions.from_codes([0, 0, 1, 1], [0, 1, 1, 2], time=np.arange(4))
    >>> fitted = SASRec(max_length=3, factors=4, epochs=1, device="cpu").fit(train)
    >>> fitted.score(np.array([0, 1]), np.array([2])).shape
    (2, 1)
    """

    key: ClassVar[str] = "sasrec"
    source: ClassVar[Source | None] = Source("kang2018", "Sec. III")
    revision: ClassVar[int] = 2  # histories begin with a start token
    beta2 = 0.98

    max_length: int = 200
    factors: int = 50
    blocks: int = 2
    heads: int = 1
    dropout: float = 0.2
    negatives: int = 1
    learning_rate: float = 0.001
    weight_decay: float = 0.0
    batch: int = 128
    epochs: int = 100
    patience: int = 10
    every: int = 1
    first: int = 0
    variant: Literal["kang2018", "s21"] = "kang2018"
    device: str = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("max_length", "factors", "blocks", "heads", "negatives"):
            check_count(name, getattr(self, name), 1)
        check_rate("dropout", self.dropout)
        check_choice("variant", self.variant, ("kang2018", "s21"))
        if self.factors % self.heads:
            raise InvalidParameter(
                f"heads must divide factors, got {self.heads} heads for {self.factors} factors. "
                "Use for example heads=1."
            )

    def start(self, train: Interactions, seed: int) -> ModuleTraining[tuple[PaddedHistories, IntArray]]:
        """Return the network at its start; the scorer is `EncodedFactors` of last states and item vectors."""
        histories = Histories.of(self.key, train)

        def parts(device: torch.device) -> TorchParts[tuple[PaddedHistories, IntArray]]:
            from truerank.models.nets.sequence import AttentionNet

            net = AttentionNet(
                train.n_items,
                max_length=self.max_length,
                factors=self.factors,
                blocks=self.blocks,
                heads=self.heads,
                dropout=self.dropout,
            ).to(device)

            def batches(rng: np.random.Generator, number: int) -> Iterator[tuple[PaddedHistories, IntArray]]:
                everyone = self.variant == "s21"
                for padded in histories.batches(rng, self.batch, self.max_length + 1, everyone=everyone):
                    users = np.repeat(padded.users, padded.lengths - 1)
                    yield padded, sample_negatives(train.by_user(), train.n_items, users, self.negatives, rng)

            return TorchParts(
                net,
                batches=batches,
                loss=lambda batch: step_loss(net, *batch),
                make_scorer=lambda: self._scorer(net, histories),
            )

        return self.training(parts, seed, self.key)

    def _scorer(self, net: AttentionNet, histories: Histories) -> EncodedFactors:
        return EncodedFactors(
            self._encoded(net, histories),
            to_numpy(net.item.weight[:-1]),
            encode=lambda events: self._encoded(net, Histories.of(self.key, events)),
        )

    def _encoded(self, net: AttentionNet, histories: Histories) -> FloatArray:
        import torch

        user = np.empty((len(histories.indptr) - 1, self.factors), np.float32)
        for padded in histories.blocks(self.batch, self.max_length):
            items, lengths = (
                torch.from_numpy(array).to(net.item.weight.device) for array in (padded.items, padded.lengths)
            )
            states = net(items, lengths)
            user[padded.users] = to_numpy(states[torch.arange(len(items)), lengths - 1])
        return frozen(user)


def step_loss(net: AttentionNet, padded: PaddedHistories, negatives: IntArray) -> torch.Tensor:
    """Return the mean loss of a batch; ``negatives`` has a row for each step, user after user."""
    import torch
    from torch.nn.functional import softplus

    device = net.item.weight.device
    items, lengths = (torch.from_numpy(array).to(device) for array in (padded.items, padded.lengths))
    is_step = torch.from_numpy(padded.is_filled()[:, 1:]).to(device)
    states = net(items[:, :-1], lengths - 1)[is_step]
    positive = (states * net.item(items[:, 1:][is_step])).sum(-1)
    negative = (states[:, None] * net.item(torch.from_numpy(negatives).to(device))).sum(-1)
    return softplus(-positive).mean() + softplus(negative).sum(1).mean()
