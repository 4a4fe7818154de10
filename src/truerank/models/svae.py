"""SVAE: a recurrent network with a variational autoencoder over ordered histories."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from truerank.core.errors import check_choice
from truerank.core.interactions import Interactions
from truerank.core.plugin import Source
from truerank.core.types import FloatArray, IntArray, frozen
from truerank.models.checks import check_count
from truerank.models.torch_training import (
    AnnealedModel,
    EncodedFactors,
    Histories,
    ModuleTraining,
    PaddedHistories,
    TorchParts,
    normal_noise,
    to_numpy,
)

if TYPE_CHECKING:
    import torch

    from truerank.models.nets.sequence import RecurrentNet


_SCORED = 128  # users whose states are computed together


@dataclass(frozen=True)
class SVAE(AnnealedModel[EncodedFactors]):
    r"""A recurrent network over the history; a variational autoencoder predicts the next items at each event.

    Needs timestamps. An epoch costs about 6 n_events n_items hidden operations for the softmax over the
    catalogue; its memory is bounded whatever the catalogue. Ranking costs no more than matrix factorisation.

    .. math:: L = \frac1n \sum_{u,t} \Bigl[ -\frac1k \sum_{s=1}^{k} \log \pi_{i_{u,t+s}}(z_{ut})
                  + \beta\, KL\bigl(N(\mu_{ut}, \sigma^2_{ut}) \,\|\, N(0, 1)\bigr)\Bigr],
                  \qquad \pi(z) = \mathrm{softmax}(W \tanh(A z + a) + b)

    where z is sampled from the normal distribution whose moments the encoder computes from the state of a
    GRU. A fitted model takes the mean for z and ranks by the logits.

    Parameters
    ----------
    max_length : number of latest events that are used; the start token counts as the oldest one
    embedding, recurrent : widths of the item vectors and of the state of the GRU
    latent, hidden : widths of z and of the layers before and after it
    next_items : k, number of following events that each step predicts
    anneal_start, anneal_cap : beta, the weight of the divergence, in the first epoch and at its largest
    anneal_epochs : epochs over which beta grows from start to cap
    learning_rate, weight_decay, beta2 : of Adam
    batch : users per step of training
    epochs : largest number of epochs; without validation all are run
    patience : validations without an improvement before training stops
    every, first : epochs between validations, and an epoch to validate besides (0: none)
    variant : sachdeva2019, or s21 as in the code of [sachdeva2022]_: z is sampled while ranking too, its
        standard deviation is the exponential of what the divergence takes for the log variance, the
        likelihood is summed over the steps of a user while the divergence is a mean over ``max_length``
        steps, and users without events take places in the batches
    device : auto (a GPU when there is one), cpu, cuda or cuda:1

    Notes
    -----
    Architecture and widths of [sachdeva2019]_ (ML-1M); its code steps after each single user, here after
    ``batch`` of them. The last steps of a history have fewer than k following events and count for that
    much less, as there. Weights start Xavier-uniform. Events at the same time keep the order of the rows.
    Repeated events stay in the history. Preset ``s21-svae`` has the sizes and weights of
    [sachdeva2022]_'s code; ``variant=s21`` has the rest of it.

    Every history begins with a start token, an input with a vector of its own that is never predicted, so
    that first events are learnt too: users with one event are trained on, and a user without train events
    gets the items that histories begin with. An item without train events was never the next item and keeps
    the low scores it learnt for that.

    Examples
    --------
    >>> train = Interactions.from_codes([0, 0, 1, 1], [0, 1, 1, 2], time=np.arange(4))
    >>> fitted = SVAE(hidden=4, recurrent=4, epochs=1, device="cpu").fit(train)
    >>> fitted.score(np.array([0, 1]), np.array([2])).shape
    (2, 1)
    """

    key: ClassVar[str] = "svae"
    source: ClassVar[Source | None] = Source("sachdeva2019", "Sec. 4")
    revision: ClassVar[int] = 2  # histories begin with a start token

    max_length: int = 200
    embedding: int = 256
    recurrent: int = 200
    hidden: int = 150
    latent: int = 64
    next_items: int = 4
    anneal_start: float = 0.0
    anneal_cap: float = 0.02
    anneal_epochs: int = 40
    learning_rate: float = 0.001
    weight_decay: float = 0.0
    beta2: float = 0.999
    batch: int = 16
    epochs: int = 25
    patience: int = 10
    every: int = 1
    first: int = 0
    variant: Literal["sachdeva2019", "s21"] = "sachdeva2019"
    device: str = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("max_length", "embedding", "recurrent", "hidden", "latent", "next_items"):
            check_count(name, getattr(self, name), 1)
        check_choice("variant", self.variant, ("sachdeva2019", "s21"))

    @property
    def as_coded(self) -> bool:
        """Whether it is the variant of [sachdeva2022]_'s code."""
        return self.variant == "s21"

    def start(self, train: Interactions, seed: int) -> ModuleTraining[tuple[PaddedHistories, float]]:
        """Return the network at its start; the scorer is `EncodedFactors` of the last hidden layer."""
        histories = Histories.of(self.key, train)

        def parts(device: torch.device) -> TorchParts[tuple[PaddedHistories, float]]:
            from truerank.models.nets.sequence import RecurrentNet

            net = RecurrentNet(
                train.n_items,
                embedding=self.embedding,
                recurrent=self.recurrent,
                hidden=self.hidden,
                latent=self.latent,
            ).to(device)

            def batches(rng: np.random.Generator, number: int) -> Iterator[tuple[PaddedHistories, float]]:
                everyone = self.as_coded
                for padded in histories.batches(rng, self.batch, self.max_length + 1, everyone=everyone):
                    yield padded, self.beta(number - 1)

            return TorchParts(
                net,
                batches=batches,
                loss=lambda batch: multinomial_step_loss(
                    net,
                    batch[0],
                    next_items=self.next_items,
                    beta=batch[1],
                    most=self.max_length if self.as_coded else None,
                ),
                make_scorer=lambda: self._scorer(net, histories, seed),
            )

        return self.training(parts, seed, self.key)

    def _scorer(self, net: RecurrentNet, histories: Histories, seed: int) -> EncodedFactors:
        """Return the last hidden layer of each user, and the last layer with its bias."""
        return EncodedFactors(
            self._encoded(net, histories, seed),
            to_numpy(net.output.weight),
            to_numpy(net.output.bias),
            encode=lambda events: self._encoded(net, Histories.of(self.key, events), seed),
        )

    def _encoded(self, net: RecurrentNet, histories: Histories, seed: int) -> FloatArray:
        import torch

        device = net.output.weight.device
        n_users = len(histories.indptr) - 1
        noise = normal_noise((n_users, self.latent), seed, self.key) if self.as_coded else None
        user = np.empty((n_users, self.hidden), np.float32)
        for padded in histories.blocks(_SCORED, self.max_length):
            states = net.states(torch.from_numpy(padded.items).to(device))
            rows = torch.arange(len(states), device=device)
            z, log_sigma = net.posterior(states[rows, torch.from_numpy(padded.lengths - 1).to(device)])
            if noise is not None:
                z = z + torch.from_numpy(noise[padded.users]).to(z) * log_sigma.exp()
            user[padded.users] = to_numpy(net.hidden(z))
        return frozen(user)


