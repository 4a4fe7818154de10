"""What all tests share: nothing is kept outside the test's own folders."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep finished pieces of recipes in a folder that goes away."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRUERANK_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield
