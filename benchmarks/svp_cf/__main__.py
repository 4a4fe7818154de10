"""Prepare, train and collect: ``python -m benchmarks.svp_cf prepare|run|collect``.

``prepare FOLDER`` writes splits and sub-samples (needs the data sets); ``run FOLDER OUT`` trains stacks on a
GPU (needs torch and these files alone; what ``--done`` files hold is not trained again); ``collect --keep
STORE FILES`` puts complete agreements where ``truerank paper run s21.table1`` finds them.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path


def main() -> None:
    """Read the arguments and do one of the three."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.svp_cf", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    prepare = commands.add_parser("prepare")
    prepare.add_argument("folder", type=Path)
    prepare.add_argument("--seeds", type=int, default=3)
    run = commands.add_parser("run")
    run.add_argument("folder", type=Path)
    run.add_argument("out", type=Path)
    run.add_argument(
        "problems", nargs="+", help="such as ml-100k.published.implicit; :0,1 behind it for seeds"
    )
    run.add_argument("--models", default="", help="separated by commas; all by default")
    run.add_argument("--workers", type=int, default=5, help="processes that share the device")
    run.add_argument("--done", nargs="*", type=Path, default=[], help="results that are not trained again")
    run.add_argument("--device", default="cuda")
    run.add_argument("--seconds", type=float, default=3600.0, help="no stack starts later")
    collect = commands.add_parser("collect")
    collect.add_argument("files", nargs="+", type=Path)
    collect.add_argument("--keep", type=Path, required=True)
    collect.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    if given.command == "prepare":
        from benchmarks.svp_cf.prepare import prepare as write

        write(given.folder, seeds=given.seeds)
    elif given.command == "run":
        from benchmarks.svp_cf.job import Job

        problems = {}
        for text in given.problems:
            name, _, seeds = text.partition(":")
            dataset, protocol, scenario = name.split(".")
            problems[dataset, protocol, scenario] = [int(seed) for seed in (seeds or "0,1,2").split(",")]
        if absent := [str(path) for path in given.done if not path.is_file()]:
            parser.error(f"--done must name files with results, but there is no {', '.join(absent)}.")
        given.out.mkdir(parents=True, exist_ok=True)
        models = [model for model in given.models.split(",") if model]
        until = time.time() + given.seconds
        Job(given.folder, given.out, problems, models, given.device, until, given.done).run(given.workers)
    else:
        from benchmarks.svp_cf.collect import keep_results
        from benchmarks.svp_cf.job import read_results

        for sentence in keep_results(given.keep, read_results(given.files), seeds=given.seeds):
            print(sentence)


if __name__ == "__main__":
    main()
