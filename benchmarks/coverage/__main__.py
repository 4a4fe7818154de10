"""How often intervals of estimates hold the exact value, and how wide they are.

The exact ranks of four models on MovieLens-1M, citeulike-a and part of Pinterest are taken as the truth. From
them samples are drawn again and again (500 times; the costliest kind of interval 60 times); each gives
estimates with 95 % intervals for the value that exact evaluation of these users prints. Counted is how often
that value lies inside, per estimator and kind of interval, for Recall, NDCG and AP at 1, 10 and 50. Pieces
(data set, model, design, case, some repetitions) that are finished are kept in a folder, so the run can be
interrupted, and run on all processors. The first repetitions of all come first: ``--finished`` writes what
there is, with the number of repetitions beside each row.

    python -m benchmarks.coverage --keep FOLDER [--repeats 500] [--data ml-1m] [--finished] [--quick]
"""

from __future__ import annotations

import argparse
import json
import os
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.coverage.case import CASES, Case
from benchmarks.coverage.count import Count
from benchmarks.coverage.design import DESIGNS
from benchmarks.coverage.measure import LEVEL, METRICS, exact_values, measure
from benchmarks.coverage.population import DATA, FITTED, population
from benchmarks.coverage.result import packed
from benchmarks.machine import folder_name, machine
from truerank.core.checkpoint import Store


@dataclass(frozen=True)
class Piece:
    """Some repetitions of one case of one model.

    Parameters
    ----------
    data, model, design : what is sampled
    case : what is counted
    repeats : which repetitions
    """

    data: str
    model: str
    design: str
    case: Case
    repeats: range

    @property
    def key(self) -> str:
        """Everything that its counts depend on."""
        case = f"{self.case.estimator} {self.case.uncertainty}"
        return f"cover {self.data} {self.model} {self.design} {case} {self.repeats.start}-{self.repeats.stop}"

    def count(self, keep: Path | None) -> Count:
        """Return what was counted, from the folder when it was before; one thread."""
        with threadpool_limits(1):
            found = Store(keep).value(self.key, lambda: self._measured(keep).as_json())
        return Count.from_json(found)

    def is_finished(self, keep: Path | None) -> bool:
        """Whether the folder has its counts."""
        path = Store(keep).path_of(self.key, ".json")
        return path is not None and path.is_file()

    def _measured(self, keep: Path | None) -> Count:
        return measure(population(self.data, self.model, keep), self.design, self.case, self.repeats)


def pieces(names: list[str], models: tuple[str, ...], most: int) -> list[Piece]:
    """Return the work, the first repetitions of everything before the others."""
    found = [
        Piece(name, model, design, case, repeats)
        for name in names
        for design in DESIGNS
        for model in models
        for case in CASES
        for repeats in case.blocks(most)
    ]
    return sorted(found, key=lambda piece: piece.repeats.start > 0)


def rows_of(counts: dict[Piece, Count], keep: Path | None) -> list[dict[str, Any]]:
    """Return coverage, mean width and bias per data set, model, design, case and metric."""
    groups: dict[tuple[str, str, str, Case], list[Count]] = {}
    for piece, count in counts.items():
        groups.setdefault((piece.data, piece.model, piece.design, piece.case), []).append(count)
    rows = []
    for (name, model, design, case), own in groups.items():
        exact = exact_values(population(name, model, keep), design)
        total = reduce(Count.plus, own)
        for column, metric in enumerate(METRICS):
            row: dict[str, Any] = {
                "data": name,
                "model": model,
                "design": design,
                "estimator": case.estimator,
                "uncertainty": case.uncertainty,
                "metric": metric,
                "exact": float(exact[column]),
                "repeats": total.repeats,
                "method": total.method[column],
            }
            if total.repeats:
                row["coverage"] = float(total.held[column] / total.repeats)
                row["width"] = float(total.width[column] / total.computed)
            if total.repeats and case.uncertainty == "delta":
                row["bias"] = float(total.error[column] / total.repeats)
            rows.append(row)
    cases = [(case.estimator, case.uncertainty) for case in CASES]
    rows.sort(
        key=lambda row: (
            list(DESIGNS).index(row["design"]),
            row["data"],
            row["model"],
            cases.index((row["estimator"], row["uncertainty"])),
        )
    )
    return rows


