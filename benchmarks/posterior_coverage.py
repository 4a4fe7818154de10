"""How often posterior intervals hold the exact value on data sets that their prior was not learnt from.

    python -m benchmarks.rank_corpus --keep CORPUS
    python -m benchmarks.rank_prior CORPUS --leave-out
    python -m benchmarks.posterior_coverage CORPUS --keep FOLDER [--repeats 20] [--most 14] [--finished]
    python -m benchmarks.posterior_coverage CORPUS --keep FOLDER --designs 20,200,1000 [--users 100]
    python -m benchmarks.rank_corpus --keep SEVERAL --targets several
    python -m benchmarks.posterior_coverage CORPUS --keep FOLDER --targets SEVERAL --designs 50,100,500

From the exact ranks of each model samples are drawn again and again: 99 and 499 negatives, and adaptive ones
of 100 to 1,600, with seen items removed and kept. Each sample gives 95 % intervals of seven metrics, under
the prior that was learnt without the data set (and without other versions of it). Counted is how often the
exact value lies inside. Widths are compared with those of the delta interval of ``smooth`` and of the
identification bounds on the same first samples. Finished pieces (a model, a design) are kept, so the run can
be interrupted and taken up again; ``--finished`` prints what there is. Other numbers of negatives are designs
too, and with ``--users`` every sample is one of so many users, drawn anew; bounds are then left out.

``--targets`` names a corpus of users with several targets. Their targets share negatives, ties are broken at
random, there are more metrics, and neither bounds nor delta. ``one curve`` is then the posterior under a
single curve for all targets, which takes a target's place among those of its user for no news about its rank.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from threadpoolctl import threadpool_limits

from benchmarks.machine import machine
from benchmarks.rank_corpus import SEVERAL
from benchmarks.rank_prior import FAMILIES
from truerank.core.chart import LIGHT
from truerank.core.checkpoint import Store
from truerank.core.errors import CannotEstimate
from truerank.core.progress import SILENT
from truerank.core.ranks import Ranks, SampledRanks
from truerank.core.types import IntArray
from truerank.estimation.registry import ESTIMATORS
from truerank.estimation.tally import tally
from truerank.inference.estimate_interval.base import IntervalRequest
from truerank.inference.estimate_interval.registry import UNCERTAINTIES, PointEstimates
from truerank.inference.posterior import interval as posterior_interval
from truerank.inference.posterior.interval import posterior_band
from truerank.inference.posterior.prior import RankPrior
from truerank.inference.user_interval import Band
from truerank.metrics.registry import make_metrics, values
from truerank.ranking.simulate import simulate_adaptive, simulate_sample, simulate_shared
from truerank.workflows.agreement.order import mean_ignoring_nan

METRICS = ("recall@1", "recall@10", "recall@50", "ndcg@10", "ndcg@50", "ap@10", "ap@50")
#: Of users with several targets.
SEVERAL_METRICS = (
    *("recall@1", "recall@10", "recall@50", "precision@10", "ndcg@10", "ndcg@50"),
    *("ap@10", "err@10", "hit@10", "mrr@10"),
)
DESIGNS: dict[str, int | str] = {"99": 99, "499": 499, "adaptive": "adaptive(start=100, max=1600)"}
LEVEL = 0.95
#: First samples on which the delta interval is computed too, by design; the dearest have fewer.
WIDTHS = {"99": 2, "499": 2, "adaptive": 1}
#: Bounds are computed on the first sample of every so manieth case.
BOUNDED = {"99": 1, "499": 1, "adaptive": 4}


@dataclass(frozen=True)
class Case:
    """Exact ranks of one model, by the path of their file, and the corpus with the priors if elsewhere."""

    path: str
    corpus: str = ""

    @property
    def parts(self) -> tuple[str, str, str, str]:
        """Data set, split, model and seen policy."""
        name, split, model, seen = Path(self.path).stem.split("__")
        return name, split, model, seen

    @property
    def family(self) -> str:
        """The data set with all its versions."""
        return FAMILIES.get(self.parts[0], self.parts[0])

    @property
    def has_several(self) -> bool:
        """Whether users have several targets."""
        return self.parts[1] in SEVERAL

    @property
    def metrics(self) -> tuple[str, ...]:
        """What is measured."""
        return SEVERAL_METRICS if self.has_several else METRICS

    def ranks(self, *, break_ties: bool) -> Ranks:
        """Return the exact ranks; ties can be broken at random, always alike."""
        columns = np.load(self.path)
        if self.has_several:
            return without_ties({name: columns[name].astype(np.int64) for name in columns if name != "meta"})
        above, tied = columns["n_above"].astype(np.int64), columns["n_tied"].astype(np.int64)
        if break_ties:
            above = above + np.random.default_rng(1).integers(0, tied + 1)
            tied = np.zeros_like(tied)
        return Ranks.single(above, n_pool=columns["n_pool"].astype(np.int64), n_tied=tied)

    def prior(self) -> RankPrior:
        """Return the prior that was learnt without this data set."""
        path = Path(self.corpus or Path(self.path).parent) / f"prior-without-{self.family}.json"
        return RankPrior.from_json(json.loads(path.read_text())["prior"])


def without_ties(columns: dict[str, IntArray]) -> Ranks:
    """Return ranks of several targets per user with ties broken at random, always alike."""
    generator = np.random.default_rng(1)
    irrelevant = columns["n_above"] - columns["n_relevant_above"]
    irrelevant += generator.integers(0, columns["n_tied"] - columns["n_relevant_tied"] + 1)
    order = np.lexsort((generator.random(len(irrelevant)), irrelevant, columns["user"]))
    user, zeros = columns["user"][order], np.zeros(len(order), dtype=np.int64)
    starts = np.flatnonzero(np.diff(user, prepend=-1))
    place = np.arange(len(user)) - np.repeat(starts, np.diff(np.append(starts, len(user))))
    return Ranks(
        user=user,
        item=columns["item"][order],
        n_above=irrelevant[order] + place,
        n_tied=zeros,
        n_pool=columns["n_pool"][order],
        n_relevant=columns["n_relevant"][order],
        n_relevant_above=place,
        n_relevant_tied=zeros,
    )


def choose_cases(corpus: Path, most: int, several: Path | None = None) -> list[Case]:
    """Return at most so many cases of each data set and seen policy: its models in turn, then its splits."""
    cases = [Case(str(path)) for path in sorted(corpus.glob("*__*.npz"))]
    if several is not None:
        cases = [Case(str(path), str(corpus)) for path in sorted(several.glob("*__*.npz"))]
    groups: dict[tuple[str, str], list[Case]] = defaultdict(list)
    for case in cases:
        groups[case.family, case.parts[3]].append(case)
    chosen: list[tuple[int, Case]] = []
    for group in groups.values():
        turn: dict[str, int] = defaultdict(int)
        order: list[tuple[int, int, Case]] = []
        for case in sorted(group, key=lambda case: (case.parts[2], case.parts[0], case.parts[1])):
            order.append((turn[case.parts[2]], len(order), case))
            turn[case.parts[2]] += 1
        # versions and splits of a model rotate, so that each is met about equally often
        models = sorted(turn)
        picked: list[Case] = []
        for number, model in enumerate(models):
            own = [case for _, _, case in order if case.parts[2] == model]
            picked.append(own[number % len(own)])
        rest = [case for _, _, case in sorted(order, key=lambda entry: entry[:2]) if case not in picked]
        chosen += enumerate((picked + rest)[:most])
    # data sets take turns, so that an interrupted run has met all of them
    return [case for _, case in sorted(chosen, key=lambda entry: (entry[0], entry[1].path))]


def draw(ranks: Ranks, design: str, repeat: int, label: str) -> SampledRanks:
    """Return one sample; targets of one user share theirs."""
    rule = DESIGNS[design] if design in DESIGNS else int(design)
    if isinstance(rule, str):
        return simulate_adaptive(ranks, rule, seed=1, repeat=repeat, label=label)
    size = min(rule, int((ranks.n_pool - ranks.n_relevant).min()))
    if (ranks.n_relevant > 1).any():
        return simulate_shared(ranks, size, seed=1 + zlib.crc32(label.encode()), repeat=repeat)
    return simulate_sample(ranks, size, seed=1, repeat=repeat, label=label)


def some_users(ranks: Ranks, n: int, repeat: int) -> Ranks:
    """Return the ranks of n users, drawn at random."""
    users = np.random.default_rng(repeat).choice(len(ranks), min(n, len(ranks)), replace=False)
    return Ranks.single(ranks.n_above[users], n_pool=ranks.n_pool[users], n_tied=ranks.n_tied[users])


def band_of_one_curve(points: PointEstimates, request: IntervalRequest, prior: RankPrior) -> Band:
    """Return the posterior intervals that take a target's place for no news about its rank."""
    with mock.patch.object(posterior_interval, "has_several", return_value=False):
        return posterior_band(points, request, prior=prior)


