"""Shares of histories: what exact shares and the published code's ceilings do to short ones."""

from __future__ import annotations

import numpy as np
import pytest

from truerank.core.interactions import Interactions
from truerank.subsampling.base import STRATEGIES
from truerank.subsampling.subsample import select_events


def short_histories() -> Interactions:
    """20,000 users with geometric histories of 1, 2, ... train events, 2.1 on average."""
    stays = 1 - 1 / 2.1
    lengths = np.floor(np.log1p(-(np.arange(20_000) + 0.5) / 20_000) / np.log(stays)).astype(np.int64) + 1
    user = np.repeat(np.arange(len(lengths)), lengths)
    item = np.arange(len(user)) % 997
    return Interactions.from_codes(user, item, time=np.arange(len(user)))


@pytest.mark.parametrize("name", ["stratified", "temporal"])
@pytest.mark.parametrize(
    ("fraction", "legacy_share"),
    [(0.8, 0.50), (0.6, 0.37), (0.4, 0.17), (0.2, 0.04), (0.1, 0.001), (0.01, 0)],
)
def test_ceilings_keep_far_less_than_asked(name: str, fraction: float, legacy_share: float) -> None:
    """The specification's figures for mean history 4.1, of which two events are held out."""
    train = short_histories()
    small = select_events(train, f"{name}(legacy=true)", fraction)
    assert len(small.train) / len(train) == pytest.approx(legacy_share, abs=0.006)
    if fraction == 0.8:
        assert small.loss.users_emptied / train.n_users == pytest.approx(0.48, abs=0.005)
    assert len(select_events(train, name, fraction).train) == round(fraction * len(train))


def test_recent_events_are_kept() -> None:
    events = Interactions.from_codes(
        [0] * 5 + [1] * 5, [*range(5), *range(5)], time=np.array([*range(10)][::-1])
    )
    mask = STRATEGIES.make("temporal").keep(events, 0.4)
    assert mask.tolist() == [True, True, False, False, False] * 2


def test_legacy_at_a_fraction_that_floats_do_not_hold() -> None:
    """1 - 0.7 is more than 0.3 in floating point; of ten events three go, not four."""
    events = Interactions.from_codes([0] * 10, list(range(10)))
    assert STRATEGIES.make("stratified(legacy=true)").keep(events, 0.7).sum() == 7


@pytest.mark.parametrize("name", ["stratified", "temporal"])
def test_long_data_take_the_compiled_path(name: str) -> None:
    """200,000 events of 300 users: each user keeps its share to within one event."""
    draw = np.random.default_rng(1)
    user, item = draw.integers(0, 300, 200_000), draw.integers(0, 500, 200_000)
    events = Interactions.from_codes(user, item, n_users=300, time=draw.integers(0, 10**6, 200_000))
    kept = select_events(events, name, 0.123).train
    assert len(kept) == 24_600
    assert np.abs(kept.user_counts() - 0.123 * events.user_counts()).max() < 1
