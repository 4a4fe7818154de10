"""Calling torch modules: in eval mode, without gradients, leaving them as they were."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from truerank.core.types import FloatArray


@contextmanager
def evaluating(module: Any) -> Iterator[None]:
    """Put a module into eval mode without gradients; afterwards every part is in its former mode."""
    import torch

    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for part, mode in modes:
            part.training = mode


def device_of(module: Any) -> Any:
    """Return where the module's parameters or buffers lie, the CPU when it has none."""
    import torch

    for tensors in (module.parameters(), module.buffers()):
        for tensor in tensors:
            return tensor.device
    return torch.device("cpu")


def as_array(scores: Any) -> FloatArray:
    """Return a tensor as an array; half precisions, which NumPy may lack, become float32."""
    import torch

    if not isinstance(scores, torch.Tensor):
        return np.asarray(scores)
    scores = scores.detach()
    if scores.dtype in (torch.float16, torch.bfloat16):
        scores = scores.float()
    array: FloatArray = scores.cpu().numpy()
    return array
