"""``truerank plan``: how many negatives or users a wanted half-width needs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from truerank.cli.complete import data_names, names_of
from truerank.cli.output import Format, emit, say, table_text
from truerank.cli.progress import shown_progress
from truerank.cli.scale import show_scale, show_scale_on_gpus
from truerank.core.errors import InvalidParameter

if TYPE_CHECKING:
    from truerank.core.ranks import SampledRanks
    from truerank.planning import Costs, Plan

NEEDS = (
    "model",
    "metric",
    "about",
    "m: noise",
    "bias there",
    "m: noise and bias",
    "m: bounds",
    "adaptive max",
    "or users",
    "scores of these",
)
DIVISIONS = ("model", "metric", "scores", "users", "negatives", "half-width", "bias", "exact gains instead")


def plan(
    data: Annotated[
        str | None,
        typer.Argument(help="A file, a catalogue name such as ml-1m, or demo.", autocompletion=data_names),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            help="A model of which a pilot is drawn; may be given several times.",
            autocompletion=names_of("models"),
        ),
    ] = None,
    pilot: Annotated[
        Path | None, typer.Option(help="A table of sampled ranks to plan from, instead of DATA and --model.")
    ] = None,
    scale: Annotated[
        str | None,
        typer.Option(help="USERSxITEMSxDIMENSIONS: what a job of this size costs, without a pilot."),
    ] = None,
    workers: Annotated[int, typer.Option(help="With --scale: cores that share the work.")] = 1,
    gpus: Annotated[
        int | None, typer.Option(help="With --scale: GPUs that share the work, in place of cores.")
    ] = None,
    metrics: Annotated[
        str, typer.Option(help="Metrics, separated by commas.", autocompletion=names_of("metrics"))
    ] = "ndcg@10,recall@10",
    half_width: Annotated[float, typer.Option(help="The half-width that is wanted.")] = 0.01,
    budget: Annotated[
        list[int] | None,
        typer.Option(help="Scores to divide between users and items; may be given several times."),
    ] = None,
    estimator: Annotated[
        str, typer.Option(help="What makes estimates.", autocompletion=names_of("estimators"))
    ] = "bv(gamma=0.1)",
    target: Annotated[str, typer.Option(help="test-users or population")] = "test-users",
    level: Annotated[float, typer.Option(help="Confidence level.")] = 0.95,
    sampler: Annotated[
        str, typer.Option(help="How the pilot is drawn.", autocompletion=names_of("samplers"))
    ] = "uniform(m=99)",
    n_users: Annotated[
        int | None, typer.Option(help="Test users there are, if the pilot holds some of them.")
    ] = None,
    n_items: Annotated[
        int | None, typer.Option(help="Items each target competes with, itself included, for --pilot.")
    ] = None,
    negatives: Annotated[
        int | None,
        typer.Option(help="Sampled items per target, itself not counted, for --pilot and --scale."),
    ] = None,
    split: Annotated[
        str, typer.Option(help="How test events are chosen.", autocompletion=names_of("splits"))
    ] = "leave-last-out",
    seen: Annotated[
        str, typer.Option(help="Items known from train and valid: remove, bottom or keep.")
    ] = "remove",
    ties: Annotated[str, typer.Option(help="expected, best, worst or random")] = "expected",
    columns: Annotated[
        str | None, typer.Option(help="user=NAME,item=NAME,rating=NAME,timestamp=NAME")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    threads: Annotated[int | None, typer.Option(help="Threads; all cores by default.")] = None,
    format: Annotated[Format, typer.Option(help="How to print.")] = Format.table,
) -> None:
    """Print how many negatives, or users, a wanted half-width needs, and what exact evaluation costs here."""
    from truerank.planning import plan as make_plan

    if scale is not None:
        if data is not None or model or pilot is not None:
            raise InvalidParameter("--scale needs no pilot. Leave out DATA, --model and --pilot.")
        sampled = (99, 999) if negatives is None else (negatives,)
        if gpus is None:
            show_scale(scale, workers, sampled, format)
        else:
            show_scale_on_gpus(scale, gpus, sampled, format)
        return
    pilots: dict[str, SampledRanks]
    costs: Mapping[str, Costs] = {}
    if pilot is not None:
        if data is not None or model:
            raise InvalidParameter("give either --pilot or DATA with --model, not both.")
        pilots = _read(pilot, n_items, negatives)
    elif data is None or not model:
        raise InvalidParameter(
            "a plan needs a pilot. Name DATA and --model, or a table of sampled ranks by --pilot."
        )
    else:
        pilots, costs = _draw(
            data, model, sampler=sampler, split=split, seen=seen, columns=columns, seed=seed, threads=threads
        )
    with shown_progress() as progress:
        plans = {
            name: make_plan(
                ranks,
                metrics,
                half_width,
                estimator=estimator,
                level=level,
                target=target,  # type: ignore[arg-type]  # checked with a sentence inside
                budgets=budget or (),
                n_users=n_users,
                costs=costs.get(name),
                ties=ties,  # type: ignore[arg-type]
                progress=progress,
            )
            for name, ranks in pilots.items()
        }
    _show(plans, format)


def _read(path: Path, n_items: int | None, negatives: int | None) -> dict[str, SampledRanks]:
    from truerank.ranks import read_sampled_models

    found = read_sampled_models(path, n_items=n_items, n_negatives=negatives)
    return {name or path.name: one for name, one in found.items()}


def _draw(
    data: str,
    model: list[str],
    *,
    sampler: str,
    split: str,
    seen: str,
    columns: str | None,
    seed: int,
    threads: int | None,
) -> tuple[dict[str, SampledRanks], dict[str, Costs]]:
    """Fit models, draw a pilot of each and measure what ranking costs."""
    from truerank.cli.prepare import prepare
    from truerank.evaluation import fit_scorer, name_models
    from truerank.planning import measure
    from truerank.ranks import SAMPLERS, sampled_ranks
    from truerank.validation import make_validate

    chosen, models = SAMPLERS.make(sampler), name_models(list(model))
    pilots, costs = {}, {}
    with shown_progress() as progress:
        parts = prepare(data, split=split, columns=columns, seed=seed, progress=progress)
        validate = make_validate(parts, n_threads=threads)
        for name, one in models.items():
            scorer = fit_scorer(one, parts, validate=validate, seed=seed, progress=progress)
            pilots[name] = sampled_ranks(
                scorer,
                parts,
                chosen,
                seen=seen,  # type: ignore[arg-type]  # checked with a sentence inside
                seed=seed,
                label=name,
                n_threads=threads,
                progress=progress,
            )
            costs[name] = measure(scorer, parts, seen=seen, n_threads=threads)  # type: ignore[arg-type]
    return pilots, costs


def _show(plans: Mapping[str, Plan], style: Format) -> None:
    first = next(iter(plans.values()))
    whose = "the test users" if first.target == "test-users" else "all users like these"
    say(
        f"for +-{first.half_width:g} at level {first.level:g} on {whose}: {first.n_users:,} test users, "
        f"{first.n_items:,} items, estimator {first.estimator}."
    )
    for name, one in plans.items():
        for line in one.words():
            say(f"{name}: {line}")
    if style is Format.json:
        emit(json.dumps({name: one.to_dict() for name, one in plans.items()}, indent=2, allow_nan=False))
        return
    emit(table_text(NEEDS, [row for name, one in plans.items() for row in _needs(name, one)], style))
    divisions = [row for name, one in plans.items() for row in _divisions(name, one)]
    if divisions and style is not Format.csv:
        emit("")
        emit(table_text(DIVISIONS, divisions, style))


def _needs(name: str, one: Plan) -> list[tuple[str, ...]]:
    def size(value: float | None) -> str:
        return "all" if value is None else f"{value:.0f}"

    return [
        (
            name,
            need.metric,
            f"{need.value:.4f}",
            size(need.noise_negatives),
            "" if need.bias is None else f"{need.bias:+.4f}",
            size(need.total_negatives),
            size(need.bound_negatives),
            "" if need.ceiling is None else str(need.ceiling),
            str(need.users),
            f"{need.row_scores:.0f}",
        )
        for need in one.needs
    ]


def _divisions(name: str, one: Plan) -> list[tuple[str, ...]]:
    return [
        (
            name,
            each.metric,
            str(each.budget),
            str(each.n_users),
            str(each.n_negatives),
            f"{each.half_width:.4f}",
            f"{each.bias:+.4f}",
            "" if each.rows is None else f"{each.rows:.4f}",
        )
        for each in one.divisions
    ]