def measure(case: Case, design: str, repeats: int, n_users: int | None = None) -> dict[str, Any]:
    """Return how often the intervals of one case hold the exact values, and their widths."""
    metrics = make_metrics(case.metrics)
    everybody = ranks = case.ranks(break_ties=design == "adaptive")
    exact = values(metrics, ranks).mean(axis=0)
    seen = {"remove": "removed", "keep": "kept"}[case.parts[3]]
    smooth, prior = ESTIMATORS.make("smooth"), case.prior()
    request = IntervalRequest("test-users", LEVEL, 0, SILENT)
    intervals: dict[str, Callable[[PointEstimates], Band]] = {
        "posterior": lambda points: posterior_band(points, request, prior=prior),
        "delta": lambda points: UNCERTAINTIES.make("delta").band(points, level=LEVEL),
        "bounds": lambda points: UNCERTAINTIES.make("bounds").band(points, level=LEVEL),
        "one curve": lambda points: band_of_one_curve(points, request, prior),
    }
    held: dict[str, list[list[bool]]] = {name: [] for name in intervals}
    width: dict[str, list[list[float]]] = {name: [] for name in intervals}
    value: list[list[float]] = []
    methods: dict[str, int] = defaultdict(int)
    seconds = 0.0
    is_bounded = design in BOUNDED and zlib.crc32(Path(case.path).stem.encode()) % BOUNDED[design] == 0
    is_bounded &= n_users is None and not case.has_several
    most = {"posterior": repeats, "delta": WIDTHS.get(design, 1), "bounds": int(is_bounded)}
    most["one curve"] = repeats if case.has_several else 0
    if case.has_several:  # seconds to minutes a sample
        most["delta"] = 0
    for repeat in range(repeats):
        if n_users is not None:
            ranks = some_users(everybody, n_users, repeat)
            exact = values(metrics, ranks).mean(axis=0)
        sample = draw(ranks, design, repeat, Path(case.path).stem)
        counted = tally(sample)
        estimate = smooth.estimate(counted, metrics).value
        points = PointEstimates(sample, counted, smooth, metrics, estimate)
        value.append(estimate.tolist())
        for name, interval in intervals.items():
            if repeat >= most[name]:
                continue
            began = time.process_time()
            try:
                band = interval(points)
            except CannotEstimate:
                continue
            if name == "posterior":
                seconds += time.process_time() - began
                methods[band.method[0].split(";")[0]] += 1
            held[name].append(((band.low <= exact) & (exact <= band.high)).tolist())
            width[name].append((band.high - band.low).tolist())
    return {
        "seen": seen,
        "items": int(ranks.n_pool.max()),
        "users": len(ranks),
        "exact": exact.tolist(),
        "value": value,
        "held": held,
        "width": width,
        "methods": dict(methods),
        "seconds": seconds / repeats,
    }


