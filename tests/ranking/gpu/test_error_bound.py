"""The error bound holds for every score, and is not idle; splitting into halves loses what it says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tests.ranking.cpu.problems import KINDS, draw_factors
from tests.ranking.gpu.engines import ENGINES
from truerank.ranking.gpu.cross import Cross, cross_rounding
from truerank.ranking.gpu.device import interprets, jit, tl
from truerank.ranking.gpu.error_bound import (
    ItemSide,
    RowSide,
    distinct_items,
    n_needed,
    rounding,
    sum_block,
)
from truerank.ranking.gpu.halves import ROW_TOP, ScaledRows, exponents, power_of_two, scaled
from truerank.ranking.gpu.torch_blocks import _scores, score_pairs
from truerank.ranking.gpu.triton_split import FusedRows, prepare_fused_rows


@jit()
def float8_kernel(left, right, out, WIDTH: tl.constexpr):  # type: ignore[no-untyped-def]
    row, k = tl.arange(0, 128), tl.arange(0, WIDTH)
    x = tl.load(left + row[:, None] * WIDTH + k[None, :])
    y = tl.load(right + row[None, :] * WIDTH + k[:, None])
    tl.store(out + row[:, None] * 128 + row[None, :], tl.dot(x, y))


MIXTURES = [
    ("gaussian", "mixed"),
    ("mixed", "gaussian"),
    ("huge", "tiny"),
    ("subnormal", "huge"),
    ("mixed", "zeros"),
]
DEVICES = sorted({where["device"] for where in ENGINES})


def sides(users: Any, items: Any, bias: Any = None) -> tuple[RowSide, ItemSide, Any]:
    """Return both sides, and the float64 scores in their order, scaled as they are."""
    largest = max(float(items.abs().amax()), 0.0 if bias is None else float(bias.abs().amax()))
    item = ItemSide.prepare(items, bias, largest)
    number = torch.arange(len(users), device=users.device)
    target = score_pairs(users, items, bias, number, torch.zeros_like(number))
    rows = RowSide.prepare(users, number, target, item)
    pairs = torch.cartesian_prod(rows.user, item.code)
    scores = score_pairs(users, items, bias, pairs[:, 0], pairs[:, 1]).view(len(rows), -1)
    if item.centre is not None:
        scores -= (users.double() @ item.centre + item.bias_centre)[rows.user, None]
    biggest = users.abs().amax(1).double()
    biggest = biggest if bias is None else biggest.clamp(min=1.0)
    shift = exponents(biggest, ROW_TOP)[rows.user] + item.exponent
    return rows, item, scaled(scores, shift[:, None])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("user_kind", "item_kind"), [*zip(KINDS, KINDS, strict=True), *MIXTURES])
def test_no_score_is_off_by_more(user_kind: str, item_kind: str, device: str) -> None:
    draw = np.random.default_rng(8)
    for dtype, has_bias in ((np.float32, False), (np.float64, True)):
        users = torch.from_numpy(draw_factors(draw, (20, 33), user_kind, dtype)).to(device)
        items = torch.from_numpy(draw_factors(draw, (60, 33), item_kind, dtype)).to(device)
        bias = torch.from_numpy(draw.standard_normal(60)).to(device) if has_bias else None
        rows, item, exact = sides(users, items, bias)
        found = _scores(rows, item, slice(None), slice(None)).double()
        band = rows.slack.double()[:, None] + rows.bounds[:, :3].double() @ item.bounds.double()
        assert bool(((found - exact).abs() <= band).all())


@pytest.mark.parametrize("user_kind", KINDS)
def test_no_cross_product_is_off_by_more(user_kind: str) -> None:
    """Cross products in float8, summed in float64: rounding takes off no more than its part of the bound."""
    draw = np.random.default_rng(8)
    for item_kind in KINDS:
        users = torch.from_numpy(draw_factors(draw, (20, 33), user_kind, np.float32))
        items = torch.from_numpy(draw_factors(draw, (60, 33), item_kind, np.float32))
        rows, item, exact = sides(users, items)
        of_rows, of_items = Cross.of_rows(rows, 33), Cross.of_items(item, 33)
        found = of_rows.values.double() @ of_items.values.double().T
        found += rows.high.double() @ item.high.double().T
        band = rows.slack.double()[:, None] + of_rows.bounds.double().T @ of_items.bounds.double()
        assert bool(((found - exact).abs() <= band).all())


@pytest.mark.skipif("cuda" not in DEVICES or tl is None, reason="needs a GPU and triton")
def test_float8_units_keep_the_assumption() -> None:
    """One large addend among many small ones, of all sizes, where truncation loses most."""
    draw = np.random.default_rng(0)
    for width in (32, 64, 128):
        for exponent in range(16):
            small = 2.0**-exponent * draw.choice([1, 1.125, 1.5, 1.875], (128, width))
            small[np.arange(128), draw.integers(0, width, 128)] = draw.choice([256.0, 240.0], 128)
            right = torch.from_numpy(small).cuda().float().to(torch.float8_e4m3fn)
            scale = draw.choice([1.0, 1.875, 2.0**-4, 2.0**-6], (128, 1)) * np.ones((128, width))
            left = torch.from_numpy(scale).cuda().float().to(torch.float8_e4m3fn)
            found = torch.empty((128, 128), device="cuda")
            float8_kernel[(1,)](left, right, found, WIDTH=width)
            lost = (found.double() - left.double() @ right.double().T).abs()
            most = left.double() @ right.double().T
            assert float((lost / most).max()) <= cross_rounding(width // 2)


@pytest.mark.parametrize("device", DEVICES)
def test_the_bound_is_not_idle(device: str) -> None:
    """One float16 number per coordinate is not enough for it; and sums of exact halves do lose something."""
    draw = np.random.default_rng(9)
    users, items = (torch.from_numpy(draw.standard_normal((40, 64))).to(device) for _ in range(2))
    rows, item, exact = sides(users, items)
    band = rows.slack[:, None] + rows.bounds[:, :3] @ item.bounds
    alone = rows.high.double() @ item.high.double().T
    assert bool(((alone - exact).abs() > band).any())

    whole = torch.from_numpy(np.rint(500 * draw.standard_normal((40, 1024))).clip(-2000, 2000)).to(device)
    rows, item, exact = sides(whole, whole.clone())
    assert float(rows.bounds[:, 2].max()) == 0.0
    error = (_scores(rows, item, slice(None), slice(None)).double() - exact).abs()
    assert float(error.max()) > 0.0
    assert bool((error <= rounding(1024, 4) * rows.bounds[:, 0, None] * item.bounds[1]).all())


@pytest.mark.skipif("cuda" not in DEVICES, reason="needs a GPU")
def test_matrix_units_keep_the_assumption() -> None:
    """Many addends just below a last bit of the sum, where truncation loses most."""
    draw = np.random.default_rng(4)
    for d in (16, 64, 128):
        small = 2.0**-23 * draw.choice([0.5, 0.75, 0.999, 1.0, 1.5, 1.999], (256, d))
        small *= draw.choice([-1.0, 1.0], (256, 1))
        small[np.arange(256), draw.integers(0, d, 256)] = draw.choice([1.0, 1.5, 1.999], 256)
        # float16 ends at 2^-24, so the other side takes a part of the scale.
        right = torch.from_numpy(2.0**12 * small).cuda().half()
        left = torch.full_like(right, 2.0**-8)
        found = torch.mm(left, right.T, out_dtype=torch.float32).double()
        lost = (found - left.double() @ right.double().T).abs()
        most = left.double() @ right.double().abs().T
        block = sum_block(left.device)
        assert float((lost / most).max()) <= (block + 2) / block * (d + 2) * 2.0**-23


ROWS = [ScaledRows]
if interprets():
    ROWS.append(FusedRows)


@pytest.mark.parametrize("rows", ROWS)
def test_halves_add_up(rows: type[ScaledRows]) -> None:
    draw = np.random.default_rng(1)
    factors = torch.from_numpy(draw.standard_normal((50, 7)) * 10.0 ** draw.integers(-9, 9, (50, 1)))
    exponent = exponents(factors.abs().amax(1))
    halves = rows(factors, torch.arange(50), exponent).split(16)
    x = scaled(factors, exponent[:, None])
    assert halves.high.shape == (50, 16)
    assert bool((halves.high[:, 7:] == 0).all())
    assert bool((x.abs().amax(1) >= 2.0**14).all() and (x.abs().amax(1) < 2.0**15).all())
    rest = x - halves.high[:, :7].double() - halves.low[:, :7].double()
    assert bool((rest.norm(dim=1) <= halves.rest_norm).all())
    assert bool((halves.rest_norm <= 2.0**-20 * halves.norm).all())
    assert bool((halves.low[:, :7].double().norm(dim=1) <= halves.low_norm).all())


@pytest.mark.skipif(
    ENGINES[-1]["engine"] != "triton", reason="needs a GPU with triton, or TRITON_INTERPRET=1"
)
@pytest.mark.parametrize("user_kind", ["gaussian", "zeros", "tiny", "subnormal", "mixed", "integers"])
@pytest.mark.parametrize("item_kind", ["gaussian", "huge", "integers"])
@pytest.mark.parametrize("has_bias", [False, True])
def test_kernels_prepare_fused_rows_as_torch_does(user_kind: str, item_kind: str, has_bias: bool) -> None:
    draw = np.random.default_rng(8)
    device = ENGINES[-1]["device"]
    users, items = (
        torch.from_numpy(draw_factors(draw, (n, 19), kind, np.float64)).to(device)
        for n, kind in ((200, user_kind), (400, item_kind))
    )
    items += 5.0 if item_kind == "huge" else 0.0
    bias = torch.from_numpy(draw.standard_normal(400)).to(device) if has_bias else None
    item = ItemSide.prepare(items, bias, float(items.abs().amax()))
    user = torch.from_numpy(np.sort(draw.integers(0, 200, 300))).to(device)
    score = score_pairs(users, items, bias, user, torch.arange(300, device=device))
    one, other = (prepare(users, user, score, item) for prepare in (RowSide.prepare, prepare_fused_rows))
    assert len(one) == len(other) == 384
    assert (one.is_exact is None) == (other.is_exact is None)
    here, there = (torch.argsort(side.pair[:300]) for side in (one, other))
    assert bool((one.pair[:300][here] == other.pair[:300][there]).all())
    for name in ("user", "high", "low", "scale", "target", "n_needed", "is_exact"):
        if getattr(one, name) is not None:
            assert bool((getattr(one, name)[:300][here] == getattr(other, name)[:300][there]).all()), name
    for mine, yours in (
        (one.norms[:, :300][:, here], other.norms[:, :300][:, there]),
        (one.bounds[:300][here], other.bounds[:300][there]),
        (one.slack[:300][here], other.slack[:300][there]),
    ):
        torch.testing.assert_close(mine, yours, rtol=1e-6, atol=0.0)
    assert bool((other.target[300:] == torch.inf).all() and (other.n_needed[300:] == 0).all())


def test_powers_of_two_are_exact() -> None:
    exponent = torch.arange(-1022, 1024)
    assert power_of_two(exponent).tolist() == [2.0**e for e in range(-1022, 1024)]
    smallest = torch.tensor([5e-324], dtype=torch.float64)
    assert scaled(smallest, torch.tensor([2090])).tolist() == [2.0**1016]


def test_needed_items_are_those_that_can_reach() -> None:
    norms = torch.tensor([4.0, 2.0, 2.0, 1.0], dtype=torch.float64)
    score = torch.tensor([0.0, 3.0, -2.0, 9.0, 0.0], dtype=torch.float64)
    norm = torch.tensor([1.0, 1.0, 1.0, 2.0, 0.0], dtype=torch.float64)
    assert n_needed(score, torch.zeros(5), norm, norms).tolist() == [4, 1, 3, 0, 0]
    assert n_needed(score, torch.full((5,), 8.0), norm, norms).tolist() == [4, 4, 4, 4, 0]


def test_multiples_have_exact_scores() -> None:
    """Rows of small multiples are recognised, others and those of too many bits are not."""
    draw = np.random.default_rng(2)
    small = torch.from_numpy(np.rint(3 * draw.standard_normal((50, 40))))
    rows, item, exact = sides(small, small.clone())
    assert item.multiple > 0
    assert rows.is_exact is not None
    assert bool(rows.is_exact.all())
    found = _scores(rows, item, slice(None), slice(None)).double()
    assert bool((found == exact).all())
    assert sides(small + 0.3, small)[0].is_exact is None
    assert sides(small, small + 0.3)[0].is_exact is None
    wide = torch.from_numpy(np.rint(500 * draw.standard_normal((50, 4000))).clip(-2000, 2000))
    assert sides(wide, wide.clone())[0].is_exact is None
    tiny = small * 2.0**-540  # products lie below the least float64
    assert sides(tiny, tiny.clone())[0].is_exact is None


@pytest.mark.parametrize("rows", ROWS)
def test_distinct_items_are_those_of_numpy(rows: type[ScaledRows]) -> None:
    draw = np.random.default_rng(5)
    items = draw.integers(0, 2, (400, 5)).astype(np.float32)
    for bias in (None, torch.from_numpy(draw.integers(0, 2, 400).astype(float))):
        code, weight = distinct_items(torch.from_numpy(items), bias, rows)
        whole = items if bias is None else np.hstack([items, bias.numpy()[:, None]])
        expected, counts = np.unique(whole, axis=0, return_counts=True)
        assert weight is not None
        found = {tuple(whole[at]): n for at, n in zip(code.tolist(), weight.tolist(), strict=True)}
        assert found == {tuple(row): n for row, n in zip(expected, counts, strict=True)}
    code, weight = distinct_items(torch.from_numpy(draw.standard_normal((400, 5))), None, rows)
    assert weight is None
    assert code.tolist() == list(range(400))
