"""The JSON schema of what commands print with ``--format json``, made from the classes behind it.

``python scripts/json_schema.py`` writes docs/schema/truerank-VERSION.json. Types come from the annotations,
descriptions from the docstrings, so a new field needs a line in a docstring and another run of this script; a
test compares the file with what is made here.
"""

from __future__ import annotations

import enum
import inspect
import json
import re
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from truerank.core.model import InterruptedTraining
from truerank.core.plugin import PluginSummary
from truerank.core.provenance import SCHEMA_VERSION
from truerank.core.result import Result
from truerank.papers.outcome import PaperNumber
from truerank.subsampling.subsample import SubsampleLoss
from truerank.workflows.agreement.result import Agreement
from truerank.workflows.compare.result import Comparison
from truerank.workflows.plan.advice import PlanOption, TellingApart
from truerank.workflows.plan.plan import SamplePlan

PROJECT = Path(__file__).resolve().parent.parent
PATH = PROJECT / "docs" / "schema" / f"truerank-{SCHEMA_VERSION}.json"
ADDRESS = f"https://raw.githubusercontent.com/truerank/truerank/main/docs/schema/{PATH.name}"

Schema = dict[str, Any]
_PLAIN = {float: "number", int: "integer", str: "string", bool: "boolean", type(None): "null"}
_OPEN: Schema = {"type": "object", "additionalProperties": True}
_NUMBERS: Schema = {"type": "array", "description": "numbers, nested as the description says"}


def parameters(cls: type) -> dict[str, str]:
    """Return the descriptions of the fields of a class from its docstring, one line each."""
    text = inspect.cleandoc(cls.__doc__ or "")  # Python 3.13 removes the indentation itself
    section = text.replace("``", "`").partition("Parameters\n")[2]
    section = re.split(r"\n\s*\n\s*(?=[A-Z]\w+\n\s*-+\n)", section)[0]
    found: dict[str, str] = {}
    names: list[str] = []
    for line in section.splitlines()[1:]:
        entry = re.match(r"^(\w+(?:, \w+)*) : (.+)$", line)
        if entry:
            names = entry[1].split(", ")
            found.update(dict.fromkeys(names, entry[2]))
        elif line.startswith("    ") and names:
            found.update({name: f"{found[name]} {line.strip()}" for name in names})
    return found


class Definitions:
    """Schemas by name, each class once."""

    def __init__(self) -> None:
        self.made: dict[str, Schema] = {}

    def of_type(self, kind: Any) -> Schema:
        """Return the schema of an annotated type."""
        origin, inside = typing.get_origin(kind), typing.get_args(kind)
        if kind in _PLAIN:
            return {"type": _PLAIN[kind]}
        if kind is Any:
            return {}
        if origin is typing.Literal:
            return {"enum": list(inside)}
        if origin in (typing.Union, types.UnionType):
            options = [self.of_type(one) for one in inside]
            if all(list(option) == ["type"] for option in options):
                return {"type": [option["type"] for option in options]}
            return {"anyOf": options}
        if isinstance(kind, type) and issubclass(kind, enum.Enum):
            return {"enum": [member.value for member in kind]}
        if is_dataclass(kind) and isinstance(kind, type):
            self.of_class(kind)
            return {"$ref": f"#/$defs/{kind.__name__}"}
        if origin is not None and issubclass(origin, Mapping):
            return {"type": "object", "additionalProperties": self.of_type(inside[1])}
        if origin is not None and issubclass(origin, Sequence):
            return {"type": "array", "items": self.of_type(inside[0])}
        raise TypeError(f"no schema for {kind!r}")

    def of_class(self, cls: type, *, without: Sequence[str] = (), **further: Schema) -> Schema:
        """Return the schema of a dataclass, which is made once."""
        if cls.__name__ not in self.made:
            self.made[cls.__name__] = {}
            hints, told = typing.get_type_hints(cls), parameters(cls)
            properties: dict[str, Schema] = {
                field.name: {**self.of_type(hints[field.name]), **_told(told.get(field.name))}
                for field in fields(cls)
                if field.name not in without
            }
            summary = (cls.__doc__ or "").replace("``", "`").strip().splitlines()[0]
            self.made[cls.__name__] = closed({**properties, **further}, summary)
        return self.made[cls.__name__]


