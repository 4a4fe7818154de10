"""How often intervals of slow models miss where nothing that proxies or scores say is of use.

Made-up worlds against the method. The proxy ranks all items as the slow model does, but for some users whose
target is in truth below further items, at random places of the catalogue: no order finds them but by chance.
Their number is such that the mean falls by a multiple of the width of the interval, 2 h, so that draws that
happen to show nothing end in an interval that does not hold the mean. Level 0.8, so that misses are seen: at
most 20 in 100 may, and a method that asks for no more than it must should come near that.

Beside the misses stands the mean of the capital that bets against the true mean have in the end, or when it
first is large enough to reject that mean. It is 1 for fair bets, whatever the rule to stop, so that a larger
one would tell of an unfair bet before misses do.

Every run has a world of its own. With ``--keep`` every run is kept in a folder, so that another start goes
on; ``--minutes`` ends it early, and the file then holds the runs so far. ``--first`` leaves out seeds that
were looked at before.

    python -m benchmarks.hidden_items [--quick] [--runs 300] [--first 200] [--keep FOLDER] [--minutes 9]
        [--workers 2]
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import folder_name, machine
from benchmarks.precision import in_processes
from truerank.core.checkpoint import replace_text
from truerank.core.interactions import Interactions
from truerank.core.progress import SILENT
from truerank.core.scorer import CallableScores, DenseScores
from truerank.core.split import Split
from truerank.core.types import FloatArray
from truerank.estimation.registry import ESTIMATORS
from truerank.metrics.registry import make_metrics, values
from truerank.ranking.exact import exact_ranks
from truerank.workflows.options import DEFAULT_ESTIMATOR
from truerank.workflows.precision.goal import PrecisionGoal
from truerank.workflows.precision.model_values import AskedModel
from truerank.workflows.precision.part_sample import PartSample
from truerank.workflows.precision.partial_rows import PartialRows
from truerank.workflows.precision.precision_search import PrecisionSearch
from truerank.workflows.precision.proxy_order import make_order

METRICS = ("recall@10", "ndcg@10")
N_USERS, N_ITEMS, N_SEEN = 300, 300, 5
LEVEL, PRECISION = 0.8, 0.05
_TRIALS = range(1_000_000, 1_000_020)  # seeds of the worlds that say how far the mean can fall
LOWEST = 60  # rank of targets that are no hits, at most


@dataclass(frozen=True)
class Case:
    """A law of worlds.

    Parameters
    ----------
    hits : probability that the proxy has a user's target among the first ten
    n_hidden : items above the target of a user who has any that the proxy does not know of
    fall : of the mean by these items, expected, as a multiple of 2 h, for the metric that falls most
    """

    hits: float
    n_hidden: int
    fall: float


CASES = tuple(
    Case(hits, n_hidden, fall)
    for hits, n_hidden in ((0.9, 2), (0.5, 5), (0.9, 5), (0.5, 10))
    for fall in (1.0, 1.3, 2.0)
    if n_hidden > 2 or fall < 2  # two items of everybody do not take that much
)


def make_world(case: Case, share: float, seed: int) -> tuple[Split, FloatArray, FloatArray]:
    """Return a split, the scores of the proxy and those of the slow model.

    Parameters
    ----------
    share : of the users who have hidden items
    """
    rng = np.random.default_rng([case.n_hidden, round(100 * case.hits), round(100 * case.fall), seed])
    users = np.arange(N_USERS)
    shuffled = rng.permuted(np.tile(np.arange(N_ITEMS), (N_USERS, 1)), axis=1)
    seen, target, others = shuffled[:, :N_SEEN], shuffled[:, N_SEEN], shuffled[:, N_SEEN + 1 :]
    proxy = rng.normal(size=(N_USERS, N_ITEMS))
    falling = -np.sort(-np.take_along_axis(proxy, others, axis=1), axis=1)
    is_hit = rng.random(N_USERS) < case.hits
    above = np.where(is_hit, rng.integers(0, 10, N_USERS), rng.integers(10, LOWEST, N_USERS))
    next_above = np.where(above > 0, falling[users, above - 1], falling[:, 0] + 1)
    proxy[users, target] = (next_above + falling[users, above]) / 2
    slow, has_hidden = proxy.copy(), rng.random(N_USERS) < share
    hidden = others[has_hidden, : case.n_hidden]  # in a random order already
    slow[users[has_hidden, None], hidden] = proxy.max() + 1 + rng.random(hidden.shape)
    train = Interactions.from_codes(np.repeat(users, N_SEEN), seen.ravel(), n_users=N_USERS, n_items=N_ITEMS)
    test = Interactions.from_codes(users, target, n_users=N_USERS, n_items=N_ITEMS)
    return Split(train, test, method="hidden items"), proxy, slow


def exact_means(scores: FloatArray, split: Split) -> FloatArray:
    """Return the exact metrics."""
    means: FloatArray = values(make_metrics(METRICS), exact_ranks(DenseScores(scores), split)).mean(axis=0)
    return means


def share_of(case: Case) -> float:
    """Return the share of users with hidden items for which the mean falls by as much as the case says."""
    falls = []
    for seed in _TRIALS:
        split, proxy, slow = make_world(case, 1.0, seed)
        falls.append(exact_means(proxy, split) - exact_means(slow, split))
    most = float(np.mean(falls, axis=0).max())
    share = 2 * PRECISION * case.fall / most
    if share > 1:
        raise ValueError(f"{case}: the mean falls by {most:.3f} at most")
    return share


def run_once(case: Case, share: float, seed: int) -> dict[str, Any]:
    """Return misses, final capitals and scores of one evaluation up to a precision."""
    started = time.perf_counter()
    split, proxy, slow = make_world(case, share, seed)
    exact = exact_means(slow, split)
    goal = PrecisionGoal(
        make_metrics(METRICS),
        PRECISION,
        ESTIMATORS.make(DEFAULT_ESTIMATOR),
        proxy=[DenseScores(proxy)],
        level=LEVEL,
        seed=seed,
    )
    scorer = CallableScores(DenseScores(slow).score, N_ITEMS)
    order, proxies = make_order(goal.proxy, split, seed=seed)
    model = AskedModel(PartialRows(scorer, split, cutoff=goal.cutoff, order=order), goal.metrics, seed=seed)
    sample = PartSample([model], precision=PRECISION, level=goal.row_level, seed=seed)
    n_exact = N_USERS * N_ITEMS
    found = PrecisionSearch(scorer, split, goal, sample, n_exact, proxies, SILENT).run()
    low, high = found.limits.T
    logs = [
        bets.last_log_capital(exact[c], is_lower=True, stop=-np.log(bets.lower_share * (1 - LEVEL)))
        for c, bets in enumerate(sample.sequences())
    ]
    return {
        "missed": ((low > exact + 1e-9) | (high < exact - 1e-9)).tolist(),
        "capital": np.exp(logs).tolist(),
        "share": found.trace.n_scores / n_exact,
        "seconds": time.perf_counter() - started,
    }


def measure(
    case: Case, seeds: Sequence[int], keep: Path | None, deadline: float, workers: int
) -> dict[str, Any]:
    """Return what runs of one case with many seeds give; no run is begun after the deadline."""
    share = share_of(case)

    def run_seed(seed: int) -> dict[str, Any] | None:
        label = f"hidden.{case.hits}.{case.n_hidden}.{case.fall}.{seed}.json"
        kept = None if keep is None else keep / label
        if kept is not None and kept.exists():
            found_before: dict[str, Any] = json.loads(kept.read_text())
            return found_before
        if time.perf_counter() > deadline:
            return None
        run = run_once(case, share, seed)
        if kept is not None:
            replace_text(kept, json.dumps(run), "--keep")
        return run

    runs = [run for run in in_processes(run_seed, seeds, workers) if run is not None]
    capital = np.array([run["capital"] for run in runs])
    return {
        "hits": case.hits,
        "n_hidden": case.n_hidden,
        "fall": case.fall,
        "users_with_hidden_items": share,
        "first_seed": seeds[0],
        "runs": len(runs),
        "missed": np.mean([run["missed"] for run in runs], axis=0).tolist(),
        "capital": capital.mean(axis=0).tolist(),
        "capital_error": (capital.std(axis=0, ddof=1) / np.sqrt(len(runs))).tolist(),
        "share_of_exact": float(np.mean([run["share"] for run in runs])),
        "seconds_per_run": float(np.mean([run["seconds"] for run in runs])),
    }


def show(row: dict[str, Any]) -> None:
    """Print one case."""
    missed = " ".join(f"{one:>6.1%}" for one in row["missed"])
    capital = " ".join(
        f"{mean:.2f}+-{error:.2f}" for mean, error in zip(row["capital"], row["capital_error"], strict=True)
    )
    print(
        f"{row['hits']:>5} {row['n_hidden']:>7} {row['fall']:>5} {row['users_with_hidden_items']:>6.1%}   "
        f"{missed}   {capital}   {row['share_of_exact']:>6.1%} {row['seconds_per_run']:>6.2f} {row['runs']}",
        flush=True,
    )


def main() -> None:
    """Measure, print and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few runs of one case, nothing is written")
    parser.add_argument("--runs", type=int, default=300, help="of each case")
    parser.add_argument("--first", type=int, default=200, help="seed of them; the others follow")
    parser.add_argument("--keep", type=Path, help="folder where finished runs are kept")
    parser.add_argument("--minutes", type=float, default=np.inf, help="begin no further run after this time")
    parser.add_argument("--workers", type=int, default=1, help="processes that the runs are divided among")
    options = parser.parse_args()
    deadline = time.perf_counter() + 60 * options.minutes
    if options.keep is not None:
        options.keep.mkdir(parents=True, exist_ok=True)
    print(f"{', '.join(METRICS)}; +-{PRECISION}, level {LEVEL}: at most {1 - LEVEL:.0%} may miss")
    print(" hits  hidden  fall  users   missed (recall, ndcg)   capital (recall, ndcg)   scores seconds runs")
    cases = []
    for case in CASES[:1] if options.quick else CASES:
        seeds = range(options.first, options.first + (5 if options.quick else options.runs))
        cases.append(measure(case, seeds, options.keep, deadline, options.workers))
        show(cases[-1])
    if options.quick:
        return
    slug = folder_name()
    path = Path(__file__).parent / "results" / slug / "hidden_items.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    found = {"benchmark": "hidden_items", "machine": machine(), "cases": cases}
    path.write_text(json.dumps(found, indent=2) + "\n")
    print(f"written to benchmarks/results/{slug}/hidden_items.json")


if __name__ == "__main__":
    main()
