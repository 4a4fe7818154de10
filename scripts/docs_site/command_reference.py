"""One page with every command, from the typer app."""

from __future__ import annotations

import enum
from typing import Any

from typer.core import TyperArgument, TyperGroup, TyperOption

from truerank.cli.main import whole_command

#: Where a command is explained.
PAGES = {
    "evaluate": "evaluate.md",
    "sample": "sampling.md",
    "estimate": "estimate.md",
    "compare": "compare.md",
    "plan": "plan.md",
    "fit": "fit.md",
    "study": "studies.md",
    "subsample": "subsampling.md",
    "agreement": "agreement.md",
    "list": "list.md",
    "trec": "trec.md",
    "data": "data.md",
    "paper": "papers.md",
}


def page() -> str:
    """Return the page of the command line."""
    lines = [
        "# Commands",
        "",
        "Made from the commands themselves; `truerank COMMAND --help` prints the same.",
        "",
    ]
    lines += [
        "Results go to stdout, messages to stderr. Bad input ends with one sentence and exit code 2.",
        "",
    ]
    for path, command in _walk(whole_command(), "truerank"):
        lines += _entry(path, command)
    return "\n".join(lines) + "\n"


def _walk(command: Any, path: str) -> list[tuple[str, Any]]:
    if not isinstance(command, TyperGroup):
        return [(path, command)]
    found: list[tuple[str, Any]] = []
    for name, inner in command.commands.items():
        found += _walk(inner, f"{path} {name}")
    return found


def _entry(path: str, command: Any) -> list[str]:
    explained = PAGES.get(path.split()[1])
    lines = [f"## {path}", "", (command.help or "").replace("``", "`").strip(), ""]
    if explained:
        lines += [f"[How to use it]({explained})", ""]
    arguments = [one for one in command.params if isinstance(one, TyperArgument)]
    options = [one for one in command.params if isinstance(one, TyperOption) and "--help" not in one.opts]
    if arguments:
        lines += ["| argument | what it is |", "|---|---|"]
        lines += [f"| `{_named(one)}` | {_cell(getattr(one, 'help', None) or '')} |" for one in arguments]
        lines.append("")
    if options:
        lines += ["| option | what it does | default |", "|---|---|---|"]
        for one in options:
            written = " / ".join([*one.opts, *one.secondary_opts])
            needed = " Needed." if one.required else ""
            lines.append(f"| `{written}` | {_cell(one.help or '')}{needed} | {_default(one)} |")
        lines.append("")
    return lines


def _named(argument: TyperArgument) -> str:
    name = (argument.name or "").upper()
    return f"{name}..." if argument.nargs == -1 else name


def _default(option: TyperOption) -> str:
    value: Any = option.default() if callable(option.default) else option.default
    if isinstance(value, enum.Enum):
        value = value.value
    if option.is_flag and not option.secondary_opts:
        return ""
    if isinstance(value, bool):
        return f"`{option.opts[0] if value else option.secondary_opts[0]}`"
    return "" if value in (None, "", (), []) or "UNSET" in repr(value).upper() else f"`{value}`"


def _cell(text: str) -> str:
    return text.replace("``", "`").replace("|", "\\|").replace("\n", " ")
