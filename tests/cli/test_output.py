"""What goes to stdout, stderr and files: one answer in every format, and nothing that a terminal obeys."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Truerank, open_terminal
from truerank.cli.options import Format
from truerank.cli.output import SUFFIXES, emit, say, show, table_of, talking
from truerank.core.progress import COMPILATION


def test_messages_are_broken_between_words(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    say("popularity: K = 10 is below what this sample can resolve: any recall@10 from 0.00 to 0.15 fits.")
    assert terminal.getvalue().splitlines() == [
        "popularity: K = 10 is below what this",
        "  sample can resolve: any recall@10 from",
        "  0.00 to 0.15 fits.",
    ]


def test_messages_send_no_control_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    say("wrote a\x1b[2J:smile:[bold].csv\nnext")
    assert terminal.getvalue() == "wrote a\\u001b[2J:smile:[bold].csv\nnext\n"


@pytest.mark.parametrize("style", Format)
def test_names_send_no_control_characters(monkeypatch: pytest.MonkeyPatch, style: Format) -> None:
    terminal = open_terminal(monkeypatch)
    table = table_of(("model",), [["a\x1b[2J\x9b\x7f\N{RIGHT-TO-LEFT OVERRIDE}"]])
    show(lambda _: [json.dumps(table.rows, ensure_ascii=False) if style is Format.json else table], style)
    sent = terminal.getvalue().replace("\x1b[1m", "").replace("\x1b[0m", "")
    assert sent.replace("\n", "").isprintable()
    assert "u001b" in sent


def test_json_that_a_terminal_shows_is_still_json(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    emit(json.dumps(["a\x7f\N{RIGHT-TO-LEFT OVERRIDE}"], ensure_ascii=False))
    assert json.loads(terminal.getvalue()) == ["a\x7f\N{RIGHT-TO-LEFT OVERRIDE}"]


def test_only_names_of_columns_are_bold(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    table = table_of(("model", "auc"), [("\x1b[1mease", 0.8)])
    show(lambda _: [table], Format.table)
    head, row = terminal.getvalue().splitlines()
    assert head.count("\x1b[1m") == 2
    assert "\x1b" not in row
    monkeypatch.setenv("TERM", "dumb")
    terminal.truncate(0)
    show(lambda _: [table], Format.table)
    assert "\x1b" not in terminal.getvalue()


def test_a_file_is_not_folded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    terminal = open_terminal(monkeypatch)
    monkeypatch.chdir(tmp_path)
    rows = [["word " * 30]]
    show(lambda _: [table_of(("text",), rows), "a sentence " * 9], Format.table, Path("x.TXT"))
    assert max(map(len, terminal.getvalue().splitlines())) <= 40
    assert [len(line) for line in Path("x.TXT").read_text().splitlines()] == [4, 150, 0, 99]


def test_cells_are_no_formulas_and_no_markup() -> None:
    table = table_of(("model", "auc"), [('=1+cmd|"/c calc"!A1', -0.5), ("@x", "+0.1"), ("-x", "-3 %")])
    rows = list(csv.reader(table.csv().splitlines()))
    assert rows[1:] == [['\'=1+cmd|"/c calc"!A1', "-0.5"], ["'@x", "+0.1"], ["'-x", "-3 %"]]
    cell = table_of(("model",), [["<script>alert(1)</script>\r\n| x | \x1b[2J"]]).markdown().splitlines()[2]
    assert cell == r"| \<script>alert(1)\</script> \| x \| \\u001b[2J |"


WITH_OUT = [
    ("list", "metrics"),
    ("data", "list"),
    ("data", "describe", "ml-1m"),
    ("paper", "list"),
    ("plan", "--scale", "1e6x1e4"),
    ("plan", "EVENTS", "--model", "popularity", "--metrics", "recall@1", "--sampler", "uniform(m=1)"),
    ("evaluate", "EVENTS", "--model", "popularity", "--metrics", "recall@1,auc", "--interval", "normal"),
    ("compare", "--data", "EVENTS", "--model", "popularity", "--model", "ease", "--metrics", "recall@1"),
    (
        "study",
        "EVENTS",
        "--model",
        "popularity",
        "--sampler",
        "uniform(m=1)",
        "--cutoffs",
        "1",
        "--repeats",
        "2",
    ),
    ("trec", "RUN", "QRELS", "--interval", "normal"),
    ("estimate", "RANKS", "--metrics", "recall@1", "--n-items", "30", "--negatives", "5"),
    (
        *(
            "agreement",
            "EVENTS",
            "--strategies",
            "random",
            "--fractions",
            "0.5",
            "--models",
            "popularity,ease",
        ),
        *("--seeds", "1", "--resamples", "50"),
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize("call", WITH_OUT, ids=lambda call: " ".join(call[:2]))
def test_files_hold_what_is_printed(
    truerank: Truerank, files: dict[str, str], tmp_path: Path, call: tuple[str, ...]
) -> None:
    arguments = [files.get(word, word) for word in call]
    for suffix, style in SUFFIXES.items():
        out = tmp_path / f"out{suffix}"
        done = truerank(*arguments, "--format", style.value, "--out", out)
        assert done.code == 0, done.err
        assert _timeless(out.read_text()) == _timeless(done.out)
        assert f"wrote {out}" in done.err
    bad = truerank(*arguments, "--out", tmp_path / "out.xlsx")
    assert (bad.code, bad.out) == (2, "")
    assert bad.err == "truerank: --out must end in .json, .csv, .md, .tex or .txt, got 'out.xlsx'.\n"
    assert not (tmp_path / "out.xlsx").exists()


def _timeless(text: str) -> list[str]:
    return [line for line in text.splitlines() if "seconds" not in line]


def test_a_first_run_says_that_it_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once, and only to somebody who waits at a terminal; the time is measured, nested functions once."""
    terminal = open_terminal(monkeypatch, columns=100)
    with talking(quiet=False, verbose=False):
        before = COMPILATION.seconds
        COMPILATION.start()
        COMPILATION.start()
        COMPILATION.end()
        assert COMPILATION.seconds == before
        COMPILATION.end()
        assert COMPILATION.seconds > before
        COMPILATION.start()
        COMPILATION.end()
    assert terminal.getvalue().count("Compiling inner loops") == 1
    COMPILATION.start()
    COMPILATION.end()
    with talking(quiet=True, verbose=False):
        COMPILATION.start()
        COMPILATION.end()
    assert terminal.getvalue().count("Compiling inner loops") == 1


