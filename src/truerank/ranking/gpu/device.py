"""The device of GPU ranking: choosing it, limits on its memory, and moving arrays there and back.

``triton`` is a stand-in where it is not installed: kernels are then plain functions that are never called.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
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
# Parts of a limited memory, at least: items, rows, and scores and counts of all pairs. What is left is for
# marks and lists, or for seen items, which are there when those are not; a little stays free.
ITEM_SHARE, ROW_SHARE, KEPT_SHARE, FREE_SHARE = 0.33, 0.2, 0.05, 0.03
# Pairs whose scores and counts are kept on the device, and bytes of each.
KEPT_PAIRS = 1 << 25
KEPT_BYTES = 24


@dataclass(frozen=True)
class EngineBytes:
    """What an engine takes on the device, in bytes.

    Parameters
    ----------
    cell : a factor when it is split
    item, row : an item and a row beside their factors
    seen : a seen item
    pair : marks and lists of a row and an item
    """

    cell: int
    item: int
    row: int
    seen: int
    pair: float


@dataclass(frozen=True)
class DeviceLimits:
    """How much is on the device at a time.

    Parameters
    ----------
    items : of the factors
    rows, rows_there : of the factors that are sent, and of those that are on the device already
    seen_items : that are taken off at a time
    list_bytes : for marks and lists of undecided pairs; None for about 0.6 GB
    kept_pairs : up to so many, scores and counts of all pairs stay on the device from chunk to chunk of items
    """

    items: int
    rows: int
    rows_there: int
    seen_items: int
    list_bytes: int | None = None
    kept_pairs: int = KEPT_PAIRS

    @classmethod
    def of(
        cls,
        memory: int | None,
        *,
        width: int,
        itemsize: int,
        of: EngineBytes,
        is_there: bool = False,
        n_rows: int | None = None,
        rows_are_there: bool = False,
    ) -> DeviceLimits:
        """Return limits that share the memory, or the defaults.

        With little memory rows and items get more than their shares, as long as there is room for the marks
        of all of them: where the bytes of rows are x, those of items a x, those of marks and lists
        (a / (row item) pair) x^2, and all of them fill the memory.

        Parameters
        ----------
        memory : bytes, or None
        width, itemsize : columns of the factors in the kernels, and bytes of a factor as given
        of : what the engine that counts takes
        is_there : whether the items are on the device already
        n_rows : rows of a batch where that is known: what they leave is for items, marks and lists
        rows_are_there : whether their factors are on the device already

        Examples
        --------
        >>> takes = EngineBytes(cell=4, item=64, row=144, seen=8, pair=0.012)
        >>> for is_there in (False, True):
        ...     found = DeviceLimits.of(1 << 26, width=64, itemsize=4, of=takes, is_there=is_there)
        ...     print(found.items, found.rows, found.rows_there, found.list_bytes)
        49693 26444 43368 15769297
        69206 20460 33554 26172456
        """
        if memory is None:
            n_rows = max(1, ROW_CELLS // width)
            return cls(max(1, ITEM_CELLS // width), n_rows, n_rows, SEEN_ITEMS)
        check_at_least("memory", memory, 1 << 20)
        item = width * (of.cell + (0 if is_there else itemsize)) + of.item
        sent, there = (width * (of.cell + size) + of.row for size in (itemsize, 0))
        room, ratio = (1 - KEPT_SHARE - FREE_SHARE) * memory, ITEM_SHARE / ROW_SHARE
        # Rows are sent unless items are there: the number of rows is right for either.
        row = there if is_there else sent
        square, linear = of.pair * ratio / (item * row), 1 + ratio
        of_rows = (math.sqrt(linear**2 + 4 * square * room) - linear) / (2 * square)
        of_rows = max(of_rows, ROW_SHARE * memory)
        n_items, of_lists = int(ratio * of_rows) // item, int(room - linear * of_rows)
        of_seen = of_lists
        if n_rows is not None:
            left = room - n_rows * (there if rows_are_there else sent)
            n_items = max(n_items, int(left / (item + of.pair * n_rows)))
            of_lists = max(of_lists // 2, int(left - n_items * item))  # one row may have many targets
            of_seen = of_lists + min(n_rows * there, int(of_rows))  # prepared rows are gone by then
        return cls(
            max(1, min(ITEM_CELLS // width, n_items)),
            max(1, min(ROW_CELLS // width, int(of_rows) // sent)),
            max(1, min(ROW_CELLS // width, int(of_rows) // there)),
            of_seen // of.seen,
            of_lists,
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
        moved: Tensor = values.to(device, non_blocking=not values.is_cuda and values.is_pinned())
        return moved
    here = as_tensor(values)
    if device.type != "cuda":
        return here.to(device)
    if here.nbytes < LEAST_STAGED:
        return here.to(device, non_blocking=True)
    flat = here.contiguous().view(-1)
    sent = torch.empty_like(flat, device=device)
    return _staged(sent, lambda part, piece: piece.copy_(flat[part])).view(here.shape)


def as_tensor(values: Matrix) -> Tensor:
    """Return an array as a tensor of the same memory, a tensor as it is."""
    import torch

    if is_tensor(values):
        given: Tensor = values
        return given
    with warnings.catch_warnings():  # torch warns of arrays that are read-only
        warnings.simplefilter("ignore", UserWarning)
        return torch.from_numpy(values)


# Arrays of up to so many bytes that are sent again and again are copied to pinned memory once. Of those that
# are sent in turn, the next goes there beforehand when it is small: three of them are there at a time.
PINNED_BYTES = 1 << 28
AHEAD_BYTES = 1 << 26


def pinned(values: Matrix, device: torch.device) -> Matrix:
    """Return an array that is going to be sent many times, where a GPU fetches it without the host's help."""
    import torch

    if is_tensor(values) or device.type != "cuda" or not 0 < values.nbytes <= PINNED_BYTES:
        return values
    here = as_tensor(values)
    return torch.empty(here.shape, dtype=here.dtype, pin_memory=True).copy_(here)