def _told(description: str | None) -> Schema:
    return {} if description is None else {"description": description}


def closed(properties: Mapping[str, Schema], description: str, *, optional: Sequence[str] = ()) -> Schema:
    """Return the schema of an object that has these fields, all but the optional ones required."""
    return {
        "type": "object",
        "description": description,
        "properties": dict(properties),
        "required": [name for name in properties if name not in optional],
    }


def document(
    command: str | list[str], properties: Mapping[str, Schema], *optional: str, about: str
) -> Schema:
    """Return the schema of one command's JSON: the head that all have, and its own fields."""
    named = {"const": command} if isinstance(command, str) else {"enum": command}
    head: dict[str, Schema] = {
        "schema_version": {"const": SCHEMA_VERSION, "description": "version of this form"},
        "command": {**named, "description": "the command that made it"},
        "version": {"type": "string", "description": "of truerank"},
    }
    own = {name: schema for name, schema in properties.items() if name not in head}
    own["provenance"] = {"$ref": "#/$defs/provenance"}
    return closed({**head, **own}, about, optional=optional)


def provenance(made: Definitions) -> Schema:
    """Return what every provenance holds; options of the command stand beside it."""
    texts: Schema = {"type": "object", "additionalProperties": {"type": "string"}}
    return {
        "type": "object",
        "description": "options that repeat the run, and what it depends on",
        "properties": {
            "versions": {**texts, "required": ["truerank", "python", "numpy", "numba", "scipy", "polars"]},
            "data_hash": {
                "anyOf": [{"type": ["string", "null"]}, texts],
                "description": "digest of the data, or one per model, file, scenario or data set",
            },
            "target": {"enum": ["test-users", "population"], "description": "what the intervals are for"},
            "asked_target": {
                "enum": ["test-users", "population"],
                "description": "of evaluate: what intervals of estimates were asked to be for; the target "
                "of each estimate says what its interval is for",
            },
            "interrupted": {
                "type": "object",
                "additionalProperties": made.of_type(InterruptedTraining),
                "description": "of evaluate: models whose training was interrupted, and how far it had come",
            },
            "unfinished": {
                "type": "array",
                "items": {"type": "string"},
                "description": "of evaluate: models that are missing, because the run was interrupted",
            },
        },
        "required": ["versions"],
        "additionalProperties": True,
    }


