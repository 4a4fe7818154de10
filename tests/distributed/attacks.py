"""What attackers do, and a scorer that must be pickled; in a module that worker processes can import."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import Any

import numpy as np

from truerank.core.types import FloatArray, IntArray
from truerank.distributed.local import Local

N_USERS, N_ITEMS = 60, 50


def touch(path: str) -> None:
    Path(path).touch()


class Planted:
    """Code that runs when it is unpickled: it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return touch, (str(self.path),)


class Opaque:
    """A scorer that is not made of arrays, so it must be pickled."""

    n_items = N_ITEMS

    def score(self, users: IntArray, items: IntArray) -> FloatArray:
        return np.cos(np.asarray(users)[:, None] * 31.0 + np.asarray(items)[None] * 17.0)

    def score_pairs(self, users: IntArray, items: IntArray) -> FloatArray:
        return np.cos(np.asarray(users) * 31.0 + np.asarray(items) * 17.0)


class Meddling(Local):
    """An engine in whose run somebody changes files before the tasks start."""

    def map(self, job: Any, tasks: Any, **options: Any) -> Any:
        self.meddle()
        return super().map(job, tasks, **options)

    @abstractmethod
    def meddle(self) -> None:
        """Change files of the run."""
