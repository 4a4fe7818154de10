"""The network of NGCF: embeddings propagate along the edges between users and items."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from truerank.core.interactions import Interactions
from truerank.models.item_item import by_item

_SLOPE = 0.2  # of the leaky rectifier


class NormalisedAdjacency:
    r"""The symmetric matrix :math:`L = D^{-1/2} A D^{-1/2}` of the bipartite graph; users first, then items.

    Parameters
    ----------
    indptr, neighbours : (n_users + n_items,) starts and (2 n_edges,) ends of the edges, on one device
    scale : (n_users + n_items, 1) degrees to the power -1/2; 0 for nodes without edges
    """

    def __init__(self, indptr: Tensor, neighbours: Tensor, scale: Tensor) -> None:
        self.indptr, self.neighbours, self.scale = indptr, neighbours, scale

    @classmethod
    def of(cls, train: Interactions, device: torch.device) -> NormalisedAdjacency:
        """Read the graph off the distinct train pairs."""
        users, items = train.by_user(), by_item(train)
        degree = np.concatenate([users.lengths(), items.lengths()])
        starts = np.concatenate([users.indptr[:-1], len(users.items) + items.indptr[:-1]])
        ends = np.concatenate([users.items.astype(np.int64) + train.n_users, items.items])
        scale = np.zeros(len(degree), np.float32)
        np.power(degree, -0.5, out=scale, where=degree > 0, dtype=np.float32)
        return cls(*(torch.from_numpy(array).to(device) for array in (starts, ends, scale[:, None])))

    def propagate(self, x: Tensor) -> Tensor:
        """Return L x; the gradient is L times the gradient, since L is symmetric."""
        y: Tensor = _Propagate.apply(x, self)  # type: ignore[no-untyped-call]
        return y

    def multiply(self, x: Tensor) -> Tensor:
        """Return L x without gradient; each row is summed on its own, in the order of its edges."""
        total = functional.embedding_bag(self.neighbours, x * self.scale, self.indptr, mode="sum")
        return total.mul_(self.scale)


class _Propagate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, graph: NormalisedAdjacency) -> Tensor:
        ctx.graph = graph
        return graph.multiply(x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return ctx.graph.multiply(grads[0].contiguous()), None


class GraphNet(nn.Module):
    r"""Layers of propagation with a bi-interaction term.

    .. math:: E' = \mathrm{LeakyReLU}\bigl((L + I) E W_1 + b_1 + (L E \odot E) W_2 + b_2\bigr)

    The result is the first vectors beside those of each layer, dropped out and scaled to length 1.
    """

    def __init__(
        self, graph: NormalisedAdjacency, n_nodes: int, *, factors: int, layers: int, dropout: float
    ) -> None:
        super().__init__()
        self.graph = graph
        self.node = nn.Embedding(n_nodes, factors)
        self.sums = nn.ModuleList(nn.Linear(factors, factors) for _ in range(layers))
        self.products = nn.ModuleList(nn.Linear(factors, factors) for _ in range(layers))
        self.dropout = nn.Dropout(dropout)
        for parameter in self.parameters():
            if parameter.ndim >= 2:
                nn.init.xavier_uniform_(parameter)
            else:
                nn.init.zeros_(parameter)

    def forward(self) -> Tensor:
        """Return the vectors of all nodes, (n_nodes, factors * (layers + 1))."""
        x = self.node.weight
        layers = [x]
        for sums, products in zip(self.sums, self.products, strict=True):
            near = self.graph.propagate(x)
            x = functional.leaky_relu(sums(near + x) + products(near * x), _SLOPE)
            x = self.dropout(x)
            layers.append(functional.normalize(x, dim=1))
        return torch.cat(layers, dim=1)
