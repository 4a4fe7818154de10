"""Run the command line as a user would, in this process."""

from __future__ import annotations

import io
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


class Terminal(io.StringIO):
    """A terminal that remembers what was sent."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def open_terminal(monkeypatch: pytest.MonkeyPatch, columns: int = 40, kind: str = "xterm") -> Terminal:
    """Return what takes the place of both streams; no fixture, because pytest sets streams after those."""
    screen = Terminal()
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", kind)
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setattr(sys, "stderr", screen)
    return screen


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """Return files by the word that stands for them."""
    texts = {
        "EVENTS": "user_id,item_id,timestamp\n"
        + "".join(f"u{u},i{(2 * u + v**3) % 240},{v}\n" for u in range(120) for v in range(6)),
        "RUN": "".join(f"q{q} Q0 d{d} {d} {99 - d} tag\n" for q in range(4) for d in range(1, 13)),
        "QRELS": "".join(f"q{q} 0 d{1 + q % 3} 1\n" for q in range(4)),
        "RANKS": "user_id,rank\n" + "".join(f"u{at},{1 + at % 6}\n" for at in range(40)),
    }
    texts["PILOT"] = "user_id,rank,n_negatives,n_items\n" + "".join(
        f"u{at},{1 + at * at % 10},9,200\n" for at in range(120)
    )
    for name, text in texts.items():
        (tmp_path / f"{name.lower()}.csv").write_text(text)
    return {name: str(tmp_path / f"{name.lower()}.csv") for name in texts}
