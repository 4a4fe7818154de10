"""What the package declares, and what it says where a library is not installed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from truerank import __version__

PROJECT = Path(__file__).resolve().parent.parent
DECLARED: dict[str, Any] = tomllib.loads((PROJECT / "pyproject.toml").read_text())
ADDRESS = "https://github.com/truerank/truerank"


def index_page() -> str:
    """Return the README as the package index shows it: with the substitutions that the build makes."""
    page = (PROJECT / "README.md").read_text()
    hook = DECLARED["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]
    for one in hook["substitutions"]:
        page = re.sub(one["pattern"], one["replacement"], page)
    return page


def test_links_of_the_index_page_lead_somewhere() -> None:
    """Every picture and link is absolute, and the file behind it lies in the repository."""
    links = re.findall(r"(!?)\[[^\]]*\]\(([^)\s]+)\)", index_page())
    assert sum(bool(mark) for mark, _ in links) >= 2
    for mark, link in links:
        start = (
            "https://raw.githubusercontent.com/truerank/truerank/main/" if mark else f"{ADDRESS}/blob/main/"
        )
        assert link.startswith("https://")
        if link.startswith(("https://raw.", ADDRESS)):
            assert link.startswith(start)
            assert (PROJECT / link.removeprefix(start).partition("#")[0]).exists(), link


def test_pythons_are_those_of_the_makefile() -> None:
    minor = re.findall(r"Python :: 3\.(\d+)", "\n".join(DECLARED["project"]["classifiers"]))
    assert minor == ["11", "12", "13"]
    assert DECLARED["project"]["requires-python"] == f">=3.{minor[0]}"
    assert f"pythons: test-3.{minor[1]} test-3.{minor[2]}\n" in (PROJECT / "Makefile").read_text()


def test_citation_names_this_version() -> None:
    cited = yaml.safe_load((PROJECT / "CITATION.cff").read_text())
    assert (cited["cff-version"], cited["type"]) == ("1.2.0", "software")
    assert cited["version"] == __version__
    assert cited["license"] == DECLARED["project"]["license"]
    assert cited["repository-code"] == ADDRESS


def test_addresses_are_of_one_repository() -> None:
    assert all(link.startswith(ADDRESS) for link in DECLARED["project"]["urls"].values())


RUN = """
import sys
sys.modules.update(dict.fromkeys({absent!r}))
from truerank.cli.main import run
sys.argv = ["truerank", *{arguments!r}]
run()
"""


def run_without(absent: list[str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a process where importing some libraries fails."""
    return subprocess.run(
        [sys.executable, "-c", RUN.format(absent=absent, arguments=arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(PROJECT / "src"), "COLUMNS": "200"},
        check=False,
    )


OPTIONAL = ["torch", "distributed", "dask", "pyspark", "pooch", "mlflow", "cornac", "implicit", "pandas"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("absent", "arguments", "sentence"),
    [
        (
            ["matplotlib"],
            ("paper", "run", "r19.figure1", "--fresh"),
            "truerank: a figure needs matplotlib. Install it with: pip install matplotlib",
        ),
        (
            ["torch"],
            ("evaluate", "demo", "--model", "neumf"),
            "truerank: model 'neumf' needs PyTorch. Install it with: pip install 'truerank[torch]'",
        ),
        (
            ["distributed"],
            ("evaluate", "demo", "--model", "popularity", "--engine", "dask"),
            "truerank: engine 'dask' needs distributed. Install it with: pip install 'truerank[dask]'",
        ),
        (
            ["pyspark"],
            ("evaluate", "demo", "--model", "popularity", "--engine", "spark"),
            "truerank: engine 'spark' needs pyspark. Install it with: pip install 'truerank[spark]'",
        ),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_an_absent_library_gets_a_sentence(
    absent: list[str], arguments: tuple[str, ...], sentence: str
) -> None:
    done = run_without(absent, *arguments)
    assert done.returncode == 2, done.stderr
    assert done.stderr.splitlines()[-1] == sentence
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_evaluate_with_a_report_needs_no_optional_library(tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    done = run_without(
        [*OPTIONAL, "matplotlib"],
        *("evaluate", "demo", "--model", "popularity", "--metrics", "recall@10", "--report", str(report)),
    )
    assert done.returncode == 0, done.stderr
    assert report.stat().st_size > 10_000


@pytest.mark.slow
def test_a_plot_without_matplotlib_gets_a_sentence() -> None:
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from truerank import Result, Estimate\n"
        "try: Result('evaluate', (Estimate('a', 'auc', 0.5),)).plot()\n"
        "except ImportError as error: print(type(error).__name__, error)"
    )
    environment = {**os.environ, "PYTHONPATH": str(PROJECT / "src")}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True
    )
    expected = "MissingDependency a figure needs matplotlib. Install it with: pip install matplotlib\n"
    assert done.stdout == expected
