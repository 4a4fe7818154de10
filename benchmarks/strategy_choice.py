"""Whether the best way to sub-sample a data set can be told from its characteristics.

Psi (how well models keep their order on a sub-sample, as in ``truerank agreement``) of cheap strategies is
measured on eight data sets. A small model predicts the Psi of each strategy from characteristics of the data
(density, mean history, skew of items and of histories) and recommends the strategy with the largest one. It
is judged by leaving data sets out: Psi of the recommended strategy on a data set that took no part, beside
that of always sampling at random, of the strategy that is best on average over the other data sets, and of
the best one of that data set itself, chosen on one half of the seeds and measured on the other.

The rule was fixed before any Psi was seen: ridge regression on four standardised characteristics, an
intercept for each strategy, the penalty by leaving out one more of the remaining data sets. The two versions
of one data set are left out together. At most 3,000 users of each are taken. Finished fits are kept in
FOLDER, so the run can be interrupted.

    python -m benchmarks.strategy_choice --keep FOLDER [--workers 1] [--data ml-100k,...]
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import folder_name, machine
from benchmarks.rank_corpus import SOURCES
from benchmarks.rank_prior import FAMILIES
from truerank.core.interactions import Interactions
from truerank.core.random import stream
from truerank.core.types import FloatArray, IntArray
from truerank.data.clean import k_core
from truerank.workflows.agreement.experiment import measure_agreement
from truerank.workflows.agreement.order import kendall, mean_ignoring_nan

STRATEGIES = (
    "random",
    "stratified",
    "random-user",
    "head-user",
    "centrality",
    "random-walk",
    "forest-fire",
    "s21-svp-cf-bias",
    "s21-svp-cf-bias-user",
)
MODELS = (
    "popularity,item-knn,ials(factors=32),ials(factors=8),"
    "s21-bias-only(every=10, patience=2),s21-mf(every=10, patience=2)"
)
FRACTIONS = (0.5, 0.2, 0.1)
SEEDS = 2
MOST_USERS = 3_000
#: of the ridge regression, in units of the number of data sets
PENALTIES = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
CHARACTERISTICS = ("log density", "log mean history", "Gini of items", "Gini of histories")


def some_users(events: Interactions) -> Interactions:
    """Return the events of at most ``MOST_USERS`` users, drawn at random; users keep three events or more."""
    if events.n_users > MOST_USERS:
        is_drawn = np.zeros(events.n_users, bool)
        is_drawn[stream(0, "strategy choice/users").choice(events.n_users, MOST_USERS, replace=False)] = True
        events = events.where(is_drawn[events.user])
    return k_core(events, 3, 1)


def gini(counts: IntArray) -> float:
    """Return the Gini coefficient: 0 where all counts are equal, near 1 where one has nearly all."""
    ordered = np.sort(counts).astype(np.float64)
    n = len(ordered)
    return float((2 * np.arange(1, n + 1) - n - 1) @ ordered / (n * ordered.sum()))


def characteristics(events: Interactions) -> FloatArray:
    """Return what the recommendation may depend on, in the order of ``CHARACTERISTICS``."""
    items, users = events.item_counts(), events.user_counts()
    items, users = items[items > 0], users[users > 0]
    return np.array(
        [np.log(len(events) / (len(items) * len(users))), np.log(users.mean()), gini(items), gini(users)]
    )


def measure_psi(name: str, keep: Path, workers: int) -> tuple[FloatArray, FloatArray]:
    """Return the characteristics of a data set, and Psi of each strategy and seed."""
    events = some_users(SOURCES[name].read())
    agreement = measure_agreement(
        events,
        list(STRATEGIES),
        FRACTIONS,
        models=MODELS,
        seeds=SEEDS,
        resamples=50,
        keep=keep / name,
        workers=workers,
    )
    taus = [
        kendall(np.array(board.full, dtype=np.float64)[None, None], np.array(board.small, dtype=np.float64))
        for board in agreement.boards
    ]
    return characteristics(events), mean_ignoring_nan(np.array(taus), axis=(0, 2))


def predict(known: FloatArray, psi: FloatArray, new: FloatArray, penalty: float) -> FloatArray:
    """Return Psi of each strategy on new data sets, by ridge regression.

    Parameters
    ----------
    known, psi : characteristics and Psi of data sets, one row each
    new : characteristics of the new ones
    penalty : of squared coefficients, in units of the number of data sets
    """
    centre, spread = known.mean(axis=0), known.std(axis=0)
    x, z = (known - centre) / spread, (new - centre) / spread
    matrix = x.T @ x + penalty * len(x) * np.eye(x.shape[1])
    found: FloatArray = psi.mean(axis=0) + z @ np.linalg.solve(matrix, x.T @ (psi - psi.mean(axis=0)))
    return found


def choose_penalty(known: FloatArray, psi: FloatArray, families: Sequence[str]) -> float:
    """Return the penalty whose predictions are nearest to data sets that are left out in turn."""
    errors = []
    for penalty in PENALTIES:
        error = 0.0
        for family in dict.fromkeys(families):
            out = np.array([one == family for one in families])
            error += float(
                np.square(predict(known[~out], psi[~out], known[out], penalty) - psi[out]).mean(axis=1).sum()
            )
        errors.append(error)
    return PENALTIES[int(np.argmin(errors))]


def judge(known: FloatArray, psi: FloatArray, families: Sequence[str]) -> list[dict[str, Any]]:
    """Return, for each data set, what each rule chooses when it is left out, and the Psi of that choice.

    Parameters
    ----------
    known : characteristics, one row for each data set
    psi : (data sets, strategies, seeds)
    families : names; data sets of one family are left out together
    """
    mean, rows = psi.mean(axis=2), []
    for row, family in enumerate(families):
        others = np.array([one != family for one in families])
        penalty = choose_penalty(
            known[others], mean[others], [one for one, is_in in zip(families, others, strict=True) if is_in]
        )
        predicted = predict(known[others], mean[others], known[row : row + 1], penalty)[0]
        recommended, average = int(predicted.argmax()), int(mean[others].mean(axis=0).argmax())
        halves = [int(psi[row, :, seed].argmax()) for seed in range(psi.shape[2])]
        crossed = [psi[row, best, 1 - seed] for seed, best in enumerate(halves)]
        rows.append(
            {
                "recommended": STRATEGIES[recommended],
                "psi": float(mean[row, recommended]),
                "best on average": STRATEGIES[average],
                "psi of best on average": float(mean[row, average]),
                "psi of random": float(mean[row, STRATEGIES.index("random")]),
                "psi of its own best": float(np.mean(crossed)),
                "penalty": penalty,
            }
        )
    return rows


def main() -> None:
    """Measure, judge, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--keep", type=Path, required=True, help="folder of finished fits")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--data", default=",".join(SOURCES), help="data sets, separated by commas")
    options = parser.parse_args()
    names, known, psi = options.data.split(","), [], []
    for name in names:
        found = measure_psi(name, options.keep, options.workers)
        known.append(found[0])
        psi.append(found[1])
        print(f"{name}: Psi of random {found[1][0].mean():.3f}", file=sys.stderr, flush=True)
    families = [FAMILIES.get(name, name) for name in names]
    rows = judge(np.array(known), np.array(psi), families)
    print("| data set | " + " | ".join(STRATEGIES) + " |")
    print("|---" * (1 + len(STRATEGIES)) + "|")
    for name, values in zip(names, psi, strict=True):
        print(f"| {name} | " + " | ".join(f"{value:.2f}" for value in values.mean(axis=1)) + " |")
    print("\n| left out | recommended | Psi | best on average of the others | Psi | random | own best |")
    print("|---|---|---|---|---|---|---|")
    for name, row in zip(names, rows, strict=True):
        print(
            f"| {name} | {row['recommended']} | {row['psi']:.3f} | {row['best on average']} | "
            f"{row['psi of best on average']:.3f} | {row['psi of random']:.3f} | "
            f"{row['psi of its own best']:.3f} |"
        )
    means = {key: float(np.mean([row[key] for row in rows])) for key in rows[0] if key.startswith("psi")}
    print("means:", ", ".join(f"{key} {value:.3f}" for key, value in means.items()))
    path = Path(__file__).parent / "results" / folder_name() / "strategy_choice.json"
    record = {
        "benchmark": "strategy_choice",
        "machine": machine(),
        "strategies": STRATEGIES,
        "characteristics": CHARACTERISTICS,
        "data": [
            {"name": name, "characteristics": a.tolist(), "measured": b.tolist(), **row}
            for name, a, b, row in zip(names, known, psi, rows, strict=True)
        ],
        "means": means,
    }
    path.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
