"""The device of GPU ranking: choosing it, limits on its memory, and moving arrays there and back.

``triton`` is a stand-in where it is not installed: kernels are then plain functions that are never called.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from truerank.core.errors import (
    InvalidData,
    InvalidParameter,
    MissingDependency,
    check_at_least,
    check_choice,
)
from truerank.ranking.cpu.counts import exponent_of

if TYPE_CHECKING:
    import torch
    from torch import Tensor


Engine = Literal["auto", "torch", "triton"]


def open_device(name: str) -> torch.device:
    """Return a torch device; raise when there is none of that name.

    Raises
    ------
    MissingDependency, InvalidParameter
        When torch is not installed, or has no such device.

    Examples
    --------
    >>> open_device("cpu").type
    'cpu'
    """
    if find_spec("torch") is None:
        raise MissingDependency("counting on a GPU", "torch", extra="torch")
    import torch

    try:
        device = torch.device(name)
    except RuntimeError:
        raise InvalidParameter(
            f"device must be one torch knows, got {name!r}. Use 'cuda' or 'cpu'."
        ) from None
    if device.type not in ("cuda", "cpu"):
        raise InvalidParameter(
            f"device must be a CUDA device or 'cpu', got {name!r}: ranks are decided in float64."
        )
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise InvalidParameter(
            f"device must be one this machine has, but torch sees {torch.cuda.device_count()} GPUs and no "
            f"{name!r}. Leave it out to count on the CPU."
        )
    return device


def has_gpu() -> bool:
    """Whether torch is installed and sees a GPU."""
    if find_spec("torch") is None:
        return False
    import torch

    return torch.cuda.is_available()


def engine_for(device: torch.device, engine: Engine) -> ModuleType:
    """Return the module that counts: ``triton_count`` on a GPU with triton, else ``torch_blocks``."""
    check_choice("engine", engine, ("auto", "torch", "triton"))
    if engine == "auto":
        engine = "triton" if device.type == "cuda" and find_spec("triton") is not None else "torch"
    if engine == "torch":
        from truerank.ranking.gpu import torch_blocks as blocks

        return blocks
    if find_spec("triton") is None:
        raise InvalidParameter("engine must be 'torch', because triton is not installed. Or install triton.")
    from truerank.ranking.gpu import triton_count as fused

    return fused


# Factors of items, factors of (user, target) rows, and seen items, unless the memory is limited.
ITEM_CELLS = 1 << 27
ROW_CELLS = 1 << 24
SEEN_ITEMS = 1 << 26
# Bytes that each of these takes at most, copies on the way included.
BYTES = 64


@dataclass(frozen=True)
class DeviceLimits:
    """How much is on the device at a time.

    Parameters
    ----------
    item_cells, row_cells, seen_items : counts, see above
    list_bytes : for lists of undecided pairs; None for up to 0.5 GB
    """

    item_cells: int
    row_cells: int
    seen_items: int
    list_bytes: int | None = None

    @classmethod
    def of(cls, memory: int | None) -> DeviceLimits:
        """Return limits of a quarter of the memory each, or the defaults.

        Examples
        --------
        >>> DeviceLimits.of(1 << 20)
        DeviceLimits(item_cells=4096, row_cells=4096, seen_items=4096, list_bytes=262144)
        """
        if memory is None:
            return cls(ITEM_CELLS, ROW_CELLS, SEEN_ITEMS)
        check_at_least("memory", memory, 1 << 20)
        quarter = memory // 4
        return cls(quarter // BYTES, quarter // BYTES, quarter // BYTES, quarter)


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


def to_host(values: Matrix) -> NDArray[Any]:
    """Return the values as an array, from whatever device."""
    return np.asarray(values.cpu() if is_tensor(values) else values)


def to_device(values: Matrix, device: torch.device) -> Tensor:
    """Return the values on the device; on a CPU they are not copied, and must not be written to."""
    import torch

    if is_tensor(values):
        moved: Tensor = values.to(device)
        return moved
    with warnings.catch_warnings():  # torch warns of arrays that are read-only
        warnings.simplefilter("ignore", UserWarning)
        return torch.from_numpy(values).to(device)


def largest_of(name: str, part: Tensor, whole: Matrix) -> float:
    """Return the largest magnitude of a part; raise unless all are finite, naming the row in the whole."""
    ends = part.aminmax() if part.numel() else ()  # no copy, and NaN is found too
    largest = max((abs(float(end)) for end in ends), default=0.0)
    if not np.isfinite(largest):
        exponent_of(name, to_host(whole), None)
    return largest


jit: Callable[[Callable[..., Any]], Any]
tl: Any

try:
    import triton  # type: ignore[import-not-found,unused-ignore]
    import triton.language  # type: ignore[import-not-found,unused-ignore]
except ImportError:

    def _unchanged(function: Any) -> Any:
        return function

    jit, tl = _unchanged, None
else:
    jit, tl = triton.jit, triton.language
