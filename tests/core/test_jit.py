"""Compiled code is taken from the cache only while no file it may depend on has changed."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from numba.core.caching import IndexDataCacheFile

from truerank.core import jit
from truerank.core.progress import COMPILATION
from truerank.ranking.cpu import factors_compiled


def test_the_cache_depends_on_all_compiled_modules_of_the_folder() -> None:
    stored = factors_compiled.count_items._cache._cache_file  # type: ignore[attr-defined]
    assert isinstance(stored, IndexDataCacheFile)
    stamp = jit.source_stamp(Path(factors_compiled.__file__).resolve().parent)
    assert stored._source_stamp == stamp
    assert {name for name, _, _ in stamp} == {
        *("exact_compiled.py", "factors_compiled.py", "grow_compiled.py", "listed_compiled.py"),
        *("sampling_compiled.py", "rows_compiled.py", "sums.py", "tile.py", "vectors.py"),
        *("jit.py", "random_compiled.py"),
    }


def test_without_a_folder_to_write_to_it_is_compiled_all_the_same() -> None:
    namespace: dict[str, object] = {}
    exec("def double(x):\n    return 2 * x", namespace)  # a function without a file cannot be cached
    assert jit.compiled(namespace["double"])(21) == 42  # type: ignore[type-var, operator]


def test_on_a_full_disk_it_is_compiled_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be cached is compiled again in the next process, which is told."""

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(IndexDataCacheFile, "save", refuse)
    monkeypatch.setattr(COMPILATION, "is_kept", True)
    assert jit.compiled(_increment)(41) == 42
    assert not COMPILATION.is_kept


def _increment(x: int) -> int:
    return x + 1
