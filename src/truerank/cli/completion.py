"""Shell completion of plug-in names, data sets and files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path


def plugin_names(kind: str) -> Callable[[str], list[str]]:
    """Return the completion of the names of one kind of plug-in; of a comma-separated list, the last."""

    def complete(incomplete: str) -> list[str]:
        from truerank.cli.plugins import registries

        before, comma, last = incomplete.rpartition(",")
        return [f"{before}{comma}{name}" for name in registries()[kind].names() if name.startswith(last)]

    return complete


def dataset_names(incomplete: str) -> list[str]:
    """Complete the names of the data catalogue."""
    from truerank.data.catalogue import list_datasets

    return [entry.name for entry in list_datasets() if entry.name.startswith(incomplete)]


def data_names(incomplete: str) -> list[str]:
    """Complete ``demo``, the names of the data catalogue, and paths."""
    base = Path(incomplete)
    folder = base if incomplete.endswith("/") or not incomplete else base.parent
    names = [name for name in ["demo"] if name.startswith(incomplete)] + dataset_names(incomplete)
    if folder.is_dir():
        for path in sorted(folder.iterdir()):
            text = str(path) + ("/" if path.is_dir() else "")
            if text.startswith(incomplete) and not path.name.startswith("."):
                names.append(text)
    return names


def recipe_names(incomplete: str) -> list[str]:
    """Complete the names of papers and of their recipes, and ``all``."""
    from truerank.papers.recipe import PAPERS, RECIPES

    return [name for name in ["all", *PAPERS, *RECIPES] if name.startswith(incomplete)]
