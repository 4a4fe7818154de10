"""Worlds against the method hold what they say, and a method that overlooks what draws show is found out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.hidden_items import (
    LEVEL,
    N_USERS,
    PRECISION,
    Case,
    exact_means,
    make_world,
    run_once,
    share_of,
)
from truerank.core.types import FloatArray, IntArray
from truerank.workflows.precision.model_values import AskedModel

CASE = Case(hits=0.9, n_hidden=5, fall=1.3)


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_hidden_items_are_above_targets_and_all_else_is_as_the_proxy_says(share: float) -> None:
    split, proxy, slow = make_world(CASE, share, seed=3)
    changed = slow != proxy
    n_hidden = changed.sum(axis=1)
    assert set(n_hidden.tolist()) <= {0, CASE.n_hidden}
    assert np.mean(n_hidden > 0) == pytest.approx(share, abs=0.1)
    target = proxy[split.test.user, split.test.item]
    rank = 1 + ((proxy > target[:, None]).sum(axis=1))
    assert (slow[changed] > target.max()).all()
    assert not changed[split.test.user, split.test.item].any()
    assert not changed[split.train.user, split.train.item].any()
    assert np.mean(rank <= 10) < CASE.hits + 0.1
    assert exact_means(proxy, split)[0] == pytest.approx(CASE.hits, abs=0.06)


def test_the_mean_falls_as_far_as_the_case_says() -> None:
    falls = []
    for seed in range(10):
        split, proxy, slow = make_world(CASE, share_of(CASE), seed)
        falls.append(exact_means(proxy, split) - exact_means(slow, split))
    assert np.mean(falls, axis=0).max() == pytest.approx(2 * PRECISION * CASE.fall, rel=0.15)
    assert N_USERS >= 300  # so that the falls of single worlds are near their mean


def test_intervals_that_overlook_what_draws_show_miss(monkeypatch: pytest.MonkeyPatch) -> None:
    # twice what the widest interval spans: hidden items that screening meets by chance leave enough of it
    far = replace(CASE, fall=2.0)
    share = share_of(far)
    runs = [run_once(far, share, seed) for seed in range(6)]
    assert all(0 < run["share"] < 0.5 for run in runs)
    assert sum(run["missed"][0] for run in runs) <= 3  # one in five may; the benchmark counts many runs

    def nothing(self: AskedModel, row: IntArray, *_: FloatArray) -> FloatArray:
        return np.zeros((len(row), len(self.metrics)))

    monkeypatch.setattr(AskedModel, "ask_parts", nothing)
    blind = [run_once(far, share, seed) for seed in range(6)]
    assert all(run["missed"][0] for run in blind)
    assert np.mean([run["capital"] for run in blind], axis=0)[0] > 1 / (
        1 - LEVEL
    )  # bets against the truth win
