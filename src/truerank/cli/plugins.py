"""``truerank list``: the registered plug-ins of each kind."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Annotated, Any

import typer

from truerank.cli import options as opt
from truerank.cli.options import Format
from truerank.cli.output import SUFFIXES, Parts, check_file, say, show, table_of
from truerank.core.errors import UnknownName
from truerank.core.plugin import PluginSummary, Registry, format_value


def registries() -> dict[str, Registry[Any]]:
    """Return all registries by the word used on the command line."""
    from truerank.distributed.engine import ENGINES
    from truerank.estimation.mapping.functions import MAPPINGS
    from truerank.estimation.registry import ESTIMATORS, PRIORS
    from truerank.inference.estimate_interval.registry import UNCERTAINTIES
    from truerank.inference.user_interval import INTERVALS
    from truerank.metrics.grades import GAINS
    from truerank.metrics.registry import METRICS
    from truerank.models.registry import MODELS
    from truerank.ranking.samplers.registry import SAMPLERS
    from truerank.split.base import SPLITS
    from truerank.subsampling.base import STRATEGIES
    from truerank.workflows.agreement.scenarios import SCENARIOS
    from truerank.workflows.segments.grouping import GROUPINGS

    return {
        "metrics": METRICS,
        "gains": GAINS,
        "models": MODELS,
        "splits": SPLITS,
        "samplers": SAMPLERS,
        "estimators": ESTIMATORS,
        "priors": PRIORS,
        "mappings": MAPPINGS,
        "intervals": INTERVALS,
        "uncertainties": UNCERTAINTIES,
        "groupings": GROUPINGS,
        "strategies": STRATEGIES,
        "scenarios": SCENARIOS,
        "engines": ENGINES,
    }


#: What a kind is for, and the option that takes it.
KINDS = {
    "metrics": "what is measured: --metrics",
    "gains": "how much a target is worth: --gain",
    "models": "what recommends: --model",
    "splits": "which events are held out: --split",
    "samplers": "how negatives are sampled: --sampler",
    "estimators": "exact metrics from sampled ranks: --estimator",
    "priors": "rank distributions inside estimators: bv(prior=...)",
    "mappings": "rank mappings inside estimators: mapped(f=...)",
    "intervals": "intervals of exact values: --interval",
    "uncertainties": "intervals of estimates: --uncertainty",
    "groupings": "groups of users or targets: --by",
    "strategies": "which events a smaller data set keeps: --strategy",
    "scenarios": "how agreement evaluates: --scenario",
    "engines": "where work is done: --engine",
}


def list_plugins(
    kind: Annotated[
        str | None,
        typer.Argument(
            help="metrics, gains, models, splits, samplers, estimators, priors, mappings, intervals, "
            "uncertainties, groupings, strategies, scenarios or engines; without it, what these are."
        ),
    ] = None,
    name: Annotated[str | None, typer.Argument(help="One of them, with its parameters.")] = None,
    format: opt.OutputFormat = Format.table,
    out: opt.Out = None,
) -> None:
    """List the plug-ins of one kind, or describe one of them with its parameters and source.

    A table in the terminal has names and summaries; the other formats have parameters and sources too.
    """
    check_file(out, "--out", SUFFIXES)
    known = registries()
    if kind is None:
        kinds = [(one, len(registry), KINDS[one]) for one, registry in known.items()]
        columns = ("kind", "number", "what")
        show(lambda style: _rows(columns, kinds, style), format, out)
        return
    if kind not in known:
        raise UnknownName("kind", kind, known)
    if name is None:
        entries = known[kind].entries()
        show(lambda style: _short(entries, style), format, out)
        say(f"More about one of them: truerank list {kind} NAME")
        return
    described = describe_plugin(known[kind], name)
    show(lambda style: _details(described, style), format, out)


def describe_plugin(registry: Registry[Any], name: str) -> dict[str, Any]:
    """Return what is known about one plug-in: its line in the list, its text and each parameter.

    Raises
    ------
    UnknownName, BrokenPlugin
        When there is none of that name, or that of another package cannot be used.
    """
    entry = registry.entry(name)
    text, meanings = read_docstring(registry[name])
    made: Any = registry.make(name)
    parameters = [
        {
            "name": field.name,
            "default": format_value(getattr(made, field.name)),
            "meaning": meanings.get(field.name, ""),
        }
        for field in fields(made)
        if field.name != "cutoff"
    ]
    source = entry.source or str(getattr(registry[name], "source", None) or "")
    return {**asdict(entry), "source": source, "text": text, "parameters": parameters}


def read_docstring(described: Any) -> tuple[str, dict[str, str]]:
    """Return the paragraphs at the start of a docstring, and the meaning of each parameter."""
    start, *sections = re.split(r"\n(?=[A-Z]\w+\n-+\n)", inspect.getdoc(described) or "")
    text = re.split(r"\n\s*\.\. ", start)[0]
    paragraphs = [" ".join(part.split()) for part in text.replace("``", "").split("\n\n")]
    meanings: dict[str, str] = {}
    for section in sections:
        if section.startswith("Parameters\n"):
            for found in re.findall(r"^(\w[\w, ]*) : ?(.*(?:\n +.*)*)", section, re.MULTILINE):
                meaning = " ".join(found[1].replace("``", "").split())
                meanings |= dict.fromkeys(re.split(r",\s*", found[0]), meaning)
    return "\n\n".join(part for part in paragraphs if part), meanings


def _rows(columns: Sequence[str], rows: Sequence[Sequence[object]], style: Format) -> Parts:
    if style is Format.json:
        return [json.dumps([dict(zip(columns, row, strict=True)) for row in rows], indent=2)]
    return [table_of(columns, rows)]


def _short(entries: Sequence[PluginSummary], style: Format) -> Parts:
    if style is Format.json:
        return [json.dumps([asdict(entry) for entry in entries], indent=2)]
    columns = ["name", "summary"] if style is Format.table else ["name", "parameters", "summary", "source"]
    if any(entry.package != "truerank" for entry in entries):
        columns.append("package")
    return [table_of(columns, ([getattr(entry, column) for column in columns] for entry in entries))]


def _details(described: Mapping[str, Any], style: Format) -> Parts:
    if style is Format.json:
        return [json.dumps(described, indent=2)]
    columns = ("parameter", "default", "meaning")
    table = table_of(columns, [list(one.values()) for one in described["parameters"]])
    if style is Format.csv:
        return [table]
    is_preset = described["summary"].startswith("preset: ")
    start = f"{described['name']}: {described['summary'] + '. ' if is_preset else ''}{described['text']}"
    source = [f"Source: {described['source']}"] if described["source"] else []
    if described["package"] != "truerank":
        source.append(f"Package: {described['package']}")
    return [start, *([table] if table.rows else []), *source]
