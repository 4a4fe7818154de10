"""Dropout that is quick on a CPU; imported on use."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

_LEVELS = 1 << 16  # one 16-bit number decides on an entry


class Dropout(nn.Module):
    """Set each entry to 0 with a given probability while training, and scale the others up.

    Torch's own on a GPU. On a CPU torch draws a double for each entry, which is a third of the time of a
    small network; here 64 random bits serve four entries. The share is rounded to a multiple of 2**-16 (and
    to less than 1) and the scale follows it, so the mean of an entry stays what it is.

    Parameters
    ----------
    share : of the entries that are dropped, at least 0 and below 1
    """

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share
        self.n_kept = max(1, round((1 - share) * _LEVELS))  # of the levels

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return x with entries dropped, x itself outside of training."""
        if not self.training or self.n_kept == _LEVELS:
            return x
        if x.device.type != "cpu":
            return functional.dropout(x, self.share)
        return x * self.mask(x)

    def mask(self, x: torch.Tensor) -> torch.Tensor:
        """Return what the entries of x are multiplied by, drawn from torch's generator."""
        words = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
        levels = words.view(torch.int16)[: x.numel()].view(x.shape)
        mask = torch.empty_like(x, memory_format=torch.contiguous_format)
        torch.lt(levels, self.n_kept - _LEVELS // 2, out=mask)
        return mask.mul_(_LEVELS / self.n_kept)
