"""What counts on this machine: torch on the CPU everywhere, torch and triton on a GPU where there is one."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TypedDict

from truerank.ranking.gpu.device import Engine, has_gpu, interprets


class Where(TypedDict):
    """Arguments that choose a device."""

    device: str
    engine: Engine


ENGINES: list[Where] = [Where(device="cpu", engine="torch")]
if has_gpu():
    ENGINES.append(Where(device="cuda", engine="torch"))
    if find_spec("triton") is not None:
        ENGINES.append(Where(device="cuda", engine="triton"))

# Triton's interpreter runs the kernels on a CPU too: TRITON_INTERPRET=1 pytest tests/ranking/gpu
if find_spec("triton") is not None and interprets():
    ENGINES.append(Where(device="cpu", engine="triton"))
