"""The multinomial loss over a whole catalogue, in bounded memory."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

_CELLS = 1 << 22  # logits at a time: 16 MB


def multinomial_loss(hidden: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, shares: Tensor) -> Tensor:
    r"""Return the mean over steps of the cross entropy between target shares and a softmax over all items.

    .. math:: \frac1n \sum_s \sum_t q_{st} \Bigl(\log \sum_j e^{h_s \cdot w_j + b_j}
              - h_s \cdot w_{i_{st}} - b_{i_{st}}\Bigr)

    Logits are made for a few steps at a time and never kept: the gradients are formed in the same pass.

    Parameters
    ----------
    hidden : (n, d), one row per step
    weight, bias : (n_items, d) and (n_items,)
    targets : (n, k) item codes i
    shares : (n, k) weights q >= 0 of the targets
    """
    loss: Tensor = _Multinomial.apply(hidden, weight, bias, targets, shares)  # type: ignore[no-untyped-call]
    return loss


class _Multinomial(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, shares: Tensor
    ) -> Tensor:
        n = len(hidden)
        loss = hidden.new_zeros(())
        by_hidden = torch.empty_like(hidden)
        by_weight, by_bias = torch.zeros_like(weight), torch.zeros_like(bias)
        step = max(1, _CELLS // len(weight))
        for first in range(0, n, step):
            rows = slice(first, first + step)
            h, i, q = hidden[rows], targets[rows], shares[rows]
            logits = torch.addmm(bias, h, weight.T)
            chosen = logits.gather(1, i)
            total = torch.logsumexp(logits, 1, keepdim=True)
            loss += (q * (total - chosen)).sum()
            slope = logits.sub_(total).exp_().mul_(q.sum(1, keepdim=True))  # d loss / d logits
            slope.scatter_add_(1, i, -q)
            by_hidden[rows] = slope @ weight
            by_weight.addmm_(slope.T, h)
            by_bias += slope.sum(0)
        ctx.save_for_backward(by_hidden / n, by_weight / n, by_bias / n)
        return loss / n

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        by_hidden, by_weight, by_bias = ctx.saved_tensors
        (grad,) = grads
        return by_hidden * grad, by_weight * grad, by_bias * grad, None, None
