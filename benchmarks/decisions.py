"""How often sampled ranks decide which of two models is better, and how often they are wrong.

python -m benchmarks.decisions CORPUS [--keep FOLDER] [--repeats 1] [--most 6] [--rules posterior,smooth]
python -m benchmarks.decisions CORPUS --learn       learn ``sharing`` and write it into the shipped prior

CORPUS holds exact ranks (``python -m benchmarks.rank_corpus --keep CORPUS``), so the truly better model of
every pair is known. Each model is sampled once per design and repeat, and every rule names a winner of every
pair of models of one data set, split and treatment of seen items, in recall@10 and ndcg@10, or leaves it
open. Posteriors take the prior that was learnt without the data set (``prior-without-<data set>.json`` of
``python -m benchmarks.rank_prior CORPUS --leave-out``), and share what the other data sets share. Pairs whose
exact values are equal are left out. Finished parts are kept in FOLDER.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import blake2b
from itertools import combinations
from pathlib import Path

import numpy as np
from scipy.special import ndtri

from benchmarks.rank_prior import FAMILIES, SHIPPED
from truerank.core.checkpoint import Store, replace_text
from truerank.core.errors import CannotEstimate
from truerank.core.random import stream
from truerank.core.ranks import Ranks, SampledRanks
from truerank.core.types import FloatArray
from truerank.estimation.registry import ESTIMATORS
from truerank.estimation.tally import tally
from truerank.inference.bounds.identify import identification_bounds
from truerank.inference.estimate_interval.linear import LinearisedEstimate
from truerank.inference.estimate_interval.registry import PointEstimates
from truerank.inference.posterior import curves, prior, values
from truerank.inference.posterior.difference import difference_posterior
from truerank.inference.posterior.interval import MetricPosterior, metric_posterior
from truerank.inference.posterior.prior import RankPrior
from truerank.metrics.registry import make_metrics
from truerank.metrics.registry import values as metric_values
from truerank.ranking.simulate import simulate_adaptive, simulate_sample

METRICS = make_metrics("recall@10,ndcg@10")
DESIGNS: dict[str, int | str] = {"m = 99": 99, "m = 499": 499, "adaptive": "adaptive(start=100, max=1600)"}
#: Rules that take the sign of an estimate, or of one that its standard error decides.
POINTS = {"delta": "smooth", "naive": "naive", "bv": "bv(gamma=0.1)", "smooth": "smooth"}
RULES = {
    "posterior": "posterior",
    "independent": "posterior, nothing shared",
    "delta": "delta of smooth",
    "bounds": "bounds",
    "naive": "naive, always",
    "bv": "bv, always",
    "smooth": "smooth, always",
}
LEVEL = 0.95
#: Scores are cut here: a value far outside its posterior says nothing more about what errors share.
_FARTHEST = 3.0


@dataclass(frozen=True, eq=False)
class RankedModels:
    """Exact ranks of the models of one data set, split and treatment of seen items.

    Parameters
    ----------
    data, split, seen : of all models
    models : their specs
    files : with their ranks
    """

    data: str
    split: str
    seen: str
    models: tuple[str, ...]
    files: tuple[Path, ...]

    @property
    def name(self) -> str:
        """What keys of finished parts start with."""
        return f"{self.data} {self.split} {self.seen}"

    @property
    def family(self) -> str:
        """The data set without its version."""
        return FAMILIES.get(self.data, self.data)

    def ranks(self, design: str) -> list[Ranks]:
        """Return the exact ranks of each model; without ties for adaptive samples."""
        found = []
        for path in self.files:
            columns = np.load(path)
            above, tied = columns["n_above"].astype(np.int64), columns["n_tied"].astype(np.int64)
            if isinstance(DESIGNS[design], str):
                above = above + stream(0, f"ties/{path.stem}").integers(0, tied + 1)
                tied = np.zeros_like(tied)
            found.append(Ranks.single(above, n_tied=tied, n_pool=columns["n_pool"].astype(np.int64)))
        return found

    def samples(self, design: str, repeat: int) -> list[SampledRanks]:
        """Return sampled ranks of each model, each with negatives of its own."""
        size, found = DESIGNS[design], []
        for model, ranks in zip(self.models, self.ranks(design), strict=True):
            label = f"{self.name} {model}"
            if isinstance(size, int):
                found.append(simulate_sample(ranks, size, seed=1, repeat=repeat, label=label))
            else:
                found.append(simulate_adaptive(ranks, size, seed=1, repeat=repeat, label=label))
        return found


def read_cases(folder: Path, most: int | None = None) -> list[RankedModels]:
    """Return the cases of a folder that have at least two models, with at most so many at random of each."""
    found: dict[tuple[str, str, str], dict[str, Path]] = {}
    for path in sorted(folder.glob("*__*__*__*.npz")):
        data, split, model, seen = path.stem.split("__")
        found.setdefault((data, split, seen), {})[model] = path
    cases = []
    for key, of in found.items():
        models = list(of)
        if most is not None and most < len(models):
            models = sorted(stream(0, f"decisions/{key}").permutation(models)[:most].tolist())
        if len(models) > 1:
            cases.append(RankedModels(*key, tuple(models), tuple(of[model] for model in models)))
    return cases


def exact_values(case: RankedModels, design: str) -> FloatArray:
    """Return the exact values, (n_models, n_metrics)."""
    return np.array([metric_values(METRICS, ranks).mean(axis=0) for ranks in case.ranks(design)])


def point_estimates(case: RankedModels, design: str, repeat: int, rule: str) -> dict[str, FloatArray]:
    """Return the values of an estimator, (n_models, n_metrics); with standard errors for ``delta``."""
    found: dict[str, list[FloatArray]] = {"value": [], "error": []}
    estimator = ESTIMATORS.make(POINTS[rule])
    for sample in case.samples(design, repeat):
        counted = tally(sample)
        try:
            value = np.asarray(estimator.estimate(counted, METRICS).value)
        except CannotEstimate:  # not with samples of several sizes
            value = np.full(len(METRICS), np.nan)
        found["value"].append(value)
        if rule == "delta":
            points = PointEstimates(sample, counted, estimator, METRICS, value)
            linear = LinearisedEstimate.of(points, "test-users")
            found["error"].append(linear.standard_error("test-users"))
    return {name: np.array(rows) for name, rows in found.items()}


def posteriors(case: RankedModels, design: str, repeat: int, of: RankPrior) -> dict[str, FloatArray]:
    """Return the draws of each model's posterior under numbered names; none where the prior has no ground."""
    found = {}
    for number, sample in enumerate(case.samples(design, repeat)):
        try:
            one = metric_posterior(tally(sample), METRICS, seed=repeat, prior=of)
        except CannotEstimate:
            continue
        found[f"values-{number}"] = one.values.astype(np.float32)
        found[f"weights-{number}"] = one.weights
        found[f"unit-{number}"] = one.unit
        found[f"widening-{number}"] = np.array(one.widening)
    return found


