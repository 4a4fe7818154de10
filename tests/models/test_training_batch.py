"""Events, negatives and batches of models that are trained in epochs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from tests.models.literal import small_train
from truerank.core import parallel as threads
from truerank.core.errors import InvalidData
from truerank.core.interactions import Interactions
from truerank.models import training as batch
from truerank.models.training import distinct_pairs, rated_events, sample_negatives, shuffled_batches


@settings(deadline=None)  # the first call compiles
@given(seed=st.integers(0, 1000), n_negatives=st.integers(1, 5))
def test_negatives_are_items_the_user_has_not_met(seed: int, n_negatives: int) -> None:
    train = small_train(seed)
    user, _ = distinct_pairs(train)
    drawn = sample_negatives(train.by_user(), train.n_items, user, n_negatives, np.random.default_rng(seed))
    assert drawn.shape == (len(user), n_negatives)
    assert drawn.min() >= 0
    assert drawn.max() < train.n_items
    assert train.matrix().toarray()[np.repeat(user, n_negatives), drawn.ravel()].sum() == 0


def test_a_user_who_met_everything_gets_any_items() -> None:
    train = Interactions.from_codes([0, 0, 0, 1], [0, 1, 2, 0])
    drawn = sample_negatives(train.by_user(), 3, np.zeros(200, np.int64), 1, np.random.default_rng(0))
    assert set(drawn.ravel().tolist()) == {0, 1, 2}


def test_negatives_do_not_depend_on_threads_or_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    train = small_train(n_users=300)
    user, _ = distinct_pairs(train)
    expected = sample_negatives(train.by_user(), train.n_items, user, 3, np.random.default_rng(5))
    monkeypatch.setattr(batch, "_BLOCK", 7)
    for n_threads in (1, 3):
        monkeypatch.setattr(threads, "available_threads", lambda n=n_threads: n)
        again = sample_negatives(train.by_user(), train.n_items, user, 3, np.random.default_rng(5))
        assert np.array_equal(again, expected)


def _uniformity(drawn: np.ndarray, allowed: np.ndarray) -> float:
    counts = np.bincount(drawn, minlength=allowed.max() + 1)[allowed]
    return float(chisquare(counts).pvalue)


@pytest.mark.stat
def test_negatives_are_uniform() -> None:
    """60,000 draws over 17 items: finds an item 10 % too rare with more than 99 %."""
    train = Interactions.from_codes([0, 0, 0], [1, 4, 19], n_items=20)
    drawn = sample_negatives(
        train.by_user(), 20, np.zeros(20_000, np.int64), 3, np.random.default_rng(0)
    ).ravel()
    allowed = np.setdiff1d(np.arange(20), [1, 4, 19])
    assert _uniformity(drawn, allowed) > 1e-6
    kept = np.random.default_rng(1).random(len(drawn)) < 0.85  # negative control: item 7 a little too rare
    assert _uniformity(drawn[(drawn != 7) | kept], allowed) < 1e-6


def test_pairs_and_ratings_do_not_depend_on_the_order_of_events() -> None:
    rng = np.random.default_rng(0)
    user, item, value = (
        rng.integers(5, size=40),
        rng.integers(6, size=40),
        rng.integers(1, 6, 40).astype(float),
    )
    order = rng.permutation(40)
    one = Interactions.from_codes(user, item, value=value)
    other = Interactions.from_codes(user[order], item[order], value=value[order])
    for mine, theirs in zip(distinct_pairs(one), distinct_pairs(other), strict=True):
        assert np.array_equal(mine, theirs)
    for left, right in zip(rated_events("mf", one), rated_events("mf", other), strict=True):
        assert np.array_equal(left, right)
    assert len(rated_events("mf", one)[0]) == 40
    assert len(distinct_pairs(one)[0]) == len(set(zip(user.tolist(), item.tolist(), strict=True)))


def test_ratings_need_values() -> None:
    with pytest.raises(
        InvalidData, match=r"mf with loss=mse learns ratings, but the data have no values\. Read"
    ):
        rated_events("mf", small_train())


@given(n=st.integers(1, 50), size=st.integers(1, 60))
def test_batches_cover_every_event_once(n: int, size: int) -> None:
    cut = list(shuffled_batches(n, size, np.random.default_rng(0)))
    assert sorted(np.concatenate(cut).tolist()) == list(range(n))
    assert all(len(rows) == size for rows in cut[:-1])
