"""Commands are imported when they are called: the group alone stays light, and still describes them all."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys

import pytest

from truerank.cli.main import COMMANDS, DEFINED, load_command, whole_command

LOADED = """
import json, sys
from truerank.cli.main import run
try:
    run()
except SystemExit as stopped:
    assert not stopped.code, stopped.code
print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""
HEAVY = {"numpy", "polars", "pandas", "scipy", "numba", "matplotlib", "torch"}


@pytest.mark.parametrize(
    ("arguments", "most"),
    [
        (["--version"], 7),
        (["--help"], 8),
        (["list", "metrics", "--help"], 18),
    ],
)
def test_help_loads_no_numerical_library(arguments: list[str], most: int) -> None:
    """``most`` bounds the modules of truerank: the group needs main, interrupt, help, errors and version."""
    call = [sys.executable, "-c", LOADED, *arguments]
    run = subprocess.run(call, capture_output=True, text=True, check=True)
    loaded = json.loads(run.stderr.splitlines()[-1])
    ours = [name for name in loaded if name.split(".")[0] == "truerank"]
    assert run.stdout
    assert HEAVY.isdisjoint(loaded)
    assert not [name for name in ours if name.startswith(("truerank.workflows", "truerank.papers"))]
    assert len(ours) <= most, ours


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_each_command_is_light(name: str) -> None:
    inner = {"data": ["list"], "paper": ["run"]}.get(name, [])
    call = [sys.executable, "-c", LOADED, name, *inner, "--help"]
    run = subprocess.run(call, capture_output=True, text=True, check=True)
    assert HEAVY.isdisjoint(json.loads(run.stderr.splitlines()[-1]))


def test_calling_a_command_loads_no_other() -> None:
    call = [sys.executable, "-c", LOADED, "data", "list", "--help"]
    run = subprocess.run(call, capture_output=True, text=True, check=True)
    loaded = set(json.loads(run.stderr.splitlines()[-1]))
    modules = {f"truerank.cli.{DEFINED.get(name, name).partition(':')[0]}" for name in COMMANDS}
    assert loaded & modules == {"truerank.cli.data"}


@pytest.mark.parametrize("name", COMMANDS)
def test_summaries_are_the_first_lines_of_the_help(name: str) -> None:
    command = load_command(name)
    assert command.name == name
    assert inspect.cleandoc(command.help).splitlines()[0] == COMMANDS[name]


def test_the_whole_command_has_every_option() -> None:
    commands = whole_command().commands
    assert list(commands) == list(COMMANDS)
    assert "model" in {parameter.name for parameter in commands["evaluate"].params}
    assert "install_completion" not in {parameter.name for parameter in commands["data"].params}
