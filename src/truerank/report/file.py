"""Writing a report so that no half-written file is ever left."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from truerank.core.errors import InvalidParameter


def check_report_path(path: Path) -> None:
    """Raise unless a report can be put at ``path``; call it before any long work starts.

    Raises
    ------
    InvalidParameter
        When the path is a folder or a device, or its folder does not exist or is read-only.
    """
    with _named_failure(path):
        if path.exists() and not path.is_file():
            raise InvalidParameter(f"the report must be a file, but '{path}' is not one. Add a file name.")
        if not path.parent.is_dir():
            raise InvalidParameter(
                f"the report needs an existing folder, but '{path.parent}' is none. Create it first."
            )
        if not os.access(path.parent, os.W_OK):
            raise InvalidParameter(
                f"the report needs a folder one can write to, but '{path.parent}' is read-only. "
                "Choose another one."
            )


def replace_text(path: Path, text: str) -> None:
    """Write the whole text to ``path`` or leave what was there untouched.

    The text goes to a new file in the same folder, which then takes the place of ``path`` in one step.

    Raises
    ------
    InvalidParameter
        When the path cannot be written.
    """
    check_report_path(path)
    part = path.with_name(f".truerank-{secrets.token_hex(8)}.part")
    with _named_failure(path):
        try:
            with part.open("x", encoding="utf-8", errors="replace", newline="\n") as file:
                file.write(text)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)


@contextmanager
def _named_failure(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise InvalidParameter(
            f"the report must be written to '{path}', but that failed ({reason}). Choose another place."
        ) from None
