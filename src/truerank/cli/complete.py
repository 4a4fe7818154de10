"""Shell completion of names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path


def names_of(kind: str) -> Callable[[str], list[str]]:
    """Return a completion for the names of one registry; works behind a comma too."""

    def complete(incomplete: str) -> list[str]:
        from truerank.cli.listing import registries

        before, comma, last = incomplete.rpartition(",")
        return [f"{before}{comma}{name}" for name in registries()[kind].names() if name.startswith(last)]

    return complete


def dataset_names(incomplete: str) -> list[str]:
    """Complete names of the catalogue."""
    from truerank.data import list_datasets

    return [entry.name for entry in list_datasets() if entry.name.startswith(incomplete)]


def data_names(incomplete: str) -> list[str]:
    """Complete names of the catalogue, ``demo`` and files."""
    base = Path(incomplete)
    folder = base if incomplete.endswith("/") or not incomplete else base.parent
    found = [name for name in ["demo"] if name.startswith(incomplete)] + dataset_names(incomplete)
    if folder.is_dir():
        for path in sorted(folder.iterdir()):
            text = str(path) + ("/" if path.is_dir() else "")
            if text.startswith(incomplete) and not path.name.startswith("."):
                found.append(text)
    return found
