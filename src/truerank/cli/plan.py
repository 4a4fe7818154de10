"""``truerank plan``: how many negatives or users a wanted half-width needs.

A plan starts from a pilot: sampled ranks of the models, from a file or made here. ``--scale`` needs none:
it predicts what ranking a given number of users and items costs.
"""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from truerank.cli import options as opt
from truerank.cli.options import Format
from truerank.cli.output import SUFFIXES, Parts, check_file, say, show, shown_progress, table_of
from truerank.core.errors import MOST_ITEMS, MOST_USERS, InvalidParameter, check_at_least
from truerank.core.table import about, duration

if TYPE_CHECKING:
    from truerank.core.ranks import SampledRanks
    from truerank.workflows.plan.advice import TellingApart
    from truerank.workflows.plan.cost import RankingSeconds
    from truerank.workflows.plan.plan import SamplePlan


#: Column -> its cell, for predicted costs on cores and on GPUs.
CORE_COLUMNS: dict[str, Callable[[Any], str]] = {
    "wall time": lambda cost: duration(cost.seconds),
    "core hours": lambda cost: f"{cost.core_seconds / 3600:.3g}",
    "a worker": lambda cost: size_text(cost.worker_bytes),
    "of it shared": lambda cost: size_text(cost.shared_bytes),
    "driver": lambda cost: size_text(cost.driver_bytes),
    "tasks": lambda cost: str(cost.tasks),
}
GPU_COLUMNS: dict[str, Callable[[Any], str]] = {
    "wall time": lambda cost: duration(cost.seconds),
    "a GPU": lambda cost: size_text(cost.gpu_bytes),
    "hosts together": lambda cost: size_text(cost.host_bytes),
}


def show_scale(
    size: str,
    workers: int,
    gpus: int | None,
    negatives: tuple[int, ...],
    style: Format,
    out: Path | None = None,
) -> None:
    """Print what ranking USERSxITEMSxDIMENSIONS costs on cores, or on GPUs where there are any."""
    from truerank.core.provenance import head, versions
    from truerank.distributed.cost import Work, predict, predict_gpu
    from truerank.workflows.evaluate_on_engine import MOST_RANKS

    users, items, dims = parse_size(size)
    for option, asked in (("--workers", workers), ("--gpus", gpus), *(("--negatives", m) for m in negatives)):
        check_at_least(option, 1 if asked is None else asked, 1, MOST_ITEMS)
    sizes = [m for m in (None, *negatives) if m is None or m < items]
    works = [Work(users, items, dims, negatives=m, workers=workers if gpus is None else 1) for m in sizes]
    costs: list[Any]
    if gpus is None:
        where, unit, columns = (
            f"{workers:,} cores like those of an AMD EPYC server (Zen 4)",
            "workers",
            CORE_COLUMNS,
        )
        costs = [
            predict(work, keep_ranks=work.negatives is not None or users <= MOST_RANKS) for work in works
        ]
    else:
        where, unit, columns = (
            f"{gpus:,} GPUs like an H200, data in the memory of their hosts",
            "GPUs",
            GPU_COLUMNS,
        )
        costs = [predict_gpu(work, gpus) for work in works]
    say(
        f"{users:,} users x {items:,} items x {dims} dimensions on {where}: predicted from measured runs, "
        "with errors up to about 30 % on other runs."
    )
    number = {} if gpus is None else {"workers": 0, "gpus": gpus}
    rows = [{**asdict(work), **asdict(cost), **number} for work, cost in zip(works, costs, strict=True)]
    cells = [
        (
            "exact" if work.negatives is None else f"{work.negatives} sampled",
            str(workers if gpus is None else gpus),
            *(cell(cost) for cell in columns.values()),
        )
        for work, cost in zip(works, costs, strict=True)
    ]
    table = table_of(("ranks", unit, *columns), cells)
    document = json.dumps({**head("plan"), "costs": rows, "provenance": {"versions": versions()}}, indent=2)
    show(lambda style: [document if style is Format.json else table], style, out)


def parse_size(text: str) -> tuple[int, int, int]:
    """Return users, items and dimensions.

    Examples
    --------
    >>> parse_size("1000000x20000x64"), parse_size("5e6x1e5")
    ((1000000, 20000, 64), (5000000, 100000, 64))
    """
    parts = text.lower().split("x")
    try:
        numbers = [float(part) for part in parts]
    except ValueError:
        numbers = []
    if len(numbers) not in (2, 3) or any(not (1 <= n < math.inf and n.is_integer()) for n in numbers):
        raise InvalidParameter(f"--scale must be USERSxITEMS or USERSxITEMSxDIMENSIONS, got {text!r}.")
    users, items, dims = (int(n) for n in [*numbers, 64][:3])
    limits = {"users": (users, MOST_USERS), "items": (items, MOST_ITEMS), "dimensions": (dims, MOST_ITEMS)}
    for name, (number, most) in limits.items():
        check_at_least(f"--scale: {name}", number, 1, most)
    return users, items, dims


