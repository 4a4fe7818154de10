"""Ranking on an engine: each task ranks a slice of users and returns their ranks, or sums of their metrics.

Users of a slice have codes 0..n-1 there, but the random samples and scores of their codes in the whole data.
Sums of metrics are exact integers, so means and intervals do not depend on how users were divided into tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from scipy.special import stdtrit

from truerank.core.digest import content_digest
from truerank.core.errors import InvalidData
from truerank.core.interactions import Vocabulary
from truerank.core.ranks import Design, Ranks, SampledRanks, SeenPolicy, Stopping, TiePolicy
from truerank.core.scorer import Factors, HasSparseRows, Scorer
from truerank.core.split import Split
from truerank.core.types import FloatArray, IntArray
from truerank.distributed.engine import EngineTask, Job
from truerank.distributed.files import Files, RowSlice, UserBlock, read_block
from truerank.distributed.storage import PartialResult
from truerank.inference.user_interval import Band
from truerank.metrics.base import Metric, RankMetric
from truerank.metrics.ties import ResolvedRanks
from truerank.ranking.cpu.factors import SMALL_CELLS, FactorCounter, Path
from truerank.ranking.exact import exact_ranks, make_queries, ranks_from_counts
from truerank.ranking.negatives import Negatives, Rows, Sampler
from truerank.ranking.sampled import Sampled, sample_ranks

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from truerank.ranking.growing import GrowingNegatives


@dataclass(frozen=True, eq=False)
class RelabelledSampler(Sampler):
    """Samples for the users of a block the negatives they would have in the whole data.

    Parameters
    ----------
    sampler : the sampler of the whole data
    codes : (n,) codes of users 0..n-1 in the whole data, which determine their samples
    seed, label : as in ``sample_ranks``
    """

    sampler: Sampler | None = None
    codes: Any = None
    seed: int = 0
    label: str = ""

    @property
    def is_shared(self) -> bool:
        """Whether several models get the same negatives."""
        return self._inner.is_shared

    @property
    def is_per_target(self) -> bool:
        """Whether each target of a user gets negatives of its own."""
        return self._inner.is_per_target

    @property
    def _inner(self) -> Sampler:
        assert self.sampler is not None  # noqa: S101 - a default that plug-ins must have
        return self.sampler

    def negatives(self, split: Split, rows: Rows) -> Negatives | GrowingNegatives:
        """Return the negatives that belong to the users' codes in the whole data."""
        own = Rows.of(
            rows.queries,
            split,
            per_target=self.is_per_target,
            seed=self.seed,
            repeat=0,
            label="" if self.is_shared else self.label,
        )
        return self._inner.negatives(split, replace(own, codes=self.codes[rows.queries.users]))


class RelabelledScorer:
    """Scores of users 0..n-1 of a block.

    Parameters
    ----------
    scorer : the scorer of the whole data
    codes : (n,) codes of users 0..n-1 in the whole data
    """

    def __init__(self, scorer: Scorer, codes: IntArray) -> None:
        self.scorer, self.codes = scorer, codes
        self.is_thread_safe = getattr(scorer, "is_thread_safe", False)

    @property
    def n_items(self) -> int:
        """Size of the catalogue."""
        return self.scorer.n_items

    def score(self, users: IntArray, items: IntArray) -> FloatArray:
        """Return the scores of the users' codes in the whole data."""
        return self.scorer.score(self.codes[users], items)


class RelabelledRows(RelabelledScorer):
    """Sparse score rows of users 0..n-1 of a block."""

    def sparse_rows(self, users: IntArray) -> csr_array:
        """Return the rows of the users' codes in the whole data."""
        assert isinstance(self.scorer, HasSparseRows)  # noqa: S101 - see relabel
        return self.scorer.sparse_rows(self.codes[users])


def relabel(scorer: Scorer, codes: IntArray) -> RelabelledScorer:
    """Return the scorer for a block of users; it offers sparse rows if the scorer does."""
    return (RelabelledRows if isinstance(scorer, HasSparseRows) else RelabelledScorer)(scorer, codes)


# Sums are whole numbers of 2^-UNIT, finer than any float64.
UNIT = 1200
_HALF = 26


