"""Ratio split: a random fraction of each user's events is the test part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from truerank.core.errors import InvalidParameter, check_choice
from truerank.core.interactions import Interactions
from truerank.core.random import pair_keys
from truerank.core.types import IntArray
from truerank.split.base import CHUNK, TEST, TRAIN, VALID, Parts, Splitter


@dataclass(frozen=True)
class Ratio(Splitter):
    """A random fraction of each user's events is the test part, another the validation part (80/10/10).

    Of a user's L events, floor((1 - test - valid) L) but at least one go to train, the next up to
    floor((1 - test) L) to validation, and the rest to test. Users with one event stay in train. The choice
    depends on the seed, the user and the item only, not on the order of the rows; repeated events of a pair
    go to the same part.

    Parameters
    ----------
    test, valid : fractions; together less than 1
    first : where the first of a user's events in their random order goes: to ``train``, or to ``test``
        besides the last ones, as in the code of [sachdeva2022]_, so that everybody has a target: of 3 events
        1 is train and 2 are test, and users with 1 or 2 events have no train event

    Examples
    --------
    >>> events = Interactions.from_codes([0] * 10 + [1], [*range(10), 0])
    >>> split = Ratio().split(events)
    >>> len(split.train), len(split.valid), len(split.test), split.counts["users_without_targets"]
    (9, 1, 1, 1)
    """

    key: ClassVar[str] = "ratio"
    needs_time: ClassVar[bool] = False
    test: float = 0.1
    valid: float = 0.1
    first: Literal["train", "test"] = "train"

    def __post_init__(self) -> None:
        check_fractions(self.test, self.valid)
        check_choice("first", self.first, ("train", "test"))

    def assign(self, interactions: Interactions, seed: int) -> Parts:
        """Compare each event's random key with the user's two thresholds."""
        counts = interactions.user_counts()
        n_train = _floor_of(1 - self.test - self.valid, counts)
        if self.first == "train":
            n_train = np.maximum(n_train, np.minimum(counts, 1))
        n_known = np.maximum(_floor_of(1 - self.test, counts), n_train)
        bits = np.uint64(max(interactions.n_users - 1, 1).bit_length())

        def keys_of(block: slice) -> NDArray[np.uint64]:
            user, item = interactions.user[block], interactions.item[block]
            return user.astype(np.uint64) << (np.uint64(64) - bits) | (
                pair_keys(seed, "split/ratio", user, item) >> bits
            )

        keys = np.empty(len(interactions), dtype=np.uint64)
        blocks = [slice(start, start + CHUNK) for start in range(0, len(keys), CHUNK)]
        for block in blocks:
            keys[block] = keys_of(block)
        keys.sort()  # users in order, the keys of each ascending
        starts = np.cumsum(counts) - counts
        last_train = keys[np.maximum(starts + n_train - 1, 0)]
        last_known = keys[np.maximum(starts + n_known - 1, 0)]
        first = keys[np.minimum(starts, len(keys) - 1)]
        parts = np.full(len(interactions), TRAIN, dtype=np.uint8)
        for block in blocks:
            user, block_keys = interactions.user[block], keys_of(block)
            parts[block][block_keys > last_train[user]] = VALID
            parts[block][block_keys > last_known[user]] = TEST
            if self.first == "test":
                parts[block][block_keys == first[user]] = TEST
        return parts


def check_fractions(test: float, valid: float) -> None:
    """Raise unless 0 < test, 0 <= valid and test + valid < 1."""
    if not (test > 0 and valid >= 0 and test + valid < 1):
        raise InvalidParameter(
            f"test must be greater than 0, valid at least 0 and their sum less than 1, "
            f"got test={test} and valid={valid}."
        )


def _floor_of(fraction: float, counts: IntArray) -> IntArray:
    whole: IntArray = np.floor(fraction * counts + 1e-9).astype(np.int64)  # 0.7 * 10 must be 7
    return whole