def size_text(n_bytes: float) -> str:
    """Return bytes with a unit that suits their size.

    Examples
    --------
    >>> size_text(2.5e9), size_text(3e8)
    ('2.5 GB', '300 MB')
    """
    return f"{n_bytes / 1e9:.3g} GB" if n_bytes >= 1e9 else f"{n_bytes / 1e6:.3g} MB"


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
    "variance",
    "smallest difference",
)
OPTIONS = ("model", "metric", "way", "scores", "gives")
DIVISIONS = ("model", "metric", "scores", "users", "negatives", "half-width", "bias", "only users")


def plan(
    data: opt.Data[str | None] = None,
    model: opt.Models[list[str] | None] = None,
    pilot: Annotated[
        Path | None, typer.Option(help="Plan from this table of sampled ranks, instead of DATA and --model.")
    ] = None,
    scale: Annotated[
        str | None,
        typer.Option(
            help="USERSxITEMSxDIMENSIONS: print what ranking a job of this size costs; no pilot is needed."
        ),
    ] = None,
    workers: Annotated[int, typer.Option(help="With --scale: cores that share the work.")] = 1,
    gpus: Annotated[
        int | None, typer.Option(help="With --scale: GPUs that share the work, instead of cores.")
    ] = None,
    metrics: opt.Metrics = "ndcg@10,recall@10",
    half_width: Annotated[float, typer.Option(help="The wanted half-width of the intervals.")] = 0.01,
    budget: Annotated[
        list[int] | None,
        typer.Option(help="Divide this many scores between users and negatives; may be given several times."),
    ] = None,
    difference: Annotated[
        float | None,
        typer.Option(help="Say how many users tell a difference of this size between two models."),
    ] = None,
    estimator: opt.Estimator = None,
    target: opt.Target = "test-users",
    level: opt.Level = 0.95,
    sampler: opt.Sampler[str] = "uniform(m=99)",
    n_users: Annotated[
        int | None, typer.Option(help="Number of all test users, if --pilot holds only some of them.")
    ] = None,
    n_items: opt.NItems = None,
    negatives: Annotated[
        int | None,
        typer.Option(
            help="Sampled negatives per target: with --scale, or of --pilot if it has no column for it."
        ),
    ] = None,
    split: opt.SplitRule = "leave-last-out",
    seen: opt.Seen = "remove",
    ties: opt.Ties = "expected",
    columns: opt.Columns = None,
    time_format: opt.TimeFormat = None,
    drop_missing: opt.DropMissing = False,
    seed: opt.Seed = 0,
    threads: opt.Threads = None,
    format: opt.OutputFormat = Format.table,
    out: opt.Out = None,
) -> None:
    """Recommend how to reach a wanted half-width: what to do, what it costs, what it gives."""
    from truerank.core.provenance import ranks_hash, versions
    from truerank.workflows.options import DEFAULT_ESTIMATOR
    from truerank.workflows.plan.advice import tell_apart
    from truerank.workflows.plan.plan import plan as make_plan

    check_file(out, "--out", SUFFIXES)
    if scale is not None:
        if data is not None or model or pilot is not None:
            raise InvalidParameter("--scale takes no pilot. Leave out DATA, --model and --pilot.")
        sampled = (99, 999) if negatives is None else (negatives,)
        show_scale(scale, workers, gpus, sampled, format, out)
        return
    pilots: dict[str, SampledRanks]
    costs: Mapping[str, RankingSeconds] = {}
    if pilot is not None:
        if data is not None or model:
            raise InvalidParameter("give either --pilot or DATA with --model, not both.")
        pilots = _read_pilots(pilot, n_items, negatives)
    elif data is None or not model:
        raise InvalidParameter(
            "a plan needs a pilot. Give DATA and --model, or a table of sampled ranks with --pilot."
        )
    else:
        pilots, costs = _sample_pilots(
            data,
            model,
            sampler=sampler,
            split=split,
            seen=seen,
            columns=columns,
            time_format=time_format,
            drop_missing=drop_missing,
            seed=seed,
            threads=threads,
        )
    with shown_progress() as progress:
        plans = {
            name: make_plan(
                ranks,
                metrics,
                half_width,
                estimator=estimator or DEFAULT_ESTIMATOR,
                level=level,
                target=target,  # type: ignore[arg-type]  # checked with a sentence inside
                budgets=budget or (),
                difference=difference,
                n_users=n_users,
                costs=costs.get(name),
                ties=ties,  # type: ignore[arg-type]
                progress=progress,
            )
            for name, ranks in pilots.items()
        }
    provenance = {
        "metrics": metrics,
        "sampler": None if pilot is not None else sampler,
        "ties": ties,
        "seed": seed,
        "data_hash": {name: ranks_hash(ranks) for name, ranks in pilots.items()},
        "versions": versions(),
    }
    flags = {
        "--split": split,
        "--seen": seen,
        "--ties": ties,
        "--columns": columns,
        "--time-format": time_format,
    }
    usual = ("leave-last-out", "remove", "expected", None)
    given = {flag: value for flag, value in flags.items() if value is not None and value not in usual}
    told = tell_apart(plans)
    _explain(plans, told, None if data is None else {"data": data, **given})
    show(lambda style: _parts(plans, told, provenance, style), format, out)