def exact_sum(values: FloatArray) -> int:
    """Return the sum in units of 2^-1200, without rounding; any order of the values gives the same.

    Examples
    --------
    >>> total = exact_sum(np.array([1e16, 1.0, -1e16]))
    >>> float(Fraction(total, 2**UNIT))
    1.0
    """
    fraction, exponent = np.frexp(np.asarray(values, dtype=np.float64))
    if not np.isfinite(fraction).all():
        raise InvalidData("values per user must be finite numbers to be summed, got NaN or infinity.")
    whole = np.ldexp(fraction, 53).astype(np.int64)
    high, low = whole >> _HALF, whole & ((1 << _HALF) - 1)  # so that 2^36 of them fit an int64 sum
    total = 0
    for power in np.unique(exponent):
        is_power = exponent == power
        total += ((int(high[is_power].sum()) << _HALF) + int(low[is_power].sum())) << (UNIT + int(power) - 53)
    return total


@dataclass(frozen=True)
class MetricSums:
    """Sums of the values of one metric over users, enough for its mean and normal interval.

    Parameters
    ----------
    n : number of users
    total, squares : sums of the values and of their (rounded) squares, in units of 2^-1200
    low, high : the smallest and the largest value
    """

    n: int
    total: int
    squares: int
    low: float
    high: float

    @classmethod
    def of(cls, values: FloatArray) -> MetricSums:
        """Sum one value per user.

        Examples
        --------
        >>> MetricSums.of(np.array([0.0, 1.0])).mean
        0.5
        """
        total, squares = exact_sum(values), exact_sum(np.asarray(values, np.float64) ** 2)
        if len(values) == 0:
            return cls(0, 0, 0, np.inf, -np.inf)
        return cls(len(values), total, squares, float(np.min(values)), float(np.max(values)))

    def __add__(self, other: MetricSums) -> MetricSums:
        return MetricSums(
            self.n + other.n,
            self.total + other.total,
            self.squares + other.squares,
            min(self.low, other.low),
            max(self.high, other.high),
        )

    @property
    def mean(self) -> float:
        """The mean, rounded once."""
        return float(Fraction(self.total, self.n << UNIT))

    @property
    def deviation(self) -> float:
        """The sample standard deviation."""
        centred = Fraction(self.squares, 1 << UNIT) - Fraction(self.total**2, self.n << (2 * UNIT))
        return float(np.sqrt(max(0.0, float(centred / (self.n - 1))))) if self.n > 1 else 0.0

    def to_list(self) -> list[int | float | str]:
        """Return the sums as JSON values."""
        limits = (self.low, self.high) if self.n else (0.0, 0.0)
        return [self.n, f"{self.total:x}", f"{self.squares:x}", *limits]

    @classmethod
    def from_list(cls, written: Sequence[int | float | str]) -> MetricSums:
        """Read what ``to_list`` returned."""
        n, total, squares, low, high = written
        if not n:
            return cls(0, 0, 0, np.inf, -np.inf)
        return cls(int(n), int(str(total), 16), int(str(squares), 16), float(low), float(high))


def normal_band(sums: Sequence[MetricSums], level: float) -> Band:
    """Return the normal interval of each metric, equal to that of ``normal`` on the values themselves."""
    limits = [_limits(one, level) for one in sums]
    method = tuple("constant" if one.low == one.high else "normal" for one in sums)
    return Band(np.array([low for low, _ in limits]), np.array([high for _, high in limits]), method)


def _limits(sums: MetricSums, level: float) -> tuple[float, float]:
    if sums.low == sums.high:  # see truerank.inference.user_interval
        fraction = 1 - ((1 - level) / 2) ** (1 / sums.n)
        return sums.low * (1 - fraction), sums.low * (1 - fraction) + fraction
    half = float(stdtrit(sums.n - 1, (1 + level) / 2)) * sums.deviation / np.sqrt(sums.n)
    return float(np.clip(sums.mean - half, 0, 1)), float(np.clip(sums.mean + half, 0, 1))


