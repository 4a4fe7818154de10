"""Where a model is ranked: on the GPU that was asked for where that pays, else on the CPU, and why.

The device is checked before models are fitted, by the driver and without importing torch. Importing torch and
opening the device takes longer than ranking a small data set on the CPU takes altogether.
"""

from __future__ import annotations

import ctypes
import re
import sys
import warnings
from functools import cache
from importlib.util import find_spec

import numpy as np

from truerank.core.errors import DataWarning, InvalidParameter
from truerank.core.parallel import available_threads
from truerank.core.scorer import HasFactors, HasItemWeights, Scorer
from truerank.core.split import Split

# Seconds to import torch, open the device and load compiled kernels (H200, torch 2.11), and to do so again.
START_SECONDS = 4.0
AGAIN_SECONDS = 0.01
# Multiplications of exact ranks and negatives of sampled ranks per second and thread (Zen 4, 64 factors).
PRODUCTS_PER_SECOND = 4.5e10
NEGATIVES_PER_SECOND = 4e7
# Additions of item-item models per second and thread.
SUMS_PER_SECOND = 1e9


def usable_device(device: str) -> str:
    """Return the device, or ``cpu`` with a warning where torch or a GPU is missing; nothing is imported.

    Raises
    ------
    InvalidParameter
        When the name is not that of a CUDA device, or there are GPUs but not this one.
    """
    if device == "cpu" or device.startswith("cpu:"):
        return device
    found = re.fullmatch(r"cuda(?::(\d+))?", device)
    if found is None:
        raise InvalidParameter(f"device must be cuda, cuda:1 (and so on) or cpu, got {device!r}.")
    if find_spec("torch") is None:
        _say(
            "torch is not installed, so ranks are computed on the CPU. Install it with: "
            "pip install 'truerank[torch]'"
        )
        return "cpu"
    n_gpus = gpu_count()
    if n_gpus == 0:
        _say(f"torch sees no GPU, so {device!r} is the CPU here.")
        return "cpu"
    if int(found[1] or 0) >= n_gpus:
        raise InvalidParameter(
            f"device must be one this machine has, cuda:0 to cuda:{n_gpus - 1}, got {device!r}."
        )
    return device


def gpu_count() -> int:
    """Return how many GPUs this process may use: what torch says where it is imported, else the driver."""
    torch = sys.modules.get("torch")
    return int(torch.cuda.device_count()) if torch is not None else _driver_count()


@cache
def _driver_count() -> int:
    for name in ("libcuda.so.1", "nvcuda.dll"):
        try:
            driver = ctypes.CDLL(name)
        except OSError:
            continue
        count = ctypes.c_int(0)
        if driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0:
            return count.value
    return 0


def paying_device(
    device: str, scorer: Scorer, split: Split, *, name: str, n_negatives: int | None, n_threads: int | None
) -> str:
    """Return the device a fitted model is ranked on; where that is the CPU instead, say why.

    Parameters
    ----------
    device : as ``usable_device`` returns it
    scorer, split, name : the model, what it is ranked on, and its name in messages
    n_negatives : negatives per user that are sampled at least; None when all items are ranked
    n_threads : that the CPU would use; None for all
    """
    if not device.startswith("cuda"):
        return device
    seconds = cpu_seconds(scorer, split, n_negatives, n_threads or available_threads())
    if seconds is None:
        needs = "factors" if n_negatives is not None else "factors or an item-item matrix"
        _say(f"{name}: ranked on the CPU, because a GPU needs {needs} and this model has none.")
        return "cpu"
    start = start_seconds()
    if seconds < start:
        _say(
            f"{name}: ranked on the CPU, which takes about {_rounded(seconds)} s; the GPU takes "
            f"{_rounded(start)} s to start."
        )
        return "cpu"
    return device


def cpu_seconds(scorer: Scorer, split: Split, n_negatives: int | None, n_threads: int) -> float | None:
    """Return about how long the CPU would rank a model; None where a GPU cannot.

    Examples
    --------
    >>> import numpy as np
    >>> from truerank.core.interactions import Interactions
    >>> from truerank.core.scorer import Factors
    >>> events = Interactions.from_codes([0, 1], [1, 0])
    >>> factors = Factors(np.ones((2, 45)), np.ones((2, 45)))
    >>> f"{cpu_seconds(factors, Split(events, Interactions.from_codes([0, 1], [0, 1])), None, 1):.1e}"
    '4.0e-09'
    """
    n_users = int(np.count_nonzero(split.test.by_user().lengths()))
    if isinstance(scorer, HasFactors):
        if n_negatives is not None:
            return n_users * n_negatives / (NEGATIVES_PER_SECOND * n_threads)
        item = scorer.factors().item
        return n_users * item.size / (PRODUCTS_PER_SECOND * n_threads)
    if n_negatives is None and isinstance(scorer, HasItemWeights):
        share = n_users / max(1, split.train.n_users)
        return share * scorer.item_weights().n_sums / (SUMS_PER_SECOND * n_threads)
    return None


def start_seconds() -> float:
    """Return what a GPU takes before it ranks: little where torch has one open."""
    torch = sys.modules.get("torch")
    return AGAIN_SECONDS if torch is not None and torch.cuda.is_initialized() else START_SECONDS


def _rounded(seconds: float) -> str:
    return f"{seconds:.1g}" if seconds < 1 else f"{seconds:.0f}"


def _say(message: str) -> None:
    warnings.warn(message, DataWarning, stacklevel=3)
