"""A numpydoc docstring as Markdown."""

from __future__ import annotations

import inspect
import re

from .formula import formula, with_inline_formulas

SECTIONS = ("Parameters", "Attributes", "Returns", "Yields", "Raises", "Notes", "References", "Examples")
_ROLE = re.compile(r":(?:func|class|meth|mod|attr):`~?([^`]+)`")
_CITATION = re.compile(r"\[(\w+\d{4}\w?)\]_")
_DIRECTIVE = re.compile(r"^ *\.\. math::[ \t]*(?P<first>.*)$")


def to_markdown(docstring: str | None) -> str:
    r"""Return the docstring as Markdown: sections as bold words, parameters as lists, examples as sessions.

    Examples
    --------
    >>> print(to_markdown("Return one.\n\nParameters\n----------\nx : unused"))
    Return one.
    <BLANKLINE>
    **Parameters**
    <BLANKLINE>
    * `x`: unused
    <BLANKLINE>
    """
    shown: list[str] = []
    for title, lines in sections(inspect.cleandoc(docstring or "")):
        if title:
            shown += [f"**{title}**", ""]
        if title == "Examples":
            shown += ["```pycon", *_trimmed(lines), "```", ""]
        elif title in ("Parameters", "Attributes", "Returns", "Yields", "Raises"):
            shown += [*_items(lines), ""]
        else:
            shown += [_inline("\n".join(_prose(_trimmed(lines)))), ""]
    return "\n".join(shown).strip() + "\n"


def sections(text: str) -> list[tuple[str, list[str]]]:
    """Return (title, lines) of each section; what stands before the first has no title."""
    found: list[tuple[str, list[str]]] = [("", [])]
    lines = text.splitlines()
    i = 0
    while i < len(lines):
        underlined = i + 1 < len(lines) and lines[i + 1] and set(lines[i + 1]) == {"-"}
        if underlined and lines[i].strip() in SECTIONS:
            found.append((lines[i].strip(), []))
            i += 2
            continue
        found[-1][1].append(lines[i])
        i += 1
    return found


def _items(lines: list[str]) -> list[str]:
    """Return ``name : text`` entries, with their continuations, as a list."""
    entries: list[list[str]] = []
    for line in _trimmed(lines):
        if entries and (line.startswith(" ") or not line.strip()):
            entries[-1].append(line.strip())
        else:
            entries.append([line.strip()])
    return [f"* {_item(first, ' '.join(rest).strip())}" for first, *rest in entries]


def _item(first: str, rest: str) -> str:
    term, colon, text = first.partition(" : ")
    if not colon and not rest:
        return _inline(first)
    names = ", ".join(f"`{one.strip()}`" for one in term.split(","))
    return f"{names}: {_inline(f'{text} {rest}'.strip())}"


def _prose(lines: list[str]) -> list[str]:
    """Return paragraphs, with formulas in place of ``.. math::`` and code in place of ``::`` blocks."""
    shown: list[str] = []
    i = 0
    while i < len(lines):
        directive = _DIRECTIVE.match(lines[i])
        if directive:
            body = [directive["first"]]
            i += 1
            while i < len(lines) and (lines[i].startswith(" ") or (len(body) == 1 and not body[0].strip())):
                body.append(lines[i])
                i += 1
            shown += ["", formula(" ".join(body), block=True), ""]
            continue
        shown.append(lines[i])
        i += 1
    return shown


def _inline(text: str) -> str:
    text = with_inline_formulas(text)
    text = _ROLE.sub(r"`\1`", text)
    text = _CITATION.sub(r"[\1](references.md#\1)", text)
    text = text.replace("``", "`")
    return re.sub(r"::$", ":", text, flags=re.MULTILINE)


def _trimmed(lines: list[str]) -> list[str]:
    """Return the lines without blank ones at both ends."""
    kept = [i for i, line in enumerate(lines) if line.strip()]
    return lines[kept[0] : kept[-1] + 1] if kept else []
