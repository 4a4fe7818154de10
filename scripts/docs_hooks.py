"""Hooks of mkdocs: pages made from the code, and links of the repository.

``make docs`` builds the site. Nothing made here lies in the repository: the command line, the registries, the
public names and the references are read when the site is built.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from docs_site import api_reference, bibliography, command_reference, plugin_reference
from docs_site.formula import with_formulas
from docs_site.links import ROOT_PAGES, for_site
from mkdocs.structure.files import File, Files

from truerank.cli.plugins import registries

PROJECT = Path(__file__).resolve().parent.parent


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are made from the code and those at the root of the repository."""
    made = {
        "commands.md": command_reference.page(),
        "python.md": api_reference.page(),
        "references.md": bibliography.page((PROJECT / "docs" / "references.bib").read_text()),
    }
    for kind, registry in registries().items():
        made[f"list_{kind}.md"] = plugin_reference.page(kind, registry)
    for source, name in ROOT_PAGES.items():
        made[name] = for_site((PROJECT / source).read_text(), folder="")
    for name, content in made.items():
        files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Mend links of pages under ``docs`` that lead out of it, and draw formulas."""
    return markdown if page.file.generated_by else with_formulas(for_site(markdown, folder="docs"))
