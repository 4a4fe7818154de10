"""How good the models are and how long they train: exact metrics over the whole catalogue.

One fit per model on the train part, on all processors. MovieLens-1M comes with the split of He et al.
(2017); other data sets are split by leave-last-out, or leave-one-out where they have no times. Beside the
figures stand hit ratios that Li et al. (2020) print for their NeuMF, MultiVAE and EASE on the same split:
Table 3, at the ranks 19, 30 and 356 that their mapping functions give for 1 and 10 of 100 sampled items. The
floor for seconds is the fit of ease. Rows of models that are not asked for stay in the file as they were, so
that several runs may fill it; each row has the machine it was measured on.

    python -m benchmarks.neural_models [--data ml-1m] [--models bias-only,mf,neumf,multi-vae] [--device cpu]
                                       [--baselines popularity,kr20-x,ease]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import resource
import subprocess
import time
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmarks.machine import folder_name
from truerank.core.plugin import split_specs
from truerank.core.split import Split
from truerank.data.catalogue import load
from truerank.metrics.registry import make_metrics, values
from truerank.models.registry import MODELS
from truerank.ranking.exact import exact_ranks
from truerank.split.base import SPLITS

METRICS = "ndcg@10,recall@10,recall@19,recall@30,recall@356"
BASELINES = "popularity,kr20-x,ease"
DEFAULT = "bias-only,mf,neumf,multi-vae"
#: Li et al. (2020), Table 3, ml-1m: hit ratios at ranks 19 and 356 (Bound) and 30 (Beta@0.5)
PRINTED = {
    "neumf": {"recall@19": 0.150, "recall@30": 0.205, "recall@356": 0.726},
    "multi-vae": {"recall@19": 0.160, "recall@30": 0.216, "recall@356": 0.729},
    "ease": {"recall@19": 0.173, "recall@30": 0.232, "recall@356": 0.733},
}


def split_of(name: str) -> Split:
    """Return the data set and its usual split; without times a random event of each user is the test."""
    if name == "ml-1m":
        return SPLITS.make("column(name=ncf_split)").split(load(name, keep=["ncf_split"]))
    data = load(name)
    return SPLITS.make("leave-one-out" if data.time is None else "leave-last-out").split(data)


def measure(spec: str, split: Split, device: str | None) -> dict[str, Any]:
    """Fit one model and return its figures; processor seconds count all threads."""
    model: Any = MODELS.make(spec)
    if device is not None and hasattr(model, "device"):
        model = replace(model, device=device)
    wall, processor = time.perf_counter(), time.process_time()
    scorer = model.fit(split.train, seed=0)
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    ranking = time.perf_counter()
    ranks = exact_ranks(scorer, split)
    ranking = time.perf_counter() - ranking
    metrics = make_metrics(METRICS)
    means = values(metrics, ranks).mean(axis=0)
    return {
        "model": str(model),
        "asked": spec,
        "metrics": {str(metric): float(mean) for metric, mean in zip(metrics, means, strict=True)},
        "fit_s": wall,
        "fit_processor_s": processor,
        "rank_s": ranking,
        "printed": PRINTED.get(model.key) if split.train.name == "ml-1m" else None,
        "device": device or "auto",
        "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "machine": machine() | {"gpu": gpu(model)},
    }


def gpu(model: Any) -> str | None:
    """Return the name of the GPU that the model was trained on, if it was."""
    if getattr(model, "device", "cpu") == "cpu":
        return None
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else None


def machine() -> dict[str, Any]:
    """Return what the figures depend on."""
    model = platform.processor() or platform.machine()
    if Path("/proc/cpuinfo").exists():
        found = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
        model = found.group(1) if found else model
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    versions = {}
    for name in ("truerank", "numpy", "numba", "torch"):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "none"
    return {
        "cpu": model,
        "threads": os.environ.get("OMP_NUM_THREADS", "all"),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "load": os.getloadavg() if hasattr(os, "getloadavg") else None,
        "python": platform.python_version(),
        "commit": commit.stdout.strip(),
        "versions": versions,
    }


def main() -> None:
    """Fit, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", default="ml-1m")
    parser.add_argument("--models", default=DEFAULT)
    parser.add_argument("--baselines", default=BASELINES, help="fitted before the models; may be empty")
    parser.add_argument("--device", choices=("cpu", "cuda"))
    asked = parser.parse_args()
    split = split_of(asked.data)
    split.train.by_user()
    print(
        f"{asked.data}: {split.train.n_users} users, {split.train.n_items} items, {len(split.train)} events"
    )
    names = [str(metric) for metric in make_metrics(METRICS)]
    print(f"{'model':14} " + " ".join(f"{name:>10}" for name in names) + "    fit s  processor s   rank s")
    rows = []
    for spec in split_specs(",".join(filter(None, (asked.baselines, asked.models)))):
        row = measure(spec, split, asked.device)
        rows.append(row)
        figures = " ".join(f"{row['metrics'][name]:10.4f}" for name in names)
        print(
            f"{spec:14} {figures} {row['fit_s']:8.1f} {row['fit_processor_s']:12.1f} {row['rank_s']:8.2f}",
            flush=True,
        )
        if row["printed"]:
            printed = " ".join(f"{row['printed'].get(name, ''):>10}" for name in names)
            print(f"{'  Li et al.':14} {printed}")
    floor = next((row["fit_s"] for row in rows if row["asked"] == "ease"), None)
    if floor is not None:
        ratios = ", ".join(f"{row['asked']} {row['fit_s'] / floor:.1f}" for row in rows)
        print(f"fit, times that of ease: {ratios}")
    slug = folder_name()
    path = Path(__file__).parent / "results" / slug / f"neural_models_{asked.data}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    before = json.loads(path.read_text())["rows"] if path.exists() else []
    measured = {row["asked"] for row in rows}
    result = {
        "benchmark": "neural_models",
        "data": asked.data,
        "rows": [row for row in before if row["asked"] not in measured] + rows,
    }
    path.write_text(json.dumps(result, indent=2) + "\n")
    print(f"written: {path.relative_to(Path(__file__).parents[1])}")


if __name__ == "__main__":
    main()
