"""What engines cost, and the rates of the cost model.

The job ranks 200,000 users exactly among 20,000 items with 64 factors, read from Parquet. The floor is two
threads of this process; Dask has two worker processes and Spark two slots on this machine. Engines take turns
within one run, threads first. Start-up is the time until one empty task has run; then comes the job, for
which workers load their libraries, and the job again, with what is loaded. Ratios are to threads. CPU
seconds, of this process and all below it, stand beside them, because a busy machine does not count in
those. All estimates must be equal to the digit.

``--fit`` measures CPU seconds and peak memory of jobs on one thread, each in a process of its own after
compiled code was loaded, fits the rates of ``truerank.distributed.cost`` to some and prints how far they
are off on others.

    python -m benchmarks.engines [--users 200000] [--engines local,dask,spark] [--repeats 2] [--fit]
"""

from __future__ import annotations

import argparse
import importlib
import json
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import folder_name, machine
from truerank.core.interactions import Interactions
from truerank.core.scorer import Factors
from truerank.core.split import Split
from truerank.distributed.cost import Work, bytes_of, fit_bytes, fit_seconds, seconds_of
from truerank.distributed.engine import ENGINES as MADE
from truerank.distributed.engine import started
from truerank.distributed.files import Files, write_files
from truerank.distributed.map_tasks import map_tasks
from truerank.workflows.evaluate_on_engine import evaluate_files

ENGINES = {"local": "local(threads=2)", "dask": "dask(workers=2)", "spark": "spark(master='local[2]')"}
N_ITEMS, DIMS, SEEN = 20_000, 64, 20
FIT = [
    Work(20_000, 20_000, 32),
    Work(10_000, 20_000, 128),
    Work(4_000, 100_000, 64),
    Work(40_000, 5_000, 64, seen=60),
    Work(1_500, 300_000, 64),
    Work(100_000, 1_000, 16, seen=5),
    Work(100_000, 20_000, 64, 99),
    Work(50_000, 20_000, 64, 999),
    Work(200_000, 400_000, 64, 99),
    Work(200_000, 400_000, 16, 99),
    Work(40_000, 100_000, 128, 300),
    Work(200_000, 5_000, 32, 99, seen=5),
]
HELD_OUT = [
    Work(8_000, 60_000, 96),
    Work(30_000, 30_000, 48, seen=40),
    Work(80_000, 200_000, 48, 200),
    Work(150_000, 40_000, 96, 99),
    Work(2_000, 1_000_000, 64),
    Work(300_000, 1_500_000, 64, 99),
]


def make_split(work: Work) -> tuple[Split, Factors]:
    """Return random events and vectors."""
    rng = np.random.default_rng(0)
    per_user = round(work.targets + work.seen)
    item = np.arange(per_user) * (work.items // per_user) + rng.integers(
        0, work.items // per_user, (work.users, per_user)
    )
    is_test = np.zeros((work.users, per_user), np.bool_)
    is_test[np.arange(work.users), rng.integers(0, per_user, work.users)] = True
    user = np.repeat(np.arange(work.users), per_user).reshape(item.shape)
    n_users, n_items = work.users, work.items
    train = Interactions.from_codes(user[~is_test], item[~is_test], n_users=n_users, n_items=n_items)
    test = Interactions.from_codes(user[is_test], item[is_test], n_users=n_users, n_items=n_items)
    vectors = [rng.standard_normal((n, work.dims), dtype=np.float32) for n in (work.users, work.items)]
    return Split(train, test), Factors(*vectors)


def write(work: Work, folder: Path) -> Files:
    """Write the job for workers."""
    split, factors = make_split(work)
    return write_files(str(folder), factors, split, "remove")


def measure(work: Work, files: Files) -> dict[str, float]:
    """Return CPU seconds and peak bytes of one job on one thread of this process."""
    sampler = None if work.negatives is None else f"uniform(m={work.negatives})"
    with tempfile.TemporaryDirectory() as name:  # loads compiled code
        small = Work(3_000, 5_000, work.dims, work.negatives)
        evaluate_files("local(threads=1)", write(small, Path(name)), "ndcg@10", sampler=sampler)
    started = time.process_time()
    evaluate_files("local(threads=1)", files, "ndcg@10", sampler=sampler, interval="normal")
    seconds = time.process_time() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"cpu_s": seconds, "peak_bytes": float(peak)}


def measured(work: Work) -> dict[str, float]:
    """Measure in a process of its own; the files are written by another one."""
    with tempfile.TemporaryDirectory() as name:
        command = [
            sys.executable,
            "-m",
            "benchmarks.engines",
            "--work",
            json.dumps(asdict(work)),
            "--folder",
            name,
        ]
        for step in ("write", "run"):
            done = subprocess.run([*command, "--step", step], check=True, stdout=subprocess.PIPE, text=True)
        found: dict[str, float] = json.loads(done.stdout)
        return found


def run_step(step: str, work: Work, folder: Path) -> None:
    """Do one step of a measurement."""
    described = folder / "files.json"
    if step == "write":
        described.write_text(json.dumps(asdict(write(work, folder))))
        return
    fields = json.loads(described.read_text())
    print(json.dumps(measure(work, Files(**{**fields, "users": tuple(fields["users"])}))))


