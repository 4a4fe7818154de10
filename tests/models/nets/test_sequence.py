"""The chunked multinomial loss and its gradients equal what autograd makes of the definition."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="torch is not installed")

import torch
from torch import Tensor

from truerank.models.nets import sequence as multinomial


def literal(hidden: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, shares: Tensor) -> Tensor:
    log_p = torch.log_softmax(hidden @ weight.T + bias, dim=1)
    return -(shares * log_p.gather(1, targets)).sum() / len(hidden)


@pytest.mark.parametrize("cells", [1, 30, 1 << 22], ids=["a row at a time", "a few rows", "all at once"])
def test_value_and_gradients(cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multinomial, "_CELLS", cells)
    rng = torch.Generator().manual_seed(0)
    shapes = [(23, 5), (11, 5), (11,)]
    targets = torch.randint(11, (23, 3), generator=rng)
    targets[0] = 4  # the same item three times over
    shares = torch.rand((23, 3), generator=rng, dtype=torch.float64)
    shares[1] = 0
    values = [torch.randn(shape, generator=rng, dtype=torch.float64) for shape in shapes]
    mine, theirs = ([value.clone().requires_grad_() for value in values] for _ in range(2))
    found = multinomial.multinomial_loss(mine[0], mine[1], mine[2], targets, shares)
    expected = literal(theirs[0], theirs[1], theirs[2], targets, shares)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    for loss in (found, expected):
        (3 * loss).backward()  # type: ignore[no-untyped-call]
    for one, other in zip(mine, theirs, strict=True):
        torch.testing.assert_close(one.grad, other.grad, rtol=1e-12, atol=1e-12)


def test_large_logits_do_not_overflow() -> None:
    hidden, weight = torch.tensor([[1e4]]), torch.tensor([[1.0], [-1.0]])
    loss = multinomial.multinomial_loss(
        hidden, weight, torch.zeros(2), torch.tensor([[1]]), torch.tensor([[1.0]])
    )
    assert float(loss) == 2e4
