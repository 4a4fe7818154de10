"""Graded NDCG and ERR of 10,000 random problems, next to scikit-learn, ranx, ir_measures and the definitions.

A problem is a list of 5 to 40 items with grades 0 to 4. scikit-learn's ``ndcg_score`` averages over tied
scores and is compared on lists with ties; ranx and ir_measures (trec_eval; gdeval for ERR, which rounds to
five digits and needs perl) take an order of ties of their own and are compared on lists without. The mean
over all orders of ERR is enumerated on 300 small lists. Nothing is timed; a difference beyond 1e-12, or
beyond the rounding of gdeval, ends the run.

    python -m benchmarks.graded_metrics [--problems 10000] [--only ranx] [--out FILE]
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from truerank.core.errors import DataWarning
from truerank.core.types import FloatArray
from truerank.metrics.grades import GAINS
from truerank.metrics.registry import make_metrics
from truerank.metrics.trec import ranks_from_run, run_values

CUTOFFS = (1, 3, 10)
Problem = tuple[FloatArray, FloatArray]  # scores and grades of the items of a list


def problems(number: int, *, ties: bool, seed: int) -> list[Problem]:
    """Return random lists with at least one item of a grade above 0."""
    draw = np.random.default_rng(seed)
    found: list[Problem] = []
    for _ in range(number):
        size = int(draw.integers(5, 41))
        scores = draw.permutation(size) + 1.0
        grades = draw.integers(0, 5, size).astype(np.float64)
        grades[draw.random(size) < 0.5] = 0
        grades[draw.integers(size)] = draw.integers(1, 5)
        found.append((np.floor(scores / 4) + 1 if ties else scores, grades))
    return found


def ours(lists: Sequence[Problem], spec: str, form: str) -> FloatArray:
    """Return truerank's values, one per problem."""
    qrels, run = dictionaries(lists)
    ranked = ranks_from_run(run, qrels, gain=f"grade(form={form})")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # lists shorter than the cut-off
        return run_values(ranked, make_metrics(spec)).values[:, 0]


def dictionaries(lists: Sequence[Problem]) -> tuple[dict[str, dict[str, int]], dict[str, dict[str, float]]]:
    """Return judgements and scores by text ids."""
    names = [f"{100_000 + number}" for number in range(len(lists))]  # gdeval reads numbers
    qrels = {
        name: {f"d{item:02}": int(grade) for item, grade in enumerate(grades)}
        for name, (_, grades) in zip(names, lists, strict=True)
    }
    run = {
        name: {f"d{item:02}": float(score) for item, score in enumerate(scores)}
        for name, (scores, _) in zip(names, lists, strict=True)
    }
    return qrels, run


def of_scikit_learn(lists: Sequence[Problem], cutoff: int, form: str) -> FloatArray:
    """Return ``ndcg_score``, ties averaged."""
    from sklearn.metrics import ndcg_score

    rule = GAINS.make(f"rating(form={form})")
    return np.array([ndcg_score([rule.of_ratings(grades)], [scores], k=cutoff) for scores, grades in lists])


def of_ranx(lists: Sequence[Problem], cutoff: int, form: str) -> FloatArray:
    """Return ``ndcg`` or ``ndcg_burges``."""
    from ranx import Qrels, Run, evaluate

    qrels, run = dictionaries(lists)
    relevant = {query: {d: g for d, g in judged.items() if g > 0} for query, judged in qrels.items()}
    name = f"{'ndcg' if form == 'linear' else 'ndcg_burges'}@{cutoff}"
    return np.asarray(evaluate(Qrels(relevant), Run(run), name, return_mean=False), dtype=np.float64)


