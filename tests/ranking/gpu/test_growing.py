"""Samples that grow on a device: the negatives and the counts of the CPU, row by row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.ranking.gpu.engines import ENGINES, Where
from tests.ranking.test_sampled import random_split
from truerank.core.errors import DataWarning, InvalidData
from truerank.core.interactions import Interactions
from truerank.core.scorer import Factors
from truerank.core.split import Split
from truerank.ranking.exact import make_queries
from truerank.ranking.gpu import device
from truerank.ranking.gpu import sampled as growing
from truerank.ranking.gpu import sampled as on_gpu
from truerank.ranking.gpu.sampled import DeviceFactors
from truerank.ranking.growing import GrowingNegatives, compare_growing
from truerank.ranking.listed import ListedCounts
from truerank.ranking.negatives import Rows
from truerank.ranking.sampled import sample_ranks
from truerank.ranking.samplers.registry import SAMPLERS

SPECS = [
    "adaptive(start=20, max=160)",
    "adaptive(start=20, max=160, replace=true)",
    "adaptive(start=30, max=1000, while_rank=3)",
    "adaptive(start=200, max=1000, replace=true)",
    "adaptive(start=400, max=600)",
    "adaptive(start=20, max=160, factor=1.5, per=target)",
]
NAMES = ("n_above", "n_tied", "n_negatives", "scores")


def small_split(n_users: int = 40, n_items: int = 500, most_seen: int = 40) -> Split:
    """Return users with 1 to 20 targets; the last ones have seen nearly all items."""
    draw = np.random.default_rng(11)
    parts: list[list[tuple[int, int]]] = [[], []]
    for user in range(n_users):
        n_seen = int(draw.integers(0, most_seen)) if user < n_users - 3 else n_items - 60
        order = draw.permutation(n_items)
        parts[0] += [(user, int(item)) for item in order[:n_seen]]
        parts[1] += [(user, int(item)) for item in order[n_seen : n_seen + 1 + (user * 7) % 20]]
    train, test = (
        Interactions.from_codes(*np.array(part).T, n_users=n_users, n_items=n_items) for part in parts
    )
    return Split(train, test)


def factors_of(split: Split, kind: str) -> Factors:
    """Return factors: real ones, integers that tie a lot, or float64 with a bias."""
    draw = np.random.default_rng(3)
    user, item = (draw.standard_normal((n, 19)) for n in (split.train.n_users, split.train.n_items))
    if kind == "integers":
        return Factors(np.rint(user).astype(np.float32), np.rint(item[:, :]).astype(np.float32))
    if kind == "bias":
        return Factors(user, item, draw.standard_normal(len(item)))
    near = item.astype(np.float32)
    near[::2] = near[1::2]  # copies, some of them one last bit away
    near[::4, 5] = np.nextafter(near[::4, 5], np.float32(np.inf))
    return Factors(user.astype(np.float32), near)


def grown(spec: str, split: Split, **options: Any) -> GrowingNegatives:
    sampler = SAMPLERS.make(spec)
    rows = Rows.of(
        make_queries(split, "remove"), split, per_target=sampler.is_per_target, seed=5, repeat=0, label=""
    )
    negatives = sampler.negatives(split, rows)
    assert isinstance(negatives, GrowingNegatives)
    return negatives


def assert_same(found: ListedCounts, expected: ListedCounts) -> None:
    for name in NAMES:
        assert np.array_equal(getattr(found, name), getattr(expected, name)), name
    assert found.n_scores == expected.n_scores


@pytest.mark.slow
@pytest.mark.parametrize("where", ENGINES)
@pytest.mark.parametrize("kind", ["near", "integers", "bias"])
@pytest.mark.parametrize("spec", SPECS)
def test_equal_to_the_cpu(spec: str, kind: str, where: Where) -> None:
    split = small_split()
    factors, negatives = factors_of(split, kind), grown(spec, split)
    expected = compare_growing(factors, negatives, 1, lambda n: None)
    assert len(set(expected.n_negatives.tolist())) > 1
    done: list[int] = []
    found = compare_growing(
        factors, negatives, 1, done.append, DeviceFactors(factors, negatives.rows, **where)
    )
    assert_same(found, expected)
    assert sum(done) == len(negatives.rows)


@pytest.mark.parametrize("where", ENGINES)
def test_blocks_do_not_matter(where: Where, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few users, few negatives, few blocked items at a time; and lists in place of draws."""
    split = small_split()
    factors, negatives = factors_of(split, "near"), grown("adaptive(start=30, max=400)", split)
    expected = compare_growing(factors, negatives, 1, lambda n: None)
    for name, value in (
        ("USER_CELLS", 19 * 7),
        ("TAKEN", 3000),
        ("BLOCKED", 90),
        ("LONGEST", 64),
        ("LISTED", 900),
        ("TARGETS", 2),
    ):
        monkeypatch.setattr(growing, name, value)
        on_device = DeviceFactors(factors, negatives.rows, **where)
        assert_same(compare_growing(factors, negatives, 1, lambda n: None, on_device), expected)