def fit() -> dict[str, Any]:
    """Fit the rates and print their errors, those on other runs last."""
    cases: list[dict[str, Any]] = []
    for work in [*FIT, *HELD_OUT]:
        cases.append({"work": asdict(work), **measured(work)})
        print(f"measured {work}: {cases[-1]['cpu_s']:.2f} CPU s", file=sys.stderr, flush=True)
    seconds = fit_seconds([(work, case["cpu_s"]) for work, case in zip(FIT, cases, strict=False)])
    memory = fit_bytes([(work, case["peak_bytes"]) for work, case in zip(FIT, cases, strict=False)])
    print(f"{'users':>9} {'items':>9} {'dims':>5} {'m':>5} {'CPU s':>7} {'model':>7} {'MB':>6} {'model':>6}")
    errors = []
    for place, (work, case) in enumerate(zip([*FIT, *HELD_OUT], cases, strict=True)):
        model, size = seconds.total(seconds_of(work)), memory.total(bytes_of(work))
        case |= {"model_s": model, "model_bytes": size, "held_out": place >= len(FIT)}
        if case["held_out"]:
            errors.append(max(abs(model / case["cpu_s"] - 1), abs(size / case["peak_bytes"] - 1)))
        print(
            f"{work.users:>9,} {work.items:>9,} {work.dims:>5} {work.negatives or 'all':>5} "
            f"{case['cpu_s']:>7.2f} {model:>7.2f} {case['peak_bytes'] / 1e6:>6.0f} {size / 1e6:>6.0f}"
            f"{'  not fitted' if case['held_out'] else ''}"
        )
    print(f"largest error on runs that were not fitted: {max(errors):.0%} (aim 30%)")
    print(f"{seconds}\n{memory}")
    return {"cases": cases, "seconds": asdict(seconds), "bytes": asdict(memory), "largest_error": max(errors)}


def compare(users: int, names: list[str], repeats: int) -> dict[str, Any]:
    """Time the engines on one job."""
    with tempfile.TemporaryDirectory() as folder:
        files = write(Work(users, N_ITEMS, DIMS, seen=SEEN), Path(folder))
        evaluate_files("local(threads=2)", files, "ndcg@10")  # loads compiled code, caches files
        runs: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
        for _ in range(repeats):
            for name in names:
                runs[name].append(timed(name, files))
    digits = {name: runs[name][0]["estimates"] for name in names}
    assert all(one["estimates"] == digits[names[0]] for own in runs.values() for one in own)
    print(f"{'engine':24} {'start s':>8} {'job s':>7} {'ratio':>6} {'again s':>8} {'ratio':>6}", end="")
    print(f" {'CPU s':>7} {'ratio':>6} {'again':>6} {'ratio':>6}")
    rows: list[dict[str, Any]] = []
    for name in names:
        figures = ("start_s", "job_s", "again_s", "job_cpu_s", "again_cpu_s")
        own: dict[str, Any] = {
            figure: float(np.median([one[figure] for one in runs[name]])) for figure in figures
        }
        own |= {"engine": ENGINES[name], "first_start_s": runs[name][0]["start_s"]}
        floor = rows[0] if rows else own
        own |= {f"{figure[:-2]}_ratio": own[figure] / floor[figure] for figure in figures[1:]}
        rows.append(own)
        print(
            f"{own['engine']:24} {own['start_s']:>8.2f} {own['job_s']:>7.2f} {own['job_ratio']:>6.2f} "
            f"{own['again_s']:>8.2f} {own['again_ratio']:>6.2f} {own['job_cpu_s']:>7.2f} "
            f"{own['job_cpu_ratio']:>6.2f} {own['again_cpu_s']:>6.2f} {own['again_cpu_ratio']:>6.2f}"
        )
    print(f"{users:,} users x {N_ITEMS:,} items x {DIMS}: equal estimates from all engines")
    return {"users": users, "items": N_ITEMS, "dims": DIMS, "engines": rows, "equal": True}


def timed(name: str, files: Files) -> dict[str, Any]:
    """Return wall and CPU seconds: to start, of the job, and of the same job again with what is loaded."""
    before = time.perf_counter()
    found: dict[str, Any] = {}
    with started(MADE.make(ENGINES[name])) as engine:
        map_tasks(engine, abs, {"nothing": 0}, key="nothing")
        found["start_s"] = time.perf_counter() - before
        for what in ("job", "again"):
            before, used = time.perf_counter(), cpu_seconds()
            result = evaluate_files(engine, files, "ndcg@10,recall@10,auc", interval="normal")
            found[f"{what}_s"] = time.perf_counter() - before
            found[f"{what}_cpu_s"] = cpu_seconds() - used
    return {**found, "estimates": result.estimates}


def cpu_seconds() -> float:
    """Return what this process, its children that have ended, and all that live below it used."""
    psutil: Any = importlib.import_module("psutil")  # comes with Dask
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    total = sum(one.ru_utime + one.ru_stime for one in used)
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            total += sum(process.cpu_times()[:2])
    return total


def main() -> None:
    """Measure, print and write the figures."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--users", type=int, default=200_000)
    options.add_argument("--engines", default="local,dask,spark")
    options.add_argument("--repeats", type=int, default=2)
    options.add_argument("--fit", action="store_true", help="fit the cost model instead")
    options.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options.add_argument("--work", type=json.loads, help=argparse.SUPPRESS)
    options.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options.add_argument("--step", help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.work:
        run_step(given.step, Work(**given.work), given.folder)
        return
    name = "engines_cost" if given.fit else "engines"
    found = fit() if given.fit else compare(given.users, given.engines.split(","), given.repeats)
    about = machine(
        "polars", "distributed", *([] if given.fit or "spark" not in given.engines else ["pyspark"])
    )
    target = given.out / folder_name() / f"{name}.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps({"benchmark": name, "machine": about, **found}, indent=2) + "\n")
    print(f"written to {target}", file=sys.stderr)


if __name__ == "__main__":
    main()
