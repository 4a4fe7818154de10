"""What the prose of the pages names exists: links, commands, options, benchmarks."""

from __future__ import annotations

import importlib.util
import re

import pytest
from typer.core import TyperGroup, TyperOption

from tests.docs.page import PROJECT, name, pages, prose
from truerank.cli.main import whole_command

_APP = whole_command()
_COMMAND = re.compile(r"`truerank ((?:[a-z]+(?:\\?\|[a-z]+)*|--[a-z-]+)(?:\s[^`]*)?)`")


def test_links_lead_somewhere() -> None:
    broken = [
        f"{name(page)}: {target}"
        for page in pages()
        for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", prose(page.read_text()))
        if not target.startswith("http") and not (page.parent / target).exists()
    ]
    assert not broken


def test_commands_in_prose_exist() -> None:
    named = [
        (name(page), command.replace("\\|", "|").replace("\n", " "))
        for page in pages()
        for command in _COMMAND.findall(prose(page.read_text()))
    ]
    unknown = [
        f"{page}: truerank {command}: {_problem(command)}" for page, command in named if _problem(command)
    ]
    assert len(named) > 50
    assert not unknown


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("evaluate demo --model ease", ""),
        ("paper run all", ""),
        ("data list|describe", ""),
        ("evalute demo", "no such command"),
        ("evaluate demo --modle ease", "--modle"),
    ],
)
def test_unknown_commands_are_noticed(written: str, said: str) -> None:
    assert _problem(written) == said


def test_options_of_the_readme_exist() -> None:
    shown = set(re.findall(r"`(--[a-z-]+)", (PROJECT / "README.md").read_text())) - {"--install-completion"}
    assert shown <= _options(_APP.commands["evaluate"])


def test_benchmarks_in_prose_exist() -> None:
    named = {
        (name(page), module)
        for page in pages()
        for module in re.findall(r"`(?:python -m )?(benchmarks\.\w+)", page.read_text())
    }
    missing = [f"{page}: {module}" for page, module in sorted(named) if not importlib.util.find_spec(module)]
    assert named
    assert not missing


def _problem(written: str) -> str:
    """Say what is wrong with a command, or nothing."""
    words = written.split()
    if words[0].startswith("-"):
        return "" if words[0] in {*_options(_APP), "--help", "--install-completion"} else words[0]
    found: object = _APP
    while isinstance(found, TyperGroup) and words and not words[0].startswith("-"):
        options = [found.commands.get(word) for word in words.pop(0).split("|")]
        if None in options:
            return "no such command"
        found = options[0] or found
    shown = [word.partition("=")[0] for word in words if word.startswith("--")]
    return " ".join(
        word for word in shown if re.fullmatch(r"--[a-z-]+", word) and word not in _options(found)
    )


def _options(command: object) -> set[str]:
    options = [one for one in getattr(command, "params", []) if isinstance(one, TyperOption)]
    return {"--help", *(word for one in options for word in (*one.opts, *one.secondary_opts))}
