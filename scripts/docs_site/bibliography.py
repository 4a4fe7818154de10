"""The works that methods follow, from ``docs/references.bib``."""

from __future__ import annotations

import re

_ENTRY = re.compile(r"^@(?P<type>\w+)\{(?P<key>[^,]+),(?P<body>.*?)^\}", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(r"(\w+)\s*=\s*\{((?:[^{}]|\{[^{}]*\})*)\}")
_ACCENTS = {
    r"\"a": "ä",
    r"\"o": "ö",
    r"\"u": "ü",
    r"\'e": "é",
    r"\'a": "á",
    r"\o": "ø",
    r"\&": "&",
    "--": "\N{EN DASH}",
}


def entries(bib: str) -> dict[str, dict[str, str]]:
    r"""Return the fields of each entry by its key, in the order of the file.

    Examples
    --------
    >>> entries("@article{a2020,\n  title = {On {K}},\n  year = {2020}\n}\n")
    {'a2020': {'title': 'On K', 'year': '2020'}}
    """
    found = {}
    for entry in _ENTRY.finditer(bib):
        fields = {name.lower(): _plain(value) for name, value in _FIELD.findall(entry["body"])}
        found[entry["key"].strip()] = fields
    return found


def written(fields: dict[str, str]) -> str:
    """Return an entry as one line."""
    authors = [_first_name_first(one) for one in fields.get("author", "").split(" and ") if one]
    names = (
        authors[0]
        if len(authors) == 1
        else ", ".join(authors[:-1]) + " and " + authors[-1]
        if authors
        else ""
    )
    place = next(
        (fields[one] for one in ("journal", "booktitle", "publisher", "howpublished") if one in fields), ""
    )
    numbers = " ".join(
        part
        for part in (
            fields.get("volume", ""),
            f"({fields['number']})" if "number" in fields else "",
            fields.get("pages", ""),
        )
        if part
    )
    parts = [names, f"*{fields.get('title', '')}*", f"{place} {numbers}".strip(), fields.get("year", "")]
    return ". ".join(part.rstrip(".") for part in parts if part) + "."


def page(bib: str) -> str:
    """Return the page of references."""
    lines = ["# References", "", "What `source` of a method names.", ""]
    for key, fields in sorted(entries(bib).items()):
        lines.append(f'* <span id="{key}"></span>`{key}` {written(fields)}')
    return "\n".join(lines) + "\n"


def _plain(value: str) -> str:
    for mark, letter in _ACCENTS.items():
        value = value.replace("{" + mark + "}", letter).replace(mark, letter)
    return " ".join(value.replace("{", "").replace("}", "").split())


def _first_name_first(author: str) -> str:
    last, _, first = author.partition(",")
    return f"{first.strip()} {last.strip()}".strip()
