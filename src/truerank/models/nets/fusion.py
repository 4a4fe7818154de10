"""The network of NeuMF: two towers (GMF and MLP) joined by a linear layer, and a fast dropout for CPUs.

Imported on use, because it imports torch.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional

from truerank.models.nets.towers import TowerScorer
from truerank.models.torch_training import to_numpy

_LEVELS = 1 << 16  # one 16-bit number decides on an entry


class Dropout(nn.Module):
    """Set each entry to 0 with a given probability while training, and scale the others up.

    On a GPU this is torch's dropout. On a CPU torch samples a double for each entry, which takes a third of
    the time of a small network; here 64 random bits serve four entries. The probability is rounded to a
    multiple of 2**-16 (and to less than 1) and the scale follows it, so that the mean of an entry is kept.

    Parameters
    ----------
    probability : that an entry is dropped, at least 0 and below 1
    """

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.probability = probability
        self.n_kept = max(1, round((1 - probability) * _LEVELS))  # of the levels

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return x with entries dropped, x itself outside of training."""
        if not self.training or self.n_kept == _LEVELS:
            return x
        if x.device.type != "cpu":
            return functional.dropout(x, self.probability)
        return x * self.mask(x)

    def mask(self, x: torch.Tensor) -> torch.Tensor:
        """Return the random factors of the entries of x, from torch's generator."""
        words = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
        levels = words.view(torch.int16)[: x.numel()].view(x.shape)
        mask = torch.empty_like(x, memory_format=torch.contiguous_format)
        torch.lt(levels, self.n_kept - _LEVELS // 2, out=mask)
        return mask.mul_(_LEVELS / self.n_kept)


class Fusion(nn.Module):
    """A product of embeddings (GMF), a perceptron over embeddings (MLP), or both, summed by one linear layer.

    Parameters
    ----------
    n_users, n_items : sizes
    factors : width of the GMF embeddings, 0 without GMF
    layers : widths of the perceptron from its input (both embeddings side by side) up, empty without MLP
    dropout : of the perceptron's input
    biased : biases of users and items, no ReLU after the last layer of the perceptron, and Xavier's start
        for embeddings instead of N(0, 0.01)
    offset : where the constant starts
    """

    def __init__(
        self,
        n_users: int,
        n_items: int,
        factors: int,
        layers: tuple[int, ...],
        dropout: float,
        *,
        biased: bool,
        offset: float,
    ) -> None:
        super().__init__()
        width = layers[0] // 2 if layers else 0
        self.factors, self.layers, self.biased = factors, layers, biased
        self.gmf_user, self.gmf_item = nn.Embedding(n_users, factors), nn.Embedding(n_items, factors)
        self.mlp_user, self.mlp_item = nn.Embedding(n_users, width), nn.Embedding(n_items, width)
        self.user_bias, self.item_bias = nn.Embedding(n_users, 1), nn.Embedding(n_items, 1)
        self.steps = nn.ModuleList(nn.Linear(*sizes) for sizes in pairwise(layers))
        self.dropout = Dropout(dropout)
        self.last = nn.Linear(factors + (layers[-1] if layers else 0), 1)
        for table in (self.gmf_user, self.gmf_item, self.mlp_user, self.mlp_item):
            if biased:
                nn.init.xavier_uniform_(table.weight)
            else:
                nn.init.normal_(table.weight, std=0.01)
        for step in (*self.steps, self.last):
            nn.init.xavier_uniform_(step.weight)
            nn.init.zeros_(step.bias)
        nn.init.constant_(self.last.bias, offset)
        for bias in (self.user_bias, self.item_bias):
            nn.init.zeros_(bias.weight)
            bias.weight.requires_grad_(biased)

    def forward(self, user: torch.Tensor, item: torch.Tensor) -> torch.Tensor:
        """Return one score per pair."""
        parts = []
        if self.factors:
            parts.append(self.gmf_user(user) * self.gmf_item(item))
        if self.layers:
            x = self.dropout(torch.cat([self.mlp_user(user), self.mlp_item(item)], dim=-1))
            for number, step in enumerate(self.steps, 1):
                x = step(x)
                if number < len(self.steps) or not self.biased:
                    x = torch.relu(x)
            parts.append(x)
        score: torch.Tensor = self.last(torch.cat(parts, dim=-1)).squeeze(-1)
        if self.biased:
            score = score + (self.user_bias(user) + self.item_bias(item)).squeeze(-1)
        return score

    def take(self, gmf: Fusion, mlp: Fusion, scale: float) -> None:
        """Start from two trained towers; the weights of their last layers are multiplied by ``scale``.

        Biases and constants are averaged.
        """
        with torch.no_grad():
            for name in ("gmf_user", "gmf_item"):
                getattr(self, name).weight.copy_(getattr(gmf, name).weight)
            for name in ("mlp_user", "mlp_item"):
                getattr(self, name).weight.copy_(getattr(mlp, name).weight)
            self.steps.load_state_dict(mlp.steps.state_dict())
            self.last.weight.copy_(scale * torch.cat([gmf.last.weight, mlp.last.weight], dim=1))
            self.last.bias.copy_((gmf.last.bias + mlp.last.bias) / 2)
            for name in ("user_bias", "item_bias"):
                mean = (getattr(gmf, name).weight + getattr(mlp, name).weight) / 2
                getattr(self, name).weight.copy_(mean)

    def scorer(self, is_warm_user: torch.Tensor, is_warm_item: torch.Tensor) -> TowerScorer:
        """Return the scores of all pairs as arrays; cold rows get the mean of the warm ones."""

        def rows(table: nn.Embedding, is_warm: torch.Tensor) -> torch.Tensor:
            return torch.where(is_warm[:, None], table.weight, table.weight[is_warm].mean(dim=0))

        user, item = rows(self.mlp_user, is_warm_user), rows(self.mlp_item, is_warm_item)
        final, half = self.last.weight[0], user.shape[1]
        linear = [(step.get_parameter("weight"), step.get_parameter("bias")) for step in self.steps]
        if linear:
            matrix, bias = linear[0]
            user, item = user @ matrix[:, :half].T + bias, item @ matrix[:, half:].T
        flat = [part.reshape(-1) for matrix, bias in linear[1:] for part in (matrix.T, bias)]
        flat.append(final[self.factors :])
        user_bias = rows(self.user_bias, is_warm_user)[:, 0] + self.last.bias
        return TowerScorer(
            user_hidden=to_numpy(user),
            item_hidden=to_numpy(item),
            user_product=to_numpy(rows(self.gmf_user, is_warm_user) * final[: self.factors]),
            item_product=to_numpy(rows(self.gmf_item, is_warm_item)),
            user_bias=to_numpy(user_bias),
            item_bias=to_numpy(rows(self.item_bias, is_warm_item)[:, 0]),
            weights=to_numpy(torch.cat(flat)),
            sizes=self.layers[1:],
            is_last_linear=self.biased,
        )