def key_of(case: Case, design: str, repeats: int, n_users: int | None = None) -> str:
    """Return everything that a piece depends on."""
    users = "" if n_users is None else f", {n_users} users"
    return f"posterior coverage: {Path(case.path).stem}, {design}, {repeats} repeats{users}, {case.prior()}"


def finished(case: Case, design: str, repeats: int, n_users: int | None, keep: Path | None) -> dict[str, Any]:
    """Return a piece, measured unless the folder has it."""
    with threadpool_limits(1):
        piece: dict[str, Any] = Store(keep).value(
            key_of(case, design, repeats, n_users), lambda: measure(case, design, repeats, n_users)
        )
    return piece


def summarise(pieces: Iterable[tuple[Case, str, dict[str, Any]]]) -> list[dict[str, Any]]:
    """Return one row per design and seen policy."""
    groups: dict[tuple[str, str], list[tuple[Case, dict[str, Any]]]] = defaultdict(list)
    for case, design, piece in pieces:
        groups[design, piece["seen"]].append((case, piece))
    return [_row(design, seen, group) for (design, seen), group in groups.items()]


def _row(design: str, seen: str, group: list[tuple[Case, dict[str, Any]]]) -> dict[str, Any]:
    def held(piece: dict[str, Any], name: str) -> float:
        return float(np.mean(piece["held"][name])) if piece["held"][name] else np.nan

    def ratio(name: str) -> float:
        """Geometric mean over cases and metrics of posterior width / another width, on the same samples."""
        logs = []
        for _, piece in group:
            other = np.array(piece["width"][name])
            if len(other) == 0:
                continue
            own = np.array(piece["width"]["posterior"][: len(other)])
            is_wide = (own > 0) & (other > 0)
            logs += np.log(own[is_wide] / other[is_wide]).tolist()
        return float(np.exp(np.mean(logs))) if logs else np.nan

    def ratio_of_sums(name: str) -> float:
        own, other = 0.0, 0.0
        for _, piece in group:
            width = np.array(piece["width"][name])
            own += float(np.array(piece["width"]["posterior"][: len(width)]).sum())
            other += float(width.sum())
        return own / other if other else np.nan

    families = sorted({case.family for case, _ in group})
    by_family = {
        family: float(np.mean([held(piece, "posterior") for case, piece in group if case.family == family]))
        for family in families
    }
    cases = [(held(piece, "posterior"), Path(case.path).stem) for case, piece in group]
    all_held = np.concatenate([np.array(piece["held"]["posterior"]) for _, piece in group])
    fallbacks = sum(n for _, piece in group for name, n in piece["methods"].items() if name != "posterior")
    return {
        "negatives": design,
        "seen": seen,
        "cases": len(group),
        "repeats": len(group[0][1]["held"]["posterior"]),
        "coverage": float(np.mean([held(piece, "posterior") for _, piece in group])),
        "coverage_by_metric": dict(
            zip(group[0][0].metrics, all_held.mean(axis=0).round(4).tolist(), strict=True)
        ),
        "coverage_by_data_set": {name: round(value, 4) for name, value in by_family.items()},
        "least_data_set": min(by_family.values()),
        "least_case": min(cases),
        "delta_coverage": float(mean_ignoring_nan(np.array([held(piece, "delta") for _, piece in group]))),
        "bounds_coverage": float(mean_ignoring_nan(np.array([held(piece, "bounds") for _, piece in group]))),
        "one_curve_coverage": float(
            mean_ignoring_nan(np.array([held(piece, "one curve") for _, piece in group]))
        ),
        "width_to_one_curve": ratio("one curve"),
        "width_to_delta": ratio("delta"),
        "width_to_bounds": ratio("bounds"),
        "summed_width_to_delta": ratio_of_sums("delta"),
        "summed_width_to_bounds": ratio_of_sums("bounds"),
        "fallbacks": fallbacks / len(all_held),
        "seconds": float(np.mean([piece["seconds"] for _, piece in group])),
    }


