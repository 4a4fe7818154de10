"""A Dask cluster that the tests of a module share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.distributed.cluster import loopback


@pytest.fixture(scope="module")
def dask() -> Iterator[Any]:
    """Start a scheduler and two workers."""
    with loopback() as cluster:
        yield cluster
