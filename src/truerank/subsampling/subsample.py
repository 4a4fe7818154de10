"""Sub-sampling of train events by any strategy, what it loses, and the result as a table.

``subsample`` fits the proxy of a strategy where it has one; ``select_events`` applies a strategy to given
importances. `SubsampleLoss` compares the numbers of events, users and items, the lengths of histories and the
popularity of items before and after. ``write_events`` writes the kept events with the ids of the data.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from truerank.core.checkpoint import Store, as_store, check_output, replace_table
from truerank.core.display import Displayed, Overview
from truerank.core.errors import InvalidParameter, suggests_arguments
from truerank.core.interactions import Interactions, check_interactions
from truerank.core.progress import SILENT, Progress, as_progress, tracked
from truerank.core.random import check_seed
from truerank.core.split import Split
from truerank.core.table import MISSING, Table, count_of, plain_number
from truerank.core.types import BoolArray, FloatArray, IntArray
from truerank.subsampling.base import STRATEGIES, ProxyStrategy, Strategy, check_fraction
from truerank.subsampling.importance import importance as compute
from truerank.subsampling.importance import make_strategy

if TYPE_CHECKING:
    import polars as pl


QUANTILES = {"min": 0.0, "q10": 0.1, "median": 0.5, "q90": 0.9, "max": 1.0}
HEAD = 0.1  # fraction of the items that are called the head


@dataclass(frozen=True)
class Profile:
    """Sizes of a set of events, lengths of its histories and concentration on popular items.

    Parameters
    ----------
    events, users, items : how many events, and users and items that have any
    history : quantiles of the users' numbers of events, of users that have any
    gini : inequality of the items' numbers of events, 0 (all equal) to 1; over the items of the full data, so
        that lost items count as 0
    head : fraction of the events that belong to the most popular tenth of the items of the full data
    """

    events: int
    users: int
    items: int
    history: dict[str, int]
    gini: float | None
    head: float | None


@dataclass(frozen=True)
class SubsampleLoss:
    """A set of events before and after sub-sampling.

    Parameters
    ----------
    strategy, fraction, seed : of the sub-sample
    before, after : profile of all events and of the kept ones
    """

    strategy: str
    fraction: float
    seed: int
    before: Profile
    after: Profile

    @property
    def users_emptied(self) -> int:
        """Users that have lost all their events."""
        return self.before.users - self.after.users

    @property
    def items_emptied(self) -> int:
        """Items that have lost all their events."""
        return self.before.items - self.after.items

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        emptied = {"users_emptied": self.users_emptied, "items_emptied": self.items_emptied}
        return {**asdict(self), **emptied}

    def rows(self) -> list[tuple[str, int | float | None, int | float | None]]:
        """Return name, before and after of each figure, for tables."""
        before, after = self.before, self.after
        return [
            ("events", before.events, after.events),
            ("users with events", before.users, after.users),
            ("items with events", before.items, after.items),
            *(
                (f"events per user, {name}", before.history.get(name), after.history.get(name))
                for name in QUANTILES
            ),
            ("Gini of item popularity", before.gini, after.gini),
            ("events of the top tenth of items, fraction", before.head, after.head),
        ]


def compare_sizes(
    full: Interactions, kept: Interactions, *, strategy: str, fraction: float, seed: int
) -> SubsampleLoss:
    """Compare all events with the kept ones.

    Examples
    --------
    >>> full = Interactions.from_codes([0, 0, 1], [0, 1, 0])
    >>> loss = compare_sizes(full, full.take(np.array([0, 1])), strategy="demo", fraction=0.7, seed=0)
    >>> loss.users_emptied, loss.items_emptied, loss.after.history["max"], round(loss.before.gini, 3)
    (1, 0, 2, 0.167)
    """
    before, after = ((events.user_counts(), events.item_counts()) for events in (full, kept))
    return compare_counts(before, after, strategy=strategy, fraction=fraction, seed=seed)


def compare_counts(
    before: tuple[IntArray, IntArray],
    after: tuple[IntArray, IntArray],
    *,
    strategy: str,
    fraction: float,
    seed: int,
) -> SubsampleLoss:
    """Return what `compare_sizes` does, from the numbers of events of users and of items.

    Parameters
    ----------
    before, after : events of each user, in any order, and of each item, in the same order in both
    """
    counts = before[1]
    listed = counts > 0
    n_head = int(np.ceil(HEAD * listed.sum()))
    head = np.zeros(len(counts), dtype=np.bool_)
    head[np.argsort(-counts, kind="stable")[:n_head]] = True
    profiles = [_profile(lengths, items, listed, head) for lengths, items in (before, after)]
    return SubsampleLoss(strategy, float(fraction), seed, *profiles)


def gini(counts: IntArray) -> float | None:
    """Return the Gini coefficient of non-negative counts; None without any count above 0.

    Examples
    --------
    >>> gini(np.array([2, 2])), gini(np.array([0, 0, 0, 4])), gini(np.array([0]))
    (0.0, 0.75, None)
    """
    total = int(counts.sum())
    if total == 0:
        return None
    n, ordered = len(counts), np.sort(counts)
    weights = 2 * np.arange(1, n + 1) - n - 1
    return float((weights * ordered).sum() / (n * total))


def _profile(lengths: IntArray, counts: IntArray, listed: BoolArray, head: BoolArray) -> Profile:
    lengths = lengths[lengths > 0]
    n_events = int(lengths.sum())
    quantiles: list[int] = []
    if len(lengths):
        quantiles = np.quantile(lengths, list(QUANTILES.values()), method="lower").tolist()
    return Profile(
        events=n_events,
        users=len(lengths),
        items=int((counts > 0).sum()),
        history=dict(zip(QUANTILES, quantiles, strict=False)),
        gini=gini(counts[listed]),
        head=float(counts[head].sum() / n_events) if n_events else None,
    )


@dataclass(frozen=True, eq=False, repr=False)
class SubSample(Displayed):
    """Some of the train events.

    Parameters
    ----------
    train : the kept events, in their order and in the vocabularies of all
    loss : comparison with all train events
    split : the kept events with the validation and test events as they were; None where no split was given
    """

    train: Interactions
    loss: SubsampleLoss
    split: Split | None = None

    def overview(self) -> Overview:
        """Return what a console and a notebook show."""
        rows = tuple(
            (name, *(MISSING if value is None else plain_number(value) for value in values))
            for name, *values in self.loss.rows()
        )
        kept = count_of(len(self.train), "event")
        return Overview(f"Sub-sample of {self.train.name!r}: {kept}", Table(("", "all", "kept"), rows))

    def to_polars(self) -> pl.DataFrame:
        """Return one row per kept event, as `Interactions.to_polars`."""
        return self.train.to_polars()


def select_events(
    data: Interactions | Split,
    strategy: str | Strategy,
    fraction: float,
    *,
    seed: int = 0,
    progress: Progress = SILENT,
    importance: FloatArray | None = None,
) -> SubSample:
    """Keep a fraction of the train events.

    Strategies with a proxy need ``importance`` here; ``subsample`` fits the proxy.

    Parameters
    ----------
    data : the events, or a split of which only the train part is sampled
    strategy : which events to keep, such as ``random-walk``
    fraction : of the events to keep, 0 to 1
    seed : of everything random
    progress : where long jobs report
    importance : (n,) of each train event, only for strategies with a proxy

    Returns
    -------
    SubSample
        Users and items without events stay in the vocabularies. ``split.counts`` has the numbers of users
        and items with targets but without train events (``users_without_history``,
        ``items_without_history``).

    Examples
    --------
    >>> events = Interactions.from_codes([0, 0, 1, 1], [0, 1, 0, 1])
    >>> small = select_events(events, "random", 0.5)
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
    loss = compare_sizes(full, kept, strategy=str(chosen), fraction=fraction, seed=seed)
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


