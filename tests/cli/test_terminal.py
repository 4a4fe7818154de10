"""Every command in a terminal of 80 columns: no line is longer, and no word and no number is broken."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from tests.cli.conftest import open_terminal
from truerank.cli.main import COMMANDS, run
from truerank.core.display import text_width

#: Calls; words in capitals stand for files of the fixture.
CALLS = [
    ("evaluate", "demo", "--model", "popularity", "--model", "item-knn(power=2)"),
    (
        *(
            "evaluate",
            "EVENTS",
            "--model",
            "popularity",
            "--model",
            "item-knn",
            "--negatives",
            "9",
            "--check",
        ),
        *("--estimator", "naive,smooth", "--metrics", "ndcg@5,recall@5,ap@5,auc"),
    ),
    (
        *("evaluate", "EVENTS", "--model", "popularity", "--model", "ease(reg=20)", "--model", "item-knn"),
        *("--metrics", "ndcg@5,recall@5,ap@5,auc,mrr,precision@5", "--report", "report.html", "-v"),
    ),
    ("compare", "--data", "EVENTS", "--model", "popularity", "--model", "ease", "--model", "item-knn"),
    ("estimate", "RANKS", "--n-items", "300", "--negatives", "5", "--metrics", "recall@10,ndcg@10"),
    ("sample", "EVENTS", "--model", "popularity", "--sampler", "uniform(m=9)", "--out", "pilot.csv"),
    ("plan", "--pilot", "PILOT", "--metrics", "recall@5", "--budget", "5000"),
    ("plan", "--scale", "1e6x1e5x64", "--workers", "16"),
    ("plan", "--scale", "1e6x1e5x64", "--gpus", "8"),
    ("fit", "EVENTS", "--model", "ease", "--out", "ease.truerank"),
    (
        *("study", "EVENTS", "--model", "popularity", "--model", "item-knn", "--sampler", "uniform(m=9)"),
        *("--estimator", "naive,bv,smooth", "--cutoffs", "1-5", "--repeats", "2"),
    ),
    ("subsample", "EVENTS", "--strategy", "random-walk", "--fraction", "0.5", "--out", "small.csv"),
    (
        *("agreement", "EVENTS", "--strategies", "random,head-user", "--fractions", "0.5", "--seeds", "1"),
        *("--models", "popularity,ease", "--resamples", "50", "--by-metric", "--keep", "kept"),
    ),
    ("trec", "RUN", "QRELS", "--metrics", "ndcg@10,recall@10,ap(norm=rel),mrr"),
    ("list",),
    ("list", "models"),
    ("list", "metrics"),
    ("list", "strategies"),
    ("list", "models", "kr20-y"),
    ("list", "estimators", "smooth"),
    ("data", "list"),
    ("data", "describe", "ml-1m"),
    ("paper", "list"),
    ("paper", "list", "r19", "kr20.table3"),
    ("paper", "run", "r19.table1", "r19.figure2", "--keep", "kept"),
    *((*name.split(), "--help") for name in ("", *COMMANDS, "data list", "paper list", "paper run")),
]
_STYLE = re.compile(r"\x1b\[[0-9;]*m")
_FRAME = re.compile(r"[\u2500-\u257f]")


def capture(monkeypatch: pytest.MonkeyPatch, arguments: list[str], columns: int) -> str:
    """Run the command in a terminal that cannot move its cursor, so that it draws no progress bars."""
    with monkeypatch.context() as patch, warnings.catch_warnings():
        screen = open_terminal(patch, columns, "dumb")
        patch.setattr(sys, "argv", ["truerank", *arguments])
        try:
            run()
        except SystemExit as stopped:
            assert not stopped.code, screen.getvalue()
    return screen.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize("call", CALLS, ids=" ".join)
def test_eighty_columns(
    call: tuple[str, ...], files: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = [Path(files[word]).name if word in files else word for word in call]
    if call[0] == "agreement":  # it measures what is saved: in later runs, the kept times are the same
        capture(monkeypatch, arguments, 80)
    narrow, wide = (capture(monkeypatch, arguments, columns) for columns in (80, 100_000))
    assert narrow.strip()
    assert [line for line in narrow.splitlines() if text_width(line) > 80] == []
    assert words(wide) - words(narrow) == set()


def words(text: str) -> set[str]:
    """Return all words, digits as zeros, because some numbers are measured times."""
    plain = _FRAME.sub(" ", text).replace("\\\n", "\n")
    return {re.sub(r"\d", "0", word) for word in plain.split() if not re.search(r"\d s$", word)}


def test_broken_words_are_noticed() -> None:
    assert words("recall@10 0.1234") - words("recall@10 0.12\n34") == {"0.0000"}


NAMES = "caf\N{LATIN SMALL LETTER E WITH ACUTE}", "\N{CJK UNIFIED IDEOGRAPH-4E2D}", "a\x1b[31mred"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("environment", "shown"),
    [
        ({"PYTHONIOENCODING": "utf-8"}, [*NAMES[:2], r"a\u001b[31mred"]),
        (
            {"LANG": "C", "LC_ALL": "C", "PYTHONIOENCODING": "ascii"},
            [r"caf\u00e9", r"\u4e2d", r"a\u001b[31mred"],
        ),
    ],
    ids=["utf-8", "ascii"],
)
def test_names_in_a_real_terminal(environment: dict[str, str], shown: list[str], tmp_path: Path) -> None:
    pty = pytest.importorskip("pty")
    ranks = "".join(f"{name},u{at},{1 + at % 7}\n" for name in NAMES for at in range(30))
    (tmp_path / "ranks.csv").write_text(f"model,user_id,rank\n{ranks}")
    parent, child = pty.openpty()
    call = [
        "estimate",
        "ranks.csv",
        "--n-items",
        "40",
        "--negatives",
        "8",
        "--metrics",
        "recall@3",
        "--no-bounds",
    ]
    process = subprocess.Popen(
        [sys.executable, "-m", "truerank", *call],
        cwd=tmp_path,
        env={**os.environ, "COLUMNS": "80", "TERM": "xterm", **environment},
        stdin=child,
        stdout=child,
        stderr=child,
    )
    os.close(child)
    sent = read_all(parent)
    assert process.wait() == 0, sent
    text = _STYLE.sub("", re.sub(r"\x1b\[\??[0-9;]*[A-LN-Za-ln-z]", "", sent))
    assert "\x1b" not in text
    table = [line.rstrip("\r") for line in text.split("\n") if "smooth " in line][-3:]
    assert [line.split("  ")[0] for line in table] == shown
    assert len({text_width(line) for line in table}) == 1


def read_all(terminal: int) -> str:
    """Return what a process sent to its terminal until it ended."""
    sent = b""
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # Linux: the other side was closed
            part = b""
        if not part:
            os.close(terminal)
            return sent.decode()
        sent += part
