"""How many scores evaluation up to a precision takes, beside exact evaluation, and how often it is right.

Models of MovieLens 1M as scorers that must be asked for each score. The floor is exact evaluation of all
users. Rivals that are just as honest: exact gains of all users by rows that end early, and whole rows of as
many users as a single look would need if the variance over users were known beforehand (normal law, corrected
for the finite number of users; nobody knows that number, and looking again would cost more). Before anything
is counted, one run with a precision that needs everybody must give the exact values. A seed decides which
users are drawn first; coverage counts intervals that hold the exact value.

    python -m benchmarks.precision [--quick] [--seeds 100]
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtri

from benchmarks.machine import folder_name, machine
from truerank.core.scorer import CallableScores
from truerank.core.split import Split
from truerank.core.types import FloatArray
from truerank.data.catalogue import find_local, load
from truerank.metrics.registry import make_metrics, values
from truerank.models.registry import MODELS
from truerank.ranking.exact import exact_ranks
from truerank.split.base import make_split
from truerank.workflows.precision.partial_rows import PartialRows
from truerank.workflows.precision.precision import evaluate_to_precision

METRICS = "recall@10,ndcg@10"
MODELS_USED = ("popularity", "item-knn", "ease")
PRECISIONS = (0.02, 0.01, 0.005)


def black_box(name: str, split: Split) -> tuple[CallableScores, FloatArray]:
    """Return a model that only answers for pairs, and its exact values per user."""
    fitted = MODELS.make(name).fit(split.train)
    items = np.arange(split.train.n_items)
    starts = range(0, split.train.n_users, 500)
    parts = [np.asarray(fitted.score(np.arange(a, min(a + 500, split.train.n_users)), items)) for a in starts]
    table = np.concatenate(parts).astype(np.float32)
    scorer = CallableScores(
        lambda users, columns: table[np.asarray(users)[:, None], columns], split.train.n_items
    )
    return scorer, values(make_metrics(METRICS), exact_ranks(scorer, split))


def rows_of_all(scorer: CallableScores, split: Split) -> int:
    """Return the scores of exact gains of all users by rows that end early."""
    rows = PartialRows(scorer, split, cutoff=10)
    rows.advance(np.arange(len(rows)))
    return rows.n_scores


def whole_rows(per_user: FloatArray, precision: float, n_items: int) -> float:
    """Return the scores of whole rows of so many users as one look needs."""
    alone = per_user.var(axis=0).max() * (ndtri(0.975) / precision) ** 2
    return float(np.ceil(alone / (1 + alone / len(per_user))) * n_items)


def measure(name: str, split: Split, n_seeds: int) -> list[dict[str, Any]]:
    """Count scores and covered values of one model."""
    scorer, per_user = black_box(name, split)
    exact = per_user.mean(axis=0)
    full = evaluate_to_precision({name: scorer}, split, METRICS, precision=1e-6)
    np.testing.assert_allclose([e.value for e in full.estimates], exact, atol=1e-12)
    n_exact = len(per_user) * split.train.n_items
    all_rows = rows_of_all(scorer, split) / n_exact
    found = []
    for precision in PRECISIONS:
        shares, hits, widths, screened, started = [], [], [], 0, time.perf_counter()
        for seed in range(n_seeds):
            run = evaluate_to_precision({name: scorer}, split, METRICS, precision=precision, seed=seed)
            low = np.array([e.low for e in run.estimates])
            high = np.array([e.high for e in run.estimates])
            assert ((high - low) / 2 <= precision + 1e-12).all()
            hits.append((low - 1e-12 <= exact) & (exact <= high + 1e-12))
            widths.append((high - low) / 2)
            way = run.provenance["ways"][name]
            shares.append(way["n_scores"] / n_exact)
            screened += way["screened"] > 0
        row = {
            "model": name,
            "precision": precision,
            "exact": exact.tolist(),
            "share_of_exact": {
                "mean": float(np.mean(shares)),
                "least": float(np.min(shares)),
                "most": float(np.max(shares)),
            },
            "rows_of_all_users": all_rows,
            "whole_rows_one_look": whole_rows(per_user, precision, split.train.n_items) / n_exact,
            "coverage": np.mean(hits, axis=0).tolist(),
            "mean_half_width": np.mean(widths, axis=0).tolist(),
            "looked_at_all_users_first": screened / n_seeds,
            "seeds": n_seeds,
            "seconds_per_run": (time.perf_counter() - started) / n_seeds,
        }
        found.append(row)
        show(row)
    return found


def show(row: dict[str, Any]) -> None:
    """Print one case."""
    share = row["share_of_exact"]
    covered = " ".join(f"{value:.2f}" for value in row["coverage"])
    print(
        f"{row['model']:>11} {row['precision']:>9} {share['mean']:>8.2%} [{share['least']:.2%}, "
        f"{share['most']:.2%}] {row['rows_of_all_users']:>9.1%} {row['whole_rows_one_look']:>9.1%}   "
        f"{covered} {row['looked_at_all_users_first']:>7.0%} {row['seconds_per_run']:>6.2f}",
        flush=True,
    )


def main() -> None:
    """Measure, print and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few seeds, nothing is written")
    parser.add_argument("--seeds", type=int, default=100)
    options = parser.parse_args()
    if find_local("ml-1m") is None:
        raise SystemExit("ml-1m is not in the data folder")
    split = make_split(load("ml-1m"), "leave-last-out")
    print(f"scores in percent of exact evaluation; {METRICS}; level 0.95")
    print(
        f"{'model':>11} {'precision':>9} {'mean':>8} [least, most] {'all rows':>9} {'one look':>9}   coverage"
    )
    cases = []
    for name in MODELS_USED[:2] if options.quick else MODELS_USED:
        cases += measure(name, split, 5 if options.quick else options.seeds)
    if options.quick:
        return
    host = machine()
    slug = folder_name()
    path = Path(__file__).parent / "results" / slug / "precision.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"benchmark": "precision", "machine": host, "cases": cases}, indent=2) + "\n")
    print(f"written to benchmarks/results/{slug}/precision.json")


if __name__ == "__main__":
    main()
