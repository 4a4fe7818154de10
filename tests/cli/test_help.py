"""The help of every command: every option in a panel, words for its value, and examples that work."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.cli.conftest import Truerank
from truerank.cli.help import EXAMPLES, PANELS, continued
from truerank.cli.main import COMMANDS, GROUPS, whole_command
from truerank.data.demo import demo


def paths() -> dict[str, object]:
    """Return every command by what is typed after ``truerank``."""
    found: dict[str, object] = {}
    for name, command in whole_command().commands.items():
        found[name] = command
        found |= {f"{name} {inner}": one for inner, one in getattr(command, "commands", {}).items()}
    return found


def test_every_command_has_examples() -> None:
    assert set(EXAMPLES) == {"", *paths()}
    for path, examples in EXAMPLES.items():
        for what, call in examples:
            assert call.startswith(f"truerank {path}".strip()), call
            assert what[0].isupper() and not what.endswith(".")


def test_every_command_has_its_panel() -> None:
    assert sorted(name for names in GROUPS.values() for name in names) == sorted(COMMANDS)


def test_panels_name_options_that_exist() -> None:
    known = {option.name for command in paths().values() for option in getattr(command, "params", [])}
    named = {name for names in PANELS.values() for name in names}
    assert named - {"help"} <= known


@pytest.mark.parametrize("path", sorted(paths()))
def test_every_option_is_explained(truerank: Truerank, path: str) -> None:
    done = truerank(*path.split(), "--help")
    assert (done.code, done.err) == (0, "")
    for option in getattr(paths()[path], "params", []):
        assert option.help, f"{path}: {option.name} has no help"
        if option.param_type_name == "option":
            assert max(option.opts, key=len) in done.out
    if not getattr(paths()[path], "commands", None):
        assert "-q, --quiet" in done.out and "-v, --verbose" in done.out
    assert "Examples" in done.out


def test_long_calls_are_continued_as_a_shell_reads_them() -> None:
    call = "truerank evaluate demo --model 'ease(reg=5)' --metrics recall@10 --out table.tex"
    for width in (30, 50, 200):
        lines = continued(call, width)
        assert shlex.split(lines.replace("\\\n", "")) == shlex.split(call)
        assert all(len(line) <= width for line in lines.splitlines())


#: Examples whose run would take minutes, or need the network.
NOT_RUN = {"truerank data fetch ml-1m"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "call", sorted({call for listed in EXAMPLES.values() for _, call in listed} - NOT_RUN)
)
def test_examples_work(
    truerank: Truerank, call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRUERANK_CACHE", str(tmp_path))
    events = demo(n_users=300, n_items=400)
    assert events.time is not None
    rows = zip(events.user, events.item, events.time, strict=True)
    lines = "".join(f"{user},{item},{int(when)}\n" for user, item, when in rows)
    Path("events.csv").write_text(f"user_id,item_id,timestamp\n{lines}")
    Path("ranks.csv").write_text(
        "user_id,rank\n" + "".join(f"u{at},{1 + at * at % 101}\n" for at in range(300))
    )
    Path("run.txt").write_text(
        "".join(f"q{q} Q0 d{d} {d} {99 - d} t\n" for q in range(4) for d in range(1, 13))
    )
    Path("qrels.txt").write_text("".join(f"q{q} 0 d{1 + q % 3} 1\n" for q in range(4)))
    if "exact.parquet" in call:
        models = ("--model", "popularity", "--model", "item-knn")
        assert truerank("evaluate", "events.csv", *models, "--ranks-out", "exact.parquet").code == 0
    done = truerank(*shlex.split(call.replace(" demo ", " events.csv "))[1:])
    assert done.code == 0, done.err
    for written in re.findall(r"--(?:out|report) (\S+)", call):
        assert Path(written).exists()


def test_quiet_prints_results_and_errors_only(truerank: Truerank, tiny: Path) -> None:
    call = ("evaluate", tiny, "--model", "popularity", "--metrics", "recall@1", "--interval", "normal")
    usual = truerank(*call)
    assert usual.err
    for quiet in (truerank(*call, "-q"), truerank("--quiet", *call)):
        assert (quiet.code, quiet.out, quiet.err) == (0, usual.out, "")
    failed = truerank("evaluate", tiny, "--model", "nothing", "-q")
    assert failed.code == 2
    assert "unknown model 'nothing'" in failed.err
    assert truerank(*call).err == usual.err


def test_verbose_prints_what_took_how_long(truerank: Truerank, tiny: Path) -> None:
    call = ("evaluate", tiny, "--model", "popularity", "--metrics", "recall@1", "--interval", "normal")
    usual, verbose = truerank(*call), truerank(*call, "-v")
    assert verbose.out == usual.out
    more = [line for line in verbose.err.splitlines() if line not in usual.err.splitlines()]
    assert any(re.fullmatch(r"ranking: \d+\.\d\d s\.", line) for line in more)
    assert re.fullmatch(r"\d+\.\d s in all\.", more[-1])


def test_quiet_and_verbose_exclude_each_other(truerank: Truerank) -> None:
    done = truerank("list", "models", "-q", "-v")
    assert (done.code, done.out) == (2, "")
    assert done.err == "truerank: give either --quiet or --verbose, not both.\n"