# A GPU fetches from pinned memory alone. Arrays go there by so many bytes at a time, but for small ones: the
# driver copies those at once, and would wait for all work under way before it sends larger ones.
STAGED_BYTES = 1 << 22
LEAST_STAGED = 1 << 15


def _staged(sent: Tensor, fill: Callable[[slice, Tensor], object]) -> Tensor:
    """Send rows through pinned memory: all cores fill one piece while the one before is on its way."""
    import torch

    step = max(1, STAGED_BYTES // max(1, sent[:1].nbytes))
    for start in range(0, len(sent), step):
        piece = sent[start : start + step]
        # torch keeps pinned memory that is not used any more, and waits with it for copies under way.
        pinned = torch.empty(piece.shape, dtype=piece.dtype, pin_memory=True)
        fill(slice(start, start + step), pinned)
        piece.copy_(pinned, non_blocking=True)
    return sent


def rows_to_device(values: Matrix, index: NDArray[Any], device: torch.device) -> Tensor:
    """Return some rows on the device; those of an array go to pinned memory at once, by all cores."""
    import torch

    if is_tensor(values):
        return to_device(values[to_device(index, values.device)], device)
    if device.type != "cuda":
        return to_device(values[index], device)
    whole, rows = as_tensor(values), as_tensor(index)
    sent = torch.empty((len(rows), *whole.shape[1:]), dtype=whole.dtype, device=device)
    return _staged(sent, lambda part, piece: torch.index_select(whole, 0, rows[part], out=piece))


def pinned_ahead(parts: Sequence[Matrix], device: torch.device) -> Iterator[Matrix]:
    """Yield arrays that are sent one after the other: another thread copies the next to pinned memory.

    One thread is enough while a GPU works with what it got before, and leaves the host free to launch.
    """
    import torch

    if device.type != "cuda" or any(is_tensor(part) or part.nbytes > AHEAD_BYTES for part in parts):
        yield from parts
        return
    ready = parts[0]
    with ThreadPoolExecutor(1) as pool:
        for following in parts[1:]:
            place = torch.empty(following.shape, dtype=as_tensor(following).dtype, pin_memory=True)
            coming = pool.submit(np.copyto, place.numpy(), following)
            yield ready
            coming.result()
            ready = place
        yield ready


class Coming:
    """Values on their way from a device to the host; other work can be begun in the meantime.

    Parameters
    ----------
    values : on any device; may be dropped, and its memory used again by work begun later
    """

    def __init__(self, values: Tensor) -> None:
        import torch

        self.here, self.arrival = values, None
        if values.is_cuda:
            self.here = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
            self.here.copy_(values, non_blocking=True)
            self.arrival = torch.cuda.current_stream(values.device).record_event()

    def wait(self) -> NDArray[Any]:
        """Return the values when they are here."""
        if self.arrival is not None:
            self.arrival.synchronize()
        return np.asarray(self.here)


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
    import torch

    ends = torch.stack(part.aminmax()).tolist() if part.numel() else ()  # no copy, and NaN is found too
    largest = max(map(abs, ends), default=0.0)
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
