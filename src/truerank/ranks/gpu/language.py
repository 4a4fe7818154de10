"""Triton, or a stand-in where it is missing: kernels are then plain functions that nobody calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

jit: Callable[[Callable[..., Any]], Any]
tl: Any

try:
    import triton  # type: ignore[import-not-found,unused-ignore]
    import triton.language  # type: ignore[import-not-found,unused-ignore]
except ImportError:

    def _unchanged(function: Any) -> Any:
        return function

    jit, tl = _unchanged, None
else:
    jit, tl = triton.jit, triton.language
