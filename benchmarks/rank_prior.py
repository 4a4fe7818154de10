"""Learn the prior of posterior intervals from exact ranks.

python -m benchmarks.rank_corpus --keep CORPUS        exact ranks of many models on many data sets
python -m benchmarks.rank_prior CORPUS                learn the constants from all of them and write the file
                                                      that ships with the package
python -m benchmarks.rank_prior CORPUS --leave-out    and one prior without each data set, for benchmarks

The constants maximise the marginal likelihood of the exact ranks of models whose seen items are removed:
Laplace's approximation, summed over scales, each data set counted as at most ten models. The weights of the
shapes, for removed and for kept items, are those that predict a new data set: the mean over data sets of
their posterior probabilities, with half a data set in favour of each. Finished priors are kept and not
learnt again.

Roughness from rank to rank and how much wider than nominal an interval is are chosen, not learnt; the values
are in ``START``.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import xlogy

from truerank.core.parallel import single_threaded_blas
from truerank.core.types import FloatArray, IntArray
from truerank.estimation.distribution.likelihood import RankGrid
from truerank.inference.posterior import prior as prior_module
from truerank.inference.posterior.prior import SCALES, SHAPES, RankPrior, shape_heights

SHIPPED = Path(prior_module.__file__).with_name("rank_prior.json")
#: Data sets that are versions of one another are left out together.
FAMILIES = {"amazon-magazine-raw": "amazon-magazine", "amazon-magazine-svpcf": "amazon-magazine"}
FAMILIES |= {"book-crossing-2core": "book-crossing"}
RATIO = 1.25  # of the edges of bins in which exact ranks are counted
MOST = 10  # models that one data set counts as at most
PSEUDO = 0.25  # data sets in favour of each shape_heights
START = RankPrior(
    top_slope=-0.6,
    bulk_slope=-0.8,
    top_sd=0.3,
    bulk_sd=0.75,
    range=2.0,
    common_sd=0.1,
    rank_sd=0.06,
    local_sd=0.06,
    local_range=0.15,
    first_sd=0.25,
    spread=0.5,
    removed=(1.0,) * len(SHAPES),
    kept=(1.0,) * len(SHAPES),
    widening_removed=0.4,
    widening_kept=0.2,
    widening_many=0.6,
)
#: Learnt constants; those that are not slopes by their logarithm. The roughness from rank to rank (rank_sd,
#: local_sd, first_sd) is not learnt: one of eight data sets has nearly all of it, and the likelihood of the
#: others is largest without any. It is kept at what that one has, so that a new data set may have it.
LEARNT = (
    "top_slope",
    "bulk_slope",
    "top_sd",
    "bulk_sd",
    "range",
    "common_sd",
    "spread",
)
_SLOPES = 2
#: Wide normal priors of the logarithms keep constants that hardly matter from running off.
_CENTRE = np.array([-0.6, -0.8, *np.log([0.3, 0.75, 2.0, 0.1, 0.5])])
_WIDTH = np.array([1.0, 1.0, *[1.0] * 4, 0.5])


@dataclass(frozen=True, eq=False)
class Counted:
    """Exact ranks of the models of one data set and split, counted in bins.

    Parameters
    ----------
    family, name : the data set, and its version and split
    models : spec of each
    grid : bins of ranks
    counts : (n_models, n_bins)
    """

    family: str
    name: str
    models: tuple[str, ...]
    grid: RankGrid
    counts: FloatArray


def count_edges(n_ranks: int) -> IntArray:
    """Return edges of bins: single ranks first, then a constant ratio, mirrored in the lower half."""
    edges = [*range(9)]
    while edges[-1] < n_ranks / 2:
        edges.append(max(edges[-1] + 1, round(edges[-1] * RATIO)))
    upper = np.array([edge for edge in edges if edge <= n_ranks // 2])
    lower = n_ranks - upper[upper >= max(8, n_ranks // 64)]
    return np.unique(np.concatenate([upper, lower, [n_ranks]]))


def read_corpus(folder: Path, seen: str) -> list[Counted]:
    """Return the exact ranks of a folder with seen items removed or kept (``remove``, ``keep``)."""
    cases: dict[tuple[str, str, int], list[tuple[str, FloatArray]]] = {}
    for path in sorted(folder.glob(f"*__{seen}.npz")):
        name, split, model, _ = path.stem.split("__")
        columns = np.load(path)
        generator = np.random.default_rng(1)  # ties are broken at random once
        above = columns["n_above"] + generator.integers(0, columns["n_tied"] + 1)
        cases.setdefault((name, split, int(columns["n_pool"].max())), []).append((model, above + 1))
    result = []
    for (name, split, n_ranks), models in cases.items():
        edges = count_edges(n_ranks)
        counts = np.stack([np.histogram(ranks, bins=edges + 0.5)[0] for _, ranks in models])
        result.append(
            Counted(
                FAMILIES.get(name, name),
                f"{name}, {split}",
                tuple(model for model, _ in models),
                RankGrid(edges),
                counts.astype(np.float64),
            )
        )
    return result


def log_marginals(
    prior: RankPrior, counted: Counted, shapes: Iterable[tuple[str, float, float]]
) -> FloatArray:
    """Return the log marginal likelihood of each model's counts, (n_models, n_shapes, n_scales).

    Laplace's approximation at the mode, found by Newton's method for all of them at once.
    """
    mean, covariance = prior.moments(counted.grid)
    basis = np.linalg.cholesky(covariance + 1e-9 * np.eye(len(mean)))
    height = mean + np.log(np.diff(counted.grid.edges))
    offsets = np.stack([height + shape_heights(counted.grid, *shape) for shape in shapes])
    n_models, n_bins = counted.counts.shape
    shape = (n_models, len(offsets), len(SCALES))
    counts = np.broadcast_to(counted.counts[:, None, None], (*shape, n_bins)).reshape(-1, n_bins)
    offset = np.broadcast_to(offsets[None, :, None], (*shape, n_bins)).reshape(-1, n_bins)
    scale = np.broadcast_to(SCALES, shape).reshape(-1, 1)
    result = np.empty(len(counts))
    step = max((1 << 23) // n_bins**2, 1)
    for start in range(0, len(counts), step):
        part = slice(start, start + step)
        result[part] = _laplace(counts[part], offset[part], scale[part], basis)
    return result.reshape(shape)


def _laplace(counts: FloatArray, offset: FloatArray, scale: FloatArray, basis: FloatArray) -> FloatArray:
    n, x = counts.sum(axis=1), np.zeros_like(counts)

    def evaluate(x: FloatArray) -> tuple[FloatArray, FloatArray]:
        heights = offset + scale * (x @ basis.T)
        heights -= heights.max(axis=1, keepdims=True)
        masses = np.exp(heights)
        total = masses.sum(axis=1, keepdims=True)
        log_masses = heights - np.log(total)
        return masses / total, (counts * log_masses).sum(axis=1) - (x**2).sum(axis=1) / 2

    masses, height = evaluate(x)
    for _ in range(40):
        gradient = scale * ((counts - n[:, None] * masses) @ basis) - x
        precision = _precision(n, masses, scale, basis)
        direction = np.linalg.solve(precision, gradient[..., None])[..., 0]
        gain = (gradient * direction).sum(axis=1) / 2
        if (gain < 1e-4).all():
            break
        size = np.ones(len(x))
        for _ in range(20):
            moved = x + size[:, None] * direction
            masses_there, height_there = evaluate(moved)
            is_lower = ~(height_there >= height + 0.1 * size * gain - 1e-9)
            if not is_lower.any():
                break
            size[is_lower] /= 2
        x, masses, height = moved, masses_there, height_there
    _, logs = np.linalg.slogdet(_precision(n, masses, scale, basis))
    result: FloatArray = height - logs / 2
    return result


def _precision(n: FloatArray, masses: FloatArray, scale: FloatArray, basis: FloatArray) -> FloatArray:
    weighted = np.sqrt(masses)[:, :, None] * basis
    mean = masses @ basis
    inner: FloatArray = np.matmul(weighted.transpose(0, 2, 1), weighted) - mean[:, :, None] * mean[:, None, :]
    inner *= (n * scale[:, 0] ** 2)[:, None, None]
    inner += np.eye(len(basis))
    return inner


def to_vector(prior: RankPrior) -> FloatArray:
    """Return the learnt constants as a vector."""
    values = np.array([getattr(prior, name) for name in LEARNT])
    values[_SLOPES:] = np.log(values[_SLOPES:])
    return values


def from_vector(vector: FloatArray, start: RankPrior = START) -> RankPrior:
    """Return the prior with the learnt constants of a vector."""
    values = [*vector[:_SLOPES], *np.exp(vector[_SLOPES:])]
    learnt = {name: float(value) for name, value in zip(LEARNT, values, strict=True)}
    return RankPrior.from_json(start.to_json() | learnt)


def model_weights(corpus: list[Counted]) -> list[float]:
    """Return the weight of the models of each entry: a data set counts as at most ``MOST`` models."""
    sizes: dict[str, int] = {}
    for counted in corpus:
        sizes[counted.family] = sizes.get(counted.family, 0) + len(counted.models)
    return [min(1.0, MOST / sizes[counted.family]) for counted in corpus]


def learn_constants(corpus: list[Counted], start: RankPrior, *, verbose: bool = True) -> RankPrior:
    """Return the prior with the constants that make the exact ranks most probable."""
    weights = model_weights(corpus)
    largest = [xlogy(c.counts, c.counts / c.counts.sum(axis=1, keepdims=True)).sum(axis=1) for c in corpus]
    began, calls = time.monotonic(), 0

    def loss(vector: FloatArray) -> float:
        nonlocal calls
        calls += 1
        prior = from_vector(vector, start)
        scales = np.log(np.maximum(prior.scale_weights(), 1e-300))
        total = 0.0
        for counted, weight, most in zip(corpus, weights, largest, strict=True):
            heights = log_marginals(prior, counted, SHAPES[:1])[:, 0] + scales
            total += weight * float((most - np.logaddexp.reduce(heights, axis=1)).sum())
        return total + float((((vector - _CENTRE) / _WIDTH) ** 2).sum()) / 2

    def report(vector: FloatArray) -> None:
        if verbose:
            height = loss(vector)
            print(f"  {time.monotonic() - began:6.0f} s, {calls} evaluations, {height:.2f}", flush=True)

    found = minimize(  # type: ignore[call-overload]  # the stubs know no options of this method
        loss,
        to_vector(start),
        method="L-BFGS-B",
        bounds=[(centre - 3, centre + 3) for centre in _CENTRE.tolist()],
        callback=report,
        options={"maxiter": 40, "eps": 1e-3, "ftol": 2e-6},
    )
    return from_vector(found.x, start)


def learn_shapes(prior: RankPrior, corpus: list[Counted], allowed: Sequence[bool]) -> tuple[float, ...]:
    """Return the weights of shapes that predict those of a new data set; 0 for those not allowed."""
    weights, n = model_weights(corpus), len(SHAPES)
    pseudo = PSEUDO * np.array(allowed)
    scales = np.log(np.maximum(prior.scale_weights(), 1e-300))
    heights = [
        np.logaddexp.reduce(log_marginals(prior, counted, SHAPES) + scales, axis=2) for counted in corpus
    ]
    families = sorted({counted.family for counted in corpus})
    share = pseudo / pseudo.sum()
    for _ in range(200):
        of_family = dict.fromkeys(families, 0.0)
        votes = {family: np.zeros(n) for family in families}
        for counted, height, weight in zip(corpus, heights, weights, strict=True):
            posterior = np.exp(height - height.max(axis=1, keepdims=True)) * share
            posterior /= posterior.sum(axis=1, keepdims=True)
            votes[counted.family] += weight * posterior.sum(axis=0)
            of_family[counted.family] += weight * len(posterior)
        means = sum(votes[family] / of_family[family] for family in families)
        share = np.asarray(means + pseudo) / (len(families) + pseudo.sum())
    return tuple(float(value) for value in share.round(5))


def _is_usual(kind: str, size: float, more: float) -> bool:
    """Whether a shape has another reason than seen items that stay in the list."""
    return kind != "shift" and not (kind == "drop" and more > 1)


def learn(folder: Path, without: str | None, start: RankPrior, *, verbose: bool = True) -> dict[str, Any]:
    """Return the file's content: the prior and what it was learnt from."""
    removed, kept = (
        [counted for counted in read_corpus(folder, seen) if counted.family != without]
        for seen in ("remove", "keep")
    )
    with single_threaded_blas():
        prior = learn_constants(removed, start, verbose=verbose)
        prior = replace(prior, **{name: round(getattr(prior, name), 4) for name in LEARNT})
        prior = replace(
            prior,
            removed=learn_shapes(prior, removed, [_is_usual(*shape) for shape in SHAPES]),
            kept=learn_shapes(prior, kept, [True] * len(SHAPES)),
        )
    return {
        "prior": prior.to_json(),
        "learnt_from": [
            {
                "data": counted.name,
                "items": counted.grid.n_ranks,
                "users": int(counted.counts[0].sum()),
                "models": list(counted.models),
            }
            for counted in removed
        ],
        "command": "python -m benchmarks.rank_prior",
    }


def main() -> None:
    """Learn and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--out", type=Path, default=SHIPPED)
    parser.add_argument("--leave-out", action="store_true", help="also learn without each data set")
    options = parser.parse_args()
    content = json.loads(options.out.read_text()) if options.out.exists() else {}
    if "learnt_from" not in content:
        content = learn(options.corpus, None, START)
        options.out.write_text(json.dumps(content, indent=1) + "\n")
    full = RankPrior.from_json(content["prior"])
    print({name: round(getattr(full, name), 3) for name in LEARNT})
    print("removed", full.removed, "kept", full.kept)
    if options.leave_out:
        for family in sorted({counted.family for counted in read_corpus(options.corpus, "remove")}):
            path = options.corpus / f"prior-without-{family}.json"
            if not path.exists():
                path.write_text(json.dumps(learn(options.corpus, family, full), indent=1) + "\n")
            prior = RankPrior.from_json(json.loads(path.read_text())["prior"])
            print("without", family, {name: round(getattr(prior, name), 3) for name in LEARNT}, flush=True)


if __name__ == "__main__":
    main()
