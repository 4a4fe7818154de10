"""One page per registry: everything that can be written as a spec string."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, cast

from truerank.core.plugin import Registry, Source, default_of, format_value

from .docstring import to_markdown

#: What a kind is, in a sentence, and the page that explains it.
ABOUT = {
    "metrics": ("What is measured, `--metrics ndcg@10,recall@10`.", "metrics.md"),
    "models": ("What is evaluated, `--model 'ease(reg=500)'`.", "models.md"),
    "splits": ("How test events are chosen, `--split leave-last-out`.", "data.md"),
    "samplers": ("How negatives are drawn, `--sampler 'uniform(m=99)'`.", "sampling.md"),
    "estimators": ("What is made of sampled ranks, `--estimator bv`.", "estimators.md"),
    "priors": (
        "Distributions of ranks that linear estimators start from, `bv(prior=beta)`.",
        "estimators.md",
    ),
    "mappings": ("Which global cut-off a sampled one stands for, `mapping(f=beta)`.", "mapping.md"),
    "intervals": ("Intervals of exact values over users, `--interval bca`.", "evaluate.md"),
    "groupings": ("Groups of users or targets, `--by popularity`.", "segments.md"),
    "uncertainties": ("Intervals of estimates, `--uncertainty bias-aware`.", "uncertainty.md"),
    "strategies": (
        "Which train events a smaller data set keeps, `--strategy random-walk`.",
        "subsampling.md",
    ),
    "scenarios": ("What sub-samples are judged by, `--scenario implicit`.", "agreement.md"),
    "engines": ("Where ranks are computed, `--engine gpu`.", "cluster.md"),
}


def page(kind: str, registry: Registry[Any]) -> str:
    """Return the page of one registry."""
    about, explained = ABOUT.get(kind, (f"What `truerank list {kind}` shows.", ""))
    more = (
        f" Explained in [{explained.removesuffix('.md').replace('_', ' ')}]({explained})."
        if explained
        else ""
    )
    lines = [f"# {kind.capitalize()}", "", about + more, ""]
    lines += [f"`truerank list {kind}` prints this table on your machine.", ""]
    lines += ["| name | what it is | source |", "|---|---|---|"]
    for name in sorted(registry.table):
        cls = cast(Any, registry.type_of(name))
        lines.append(f"| [`{name}`](#{name}) | {_cell(_summary(cls))} | {_source(cls)} |")
    for name in sorted(registry.table):
        lines += ["", *_entry(name, cast(Any, registry.type_of(name)))]
    if registry.presets:
        lines += ["", "## Presets", "", "| name | stands for |", "|---|---|"]
        lines += [f"| `{name}` | `{_cell(written)}` |" for name, written in sorted(registry.presets.items())]
    return "\n".join(lines) + "\n"


def _entry(name: str, cls: Any) -> list[str]:
    shown = [
        f"{field.name}={format_value(default_of(field))}" for field in fields(cls) if field.name != "cutoff"
    ]
    cut = "@K" if any(field.name == "cutoff" for field in fields(cls)) else ""
    written = f"{name}({', '.join(shown)}){cut}" if shown else f"{name}{cut}"
    source = _source(cls)
    return [
        f"## {name} {{#{name}}}",
        "",
        f"`{written}`" + (f" · {source}" if source else "") + f" · `{cls.__module__}.{cls.__qualname__}`",
        "",
        to_markdown(cls.__doc__),
    ]


def _summary(cls: Any) -> str:
    return (cls.__doc__ or "").strip().splitlines()[0]


def _source(cls: Any) -> str:
    source: Source | None = getattr(cls, "source", None)
    if source is None:
        return ""
    return f"[{source.key}](references.md#{source.key})" + (f", {source.place}" if source.place else "")


def _cell(text: str) -> str:
    return text.replace("``", "`").replace("|", "\\|")
