"""Reading the html that the report writes."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

VOID = {"meta", "br", "hr", "img", "link", "input"}
HOSTILE = "<script>alert('x')</script>&\"><img src=x onerror=y>"


class Page(HTMLParser):
    """Tags, attributes and visible text; fails on tags that are not closed in order."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.words: list[str] = []
        self.open: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {key: value or "" for key, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {key: value or "" for key, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.words.append(data)

    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.words))

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _ in self.tags)


def drawings(html: str) -> list[ET.Element]:
    """Outermost svg elements, parsed as XML."""
    found, depth, start = [], 0, 0
    for match in re.finditer(r"<svg\b|</svg>", html):
        if match.group() == "</svg>":
            depth -= 1
            if depth == 0:
                found.append(ET.fromstring(html[start : match.end()]))
        else:
            start = match.start() if depth == 0 else start
            depth += 1
    return found
