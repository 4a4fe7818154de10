"""Links that work in the repository made to work on the site."""

from __future__ import annotations

import posixpath
import re

#: Files at the root of the repository that the site has as pages.
ROOT_PAGES = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
}
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")


def for_site(markdown: str, *, folder: str) -> str:
    """Return the page with links between pages of the site; links to other files become their names.

    Parameters
    ----------
    markdown : of a page that lies in ``folder``
    folder : relative to the root of the repository: ``docs`` or nothing

    Examples
    --------
    >>> for_site("[a](docs/a.md#b) [c](benchmarks/c.py) [d](https://d.org)", folder="")
    '[a](a.md#b) c (`benchmarks/c.py`) [d](https://d.org)'
    >>> for_site("[a](a.md) [b](../ARCHITECTURE.md) [`c`](../src/c.py)", folder="docs")
    '[a](a.md) [b](architecture.md) `c` (`src/c.py`)'
    """

    def replaced(found: re.Match[str]) -> str:
        mark, text, target = found.groups()
        if target.startswith(("http:", "https:", "mailto:", "#")):
            return found[0]
        path, hash_sign, anchor = target.partition("#")
        from_root = posixpath.normpath(posixpath.join(folder, path))
        if from_root in ROOT_PAGES:
            return f"{mark}[{text}]({ROOT_PAGES[from_root]}{hash_sign}{anchor})"
        if from_root.startswith("docs/"):
            inside = posixpath.relpath(from_root, "docs") if folder != "docs" else path
            return f"{mark}[{text}]({inside}{hash_sign}{anchor})"
        return f"{text} (`{from_root}`)"

    return _LINK.sub(replaced, markdown)
