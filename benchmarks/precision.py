"""How many scores evaluation up to a precision takes, beside exact evaluation, and how often it is right.

Models as scorers that must be asked for each score: three of MovieLens 1M at three precisions, and at +-0.01
matrix factorisation (64 factors) and multi-vae of citeulike-a and pinterest-20, and made-up worlds of 100,000
items: ``catalogue`` and ``catalogue-large`` (8,000 and 30,000 users, a random event of each is held out),
``catalogue-unseen`` (as ``catalogue``, made when the method was fixed, and looked at once), and two where the
event that a user was most likely to have is mostly the one held out, so that seven users in ten have a hit:
``made-up`` and ``made-up-large`` (8,000 and 30,000 users). Scores are a share of exact evaluation of all
users, beside the least that any method can take whose intervals hold whatever the scores are
(``least_share``). Rivals that are just as honest: exact gains of all users by rows that end early, in the
order of popularity, and whole rows of as many users as a single look would need if the variance over users
were known beforehand (normal law, corrected for the finite number of users; nobody knows that number, and
looking again would cost more). Proxies are those of the default, fitted once per data set.
Before anything is counted, one run with a precision that needs everybody must give the exact values (of
MovieLens alone, for time). A seed decides which users are drawn first; coverage counts intervals that hold
the exact value.

Results of data sets that were not measured anew stay in the file. With ``--keep`` every run is kept in a
folder, and so are scores of fitted models, so that another start goes on; ``--minutes`` ends it early, and
the file then holds the seeds so far. ``--workers`` divides the seeds among processes, which share the scores.

    python -m benchmarks.precision [--quick] [--seeds 100] [--only ml-1m] [--model ease] [--precision 0.01]
                                   [--large-seeds 10]
                                   [--keep FOLDER] [--minutes 9] [--workers 4]
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import cycle, islice
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtri

from benchmarks.machine import folder_name, machine
from truerank.core.checkpoint import replace_text
from truerank.core.interactions import Interactions
from truerank.core.ranks import Ranks
from truerank.core.scorer import CallableScores, DenseScores, Factors, Scorer
from truerank.core.split import Split
from truerank.core.types import FloatArray
from truerank.data.catalogue import find_local, load
from truerank.metrics.registry import make_metrics, values
from truerank.models.registry import MODELS
from truerank.ranking.exact import exact_ranks
from truerank.split.base import make_split
from truerank.workflows.precision.goal import DEFAULT_PROXY
from truerank.workflows.precision.partial_rows import PartialRows
from truerank.workflows.precision.precision import evaluate_to_precision

METRICS = "recall@10,ndcg@10"
LARGE = {
    "citeulike-a": ("ials(factors=64)", "multi-vae"),
    "pinterest-20": ("ials(factors=64)", "multi-vae"),
    "catalogue": ("made-up",),
    "catalogue-large": ("made-up",),
    "catalogue-unseen": ("made-up",),
    "made-up": ("made-up",),
    "made-up-large": ("made-up",),
}
MOST_CELLS = 500_000_000
#: Users, the seed of the world, and whether a random event of each user is held out.
MADE_UP = {
    "catalogue": (8_000, 7, True),
    "catalogue-large": (30_000, 7, True),
    "catalogue-unseen": (8_000, 11, True),
    "made-up": (8_000, 5, False),
    "made-up-large": (30_000, 5, False),
}
MADE_UP_SIZES = (100_000, 30, 48)  # items, events per user, factors
LEVEL = 0.95
MODELS_USED = ("popularity", "item-knn", "ease")
PRECISIONS = (0.02, 0.01, 0.005)


def black_box(
    name: str, split: Split, data: str = "", keep: Path | None = None
) -> tuple[CallableScores, Ranks]:
    """Return a model that only answers for pairs, and its exact ranks."""
    fitted = fitted_table(name, split, data, keep)
    return CallableScores(fitted.score, split.train.n_items), exact_ranks(fitted, split)


def fitted_table(name: str, split: Split, data: str, keep: Path | None) -> Scorer:
    """Return a fitted model with its scores in a table, which is kept in a folder if there is one."""
    path = None if keep is None else keep / f"{data}.{name}.npy"
    if path is not None and path.exists():
        return DenseScores(np.load(path, mmap_mode="r"))
    found = tabled(MODELS.make(name).fit(split.train), split)
    if path is not None and isinstance(found, DenseScores):
        np.save(path.with_suffix(".part.npy"), found.scores)
        path.with_suffix(".part.npy").rename(path)
        return DenseScores(np.load(path, mmap_mode="r"))
    return found


def tabled(fitted: Scorer, split: Split) -> Scorer:
    """Return the scores in a table, so that runs of many seeds are quick, unless it would be too large."""
    n_users, n_items = split.train.n_users, split.train.n_items
    if n_users * n_items > MOST_CELLS:
        return fitted
    table = np.empty((n_users, n_items), np.float32)
    for start in range(0, n_users, 500):
        users = np.arange(start, min(start + 500, n_users))
        table[users] = fitted.score(users, np.arange(n_items))
    return DenseScores(table)


def made_up(
    n_users: int, world_seed: int = 5, is_random: bool = False
) -> tuple[Split, CallableScores, Ranks]:
    """Return a world of factors: events are drawn by softmax, and the model knows the factors with noise.

    The event that is held out is a random one, or the one that ``argpartition`` has first: often the
    likeliest of the user's events, so that far more users have a hit than in real data.
    """
    n_items, n_events, d = MADE_UP_SIZES
    rng = np.random.default_rng(world_seed)
    centres = rng.normal(size=(200, d))
    item = centres[rng.integers(0, 200, n_items)] + 0.7 * rng.normal(size=(n_items, d))
    user = centres[rng.integers(0, 200, n_users)] + 0.7 * rng.normal(size=(n_users, d))
    bias = rng.gumbel(size=n_items)
    events = np.empty((n_users, n_events), np.int64)
    for u in range(n_users):
        logits = 0.25 * (item @ user[u]) + bias
        events[u] = np.argpartition(-(logits + rng.gumbel(size=n_items)), n_events)[:n_events]
        if is_random:
            rng.shuffle(events[u])
    users = np.arange(n_users)
    train = Interactions.from_codes(
        np.repeat(users, n_events - 1), events[:, 1:].ravel(), n_users=n_users, n_items=n_items
    )
    test = Interactions.from_codes(users, events[:, 0], n_users=n_users, n_items=n_items)
    split = Split(train, test, method="made up")
    model = Factors(
        (user + 0.3 * rng.normal(size=user.shape)).astype(np.float32),
        (0.25 * item).astype(np.float32),
        bias.astype(np.float32),
    )
    return split, CallableScores(model.score, n_items), exact_ranks(model, split)


def least_share(ranks: Ranks, precision: float) -> float:
    r"""Return about the least share of exact evaluation that any valid method takes, for these ranks.

    Let further items of a user u rank above its target, T of them at random places of a row of M, with T the
    number that takes most away per item: a method that asked for n scores of the row has met one of them with
    a probability of at most n T / M. Do this to each user with probability q / T, independently, where q is
    twice the precision h divided by :math:`\bar d`, the mean over users of the largest drop per item. The
    mean then falls by about 2 h, so that no interval of that width holds both means. The method has met
    nothing with a probability of at least :math:`(1 - q)^x` if it asked for x rows in all, because
    :math:`1 - q n / M \ge (1 - q)^{n / M}`; and then it answers as if nothing had been changed. So with c the
    level and H the event that the interval holds the mean of the unchanged world,

    .. math:: 1 - c \ge E[1_H (1 - q)^x], \qquad P(H) \ge c

    and by Jensen's inequality :math:`E[x] \ge c \log(c / (1 - c)) / (-\log(1 - q))`: about
    :math:`2.8\, \bar d / (2 h)` rows for c = 0.95, for any number of users. None where q is 1 or more.
    """
    exact, most = values(make_metrics(METRICS), ranks), ranks.n_pool - ranks.n_tied - 1
    steps = [
        (exact - values(make_metrics(METRICS), replace(ranks, n_above=np.minimum(ranks.n_above + n, most))))
        / n
        for n in range(1, 11)
    ]
    drop = float(np.max(steps, axis=0).mean(axis=0).max())
    if drop <= 2 * precision:
        return 0.0
    return LEVEL * float(np.log(LEVEL / (1 - LEVEL)) / -np.log1p(-2 * precision / drop)) / ranks.n_users


def rows_of_all(scorer: CallableScores, split: Split) -> int:
    """Return the scores of exact gains of all users by rows that end early."""
    rows = PartialRows(scorer, split, cutoff=10)
    rows.advance(np.arange(len(rows)))
    return rows.n_scores


def whole_rows(per_user: FloatArray, precision: float, n_items: int) -> float:
    """Return the scores of whole rows of so many users as one look needs."""
    alone = per_user.var(axis=0).max() * (ndtri(0.975) / precision) ** 2
    return float(np.ceil(alone / (1 + alone / len(per_user))) * n_items)


def measure(
    name: str,
    data: str,
    split: Split,
    model: tuple[CallableScores, Ranks],
    proxies: list[Any],
    *,
    precisions: Sequence[float],
    n_seeds: int,
    is_checked: bool = False,
    keep: Path | None = None,
    deadline: float = np.inf,
    workers: int = 1,
) -> list[dict[str, Any]]:
    """Count scores and covered values of one model; no seed is begun after the deadline."""
    scorer, ranks = model
    per_user = values(make_metrics(METRICS), ranks)
    exact = per_user.mean(axis=0)
    if is_checked:
        full = evaluate_to_precision({name: scorer}, split, METRICS, precision=1e-6, proxy=proxies)
        np.testing.assert_allclose([e.value for e in full.estimates], exact, atol=1e-12)
    n_exact = len(per_user) * split.train.n_items
    all_rows = rows_of_all(scorer, split) / n_exact if is_checked else None
    found = []
    for precision in precisions:

        def run_seed(
            seed: int, label: str = f"{data}.{name}.{precision}", precision: float = precision
        ) -> dict[str, Any] | None:
            kept = None if keep is None else keep / f"{label}.{seed}.json"
            if kept is not None and kept.exists():
                found_before: dict[str, Any] = json.loads(kept.read_text())
                return found_before
            if time.perf_counter() > deadline:
                return None
            run = run_once(name, scorer, split, proxies, precision, seed)
            if kept is not None:
                replace_text(kept, json.dumps(run), "--keep")
            return run

        runs = [run for run in in_processes(run_seed, range(n_seeds), workers) if run is not None]
        if not runs:
            continue
        shares = [run["n_scores"] / n_exact for run in runs]
        low, high = (np.array([run[side] for run in runs]) for side in ("low", "high"))
        assert ((high - low) / 2 <= precision + 1e-12).all()
        hits = (low - 1e-12 <= exact) & (exact <= high + 1e-12)
        row = {
            "data": data,
            "model": name,
            "precision": precision,
            "exact": exact.tolist(),
            "share_of_exact": {
                "mean": float(np.mean(shares)),
                "least": float(np.min(shares)),
                "most": float(np.max(shares)),
            },
            "least_share": least_share(ranks, precision),
            "rows_of_all_users": all_rows,
            "whole_rows_one_look": whole_rows(per_user, precision, split.train.n_items) / n_exact,
            "coverage": np.mean(hits, axis=0).tolist(),
            "mean_half_width": ((high - low) / 2).mean(axis=0).tolist(),
            "looked_at_all_users_first": float(np.mean([run["screened"] > 0 for run in runs])),
            "seeds": len(runs),
            "seconds_per_run": float(np.mean([run["seconds"] for run in runs])),
        }
        found.append(row)
        show(row)
    return found


_WORK: list[Callable[[int], Any]] = []  # what forked processes do; a closure, which cannot be sent to them


def _work(seed: int) -> Any:
    return _WORK[-1](seed)


def _take_processor(processors: SimpleQueue[int]) -> None:
    """Keep a worker on a processor of its own, so that it does not start a thread for each of the machine."""
    os.sched_setaffinity(0, {processors.get()})


def in_processes(work: Callable[[int], Any], seeds: Iterable[int], workers: int) -> list[Any]:
    """Return what the work gives for each seed; processes are forked, so that they share what is loaded."""
    if workers == 1:
        return [work(seed) for seed in seeds]
    context = multiprocessing.get_context("fork")
    processors: SimpleQueue[int] = context.SimpleQueue()
    for processor in islice(cycle(sorted(os.sched_getaffinity(0))), workers):
        processors.put(processor)
    _WORK.append(work)
    try:
        with context.Pool(workers, _take_processor, (processors,)) as pool:
            return pool.map(_work, seeds, chunksize=1)
    finally:
        _WORK.pop()


def run_once(
    name: str, scorer: Scorer, split: Split, proxies: list[Any], precision: float, seed: int
) -> dict[str, Any]:
    """Return scores, limits and seconds of one evaluation up to a precision."""
    started = time.perf_counter()
    run = evaluate_to_precision({name: scorer}, split, METRICS, precision=precision, seed=seed, proxy=proxies)
    way = run.provenance["ways"][name]
    return {
        "n_scores": way["n_scores"],
        "screened": way["screened"],
        "low": [e.low for e in run.estimates],
        "high": [e.high for e in run.estimates],
        "seconds": time.perf_counter() - started,
    }


def key_of(row: dict[str, Any]) -> tuple[str, str, float]:
    """Return what a case is of."""
    return row["data"], row["model"], row["precision"]


def show(row: dict[str, Any]) -> None:
    """Print one case."""
    share = row["share_of_exact"]
    covered = " ".join(f"{value:.2f}" for value in row["coverage"])
    rows = "-" if row["rows_of_all_users"] is None else f"{row['rows_of_all_users']:.1%}"
    print(
        f"{row['data']:>12} {row['model']:>16} {row['precision']:>9} {share['mean']:>8.2%} "
        f"[{share['least']:.2%}, {share['most']:.2%}] {row['least_share']:>8.2%} {rows:>9} "
        f"{row['whole_rows_one_look']:>9.1%}   {covered} "
        f"{row['looked_at_all_users_first']:>7.0%} {row['seconds_per_run']:>6.2f} {row['seeds']}",
        flush=True,
    )


def main() -> None:
    """Measure, print and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few seeds, nothing is written")
    parser.add_argument("--seeds", type=int, default=100, help="of MovieLens 1M")
    parser.add_argument("--large-seeds", type=int, default=10, help="of the other data sets")
    parser.add_argument(
        "--only", choices=["ml-1m", *LARGE], help="one data set; others stay as they were written"
    )
    parser.add_argument("--model", help="one model; others stay as they were written")
    parser.add_argument("--precision", type=float, help="of MovieLens 1M, instead of the three")
    parser.add_argument("--keep", type=Path, help="folder where finished runs are kept")
    parser.add_argument("--minutes", type=float, default=np.inf, help="begin no further run after this time")
    parser.add_argument("--workers", type=int, default=1, help="processes that the seeds are divided among")
    options = parser.parse_args()
    deadline = time.perf_counter() + 60 * options.minutes
    if options.keep is not None:
        options.keep.mkdir(parents=True, exist_ok=True)
    print(f"scores in percent of exact evaluation; {METRICS}; level {LEVEL}")
    print(
        f"{'data':>12} {'model':>16} {'precision':>9} {'mean':>8} [least, most] {'floor':>8} {'all rows':>9} "
        f"{'one look':>9}   coverage"
    )
    cases = []
    for data in ("ml-1m", *LARGE):
        if options.only not in (None, data) or (options.quick and data != "ml-1m"):
            continue
        if data not in MADE_UP and find_local(data) is None:
            print(f"{data} is not in the data folder")
            continue
        if data in MADE_UP:
            split, scorer, ranks = made_up(*MADE_UP[data])
            named = {"made-up": (scorer, ranks)}
        else:
            events = load(data)
            split = make_split(events, "leave-one-out" if events.time is None else "leave-last-out")
            names = LARGE.get(data, MODELS_USED[: 2 if options.quick else None])
            named = {
                name: black_box(name, split, data, options.keep)
                for name in names
                if options.model in (None, name)
            }
        proxies = [model.fit(split.train) for model in MODELS.make_all(DEFAULT_PROXY)]
        for name, model in named.items():
            cases += measure(
                name,
                data,
                split,
                model,
                proxies,
                precisions=(0.01,)
                if data in LARGE
                else (options.precision,)
                if options.precision
                else PRECISIONS,
                n_seeds=5 if options.quick else options.large_seeds if data in LARGE else options.seeds,
                is_checked=data not in LARGE,
                keep=options.keep,
                deadline=deadline,
                workers=options.workers,
            )
    if options.quick:
        return
    slug = folder_name()
    path = Path(__file__).parent / "results" / slug / "precision.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    measured = {key_of(case): case for case in cases}
    before = json.loads(path.read_text())["cases"] if path.exists() else []
    kept = [measured.pop(key_of(case), case) for case in before]
    found = {"benchmark": "precision", "machine": machine(), "cases": kept + list(measured.values())}
    path.write_text(json.dumps(found, indent=2) + "\n")
    print(f"written to benchmarks/results/{slug}/precision.json")


if __name__ == "__main__":
    main()
