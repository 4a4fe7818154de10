"""The network of Multi-VAE; imported on use, because it imports torch."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.functional import dropout, log_softmax

from truerank.core.interactions import Lists
from truerank.core.types import IntArray


class History:
    """Histories of all users as flat tensors on a device."""

    def __init__(self, lists: Lists, device: torch.device) -> None:
        self.indptr = torch.tensor(lists.indptr, device=device)
        self.items = torch.tensor(lists.items, dtype=torch.int64, device=device)

    def of(self, users: IntArray | torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the users' items one after another, and where each user's begin."""
        users = torch.as_tensor(users, device=self.indptr.device)
        first, lengths = self.indptr[users], self.indptr[users + 1] - self.indptr[users]
        offsets = torch.cumsum(lengths, 0) - lengths
        entry = torch.arange(int(lengths.sum()), device=users.device)
        return self.items[entry + torch.repeat_interleave(first - offsets, lengths)], offsets


class Autoencoder(nn.Module):
    """History to latent normal to scores.

    ``hidden`` tanh units on each side of ``latent`` dimensions. The first layer is a sum of item rows, so
    that only the history is touched; dropout drops history items. With ``as_coded`` the log variance of the
    divergence is the log of the standard deviation of z, as in the code of [sachdeva2022]_.
    """

    def __init__(
        self,
        n_items: int,
        hidden: int,
        latent: int,
        dropout: float,
        *,
        normalise: bool,
        as_coded: bool = False,
    ) -> None:
        super().__init__()
        self.dropout, self.normalise, self.as_coded = dropout, normalise, as_coded
        self.first = nn.EmbeddingBag(n_items, hidden, mode="sum")
        self.first_bias = nn.Parameter(torch.zeros(hidden))
        self.to_latent = nn.Linear(hidden, 2 * latent)
        self.from_latent = nn.Linear(latent, hidden)
        self.last = nn.Linear(hidden, n_items)
        for weight in (self.first.weight, self.to_latent.weight, self.from_latent.weight, self.last.weight):
            nn.init.xavier_normal_(weight)
        for bias in (self.first_bias, self.to_latent.bias, self.from_latent.bias, self.last.bias):
            nn.init.trunc_normal_(bias, std=0.001)

    def encode(self, items: torch.Tensor, offsets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return mean and log variance of the latent normal of each history."""
        weights = torch.ones(len(items), device=items.device)
        if self.normalise:
            stops = torch.cat([offsets[1:], offsets.new_tensor([len(items)])])
            lengths = stops - offsets
            weights = torch.repeat_interleave(lengths.clamp(min=1).float().rsqrt(), lengths)
        weights = dropout(weights, self.dropout, self.training)
        summed = self.first(items, offsets, per_sample_weights=weights)
        mean, log_variance = self.to_latent(torch.tanh(summed + self.first_bias)).chunk(2, dim=1)
        return mean, log_variance

    def code(self, mean: torch.Tensor, log_variance: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        """Return z for standard normal noise."""
        return mean + noise * torch.exp(log_variance if self.as_coded else 0.5 * log_variance)

    def decode(self, z: torch.Tensor) -> torch.Tensor:
        """Return the hidden vector whose dot products with the rows of ``last`` are the scores."""
        return torch.tanh(self.from_latent(z))

    def loss(self, items: torch.Tensor, offsets: torch.Tensor, weight: float) -> torch.Tensor:
        """Return the mean over users of -log multinomial + weight * KL, z being sampled once."""
        mean, log_variance = self.encode(items, offsets)
        z = self.code(mean, log_variance, torch.randn_like(mean))
        log_p = log_softmax(self.last(self.decode(z)), dim=1)
        rows = torch.repeat_interleave(
            torch.arange(len(offsets), device=items.device), _lengths(items, offsets)
        )
        likelihood = log_p[rows, items].sum() / len(offsets)
        kl = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum(dim=1).mean()
        return weight * kl - likelihood


def _lengths(items: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    return torch.diff(offsets, append=offsets.new_tensor([len(items)]))
