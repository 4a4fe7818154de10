"""Sub-samples by any strategy."""

from __future__ import annotations

from truerank.core.interactions import Interactions
from truerank.core.progress import SILENT, Progress
from truerank.core.split import Split
from truerank.core.store import Store
from truerank.core.strategy import ProxyStrategy, Strategy, check_fraction
from truerank.core.stream import check_seed
from truerank.core.types import FloatArray
from truerank.subsample import SubSample
from truerank.subsample import subsample as draw
from truerank.subsampling.difficulty import importance as compute
from truerank.subsampling.proxy import make_strategy


def subsample(
    data: Interactions | Split,
    strategy: str | Strategy,
    fraction: float,
    *,
    seed: int = 0,
    progress: Progress = SILENT,
    importance: FloatArray | None = None,
    store: Store | None = None,
) -> SubSample:
    """Keep a fraction of the train events, by any strategy.

    A strategy with a proxy fits it first, on all train events; the fit depends on the seed, not on the
    fraction. To keep several fractions, compute `importance` once and hand it on, or use a store.

    Parameters
    ----------
    data : the events, or a split of which only the train part is sampled
    strategy : which events to keep, such as ``random-walk`` or ``svp-cf(proxy=bias)``
    fraction : share of the events to keep, 0 to 1
    seed : of everything random, the proxy's training included
    progress : where long jobs report
    importance : (n,) of each train event, for strategies with a proxy; None fits the proxy
    store : where the importance is kept, and found again

    Returns
    -------
    SubSample
        As from ``truerank.subsample.subsample``.

    Examples
    --------
    >>> events = Interactions.from_codes([0, 0, 1, 1], [0, 1, 1, 2])
    >>> len(subsample(events, "svp-cf(proxy=bias(epochs=2))", 0.5).train)
    2
    """
    chosen = make_strategy(strategy)
    check_fraction(fraction)
    check_seed(seed)
    train = data.train if isinstance(data, Split) else data
    if isinstance(chosen, ProxyStrategy) and importance is None and len(train) and fraction not in (0, 1):
        chosen.check(train)
        importance = importance_for(chosen, train, seed=seed, progress=progress, store=store)
    return draw(data, chosen, fraction, seed=seed, progress=progress, importance=importance)


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
