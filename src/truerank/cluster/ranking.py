"""The job of ranking: each task ranks a slice of users and returns ranks, or sums of their metrics."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, TypeAlias

import numpy as np

from truerank.cluster.files import Block, Files, Slice, read_block
from truerank.cluster.partial import Partial
from truerank.cluster.place import map_array, read_bytes
from truerank.cluster.relabelled import RelabelledSampler, relabel
from truerank.cluster.sums import Sums
from truerank.core.engine import Job, Task
from truerank.core.errors import InvalidData
from truerank.core.metric import Metric
from truerank.core.ranks import Design, Ranks, SampledRanks, SeenPolicy, TiePolicy
from truerank.core.scorer import Factors, Scorer
from truerank.core.stopping import Stopping
from truerank.core.types import FloatArray, IntArray
from truerank.core.vocabulary import Vocabulary
from truerank.metrics.base import RankMetric
from truerank.metrics.tie import Placement
from truerank.ranks import Sampled, Sampler, exact_ranks, sample
from truerank.ranks.exact import make_queries, ranks_from_counts
from truerank.ranks.kernels.factor import SMALL_CELLS, FactorCounter, Path

Form: TypeAlias = Literal["ranks", "sums"]
_EXACT = tuple(field.name for field in fields(Ranks))
_SAMPLED = tuple(field.name for field in fields(SampledRanks) if field.name != "design")


@dataclass(frozen=True)
class Catalogue:
    """What the tasks of one process share."""

    items: Vocabulary
    counts: IntArray | None
    vectors: FloatArray | None = None
    bias: FloatArray | None = None
    counter: FactorCounter | None = None
    path: Path = "auto"
    scorer: Scorer | None = None


@dataclass(frozen=True)
class RankJob(Job):
    """Rank slices of users.

    Parameters
    ----------
    files : what to read; ``files_key`` is its key as the driver saw it
    seen, seed, label : as in ``exact_ranks`` and ``sample``
    sampler : how negatives are drawn; None ranks all items
    form : ``ranks`` returns one row per target, ``sums`` a few numbers per metric
    metrics, ties : for sums
    n_users : of all tasks; compiled code is loaded where there are many
    """

    files: Files
    files_key: str
    seen: SeenPolicy = "remove"
    sampler: Sampler | None = None
    seed: int = 0
    label: str = ""
    form: Form = "ranks"
    metrics: tuple[Metric, ...] = ()
    ties: TiePolicy = "expected"
    n_users: int = 0

    @property
    def key(self) -> str:
        """Everything the partials depend on."""
        asked = [self.files_key, self.seen, str(self.sampler), self.form]
        if self.sampler is not None or self.form == "sums":
            asked += [str(self.seed)]
        if self.sampler is not None:
            asked += ["" if self.sampler.is_shared else self.label]
        if self.form == "sums":
            asked += [self.ties, *map(str, self.metrics)]
        return f"rank {hashlib.blake2b(repr(asked).encode(), digest_size=16).hexdigest()}"

    @property
    def is_thread_safe(self) -> bool:
        """Factors are read only; a pickled scorer may not be."""
        return self.files.items is not None or self.files.is_thread_safe

    def open(self) -> Catalogue:
        """Map the item vectors, or read the scorer."""
        files = self.files
        counts = None
        if self.sampler is not None and files.item_counts is not None:
            counts = np.asarray(map_array(files.item_counts))
        if files.items is None:
            scorer: Scorer = pickle.loads(read_bytes(str(files.scorer)))  # noqa: S301 - the user's own model
            return Catalogue(Vocabulary.range(scorer.n_items), counts, scorer=scorer)
        vectors = map_array(files.items)
        bias = None if files.item_bias is None else np.asarray(map_array(files.item_bias))
        counter = FactorCounter(vectors, bias)
        path: Path = "compiled" if self.n_users * len(vectors) >= SMALL_CELLS else "auto"
        if self.sampler is None and path == "compiled":
            # once, before threads ask for it: norms of all items, and the compiled code
            nobody = np.zeros((1, vectors.shape[1]), vectors.dtype)
            counter.count(nobody, [0, 1], [0], [0, 0], np.zeros(0, np.int32), path=path)
        return Catalogue(Vocabulary.range(len(vectors)), counts, vectors, bias, counter, path)

    def run(self, state: Catalogue, task: Task) -> bytes:
        """Rank one slice."""
        piece: Slice = task.payload
        n_dims = None if state.vectors is None else int(state.vectors.shape[1])
        block = read_block(self.files, piece, state.items, state.counts, n_dims=n_dims)
        facts: dict[str, Any] = {"n_users": len(block.codes), "n_without_targets": block.n_without_targets}
        facts["n_test"] = len(block.split.test)
        if self.sampler is not None:
            sampled = self._sample(state, block)
            facts |= {"n_scores": sampled.n_scores, "design": _written(sampled.ranks.design)}
            return Partial(_columns(sampled.ranks, _SAMPLED, block.codes), facts).pack()
        ranks = self._rank(state, block)
        facts["n_scores"] = len(block.codes) * len(state.items)
        if self.form == "ranks":
            return Partial(_columns(ranks, _EXACT, block.codes), facts).pack()
        facts["largest_pool"] = int(ranks.n_pool.max(initial=0))
        facts["sums"] = [one.to_list() for one in self._sums(ranks, block.codes)]
        return Partial(facts=facts).pack()

    def _sample(self, state: Catalogue, block: Block) -> Sampled:
        draws = RelabelledSampler(self.sampler, block.codes, self.seed, self.label)
        return sample(
            self._scorer(state, block),
            block.split,
            draws,
            seen=self.seen,
            seed=self.seed,
            label=self.label,
            n_threads=1,
        )

    def _rank(self, state: Catalogue, block: Block) -> Ranks:
        if state.counter is None or block.vectors is None:
            return exact_ranks(self._scorer(state, block), block.split, seen=self.seen, n_threads=1)
        queries = make_queries(block.split, self.seen)
        targets, excluded = queries.targets, queries.excluded
        counts = state.counter.count(
            block.vectors, targets.indptr, targets.items, excluded.indptr, excluded.items, path=state.path
        )
        return ranks_from_counts(queries, counts, len(state.items), self.seen)

    def _scorer(self, state: Catalogue, block: Block) -> Scorer:
        if state.scorer is not None:
            return relabel(state.scorer, block.codes)
        if state.vectors is None or block.vectors is None:
            raise InvalidData("a model must have item vectors and user vectors. Add a column vector.")
        return Factors(block.vectors, state.vectors, state.bias)

    def _sums(self, ranks: Ranks, codes: IntArray) -> list[Sums]:
        """Sum each metric; whether the cut-off fits the pools is for the driver to say."""
        own = Ranks(**{**{name: getattr(ranks, name) for name in _EXACT}, "user": codes[ranks.user]})
        placement = Placement.of(own, self.ties, self.seed)
        return [
            Sums.of(
                metric.totals(placement)
                if isinstance(metric, RankMetric)
                else metric.per_user(own, ties=self.ties, seed=self.seed)
            )
            for metric in self.metrics
        ]


@dataclass(frozen=True)
class Ranked:
    """What a job found, put together in the order of its tasks."""

    ranks: Ranks | SampledRanks | None
    sums: tuple[Sums, ...]
    n_users: int
    n_test: int
    n_without_targets: int
    n_scores: int
    largest_pool: int


def put_together(job: RankJob, partials: Sequence[bytes]) -> Ranked:
    """Return the result of all tasks."""
    found = [Partial.unpack(partial) for partial in partials]
    counted = {
        name: sum(one.facts[name] for one in found)
        for name in ("n_users", "n_test", "n_without_targets", "n_scores")
    }
    if counted["n_users"] == 0:
        raise InvalidData("the test part must hold at least one target, but no user has any. Check the data.")
    if job.form == "sums":
        columns = zip(*(one.facts["sums"] for one in found), strict=True)
        sums = tuple(sum(map(Sums.from_list, column), Sums.of(np.zeros(0))) for column in columns)
        largest = max(one.facts["largest_pool"] for one in found)
        return Ranked(None, sums, largest_pool=largest, **counted)
    names = _EXACT if job.sampler is None else _SAMPLED
    arrays: dict[str, Any] = {name: np.concatenate([one.arrays[name] for one in found]) for name in names}
    ranks: Ranks | SampledRanks
    if job.sampler is None:
        ranks = Ranks(**arrays)
    else:
        ranks = SampledRanks(**arrays, design=_read_design(found[0].facts["design"]))
    return Ranked(ranks, (), largest_pool=int(ranks.n_pool.max()), **counted)


def _columns(
    ranks: Ranks | SampledRanks, names: Sequence[str], codes: IntArray
) -> dict[str, np.ndarray[Any, Any]]:
    """Return the columns, users under their own codes."""
    return {name: codes[ranks.user] if name == "user" else getattr(ranks, name) for name in names}


def _written(design: Design) -> dict[str, Any]:
    return asdict(design)


def _read_design(written: dict[str, Any]) -> Design:
    rule = written["stopping"]
    stopping = None if rule is None else Stopping(tuple(rule["sizes"]), rule["rank"])
    return Design(**{**written, "stopping": stopping})
