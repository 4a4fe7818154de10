"""Last-basket split: everything that a user did in the last basket, session or day is the test part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from truerank.core.errors import InvalidData, InvalidParameter, check_at_least
from truerank.core.interactions import Interactions
from truerank.core.types import AnyArray, BoolArray, IntArray
from truerank.split.base import TEST, TRAIN, VALID, Parts, Splitter, times_of
from truerank.split.last_days import SECONDS, check_seconds, check_unit


@dataclass(frozen=True)
class LastBasket(Splitter):
    """Each user's last n baskets are the test, the n before them perhaps the validation.

    A basket is never divided, so that no model sees a part of what was bought together. It is what a user did
    at one time, unless one of the parameters says otherwise. Users with up to n baskets stay in train, those
    with up to 2 n give no validation event.

    Parameters
    ----------
    n : baskets per user and part
    valid : whether to make a validation part
    session : a column whose label says which basket an event belongs to, such as an invoice number; of a
        user's baskets the one whose last event is latest is the last. Empty: baskets go by time
    gap : seconds without an event that end a basket, such as 1800 for sessions of visitors; 0: a basket is
        one time
    unit : ``hour``, ``day`` or ``week`` puts all events of a user in one of these (UTC) into one basket;
        empty: a basket is one time

    Examples
    --------
    >>> events = Interactions.from_codes([0, 0, 0, 0], [0, 1, 2, 3], time=np.array([1, 5, 9, 9]))
    >>> LastBasket().split(events).test.item.tolist()
    [2, 3]
    >>> str(LastBasket(unit="day"))
    'last-basket(unit=day)'
    """

    key: ClassVar[str] = "last-basket"
    n: int = 1
    valid: bool = False
    session: str = ""
    gap: float = 0.0
    unit: str = ""

    def __post_init__(self) -> None:
        check_at_least("n", self.n, 1)
        if not self.gap >= 0:
            raise InvalidParameter(f"gap must be a number of seconds >= 0, got {self.gap}.")
        if self.unit:
            check_unit(self.unit)
        if sum((bool(self.session), self.gap > 0, bool(self.unit))) > 1:
            raise InvalidParameter(f"a basket has one meaning: give session, gap or unit, got {str(self)!r}.")

    @property
    def columns(self) -> tuple[str, ...]:
        """The column of sessions, if one is named."""
        return (self.session,) if self.session else ()

    def assign(self, interactions: Interactions, seed: int) -> Parts:
        """Compare the number of each event's basket, counted from the user's last one, with n."""
        time = times_of(interactions, str(self), "leave-one-out")
        if self.unit:
            check_seconds(interactions, time)
        number, count = self._baskets(interactions, time)
        parts = np.full(len(interactions), TRAIN, dtype=np.uint8)
        n_baskets = count[interactions.user]
        parts[(number < self.n) & (n_baskets > self.n)] = TEST
        if self.valid:
            is_valid = (number >= self.n) & (number < 2 * self.n) & (n_baskets > 2 * self.n)
            parts[is_valid] = VALID
        return parts

    def _baskets(self, interactions: Interactions, time: AnyArray) -> tuple[IntArray, IntArray]:
        """Return the number of each event's basket, 0 for the user's last, and how many each user has."""
        user = interactions.user
        if self.session:
            time = self._session_ends(interactions, time)
        order = np.lexsort((time, user))
        if self.session:
            codes = self._sessions(interactions)
            order = np.lexsort((codes, time, user))
        users, times = user[order], time[order]
        begins = np.r_[True, self._is_new(times[1:], times[:-1])] if len(order) else np.empty(0, np.bool_)
        if self.session:
            begins[1:] |= codes[order][1:] != codes[order][:-1]
        begins[1:] |= users[1:] != users[:-1]
        count = np.bincount(users[begins], minlength=interactions.n_users)
        last = np.cumsum(count)[users]  # baskets of this user and all before
        number = np.empty(len(order), dtype=np.int64)
        number[order] = last - np.cumsum(begins)
        return number, count

    def _is_new(self, times: AnyArray, before: AnyArray) -> BoolArray:
        if self.unit:
            length, shift = SECONDS[self.unit]
            return np.asarray((times - shift) // length != (before - shift) // length)
        if self.gap:
            return np.asarray(times.astype(np.float64) - before > self.gap)
        return np.asarray(times != before)

    def _sessions(self, interactions: Interactions) -> IntArray:
        if self.session not in interactions.labels:
            raise InvalidData(
                f"split {str(self)!r} needs the column {self.session!r}, but {interactions.name!r} was read "
                f"without it. Read it with keep=[{self.session!r}]."
            )
        _, codes = np.unique(np.asarray(interactions.labels[self.session]).astype(str), return_inverse=True)
        return np.asarray(codes, dtype=np.int64)

    def _session_ends(self, interactions: Interactions, time: AnyArray) -> AnyArray:
        """Return for each event the last time of its session, by which sessions are ordered."""
        codes = self._sessions(interactions)
        pair = interactions.user.astype(np.int64) * (int(codes.max(initial=0)) + 1) + codes
        _, pair = np.unique(pair, return_inverse=True)
        ends = np.full(int(pair.max(initial=-1)) + 1, time.min(initial=0), dtype=time.dtype)
        np.maximum.at(ends, pair, time)
        return np.asarray(ends[pair])
