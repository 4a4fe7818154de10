"""The network of SVAE."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class RecurrentNet(nn.Module):
    """A GRU over a history, and a variational autoencoder on its state after each step.

    The decoder stops before its last, linear layer: ``output`` holds the weights and the bias of each item.
    """

    def __init__(self, n_items: int, *, embedding: int, recurrent: int, hidden: int, latent: int) -> None:
        super().__init__()
        self.item = nn.Embedding(n_items, embedding)
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
