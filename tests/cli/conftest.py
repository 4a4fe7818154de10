"""Run the command line as a user would, in this process."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from truerank.cli.main import run


@dataclass(frozen=True)
class Outcome:
    """What the user sees."""

    code: int
    out: str
    err: str


Truerank = Callable[..., Outcome]


@pytest.fixture
def truerank(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Truerank:
    def call(*arguments: str | Path) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["truerank", *map(str, arguments)])
        with warnings.catch_warnings():
            try:
                run()
                code = 0
            except SystemExit as stopped:
                code = int(stopped.code or 0)
        out, err = capsys.readouterr()
        return Outcome(code, out, err)

    return call


TINY = """\
user_id,item_id,rating,timestamp
ann,x,5,1
ann,y,4,2
ann,z,3,3
bob,x,5,1
bob,z,2,5
cid,y,4,2
cid,x,1,9
dan,x,1,1
"""


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """Four users, three items; by popularity x (4 events) comes before y and z."""
    path = tmp_path / "tiny.csv"
    path.write_text(TINY)
    return path
