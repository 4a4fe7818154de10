"""Dropout: the law of its masks, its bits from the definition, what it leaves alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare

torch = pytest.importorskip("torch")


def dropping(share: float) -> Any:
    from truerank.models.nets.fusion import Dropout

    return Dropout(share).train()


@pytest.mark.parametrize("share", [0.5, 0.1, 0.9, 2**-16])
@pytest.mark.parametrize("shape", [(4,), (3, 7), (1,), (2, 3, 5)])
def test_masks_equal_the_definition(share: float, shape: tuple[int, ...]) -> None:
    """One 16-bit number per entry, four to a word; what is kept is scaled by the exact share kept."""
    dropout = dropping(share)
    torch.manual_seed(3)
    words = torch.empty((int(np.prod(shape)) + 3) // 4, dtype=torch.int64).random_(-(2**63), None).numpy()
    levels = np.concatenate([[(int(word) >> shift) & 0xFFFF for shift in (0, 16, 32, 48)] for word in words])
    levels = np.where(levels >= 2**15, levels - 2**16, levels)[: int(np.prod(shape))]  # two's complement
    n_kept = round((1 - share) * 2**16)
    expected = np.where(levels < n_kept - 2**15, 2**16 / n_kept, 0).reshape(shape)
    torch.manual_seed(3)
    x = torch.full(shape, 2.0)
    np.testing.assert_allclose(dropout(x).numpy(), 2 * expected, rtol=1e-6)


def test_gradients_pass_where_entries_do() -> None:
    x = torch.randn(30, 9, requires_grad=True)
    y = dropping(0.4)(x)
    y.sum().backward()
    assert torch.equal(y, x * x.grad)
    scale = 65536 / round(0.6 * 65536)
    assert set(np.unique(x.grad.numpy())) == {np.float32(0), np.float32(scale)}


def test_turned_and_strided_tensors_keep_their_entries_in_place() -> None:
    x = torch.arange(1.0, 25.0).reshape(4, 6).T
    y = dropping(0.5)(x)
    kept = y != 0
    assert y.shape == x.shape
    assert 0 < int(kept.sum()) < 24
    assert torch.equal(y[kept], 2 * x[kept])


def test_outside_of_training_and_without_a_share_nothing_happens() -> None:
    x = torch.randn(5, 5)
    before = torch.get_rng_state()
    assert dropping(0.5).eval()(x) is x
    assert dropping(0.0)(x) is x
    assert torch.equal(torch.get_rng_state(), before)


def test_a_share_next_to_one_still_keeps_a_level() -> None:
    dropout = dropping(1 - 1e-9)
    torch.manual_seed(0)
    assert set(np.unique(dropout(torch.ones(200_000)).numpy())) <= {np.float32(0), np.float32(65536)}
    assert dropout.n_kept == 1


def patterns_p_value(mask: np.ndarray[Any, Any], share: float) -> float:
    """Chi-square of the 16 patterns of four neighbours against independent entries."""
    four = (mask.reshape(-1, 4) != 0).astype(int)
    counts = np.bincount(four @ (1, 2, 4, 8), minlength=16)
    n_ones = np.array([bin(k).count("1") for k in range(16)])
    return float(chisquare(counts, len(four) * (1 - share) ** n_ones * share ** (4 - n_ones)).pvalue)


@pytest.mark.stat
def test_dropped_entries_are_independent_with_the_given_share() -> None:
    """Finds a share that is off by 0.02 in one of the four places of a word with 99 %."""
    level = 1e-6 / 3
    torch.manual_seed(11)
    for share in (0.5, 0.2, 0.8):
        mask = dropping(share)(torch.ones(400_000)).numpy()
        assert patterns_p_value(mask, share) > level
        copied = mask.copy()
        copied[1::40] = copied[0::40]  # negative control: one in ten words repeats an entry
        assert patterns_p_value(copied, share) < level
    shifted = dropping(0.5)(torch.ones(400_000)).numpy()
    shifted[2::4] = dropping(0.48)(torch.ones(100_000)).numpy()  # negative control: one place is off
    assert patterns_p_value(shifted, 0.5) < level