def show(rows: list[dict[str, Any]]) -> None:
    """Print, per design and case, the coverage over data sets, models and metrics."""
    print(
        f"{'design':30} {'estimator':14} {'interval':11} {'repeats':>9} {'coverage: mean':>14} {'least':>6} "
        f"{'K=1':>5} {'10':>5} {'50':>5} {'width':>7} {'bias':>6}"
    )
    for design in DESIGNS:
        for case in CASES:
            asked = (design, case.estimator, case.uncertainty)
            own = [
                row
                for row in rows
                if (row["design"], row["estimator"], row["uncertainty"]) == asked and "coverage" in row
            ]
            if own:
                print(f"{design:30} {case.estimator:14} {case.uncertainty:11} {_summary(own)}", flush=True)


def _summary(rows: list[dict[str, Any]]) -> str:
    repeats, shares = {row["repeats"] for row in rows}, [row["coverage"] for row in rows]
    at = [[row["coverage"] for row in rows if row["metric"].endswith(f"@{k}")] for k in (1, 10, 50)]
    biases = [abs(row["bias"]) / row["exact"] for row in rows if "bias" in row and row["exact"] > 0]
    return (
        f"{'-'.join(str(n) for n in sorted({min(repeats), max(repeats)})):>9} "
        f"{np.mean(shares):14.3f} {min(shares):6.3f} {' '.join(f'{np.mean(one):5.2f}' for one in at)} "
        f"{np.mean([row['width'] for row in rows]):7.4f} {f'{np.median(biases):6.0%}' if biases else ''}"
    )


def main() -> None:
    """Measure, print and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--keep", type=Path, help="folder for finished pieces")
    parser.add_argument("--repeats", type=int, default=500, help="at most")
    parser.add_argument("--data", choices=list(DATA), action="append", help="all unless said otherwise")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--finished", action="store_true", help="only look at what the folder has")
    parser.add_argument("--quick", action="store_true", help="3 repeats of one model, nothing is written")
    options = parser.parse_args()
    names, models = options.data or list(DATA), FITTED[:1] if options.quick else FITTED
    asked = pieces(names, models, 3 if options.quick else options.repeats)
    if options.finished:
        asked = [piece for piece in asked if piece.is_finished(options.keep)]
    for name, model in sorted({(piece.data, piece.model) for piece in asked}):
        population(name, model, options.keep)  # first, so that no two processes fit the same model
    counts: dict[Piece, Count] = {}
    start = time.perf_counter()
    with ProcessPoolExecutor(options.processes) as pool:
        jobs = {pool.submit(piece.count, options.keep): piece for piece in asked}
        for number, job in enumerate(as_completed(jobs), 1):
            if job.exception() is not None:
                pool.shutdown(wait=False, cancel_futures=True)  # say it now, not after the others
            counts[jobs[job]] = job.result()
            print(f"{number}/{len(asked)} {jobs[job].key} {time.perf_counter() - start:.0f} s", flush=True)
    rows = rows_of(counts, options.keep)
    show(rows)
    if options.quick or names != list(DATA):
        return
    host = machine()
    result = {"benchmark": "coverage", "machine": host, "level": LEVEL}
    lines = ",\n".join(json.dumps(row) for row in packed(rows))
    slug = folder_name()
    path = Path(__file__).parent.parent / "results" / slug / "coverage.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'{json.dumps(result)[:-1]}, "rows": [\n{lines}\n]}}\n')
    print(f"written to benchmarks/results/{slug}/coverage.json")


if __name__ == "__main__":
    main()
