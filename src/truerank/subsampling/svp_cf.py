"""SVP-CF: keep the events, users or items that a proxy model predicts worst.

`SvpCf` chooses by the importance of events for a proxy, `SvpCfProp` by importance divided by the propensity
of an event: the probability that it was observed, which grows with the frequencies of its user and item.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

import numpy as np

from truerank.core.errors import check_above, check_at_least, check_choice
from truerank.core.interactions import Interactions
from truerank.core.plugin import Source
from truerank.core.progress import Progress, tracked
from truerank.core.types import BoolArray, FloatArray, IntArray
from truerank.subsampling.base import ProxyStrategy, largest_count, nearest_count
from truerank.subsampling.selection import (
    EventKeys,
    chunks,
    descending_order,
    keep_largest,
    mean_of_each,
    unit_keys,
)
from truerank.subsampling.units import keep_units

Variant: TypeAlias = Literal["paper", "repo"]
Unit: TypeAlias = Literal["interaction", "user", "item"]

A, B = 0.55, 1.5  # of [jain2016]_, for data of which nothing else is known


def inverse_propensity(frequency: IntArray, n: int, *, a: float = A, b: float = B) -> FloatArray:
    r"""Return the inverse propensity 1 / p of users or items from their numbers of events.

    .. math:: 1 / p = 1 + C (N + B)^{-A}, \quad C = \max(\log n - 1, 0) (B + 1)^A

    Parameters
    ----------
    frequency : events of each user or item (N)
    n : the number of users, items or events that C grows with
    a, b : exponent A and offset B of the frequency

    Notes
    -----
    Eq. of Sec. 3.3 in [sachdeva2021]_, after [jain2016]_. At :math:`n \le e` the printed C is negative and
    p would be more than 1; here it is 0 and p is 1.

    Examples
    --------
    >>> inverse_propensity(np.array([1, 100]), 1000).round(3).tolist()
    [6.908, 1.77]
    >>> inverse_propensity(np.array([1, 100]), 2).tolist()
    [1.0, 1.0]
    """
    c = max(math.log(n) - 1, 0.0) * (b + 1) ** a if n > 0 else 0.0
    return np.asarray(1 + c * (np.asarray(frequency) + b) ** -a)


def inverse_propensities(
    train: Interactions, *, unit: Unit = "interaction", variant: Variant = "paper", a: float = A, b: float = B
) -> FloatArray:
    """Return the inverse propensity 1 / p of each event.

    Parameters
    ----------
    train : the events; users and items without any do not count
    unit : what is kept as a whole
    variant : paper multiplies the values of user and item, each with C from the number of users or items.
        repo, as the published code does, takes C from the number of events and the larger one of the two
        values; that of the user alone where users are kept (of the item where items are)
    a, b : see `inverse_propensity`

    Examples
    --------
    >>> events = Interactions.from_codes([0, 0, 1, 2, 3], [0, 1, 0, 2, 3])
    >>> inverse_propensities(events).round(3).tolist()
    [1.745, 1.831, 1.831, 1.922, 1.922]
    """
    counts = train.user_counts(), train.item_counts()
    sizes = [
        int(np.count_nonzero(frequencies)) if variant == "paper" else len(train) for frequencies in counts
    ]
    of_user, of_item = (
        inverse_propensity(frequencies, n, a=a, b=b) for frequencies, n in zip(counts, sizes, strict=True)
    )
    weights = np.empty(len(train))
    for block in chunks(len(train)):
        user, item = of_user[train.user[block]], of_item[train.item[block]]
        if variant == "paper":
            weights[block] = user * item
        else:
            weights[block] = {"interaction": np.maximum(user, item), "user": user, "item": item}[unit]
    return weights


@dataclass(frozen=True)
class SvpCf(ProxyStrategy):
    r"""The events that a proxy model, trained on all of them, predicts worst.

    The importance of an event is the error of the proxy at it, averaged over the epochs of its training.
    With :math:`\mathcal P_e` the proxy after epoch e, for explicit and for implicit feedback

    .. math:: \Delta(u, i) = \frac1E \sum_e (\mathcal P_e(u, i) - r_{ui})^2, \qquad
              \Delta(u, i) = \frac1{E m} \sum_e \sum_{j \sim I_u^-}
              \mathbb 1 [\mathcal P_e(u, j) > \mathcal P_e(u, i)]

    The importance of a user or item is the mean over its events. The most important are kept, among equal
    ones random ones.

    Parameters
    ----------
    proxy : mf or bias (biases alone) with the paper's settings, which may be changed as in
        ``mf(factors=20, epochs=30)``; or the spec of another model that trains in epochs
    feedback : explicit (ratings) or implicit (also for sequences)
    negatives : m, items the user has not met that each event is compared with; sampled anew in every epoch,
        for implicit feedback
    auc : complement, as above: one minus the AUC; inverse: the formula as printed, see Notes
    legacy : score events in training mode, before the step that learns from them, as the published code does;
        by default the proxy scores them after each epoch, as the paper says
    unit : keep single events (interaction), or all events of a user or item
    exact : as in ``random-user``; for single events the number is rounded to the nearest integer, or down

    Notes
    -----
    Sec. 3.3 of [sachdeva2021]_. It prints :math:`1 / \mathbb 1[\mathcal P_e(u, i) > \mathcal P_e(u, j)]` for
    implicit feedback, which is infinite as soon as one negative is not beaten; the published code counts the
    negatives ranked above the event, ties in favour of the event, as is done here. With ``auc=inverse`` the
    printed formula is used: events with an infinite importance come first, in random order, then the others,
    in random order.

    A user who has met all items has no negatives; the importance of such a user's events is 0.

    Examples
    --------
    >>> import numpy as np
    >>> events = Interactions.from_codes([0, 0, 1, 1], [0, 1, 0, 1])
    >>> importance = np.array([0.1, 0.2, 0.0, 0.4])
    >>> SvpCf().keep_by(events, importance, 0.5).tolist()
    [False, True, False, True]
    >>> SvpCf(unit="user").keep_by(events, importance, 0.5).tolist()
    [False, False, True, True]
    """

    key: ClassVar[str] = "svp-cf"
    source: ClassVar[Source] = Source("sachdeva2021", "Sec. 3.3, SVP-CF")

    unit: Unit = "interaction"
    exact: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("unit", self.unit, ("interaction", "user", "item"))

    def choose_by(
        self, train: Interactions, importance: FloatArray, fraction: float, seed: int, progress: Progress
    ) -> BoolArray:
        """Keep the events, users or items of largest importance."""
        stage = f"subsample/{self.key}"
        keys = EventKeys(train, seed, stage)
        with tracked(progress, f"choosing by {self.unit}"):
            scores = self.weigh(train, importance)
            if self.unit == "interaction":
                return keep_largest(
                    scores, (nearest_count if self.exact else largest_count)(fraction, len(train)), keys
                )
            side = int(self.unit == "item")
            codes, n_units = ((train.user, train.n_users), (train.item, train.n_items))[side]
            position = descending_order(
                mean_of_each(codes, n_units, scores), unit_keys(seed, stage, n_units, side)
            )
            return keep_units(train, codes, position, fraction, keys, exact=self.exact)

    def weigh(self, train: Interactions, importance: FloatArray) -> FloatArray:
        """Return the importance to choose by."""
        return importance


@dataclass(frozen=True)
class SvpCfProp(SvpCf):
    r"""The events that a proxy model predicts worst, rare users and items weighted up.

    The importance of `SvpCf` is divided by the propensity of the event: the probability that it was observed,
    which is small for users and items with few events.

    .. math:: I_p(u, i) = \Delta(u, i) / p_{ui}, \qquad p_{ui} = p_u p_i, \qquad
              1 / p_u = 1 + C_u (N_u + B)^{-A}

    Parameters
    ----------
    proxy, feedback, negatives, auc, legacy, unit, exact : see `SvpCf`
    variant : paper, as above with :math:`C_u = (\log |U| - 1) (B + 1)^A` and items likewise; repo, as the
        published code does: C from the number of events, and :math:`1 / p_{ui}` the larger one of user's and
        item's (that of the unit alone where users or items are kept)
    a, b : A and B

    Notes
    -----
    Propensities are those of [jain2016]_. If they were the true probabilities, sums of weighted importance
    would be unbiased for the sums over all events that could have been observed (Prop. 3.1); that holds for
    the product, not for the maximum. :math:`|U|` and :math:`|I|` count users and items that have events; with
    fewer than three the propensity is 1.

    Examples
    --------
    >>> import numpy as np
    >>> events = Interactions.from_codes([0, 0, 0, 1, 2], [0, 1, 2, 1, 2])
    >>> SvpCfProp().keep_by(events, np.full(5, 0.1), 0.4).tolist()  # of users with one event
    [False, False, False, True, True]
    """

    key: ClassVar[str] = "svp-cf-prop"
    source: ClassVar[Source] = Source("sachdeva2021", "Sec. 3.3, SVP-CF-Prop")

    variant: Variant = "paper"
    a: float = A
    b: float = B

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("variant", self.variant, ("paper", "repo"))
        check_at_least("a", self.a, 0)
        check_above("b", self.b, 0)

    def weigh(self, train: Interactions, importance: FloatArray) -> FloatArray:
        """Return the importance divided by the propensities."""
        weights = inverse_propensities(train, unit=self.unit, variant=self.variant, a=self.a, b=self.b)
        weights *= importance
        return weights
