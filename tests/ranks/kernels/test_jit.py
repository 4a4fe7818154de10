"""Compiled code is taken from the cache only while no file of the kernels has changed."""

from __future__ import annotations

from numba.core.caching import IndexDataCacheFile

from truerank.ranks.kernels import factor_compiled, jit


def test_the_cache_depends_on_all_files() -> None:
    cache = factor_compiled.count_items._cache._cache_file  # type: ignore[attr-defined]
    assert isinstance(cache, IndexDataCacheFile)
    assert cache._source_stamp == jit.STAMP
    assert {"tile.py", "jit.py", "factor_compiled.py"} <= {name for name, _, _ in jit.STAMP}


def test_without_a_folder_to_write_to_it_is_compiled_all_the_same() -> None:
    namespace: dict[str, object] = {}
    exec("def double(x):\n    return 2 * x", namespace)  # a function without a file cannot be cached
    assert jit.compiled(namespace["double"])(21) == 42  # type: ignore[type-var, operator]