def _read_pilots(path: Path, n_items: int | None, negatives: int | None) -> dict[str, SampledRanks]:
    from truerank.ranking.files import read_sampled_models

    models = read_sampled_models(path, n_items=n_items, n_negatives=negatives)
    return {name or path.name: sampled for name, sampled in models.items()}


def _sample_pilots(
    data: str,
    model: list[str],
    *,
    sampler: str,
    split: str,
    seen: str,
    columns: str | None,
    time_format: str | None,
    drop_missing: bool,
    seed: int,
    threads: int | None,
) -> tuple[dict[str, SampledRanks], dict[str, RankingSeconds]]:
    """Fit the models, sample ranks of each and measure what ranking costs."""
    from truerank.cli.dataset import read_split
    from truerank.ranking.sampled import sampled_ranks
    from truerank.ranking.samplers.registry import SAMPLERS
    from truerank.workflows.fitting import fit_scorer, make_validate, name_models
    from truerank.workflows.plan.cost import measure_costs

    chosen, models = SAMPLERS.make(sampler), name_models(list(model))
    pilots, costs = {}, {}
    with shown_progress() as progress:
        parts = read_split(
            data,
            split=split,
            columns=columns,
            time_format=time_format,
            drop_missing=drop_missing,
            seen=seen,
            seed=seed,
            progress=progress,
        )
        validate = make_validate(parts, n_threads=threads)
        for name, named in models.items():
            scorer = fit_scorer(named, parts, validate=validate, seed=seed, progress=progress)
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
            costs[name] = measure_costs(scorer, parts, seen=seen, n_threads=threads)  # type: ignore[arg-type]
    return pilots, costs


def evaluate_command(model: str, sample_plan: SamplePlan, given: Mapping[str, str]) -> str:
    """Return the command that does what a plan recommends.

    Parameters
    ----------
    model : its name
    sample_plan : the plan
    given : the data, and flags of the plan that the evaluation needs too
    """
    from truerank.workflows.plan.advice import recommend

    data, *others = given.items()
    metrics = ",".join(need.metric for need in sample_plan.needs)
    words = ["truerank", "evaluate", data[1], "--model", model, "--metrics", metrics]
    return shlex.join([*words, *(word for flag in others for word in flag), *recommend(sample_plan).flags])


def _explain(
    plans: Mapping[str, SamplePlan], told: Sequence[TellingApart], given: Mapping[str, str] | None
) -> None:
    from truerank.workflows.plan.advice import difference_sentences

    first = next(iter(plans.values()))
    whose = "all test users" if first.target == "test-users" else "the user population"
    for name, sample_plan in plans.items():
        say(f"{name}: {sample_plan.recommendation()}")
        if given is not None:
            say(f"  {evaluate_command(name, sample_plan, given)}")
    for name, sample_plan in plans.items():
        for line in (*difference_sentences(sample_plan), *map(str, sample_plan.divisions)):
            say(f"{name}: {line}")
    for pair in told:
        say(str(pair))
    say(
        f"Ways to +-{first.half_width:g} at level {first.level:g} for {whose}: {first.n_users:,} test users, "
        f"{first.n_items:,} items, estimator {first.estimator}."
    )


def _parts(
    plans: Mapping[str, SamplePlan],
    told: Sequence[TellingApart],
    provenance: Mapping[str, Any],
    style: Format,
) -> Parts:
    from truerank.core.provenance import head

    if style is Format.json:
        made = {name: sample_plan.to_dict() for name, sample_plan in plans.items()}
        pairs = [pair.to_dict() for pair in told]
        document = {**head("plan"), "plans": made, "pairs": pairs, "provenance": provenance}
        return [json.dumps(document, indent=2, allow_nan=False)]
    if style is Format.csv:
        return [table_of(NEEDS, (row for name, one in plans.items() for row in _needs(name, one)))]
    options = [
        (name, option.metric, option.way, about(option.scores), option.gives)
        for name, sample_plan in plans.items()
        for option in sample_plan.options()
    ]
    # the name of a single model would take the room that words need
    start = 1 if len(plans) == 1 and style is Format.table else 0
    ways = table_of(OPTIONS[start:], (row[start:] for row in options))
    divisions = table_of(DIVISIONS, (row for name, one in plans.items() for row in _divisions(name, one)))
    return [ways, divisions] if divisions.rows else [ways]


def _needs(name: str, sample_plan: SamplePlan) -> list[tuple[str, ...]]:
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
            f"{need.variance:.4g}",
            f"{need.smallest_difference:.4g}",
        )
        for need in sample_plan.needs
    ]


def _divisions(name: str, sample_plan: SamplePlan) -> list[tuple[str, ...]]:
    return [
        (
            name,
            division.metric,
            str(division.budget),
            str(division.n_users),
            str(division.n_negatives),
            f"{division.half_width:.4f}",
            f"{division.bias:+.4f}",
            "" if division.rows is None else f"{division.rows:.4f}",
        )
        for division in sample_plan.divisions
    ]