@pytest.mark.slow
def test_numba_announces_what_no_cache_holds(tmp_path: Path) -> None:
    """The cache lies beside the file of a function, so that of a new file is empty."""
    from truerank.core.jit import compiled

    file = tmp_path / "doubled.py"
    file.write_text("def double(x):\n    return 2 * x\n")
    module: dict[str, Any] = {"__name__": "doubled"}
    exec(compile(file.read_text(), str(file), "exec"), module)
    told: list[int] = []
    COMPILATION.tell = lambda: told.append(1)
    try:
        assert compiled(module["double"])(1.5) == 3
    finally:
        COMPILATION.tell = None
    assert told


def test_ctrl_c_ends_with_one_sentence(truerank: Truerank, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("truerank.cli.plugins.registries", interrupted)
    done = truerank("list", "models")
    assert (done.code, done.out, done.err) == (130, "", "truerank: interrupted. Nothing was kept.\n")


@pytest.mark.slow
def test_the_package_is_a_command() -> None:
    call = [sys.executable, "-m", "truerank", "--version"]
    done = subprocess.run(call, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("truerank ")


def test_tables_of_ranks_go_by_their_suffix(truerank: Truerank, tiny: Path) -> None:
    bad = truerank("sample", "nothing.csv", "--model", "ease", "--out", tiny.with_name("x.json"))
    assert (bad.code, bad.out) == (2, "")
    assert bad.err == "truerank: --out must end in .parquet, .csv or .tsv, got 'x.json'.\n"
    ranks = tiny.with_name("RANKS.PARQUET")
    call = ("evaluate", tiny, "--model", "popularity", "--metrics", "recall@1", "--interval", "normal")
    assert truerank(*call, "--ranks-out", ranks).code == 0
    assert ranks.read_bytes().startswith(b"PAR1")