def show(rows: list[dict[str, Any]]) -> None:
    """Print the rows as a table."""
    print(
        "| negatives, seen | cases x repeats | coverage | least data set | least model | delta | bounds "
        "| x delta | / bounds | bounds instead | CPU s |\n|---|---|---|---|---|---|---|---|---|---|---|"
    )
    for row in rows:
        by_set: dict[str, float] = row["coverage_by_data_set"]
        least = min(by_set, key=lambda name: by_set[name])
        print(
            f"| {row['negatives']}, {row['seen']} | {row['cases']} x {row['repeats']} "
            f"| {row['coverage']:.3f} | {row['least_data_set']:.3f} ({least}) | {row['least_case'][0]:.2f} "
            f"| {row['delta_coverage']:.2f} | {row['bounds_coverage']:.2f} | {row['width_to_delta']:.2f} "
            f"| {row['width_to_bounds']:.2f} | {row['fallbacks']:.1%} | {row['seconds']:.2f} |"
        )
    for row in rows:
        print(f"{row['negatives']}, {row['seen']}: {row['coverage_by_data_set']} {row['coverage_by_metric']}")
        print(f"   least: {row['least_case'][1]}; widths by sums {row['summed_width_to_delta']:.2f} x delta")
        if not np.isnan(row["one_curve_coverage"]):
            of_one = f"{row['one_curve_coverage']:.3f}, width {row['width_to_one_curve']:.2f} times its width"
            print(f"   one curve for all targets: coverage {of_one}")


PICTURE = Path(__file__).parent.parent / "docs" / "pictures" / "posterior_coverage.svg"
_INK, _GREY = "#333a42", "#d5d9de"