@suggests_arguments
def subsample(
    data: Interactions | Split,
    strategy: str | Strategy,
    fraction: float,
    *,
    seed: int = 0,
    progress: Progress | bool = SILENT,
    importance: FloatArray | None = None,
    store: Store | str | Path | None = None,
) -> SubSample:
    """Keep a fraction of the train events, by any strategy.

    A strategy with a proxy fits it first, on all train events; the fit depends on the seed, not on the
    fraction. To keep several fractions, compute `importance` once and hand it on, or use a store.

    Parameters
    ----------
    data : the events, or a split of which only the train part is sampled
    strategy : which events to keep, such as ``random-walk`` or ``svp-cf(proxy=bias)``
    fraction : of the events to keep, 0 to 1
    seed : of everything random, the proxy's training included
    progress : where long jobs report; True shows bars
    importance : (n,) of each train event, for strategies with a proxy; None fits the proxy
    store : a store or a folder where the importance is kept, and found again

    Returns
    -------
    SubSample
        As from ``truerank.subsampling.subsample.select_events``.

    Examples
    --------
    >>> events = Interactions.from_codes([0, 0, 1, 1], [0, 1, 1, 2])
    >>> len(subsample(events, "svp-cf(proxy=bias(epochs=2))", 0.5).train)
    2
    """
    progress = as_progress(progress)
    chosen = make_strategy(strategy)
    check_fraction(fraction)
    check_seed(seed)
    train = data.train if isinstance(data, Split) else data
    check_interactions(train, "subsample")
    if isinstance(chosen, ProxyStrategy) and importance is None and len(train) and fraction not in (0, 1):
        chosen.check(train)
        importance = importance_for(chosen, train, seed=seed, progress=progress, store=as_store(store))
    return select_events(data, chosen, fraction, seed=seed, progress=progress, importance=importance)


