"""A Dask cluster that the tests of a module share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.engines.cluster import loopback
from truerank.engines.dask_processes import DaskProcesses


@pytest.fixture(scope="module")
def dask() -> Iterator[DaskProcesses]:
    """Start a scheduler and two workers."""
    with loopback() as cluster:
        yield cluster
