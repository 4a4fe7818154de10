"""Biases of users and items alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from truerank.core.plugin import Source
from truerank.models.factor_training import FactorLoss, FactorModel, FactorSettings


@dataclass(frozen=True)
class BiasOnly(FactorModel):
    r"""A bias per user and per item: every user has the same order of items.

    .. math:: \hat y_{ui} = \alpha + \beta_u + \beta_i

    ``loss=mse`` learns ratings. ``loss=bpr`` learns from events, each against one item the user has not met;
    alpha and the users' biases cancel, and the order it finds is close to popularity.

    Parameters
    ----------
    loss : bpr or mse
    epochs : largest number of epochs; without validation all are run
    batch : events per step
    learning_rate, weight_decay, beta2 : of Adam; the decay is coupled, an L2 term on all parameters
    offset : where alpha starts under mse
    patience : validations without an improvement before training stops
    every, first : epochs between validations, and an epoch to validate besides (0: none)

    Notes
    -----
    The model and its training are those of [sachdeva2022]_ (preset ``s21-bias-only``). Users without events
    get the items' biases (plus alpha under mse); items without events have bias 0 under mse and are
    trained as negatives under bpr.

    Examples
    --------
    >>> from truerank.core.interactions import Interactions
    >>> train = Interactions.from_codes([0, 0, 1], [0, 1, 0])
    >>> fitted = BiasOnly(epochs=1).fit(train)
    >>> fitted.user.shape, fitted.item.shape
    ((2, 1), (2, 1))
    """

    key: ClassVar[str] = "bias-only"
    source: ClassVar[Source | None] = Source("sachdeva2022", "App. B")

    loss: FactorLoss = "bpr"
    epochs: int = 10
    batch: int = 1024
    learning_rate: float = 0.006
    weight_decay: float = 1e-6
    beta2: float = 0.98
    offset: float = 4.0
    patience: int = 5
    every: int = 1
    first: int = 0

    def settings(self) -> FactorSettings:
        """Return the hyper-parameters of the training."""
        return FactorSettings(
            self.key,
            loss=self.loss,
            batch=self.batch,
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            beta2=self.beta2,
            offset=self.offset,
        )