PartialForm: TypeAlias = Literal["ranks", "sums"]
_EXACT = tuple(field.name for field in fields(Ranks) if field.name != "gain")
_SAMPLED = tuple(field.name for field in fields(SampledRanks) if field.name not in ("design", "gain"))


@dataclass(frozen=True)
class WorkerState:
    """What the tasks of one process share: items, item vectors or scorer, and counts."""

    items: Vocabulary
    counts: IntArray | None
    vectors: FloatArray | None = None
    bias: FloatArray | None = None
    counter: FactorCounter | None = None
    path: Path = "auto"
    scorer: Scorer | None = None


@dataclass(frozen=True)
class RankJob(Job):
    """Job that ranks slices of users.

    Parameters
    ----------
    files : what to read; ``files_key`` is its key at the driver
    seen, seed, label : as in ``exact_ranks`` and ``sample_ranks``
    sampler : how negatives are sampled; None ranks among all items
    form : ``ranks`` returns one row per target, ``sums`` a few numbers per metric
    metrics, ties : for ``sums``
    n_users : in all tasks together; compiled code is loaded only when there are many
    """

    files: Files
    files_key: str
    seen: SeenPolicy = "remove"
    sampler: Sampler | None = None
    seed: int = 0
    label: str = ""
    form: PartialForm = "ranks"
    metrics: tuple[Metric, ...] = ()
    ties: TiePolicy = "expected"
    n_users: int = 0

    @property
    def key(self) -> str:
        """Everything the partial results depend on."""
        request = [self.files_key, self.seen, str(self.sampler), self.form]
        if self.sampler is not None or self.form == "sums":
            request += [str(self.seed)]
        if self.sampler is not None:
            request += ["" if self.sampler.is_shared else self.label]
        if self.form == "sums":
            request += [self.ties, *map(str, self.metrics)]
        return f"rank {content_digest([repr(request)])}"

    @property
    def is_thread_safe(self) -> bool:
        """Whether tasks may run at the same time: with factors, or when the scorer says so."""
        return self.files.items is not None or self.files.is_thread_safe

    def open(self) -> WorkerState:
        """Map the item vectors, or read the scorer."""
        files = self.files
        counts = None
        if self.sampler is not None and files.item_counts is not None:
            counts = np.asarray(files.map(files.item_counts))
        if files.items is None:
            scorer = files.load_scorer()
            return WorkerState(Vocabulary.range(scorer.n_items), counts, scorer=scorer)
        vectors = files.map(files.items)
        bias = None if files.item_bias is None else np.asarray(files.map(files.item_bias))
        counter = FactorCounter(vectors, bias)
        path: Path = "compiled" if self.n_users * len(vectors) >= SMALL_CELLS else "auto"
        if self.sampler is None and path == "compiled":
            # norms of all items and compiled code, made once before threads start
            nobody = np.zeros((1, vectors.shape[1]), vectors.dtype)
            counter.count(nobody, [0, 1], [0], [0, 0], np.zeros(0, np.int32), path=path)
        return WorkerState(Vocabulary.range(len(vectors)), counts, vectors, bias, counter, path)

    def run(self, state: WorkerState, task: EngineTask) -> bytes:
        """Rank one slice."""
        piece: RowSlice = task.payload
        n_dims = None if state.vectors is None else int(state.vectors.shape[1])
        block = read_block(self.files, piece, state.items, state.counts, n_dims=n_dims)
        facts: dict[str, Any] = {"n_users": len(block.codes), "n_without_targets": block.n_without_targets}
        facts["n_test"] = len(block.split.test)
        if self.sampler is not None:
            sampled = self._sample(state, block)
            facts |= {"n_scores": sampled.n_scores, "design": _written(sampled.ranks.design)}
            return PartialResult(_columns(sampled.ranks, _SAMPLED, block.codes), facts).pack()
        ranks = self._rank(state, block)
        facts["n_scores"] = len(block.codes) * len(state.items)
        if self.form == "ranks":
            return PartialResult(_columns(ranks, _EXACT, block.codes), facts).pack()
        facts["largest_pool"] = int(ranks.n_pool.max(initial=0))
        facts["sums"] = [one.to_list() for one in self._sums(ranks, block.codes)]
        return PartialResult(facts=facts).pack()

    def _sample(self, state: WorkerState, block: UserBlock) -> Sampled:
        draws = RelabelledSampler(self.sampler, block.codes, self.seed, self.label)
        return sample_ranks(
            self._scorer(state, block),
            block.split,
            draws,
            seen=self.seen,
            seed=self.seed,
            label=self.label,
            n_threads=1,
        )

    def _rank(self, state: WorkerState, block: UserBlock) -> Ranks:
        if state.counter is None or block.vectors is None:
            return exact_ranks(self._scorer(state, block), block.split, seen=self.seen, n_threads=1)
        queries = make_queries(block.split, self.seen)
        targets, excluded = queries.targets, queries.excluded
        counts = state.counter.count(
            block.vectors, targets.indptr, targets.items, excluded.indptr, excluded.items, path=state.path
        )
        return ranks_from_counts(queries, counts, len(state.items), self.seen)

    def _scorer(self, state: WorkerState, block: UserBlock) -> Scorer:
        if state.scorer is not None:
            return relabel(state.scorer, block.codes)
        if state.vectors is None or block.vectors is None:
            raise InvalidData("a model given by item vectors needs user vectors too. Add a column vector.")
        return Factors(block.vectors, state.vectors, state.bias)

    def _sums(self, ranks: Ranks, codes: IntArray) -> list[MetricSums]:
        """Return the sums of each metric; the driver checks that cut-offs fit the pools."""
        owned = Ranks(**{**{name: getattr(ranks, name) for name in _EXACT}, "user": codes[ranks.user]})
        placement = ResolvedRanks.of(owned, self.ties, self.seed)
        return [
            MetricSums.of(
                metric.totals(placement)
                if isinstance(metric, RankMetric)
                else metric.per_user(owned, ties=self.ties, seed=self.seed)
            )
            for metric in self.metrics
        ]


