"""``truerank list``: what there is."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated, Any

import typer

from truerank.cli.output import Format, emit, table_text
from truerank.core.errors import UnknownName
from truerank.core.registry import Registry


def registries() -> dict[str, Registry[Any]]:
    """Return all registries by the word used on the command line."""
    from truerank.agreement import SCENARIOS
    from truerank.engines import ENGINES
    from truerank.estimators import ESTIMATORS, PRIORS
    from truerank.estimators.mapping import MAPPINGS
    from truerank.inference import INTERVALS
    from truerank.metrics import METRICS
    from truerank.models import MODELS
    from truerank.ranks import SAMPLERS
    from truerank.split import SPLITS
    from truerank.subsample import STRATEGIES
    from truerank.uncertainty import UNCERTAINTIES

    return {
        "metrics": METRICS,
        "models": MODELS,
        "splits": SPLITS,
        "samplers": SAMPLERS,
        "estimators": ESTIMATORS,
        "priors": PRIORS,
        "mappings": MAPPINGS,
        "intervals": INTERVALS,
        "uncertainties": UNCERTAINTIES,
        "strategies": STRATEGIES,
        "scenarios": SCENARIOS,
        "engines": ENGINES,
    }


def list_plugins(
    kind: Annotated[
        str,
        typer.Argument(
            help="metrics, models, splits, samplers, estimators, priors, mappings, intervals, uncertainties, "
            "strategies, scenarios or engines"
        ),
    ],
    format: Annotated[Format, typer.Option(help="How to print.")] = Format.table,
) -> None:
    """List what there is of one kind, with parameters and sources."""
    known = registries()
    if kind not in known:
        raise UnknownName("kind", kind, known)
    entries = known[kind].entries()
    if format is Format.json:
        emit(json.dumps([asdict(entry) for entry in entries], indent=2))
        return
    rows = [(entry.name, entry.parameters, entry.summary, entry.source) for entry in entries]
    emit(table_text(("name", "parameters", "summary", "source"), rows, format))
