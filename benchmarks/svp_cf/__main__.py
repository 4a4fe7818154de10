"""Prepare, train and collect: ``python -m benchmarks.svp_cf prepare|run|collect``.

``prepare FOLDER`` writes splits and sub-samples (needs the data sets); ``run FOLDER OUT`` trains stacks on a
GPU (needs torch and these files alone; several processes with different ``--models`` share one device);
``collect --keep STORE FILES`` puts complete agreements where ``truerank paper run s21.table1`` finds them.
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
    run.add_argument("problems", nargs="+", help="such as ml-100k.published.implicit")
    run.add_argument("--models", default="", help="separated by commas; all by default")
    run.add_argument("--seeds", default="0,1,2")
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
        from benchmarks.svp_cf.job import run_job

        problems = [tuple(name.split(".")) for name in given.problems]
        label = "+".join((*given.problems, given.models or "all", f"seeds{given.seeds}")).replace(",", "-")
        run_job(
            given.folder,
            [(dataset, protocol, scenario) for dataset, protocol, scenario in problems],
            given.out,
            seeds=[int(seed) for seed in given.seeds.split(",")],
            device=given.device,
            until=time.time() + given.seconds,
            label=label,
            models=[model for model in given.models.split(",") if model],
        )
    else:
        from benchmarks.svp_cf.collect import keep_results, read_results

        for sentence in keep_results(given.keep, read_results(given.files), seeds=given.seeds):
            print(sentence)


if __name__ == "__main__":
    main()
