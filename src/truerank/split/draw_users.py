"""A random subset of the test users."""

from __future__ import annotations

import math
import numbers
from dataclasses import replace

import numpy as np

from truerank.core.errors import InvalidData, InvalidParameter
from truerank.core.split import Split
from truerank.core.stream import pair_keys


def draw_users(split: Split, users: int | float, *, seed: int = 0) -> Split:
    """Return the split with the targets of some test users only, drawn uniformly without replacement.

    Train and validation stay as they are. The users drawn for a smaller number are among those drawn for a
    larger one with the same seed.

    Parameters
    ----------
    split : what to draw from
    users : how many (an integer >= 1), or their share (a number below 1, rounded up to whole users)
    seed : of the draw

    Raises
    ------
    InvalidParameter
        When the number is not one of these or exceeds the test users.

    Examples
    --------
    >>> from truerank.core.interactions import Interactions
    >>> train = Interactions.from_codes([0, 1, 2, 3], [0, 0, 0, 0], n_items=2)
    >>> test = Interactions.from_codes([0, 1, 2, 3], [1, 1, 1, 1], n_items=2)
    >>> some = draw_users(Split(train, test), 0.5)
    >>> len(some.test), some.n_test_users
    (2, 4)
    """
    if split.n_test_users is not None:
        raise InvalidData("users were drawn from this split already. Draw from the split of all test users.")
    codes = np.flatnonzero(split.test.user_counts())
    size = _size(users, len(codes))
    keys = pair_keys(seed, "draw-users", codes, np.zeros_like(codes))
    is_drawn = np.zeros(split.test.n_users, dtype=np.bool_)
    is_drawn[codes[np.argsort(keys, kind="stable")[:size]]] = True
    return replace(split, test=split.test.where(is_drawn[split.test.user]), n_test_users=len(codes))


def _size(users: int | float, n_users: int) -> int:
    is_number = isinstance(users, numbers.Real) and not isinstance(users, bool | np.bool_)
    if is_number and 0 < users < 1:
        return max(math.ceil(users * n_users - 1e-9), 1)
    if not is_number or not users >= 1 or users != int(users):
        raise InvalidParameter(
            f"users must be an integer >= 1 or a share between 0 and 1, got {users!r}. Write 0.1 for a tenth."
        )
    if users > n_users:
        raise InvalidParameter(
            f"users must be at most the {n_users:,} users that have targets, got {int(users):,}. Lower it."
        )
    return int(users)