def of_ir_measures(name: str) -> Callable[[Sequence[Problem], int, str], FloatArray]:
    """Return a function that asks ir_measures for a measure."""

    def values(lists: Sequence[Problem], cutoff: int, form: str) -> FloatArray:
        import ir_measures

        parameters = "(dcg='exp-log2')" if name == "nDCG" and form == "exp2" else ""
        measure = ir_measures.parse_measure(f"{name}{parameters}@{cutoff}")
        found = {one.query_id: one.value for one in ir_measures.iter_calc([measure], *dictionaries(lists))}
        return np.array([found[query] for query in sorted(found)])

    return values


def literal_err(gains: Sequence[float], cutoff: int, highest: float) -> float:
    """Return ERR of a list in rank order, from the definition."""
    total, goes_on = 0.0, 1.0
    for rank, gain in enumerate(gains[:cutoff], start=1):
        total += goes_on * gain / (highest + 1) / rank
        goes_on *= 1 - gain / (highest + 1)
    return total


def enumerated(lists: Sequence[Problem], cutoff: int, form: str) -> FloatArray:
    """Return the mean of ERR over all orders of tied items."""
    rule = GAINS.make(f"rating(form={form})")
    means = []
    for scores, grades in lists:
        gains = rule.of_ratings(grades)
        blocks = [gains[scores == level].tolist() for level in sorted(set(scores), reverse=True)]
        orders = itertools.product(*(itertools.permutations(block) for block in blocks))
        found = [literal_err(list(itertools.chain(*order)), cutoff, 15.0) for order in orders]
        means.append(sum(found) / len(found))
    return np.array(means)


def comparisons(number: int, only: str | None = None) -> Iterator[dict[str, object]]:
    """Yield a row per library, metric, form and cut-off: the largest difference."""
    plain, tied = problems(number, ties=False, seed=0), problems(number, ties=True, seed=1)
    small = [
        (np.floor(scores[:7] / 8), np.append(grades[:6], 1.0)[: len(scores[:7])])
        for scores, grades in problems(min(number, 300), ties=False, seed=2)
    ]
    small = [one for one in small if one[1].any()]
    asked = (
        ("scikit-learn", "ndcg", tied, of_scikit_learn, "linear", 1e-12),
        ("scikit-learn", "ndcg", tied, of_scikit_learn, "exp2", 1e-12),
        ("ranx", "ndcg", plain, of_ranx, "linear", 1e-12),
        ("ranx", "ndcg", plain, of_ranx, "exp2", 1e-12),
        ("ir-measures", "ndcg", plain, of_ir_measures("nDCG"), "linear", 1e-12),
        ("ir-measures", "err(highest=15)", plain, of_ir_measures("ERR"), "exp2", 6e-6),
        ("all orders", "err(highest=15)", small, enumerated, "exp2", 1e-12),
    )
    for library, metric, lists, theirs, form, most in asked:
        for cutoff in CUTOFFS if only in (None, library) else ():
            row = {"library": library, "metric": f"{metric}@{cutoff}", "gain": form, "problems": len(lists)}
            try:
                wanted = theirs(lists, cutoff, form)
            except (ImportError, RuntimeError, OSError, subprocess.CalledProcessError) as error:
                yield {**row, "largest_difference": None, "note": f"not computed: {error}"}
                continue
            difference = float(np.abs(ours(lists, f"{metric}@{cutoff}", form) - wanted).max())
            if difference > most:
                raise SystemExit(f"{row}: values differ by {difference:g}, more than {most:g}")
            yield {**row, "largest_difference": difference, "allowed": most, "ties": lists is not plain}


def main() -> None:
    """Compare, print and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--problems", type=int, default=10_000)
    parser.add_argument("--only", help="one of the libraries, or 'all orders'")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows = []
    print(f"{'next to':14} {'metric':20} {'gain':8} {'problems':>9}  largest difference")
    for row in comparisons(options.problems, options.only):
        rows.append(row)
        found = row["largest_difference"]
        shown = row["note"] if found is None else f"{found:.1e}"
        named = f"{row['library']:14} {row['metric']:20} {row['gain']:8} {row['problems']:>9,}"
        print(f"{named}  {shown}", flush=True)
    if options.out is not None:
        options.out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
