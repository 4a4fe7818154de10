"""Matrix factorisation by gradient steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from truerank.core.plugin import Source
from truerank.models.checks import check_count, check_rate
from truerank.models.factor_training import FactorLoss, FactorModel, FactorSettings


@dataclass(frozen=True)
class MF(FactorModel):
    r"""Factors and biases, learnt from pairs or from ratings by mini-batches.

    .. math:: \hat y_{ui} = \alpha + \beta_u + \beta_i + \gamma_u^\top \gamma_i

    ``loss=bpr`` takes events as preferences over one item the user has not met, sampled in every epoch:
    :math:`-\log \sigma(\hat y_{ui} - \hat y_{uj})`, averaged; alpha and the user's bias cancel. ``loss=mse``
    takes the values of the events as ratings, and scores are predicted ratings. Ranks through factors.

    Parameters
    ----------
    loss : bpr or mse
    factors : d >= 1
    epochs : largest number of epochs; without validation all are run
    batch : events per step
    learning_rate, weight_decay, beta2 : of Adam; the decay is coupled, an L2 term on all parameters
    dropout : probability that an entry of either vector is dropped while training
    offset : where alpha starts under mse
    patience : validations without an improvement before training stops
    every, first : epochs between validations, and an epoch to validate besides (0: none)

    Notes
    -----
    BPR is [rendle2009]_; the mini-batch form with Adam, dropout and Xavier's start is the one of
    [sachdeva2022]_ (preset ``s21-mf``). Compiled, on one thread: a fit depends on the seed alone, not on the
    order of events. Repeated pairs count once under bpr, as often as they come under mse. Users without train
    events have a zero vector and get the items' biases. Items without events have, under mse, zero
    parameters; under bpr they are trained as negatives.

    Examples
    --------
    >>> from truerank.core.interactions import Interactions
    >>> train = Interactions.from_codes([0, 0, 1], [0, 1, 0])
    >>> fitted = MF(factors=2, epochs=1).fit(train)
    >>> fitted.user.shape, fitted.item.shape
    ((2, 2), (2, 2))
    """

    key: ClassVar[str] = "mf"
    source: ClassVar[Source | None] = Source("rendle2009", "Sec. 4.3.1")

    loss: FactorLoss = "bpr"
    factors: int = 64
    epochs: int = 40
    batch: int = 1024
    learning_rate: float = 0.001
    weight_decay: float = 0.0
    beta2: float = 0.999
    dropout: float = 0.0
    offset: float = 4.0
    patience: int = 5
    every: int = 1
    first: int = 0

    def __post_init__(self) -> None:
        check_count("factors", self.factors, 1)
        check_rate("dropout", self.dropout)
        super().__post_init__()

    def settings(self) -> FactorSettings:
        """Return the hyper-parameters of the training."""
        return FactorSettings(
            self.key,
            loss=self.loss,
            factors=self.factors,
            batch=self.batch,
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            beta2=self.beta2,
            dropout=self.dropout,
            offset=self.offset,
        )
