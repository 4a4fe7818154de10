"""A Dask cluster that the tests of a module share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.distributed.cluster import loopback
from truerank.distributed.dask import DaskProcesses


@pytest.fixture(scope="module")
def dask() -> Iterator[DaskProcesses]:
    """Start a scheduler and two workers."""
    with loopback() as cluster:
        yield cluster
