"""Every block of the README and of the documentation does what the page says."""

from __future__ import annotations

import doctest
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Truerank
from tests.docs.page import SET_UP, Block, Command, blocks, name, pages

pytestmark = [
    pytest.mark.filterwarnings("ignore:OpenBLAS is configured:RuntimeWarning"),  # implicit
    pytest.mark.filterwarnings("ignore:'data' was split by"),  # what pages show
]
#: How many blocks of a page no test runs, at most. Each has its reason in the page.
NOT_RUN = {
    "docs/adapters.md": 1,
    "docs/agreement.md": 1,
    "docs/cluster.md": 2,
    "docs/comparison.md": 1,
    "docs/data.md": 2,
    "docs/gpu.md": 2,
    "docs/report.md": 1,
    "docs/slow_models.md": 1,
}
_WRITES = ("--out", "--report", "--ranks-out")
_RUNNABLE = [
    page for page in pages() if any(one.kind != "text" for one in blocks(page.read_text(), name(page)))
]


@pytest.mark.parametrize("page", _RUNNABLE, ids=name)
def test_blocks_do_what_they_show(page: Path, folder: Path, truerank: Truerank) -> None:
    names: dict[str, Any] = {"__name__": "page"}
    problems: list[str] = []
    for block in blocks(page.read_text(), name(page)):
        if block.not_run is None:
            problems += _problems(block, names, truerank)
    assert not problems, "\n".join(problems)


def test_blocks_that_are_not_run_do_not_grow() -> None:
    exempt = [
        one for page in pages() for one in blocks(page.read_text(), name(page)) if one.not_run is not None
    ]
    listed = "\n".join(f"{one.where}: {one.not_run}" for one in exempt)
    assert all(len(one.not_run or "") > 10 for one in exempt), listed
    assert not Counter(one.page for one in exempt) - Counter(NOT_RUN), listed


def test_readme_writes_a_report(folder: Path) -> None:
    readme = pages()[0]
    [block] = [one for one in blocks(readme.read_text(), "README.md") if one.kind == "python"]
    exec(compile(block.text, block.where, "exec"), {})
    assert (folder / "report.html").stat().st_size > 10_000


BROKEN = [
    ("python", "1 / 0\n", "ZeroDivisionError"),
    ("python", ">>> 1 + 1\n3\n", "doctest"),
    ("console", "$ truerank list metrics\nnothing\n", "prints otherwise"),
    ("console", "$ truerank list nonsense\n", "exit code 2"),
    ("bash", "rm -r /\n", "no command of truerank"),
    ("", "truerank list nonsense\n", "exit code 2"),
]


@pytest.mark.parametrize(("language", "text", "said"), BROKEN)
def test_broken_blocks_are_noticed(
    language: str, text: str, said: str, folder: Path, truerank: Truerank
) -> None:
    [found] = _problems(Block("page.md", 1, language, text, None), {}, truerank)
    assert said in found


def test_streams_may_be_woven_into_each_other() -> None:
    assert _is_shown("talk\n  a   table\nwrote it\n", err="talk\nwrote it\n", out="a table\n")
    assert not _is_shown("talk\na table\n", err="talk\nwrote it\n", out="a table\n")
    assert not _is_shown("wrote it\na table\ntalk\n", err="talk\nwrote it\n", out="a table\n")


def test_what_stands_before_a_block_exempts_it() -> None:
    text = "<!-- not run: needs a GPU -->\n```python\nx\n```\n\n```\nformula\n```\n\n```sh\nmake demo\n```\n"
    first, second, third = blocks(text, "page.md")
    assert (first.not_run, first.kind, first.line) == ("needs a GPU", "python", 2)
    assert (second.not_run, second.kind) == (None, "text")
    assert (third.kind, third.commands()) == ("shell", [Command("make demo", "")])


def _problems(block: Block, names: dict[str, Any], truerank: Truerank) -> list[str]:
    """Run one block; say what went wrong."""
    if block.kind == "python":
        try:
            exec(compile(block.text, block.where, "exec", dont_inherit=True), names)
        except Exception as error:
            return [f"{block.where}: {type(error).__name__}: {error}"]
        return []
    if block.kind == "doctest":
        return _doctest_problems(block, names)
    if block.kind == "shell":
        return [problem for one in block.commands() for problem in _command_problems(block, one, truerank)]
    return []


def _is_shown(shown: str, err: str, out: str) -> bool:
    """Whether the page shows both streams line by line, one woven into the other; blanks do not count."""
    streams = [[line.split() for line in text.splitlines() if line.strip()] for text in (err, out)]
    for line in shown.splitlines():
        if not line.strip():
            continue
        stream = next((one for one in streams if one and one[0] == line.split()), None)
        if stream is None:
            return False
        stream.pop(0)
    return not any(streams)


def _doctest_problems(block: Block, names: dict[str, Any]) -> list[str]:
    said: list[str] = []
    example = doctest.DocTestParser().get_doctest(block.text, names, block.where, block.page, block.line)
    doctest.DocTestRunner(verbose=False).run(example, out=said.append, clear_globs=False)
    names.update(example.globs)
    return [f"{block.where}: doctest\n{''.join(said)}"] if said else []


def _command_problems(block: Block, command: Command, truerank: Truerank) -> list[str]:
    where = f"{block.where}: {command.line}"
    if command.line.startswith(SET_UP):
        return []
    if not command.line.startswith("truerank "):
        return [f"{where}: no command of truerank, pip or make; take it out or say why it is not run."]
    done = truerank(*command.arguments)
    if done.code:
        return [f"{where}: exit code {done.code}: {done.err.strip()}"]
    if command.shown.strip() and not _is_shown(command.shown, done.err, done.out):
        return [f"{where}: prints otherwise:\n{done.err}{done.out}"]
    arguments = command.arguments
    promised = [arguments[i + 1] for i, one in enumerate(arguments) if one in _WRITES]
    return [f"{where}: {path} was not written." for path in promised if not Path(path).exists()]
