"""The straight line: folders are stages, imports point down, import is fast and light."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import truerank

ROOT = Path(truerank.__file__).parent
PROJECT = ROOT.parent.parent
#: a layer may import the layers below it; stages of the middle layer never import each other
LAYERS = [
    "cli",
    "papers",
    "charts",
    "tracking",
    "accumulator",
    "agreement",
    "planning",
    "comparison",
    "studies",
    "cluster",
    "evaluation",
    "estimation",
    "uncertainty",
    "bounds",
    "subsampling",
    "validation",
    "stage",
    "core",
    "version",
]
STAGES = {
    *("data", "split", "models", "ranks", "estimators", "metrics", "inference", "subsample", "report"),
    "engines",
}
FORBIDDEN_NAMES = {"utils", "util", "helpers", "common", "misc", "manager"}
MODULES = sorted(ROOT.rglob("*.py"))


def part_of(module: str) -> str:
    """Return the first name below truerank, '' for the package itself."""
    pieces = module.split(".")
    return pieces[1] if len(pieces) > 1 else ""


def imports_of(source: str) -> set[str]:
    """Return every truerank module that a source imports, inside functions and type checks too."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide the direction"
            found.add(str(node.module))
    return {name for name in found if name == "truerank" or name.startswith("truerank.")}


def is_allowed(importer: str, imported: str) -> bool:
    """Whether a module of one part may import one of another part."""
    if importer == imported:
        return True
    if importer == "":
        return True  # the package gathers public names
    if imported == "":
        return False
    low, high = ("stage" if part in STAGES else part for part in (importer, imported))
    return LAYERS.index(low) < LAYERS.index(high)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_down(path: Path) -> None:
    importer = path.relative_to(ROOT).with_suffix("").parts[0]
    importer = "" if importer == "__init__" else importer
    wrong = [name for name in imports_of(path.read_text()) if not is_allowed(importer, part_of(name))]
    assert not wrong, f"{path.relative_to(ROOT)} must not import {wrong}"


@pytest.mark.parametrize(
    ("importer", "source", "allowed"),
    [
        ("metrics", "from truerank.core.ranks import Ranks", True),
        ("metrics", "from truerank.ranks import exact_ranks", False),
        ("core", "import truerank.metrics.ndcg", False),
        ("models", "def f():\n    from truerank.data import demo", False),
        ("data", "from truerank import demo", False),
        ("evaluation", "from truerank.models import MODELS", True),
        ("models", "from truerank.evaluation import evaluate", False),
        ("cli", "from truerank.evaluation import evaluate", True),
    ],
)
def test_the_rule_itself(importer: str, source: str, allowed: bool) -> None:
    assert all(is_allowed(importer, part_of(name)) for name in imports_of(source)) is allowed


def test_names_come_from_the_field() -> None:
    assert not [path for path in ROOT.rglob("*") if path.stem in FORBIDDEN_NAMES]


def test_modules_stay_readable() -> None:
    long = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in MODULES}
    assert {name: size for name, size in long.items() if size > 400} == {}


def test_import_is_light() -> None:
    """``import truerank`` pulls in neither the heavy nor the optional libraries."""
    code = "import sys, truerank; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(run.stdout.split())
    assert "truerank" in loaded
    assert not loaded & {"torch", "pandas", "pyarrow", "matplotlib", "numba", "sklearn", "polars", "scipy"}


def test_public_names() -> None:
    assert len(set(truerank.__all__)) == len(truerank.__all__)
    for name in truerank.__all__:
        assert not inspect.ismodule(getattr(truerank, name)), f"a module hides truerank.{name}"
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = truerank.nothing


def test_sources_are_in_the_bibliography() -> None:
    bibliography = (PROJECT / "docs" / "references.bib").read_text()
    keys = set(re.findall(r"^@\w+\{([^,]+),", bibliography, re.MULTILINE))
    used = {key for path in MODULES for key in re.findall(r'Source\("([^"]+)"', path.read_text())}
    assert used <= keys, f"missing: {sorted(used - keys)}"


def test_statistical_tests_are_in_the_ledger() -> None:
    """At most 1e-4 false alarms a run: each marked test has a line with its level, and the sum is checked."""
    ledger = (PROJECT / "tests" / "stat" / "LEDGER.md").read_text()
    levels = dict(re.findall(r"^\| `([^`]+)` \| ([0-9.e-]+) \|", ledger, re.MULTILINE))
    marked = {
        node.name
        for path in (PROJECT / "tests").rglob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef)
        and any("mark.stat" in ast.unparse(decorator) for decorator in node.decorator_list)
    }
    assert marked == set(levels)
    assert sum(float(level) for level in levels.values()) <= 1e-4
