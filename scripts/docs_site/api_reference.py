"""One page with the public names of truerank, from their docstrings."""

from __future__ import annotations

import inspect
from typing import Any

import truerank
from truerank.core.plugin import Registry

from .docstring import to_markdown

#: Public names in the order a reader meets them.
CHAPTERS = {
    "Data": ("load", "read_interactions", "from_frame", "from_arrays", "from_csr", "k_core", "min_history"),
    "Splits": ("make_split", "draw_users"),
    "Evaluation": ("evaluate", "estimate", "identified", "compare", "plan", "evaluate_to_precision", "study"),
    "Sub-samples": ("measure_agreement",),
    "Ranks": ("exact_ranks", "sampled_ranks", "read_sampled_ranks", "RankAccumulator"),
    "Reports and tracking": ("write_report", "log_result", "MlflowLogger"),
}
_LAST = "Values"


def chapters() -> dict[str, list[str]]:
    """Return every public name in one chapter; names no chapter asks for go where their kind goes."""
    found = {title: [name for name in names if name in truerank.__all__] for title, names in CHAPTERS.items()}
    placed = {name for names in found.values() for name in names}
    found["Models of other libraries"], found[_LAST], found["Registries"] = [], [], []
    for name in truerank.__all__:
        if name in placed or name.startswith("__"):
            continue
        value = getattr(truerank, name)
        if isinstance(value, Registry):
            found["Registries"].append(name)
        elif inspect.isclass(value):
            found[_LAST].append(name)
        else:
            found["Models of other libraries"].append(name)
    return found


def page() -> str:
    """Return the page of the Python interface."""
    lines = ["# Python", "", "Every public name of `truerank`, made from the docstrings.", ""]
    for title, names in chapters().items():
        lines += [f"## {title}", ""]
        for name in names:
            lines += _entry(name, getattr(truerank, name))
    return "\n".join(lines) + "\n"


def _entry(name: str, value: Any) -> list[str]:
    if isinstance(value, Registry):
        kinds = ", ".join(f"`{one}`" for one in value.names())
        return [f"### {name}", "", f'Registry of {value.kind}s, `{name}.make("...")`: {kinds}.', ""]
    lines = [
        f"### {name} {{#{name}}}",
        "",
        "```text",
        _signature(name, value),
        "```",
        "",
        to_markdown(value.__doc__),
    ]
    if inspect.isclass(value):
        methods = [_method(value, one) for one in sorted(vars(value)) if not one.startswith("_")]
        shown = [one for one in methods if one]
        if shown:
            lines += ["**Members**", "", *shown, ""]
    return lines


def _method(cls: Any, name: str) -> str:
    """Return one line for a documented method or property."""
    member = inspect.getattr_static(cls, name)
    function = getattr(member, "__func__", member)
    if isinstance(member, property):
        call, doc = name, member.__doc__
    elif inspect.isfunction(function):
        call, doc = f"{name}({_parameters(function)})", function.__doc__
    else:
        return ""
    first = (doc or "").strip().splitlines()[0] if doc else ""
    return f"* `{call}`: {first.replace('``', '`')}" if first else ""


def _signature(name: str, value: Any) -> str:
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return name
    shown = _shown(signature)
    returned = signature.return_annotation
    arrow = "" if returned is inspect.Signature.empty else f" -> {_annotation(returned)}"
    flat = f"{name}({', '.join(shown)}){arrow}"
    if len(flat) <= 100:
        return flat
    inner = "".join(f"    {one},\n" for one in shown)
    return f"{name}(\n{inner}){arrow}"


def _shown(signature: inspect.Signature) -> list[str]:
    shown: list[str] = []
    for one in signature.parameters.values():
        if one.kind is one.KEYWORD_ONLY and not any(before.startswith("*") for before in shown):
            shown.append("*")
        stars = "*" if one.kind is one.VAR_POSITIONAL else "**" if one.kind is one.VAR_KEYWORD else ""
        annotation = "" if one.annotation is one.empty else f": {_annotation(one.annotation)}"
        default = "" if one.default is one.empty else f" = {_default(one.default)}"
        shown.append(f"{stars}{one.name}{annotation}{default}")
    return shown


def _annotation(written: Any) -> str:
    return written.strip("'\"") if isinstance(written, str) else inspect.formatannotation(written)


def _default(value: Any) -> str:
    """Return a default as it is written; objects without a short form are left open."""
    text = repr(value)
    return "..." if "<" in text or len(text) > 60 else text


def _parameters(function: Any) -> str:
    names = [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]
    return ", ".join(names)
