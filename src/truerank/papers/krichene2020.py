"""Krichene and Rendle (2020), On Sampled Metrics for Item Recommendation: X, Y and Z on MovieLens-1M.

The paper repeats its experiment 100 times; here expectation and covariance over all samples are computed, so
that nothing is random but the start of X. A ``Protocol`` is one reading of what the paper leaves open: how
negatives were drawn, what the corrections assume, how CLS was fitted and how ties were broken. ``LIKELY``
was inferred from the printed numbers, ``FORMER`` is what these recipes took before; ``laws`` compares all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations
from typing import Literal

import numpy as np
from scipy.special import ndtr

from truerank.core.digest import data_hash
from truerank.core.interactions import Interactions
from truerank.core.progress import SILENT, Progress, tracked
from truerank.core.ranks import Ranks, SampledRanks
from truerank.core.split import Split
from truerank.core.types import FloatArray, IntArray
from truerank.data.catalogue import load
from truerank.estimation.expectation import corrected_values
from truerank.estimation.law import FixedLaw, make_law
from truerank.estimation.registry import ESTIMATORS
from truerank.estimation.tally import tally
from truerank.metrics.registry import make_metrics, values
from truerank.models.registry import MODELS
from truerank.papers.expected_metrics import sampled_rank_chances
from truerank.papers.outcome import PaperNumber, RecipeOutcome, independent_cells
from truerank.papers.recipe import Settings, printed
from truerank.papers.store import PaperStore
from truerank.ranking.exact import exact_ranks
from truerank.split.base import make_split

N_NEGATIVES = 100
REPEATS = 100
METRICS = {"Recall": "recall@10", "NDCG": "ndcg@10", "AP": "ap", "AUC": "auc"}
#: those that the choice of a protocol was judged by; AUC has ties and a denominator of its own
JUDGED = ("Recall", "NDCG", "AP")
CLS = "CLS"
ESTIMATED = {
    "Sampled": "naive",
    "RankEstimate": "rank-estimate",
    CLS: "",
    "BV_1": "bv(gamma=1)",
    "BV_0.1": "bv(gamma=0.1)",
    "BV_0.01": "bv(gamma=0.01)",
    "BV_0.001": "bv(gamma=0.001)",
}
#: CLS with values of any sign, with x >= 0 as a constraint of the fit, and with negative values set to 0
CLS_VARIANTS = {"any sign": "cls", "x >= 0": "cls(positive=true)", "clipped": "cls(clip=true)"}
#: sweeps and seed of X whose exact metrics are nearest to the printed ones, see ``fit_x``
X_SWEEPS, X_SEED = 6, 11
#: starts of X whose spread is part of the errors of its numbers
X_STARTS = 20
_START = "the paper gives neither the start nor the sweeps of X"
_REASON = "the paper's rank estimate of AUC fits a denominator of m + 1 better than its m"
_CHOSEN = "X was chosen by its exact row, which is therefore no evidence"


@dataclass(frozen=True)
class Protocol:
    """One reading of the experiment behind Tables 3 and 4.

    Parameters
    ----------
    replacement : whether an item can be drawn twice for one target
    assumed : whether the corrections assume draws with replacement, as the formulas of the paper do
    pool : number of items n in the corrections: each user's ``own`` (in bins of 1 %), the ``mean`` over users
        rounded, that of the whole ``catalogue``, or a number
    cls : the estimator that stands for CLS
    can_be_last : whether a target that ties with sampled items can take the last place among them
    """

    replacement: bool = False
    assumed: bool = True
    pool: Literal["own", "mean", "catalogue"] | int = "mean"
    cls: str = CLS_VARIANTS["x >= 0"]
    can_be_last: bool = False

    def __str__(self) -> str:
        drawn = "with" if self.replacement else "without"
        assumed = "" if self.assumed == self.replacement else ", corrected as if with"
        pool = "own n" if self.pool == "own" else f"n = {assumed_pool(self.pool):,}"
        return f"drawn {drawn} replacement{assumed}, {pool}"


#: what fits the printed numbers, inferred from them
LIKELY = Protocol()
#: what these recipes took before
FORMER = Protocol(replacement=True, pool="own", cls=CLS_VARIANTS["clipped"], can_be_last=True)


@dataclass(frozen=True, eq=False)
class SampledMetrics:
    """Estimates of one recommender over all samples, in percent.

    Parameters
    ----------
    mean : (7, 4) expectations by estimator and metric
    covariance : (28, 28) of these in one run, in which all estimators see the same sample
    """

    mean: FloatArray
    covariance: FloatArray

    @property
    def sd(self) -> FloatArray:
        """Standard deviation of each estimate over runs, (7, 4)."""
        return np.sqrt(np.diag(self.covariance)).reshape(self.mean.shape)


@dataclass(frozen=True, eq=False)
class Experiment:
    """What Tables 3 and 4 are made of.

    Parameters
    ----------
    exact : (3, 4) exact metrics in percent, ties in the mean over all orders
    tied : (4, 4) covariance of the exact metrics of Z over random orders of tied items
    sampled : of X, Y and Z
    starts : of X from other starts
    exact_starts : (X_STARTS, 4) exact metrics of these
    """

    exact: FloatArray
    tied: FloatArray
    sampled: tuple[SampledMetrics, ...]
    starts: tuple[SampledMetrics, ...]
    exact_starts: FloatArray


@lru_cache(maxsize=1)
def movielens() -> Split:
    """Return MovieLens-1M with the leave-one-out split of He et al. (2017)."""
    data: Interactions = load("ml-1m", keep=["ncf_split"])
    return make_split(data, "column(name=ncf_split)")


@lru_cache(maxsize=1)
def _digest() -> str:
    return data_hash(movielens())


_fitted: dict[str, Ranks] = {}


def recommender_ranks(store: PaperStore | None = None) -> dict[str, Ranks]:
    """Return the exact ranks of X, Y and Z, seen items removed; fitted once per process.

    Parameters
    ----------
    store : where they are kept between processes
    """
    of_x = _kept_ranks("X", store, X_SWEEPS, X_SEED)
    return {"X": of_x, **{name: _kept_ranks(name, store) for name in "YZ"}}


def _kept_ranks(name: str, store: PaperStore | None, sweeps: int = 0, seed: int = 0) -> Ranks:
    key = f"kr20 ranks of {name} {_digest()} sweeps={sweeps} seed={seed}"
    if key not in _fitted:
        _fitted[key] = (store or PaperStore()).ranks_by(
            key, lambda: _fit_of_x(sweeps, seed) if name == "X" else _fit_of(name)
        )
    return _fitted[key]


def _fit_of(name: str) -> Ranks:
    split = movielens()
    return exact_ranks(MODELS.make(f"kr20-{name.lower()}").fit(split.train), split)


def _fit_of_x(sweeps: int, seed: int) -> Ranks:
    split = movielens()
    return exact_ranks(MODELS.make(f"kr20-x(sweeps={sweeps})").fit(split.train, seed=seed), split)


def ranks_of_starts(progress: Progress = SILENT, store: PaperStore | None = None) -> list[Ranks]:
    """Return the exact ranks of X from ``X_STARTS`` starts, fitted once per process."""
    starts = []
    with tracked(progress, "starts of X", X_STARTS) as task:
        for seed in range(X_STARTS):
            starts.append(_kept_ranks("X", store, X_SWEEPS, seed))
            task.advance()
    return starts


def mean_pool() -> int:
    """Return the mean number of items that a user has not seen, the target included, rounded."""
    return round(float(recommender_ranks()["Y"].n_pool.mean()))


def catalogue() -> int:
    """Return the number of items."""
    return movielens().train.n_items


def assumed_pool(pool: str | int) -> int:
    """Return n of the corrections: a number, or that which ``mean`` or ``catalogue`` stands for."""
    named = {"mean": mean_pool, "catalogue": catalogue}
    return pool if isinstance(pool, int) else named[pool]()


@lru_cache(maxsize=12)
def _chances(name: str, replacement: bool, can_be_last: bool) -> FloatArray:
    ranks = recommender_ranks()[name]
    return sampled_rank_chances(ranks, N_NEGATIVES, replacement=replacement, can_be_last=can_be_last)


def sampled_metrics(
    ranks: Ranks, protocol: Protocol = LIKELY, chances: FloatArray | None = None
) -> SampledMetrics:
    """Return expectation and covariance of all estimates of one recommender under a protocol.

    Parameters
    ----------
    ranks : exact ranks
    protocol : how the experiment is read
    chances : of the sampled ranks, where they were computed before
    """
    if chances is None:
        chances = sampled_rank_chances(
            ranks, N_NEGATIVES, replacement=protocol.replacement, can_be_last=protocol.can_be_last
        )
    sizes = _candidates(ranks, protocol)
    shape = len(ESTIMATED), len(METRICS)
    mean, square = np.zeros(np.prod(shape)), np.zeros((np.prod(shape), np.prod(shape)))
    for size in np.unique(sizes).tolist():
        law = make_law(size, N_NEGATIVES, replacement=protocol.assumed)
        x = corrected_table(law, protocol.cls).reshape(-1, N_NEGATIVES + 1)
        rows = chances[sizes == size]
        of_user, total = rows @ x.T, rows.sum(axis=0)
        mean += x @ total
        square += (x * total) @ x.T - of_user.T @ of_user
    return SampledMetrics(100 * mean.reshape(shape) / len(ranks), 100**2 * square / len(ranks) ** 2)


def _candidates(ranks: Ranks, protocol: Protocol) -> IntArray:
    """Return the number of irrelevant items that the correction assumes for each row."""
    if protocol.pool == "own":
        zeros = np.zeros(len(ranks), dtype=np.int64)
        pools = tally(SampledRanks.single(zeros, n_negatives=N_NEGATIVES, n_pool=ranks.n_pool))
        return pools.contexts.n_candidates[pools.context]
    return np.full(len(ranks), assumed_pool(protocol.pool) - 1)


def corrected_table(law: FixedLaw, cls: str) -> FloatArray:
    """Return the corrected values of all estimators and metrics, (7, 4, m + 1)."""
    metrics = make_metrics(list(METRICS.values()))
    specs = {**ESTIMATED, CLS: cls}.values()
    return np.array(
        [[corrected_values(ESTIMATORS.make(spec), metric, law) for metric in metrics] for spec in specs]
    )


_finished: list[Experiment] = []


def experiment(progress: Progress = SILENT, store: PaperStore | None = None) -> Experiment:
    """Return what Tables 3 and 4 are made of, computed once per process; the store keeps the fits."""
    if not _finished:
        metrics = make_metrics(list(METRICS.values()))
        ranks, starts = recommender_ranks(store), ranks_of_starts(progress, store)
        found = Experiment(
            np.array([100 * values(metrics, each).mean(axis=0) for each in ranks.values()]),
            _tied_covariance(ranks["Z"]),
            tuple(_under(LIKELY, name) for name in ranks),
            tuple(sampled_metrics(each) for each in starts),
            np.array([100 * values(metrics, each).mean(axis=0) for each in starts]),
        )
        _finished.append(found)
    return _finished[0]


def _under(protocol: Protocol, name: str) -> SampledMetrics:
    chances = _chances(name, protocol.replacement, protocol.can_be_last)
    return sampled_metrics(recommender_ranks()[name], protocol, chances)


def _tied_covariance(ranks: Ranks) -> FloatArray:
    """Return the covariance of the exact metrics, in percent, over random orders of tied items."""
    metrics = make_metrics(list(METRICS.values()))
    total = np.zeros((len(metrics), len(metrics)))
    for row in np.flatnonzero(ranks.n_tied):
        place = np.arange(ranks.best[row], ranks.worst[row] + 1)
        one = np.ones_like(place)
        gains = [metric.gain(place, 0 * one, one, ranks.n_pool[row] * one) for metric in metrics]
        total += np.cov(np.stack([np.broadcast_to(gain, place.shape) for gain in gains]), bias=True)
    covariance: FloatArray = 100**2 * total / len(ranks) ** 2
    return covariance


def table3(settings: Settings) -> RecipeOutcome:
    """Compute exact metrics, and expected sampled and corrected ones, under the likely protocol."""
    found = experiment(settings.progress, settings.store)
    cells = []
    for row in printed("kr20", "table3"):
        name, metric = row["recommender"], row["metric"]
        at, column = "XYZ".index(name), list(METRICS).index(metric)
        spread = found.exact_starts[:, column].std(ddof=1) if name == "X" else 0.0
        error = np.hypot(spread, np.sqrt(found.tied[column, column]) if name == "Z" else 0.0)
        label, exact = f"{metric} {name}", float(found.exact[at, column])
        cells.append(PaperNumber(label, "Exact", row["values"]["Exact"], exact, float(error)))
        cells.extend(_sampled_cells(label, row["values"], at, column))
    return RecipeOutcome(
        tuple(cells),
        notes=(*_before_and_after(), *_check_of_sds(), _CHOSEN),
        reason=_REASON,
        independent=independent_cells(_correlations(found)),
    )


def _correlations(found: Experiment) -> list[FloatArray]:
    """Return the correlations of the cells of X, of Y and of Z that have an error.

    The corrections of a run see the same sample; the start moves all cells of X.
    """
    rows = [
        np.concatenate([exact, start.mean.ravel()])
        for exact, start in zip(found.exact_starts, found.starts, strict=True)
    ]
    x, y, z = (each.covariance / REPEATS for each in found.sampled)
    blocks = [np.cov(np.array(rows), rowvar=False), y, z, found.tied]
    blocks[0][-len(x) :, -len(x) :] += x
    correlations: list[FloatArray] = []
    for block in blocks:
        has_error = np.diag(block) > 0
        covariance = block[np.ix_(has_error, has_error)] + np.eye(has_error.sum()) * 0.01**2 / 12  # rounding
        scale = 1 / np.sqrt(np.diag(covariance))
        correlations.append(covariance * scale * scale[:, None])
    return correlations


def _sampled_cells(
    label: str, shown: Mapping[str, dict[str, float]], at: int, column: int
) -> Iterator[PaperNumber]:
    """Yield sampled and corrected metrics; errors are those of print, and of the start of X."""
    found = experiment()
    for index, estimator in enumerate(ESTIMATED):
        theirs = shown[estimator]
        error = theirs["sd"] / np.sqrt(REPEATS)
        if at == 0:
            error = np.hypot(error, np.std([each.mean[index, column] for each in found.starts], ddof=1))
        value = float(found.sampled[at].mean[index, column])
        cell = PaperNumber(label, estimator, theirs["mean"], value, float(error))
        is_shrunk = estimator == "RankEstimate" and list(METRICS)[column] == "AUC"
        yield replace(cell, note=_floor_note(cell, "XYZ"[at])) if is_shrunk else cell


def _floor_note(cell: PaperNumber, name: str) -> str:
    """Return that m + 1 gives the printed rank estimate of AUC where it does within three standard errors."""
    chances = _chances(name, LIKELY.replacement, LIKELY.can_be_last).mean(axis=0)
    last = mean_pool() - 1
    places = np.floor(last * np.arange(N_NEGATIVES + 1) / (N_NEGATIVES + 1))
    other = replace(cell, value=float(100 * chances @ (1 - places / last)))
    if other.z is None or abs(other.z) > 3:
        return ""
    return f"a denominator of m + 1 instead of m gives {other.value:.2f}"


def beside_print(found: Mapping[str, SampledMetrics], metrics: Sequence[str] = JUDGED) -> list[PaperNumber]:
    """Return the sampled and corrected metrics of some recommenders with the errors of the printed ones."""
    return [
        PaperNumber(
            f"{row['metric']} {row['recommender']}",
            estimator,
            row["values"][estimator]["mean"],
            float(found[row["recommender"]].mean[index, list(METRICS).index(row["metric"])]),
            row["values"][estimator]["sd"] / np.sqrt(REPEATS),
        )
        for row in printed("kr20", "table3")
        if row["recommender"] in found and row["metric"] in metrics
        for index, estimator in enumerate(ESTIMATED)
    ]


def chi_square(cells: Iterable[PaperNumber]) -> float:
    """Return the sum of the squares of the z-scores."""
    return float(sum(cell.z**2 for cell in cells if cell.z is not None))


def count_within(cells: Iterable[PaperNumber], limit: float = 2.0) -> int:
    """Return how many cells lie within so many standard errors of print."""
    return sum(cell.z is not None and abs(cell.z) <= limit for cell in cells)


def _before_and_after() -> list[str]:
    """Return how the former and the likely protocol fit Y and Z, which are not random."""
    notes = []
    for when, protocol in (("before", FORMER), ("now", LIKELY)):
        cells = beside_print({name: _under(protocol, name) for name in "YZ"})
        of_y = [cell for cell in cells if cell.row.endswith("Y")]
        notes.append(
            f"{when}, {protocol}, {protocol.cls}: chi-square {chi_square(of_y):.0f} over the {len(of_y)} "
            f"cells of recall, NDCG and AP of Y; {count_within(cells)} of {len(cells)} of Y and Z within 2 "
            "standard errors"
        )
    notes.append("the protocol was inferred from the printed numbers; kr20.laws compares all that were tried")
    return notes


def _check_of_sds() -> list[str]:
    """Return how the printed standard deviations fit, which took no part in the choice of the protocol."""
    found, cells = experiment(), []
    for row in printed("kr20", "table3"):
        at, column = "XYZ".index(row["recommender"]), list(METRICS).index(row["metric"])
        for index, estimator in enumerate(ESTIMATED):
            ours, theirs = float(found.sampled[at].sd[index, column]), row["values"][estimator]["sd"]
            # the standard deviation of n normal numbers has the standard error sd / sqrt(2 n), about
            error = ours / np.sqrt(2 * REPEATS)
            label = f"{row['metric']} {row['recommender']}"
            cells.append(PaperNumber(label, estimator, theirs, ours, error))
    tied = [cell for cell in cells if cell.row == "AUC Z"]
    shown = sorted(cell.printed for cell in tied if cell.printed is not None)
    return [
        f"the {len(cells)} printed standard deviations took no part in that choice: chi-square "
        f"{chi_square(cells):.0f}, {count_within(cells)} within 2 standard errors",
        f"AUC of Z varies from run to run by {shown[0]} to {shown[-1]} in print and by {tied[0].value:.2f} "
        f"here, where every run breaks ties at random, by {_spread_of_fixed_order():.2f} at most if their "
        "order is the same in all runs",
    ]


def _spread_of_fixed_order() -> float:
    """Return the largest standard deviation of the sampled AUC of Z if ties are lost, won or halved."""
    ranks = recommender_ranks()["Z"]
    orders = (ranks.n_above + ranks.n_tied * half // 2 for half in range(3))
    fixed = (sampled_metrics(Ranks.single(above, n_pool=ranks.n_pool)) for above in orders)
    return max(float(each.sd[0, -1]) for each in fixed)


def laws(settings: Settings) -> RecipeOutcome:
    """Compare readings of the experiment with print: nine of the sampling law, three of CLS, two of ties."""
    recommender_ranks(settings.store)
    pools: tuple[Literal["own", "mean", "catalogue"], ...] = ("own", "mean", "catalogue")
    cells = []
    for replacement, assumed in ((True, True), (False, True), (False, False)):
        for pool in pools:
            protocol = Protocol(replacement, assumed, pool, can_be_last=True)
            for variant, spec in CLS_VARIANTS.items():
                found = {name: _under(replace(protocol, cls=spec), name) for name in "YZ"}
                both, row = beside_print(found), str(protocol)
                of_y = [cell for cell in both if cell.row.endswith("Y")]
                cells.append(PaperNumber(row, f"CLS {variant}", None, chi_square(of_y), digits=0))
                cells.append(PaperNumber(row, f"{variant}, within 2", None, count_within(both), digits=0))
    notes = [
        f"chi-square over the {len(of_y)} cells of recall, NDCG and AP of Y, by CLS; and how many of the "
        f"{len(both)} of Y and Z lie within 2 standard errors of print",
        "all were computed after the printed numbers were known, and the best was taken",
        *_scan_of_pools(),
        *_tie_rules(),
    ]
    return RecipeOutcome(tuple(cells), notes=tuple(notes))


def _scan_of_pools() -> list[str]:
    """Return which pool size fits best, to tell whether the mean is a fitted number."""
    sizes = range(mean_pool() - 60, mean_pool() + 61, 5)
    fits = [chi_square(beside_print({"Y": _under(Protocol(pool=size), "Y")})) for size in sizes]
    best = int(np.argmin(fits))
    return [
        f"of pool sizes from {sizes[0]:,} to {sizes[-1]:,} in steps of {sizes.step}, chi-square is smallest "
        f"at n = {sizes[best]:,} ({fits[best]:.0f}); the mean pool has {mean_pool():,} items"
    ]


def _tie_rules() -> list[str]:
    """Return how two rules for ties fit the AUC of Z, without the rank estimate, which has an m + 1."""
    notes = []
    for can_be_last, rule in ((True, "any place"), (False, "any place but the last")):
        found = {"Z": _under(replace(LIKELY, can_be_last=can_be_last), "Z")}
        cells = [cell for cell in beside_print(found, ["AUC"]) if cell.column != "RankEstimate"]
        notes.append(
            f"ties at random, {rule}: chi-square {chi_square(cells):.0f} over the {len(cells)} cells of AUC "
            f"of Z (sampled {cells[0].value:.2f}, printed {cells[0].printed})"
        )
    return notes


def table4(settings: Settings) -> RecipeOutcome:
    """Compute how often, of 100 runs, a pair of recommenders is ordered as by the exact metric."""
    found = experiment(settings.progress, settings.store)
    rows = {(row["pair"], row["metric"]): row["values"] for row in printed("kr20", "table4")}
    cells = []
    for first, second in combinations(range(3), 2):
        pair = f"{'XYZ'[first]} vs {'XYZ'[second]}"
        fraction = _ordered(
            found.sampled[first], found.sampled[second], found.exact[first], found.exact[second]
        )
        by_start = [
            _ordered(start, found.sampled[second], exact, found.exact[second])
            for start, exact in zip(found.starts, found.exact_starts, strict=True)
        ]
        spread = np.std(by_start, axis=0, ddof=1) if first == 0 else np.zeros_like(fraction)
        error = 100 * np.hypot(np.sqrt(fraction * (1 - fraction) / REPEATS), spread)
        for column, metric in enumerate(METRICS):
            for index, estimator in enumerate(ESTIMATED):
                theirs = rows[pair, metric][estimator]
                value, cell_error = 100 * float(fraction[index, column]), float(error[index, column])
                cells.append(PaperNumber(f"{metric} {pair}", estimator, theirs, value, cell_error, digits=0))
    return RecipeOutcome(tuple(cells), reason=_START)


def _ordered(
    first: SampledMetrics, second: SampledMetrics, exact_first: FloatArray, exact_second: FloatArray
) -> FloatArray:
    """Return the probability that a run orders two recommenders as the exact metrics do, (7, 4).

    The runs of the two are independent. A mean over 6,040 users is as good as normal.
    """
    gap = (first.mean - second.mean) * np.sign(exact_first - exact_second)
    fraction: FloatArray = ndtr(gap / np.hypot(first.sd, second.sd))
    return fraction


def fit_x(settings: Settings) -> RecipeOutcome:
    """Search sweeps and starts of X for its printed exact row."""
    metrics = make_metrics(list(METRICS.values()))
    target = np.array(
        [row["values"]["Exact"] for row in printed("kr20", "table3") if row["recommender"] == "X"]
    )
    seeds, sweeps = range(settings.repeated(20)), (4, 6, 8, 12, 16, 32)
    metrics_of_fit = np.empty((len(sweeps), len(seeds), len(metrics)))
    with tracked(settings.progress, "fitting X", metrics_of_fit[:, :, 0].size) as task:
        for row, n_sweeps in enumerate(sweeps):
            for column, seed in enumerate(seeds):
                ranks = _kept_ranks("X", settings.store, n_sweeps, seed)
                metrics_of_fit[row, column] = 100 * values(metrics, ranks).mean(axis=0)
                task.advance()
    spread = metrics_of_fit.reshape(-1, len(metrics)).std(axis=0)
    distance = (((metrics_of_fit - target) / spread) ** 2).sum(axis=2)
    best = np.unravel_index(np.argmin(distance), distance.shape)
    errors = metrics_of_fit[best[0]].std(axis=0, ddof=1)
    cells = tuple(
        PaperNumber("X", name, float(theirs), float(ours), float(error))
        for name, theirs, ours, error in zip(METRICS, target, metrics_of_fit[best], errors, strict=True)
    )
    notes = [f"nearest: {sweeps[best[0]]} sweeps, seed {seeds[best[1]]}"]
    for n_sweeps, runs in zip(sweeps, metrics_of_fit, strict=True):
        shown = ", ".join(
            f"{name} {mean:.2f} +- {sd:.2f}"
            for name, mean, sd in zip(METRICS, runs.mean(axis=0), runs.std(axis=0), strict=True)
        )
        notes.append(f"{n_sweeps} sweeps, {len(seeds)} starts: {shown}")
    return RecipeOutcome(
        cells,
        notes=(_CHOSEN, *notes),
        reason=_START,
        repeats=len(seeds),
        short=f"the nearest of {distance.size} fits",
    )
