"""``truerank list``: the registered plug-ins of each kind."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated, Any

import typer

from truerank.cli import options as opt
from truerank.cli.options import Format
from truerank.cli.output import emit, table_text
from truerank.core.errors import UnknownName
from truerank.core.plugin import Registry


def registries() -> dict[str, Registry[Any]]:
    """Return all registries by the word used on the command line."""
    from truerank.distributed.engine import ENGINES
    from truerank.estimation.mapping.functions import MAPPINGS
    from truerank.estimation.registry import ESTIMATORS, PRIORS
    from truerank.inference.estimate_interval.registry import UNCERTAINTIES
    from truerank.inference.user_interval import INTERVALS
    from truerank.metrics.registry import METRICS
    from truerank.models.registry import MODELS
    from truerank.ranking.samplers.registry import SAMPLERS
    from truerank.split.base import SPLITS
    from truerank.subsampling.base import STRATEGIES
    from truerank.workflows.agreement.scenarios import SCENARIOS

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
    format: opt.OutputFormat = Format.table,
) -> None:
    """List the plug-ins of one kind, with parameters and sources."""
    known = registries()
    if kind not in known:
        raise UnknownName("kind", kind, known)
    entries = known[kind].entries()
    if format is Format.json:
        emit(json.dumps([asdict(entry) for entry in entries], indent=2))
        return
    columns = ["name", "parameters", "summary", "source"]
    if any(entry.package != "truerank" for entry in entries):
        columns.append("package")
    rows = [[getattr(entry, column) for column in columns] for entry in entries]
    emit(table_text(columns, rows, format))
