"""Folders are subjects, imports point down, and importing the package is fast and light."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

import truerank
from truerank.core import errors

ROOT = Path(truerank.__file__).parent
PROJECT = ROOT.parent.parent
#: a subject may import the subjects to its right; those in different brackets do not import each other
LAYERS: list[list[list[str]]] = [
    [["__main__"]],
    [["cli"]],
    [["papers"]],
    [["report"]],
    [["workflows"]],
    [["distributed"]],
    [["inference", "estimation", "metrics"], ["subsampling", "models"], ["ranking"], ["data"], ["split"]],
    [["core"]],
    [["version"]],
]
#: results that import ``report`` inside ``plot()``: the only calls upwards
PLOTTED = {"core/result.py", "workflows/agreement/result.py", "workflows/compare/result.py"}
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


def position(subject: str) -> tuple[int, int, int]:
    """Return layer, bracket and position within the bracket."""
    return next(
        (layer, bracket, LAYERS[layer][bracket].index(subject))
        for layer in range(len(LAYERS))
        for bracket in range(len(LAYERS[layer]))
        if subject in LAYERS[layer][bracket]
    )


def is_allowed(importer: str, imported: str) -> bool:
    """Whether a module of one subject may import one of another subject."""
    if importer in ("", imported):
        return True  # the package gathers public names
    if imported == "":
        return False
    (layer, bracket, place), (below, other, deeper) = position(importer), position(imported)
    return layer < below or (layer == below and bracket == other and place < deeper)


def test_imports_point_down() -> None:
    wrong = []
    for path in MODULES:
        name = str(path.relative_to(ROOT))
        importer = "" if name == "__init__.py" else name.removesuffix(".py").split("/")[0]
        wrong += [
            f"{name} must not import {imported}"
            for imported in imports_of(path.read_text())
            if not is_allowed(importer, part_of(imported))
            and not (name in PLOTTED and part_of(imported) == "report")
        ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("importer", "source", "allowed"),
    [
        ("metrics", "from truerank.core.ranks import Ranks", True),
        ("metrics", "from truerank.ranking.exact import exact_ranks", False),
        ("core", "import truerank.metrics.ndcg", False),
        ("models", "def f():\n    from truerank.data.demo import demo", False),
        ("data", "from truerank import demo", False),
        ("estimation", "from truerank.metrics.base import Metric", True),
        ("metrics", "from truerank.estimation.base import Estimator", False),
        ("workflows", "from truerank.models.registry import MODELS", True),
        ("models", "from truerank.workflows.evaluate import evaluate", False),
        ("cli", "from truerank.workflows.evaluate import evaluate", True),
    ],
)
def test_the_rule_itself(importer: str, source: str, allowed: bool) -> None:
    assert all(is_allowed(importer, part_of(name)) for name in imports_of(source)) is allowed


def test_names_come_from_the_field() -> None:
    assert not [path for path in ROOT.rglob("*") if path.stem in FORBIDDEN_NAMES]


def test_no_two_public_names_are_alike() -> None:
    """One name, one thing: twin kernels, commands and the papers' own numbers excepted."""
    twins = {"ranking/gpu/torch_blocks.py", "ranking/gpu/triton_count.py"}
    homes: dict[str, list[str]] = {}
    for path in MODULES:
        name = str(path.relative_to(ROOT))
        for node in ast.parse(path.read_text()).body:
            if not isinstance(node, ast.ClassDef | ast.FunctionDef) or node.name.startswith("_"):
                continue
            is_numbered = name.startswith("papers/") and re.fullmatch(r"(table|figure)\d+", node.name)
            is_command = name.startswith("cli/") and node.name == path.stem
            if not is_numbered and not is_command:
                homes.setdefault(node.name, []).append("twin" if name in twins else name)
    assert {name: found for name, found in homes.items() if len(set(found)) > 1} == {}


def test_modules_stay_readable() -> None:
    """A module is a subject that a reader can hold in the head, a folder a list that fits a glance."""
    long = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in MODULES}
    assert {name: size for name, size in long.items() if size > 650} == {}
    flat = Counter(path.parent for path in MODULES if path.name != "__init__.py")
    assert {str(folder.relative_to(ROOT)): size for folder, size in flat.items() if size > 22} == {}


def test_the_architecture_page_names_what_there_is() -> None:
    """Every path in backticks on the page is a module, a folder or a group of modules."""
    page = (PROJECT / "ARCHITECTURE.md").read_text()
    folders = "|".join(
        sorted({path.relative_to(ROOT).parts[0] for path in MODULES} - {"__init__.py", "version.py"})
    )
    named = re.findall(rf"`((?:{folders})/[\w/*]+)(?:\.\w+)?`", page)
    assert len(named) > 20
    assert not [name for name in named if not (ROOT / name).is_dir() and not list(ROOT.glob(f"{name}.py"))]


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


def test_public_functions_name_every_keyword() -> None:
    """No ``**options``: completion and mypy see a typo, and at run time the nearest keyword is named."""
    functions = [value for name in truerank.__all__ if inspect.isfunction(value := getattr(truerank, name))]
    assert len(functions) > 20
    for function in functions:
        parameters = inspect.signature(function).parameters.values()
        assert not [each for each in parameters if each.kind is each.VAR_KEYWORD], function.__name__
        with pytest.raises(truerank.UnknownArgument, match="has no argument 'nosuch'"):
            function(nosuch=1)


def test_every_error_and_every_registry_is_public() -> None:
    kinds = [kind for kind in vars(errors).values() if inspect.isclass(kind) and issubclass(kind, Exception)]
    assert {kind.__name__ for kind in kinds} <= set(truerank.__all__)
    registries = {
        name
        for path in MODULES
        for name in re.findall(r"^([A-Z]+): Registry\[\w+\] = Registry\(", path.read_text(), re.MULTILINE)
    }
    assert len(registries) >= 12
    assert registries <= set(truerank.__all__)
    assert all(isinstance(getattr(truerank, name), Mapping) for name in registries)


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
