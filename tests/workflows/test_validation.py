"""What early stopping watches."""

from __future__ import annotations

import numpy as np
import pytest

from truerank.core.interactions import Interactions
from truerank.core.scorer import as_scorer
from truerank.core.split import Split
from truerank.workflows.fitting import make_validate

TRAIN = Interactions.from_codes([0, 1], [0, 0], n_users=2, n_items=4)
VALID = Interactions.from_codes([0, 1], [1, 1], n_users=2, n_items=4)
TEST = Interactions.from_codes([0, 1], [2, 2], n_users=2, n_items=4)
#: the valid item is second for user 0, behind the test item, and first for user 1
SCORES = as_scorer(np.array([[9.0, 2.0, 3.0, 1.0], [9.0, 3.0, 2.0, 1.0]]))


def test_it_ranks_valid_items_against_all_unseen_ones() -> None:
    validate = make_validate(Split(TRAIN, TEST, VALID), "recall@1")
    assert validate is not None
    assert validate(SCORES) == 0.5


def test_the_default_is_ndcg_at_10() -> None:
    validate = make_validate(Split(TRAIN, TEST, VALID))
    assert validate is not None
    assert validate(SCORES) == pytest.approx((1 + 1 / np.log2(3)) / 2)


def test_seen_items_stay_when_they_are_kept() -> None:
    validate = make_validate(Split(TRAIN, TEST, VALID), "recall@1", seen="keep")
    assert validate is not None
    assert validate(SCORES) == 0.0


def test_without_a_validation_part_there_is_nothing_to_watch() -> None:
    assert make_validate(Split(TRAIN, TEST)) is None
