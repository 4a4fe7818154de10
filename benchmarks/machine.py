"""What the numbers of a benchmark depend on."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

PACKAGES = ("truerank", "numpy", "scipy", "numba", "llvmlite")


def machine(*packages: str) -> dict[str, Any]:
    """Return processor, interpreter, commit and versions; ``packages`` are those beside the usual ones."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    )
    return {
        "cpu": cpu_name(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "commit": commit.stdout.strip(),
        "versions": {name: version(name) for name in (*PACKAGES, *packages)},
    }


def cpu_name() -> str:
    """Return the processor's name."""
    info = Path("/proc/cpuinfo")
    found = re.search(r"^model name\s*: (.*)$", info.read_text(), re.MULTILINE) if info.exists() else None
    return found[1].strip() if found else platform.processor() or platform.machine()


def folder_name(name: str | None = None) -> str:
    """Return the folder of ``benchmarks/results`` for a machine or device; None is this processor."""
    return re.sub(r"[^a-z0-9]+", "-", (name or cpu_name()).lower()).strip("-")