def next_targets(padded: PaddedHistories, next_items: int) -> tuple[IntArray, FloatArray]:
    """Return the (steps, k) items that follow each step, user after user, and weights 1/k, 0 past the end."""
    n, width = padded.items.shape
    step = np.arange(1, width)[:, None] + np.arange(next_items)
    has_event = step < padded.lengths[:, None, None]
    items = padded.items[np.arange(n)[:, None, None], np.minimum(step, width - 1)]
    is_step = padded.is_filled()[:, 1:]
    return np.where(has_event, items, 0)[is_step], has_event[is_step] / next_items


def multinomial_step_loss(
    net: RecurrentNet, padded: PaddedHistories, *, next_items: int, beta: float, most: int | None = None
) -> torch.Tensor:
    """Return the mean loss over the steps of a batch, or as coded where there could be ``most`` steps.

    As coded, the likelihood is summed over the steps of a user and averaged over users, with or without
    events; the divergence is averaged over all ``most`` steps of all users, of which those before a history
    stand at the start token.
    """
    import torch

    from truerank.models.nets.sequence import divergence, multinomial_loss

    device = net.output.weight.device
    items, weights = next_targets(padded, next_items)
    is_step = torch.from_numpy(padded.is_filled()[:, 1:]).to(device)
    states = net.states(torch.from_numpy(padded.items[:, :-1]).to(device))[is_step]
    mean, log_variance = net.posterior(states)
    z = mean + torch.randn_like(mean) * (0.5 * log_variance if most is None else log_variance).exp()
    loss = multinomial_loss(
        net.hidden(z),
        net.output.weight,
        net.output.bias,
        torch.from_numpy(items).to(device),
        torch.from_numpy(weights).to(z),
    )
    kl = divergence(mean, log_variance)
    if most is None:
        return loss + beta * kl.mean()
    n = len(padded.users)
    token = torch.tensor([[net.output.out_features]], device=device)
    start = divergence(*net.posterior(net.states(token))).sum()
    return loss * len(kl) / n + beta * (kl.sum() + (most * n - len(kl)) * start) / (most * n)
