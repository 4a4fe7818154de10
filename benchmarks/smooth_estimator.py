"""How far estimators are from the truth at small cut-offs, on exact ranks of real models.

Exact ranks are computed once; sampled ranks are drawn from them by their law, so that a hundred repeats cost
no scores. The error is that of Li et al. (2023): the mean over K = 1..50 of |estimate - truth| / truth,
averaged over repeats. Each row compares `smooth` with `mle(iterations=100)` on one data set, model and
metric; a row is won when the mean error is smaller, and its margin is given in standard errors of the paired
difference. Fits are timed on the way.

    python -m benchmarks.smooth_estimator [--data ml-1m,pinterest-20] [--models ease,...]
        [--sizes 100,500] [--seen keep,remove] [--repeats 100] [--ranks FOLDER] [--resume]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import cpu_name, folder_name
from truerank.core.errors import DataWarning
from truerank.core.plugin import split_specs
from truerank.core.ranks import Ranks
from truerank.core.split import Split
from truerank.data.catalogue import load
from truerank.estimation.distribution.base import MixtureEstimator, plug_in
from truerank.estimation.registry import ESTIMATORS
from truerank.estimation.tally import tally
from truerank.metrics.registry import make_metrics, values
from truerank.models.registry import MODELS
from truerank.ranking.exact import exact_ranks
from truerank.ranking.simulate import simulate_sample
from truerank.split.base import make_split

SPLITS = {"ml-1m": ("ncf_split", "column(name=ncf_split)")}
DATA_RUN = "ml-1m,citeulike-a,lastfm-hetrec,pinterest-20"
MODELS_RUN = "popularity,item-knn,ease,ials(factors=16),ials(factors=64)"
ESTIMATORS_RUN = "mle(iterations=100),smooth"
FAMILIES = ("recall", "ndcg", "ap")
METRICS = make_metrics(",".join(f"{family}@{cutoff}" for family in FAMILIES for cutoff in range(1, 51)))


def split_of(name: str) -> Split:
    """Return a data set with the split of NCF, or with one random item of each user left out."""
    column, rule = SPLITS.get(name, ("", "leave-one-out"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # part of pinterest-20 will do
        return make_split(load(name, keep=[column] if column else []), rule)


class RankStore:
    """Exact ranks, one target per user, kept in a folder if one is given."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._split: tuple[str, Split] | None = None
        self._scorer: tuple[tuple[str, str], Any] | None = None

    def of(self, data: str, model: str, seen: Any) -> Ranks:
        """Return the ranks of a model on a data set."""
        path = self.folder / f"{data}__{model}__{seen}.npz" if self.folder else None
        if path is not None and path.exists():
            with np.load(path) as kept:
                return Ranks.single(kept["n_above"], n_pool=kept["n_pool"], n_tied=kept["n_tied"])
        if self._split is None or self._split[0] != data:
            self._split = (data, split_of(data))
        if self._scorer is None or self._scorer[0] != (data, model):
            self._scorer = ((data, model), MODELS.make(model).fit(self._split[1].train))
        ranks = exact_ranks(self._scorer[1], self._split[1], seen=seen)
        assert (ranks.n_relevant == 1).all()
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            np.savez_compressed(path, n_above=ranks.n_above, n_pool=ranks.n_pool, n_tied=ranks.n_tied)
        return ranks


def measure(ranks: Ranks, n: int, specs: list[str], repeats: int, replacement: bool) -> dict[str, Any]:
    """Return, per estimator, the errors of each repeat and family in percent, and seconds per fit."""
    truth = values(METRICS, ranks).mean(axis=0)
    runs = [
        tally(simulate_sample(ranks, n - 1, replacement=replacement, repeat=repeat))
        for repeat in range(repeats)
    ]
    found: dict[str, Any] = {}
    for spec in specs:
        estimator = ESTIMATORS.make(spec)
        assert isinstance(estimator, MixtureEstimator), spec
        start = time.perf_counter()
        likelihood, fit = estimator.fit_tallies(runs)
        seconds = time.perf_counter() - start
        estimates = plug_in(likelihood, fit.masses, runs, METRICS)
        error = np.where(truth > 0, np.abs(estimates - truth) / np.where(truth > 0, truth, 1), 0)
        found[spec] = {
            "errors": 100 * error.reshape(repeats, len(FAMILIES), 50).mean(axis=2),
            "seconds_per_run": seconds / repeats,
            "diagnostics": {
                key: float(np.median([one[key] for one in fit.diagnostics])) for key in fit.diagnostics[0]
            },
        }
    return found


def rows_of(found: dict[str, Any], where: dict[str, Any]) -> list[dict[str, Any]]:
    """Return one row per family: mean errors, and the margin of the second estimator over the first."""
    first, second = list(found)[:2]
    rows = []
    for column, family in enumerate(FAMILIES):
        gap = found[first]["errors"][:, column] - found[second]["errors"][:, column]
        spread = gap.std(ddof=1) / np.sqrt(len(gap)) if len(gap) > 1 else float("nan")
        rows.append(
            where
            | {
                "metric": family,
                "errors": {spec: float(one["errors"][:, column].mean()) for spec, one in found.items()},
                "deviations": {spec: float(one["errors"][:, column].std()) for spec, one in found.items()},
                "margin": float(gap.mean() / spread) if spread > 0 else float("nan"),
            }
        )
    return rows


