"""What has been computed once: corrected values and normal equations are reused over models and repeats."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, Protocol, TypeVar


class Sized(Protocol):
    """Something that knows how many bytes it holds."""

    @property
    def nbytes(self) -> int:
        """Bytes held."""


SizedT = TypeVar("SizedT", bound=Sized)


class Memory(Generic[SizedT]):
    """The most recently used results, up to a number of bytes.

    Examples
    --------
    >>> import numpy as np
    >>> memory = Memory[np.ndarray](max_bytes=80)
    >>> memory.get("a", lambda: np.zeros(10)) is memory.get("a", lambda: np.ones(10))
    True
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._held: OrderedDict[Hashable, SizedT] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def find(self, key: Hashable) -> SizedT | None:
        """Return what is held under a key, or None."""
        with self._lock:
            found = self._held.get(key)
            if found is not None:
                self._held.move_to_end(key)
            return found

    def put(self, key: Hashable, value: SizedT) -> None:
        """Hold a value; the least recently used ones go first."""
        with self._lock:
            old = self._held.pop(key, None)
            self._bytes += value.nbytes - (old.nbytes if old is not None else 0)
            self._held[key] = value
            while self._bytes > self.max_bytes and self._held:
                _, dropped = self._held.popitem(last=False)
                self._bytes -= dropped.nbytes

    def get(self, key: Hashable, make: Callable[[], SizedT]) -> SizedT:
        """Return what is held under a key; make it first where needed."""
        found = self.find(key)
        if found is None:
            found = make()
            self.put(key, found)
        return found
