"""The network of SASRec."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

_EPSILON = 1e-8  # of the layer norms


class Block(nn.Module):
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

    Rows are padded at the end. A step sees no later step, so padding needs no mask; positions count back from
    the end of each history, as if it were padded at the front.
    """

    def __init__(
        self, n_items: int, *, max_length: int, factors: int, blocks: int, heads: int, dropout: float
    ) -> None:
        super().__init__()
        self.scale = factors**0.5
        self.item = nn.Embedding(n_items, factors)
        self.position = nn.Embedding(max_length, factors)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(Block(factors, heads, dropout) for _ in range(blocks))
        self.norm = nn.LayerNorm(factors, eps=_EPSILON)
        for parameter in self.parameters():
            if parameter.ndim >= 2:
                nn.init.xavier_uniform_(parameter)

    def forward(self, items: Tensor, lengths: Tensor) -> Tensor:
        """Return the states (n, steps, d) of (n, steps) items; those behind a row's end mean nothing."""
        place = torch.arange(items.shape[1], device=items.device)
        place = (self.position.num_embeddings - lengths[:, None] + place).clamp(
            max=self.position.num_embeddings - 1
        )
        x = self.dropout(self.item(items) * self.scale + self.position(place))
        for block in self.blocks:
            x = block(x)
        states: Tensor = self.norm(x)
        return states
