"""The README's Python passes mypy as strictly as the library does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.page import PROJECT, blocks

pytestmark = pytest.mark.slow


def check(folder: Path, source: str) -> subprocess.CompletedProcess[str]:
    (folder / "readme.py").write_text(source)
    call = [sys.executable, "-m", "mypy", "--strict", "--config-file", str(PROJECT / "pyproject.toml")]
    call += ["--cache-dir", str(PROJECT / ".mypy_cache"), str(folder / "readme.py")]
    environment = {**os.environ, "MYPYPATH": str(PROJECT / "src")}
    return subprocess.run(call, capture_output=True, text=True, env=environment, cwd=PROJECT, check=False)


def test_the_python_of_the_readme_passes_mypy(tmp_path: Path) -> None:
    text = (PROJECT / "README.md").read_text()
    found = [block.text for block in blocks(text, "README.md") if block.kind == "python"]
    assert found
    done = check(tmp_path, "\n".join(found))
    assert done.returncode == 0, done.stdout


def test_a_wrong_argument_is_noticed(tmp_path: Path) -> None:
    """That the check can fail: results and Interactions are typed for those who install truerank."""
    source = (
        'import truerank\n\ntruerank.make_split(truerank.load("demo"), 3)\nx: int = truerank.load("demo")\n'
    )
    done = check(tmp_path, source)
    assert done.returncode == 1
    assert "readme.py:3: error" in done.stdout
    assert "readme.py:4: error" in done.stdout
