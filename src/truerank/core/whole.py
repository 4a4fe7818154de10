"""Work that counts only when it is finished."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_WHOLE: ContextVar[bool] = ContextVar("whole", default=False)


@contextmanager
def whole_or_nothing() -> Iterator[None]:
    """Within this, Ctrl-C goes through: a training must not end early with its best epoch so far.

    For what is kept under a name that says nothing of an interruption.

    Examples
    --------
    >>> with whole_or_nothing():
    ...     must_be_whole()
    True
    >>> must_be_whole()
    False
    """
    token = _WHOLE.set(True)
    try:
        yield
    finally:
        _WHOLE.reset(token)


def must_be_whole() -> bool:
    """Whether half of a piece of work is worth nothing here."""
    return _WHOLE.get()
