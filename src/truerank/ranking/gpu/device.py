"""The device of GPU ranking: choosing it, limits on its memory, and moving arrays there and back.

``triton`` is a stand-in where it is not installed: kernels are then plain functions that are never called.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
    if device.type == "cuda" and device.index is None:  # as tensors name it that are there already
        return torch.device("cuda", torch.cuda.current_device())
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
ROW_CELLS = 1 << 26
SEEN_ITEMS = 1 << 26
# Bytes per item, per row and per seen item, beside their factors, copies on the way included.
ITEM_BYTES = 128
ROW_BYTES = 260
SEEN_BYTES = 64
# Parts of a limited memory; with 64 MiB, marks of a batch of rows and a chunk of items fit at once.
ITEM_SHARE, ROW_SHARE, LIST_SHARE, SEEN_SHARE, KEPT_SHARE = 0.315, 0.265, 0.33, 0.04, 0.05
# Pairs whose scores and counts are kept on the device, and bytes of each.
KEPT_PAIRS = 1 << 25
KEPT_BYTES = 24


@dataclass(frozen=True)
class DeviceLimits:
    """How much is on the device at a time.

    Parameters
    ----------
    items, rows : of the factors
    seen_items : that are taken off at a time
    list_bytes : for marks and lists of undecided pairs; None for about 0.6 GB
    kept_pairs : up to so many, scores and counts of all pairs stay on the device from chunk to chunk of items
    """

    items: int
    rows: int
    seen_items: int
    list_bytes: int | None = None
    kept_pairs: int = KEPT_PAIRS

    @classmethod
    def of(
        cls, memory: int | None, *, width: int, itemsize: int, cell_bytes: int, is_there: bool = False
    ) -> DeviceLimits:
        """Return limits that share the memory, or the defaults.

        Parameters
        ----------
        memory : bytes, or None
        width, itemsize : columns of the factors in the kernels, and bytes of a factor as given
        cell_bytes : what a factor takes when it is split
        is_there : whether the factors are on the device already

        Examples
        --------
        >>> DeviceLimits.of(1 << 26, width=64, itemsize=4, cell_bytes=4)
        DeviceLimits(items=33030, rows=17299, seen_items=41943, list_bytes=22145925, kept_pairs=139810)
        """
        if memory is None:
            return cls(max(1, ITEM_CELLS // width), max(1, ROW_CELLS // width), SEEN_ITEMS)
        check_at_least("memory", memory, 1 << 20)
        item = width * (cell_bytes + (0 if is_there else itemsize)) + ITEM_BYTES
        row = width * (cell_bytes + (0 if is_there else 2 * itemsize)) + ROW_BYTES
        return cls(
            max(1, min(ITEM_CELLS // width, int(ITEM_SHARE * memory) // item)),
            max(1, min(ROW_CELLS // width, int(ROW_SHARE * memory) // row)),
            int(SEEN_SHARE * memory) // SEEN_BYTES,
            int(LIST_SHARE * memory),
            int(KEPT_SHARE * memory) // KEPT_BYTES,
        )


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
        here = torch.from_numpy(values)
    if device.type != "cuda" or here.nbytes < LEAST_STAGED or not here.is_contiguous():
        return here.to(device)
    return _staged(here, device)


# A GPU fetches from pinned memory alone. Arrays go there by so many bytes at a time, but for small ones: the
# driver would wait for all work under way before it sends larger ones.
STAGED_BYTES = 1 << 22
LEAST_STAGED = 1 << 15


def _staged(values: Tensor, device: torch.device) -> Tensor:
    """Send values through pinned memory: all cores fill one piece while the one before is on its way."""
    import torch

    flat = values.view(-1)
    sent = torch.empty_like(flat, device=device)
    step = STAGED_BYTES // flat.element_size()
    for start in range(0, len(flat), step):
        piece = flat[start : start + step]
        # torch keeps pinned memory that is not used any more, and waits with it for copies under way.
        pinned = torch.empty(len(piece), dtype=flat.dtype, pin_memory=True)
        pinned.copy_(piece)
        sent[start : start + step].copy_(pinned, non_blocking=True)
    return sent.view(values.shape)


class SideStream:
    """Work on a GPU beside what is under way there; on a CPU it is done in order.

    Memory that both use must be held until what runs in here has been waited for.

    Parameters
    ----------
    device : the GPU
    """

    def __init__(self, device: torch.device) -> None:
        import torch

        self.stream: torch.cuda.Stream | None = None
        if device.type == "cuda":
            self.stream = torch.cuda.Stream(device, priority=-1)  # type: ignore[no-untyped-call]

    def mark(self) -> Any:
        """Return a mark behind all work under way."""
        import torch

        if self.stream is None:
            return None
        return torch.cuda.current_stream(self.stream.device).record_event()

    @contextmanager
    def after(self, mark: Any) -> Iterator[None]:
        """Let what is begun in here wait for a mark alone."""
        import torch

        if self.stream is None:
            yield
            return
        self.stream.wait_event(mark)
        with torch.cuda.stream(self.stream):
            yield


def largest_of(name: str, part: Tensor, whole: Matrix) -> float:
    """Return the largest magnitude of a part; raise unless all are finite, naming the row in the whole."""
    ends = part.aminmax() if part.numel() else ()  # no copy, and NaN is found too
    largest = max((abs(float(end)) for end in ends), default=0.0)
    if not np.isfinite(largest):
        exponent_of(name, to_host(whole), None)
    return largest


def has_float8(device: torch.device) -> bool:
    """Whether the matrix units of a device multiply float8 numbers as ``cross`` assumes: Hopper's do."""
    if device.type != "cuda" or interprets():
        return False
    import torch

    return torch.cuda.get_device_capability(device)[0] == 9


def interprets() -> bool:
    """Whether triton's interpreter runs the kernels, on a CPU (TRITON_INTERPRET=1)."""
    return os.environ.get("TRITON_INTERPRET") == "1"


Kernel = Callable[..., Any]
tl: Any

try:
    import triton  # type: ignore[import-not-found,unused-ignore]
    import triton.language  # type: ignore[import-not-found,unused-ignore]
except ImportError:

    def jit(*sizes: str) -> Callable[[Kernel], Any]:
        """Return the function as it is."""
        return lambda function: function

    tl = None
else:

    def jit(*sizes: str) -> Callable[[Kernel], Any]:
        """Compile a kernel on first use, once for all values of the named sizes.

        Without their names triton compiles again for sizes that are 1 or multiples of 16.
        """

        def decorate(function: Kernel) -> Any:
            return triton.jit(function, do_not_specialize=list(sizes))

        return decorate

    tl = triton.language
