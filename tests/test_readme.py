"""What the README and the pages show is what happens."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.cli.conftest import Truerank, truerank

__all__ = ["truerank"]

PROJECT = Path(__file__).parent.parent
README = (PROJECT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("block", blocks("console"))
def test_console_blocks_print_what_they_show(block: str, truerank: Truerank) -> None:
    command, _, shown = block.partition("\n")
    done = truerank(*shlex.split(command.removeprefix("$ truerank ")))
    assert done.code == 0
    assert _squeezed(done.err + done.out) == _squeezed(shown)


@pytest.mark.parametrize("block", blocks("python"))
def test_python_blocks_run(block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "README.md", "exec"), {})
    assert (tmp_path / "report.html").stat().st_size > 10_000


def test_links_lead_somewhere() -> None:
    pages = [PROJECT / "README.md", *sorted((PROJECT / "docs").glob("*.md")), *PROJECT.glob("[AC]*.md")]
    broken = [
        f"{page.name}: {target}"
        for page in pages
        for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text())
        if not target.startswith("http") and not (page.parent / target).exists()
    ]
    assert not broken


def test_options_of_the_readme_exist(truerank: Truerank) -> None:
    shown = set(re.findall(r"`(--[a-z-]+)", README)) - {"--install-completion"}
    assert shown <= set(re.findall(r"--[a-z-]+", truerank("evaluate", "--help").out))


def _squeezed(text: str) -> list[str]:
    return text.split()