def print_rows(rows: list[dict[str, Any]], found: dict[str, Any]) -> None:
    """Print the rows of one data set, model, protocol and size."""
    for row in rows:
        errors = " ".join(f"{value:9.2f}" for value in row["errors"].values())
        print(
            f"{row['data']:13} {row['model']:18} {row['seen']:7} {row['n']:4} {row['metric']:7} {errors} "
            f"{row['margin']:8.1f}"
        )
    each = ", ".join(f"{spec} {1e3 * one['seconds_per_run']:.1f} ms" for spec, one in found.items())
    print(f"    per fit: {each}", file=sys.stderr)


def print_summary(rows: list[dict[str, Any]], specs: list[str]) -> list[dict[str, Any]]:
    """Print how many rows the second estimator wins, by size, protocol and metric, and mean errors."""
    summary = []
    print(f"\nrows where {specs[1]} has the smaller error than {specs[0]}; mean over rows of the errors in %")
    for n in sorted({row["n"] for row in rows}):
        for seen in sorted({row["seen"] for row in rows}):
            for family in (*FAMILIES, "all"):
                some = [
                    row
                    for row in rows
                    if row["n"] == n and row["seen"] == seen and family in (row["metric"], "all")
                ]
                if not some:
                    continue
                won = sum(row["errors"][specs[1]] < row["errors"][specs[0]] for row in some)
                lost = sum(row["margin"] < -3 for row in some)
                means = {spec: float(np.mean([row["errors"][spec] for row in some])) for spec in specs}
                medians = {spec: float(np.median([row["errors"][spec] for row in some])) for spec in specs}
                summary.append(
                    {"n": n, "seen": seen, "metric": family, "rows": len(some), "won": won}
                    | {"clearly_lost": lost, "means": means, "medians": medians}
                )
                text = ", ".join(f"{spec} {means[spec]:.2f} (median {medians[spec]:.2f})" for spec in specs)
                print(f"n = {n}, {seen}, {family}: won {won} of {len(some)}, lost by 3 s.e. {lost}; {text}")
    return summary


def main() -> None:
    """Measure, print and write the figures."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    options.add_argument("--data", default=DATA_RUN)
    options.add_argument("--models", default=MODELS_RUN)
    options.add_argument("--estimators", default=ESTIMATORS_RUN, help="the first two are compared")
    options.add_argument("--sizes", default="100,500", help="n = negatives + 1")
    options.add_argument("--seen", default="keep,remove")
    options.add_argument("--repeats", type=int, default=100)
    options.add_argument("--ranks", type=Path, help="folder where exact ranks are kept between calls")
    options.add_argument("--without-replacement", action="store_true")
    options.add_argument("--resume", action="store_true", help="keep rows of an earlier call like this one")
    options.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    given = options.parse_args()
    specs, models = split_specs(given.estimators), split_specs(given.models)
    target = given.out / folder_name() / "smooth_estimator.json"
    settings = {
        "estimators": specs,
        "repeats": given.repeats,
        "replacement": not given.without_replacement,
        "versions": {name: version(name) for name in ("truerank", "numpy", "scipy", "numba")},
    }
    record = start_record(target, settings, given.resume)
    store = RankStore(given.ranks)
    print(f"{'data':13} {'model':18} {'seen':7} {'n':>4} {'metric':7} {' '.join(specs)} margin")
    for data in given.data.split(","):
        for model in models:
            for seen in given.seen.split(","):
                for n in map(int, given.sizes.split(",")):
                    where = {"data": data, "model": model, "seen": seen, "n": n}
                    if any(where.items() <= row.items() for row in record["rows"]):
                        continue
                    ranks = store.of(data, model, seen)
                    found = measure(ranks, n, specs, given.repeats, not given.without_replacement)
                    rows = rows_of(found, where)
                    print_rows(rows, found)
                    sys.stdout.flush()
                    record["rows"] += rows
                    figures = {
                        spec: {key: value for key, value in one.items() if key != "errors"}
                        for spec, one in found.items()
                    }
                    record["fits"].append(where | {"fits": figures})
                    write_record(target, record)
    record["summary"] = print_summary(record["rows"], specs)
    write_record(target, record)
    print(f"written to {target}", file=sys.stderr)


def start_record(target: Path, settings: dict[str, Any], resume: bool) -> dict[str, Any]:
    """Return the record of an earlier call with the same settings, or an empty one."""
    if resume and target.exists():
        held: dict[str, Any] = json.loads(target.read_text())
        if all(held[key] == value for key, value in settings.items()):
            return held
    machine = {"cpu": cpu_name(), "cores": os.cpu_count(), "system": platform.system()}
    return {
        "benchmark": "smooth_estimator",
        "machine": machine,
        **settings,
        "summary": [],
        "rows": [],
        "fits": [],
    }


def write_record(target: Path, record: dict[str, Any]) -> None:
    """Write what has been measured so far."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
