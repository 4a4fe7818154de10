"""``truerank sample``: a table of ranks among sampled negatives."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from truerank.cli import options as opt
from truerank.cli.output import check_file, say, shown_progress


def sample(
    data: opt.Data[str],
    model: opt.Models[list[str]],
    out: Annotated[Path, typer.Option(help="Write the table to this file: .parquet, .csv or .tsv.")],
    sampler: opt.Sampler[str] = "uniform(m=99)",
    split: opt.SplitRule = "leave-last-out",
    seen: opt.Seen = "remove",
    columns: opt.Columns = None,
    time_format: opt.TimeFormat = None,
    drop_missing: opt.DropMissing = False,
    users: opt.Users = None,
    seed: opt.Seed = 0,
    threads: opt.Threads = None,
) -> None:
    """Rank targets against sampled negatives and write the table that truerank estimate reads."""
    from truerank.cli.dataset import read_split
    from truerank.core.digest import data_hash
    from truerank.ranking.files import write_sampled
    from truerank.ranking.sampled import sample_ranks
    from truerank.ranking.samplers.registry import SAMPLERS
    from truerank.split.base import sample_users
    from truerank.workflows.fitting import described, fit_scorer, make_validate, name_models

    check_file(out, "--out", (".parquet", ".csv", ".tsv"))
    chosen = SAMPLERS.make(sampler)
    models = name_models(list(model))
    sampled = {}
    n_scores = 0
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
        if users is not None:
            parts = sample_users(parts, users, seed=seed)
        validate = make_validate(parts, n_threads=threads)
        for name, named in models.items():
            scorer = fit_scorer(named, parts, validate=validate, seed=seed, progress=progress)
            outcome = sample_ranks(
                scorer,
                parts,
                chosen,
                seen=seen,  # type: ignore[arg-type]  # checked with a sentence inside
                seed=seed,
                label=name,
                n_threads=threads,
                progress=progress,
            )
            sampled[name] = outcome.ranks
            n_scores += outcome.n_scores
    provenance = {
        "models": {name: described(named) for name, named in models.items()},
        "split": parts.method,
        "sampler": str(chosen),
        "users": users,
        "seen": seen,
        "seed": seed,
        "data_hash": data_hash(parts),
    }
    write_sampled(out, sampled, parts.train.users, parts.train.items, provenance=provenance)
    say(f"{len(sampled)} models, {n_scores:,} scores computed; wrote {out}")
