"""The package of docs/plugins.md, installed with pip: its plug-ins are found and used by the command."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.page import PROJECT, Block, blocks

pytestmark = pytest.mark.slow
RUN = [sys.executable, "-c", "from truerank.cli.main import run; run()"]


@pytest.fixture(scope="module")
def page() -> list[Block]:
    return blocks((PROJECT / "docs" / "plugins.md").read_text(), "docs/plugins.md")


@pytest.fixture(scope="module")
def site(page: list[Block], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the files as the page shows them, install them, and return where they are."""
    source, target = tmp_path_factory.mktemp("acme"), tmp_path_factory.mktemp("site")
    classes = [block.text for block in page if block.kind == "python"]
    [project] = [block.text for block in page if block.language == "toml"]
    (source / "acme_ranking.py").write_text("\n\n".join(classes))
    (source / "pyproject.toml").write_text(project)
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--target", str(target)]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, str(source)], check=True)
    return target


def call(site: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(PROJECT / "src"), str(site)])
    environment = {**os.environ, "PYTHONPATH": path, "COLUMNS": "200"}
    return subprocess.run([*RUN, *arguments], env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("kind", "name", "parameters"),
    [
        ("metrics", "half-life", "half_life=5"),
        ("models", "recent-popularity", "fraction=0.1"),
        ("estimators", "even", "points=100"),
        ("samplers", "rare-items", "m=99, replace=false, shared=true, per=user"),
    ],
)
def test_plug_ins_are_listed_with_their_package(site: Path, kind: str, name: str, parameters: str) -> None:
    entries = json.loads(call(site, "list", kind, "--format", "json").stdout)
    assert [(entry["name"], entry["parameters"]) for entry in entries if entry["package"] != "truerank"] == [
        (name, parameters)
    ]
    shown = call(site, "list", kind)
    assert shown.returncode == 0
    [line] = [line for line in shown.stdout.splitlines() if line.startswith(f"{name} ")]
    assert "acme-ranking" in line


def test_the_command_of_the_page_prints_what_the_page_shows(site: Path, page: list[Block]) -> None:
    [shown] = [block.text for block in page if block.language == "text"]
    command, _, printed = shown.partition("\n")
    done = call(site, *shlex.split(command.removeprefix("$ truerank ")))
    assert done.returncode == 0, done.stderr
    assert [line.split() for line in done.stdout.splitlines()] == [
        line.split() for line in printed.splitlines()
    ]


def test_all_four_work_together(site: Path) -> None:
    models, metrics = ["--model", "recent-popularity"], ["--metrics", "half-life@10"]
    sampled = ["--negatives", "100", "--estimator", "even,smooth", "--bounds", "--check"]
    done = call(site, "evaluate", "demo", *models, *metrics, *sampled, "--format", "json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert {entry["estimator"] for entry in result["estimates"]} == {"even", "smooth", "exact"}
    exact = next(entry for entry in result["estimates"] if entry["estimator"] == "exact")
    [bound] = result["bounds"]
    assert bound["low"] <= exact["value"] <= bound["high"]
    rare = ["--sampler", "rare-items(m=20)", "--estimator", "naive"]
    assert call(site, "evaluate", "demo", *models, *metrics, *rare).returncode == 0


def test_a_misspelt_name_is_answered_with_that_of_the_package(site: Path) -> None:
    done = call(site, "evaluate", "demo", "--model", "popularity", "--metrics", "half-live@10")
    assert done.returncode == 2
    assert "unknown metric 'half-live'. Did you mean 'half-life'?" in done.stderr