@cache
def source_key() -> str:
    """Return a hash of the code that draws from posteriors: results of another one are not read."""
    code = b"".join(Path(str(module.__file__)).read_bytes() for module in (curves, prior, values))
    return blake2b(code, digest_size=6).hexdigest()


@dataclass(frozen=True, eq=False)
class Measured:
    """One case, design and repeat: exact values and posteriors of all models."""

    case: RankedModels
    design: str
    repeat: int
    exact: FloatArray
    posteriors: list[MetricPosterior | None]

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Indices of both models of each pair."""
        return list(combinations(range(len(self.case.models)), 2))

    @property
    def key(self) -> str:
        """What finished parts depend on, beside the rule."""
        return f"{self.case.name} {self.design} {self.repeat} {' '.join(self.case.models)}"

    def scores(self) -> FloatArray:
        """Return the normal scores of the exact values in their posteriors, (n_models, n_metrics)."""
        rows = []
        for exact, one in zip(self.exact, self.posteriors, strict=True):
            if one is None:
                rows.append(np.full(len(METRICS), np.nan))
                continue
            below = (one.values < exact[:, None]) @ one.weights
            equal = (one.values == exact[:, None]) @ one.weights
            rows.append(ndtri(np.clip(below + equal / 2, 1e-9, 1 - 1e-9)))
        found: FloatArray = np.clip(np.array(rows), -_FARTHEST, _FARTHEST)
        return found

    def points(self, rule: str, store: Store) -> Mapping[str, FloatArray]:
        """Return the estimates of a rule, from the store where they are finished."""
        return store.arrays(
            f"points {rule} {self.key}",
            lambda: point_estimates(self.case, self.design, self.repeat, rule),
            hold=False,
        )


def measure(case: RankedModels, design: str, repeat: int, of: RankPrior, store: Store) -> Measured:
    """Return exact values and posteriors of a case, from the store where they are finished."""
    measured = Measured(case, design, repeat, exact_values(case, design), [])
    constants = {name: value for name, value in of.to_json().items() if name != "sharing"}
    drawn = store.arrays(
        f"posterior {measured.key} {json.dumps(constants)} {source_key()}",
        lambda: posteriors(case, design, repeat, of),
        hold=False,
    )
    for number in range(len(case.models)):
        if f"values-{number}" not in drawn:
            measured.posteriors.append(None)
            continue
        values, weights, unit, widening = (
            drawn[f"{name}-{number}"].astype(np.float64) for name in ("values", "weights", "unit", "widening")
        )
        measured.posteriors.append(MetricPosterior(values, weights, unit, 1, float(widening)))
    return measured


def family_sharing(measured: Sequence[Measured]) -> dict[str, float]:
    """Return the correlation of the scores of two models of one data set, by data set.

    The mean of all data sets is taken off first: what the prior gets wrong everywhere is not shared by the
    models of one data set. Every case, design and metric counts the same.
    """
    scores = [one.scores() for one in measured]
    centre = np.nanmean(np.concatenate(scores), axis=0)
    products: dict[str, list[float]] = {}
    squares: dict[str, list[float]] = {}
    for one, found in zip(measured, scores, strict=True):
        for column in (found - centre).T:
            z = column[np.isfinite(column)]
            if len(z) < 2:
                continue
            square = float((z**2).mean())
            products.setdefault(one.case.family, []).append(
                (float(z.sum()) ** 2 - len(z) * square) / (len(z) * (len(z) - 1))
            )
            squares.setdefault(one.case.family, []).append(square)
    return {name: float(np.sum(products[name]) / np.sum(squares[name])) for name in products}


def cautious_sharing(families: Mapping[str, float], without: str | None = None) -> float:
    """Return the sharing to count on with a new data set: the least of the known ones, at least 0."""
    others = [value for name, value in families.items() if name != without]
    return max(round(min(others, default=0.0), 2), 0.0)


def posterior_signs(measured: Measured, sharing: float) -> FloatArray:
    """Return the sign of each difference whose posterior interval excludes 0, else 0."""
    known = {str(number): one for number, one in enumerate(measured.posteriors) if one is not None}
    signs = np.zeros((len(measured.pairs), len(METRICS)))
    rows = [row for row, (a, b) in enumerate(measured.pairs) if str(a) in known and str(b) in known]
    if rows:
        named = [(str(a), str(b)) for a, b in (measured.pairs[row] for row in rows)]
        low, high = difference_posterior(known, named, sharing=sharing, seed=measured.repeat).limits(LEVEL)
        signs[rows] = (low > 0).astype(float) - (high < 0)
    return signs


def signs_of(measured: Measured, value: FloatArray, error: FloatArray | None = None) -> FloatArray:
    """Return the sign of each difference; 0 where it is within 1.96 standard errors, NaN without values."""
    gap = np.array([value[a] - value[b] for a, b in measured.pairs])
    signs: FloatArray = np.sign(gap)
    if error is not None:
        wide = np.array([np.hypot(error[a], error[b]) for a, b in measured.pairs])
        signs *= np.abs(gap) > wide * ndtri((1 + LEVEL) / 2)
    return signs


def bound_signs(measured: Measured, chosen: set[int], store: Store) -> FloatArray:
    """Return the sign of each chosen difference whose bounds exclude 0, else 0; NaN for the others.

    The bounds of two models hold together: each at half of 1 - level.
    """
    signs = np.full((len(measured.pairs), len(METRICS)), np.nan)
    if not chosen:
        return signs
    case, design, repeat = measured.case, measured.design, measured.repeat
    samples = case.samples(design, repeat)

    def limits(number: int) -> FloatArray:
        def compute() -> list[list[float]]:
            bounds = identification_bounds(
                tally(samples[number]).unbinned, METRICS, level=1 - (1 - LEVEL) / 2
            )
            return [[bound.low, bound.high] for bound in bounds]

        key = f"bounds {case.name} {design} {repeat} {case.models[number]}"
        return np.array(store.value(key, compute))

    for row in chosen:
        a, b = (limits(number) for number in measured.pairs[row])
        signs[row] = (a[:, 0] > b[:, 1]).astype(float) - (a[:, 1] < b[:, 0])
    return signs


@dataclass
class Tried:
    """Decisions of one rule: how many there were, how many decided, how many wrongly, by data set."""

    pairs: dict[str, int] = field(default_factory=dict)
    decided: dict[str, int] = field(default_factory=dict)
    wrong: dict[str, int] = field(default_factory=dict)

    def add(self, family: str, signs: FloatArray, exact: FloatArray) -> None:
        """Count the decisions of a case, beside the signs of the exact differences."""
        counts = np.isfinite(signs) & (exact != 0)
        decided = counts & (signs != 0)
        for total, found in (
            (self.pairs, counts),
            (self.decided, decided),
            (self.wrong, decided & (signs != exact)),
        ):
            total[family] = total.get(family, 0) + int(found.sum())

    def line(self) -> list[str]:
        """Return pairs, share decided, share wrong of the decided, and the data set with most wrong ones."""
        pairs, decided, wrong = (sum(of.values()) for of in (self.pairs, self.decided, self.wrong))
        if pairs == 0:
            return ["0", "", "", ""]
        share = {name: self.wrong[name] / self.decided[name] for name in self.wrong if self.decided[name]}
        worst = max(share, key=lambda name: share[name], default="")
        least = f"{100 * share[worst]:.1f} {worst}" if worst and share[worst] else ""
        return [
            f"{pairs:,}",
            f"{100 * decided / pairs:.1f}",
            f"{100 * wrong / max(decided, 1):.2f}",
            least,
        ]


def chosen_pairs(measured: Sequence[Measured], n: int) -> list[set[int]]:
    """Return which pairs of each case have their bounds computed: n at random of all of the first repeat."""
    all_pairs = [
        (number, row)
        for number, one in enumerate(measured)
        if one.repeat == 0
        for row in range(len(one.pairs))
    ]
    order = stream(0, "decisions/bounds").permutation(len(all_pairs))[:n]
    chosen: list[set[int]] = [set() for _ in measured]
    for place in order.tolist():
        number, row = all_pairs[place]
        chosen[number].add(row)
    return chosen


def decide(
    measured: Sequence[Measured], rule: str, families: Mapping[str, float], n_bounds: int, store: Store
) -> Tried:
    """Return the decisions of a rule in the cases of one row of the table.

    A posterior interval holds the difference by ``smooth``, as that of ``truerank compare`` does by default,
    so it decides only where both have the same sign.
    """
    tried = Tried()
    chosen = chosen_pairs(measured, n_bounds)
    for one, bounded in zip(measured, chosen, strict=True):
        if rule in ("posterior", "independent"):
            sharing = cautious_sharing(families, one.case.family) if rule == "posterior" else 0.0
            signs = posterior_signs(one, sharing)
            signs *= signs == signs_of(one, one.points("smooth", store)["value"])
        elif rule == "bounds":
            signs = bound_signs(one, bounded, store)
        else:
            points = one.points(rule, store)
            signs = signs_of(one, points["value"], points["error"] if rule == "delta" else None)
        tried.add(one.case.family, signs, signs_of(one, one.exact))
    return tried


def read_priors(folder: Path, cases: Sequence[RankedModels]) -> dict[str, RankPrior]:
    """Return the prior without each data set; the shipped one where it was not learnt, which is said."""
    priors = {}
    for family in sorted({case.family for case in cases}):
        path = folder / f"prior-without-{family}.json"
        if not path.exists():
            print(f"no prior without {family}: the shipped one is taken", file=sys.stderr)
        content = json.loads((path if path.exists() else SHIPPED).read_text())
        priors[family] = RankPrior.from_json(content["prior"])
    return priors


def measure_all(
    cases: Sequence[RankedModels], priors: Mapping[str, RankPrior], repeats: int, store: Store
) -> list[Measured]:
    """Return all cases, designs and repeats, and tell how far this is."""
    began, measured, done = time.monotonic(), [], 0
    total = sum(len(case.models) for case in cases) * len(DESIGNS) * repeats
    for repeat in range(repeats):
        for design in DESIGNS:
            for case in cases:
                measured.append(measure(case, design, repeat, priors[case.family], store))
                done += len(case.models)
                text = f"{done:,} of {total:,} samples, {time.monotonic() - began:.0f} s"
                print(f"{text}: {case.name}, {design}", file=sys.stderr, flush=True)
    return measured


def main() -> None:
    """Measure, print, and write what was learnt."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--keep", type=Path, help="folder of finished parts")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--most", type=int, help="models of a case, at random; default: all")
    parser.add_argument("--rules", default=",".join(RULES), help="what is compared")
    parser.add_argument("--bounds", type=int, default=150, help="pairs per row with bounds")
    parser.add_argument("--learn", action="store_true", help="write the sharing into the shipped prior")
    options = parser.parse_args()
    store, cases = Store(options.keep), read_cases(options.corpus, options.most)
    measured = measure_all(cases, read_priors(options.corpus, cases), options.repeats, store)
    families = family_sharing(measured)
    print("errors of two models share", {name: round(value, 3) for name, value in families.items()})
    print("to count on with a new data set:", cautious_sharing(families))
    if options.learn:
        content = json.loads(SHIPPED.read_text())
        content["prior"]["sharing"] = cautious_sharing(families)
        replace_text(SHIPPED, json.dumps(content, indent=1) + "\n", "the prior")
        return
    print("| negatives, seen | rule | pairs | decided % | wrong % | least favourable |")
    print("|---|---|---|---|---|---|")
    for design in DESIGNS:
        for seen in ("remove", "keep"):
            row = [one for one in measured if (one.design, one.case.seen) == (design, seen)]
            for rule in options.rules.split(","):
                line = decide(row, rule, families, options.bounds, store).line()
                print(f"| {design}, {seen} | {RULES[rule]} | {' | '.join(line)} |", flush=True)


if __name__ == "__main__":
    main()
