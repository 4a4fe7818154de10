"""Exact ranks of a split on a GPU."""

from __future__ import annotations

import warnings

from truerank.core.check import check_choice
from truerank.core.errors import DataWarning, InvalidData, InvalidParameter
from truerank.core.progress import SILENT, Progress, tracked
from truerank.core.ranks import SEEN_POLICIES, Ranks, SeenPolicy
from truerank.core.scorer import HasFactors, Scorer
from truerank.core.split import Split
from truerank.ranks.exact import exact_ranks, make_queries, ranks_from_counts
from truerank.ranks.gpu.device import Engine, has_gpu, open_device
from truerank.ranks.gpu.factor import count_on_device


def exact_ranks_gpu(
    scorer: Scorer,
    split: Split,
    *,
    seen: SeenPolicy = "remove",
    device: str = "cuda",
    engine: Engine = "auto",
    memory: int | None = None,
    progress: Progress = SILENT,
) -> Ranks:
    """Return where each target of the test part stands among all items; every count equals ``exact_ranks``.

    Where torch sees no GPU, a warning says so and the CPU counts.

    Parameters
    ----------
    scorer : what gives the scores; must have factors
    split : the targets are the test part; items of train and valid are the seen ones
    seen : as in ``exact_ranks``
    device : ``cuda``, ``cuda:1``, ...; ``cpu`` runs the same steps in torch
    engine, memory : as in ``count_on_device``

    Raises
    ------
    InvalidParameter
        When the scorer has no factors, or the device is not there although another GPU is.
    InvalidData
        When the scorer's catalogue is not the split's, or factors are not finite.

    Examples
    --------
    >>> import numpy as np
    >>> from truerank.core.interactions import Interactions
    >>> from truerank.core.scorer import Factors
    >>> train = Interactions.from_codes([0], [0], n_items=4)
    >>> split = Split(train, Interactions.from_codes([0], [2], n_items=4))
    >>> factors = Factors(np.array([[1.0]]), np.array([[9.0], [3.0], [2.0], [2.0]]))
    >>> ranks = exact_ranks_gpu(factors, split, device="cpu")
    >>> ranks.n_above.tolist(), ranks.n_tied.tolist(), ranks.n_pool.tolist()
    ([1], [1], [3])
    """
    check_choice("seen", seen, SEEN_POLICIES)
    if not isinstance(scorer, HasFactors):
        raise InvalidParameter(
            f"a GPU ranks scorers with factors, {type(scorer).__name__} has none. Leave the device out."
        )
    if device.startswith("cuda") and not has_gpu():
        warnings.warn(f"torch sees no GPU, so {device!r} is the CPU here.", DataWarning, stacklevel=2)
        return exact_ranks(scorer, split, seen=seen, progress=progress)
    open_device(device)
    factors, n_items = scorer.factors(), split.train.n_items
    if factors.n_items != n_items:
        raise InvalidData(
            f"the scorer must know the {n_items} items of the data, it knows {factors.n_items}. "
            "Fit it on this split, or read the data with the vocabulary it was fitted on."
        )
    queries = make_queries(split, seen)
    if len(queries) and queries.users[-1] >= len(factors.user):
        raise InvalidData(
            f"there must be a vector for each user, but user {queries.users[-1]} has none "
            f"({len(factors.user)} vectors). Fit the model on this split."
        )
    with tracked(progress, "ranking", len(queries)) as task:
        counts = count_on_device(
            factors.user[queries.users],
            factors.item,
            factors.item_bias,
            queries.targets.indptr,
            queries.targets.items,
            queries.excluded.indptr,
            queries.excluded.items,
            device=device,
            engine=engine,
            memory=memory,
            on_rows=task.advance,
        )
    return ranks_from_counts(queries, counts, n_items, seen)
