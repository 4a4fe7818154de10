"""The same evaluation in truerank and in other libraries: values, seconds and memory.

Everyone gets the same float32 factors of a dot-product model with 64 dimensions, the same seen items and the
same targets, and must say NDCG@10 and Recall@10 over the whole catalogue without the seen items. Each library
does it by its own documented means (files of ``benchmarks/rivals/lineup``) in an environment of its own with
pinned requirements and in a process of its own, with all processors. Building its data structures of seen
items and targets is not counted; scoring, ranking and measuring are. What the metrics alone take is shown
apart, because some libraries are handed ranked lists. Each time is the best of three calls, so compiled code
is warm; after two minutes there is no further call. The CPU seconds beside it say more on a busy machine, and
ratios are to truerank's ranks and values. Preparation and first call are in the JSON file.

Jobs: MovieLens-1M with iALS (6,040 x 3,706, one target per user), 20,000 x 50,000 Gaussian factors with 1 to
10 targets, and a small one where most scores are tied, which is not timed.

    python -m benchmarks.rivals [--environments FOLDER] [--jobs tied,ml-1m,wide] [--only ranx,implicit]

Jobs that are not asked for keep their rows in the JSON file and on the page.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.machine import folder_name, machine
from benchmarks.rivals.entry import ENTRIES, Entry
from benchmarks.rivals.environment import Environments, InstallError, default_folder, last_line
from benchmarks.rivals.page import write_page
from benchmarks.rivals.problem import JOBS, TIMED
from benchmarks.rivals.reference import Reference
from benchmarks.rivals.show import show

PROJECT = Path(__file__).parents[2]


def measure(
    entry: Entry, python: Path, job: Path, reference: Reference, options: argparse.Namespace
) -> dict[str, Any]:
    """Run one library on one job in a process of its own."""
    out = job.with_suffix(".json")
    out.unlink(missing_ok=True)
    command = [str(python), "-m", f"benchmarks.rivals.lineup.{entry.module}", str(job), str(out)]
    try:
        done = subprocess.run(
            [*command, "--repeats", str(options.repeats), "--patience", str(options.patience)],
            cwd=PROJECT,
            env=os.environ | {"TOKENIZERS_PARALLELISM": "false", "PYTHONWARNINGS": "ignore"},
            timeout=options.limit,
            capture_output=True,
            text=True,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"error": f"not finished after {options.limit:.0f} s"}
    if done.returncode or not out.exists():
        return {"error": last_line(done.stderr)}
    row: dict[str, Any] = json.loads(out.read_text())
    row["values"] = reference.compare(entry, row["values"])
    return row


def run_job(name: str, environments: Environments, options: argparse.Namespace) -> dict[str, Any]:
    """Return the table of one job."""
    rows: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        job, path = JOBS[name](), Path(folder) / "job.npz"
        job.save(path)
        reference = Reference.of(job)
        table = {"job": name, "users": job.n_users, "items": job.n_items, "width": job.user.shape[1]}
        table |= {"targets": len(job.target_item), "seen": len(job.seen_item), "timed": name in TIMED}
        del job
        for entry in ENTRIES:
            if options.only and entry.library not in (*options.only.split(","), "truerank"):
                continue
            try:
                python = environments.python(entry.library)
            except InstallError as problem:
                rows[entry.name] = {"error": f"cannot be installed: {problem}"}
                continue
            rows[entry.name] = measure(entry, python, path, reference, options)
    return table | {"rows": rows, "load": os.getloadavg()[1]}


def main() -> None:
    """Measure, print and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--environments", type=Path, default=default_folder(), help="where they are kept")
    parser.add_argument("--jobs", default=",".join(JOBS))
    parser.add_argument("--only", default="", help="some libraries; nothing is written")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--patience", type=float, default=120, help="no further call after so many seconds")
    parser.add_argument("--limit", type=float, default=1800, help="seconds for one library on one job")
    options = parser.parse_args()
    environments = Environments(options.environments.resolve())
    tables = []
    for name in options.jobs.split(","):
        tables.append(run_job(name, environments, options))
        show(tables[-1])
    if options.only:
        return
    host = machine()
    slug = folder_name()
    path = Path(__file__).parents[1] / "results" / slug / "rivals.json"
    known = {table["job"]: table for table in json.loads(path.read_text())["jobs"]} if path.exists() else {}
    known |= {table["job"]: table for table in tables}
    result = {
        "benchmark": "rivals",
        "machine": host,
        "jobs": [known[name] for name in JOBS if name in known],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=2) + "\n")
    write_page(result)
    print(f"\nwritten to benchmarks/results/{slug}/rivals.json and docs/comparison.md")


if __name__ == "__main__":
    main()
