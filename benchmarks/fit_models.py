"""How long the models take to fit, and a sweep of ials against implicit's alternating least squares.

Correctness is asserted before anything is timed: item-knn, ease and ials against NumPy from the definition
on a small part of the data. implicit runs with BLAS on one thread, as it asks for, on all processors, with
its default conjugate gradient steps (approximate) and with exact Cholesky solutions like those of ials.

    python benchmarks/fit_models.py [--repeats 5]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import resource
import statistics
import subprocess
import time
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from implicit.cpu.als import AlternatingLeastSquares
from scipy.sparse import csr_matrix
from threadpoolctl import threadpool_limits

from benchmarks.machine import folder_name
from truerank.core.interactions import Interactions
from truerank.data.demo import demo
from truerank.models.ease import Ease
from truerank.models.ials import IALS
from truerank.models.item_knn import ItemKNN
from truerank.models.registry import MODELS

FOLDER = Path(os.environ.get("TRUERANK_DATA", Path(__file__).parents[2] / "shared" / "data"))
SPECS = ["popularity", "item-knn", "kr20-y", "kr20-z", "ease", "kr20-x"]
SWEEPS = 5


def ml_1m() -> Interactions:
    """Return the train part of MovieLens-1M with the split of He et al. (2017)."""
    frame = pl.read_parquet(FOLDER / "ml-1m.parquet", columns=["ncf_user", "ncf_item", "ncf_split"])
    frame = frame.filter(pl.col("ncf_split").cast(pl.String) == "train").cast(
        {"ncf_user": pl.Int64, "ncf_item": pl.Int64}
    )
    return Interactions.from_codes(
        frame["ncf_user"].to_numpy(), frame["ncf_item"].to_numpy(), n_users=6040, n_items=3706, name="ml-1m"
    )


def check(train: Interactions) -> None:
    """Assert that the models equal their definitions on the first 200 items."""
    part = train.where(train.item < 200)
    part = Interactions.from_codes(part.user, part.item, n_users=train.n_users, n_items=200)
    X = part.matrix().toarray().astype(np.float64)
    users, items = np.arange(50), np.arange(200)
    gram = X.T @ X
    inverse = np.linalg.inv(gram + 500 * np.eye(200))
    B = -inverse / np.diag(inverse)
    np.fill_diagonal(B, 0)
    np.testing.assert_allclose(Ease().fit(part).score(users, items), X[:50] @ B, rtol=1e-8, atol=1e-10)
    size = np.maximum(np.sqrt(np.diag(gram)), 1)
    cosine = gram / size[:, None] / size
    np.fill_diagonal(cosine, 0)
    np.testing.assert_allclose(
        ItemKNN(neighbours=None).fit(part).score(users, items), X[:50] @ cosine, rtol=1e-10, atol=1e-10
    )
    fitted = IALS(factors=8, reg=1.0, sweeps=40).fit(part)
    user, item = fitted.user.astype(np.float64), fitted.item.astype(np.float64)
    for row in range(200):  # a fixed point: the items solve their normal equations for these users
        mine = user[X[:, row] > 0]
        system = mine.T @ mine + 0.2 * user.T @ user + np.eye(8)
        np.testing.assert_allclose(item[row], np.linalg.solve(system, mine.sum(0)), rtol=1e-3, atol=1e-4)


def timed(function: Callable[[], object], repeats: int) -> dict[str, float]:
    """Return median, least and largest seconds; one call before warms caches and compiles."""
    function()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - start)
    return {"median_s": statistics.median(seconds), "min_s": min(seconds), "max_s": max(seconds)}


def implicit_sweeps(train: Interactions, d: int, *, use_cg: bool) -> Callable[[], object]:
    """Return a call that runs implicit's ALS for ``SWEEPS`` iterations."""
    matrix = csr_matrix(train.matrix())

    def fit() -> object:
        with threadpool_limits(limits=1, user_api="blas"):
            model = AlternatingLeastSquares(
                factors=d, regularization=10.0, alpha=5.0, iterations=SWEEPS, use_cg=use_cg, random_state=0
            )
            model.fit(matrix, show_progress=False)
        return model

    return fit


def machine() -> dict[str, Any]:
    """Return what the figures depend on."""
    model = platform.processor() or platform.machine()
    if Path("/proc/cpuinfo").exists():
        found = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
        model = found.group(1) if found else model
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return {
        "cpu": model,
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "python": platform.python_version(),
        "commit": commit.stdout.strip(),
        "versions": {
            name: version(name)
            for name in ("truerank", "numpy", "scipy", "numba", "implicit", "threadpoolctl")
        },
    }


def main() -> None:
    """Time, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    sets = [demo()]
    if (FOLDER / "ml-1m.parquet").exists():
        sets.append(ml_1m())
    check(sets[-1])
    rows: list[dict[str, Any]] = []

    def record(train: Interactions, what: str, seconds: dict[str, float], sweeps: int = 1) -> None:
        each = {key: value / sweeps for key, value in seconds.items()}
        rows.append({"data": train.name, "what": what, **each})
        print(
            f"{train.name:8} {what:44} {each['median_s']:8.3f} s  ({each['min_s']:.3f}-{each['max_s']:.3f})"
        )

    for train in sets:
        train.by_user()
        print(f"{train.name}: {train.n_users} users, {train.n_items} items, {len(train)} events")
        for spec in SPECS:
            record(train, f"fit {spec}", timed(partial(MODELS.make(spec).fit, train), repeats))
        for d in (16, 64):
            ours = IALS(factors=d, sweeps=SWEEPS)
            record(train, f"sweep ials(factors={d})", timed(partial(ours.fit, train), repeats), SWEEPS)
            for use_cg in (True, False):
                how = "conjugate gradient" if use_cg else "Cholesky"
                rival = timed(implicit_sweeps(train, d, use_cg=use_cg), repeats)
                record(train, f"sweep implicit, d={d}, {how}", rival, SWEEPS)
    host = machine()
    result = {
        "benchmark": "fit_models",
        "machine": host,
        "repeats": repeats,
        "sizes": {s.name: {"users": s.n_users, "items": s.n_items, "events": len(s)} for s in sets},
        "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "rows": rows,
    }
    slug = folder_name()
    path = Path(__file__).parent / "results" / slug / "fit_models.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=2) + "\n")
    print(f"written: {path.relative_to(Path(__file__).parents[1])}")


if __name__ == "__main__":
    main()
