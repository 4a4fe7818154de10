"""Users of a block under codes 0..n-1, with the random draws and the scores of their own codes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from truerank.core.scorer import HasSparseRows, Scorer
from truerank.core.split import Split
from truerank.core.types import FloatArray, IntArray
from truerank.ranks.sampler import Negatives, Rows, Sampler

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from truerank.ranks.growing import GrowingNegatives


@dataclass(frozen=True, eq=False)
class RelabelledSampler(Sampler):
    """Draws for the users of a block what the sampler draws for them among all users.

    Parameters
    ----------
    sampler : what draws
    codes : (n,) the codes from which the draws of users 0..n-1 follow
    seed, label : as in ``sample``
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
        """Return the draws of the users' own codes."""
        owned = Rows.of(
            replace(rows.queries, users=self.codes[rows.queries.users]),
            split,
            per_target=self.is_per_target,
            seed=self.seed,
            repeat=0,
            label="" if self.is_shared else self.label,
        )
        return self._inner.negatives(split, replace(rows, state=owned.state))


class RelabelledScorer:
    """A scorer asked for users 0..n-1 of a block.

    Parameters
    ----------
    scorer : what gives the scores
    codes : (n,) the codes it knows these users by
    """

    def __init__(self, scorer: Scorer, codes: IntArray) -> None:
        self.scorer, self.codes = scorer, codes
        self.is_thread_safe = getattr(scorer, "is_thread_safe", False)

    @property
    def n_items(self) -> int:
        """Size of the catalogue."""
        return self.scorer.n_items

    def score(self, users: IntArray, items: IntArray) -> FloatArray:
        """Return the scores of the users' own codes."""
        return self.scorer.score(self.codes[users], items)


class RelabelledRows(RelabelledScorer):
    """A scorer with sparse rows, asked for users 0..n-1 of a block."""

    def sparse_rows(self, users: IntArray) -> csr_array:
        """Return the rows of the users' own codes."""
        assert isinstance(self.scorer, HasSparseRows)  # noqa: S101 - see relabel
        return self.scorer.sparse_rows(self.codes[users])


def relabel(scorer: Scorer, codes: IntArray) -> RelabelledScorer:
    """Return the scorer for a block, offering what it offers."""
    return (RelabelledRows if isinstance(scorer, HasSparseRows) else RelabelledScorer)(scorer, codes)
