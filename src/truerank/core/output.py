"""Writing files so that no half-written one is ever left."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from truerank.core.errors import InvalidParameter


def check_output(path: Path, what: str) -> None:
    """Raise unless a file can be put at ``path``; call it before any long work starts.

    Parameters
    ----------
    path : where the file shall lie
    what : how messages call the file, such as ``the report``

    Raises
    ------
    InvalidParameter
        When the path is a folder or a device, or its folder does not exist or is read-only.
    """
    with _named_failure(path, what):
        if path.exists() and not path.is_file():
            raise InvalidParameter(f"{what} must be a file, but '{path}' is not one. Add a file name.")
        if not path.parent.is_dir():
            raise InvalidParameter(
                f"{what} needs an existing folder, but '{path.parent}' is none. Create it first."
            )
        if not os.access(path.parent, os.W_OK):
            raise InvalidParameter(
                f"{what} needs a folder one can write to, but '{path.parent}' is read-only. "
                "Choose another one."
            )


def replace_file(path: Path, write: Callable[[Path], object], what: str) -> None:
    """Let ``write`` fill a new file in the same folder, which then takes the place of ``path`` in one step.

    Raises
    ------
    InvalidParameter
        When the path cannot be written; what was there stays.
    """
    check_output(path, what)
    part = path.with_name(f".truerank-{secrets.token_hex(8)}{path.suffix}")
    with _named_failure(path, what):
        try:
            write(part)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)


def replace_text(path: Path, text: str, what: str) -> None:
    """Write the whole text to ``path``, in UTF-8, or leave what was there untouched."""
    data = text.encode("utf-8", errors="replace")
    replace_file(path, lambda part: part.write_bytes(data), what)


@contextmanager
def _named_failure(path: Path, what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise InvalidParameter(
            f"{what} must be written to '{path}', but that failed ({reason}). Choose another place."
        ) from None