def test_programs_take_each_target_once() -> None:
    pairs = np.array([0, 19, 23, 40])
    groups = growing.Groups.of(pairs)
    assert groups.width == 16
    taken = [
        (int(row), at)
        for row, first, stop in zip(groups.row, groups.first, groups.stop, strict=True)
        for at in range(first, stop)
    ]
    assert taken == [(row, pair) for row in (0, 1, 2) for pair in range(pairs[row], pairs[row + 1])]
    assert (groups.stop - groups.first).tolist() == [16, 3, 4, 16, 1]


@pytest.mark.parametrize("spec", [*SPECS[:2], "uniform(m=30)", "uniform(m=450, replace=true)"])
def test_a_device_behind_the_call(spec: str) -> None:
    split = random_split()
    factors = factors_of(split, "near")
    here, there = (sample_ranks(factors, split, spec, seed=2, device=name) for name in ("cpu", "cpu:0"))
    assert there.n_scores == here.n_scores
    for name in here.ranks.__dataclass_fields__:
        assert np.array_equal(getattr(there.ranks, name), getattr(here.ranks, name)), name


@pytest.mark.skipif(not device.has_gpu(), reason="needs a GPU")
@pytest.mark.parametrize("spec", [*SPECS, "uniform(m=30)", "uniform(m=450)", "uniform(m=450, replace=true)"])
def test_a_gpu_behind_the_call(spec: str) -> None:
    split = random_split()
    for kind in ("near", "integers", "bias"):
        factors = factors_of(split, kind)
        here, there = (sample_ranks(factors, split, spec, seed=2, device=name) for name in ("cpu", "cuda"))
        assert there.n_scores == here.n_scores
        for name in here.ranks.__dataclass_fields__:
            assert np.array_equal(getattr(there.ranks, name), getattr(here.ranks, name)), name


def test_without_a_gpu_the_cpu_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_gpu, "has_gpu", lambda: False)
    split = small_split()
    factors = factors_of(split, "near")
    with pytest.warns(DataWarning, match="torch sees no GPU, so 'cuda' is the CPU here"):
        found = sample_ranks(factors, split, SPECS[0], device="cuda")
    assert np.array_equal(found.ranks.n_above, sample_ranks(factors, split, SPECS[0]).ranks.n_above)


def test_broken_factors_have_a_sentence() -> None:
    split = small_split()
    for user, message in (
        (np.inf, "user factors must be finite, row 0"),
        (1e300, "scores far below the largest"),
    ):
        factors = Factors(np.full((40, 2), user), np.full((500, 2), 1e300))
        with pytest.raises(InvalidData, match=message):
            sample_ranks(factors, split, SPECS[0], device="cpu:0")
