"""``truerank sample``: ranks among sampled items, as a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from truerank.cli.output import say, shown_progress
from truerank.cli.prepare import data_names, names_of
from truerank.core.checkpoint import check_output


def sample(
    data: Annotated[
        str,
        typer.Argument(help="A file, a catalogue name such as ml-1m, or demo.", autocompletion=data_names),
    ],
    model: Annotated[
        list[str],
        typer.Option(help="A model; may be given several times.", autocompletion=names_of("models")),
    ],
    out: Annotated[Path, typer.Option(help="Where to write the table: .parquet, .csv or .tsv.")],
    sampler: Annotated[
        str, typer.Option(help="How to sample.", autocompletion=names_of("samplers"))
    ] = "uniform(m=99)",
    split: Annotated[
        str, typer.Option(help="How test events are chosen.", autocompletion=names_of("splits"))
    ] = "leave-last-out",
    seen: Annotated[
        str, typer.Option(help="Items known from train and valid: remove, bottom or keep.")
    ] = "remove",
    columns: Annotated[
        str | None, typer.Option(help="user=NAME,item=NAME,rating=NAME,timestamp=NAME")
    ] = None,
    users: Annotated[
        float | None, typer.Option(help="Take this many test users at random, or this share of them.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    threads: Annotated[int | None, typer.Option(help="Threads; all cores by default.")] = None,
) -> None:
    """Rank targets against sampled items and write the table that ``truerank estimate`` reads."""
    from truerank.cli.prepare import prepare
    from truerank.ranking.files import write_sampled
    from truerank.ranking.sampled import sample_ranks as sample_ranks
    from truerank.ranking.samplers.registry import SAMPLERS
    from truerank.split.base import sample_users
    from truerank.workflows.evaluate import fit_scorer, make_validate, name_models

    check_output(out, "--out")
    chosen = SAMPLERS.make(sampler)
    models = name_models(list(model))
    found = {}
    n_scores = 0
    with shown_progress() as progress:
        parts = prepare(data, split=split, columns=columns, seed=seed, progress=progress)
        if users is not None:
            parts = sample_users(parts, users, seed=seed)
        validate = make_validate(parts, n_threads=threads)
        for name, one in models.items():
            scorer = fit_scorer(one, parts, validate=validate, seed=seed, progress=progress)
            drawn = sample_ranks(
                scorer,
                parts,
                chosen,
                seen=seen,  # type: ignore[arg-type]  # checked with a sentence inside
                seed=seed,
                label=name,
                n_threads=threads,
                progress=progress,
            )
            found[name] = drawn.ranks
            n_scores += drawn.n_scores
    write_sampled(out, found, parts.train.users, parts.train.items)
    say(f"{len(found)} models, {n_scores:,} scores computed; wrote {out}")