def importance_for(
    strategy: ProxyStrategy,
    train: Interactions,
    *,
    seed: int = 0,
    progress: Progress = SILENT,
    store: Store | None = None,
) -> FloatArray:
    """Return the importance of each event that a strategy chooses by; see `importance`."""
    return compute(
        train,
        strategy.proxy,
        feedback=strategy.feedback,
        negatives=strategy.negatives,
        auc=strategy.auc,
        legacy=strategy.legacy,
        seed=seed,
        progress=progress,
        store=store,
    )


def events_frame(events: Interactions, part: str | None = None) -> pl.DataFrame:
    """Return ``user_id, item_id[, rating][, timestamp]`` and the further columns that were read.

    With a part, a column ``split`` holds it in every row.

    Examples
    --------
    >>> events_frame(Interactions.from_codes([0, 1], [1, 0]), "train").rows()
    [(0, 1, 'train'), (1, 0, 'train')]
    """
    import polars as pl

    frame = events.to_polars()
    return frame if part is None else frame.with_columns(pl.lit(part, pl.String).alias("split"))


def write_events(path: str | Path, events: Interactions | Split) -> None:
    """Write events, or the parts of a split one after the other, so that truerank can read them again.

    Times that were read from dates are written as seconds. No half-written file is ever left.

    Parameters
    ----------
    path : ends in .parquet, .csv or .tsv
    events : a split gets a column ``split`` (train, valid, test), which the split rule ``column`` reads

    Raises
    ------
    InvalidParameter
        When the ending is another one, or the path cannot be written.
    """
    import polars as pl

    path = Path(path)
    check_path(path)
    if isinstance(events, Split):
        parts = {"train": events.train, "valid": events.valid, "test": events.test}
        frame = pl.concat([events_frame(part, name) for name, part in parts.items() if part is not None])
    else:
        frame = events_frame(events)
    replace_table(path, frame, "the table of events")


def check_path(path: Path) -> None:
    """Raise unless events can be written to a file of this name."""
    suffixes = (".parquet", ".csv", ".tsv")
    if path.suffix.lower() not in suffixes:
        raise InvalidParameter(
            f"the table of events must end in {', '.join(suffixes)}, got '{path.name}'. Choose one of them."
        )
    check_output(path, "the table of events")
