"""What the values should be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.rivals.entry import Entry
from benchmarks.rivals.job import Job
from benchmarks.rivals.problem import split_of
from truerank import Factors, exact_ranks
from truerank.core.ranks import Ranks, TiePolicy
from truerank.metrics.registry import make_metrics, values

TIES: tuple[TiePolicy, ...] = ("worst", "expected", "best")


@dataclass(frozen=True)
class Reference:
    """Exact ranks of a job, from which every library's definition follows."""

    ranks: Ranks

    @classmethod
    def of(cls, job: Job) -> Reference:
        """Rank the whole catalogue."""
        return cls(exact_ranks(Factors(job.user, job.item), split_of(job)))

    def value(self, spec: str, ties: TiePolicy = "expected") -> float:
        """Return the mean over users."""
        return float(values(make_metrics(spec), self.ranks, ties=ties).mean())

    def compare(self, entry: Entry, found: dict[str, float]) -> dict[str, dict[str, float | str]]:
        """Return, per metric, what the library says and what its definition gives on exact ranks."""
        specs: Sequence[tuple[str, str | None]] = (("ndcg", entry.ndcg), ("recall", entry.recall))
        table: dict[str, dict[str, float | str]] = {}
        for name, spec in specs:
            table[name] = {"found": found[name]}
            if spec is None:
                continue
            table[name]["spec"] = str(make_metrics(spec)[0])
            table[name] |= {ties: self.value(spec, ties) for ties in TIES}
        return table
