"""How likely an event that could have been seen was seen, by how often its user and item occur."""

from __future__ import annotations

import math
from typing import Literal, TypeAlias

import numpy as np

from truerank.core.interactions import Interactions
from truerank.core.types import FloatArray, IntArray
from truerank.subsample.key import chunks

Variant: TypeAlias = Literal["paper", "repo"]
Unit: TypeAlias = Literal["interaction", "user", "item"]

A, B = 0.55, 1.5  # of [jain2016]_, for data of which nothing else is known


def inverse_propensity(frequency: IntArray, n: int, *, a: float = A, b: float = B) -> FloatArray:
    r"""Return 1 / p of users or items that occur so often.

    .. math:: 1 / p = 1 + C (N + B)^{-A}, \quad C = \max(\log n - 1, 0) (B + 1)^A

    Parameters
    ----------
    frequency : events of each user or item (N)
    n : the number that C grows with
    a, b : how fast propensities grow with the frequency, and from where

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
    """Return 1 / p of each event.

    Parameters
    ----------
    train : the events; users and items without any do not count
    unit : what will be kept as a whole
    variant : paper multiplies those of user and item, each with C from the number of users or items. repo, as
        the published code does, takes C from the number of events and of the two the larger one; that of the
        user alone where users are kept (of the item where items are)
    a, b : see `inverse_propensity`

    Examples
    --------
    >>> events = Interactions.from_codes([0, 0, 1, 2, 3], [0, 1, 0, 2, 3])
    >>> inverse_propensities(events).round(3).tolist()
    [1.745, 1.831, 1.831, 1.922, 1.922]
    """
    counts = train.user_counts(), train.item_counts()
    sizes = [int(np.count_nonzero(one)) if variant == "paper" else len(train) for one in counts]
    of_user, of_item = (inverse_propensity(one, n, a=a, b=b) for one, n in zip(counts, sizes, strict=True))
    weights = np.empty(len(train))
    for block in chunks(len(train)):
        user, item = of_user[train.user[block]], of_item[train.item[block]]
        if variant == "paper":
            weights[block] = user * item
        else:
            weights[block] = {"interaction": np.maximum(user, item), "user": user, "item": item}[unit]
    return weights
