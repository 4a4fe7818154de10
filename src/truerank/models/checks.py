"""Checks of hyper-parameters, train data and memory that several models share."""

from __future__ import annotations

import os

from truerank.core.errors import InvalidData, InvalidParameter
from truerank.core.interactions import Interactions


def check_count(name: str, value: object, least: int) -> None:
    """Raise unless the value is an integer >= least."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InvalidParameter(f"{name} must be an integer >= {least}, got {value!r}.")


def check_finite(name: str, value: float) -> None:
    """Raise unless the value is a finite number."""
    if not -float("inf") < value < float("inf"):
        raise InvalidParameter(f"{name} must be a finite number, got {value!r}.")


def check_rate(name: str, value: float) -> None:
    """Raise unless 0 <= value < 1, as a probability of dropping and a decay rate must be."""
    if not 0 <= value < 1:
        raise InvalidParameter(f"{name} must be at least 0 and below 1, got {value!r}.")


def check_events(model: str, train: Interactions) -> None:
    """Raise unless there is something to learn from."""
    if len(train) == 0:
        raise InvalidData(
            f"train must hold at least one event to fit {model!r}, got 0. Check the split and the filters."
        )


def check_memory(model: str, n_bytes: int, advice: str) -> None:
    """Raise when a model needs more memory than the machine has in all."""
    machine = _memory()
    if machine is not None and n_bytes > machine:
        raise InvalidParameter(
            f"{model!r} needs {n_bytes / 1e9:.1f} GB of memory for this catalogue, "
            f"but this machine has {machine / 1e9:.1f} GB. {advice}"
        )


def _memory() -> int | None:
    """Return the bytes of physical memory, None where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None
