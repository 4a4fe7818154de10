"""How hard each event is for a proxy model."""

from __future__ import annotations

import hashlib

import numpy as np

from truerank.core.errors import InvalidData
from truerank.core.interactions import Interactions
from truerank.core.model import EpochModel
from truerank.core.progress import SILENT, Progress
from truerank.core.spec import Spec
from truerank.core.store import Store
from truerank.core.strategy import Auc, Feedback, check_difficulty
from truerank.core.stream import check_seed
from truerank.core.types import FloatArray
from truerank.subsample import Difficulty
from truerank.subsampling.legacy import difficulty_in_training
from truerank.subsampling.proxy import make_proxy


def importance(
    train: Interactions,
    proxy: str | Spec | EpochModel = "mf",
    *,
    feedback: Feedback = "implicit",
    epochs: int | None = None,
    negatives: int = 1,
    auc: Auc = "complement",
    legacy: bool = False,
    seed: int = 0,
    progress: Progress = SILENT,
    store: Store | None = None,
) -> FloatArray:
    """Return how hard each event is for a proxy model, averaged over the epochs of its training.

    Parameters
    ----------
    train : the events; the proxy learns from all of them
    proxy : ``mf`` or ``bias`` with the paper's settings, or another model that trains in epochs
    feedback : explicit (squared error of ratings) or implicit (share of negatives that stand above)
    epochs : of the proxy's training; None leaves it to the proxy (50 for mf and bias)
    negatives, auc : for implicit feedback, as in `truerank.subsample.proxy.SvpCf`
    legacy : score events in training mode, before the step that learns from them, as the published code does;
        mf and bias only
    seed : of the training and of the negatives
    progress : advances once per epoch
    store : where the result is kept, and found again for the same events and settings

    Returns
    -------
    (n,) float64, one per event in the order of the events

    Raises
    ------
    NotConverged
        When the proxy's training went astray.

    Examples
    --------
    >>> events = Interactions.from_codes([0, 0, 1, 1, 2, 2], [0, 1, 0, 1, 0, 2])
    >>> importance(events, "bias", epochs=4).tolist()  # item 2 stands behind item 1
    [0.0, 0.0, 0.0, 0.0, 0.0, 1.0]
    """
    model = make_proxy(proxy, feedback, epochs=epochs)
    check_difficulty(feedback, negatives, auc, legacy=legacy)
    check_seed(seed)
    if feedback == "explicit" and train.value is None:
        raise InvalidData(
            f"explicit feedback needs ratings, but {train.name!r} has none. Read a rating column, or use "
            "feedback='implicit'."
        )

    def compute() -> dict[str, np.ndarray]:
        if legacy:
            return {"importance": difficulty_in_training(model, train, seed=seed, progress=progress)}
        difficulty = Difficulty(train, feedback=feedback, negatives=negatives, auc=auc, seed=seed)
        model.fit(train, seed=seed, progress=progress, on_epoch=lambda epoch: difficulty.add(epoch.scorer))
        if difficulty.epochs < getattr(model, "epochs", 1):
            raise KeyboardInterrupt  # the trainer ends early on Ctrl-C; half a training is not the answer
        return {"importance": difficulty.mean()}

    if store is None:
        return compute()["importance"]
    asked = f"proxy={model} feedback={feedback} negatives={negatives} auc={auc} legacy={legacy} seed={seed}"
    return store.arrays(f"importance {asked} events={events_hash(train)}", compute)["importance"]


def events_hash(train: Interactions) -> str:
    """Return a digest of the events in their order."""
    digest = hashlib.blake2b(f"{train.n_users} {train.n_items}".encode(), digest_size=16)
    for name in ("user", "item", "value", "time"):
        column = getattr(train, name)
        if column is not None:
            digest.update(f"{name} {column.dtype}".encode())
            digest.update(np.ascontiguousarray(column).view(np.uint8).data)
    return digest.hexdigest()
