"""The networks of SASRec and SVAE, and the multinomial loss over a whole catalogue in bounded memory.

Imported on use, because it imports torch.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

_EPSILON = 1e-8  # of the layer norms


class AttentionBlock(nn.Module):
    r"""Causal self-attention and a feed-forward net per step, each behind a layer norm.

    .. math:: q = LN(x), \quad h = q + A(q W_q, x W_k, x W_v), \quad n = LN(h), \quad y = n + F(n)

    Residual sums start from the normalised input, as in the authors' code.
    """

    def __init__(self, factors: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.norm_attention = nn.LayerNorm(factors, eps=_EPSILON)
        self.query = nn.Linear(factors, factors)
        self.key = nn.Linear(factors, factors)
        self.value = nn.Linear(factors, factors)
        self.norm_forward = nn.LayerNorm(factors, eps=_EPSILON)
        self.wide = nn.Linear(factors, factors)
        self.narrow = nn.Linear(factors, factors)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Map (n, steps, d) to the same shape; a step sees itself and the steps before it."""
        q = self.norm_attention(x)
        attended = functional.scaled_dot_product_attention(
            self._split(self.query(q)),
            self._split(self.key(x)),
            self._split(self.value(x)),
            dropout_p=self.dropout.p if self.training else 0.0,
            is_causal=True,
        )
        n = self.norm_forward(q + attended.transpose(1, 2).flatten(2))
        inner = self.dropout(torch.relu(self.wide(n)))
        y: Tensor = n + self.dropout(self.narrow(inner))
        return y

    def _split(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)


class AttentionNet(nn.Module):
    """Items and positions in, one state per step out; item vectors serve as input and as output weights.

    The last item vector is that of the start token, an input alone. It has no position, so that the state
    after it is the same before every history, and is learnt from all first events. Rows are padded at the
    end. A step sees no later step, so padding needs no mask; positions count back from the end of each
    history, as if it were padded at the front.
    """

    def __init__(
        self, n_items: int, *, max_length: int, factors: int, blocks: int, heads: int, dropout: float
    ) -> None:
        super().__init__()
        self.scale = factors**0.5
        self.item = nn.Embedding(n_items + 1, factors)
        self.position = nn.Embedding(max_length, factors)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(AttentionBlock(factors, heads, dropout) for _ in range(blocks))
        self.norm = nn.LayerNorm(factors, eps=_EPSILON)
        for parameter in self.parameters():
            if parameter.ndim >= 2:
                nn.init.xavier_uniform_(parameter)

    def forward(self, items: Tensor, lengths: Tensor) -> Tensor:
        """Return the states (n, steps, d) of (n, steps) items; those after a row's end are meaningless."""
        position = torch.arange(items.shape[1], device=items.device)
        position = (self.position.num_embeddings - lengths[:, None] + position).clamp(
            max=self.position.num_embeddings - 1
        )
        is_event = (items != self.item.num_embeddings - 1)[..., None]
        x = self.dropout(self.item(items) * self.scale + self.position(position) * is_event)
        for block in self.blocks:
            x = block(x)
        states: Tensor = self.norm(x)
        return states


class RecurrentNet(nn.Module):
    """A GRU over a history, and a variational autoencoder on its state after each step.

    The last item vector is that of the start token, an input alone. The decoder stops before its last, linear
    layer: ``output`` holds the weights and the bias of each item.
    """

    def __init__(self, n_items: int, *, embedding: int, recurrent: int, hidden: int, latent: int) -> None:
        super().__init__()
        self.item = nn.Embedding(n_items + 1, embedding)
        self.gru = nn.GRU(embedding, recurrent, batch_first=True)
        self.encode = nn.Linear(recurrent, hidden)
        self.moments = nn.Linear(hidden, 2 * latent)
        self.decode = nn.Linear(latent, hidden)
        self.output = nn.Linear(hidden, n_items)
        for parameter in self.parameters():
            if parameter.ndim >= 2:
                nn.init.xavier_uniform_(parameter)
        nn.init.zeros_(self.output.bias)

    def states(self, items: Tensor) -> Tensor:
        """Return the states (n, steps, r) after each of (n, steps) items."""
        states: Tensor = self.gru(self.item(items))[0]
        return states

    def posterior(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and log-variance of z, (..., latent) each."""
        mean, log_variance = self.moments(torch.tanh(self.encode(states))).chunk(2, dim=-1)
        return mean, log_variance

    def hidden(self, z: Tensor) -> Tensor:
        """Return what the output layer multiplies, (..., hidden)."""
        return torch.tanh(self.decode(z))


def divergence(mean: Tensor, log_variance: Tensor) -> Tensor:
    """Return KL(N(mean, variance) || N(0, 1)) summed over the last axis."""
    return 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum(-1)


_CELLS = 1 << 22  # logits at a time: 16 MB


def multinomial_loss(
    hidden: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, weights: Tensor
) -> Tensor:
    r"""Return the mean over steps of the cross entropy between target weights and a softmax over all items.

    .. math:: \frac1n \sum_s \sum_t q_{st} \Bigl(\log \sum_j e^{h_s \cdot w_j + b_j}
              - h_s \cdot w_{i_{st}} - b_{i_{st}}\Bigr)

    Logits are made for a few steps at a time and never kept: the gradients are formed in the same pass.

    Parameters
    ----------
    hidden : (n, d), one row per step
    weight, bias : (n_items, d) and (n_items,)
    targets : (n, k) item codes i
    weights : (n, k) weights q >= 0 of the targets
    """
    loss: Tensor = _Multinomial.apply(hidden, weight, bias, targets, weights)  # type: ignore[no-untyped-call]
    return loss


class _Multinomial(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, weights: Tensor
    ) -> Tensor:
        n = len(hidden)
        loss = hidden.new_zeros(())
        by_hidden = torch.empty_like(hidden)
        by_weight, by_bias = torch.zeros_like(weight), torch.zeros_like(bias)
        step = max(1, _CELLS // len(weight))
        for first in range(0, n, step):
            rows = slice(first, first + step)
            h, i, q = hidden[rows], targets[rows], weights[rows]
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