def whole_schema() -> Schema:
    """Return the schema of all documents."""
    made = Definitions()
    text, integer, true_or_false = {"type": "string"}, {"type": "integer"}, {"type": "boolean"}
    maybe = {"type": ["boolean", "null"]}
    counts = {"type": ["integer", "null"]}
    words: Schema = {"type": "array", "items": text, "description": "the plan as sentences"}
    advised: Schema = {"type": "string", "description": "what to do, what it costs and what it gives"}
    options: Schema = {
        "type": "array",
        "items": made.of_type(PlanOption),
        "description": "ways to the half-width, without bias first",
    }
    made.of_class(SamplePlan, recommendation=advised, options=options, words=words)
    made.of_class(TellingApart, sentence={**text, "description": "the same in words"})
    number: Schema = {"type": ["number", "null"]}
    cell = made.of_class(PaperNumber, without=["digits"], difference=number, z=number, status=text)
    made.of_class(PluginSummary)
    classes = {
        "result": (Result, ["evaluate", "estimate", "trec"], ("ranks", "sampled", "charts")),
        "comparison": (Comparison, "compare", ()),
        "agreement": (Agreement, "agreement", ()),
        "subsample": (SubsampleLoss, "subsample", ()),
    }
    documents: dict[str, Schema] = {}
    for name, (cls, command, without) in classes.items():
        schema = made.of_class(cls, without=without)
        del made.made[cls.__name__]
        documents[name] = document(command, schema["properties"], about=schema["description"])
    for opened in ("data",):
        for name in ("result", "agreement"):
            documents[name]["properties"][opened] |= _OPEN
    further = {"users_emptied": integer, "items_emptied": integer, "split": _OPEN, "files": integer}
    documents["subsample"]["properties"] |= further
    documents["subsample"]["required"] += ["users_emptied", "items_emptied"]
    documents["study"] = document("study", study_fields(), about="How far estimators are from exact values")
    documents["plan"] = document(
        "plan",
        {
            "plans": {"type": "object", "additionalProperties": {"$ref": "#/$defs/SamplePlan"}},
            "pairs": {"type": "array", "items": {"$ref": "#/$defs/TellingApart"}},
            "costs": {"type": "array", "items": _OPEN, "description": "with --scale: predicted costs"},
        },
        *("plans", "pairs", "costs"),
        about="Sample sizes by model, or with --scale what ranking costs",
    )
    cells = {"type": "array", "items": cell}
    documents["paper_run"] = document(
        "paper run",
        {"recipes": {"type": "object", "additionalProperties": cells}},
        about="Numbers of papers beside the printed ones, by recipe",
    )
    made.made.pop("PaperNumber")
    lists = {
        "plugins": {
            "type": "array",
            "items": {"$ref": "#/$defs/PluginSummary"},
            "description": "truerank list",
        },
        "datasets": {
            "type": "array",
            "description": "truerank data list",
            "items": closed(
                {
                    **dict.fromkeys(("name", "here", "description"), text),
                    **dict.fromkeys(("users", "items", "events"), counts),
                },
                "A data set of the catalogue",
            ),
        },
        "papers": {
            "type": "array",
            "description": "truerank paper list",
            "items": closed(
                {
                    **dict.fromkeys(("name", "title", "data", "status"), text),
                    **dict.fromkeys(("is_ready", "is_ours", "reference"), true_or_false),
                    "cells": {"type": "object", "additionalProperties": integer},
                    "joint": {"anyOf": [_OPEN, {"type": "null"}]},
                    "without": {"type": "array", "items": text},
                    "date": {"type": ["string", "null"]},
                    **dict.fromkeys(("seconds", "cpu_seconds"), number),
                    "repeats": counts,
                    **dict.fromkeys(("quick", "full"), maybe),
                },
                "A table or figure of a paper, with its last run",
            ),
        },
        "dataset": {
            "description": "truerank data describe",
            "type": "object",
            "required": ["name", "description", "licence", "here"],
            "additionalProperties": {"type": ["string", "integer", "null"]},
        },
    }
    told = provenance(made)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": ADDRESS,
        "title": f"JSON of truerank, version {SCHEMA_VERSION}",
        "description": "What commands print with --format json. Fields may be added within a version; one "
        "that is renamed, removed or changes its meaning raises it.",
        "oneOf": [{"$ref": f"#/$defs/{name}"} for name in documents],
        "$defs": {**documents, **lists, "provenance": told, **made.made},
    }


def study_fields() -> dict[str, Schema]:
    """Return the fields of a study, whose arrays are computed from those of the class."""
    by_metric = {
        "named_best": {"type": "array", "items": {"type": "integer"}},
        "named_by_posterior": {"type": "object", "additionalProperties": {"type": "integer"}},
    }
    texts = {"type": "array", "items": {"type": "string"}}
    return {
        **dict.fromkeys(("models", "estimators", "metrics"), texts),
        "cutoffs": {"type": "array", "items": {"type": "integer"}},
        "repeats": {"type": "integer"},
        "items_per_user": {**_NUMBERS, "description": "scores per user and sample, by model"},
        "error_percent": {**_NUMBERS, "description": "by estimator, model and metric"},
        "error_spread": {**_NUMBERS, "description": "over samples, by estimator, model and metric"},
        "exact": {**_NUMBERS, "description": "by model, metric and cut-off"},
        "mean": {**_NUMBERS, "description": "over samples, by estimator, model, metric and cut-off"},
        **{name: {"type": "object", "additionalProperties": one} for name, one in by_metric.items()},
    }


def text() -> str:
    """Return the file."""
    return json.dumps(whole_schema(), indent=2) + "\n"


if __name__ == "__main__":
    PATH.parent.mkdir(exist_ok=True)
    PATH.write_text(text())
