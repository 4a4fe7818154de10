"""The kernel for Hopper GPUs counts as the other one does, and is done without where it is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tests.ranking.cpu.problems import Problem, draw_factors, draw_lists, rows_of
from tests.ranking.gpu.engines import ENGINES, Where
from truerank.core.errors import DataWarning
from truerank.ranking.cpu.factors import count_factors
from truerank.ranking.gpu import hopper_tiles
from truerank.ranking.gpu import triton_count as fused
from truerank.ranking.gpu.device import has_float8
from truerank.ranking.gpu.exact import count_on_device
from truerank.ranking.gpu.hopper_tiles import HopperTiles

HAS_HOPPER = Where(device="cuda", engine="triton") in ENGINES and has_float8(torch.device("cuda"))


@pytest.mark.skipif(not HAS_HOPPER, reason="needs a Hopper GPU and triton")
@pytest.mark.parametrize("width", [10, 30, 64])
@pytest.mark.parametrize("n_items", [128, 1_000, 4_001])
@pytest.mark.parametrize("n_rows", [1, 128, 700])
def test_equal_to_the_cpu(n_rows: int, n_items: int, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One block of rows or many, an odd number of them, tiles that are full or not, all widths of tiles."""
    launched: list[int] = []
    count = HopperTiles.count

    def watched(self: HopperTiles, n_blocks: int, *arguments: Any) -> None:
        launched.append(n_blocks)
        count(self, n_blocks, *arguments)

    monkeypatch.setattr(HopperTiles, "count", watched)
    monkeypatch.setattr(hopper_tiles, "LEAST_WORK", 0)
    monkeypatch.setattr(fused, "WHOLE_WORK", 0)
    monkeypatch.setattr(fused, "FEW_ITEMS", 0)
    for seed, shift in ((1, 0.0), (2, 0.4), (3, -0.4)):
        draw = np.random.default_rng(seed)
        users, items = (draw_factors(draw, (n, width), "gaussian", np.float32) for n in (n_rows, n_items))
        items = np.unique(items + np.float32(shift), axis=0)  # copies are left to the other kernel
        lists = draw_lists(draw, n_rows, len(items), most_targets=3, seen="some")
        problem = Problem(users, items, None, lists)
        expected = count_factors(*problem.arguments, path="numpy")
        assert rows_of(count_on_device(*problem.arguments)) == rows_of(expected)
    assert launched


def test_a_refused_kernel_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HopperTiles, "_was_refused", False)
    monkeypatch.setattr(hopper_tiles, "hopper", hopper_tiles)
    monkeypatch.setattr(hopper_tiles, "has_float8", lambda device: True)
    device = torch.device("cpu")
    assert not HopperTiles.pay(device, 2, 3)
    assert HopperTiles.pay(device, 1 << 9, 1 << 9)
    with pytest.warns(DataWarning, match=r"cannot be compiled by the installed triton \(TypeError\)"):
        HopperTiles.refused(TypeError("no such argument"))
    assert not HopperTiles.pay(device, 1 << 9, 1 << 9)
