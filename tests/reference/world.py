"""One user's whole ranking and every sample of it, counted by hand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tests.reference.law import samples
from truerank.core.ranks import Design, Ranks, SampledRanks


@dataclass(frozen=True)
class World:
    """Scores of one user's targets and irrelevant candidates; equal scores are ties."""

    targets: Sequence[int]
    candidates: Sequence[int]

    def rows(self, negatives: Sequence[int]) -> dict[str, np.ndarray]:
        """Counts of each target among the other targets and the given negatives."""
        columns: dict[str, list[int]] = {
            name: [] for name in ("n_above", "n_tied", "n_relevant_above", "n_relevant_tied")
        }
        for place, score in enumerate(self.targets):
            others = [other for i, other in enumerate(self.targets) if i != place]
            above, tied = sum(o > score for o in others), sum(o == score for o in others)
            columns["n_relevant_above"].append(above)
            columns["n_relevant_tied"].append(tied)
            columns["n_above"].append(above + sum(negative > score for negative in negatives))
            columns["n_tied"].append(tied + sum(negative == score for negative in negatives))
        n = len(self.targets)
        fixed = {
            "user": np.zeros(n, dtype=np.int64),
            "item": np.arange(n),
            "n_pool": np.full(n, n + len(self.candidates)),
            "n_relevant": np.full(n, n),
        }
        return fixed | {name: np.array(values) for name, values in columns.items()}

    def ranks(self) -> Ranks:
        """The exact ranks."""
        return Ranks(**self.rows(self.candidates))

    def sampled(self, n_negatives: int, replacement: bool) -> Iterator[SampledRanks]:
        """The sampled ranks of every sample; all targets share it."""
        n = len(self.targets)
        for chosen in samples(len(self.candidates), n_negatives, replacement):
            yield SampledRanks(
                **self.rows([self.candidates[i] for i in chosen]),
                n_negatives=np.full(n, n_negatives),
                n_candidates=np.full(n, len(self.candidates)),
                design=Design(replacement=replacement),
            )
