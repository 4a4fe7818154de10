"""A smaller data set, and what it has lost."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from truerank.core.errors import InvalidParameter
from truerank.core.interactions import Interactions
from truerank.core.progress import SILENT, Progress, tracked
from truerank.core.split import Split
from truerank.core.strategy import ProxyStrategy, Strategy
from truerank.core.types import FloatArray
from truerank.subsample.loss import Loss, compare
from truerank.subsample.registry import STRATEGIES


@dataclass(frozen=True, eq=False)
class SubSample:
    """Some of the train events.

    Parameters
    ----------
    train : the kept events, in their order and in the vocabularies of all
    loss : what was there and what is left
    split : the kept events with the validation and test events as they were; None where no split was given
    """

    train: Interactions
    loss: Loss
    split: Split | None = None


def subsample(
    data: Interactions | Split,
    strategy: str | Strategy,
    fraction: float,
    *,
    seed: int = 0,
    progress: Progress = SILENT,
    importance: FloatArray | None = None,
) -> SubSample:
    """Keep a fraction of the train events.

    Strategies with a proxy need ``importance`` here; ``subsample`` of `truerank.subsampling` fits the proxy.

    Parameters
    ----------
    data : the events, or a split of which only the train part is sampled
    strategy : which events to keep, such as ``random-walk``
    fraction : share of the events to keep, 0 to 1
    seed : of everything random
    progress : where long jobs report
    importance : (n,) of each train event, for strategies with a proxy alone

    Returns
    -------
    SubSample
        Users and items without events stay in the vocabularies. ``split.counts`` says how many users and
        items have targets but no train events now (``users_without_history``, ``items_without_history``).

    Examples
    --------
    >>> events = Interactions.from_codes([0, 0, 1, 1], [0, 1, 0, 1])
    >>> small = subsample(events, "random", 0.5)
    >>> len(small.train), small.train.n_users, small.loss.before.events
    (2, 2, 4)
    """
    chosen = STRATEGIES.make(strategy)
    full = data.train if isinstance(data, Split) else data
    with tracked(progress, f"sub-sampling by {chosen}"):
        if importance is None:
            mask = chosen.keep(full, fraction, seed=seed, progress=progress)
        elif isinstance(chosen, ProxyStrategy):
            mask = chosen.keep_by(full, importance, fraction, seed=seed, progress=progress)
        else:
            raise InvalidParameter(f"strategy {str(chosen)!r} does not choose by importance. Leave it out.")
        kept = full.where(mask)
    loss = compare(full, kept, strategy=str(chosen), fraction=fraction, seed=seed)
    return SubSample(kept, loss, _with_train(data, kept) if isinstance(data, Split) else None)


def _with_train(split: Split, train: Interactions) -> Split:
    in_test, in_train = split.test.user_counts() > 0, train.user_counts() > 0
    items_in_test, items_in_train = split.test.item_counts() > 0, train.item_counts() > 0
    counts = {
        **split.counts,
        "users_without_history": int(np.sum(in_test & ~in_train)),
        "items_without_history": int(np.sum(items_in_test & ~items_in_train)),
    }
    return replace(split, train=train, counts=counts)
