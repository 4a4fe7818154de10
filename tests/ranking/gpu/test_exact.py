"""Ranks of a split on a device equal those of the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.ranking.gpu.engines import ENGINES, Where
from truerank.core.errors import DataWarning, InvalidData, InvalidParameter, MissingDependency
from truerank.core.interactions import Interactions
from truerank.core.ranks import SEEN_POLICIES, Ranks, SeenPolicy
from truerank.core.scorer import Factors, as_scorer
from truerank.core.split import Split
from truerank.ranking.exact import exact_ranks
from truerank.ranking.gpu import device as devices
from truerank.ranking.gpu import exact
from truerank.ranking.gpu.device import engine_for, has_gpu, open_device
from truerank.ranking.gpu.exact import exact_ranks_gpu


def split_of(n_users: int = 60, n_items: int = 200) -> Split:
    draw = np.random.default_rng(4)
    cells = draw.permutation(n_users * n_items)[: 25 * n_users]
    parts = np.split(cells, [18 * n_users, 20 * n_users])
    train, valid, test = (
        Interactions.from_codes(*divmod(np.sort(part), n_items), n_users=n_users, n_items=n_items)
        for part in parts
    )
    return Split(train, test, valid)


def factors_of(n_users: int = 60, n_items: int = 200, *, has_bias: bool = False) -> Factors:
    draw = np.random.default_rng(5)
    user, item = np.rint(2 * draw.standard_normal((n_users, 6))), np.rint(draw.standard_normal((n_items, 6)))
    return Factors(user, item, draw.standard_normal(n_items) if has_bias else None)


def same(left: Ranks, right: Ranks) -> bool:
    pairs = zip(left.columns().values(), right.columns().values(), strict=True)
    return all((mine == other).all() for mine, other in pairs)


@pytest.mark.parametrize("where", ENGINES)
@pytest.mark.parametrize("seen", SEEN_POLICIES)
@pytest.mark.parametrize("has_bias", [False, True])
def test_equal_to_the_cpu(seen: SeenPolicy, has_bias: bool, where: Where) -> None:
    split, factors = split_of(), factors_of(has_bias=has_bias)
    assert same(exact_ranks_gpu(factors, split, seen=seen, **where), exact_ranks(factors, split, seen=seen))


def test_without_a_gpu_the_cpu_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "has_gpu", lambda: False)
    split, factors = split_of(), factors_of()
    with pytest.warns(DataWarning, match="torch sees no GPU, so 'cuda' is the CPU here"):
        found = exact_ranks_gpu(factors, split)
    assert same(found, exact_ranks(factors, split))


def test_what_cannot_be_ranked() -> None:
    split = split_of()
    with pytest.raises(InvalidParameter, match="factors or item-item matrices, DenseScores has neither"):
        exact_ranks_gpu(as_scorer(np.zeros((60, 200))), split, device="cpu")
    with pytest.raises(InvalidData, match="must know the 200 items of the data, it knows 9"):
        exact_ranks_gpu(factors_of(n_items=9), split, device="cpu")
    with pytest.raises(InvalidData, match=r"a vector for each user, but user \d+ has none \(9 vectors\)"):
        exact_ranks_gpu(factors_of(n_users=9), split, device="cpu")
    with pytest.raises(InvalidParameter, match="seen must be one of remove, bottom, keep"):
        exact_ranks_gpu(factors_of(), split, seen="none", device="cpu")  # type: ignore[arg-type]


def test_devices_and_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidParameter, match="device must be one torch knows, got 'gpu'"):
        open_device("gpu")
    with pytest.raises(InvalidParameter, match="device must be a CUDA device or 'cpu', got 'meta'"):
        open_device("meta")
    with pytest.raises(InvalidParameter, match="device must be one this machine has"):
        open_device("cuda:99")
    with pytest.raises(InvalidParameter, match="engine must be one of auto, torch, triton"):
        engine_for(open_device("cpu"), "numba")  # type: ignore[arg-type]
    assert engine_for(open_device("cpu"), "auto").__name__.endswith("blocks")
    monkeypatch.setattr(devices, "find_spec", lambda name: None)
    with pytest.raises(InvalidParameter, match="engine must be 'torch', because triton is not installed"):
        engine_for(plain_device("cpu"), "triton")
    with pytest.raises(MissingDependency, match="counting on a GPU needs torch"):
        open_device("cpu")
    assert not has_gpu()


def plain_device(name: str) -> Any:
    import torch

    return torch.device(name)
