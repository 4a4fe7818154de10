"""Multi-VAE: a variational autoencoder over histories."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from truerank.core.errors import check_choice
from truerank.core.interactions import Interactions, Lists
from truerank.core.plugin import Source
from truerank.core.types import FloatArray, IntArray, frozen
from truerank.models.checks import check_count, check_rate
from truerank.models.torch_training import (
    AnnealedModel,
    EncodedFactors,
    ModuleTraining,
    TorchParts,
    normal_noise,
    to_numpy,
)
from truerank.models.training import shuffled_batches

if TYPE_CHECKING:
    import torch

    from truerank.models.nets.autoencoder import Autoencoder, History


_USERS = 1024  # encoded at a time


@dataclass(frozen=True)
class MultiVAE(AnnealedModel[EncodedFactors]):
    r"""Autoencoder of histories with a latent normal and a multinomial over the catalogue.

    .. math:: \hat y_u = W \tanh(A \mu_u + a) + b, \quad
              L_u = -\sum_{i \in H_u} \log \mathrm{softmax}(\hat y_u(z))_i
                    + \beta\, \mathrm{KL}(N(\mu_u, \sigma_u^2) \,\|\, N(0, 1))

    with :math:`z \sim N(\mu_u, \sigma_u^2)` and :math:`\mu_u, \sigma_u` from one hidden layer over the
    L2-normalised history, of which ``dropout`` is dropped while training. The last layer is a dot product, so
    it ranks through factors of width ``hidden``; z is its mean then. Costs n_users n_items hidden operations
    per epoch.

    Parameters
    ----------
    hidden, latent : widths of the layers: catalogue - hidden - latent - hidden - catalogue
    dropout : probability that an item of the history is dropped in training
    epochs : largest number of epochs; without validation all are run
    batch : users per step
    learning_rate, weight_decay, beta2 : of Adam; the decay is coupled, an L2 term on all parameters
    anneal_cap : beta at its largest
    anneal_start : beta in the first step
    anneal_epochs : epochs over which beta grows from start to cap
    normalise : whether histories are scaled to Euclidean length 1
    variant : liang2018, or s21 as in the code of [sachdeva2022]_: z is sampled while ranking too, its
        standard deviation is the exponential of what the divergence takes for the log variance, and the first
        item of the catalogue stands for the history of users without events, who are trained on
    patience : validations without an improvement before training stops
    every, first : epochs between validations, and an epoch to validate besides (0: none)
    device : auto (a GPU when there is one), cpu, cuda or cuda:1

    Notes
    -----
    [liang2018]_ with its layers, dropout and cap; that work anneals over 200,000 steps of large data, here
    it is a number of epochs. Repeated pairs count once. Users without train events are decoded from
    the encoding of an empty history; items without events are trained as items that no history has. Preset
    ``s21-multi-vae`` has the sizes and weights of [sachdeva2022]_'s code; ``variant=s21`` has the rest of it,
    which ranks worse by design: the noise of a sampled z is noise in the list.

    Examples
    --------
    >>> train = Interactions.from_codes([0, 0, 1], [0, 1, 0])
    >>> fitted = MultiVAE(hidden=4, latent=2, epochs=1, device="cpu").fit(train)
    >>> fitted.user.shape, fitted.item.shape
    ((2, 4), (2, 4))
    """

    key: ClassVar[str] = "multi-vae"
    source: ClassVar[Source | None] = Source("liang2018", "Sec. 2")
    init_stage: ClassVar[str] = "start"

    hidden: int = 600
    latent: int = 200
    dropout: float = 0.5
    epochs: int = 55
    batch: int = 256
    learning_rate: float = 0.001
    weight_decay: float = 0.0
    beta2: float = 0.999
    anneal_cap: float = 0.2
    anneal_start: float = 0.0
    anneal_epochs: int = 40
    normalise: bool = True
    variant: Literal["liang2018", "s21"] = "liang2018"
    patience: int = 10
    every: int = 1
    first: int = 0
    device: str = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("hidden", "latent"):
            check_count(name, getattr(self, name), 1)
        check_rate("dropout", self.dropout)
        check_choice("variant", self.variant, ("liang2018", "s21"))

    @property
    def as_coded(self) -> bool:
        """Whether it is the variant of [sachdeva2022]_'s code."""
        return self.variant == "s21"

    def start(self, train: Interactions, seed: int) -> ModuleTraining[tuple[IntArray, float]]:
        """Return the autoencoder at its start; the scorer is `EncodedFactors` of the last hidden layer."""

        def parts(device: torch.device) -> TorchParts[tuple[IntArray, float]]:
            from truerank.models.nets.autoencoder import Autoencoder, History

            module = Autoencoder(
                train.n_items,
                self.hidden,
                self.latent,
                self.dropout,
                normalise=self.normalise,
                as_coded=self.as_coded,
            ).to(device)
            lists = self.read(train)
            history = History(lists, device)
            active = np.flatnonzero(lists.lengths())
            return TorchParts(
                module,
                batches=lambda rng, number: self._batches(active, rng, number),
                loss=lambda batch: module.loss(*history.of(batch[0]), batch[1]),
                make_scorer=lambda: EncodedFactors(
                    self._encoded(module, history, train.n_users, seed),
                    to_numpy(module.last.weight),
                    to_numpy(module.last.bias),
                    encode=lambda events: self._encoded(
                        module, History(self.read(events), device), events.n_users, seed
                    ),
                ),
            )

        return self.training(parts, seed, self.key)

    def read(self, events: Interactions) -> Lists:
        """Return the histories that are encoded."""
        return never_empty(events.by_user()) if self.as_coded else events.by_user()

    def _encoded(self, module: Autoencoder, history: History, n_users: int, seed: int) -> FloatArray:
        """Return the decoder's hidden vectors of all users."""
        import torch

        noise = normal_noise((n_users, self.latent), seed, self.key) if self.as_coded else None
        user = []
        for first in range(0, n_users, _USERS):
            batch = np.arange(first, min(first + _USERS, n_users))
            z, log_variance = module.encode(*history.of(batch))
            if noise is not None:
                z = module.code(z, log_variance, torch.from_numpy(noise[batch]).to(z))
            user.append(to_numpy(module.decode(z)))
        return frozen(np.concatenate(user))

    def _batches(
        self, users: IntArray, rng: np.random.Generator, number: int
    ) -> Iterator[tuple[IntArray, float]]:
        """Yield users and the weight of the KL term."""
        n_steps = -(-len(users) // self.batch)
        for step, rows in enumerate(shuffled_batches(len(users), self.batch, rng)):
            yield users[rows], self.beta(number - 1 + step / n_steps)


def never_empty(lists: Lists) -> Lists:
    """Return the lists with the first item of the catalogue in those that are empty.

    Examples
    --------
    >>> never_empty(Lists(np.array([0, 0, 2, 2]), np.array([4, 5]))).items.tolist()
    [0, 4, 5, 0]
    """
    is_empty = lists.lengths() == 0
    items = np.insert(lists.items, lists.indptr[:-1][is_empty], 0)
    return Lists(lists.indptr + np.concatenate([[0], np.cumsum(is_empty)]), items)
