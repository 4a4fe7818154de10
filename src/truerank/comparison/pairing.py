"""Which models were tested on the same users, and whether they can be compared at all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import reduce
from itertools import combinations

import numpy as np

from truerank.comparison.options import Options
from truerank.core.errors import InvalidData
from truerank.core.ranks import Design, Ranks, SampledRanks
from truerank.core.types import IntArray
from truerank.estimators.naive import Naive

AnyRanks = Ranks | SampledRanks


@dataclass(frozen=True)
class Pairing:
    """How two models belong together, in words.

    Parameters
    ----------
    is_paired : whether they have the same users
    shares_negatives : whether both were ranked against the same draws
    """

    is_paired: bool
    shares_negatives: bool

    def __str__(self) -> str:
        if not self.is_paired:
            return "independent users"
        return "paired users, shared negatives" if self.shares_negatives else "paired users"


def align(ranks: Mapping[str, AnyRanks], options: Options) -> tuple[dict[str, AnyRanks], list[str]]:
    """Return ranks that can be compared, and what was done to them in words.

    Every two models have the same users, or none in common.

    Raises
    ------
    InvalidData
        When users overlap in part and ``common_users`` is not set, or targets, pools or designs do not fit.
    """
    notes: list[str] = []
    chosen = dict(ranks)
    if options.common_users:
        chosen, notes = _common(chosen)
    for a, b in combinations(chosen, 2):
        _check_users(a, chosen[a], b, chosen[b])
        _check_design(a, chosen[a], b, chosen[b], options)
    return chosen, notes


def pairing(a: AnyRanks, b: AnyRanks) -> Pairing:
    """Return how two models with checked users belong together."""
    is_paired = np.array_equal(_users(a), _users(b))
    both = isinstance(a, SampledRanks) and isinstance(b, SampledRanks)
    is_shared = both and a.design == b.design and a.design.shared  # type: ignore[union-attr]
    return Pairing(is_paired, bool(is_paired and is_shared))


def _common(ranks: Mapping[str, AnyRanks]) -> tuple[dict[str, AnyRanks], list[str]]:
    """Return the rows of the users that all models have, and how many each lost."""
    kept: IntArray = reduce(np.intersect1d, [_users(one) for one in ranks.values()])
    if len(kept) == 0:
        raise InvalidData("the models must have users in common, but no user is in all of them. Check ids.")
    notes = [
        f"{name}: {one.n_users - len(kept):,} of {one.n_users:,} users left out, because not all models "
        f"have them."
        for name, one in ranks.items()
        if one.n_users > len(kept)
    ]
    return {name: _take(one, np.isin(one.user, kept)) for name, one in ranks.items()}, notes


def _take(ranks: AnyRanks, keep: np.ndarray) -> AnyRanks:
    columns = {
        field.name: getattr(ranks, field.name)[keep] for field in fields(ranks) if field.name != "design"
    }
    if isinstance(ranks, Ranks):
        return Ranks(**columns)
    return SampledRanks(**columns, design=ranks.design)


def _users(ranks: AnyRanks) -> IntArray:
    users: IntArray = ranks.user[ranks.starts]
    return users


def _check_users(a: str, first: AnyRanks, b: str, second: AnyRanks) -> None:
    own, other = _users(first), _users(second)
    if not np.array_equal(own, other):
        n_common = len(np.intersect1d(own, other))
        if n_common == len(own) == len(other):
            raise InvalidData(f"users of {a!r} and {b!r} must come in the same order. Sort the rows by user.")
        if n_common:
            raise InvalidData(
                f"{a!r} and {b!r} must have the same users or none in common, but share {n_common:,} of "
                f"{len(own):,} and {len(other):,}. Compare the shared ones with --common-users "
                f"(common_users=True)."
            )
        return
    if not np.array_equal(first.n_relevant[first.starts], second.n_relevant[second.starts]):
        raise InvalidData(
            f"{a!r} and {b!r} must have been tested on the same targets, but some users have more of them "
            f"in one than in the other. Evaluate both on one split."
        )
    if first.item.any() and second.item.any() and not _same_items(first, second):
        raise InvalidData(
            f"{a!r} and {b!r} must have been tested on the same targets, but some users have other items in "
            f"one than in the other. Evaluate both on one split."
        )
    if not np.array_equal(first.n_pool[first.starts], second.n_pool[second.starts]):
        row = int(np.argmax(first.n_pool[first.starts] != second.n_pool[second.starts]))
        sizes = first.n_pool[first.starts][row], second.n_pool[second.starts][row]
        raise InvalidData(
            f"{a!r} and {b!r} must rank the same pools, but one user's has {sizes[0]:,} items in one and "
            f"{sizes[1]:,} in the other. Treat seen items alike."
        )


def _same_items(first: AnyRanks, second: AnyRanks) -> bool:
    if len(first) != len(second):
        return False
    one, other = (ranks.item[np.lexsort((ranks.item, ranks.user))] for ranks in (first, second))
    return bool(np.array_equal(one, other))


def _check_design(a: str, first: AnyRanks, b: str, second: AnyRanks, options: Options) -> None:
    """Raise where values are no estimates of the same thing: naive ones depend on the sample's size."""
    if not isinstance(options.estimator, Naive) or (isinstance(first, Ranks) and isinstance(second, Ranks)):
        return
    if isinstance(first, Ranks) or isinstance(second, Ranks):
        exact, sampled = (a, b) if isinstance(first, Ranks) else (b, a)
        raise InvalidData(
            f"naive values must come from samples of one size, but {exact!r} was ranked against all items "
            f"and {sampled!r} against a sample. Use estimator 'bv'."
        )
    sizes = [np.unique(one.n_negatives) for one in (first, second)]
    laws = [Design(one.design.law, one.design.replacement) for one in (first, second)]
    if not np.array_equal(sizes[0], sizes[1]) or laws[0] != laws[1]:
        raise InvalidData(
            f"naive values must come from samples of one size and kind, but those of {a!r} and {b!r} differ. "
            f"Use estimator 'bv', or sample both alike."
        )