def plot(rows: list[dict[str, Any]]) -> Figure:
    """Return coverage by data set left out, and width relative to delta and bounds, one row per design."""
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(2.2, 1), sharey=True)
    negatives = [_NEGATIVES.get(row["negatives"], f"{row['negatives']} negatives") for row in rows]
    names = [f"{of}, seen {row['seen']}" for of, row in zip(negatives, rows, strict=True)]
    heights = np.arange(len(rows))[::-1]
    for height, row in zip(heights, rows, strict=True):
        by_set = list(row["coverage_by_data_set"].values())
        left.plot(by_set, [height] * len(by_set), "o", color=LIGHT[0], markersize=4, alpha=0.55)
        left.plot(row["coverage"], height, "D", color=_INK, markersize=6)
        left.plot(row["delta_coverage"], height, "x", color=LIGHT[1], markersize=7)
        right.plot(row["width_to_delta"], height, "x", color=LIGHT[1], markersize=7)
        right.plot(1 / row["width_to_bounds"], height, "s", color=_INK, markersize=5, fillstyle="none")
    left.axvline(LEVEL, color=_INK, linewidth=0.8, linestyle="--")
    left.set_yticks(heights, names, fontsize=9)
    left.set_xlim(0.4, 1.01)
    left.set_xlabel("share of intervals that hold the exact value (nominal 95 %)", fontsize=9)
    right.set_xlabel("ratio of widths", fontsize=9)
    right.set_xscale("log")
    right.set_xlim(1, 12)
    right.set_xticks([1, 2, 3, 5, 8], ["1", "2", "3", "5", "8"])
    right.minorticks_off()
    handles = [
        left.plot([], [], "o", color=LIGHT[0], alpha=0.55, label="posterior, one data set left out")[0],
        left.plot([], [], "D", color=_INK, label="posterior, mean")[0],
        left.plot([], [], "x", color=LIGHT[1], label="delta (right: posterior / delta)")[0],
        right.plot([], [], "s", color=_INK, fillstyle="none", label="bounds / posterior")[0],
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    for axes in (left, right):
        axes.tick_params(length=0, labelsize=9, colors=_INK)
        axes.grid(axis="x", color=_GREY, linewidth=0.6)
        axes.set_axisbelow(True)
        for side, spine in axes.spines.items():
            spine.set_visible(side == "bottom")
            spine.set_color(_GREY)
    return figure


_NEGATIVES = {"99": "99 negatives", "499": "499 negatives", "adaptive": "adaptive 100-1,600"}


def main() -> None:
    """Measure what is missing, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--keep", type=Path, required=True, help="folder of finished pieces")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--most", type=int, default=14, help="cases of a data set and seen policy")
    parser.add_argument("--designs", default=",".join(DESIGNS), help="adaptive, or numbers of negatives")
    parser.add_argument("--users", type=int, help="users of each sample; default: all")
    parser.add_argument("--targets", type=Path, metavar="SEVERAL", help="corpus of several targets per user")
    parser.add_argument("--only", default="", help="comma-separated data sets")
    parser.add_argument("--finished", action="store_true", help="print what is finished, measure nothing")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, help="JSON file for the rows")
    parser.add_argument("--picture", type=Path, help=f"file of the picture, such as {PICTURE.name}")
    options = parser.parse_args()
    cases = choose_cases(options.corpus, options.most, options.targets)
    if options.only:
        cases = [case for case in cases if case.family in options.only.split(",")]
    jobs = [(case, design) for design in options.designs.split(",") for case in cases]
    pieces: list[tuple[Case, str, dict[str, Any]]] = []
    store = Store(options.keep)
    if options.finished:
        for case, design in jobs:
            path = store.path_of(key_of(case, design, options.repeats, options.users), ".json")
            if path is not None and path.exists():
                piece = finished(case, design, options.repeats, options.users, options.keep)
                pieces.append((case, design, piece))
    else:
        began = time.monotonic()
        with ProcessPoolExecutor(options.workers) as pool:
            futures = {
                pool.submit(finished, case, design, options.repeats, options.users, options.keep): (
                    case,
                    design,
                )
                for case, design in jobs
            }
            for future in as_completed(futures):
                case, design = futures[future]
                pieces.append((case, design, future.result()))
                if len(pieces) % 20 == 0:
                    spent = time.monotonic() - began
                    print(f"{len(pieces)} of {len(jobs)} pieces, {spent:.0f} s", flush=True)
    order = {(case.path, design): number for number, (case, design) in enumerate(jobs)}
    pieces.sort(key=lambda entry: order[entry[0].path, entry[1]])
    rows = summarise(pieces)
    show(rows)
    if options.picture:
        mpl.rcParams["svg.hashsalt"], mpl.rcParams["svg.fonttype"] = "truerank", "path"
        metadata = {"Date": None} if options.picture.suffix == ".svg" else None
        plot(rows).savefig(options.picture, metadata=metadata, facecolor="white", dpi=150)
    if options.out:
        options.out.write_text(json.dumps({"machine": machine(), "level": LEVEL, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
