"""``truerank fit``: a fitted model in a file, to be evaluated later."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from truerank.cli import options as opt
from truerank.cli.completion import plugin_names
from truerank.cli.interrupt import note_written, say_interrupted
from truerank.cli.output import check_file, say, shown_progress


def fit(
    data: opt.Data[str],
    model: Annotated[
        str, typer.Option(help="A model such as ease(reg=500).", autocompletion=plugin_names("models"))
    ],
    out: Annotated[Path, typer.Option(help="Write the fitted model to this file, such as ease.truerank.")],
    split: opt.SplitRule = "leave-last-out",
    columns: opt.Columns = None,
    time_format: opt.TimeFormat = None,
    drop_missing: opt.DropMissing = False,
    seed: opt.Seed = 0,
) -> None:
    """Fit a model to the train part and write it to a file.

    Evaluate it with --model 'saved(path=FILE)'. A validation part, where the split makes one, is used for
    early stopping; the test part is not used.
    """
    from truerank.cli.dataset import read_split
    from truerank.models.registry import MODELS
    from truerank.models.saved_scorer import save_scorer
    from truerank.workflows.fitting import make_validate, was_interrupted

    check_file(out, "--out")
    chosen = MODELS.make(model)
    with shown_progress() as progress:
        parts = read_split(
            data,
            split=split,
            columns=columns,
            time_format=time_format,
            drop_missing=drop_missing,
            seed=seed,
            progress=progress,
        )
        started = time.perf_counter()
        scorer = chosen.fit(parts.train, validate=make_validate(parts), seed=seed, progress=progress)
        seconds = time.perf_counter() - started
    save_scorer(out, scorer, model=chosen, data=parts.train)
    say(f"fitted {chosen} to {len(parts.train):,} events in {seconds:.1f} s; wrote {out}")
    note_written(out)
    if was_interrupted(scorer):
        raise typer.Exit(say_interrupted())
    say(f"evaluate it with: truerank evaluate {data} --model 'saved(path={out})'")
