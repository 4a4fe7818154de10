"""Factors and lists on their way to the device."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from truerank.core.errors import InvalidData
from truerank.ranks.kernels.side import exponent_of

if TYPE_CHECKING:
    import torch
    from torch import Tensor

Matrix = Any  # a NumPy array or a torch tensor


def as_matrix(name: str, factors: Matrix) -> Matrix:
    """Return float32 or float64 factors with contiguous rows; a tensor stays on its device.

    Examples
    --------
    >>> as_matrix("user", np.ones((2, 3), np.float16)).dtype
    dtype('float32')
    """
    array: Matrix = factors if is_tensor(factors) else np.asarray(factors)
    kind = str(array.dtype).removeprefix("torch.")
    if array.ndim != 2 or not kind.startswith(("float", "bfloat", "int", "uint")):
        raise InvalidData(
            f"{name} factors must be a matrix of numbers, got {kind} of shape {tuple(array.shape)}."
        )
    is_single = kind in ("float16", "bfloat16", "float32")
    if is_tensor(array):
        return (array.float() if is_single else array.double()).detach().contiguous()
    return np.ascontiguousarray(array, dtype=np.float32 if is_single else np.float64)


def is_tensor(values: object) -> bool:
    """Whether the values are a torch tensor, without importing torch."""
    return type(values).__module__.partition(".")[0] == "torch"


def as_array(values: Matrix) -> NDArray[Any]:
    """Return the values as an array, from whatever device."""
    return np.asarray(values.cpu() if is_tensor(values) else values)


def to_device(values: Matrix, device: torch.device) -> Tensor:
    """Return the values on the device; on a CPU they are not copied, and nobody writes to them."""
    import torch

    if is_tensor(values):
        moved: Tensor = values.to(device)
        return moved
    with warnings.catch_warnings():  # torch warns of arrays that are read-only
        warnings.simplefilter("ignore", UserWarning)
        return torch.from_numpy(values).to(device)


def largest_of(name: str, part: Tensor, whole: Matrix) -> float:
    """Return the largest magnitude of a part; raise and name the row of the whole unless all are finite."""
    ends = part.aminmax() if part.numel() else ()  # no copy, and NaN is found too
    largest = max((abs(float(end)) for end in ends), default=0.0)
    if not np.isfinite(largest):
        exponent_of(name, as_array(whole), None)
    return largest
