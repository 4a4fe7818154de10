"""How many scores it takes to decide which of two slow models is better, and how often that is wrong.

Ten pairs of models as scorers that must be asked for each score, NDCG@10, level 0.95. The rival evaluates
both models to a precision of half their true difference, which nobody knows beforehand, so that the two
intervals just exclude each other. Scores are in percent of exact evaluation of both models. Five pairs were
looked at while the constants of ``truerank.workflows.precision.decision`` were chosen; the other five were
run once, afterwards. Both ways ask items in the order of the same proxies, fitted once per data set. A
decision is wrong if it names the worse model; coverage counts intervals that hold the true difference.

With ``--keep`` every run is kept in a folder, so that another start goes on; ``--minutes`` ends it early, and
the file then holds the seeds so far.

    python -m benchmarks.slow_decisions [--quick] [--seeds 20] [--only ml-1m] [--keep FOLDER] [--minutes 9]
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import folder_name, machine
from benchmarks.precision import tabled
from truerank.core.checkpoint import replace_text
from truerank.core.scorer import CallableScores, Scorer
from truerank.core.split import Split
from truerank.core.types import FloatArray
from truerank.data.catalogue import find_local, load
from truerank.metrics.registry import make_metrics, values
from truerank.models.registry import MODELS
from truerank.ranking.exact import exact_ranks
from truerank.split.base import make_split
from truerank.workflows.compare.compare import compare
from truerank.workflows.precision.goal import DEFAULT_PROXY
from truerank.workflows.precision.precision import evaluate_to_precision

METRIC = "ndcg@10"
#: Data set, both models, and whether the pair was looked at while constants were chosen.
PAIRS = (
    ("ml-100k", "ease", "ials(factors=64)", True),
    ("ml-100k", "ease", "item-knn", True),
    ("ml-100k", "ease", "popularity", True),
    ("ml-1m", "ease", "item-knn", True),
    ("ml-1m", "ease", "popularity", True),
    ("ml-1m", "ease", "ials(factors=64)", False),
    ("ml-1m", "ials(factors=64)", "item-knn", False),
    ("citeulike-a", "ials(factors=64)", "ials(factors=8)", False),
    ("citeulike-a", "ials(factors=64)", "item-knn", False),
    ("citeulike-a", "item-knn", "popularity", False),
)
RIVAL_SEEDS = 2


class World:
    """One data set, with models that are fitted when they are first needed, and the proxies."""

    def __init__(self, data: str) -> None:
        events = load(data)
        self.split: Split = make_split(events, "leave-one-out" if events.time is None else "leave-last-out")
        self.proxies = [model.fit(self.split.train) for model in MODELS.make_all(DEFAULT_PROXY)]
        self.models: dict[str, tuple[Scorer, FloatArray]] = {}

    def model(self, name: str) -> tuple[Scorer, FloatArray]:
        """Return a scorer that must be asked, and its values per user."""
        if name not in self.models:
            fitted = tabled(MODELS.make(name).fit(self.split.train), self.split)
            per_user = values(make_metrics(METRIC), exact_ranks(fitted, self.split))[:, 0]
            self.models[name] = CallableScores(fitted.score, self.split.train.n_items), per_user
        return self.models[name]


def decide_once(world: World, first: str, second: str, seed: int) -> dict[str, Any]:
    """Return scores and limits of one decision."""
    named = {name: world.model(name)[0] for name in (first, second)}
    found = compare(named, world.split, METRIC, decide=True, proxy=world.proxies, seed=seed)
    (one,) = found.differences
    return {
        "n_scores": sum(found.provenance["scores_computed"].values()),
        "low": one.low,
        "high": one.high,
        "verdict": one.verdict.value,
        "screened": found.provenance["ways"][first]["screened"],
    }


def evaluate_both(world: World, first: str, second: str, precision: float, seed: int) -> dict[str, Any]:
    """Return the scores of evaluating both models to a precision."""
    named = {name: world.model(name)[0] for name in (first, second)}
    found = evaluate_to_precision(
        named, world.split, METRIC, precision=precision, proxy=world.proxies, seed=seed
    )
    return {"n_scores": sum(found.provenance["scores_computed"].values())}


def measure(
    world: World,
    pair: tuple[str, str, str, bool],
    n_seeds: int,
    kept: Callable[[str, Callable[[], dict[str, Any]]], dict[str, Any] | None],
) -> dict[str, Any] | None:
    """Count the scores of both ways, and wrong decisions."""
    data, first, second, is_seen = pair
    values_of = [world.model(name)[1] for name in (first, second)]
    truth = float((values_of[0] - values_of[1]).mean())
    n_exact = 2 * len(values_of[0]) * world.split.train.n_items
    precision = abs(truth) / 2
    label = f"{data}.{first}.{second}"
    runs = [kept(f"{label}.{s}", partial(decide_once, world, first, second, s)) for s in range(n_seeds)]
    done = [run for run in runs if run is not None]
    rivals = [
        kept(f"{label}.both.{s}", partial(evaluate_both, world, first, second, precision, s))
        for s in range(RIVAL_SEEDS)
    ]
    known = [run["n_scores"] / n_exact for run in rivals if run is not None]
    if not done:
        return None
    right = "A beats B" if truth > 0 else "B beats A"
    shares = np.array([run["n_scores"] for run in done]) / n_exact
    return {
        "data": data,
        "first": first,
        "second": second,
        "looked_at_before": is_seen,
        "values": [float(one.mean()) for one in values_of],
        "difference": truth,
        "share_of_exact": {
            "mean": float(shares.mean()),
            "least": float(shares.min()),
            "most": float(shares.max()),
        },
        "both_to_half_the_difference": float(np.mean(known)) if known else None,
        "wrong": sum(run["verdict"] != right for run in done),
        "coverage": float(np.mean([run["low"] - 1e-9 <= truth <= run["high"] + 1e-9 for run in done])),
        "screened_all_users": float(np.mean([run["screened"] > 0 for run in done])),
        "seeds": len(done),
    }


def show(row: dict[str, Any]) -> None:
    """Print one pair."""
    share, rival = row["share_of_exact"], row["both_to_half_the_difference"]
    print(
        f"{row['data']:>12} {row['first']:>16} {row['second']:>16} {row['difference']:>+8.4f} "
        f"{share['mean']:>7.2%} [{share['least']:.2%}, {share['most']:.2%}] "
        f"{'-' if rival is None else f'{rival:.2%}':>7} {row['wrong']:>3} {row['coverage']:.2f} "
        f"{row['seeds']}",
        flush=True,
    )


def main() -> None:
    """Measure, print and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two seeds of ml-100k, nothing is written")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--only", choices=sorted({pair[0] for pair in PAIRS}), help="one data set")
    parser.add_argument("--keep", type=Path, help="folder where finished runs are kept")
    parser.add_argument("--minutes", type=float, default=np.inf, help="begin no further run after this time")
    options = parser.parse_args()
    deadline = time.perf_counter() + 60 * options.minutes
    if options.keep is not None:
        options.keep.mkdir(parents=True, exist_ok=True)

    def kept(name: str, run: Callable[[], dict[str, Any]]) -> dict[str, Any] | None:
        path = None if options.keep is None else options.keep / f"{name}.json"
        if path is not None and path.exists():
            found: dict[str, Any] = json.loads(path.read_text())
            return found
        if time.perf_counter() > deadline:
            return None
        found = run()
        if path is not None:
            replace_text(path, json.dumps(found), "--keep")
        return found

    print(f"scores in percent of exact evaluation of both models; {METRIC}; level 0.95")
    print(
        f"{'data':>12} {'A':>16} {'B':>16} {'A - B':>8} decided [least, most] to half  wrong, coverage, seeds"
    )
    cases: list[dict[str, Any]] = []
    chosen = "ml-100k" if options.quick else options.only
    for data in dict.fromkeys(pair[0] for pair in PAIRS):
        if chosen not in (None, data):
            continue
        if find_local(data) is None:
            print(f"{data} is not in the data folder")
            continue
        world = World(data)
        for pair in PAIRS:
            if pair[0] == data:
                row = measure(world, pair, 2 if options.quick else options.seeds, kept)
                if row is not None:
                    cases.append(row)
                    show(row)
    if options.quick:
        return
    path = Path(__file__).parent / "results" / folder_name() / "slow_decisions.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    measured = {case["data"] for case in cases}
    before = json.loads(path.read_text())["cases"] if path.exists() else []
    others = [case for case in before if case["data"] not in measured]
    found = {"benchmark": "slow_decisions", "machine": machine(), "cases": others + cases}
    path.write_text(json.dumps(found, indent=2) + "\n")
    print(f"written to benchmarks/results/{folder_name()}/slow_decisions.json")


if __name__ == "__main__":
    main()
