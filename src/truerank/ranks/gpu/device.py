"""Which device counts, and with what."""

from __future__ import annotations

from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Literal

from truerank.core.check import check_choice
from truerank.core.errors import InvalidParameter, MissingDependency

if TYPE_CHECKING:
    import torch

Engine = Literal["auto", "torch", "triton"]


def open_device(name: str) -> torch.device:
    """Return a device that is there.

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
    """Return the module that counts: ``fused`` on a GPU with triton, else ``blocks``."""
    check_choice("engine", engine, ("auto", "torch", "triton"))
    if engine == "auto":
        engine = "triton" if device.type == "cuda" and find_spec("triton") is not None else "torch"
    if engine == "torch":
        from truerank.ranks.gpu import blocks

        return blocks
    if find_spec("triton") is None:
        raise InvalidParameter("engine must be 'torch', because triton is not installed. Or install triton.")
    from truerank.ranks.gpu import fused

    return fused
