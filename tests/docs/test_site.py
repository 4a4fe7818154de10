"""The documentation site builds without a warning, is complete, and asks for nothing on the network."""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

import truerank
from scripts.docs_site import api_reference, bibliography, command_reference, docstring, formula, links
from tests.docs.page import PROJECT
from truerank.cli.plugins import registries

pytest.importorskip("mkdocs", reason="the documentation group is not installed: pip install --group docs")
Html = Callable[[str], str]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=PROJECT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def html(site: Path) -> Html:
    return lambda name: (site / name).read_text()


def test_no_page_asks_the_network(site: Path) -> None:
    asked = {
        f"{page.name}: {address}"
        for page in site.rglob("*.html")
        for tag in re.findall(r"<(?:script|link|img|iframe|source)\b[^>]*>", page.read_text())
        for address in re.findall(r'(?:src|href)="?((?:https?:)?//[^"\s>]+)', tag)
    }
    styles = {
        page.name for page in site.rglob("*.css") if re.search(r"url\(['\"]?(https?:)?//", page.read_text())
    }
    assert not asked
    assert not styles


def test_search_works_from_disk(site: Path, html: Html) -> None:
    assert (site / "search" / "search_index.js").read_text().startswith("var __index = ")
    assert "javascripts/iframe-worker.js" in html("index.html")


def test_reference_has_every_name(html: Html) -> None:
    for kind, registry in registries().items():
        page = html(f"list_{kind}.html")
        missing = [name for name in registry.table if f'id="{name}"' not in page]
        missing += [name for name in registry.presets if f"<code>{name}</code>" not in page]
        assert not missing, kind
    python = html("python.html")
    assert not [name for name in truerank.__all__ if name != "__version__" and f"{name}<a" not in python]


def test_reference_has_every_command(html: Html) -> None:
    page = html("commands.html")
    for command in ("evaluate", "compare", "data-fetch", "paper-run"):
        assert f'id="truerank-{command}"' in page
    assert "<code>leave-last-out</code>" in page


def test_sources_are_listed(html: Html) -> None:
    page = html("references.html")
    keys = bibliography.entries((PROJECT / "docs" / "references.bib").read_text())
    assert len(keys) > 10
    assert not [key for key in keys if f'id="{key}"' not in page]


def test_formulas_are_drawn(site: Path, html: Html) -> None:
    assert "<math" in html("list_metrics.html")
    raw = re.compile(r"\.\. math::|:math:|\$<code>|language-math|\$`")
    assert not [page.name for page in site.glob("*.html") if raw.search(page.read_text())]


def test_formulas_of_prose_are_drawn(html: Html) -> None:
    """Every formula of the pages is MathML, and no command is left that the converter did not know."""
    n_formulas = 0
    for path in sorted((PROJECT / "docs").glob("*.md")):
        text = path.read_text()
        written = len(re.findall(r"^ *```math$", text, re.MULTILINE)) + len(re.findall(r"\$`[^`]+`\$", text))
        drawn = re.findall(r"<math.*?</math>", html(f"{path.stem}.html"), re.DOTALL)
        assert len(drawn) == written, path.name
        assert not [one for one in drawn if "\\" in one or "<code>" in one], path.name
        n_formulas += written
    assert n_formulas > 80


def test_command_pages_exist() -> None:
    assert not [page for page in command_reference.PAGES.values() if not (PROJECT / "docs" / page).exists()]


def test_public_names_are_in_one_chapter() -> None:
    placed = [name for names in api_reference.chapters().values() for name in names]
    assert sorted(placed) == sorted(set(truerank.__all__) - {"__version__"})


@pytest.mark.parametrize("module", [bibliography, docstring, formula, links], ids=lambda one: one.__name__)
def test_examples_of_the_builder(module: ModuleType) -> None:
    assert doctest.testmod(module).failed == 0


def test_docstrings_become_markdown() -> None:
    shown = docstring.to_markdown(
        """Return x, see :func:`load` and [li2023]_.

        .. math:: a
                  + b

        Parameters
        ----------
        x, y : two numbers
            on two lines
        """
    )
    assert shown.startswith("Return x, see `load` and [li2023](references.md#li2023).")
    assert shown.count("<math") == 1
    assert shown.endswith("* `x`, `y`: two numbers on two lines\n")
