"""Pages of the documentation as lists of blocks."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).parent.parent.parent
#: What sets a machine up instead of using truerank; never run by a test.
SET_UP = ("pip ", "make ", "python -m pip ", "python -m venv ", "source ", "git ")
_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>[\w-]*)[^\n`]*$")
_NOT_RUN = re.compile(r"<!-- not run: (?P<reason>.*?) *-->")


@dataclass(frozen=True)
class Command:
    """One line of a shell block, and what the page says it prints (nothing: it only has to work)."""

    line: str
    shown: str

    @property
    def arguments(self) -> list[str]:
        """What stands behind ``truerank``."""
        return shlex.split(self.line, comments=True)[1:]


@dataclass(frozen=True)
class Block:
    """A fenced block."""

    page: str
    line: int
    language: str
    text: str
    not_run: str | None

    @property
    def where(self) -> str:
        """Page and line of the opening fence."""
        return f"{self.page}:{self.line}"

    @property
    def kind(self) -> str:
        """What the runner does with it: python, doctest, shell or text."""
        if self.language == "python":
            return "doctest" if self.text.lstrip().startswith(">>>") else "python"
        if self.language in ("console", "bash", "sh", "shell"):
            return "shell"
        is_command = any(line.startswith(("truerank ", "$ ", *SET_UP)) for line in self.text.splitlines())
        return "shell" if self.language == "" and is_command else "text"

    def commands(self) -> list[Command]:
        """Commands of a shell block; in a console block what follows a command is its output."""
        joined = self.text.replace("\\\n", " ")
        found: list[Command] = []
        for line in joined.splitlines():
            if self.language == "console" and not line.startswith("$ "):
                if not found:
                    raise ValueError(f"{self.where}: a console block begins with '$ ', got {line!r}.")
                found[-1] = Command(found[-1].line, f"{found[-1].shown}{line}\n")
            elif line.strip() and not line.startswith("#"):
                found.append(Command(line.removeprefix("$ ").strip(), ""))
        return found


def pages() -> list[Path]:
    """Return the README, the pages of the documentation and those of the project itself."""
    return [
        PROJECT / "README.md",
        *sorted((PROJECT / "docs").glob("**/*.md")),
        *sorted(PROJECT.glob("[AC]*.md")),
    ]


def name(page: Path) -> str:
    """Return how a page is called in messages."""
    return page.relative_to(PROJECT).as_posix()


def blocks(text: str, page: str) -> list[Block]:
    """Return the fenced blocks of a page in order."""
    lines = text.splitlines()
    found: list[Block] = []
    i = 0
    while i < len(lines):
        opening = _FENCE.match(lines[i])
        if not opening:
            i += 1
            continue
        end = i + 1
        while end < len(lines) and lines[end].strip() != "```":
            end += 1
        if end == len(lines):
            raise ValueError(f"{page}:{i + 1}: a block is opened here and never closed.")
        indent = len(opening["indent"])
        inside = "".join(f"{line[indent:]}\n" for line in lines[i + 1 : end])
        before = next((line for line in reversed(lines[:i]) if line.strip()), "")
        exempt = _NOT_RUN.search(before)
        found.append(Block(page, i + 1, opening["language"], inside, exempt["reason"] if exempt else None))
        i = end + 1
    return found


def prose(text: str) -> str:
    """Return a page without its fenced blocks."""
    return re.sub(r"^ *```.*?^ *```$", "", text, flags=re.MULTILINE | re.DOTALL)
