"""What blocks of the documentation run with."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from tests.cli.conftest import truerank
from tests.retail import write_retail
from truerank.core.interactions import Interactions
from truerank.data import catalogue
from truerank.data.demo import demo

__all__ = ["truerank"]

_demo = cache(demo)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder with ``events.csv``, which stands for the reader's own file, and ``retail.csv``."""
    monkeypatch.setattr(catalogue, "demo", _demo)
    events = _demo(n_users=300, n_items=800)
    rows = zip(events.user, events.item, _times(events), strict=True)
    lines = [f"{user},{item},{when}\n" for user, item, when in rows]
    (tmp_path / "events.csv").write_text("user_id,item_id,timestamp\n" + "".join(lines))
    write_retail(tmp_path / "retail.csv")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _times(events: Interactions) -> list[int]:
    assert events.time is not None
    return [int(when) for when in events.time]