@dataclass(frozen=True)
class JobRanks:
    """The ranks or sums of all tasks of a job, in the order of the tasks."""

    ranks: Ranks | SampledRanks | None
    sums: tuple[MetricSums, ...]
    n_users: int
    n_test: int
    n_without_targets: int
    n_scores: int
    largest_pool: int


def assemble_ranks(job: RankJob, partials: Sequence[bytes]) -> JobRanks:
    """Return the ranks or sums of all tasks from their partial results."""
    results = [PartialResult.unpack(partial) for partial in partials]
    counted = {
        name: sum(one.facts[name] for one in results)
        for name in ("n_users", "n_test", "n_without_targets", "n_scores")
    }
    if counted["n_users"] == 0:
        raise InvalidData("the test part must hold at least one target, but no user has any. Check the data.")
    if job.form == "sums":
        columns = zip(*(one.facts["sums"] for one in results), strict=True)
        sums = tuple(sum(map(MetricSums.from_list, column), MetricSums.of(np.zeros(0))) for column in columns)
        largest = max(one.facts["largest_pool"] for one in results)
        return JobRanks(None, sums, largest_pool=largest, **counted)
    names = _EXACT if job.sampler is None else _SAMPLED
    arrays: dict[str, Any] = {name: np.concatenate([one.arrays[name] for one in results]) for name in names}
    ranks: Ranks | SampledRanks
    if job.sampler is None:
        ranks = Ranks(**arrays)
    else:
        ranks = SampledRanks(**arrays, design=_read_design(results[0].facts["design"]))
    return JobRanks(ranks, (), largest_pool=int(ranks.n_pool.max()), **counted)


def _columns(
    ranks: Ranks | SampledRanks, names: Sequence[str], codes: IntArray
) -> dict[str, np.ndarray[Any, Any]]:
    """Return the columns, with the users' codes in the whole data."""
    return {name: codes[ranks.user] if name == "user" else getattr(ranks, name) for name in names}


def _written(design: Design) -> dict[str, Any]:
    return asdict(design)


def _read_design(written: dict[str, Any]) -> Design:
    rule = written["stopping"]
    stopping = None if rule is None else Stopping(tuple(rule["sizes"]), rule["rank"])
    return Design(**{**written, "stopping": stopping})
