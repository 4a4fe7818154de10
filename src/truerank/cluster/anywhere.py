"""One call, wherever the work is done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from truerank.cluster.evaluation import evaluate_on
from truerank.core.engine import Engine
from truerank.core.errors import InvalidParameter
from truerank.core.metric import Metric
from truerank.core.progress import SILENT, Progress
from truerank.core.result import Result
from truerank.core.split import Split
from truerank.engines import ENGINES
from truerank.engines.gpu import Gpu
from truerank.evaluation import DEFAULT_METRICS
from truerank.evaluation import evaluate as evaluate_here


def evaluate(
    models: Any,
    split: Split,
    metrics: str | Metric | Sequence[str | Metric] = DEFAULT_METRICS,
    *,
    engine: str | Engine | None = None,
    work_dir: str | Path | None = None,
    progress: Progress = SILENT,
    **options: Any,
) -> Result:
    """Return metrics of one or several models on the test part of a split.

    Every item of each user's pool is ranked, so the values are exact; the intervals say how far they may lie
    from those of other users like these. With a ``sampler`` only sampled items are ranked and the values are
    estimates.

    Parameters
    ----------
    models : a spec string, a model, something with scores (see ``as_scorer``), a list of these, or a
        mapping from names to these
    split : train, test and perhaps valid events
    metrics : spec strings (a comma-separated text or a list) or metric objects
    engine : where ranks are computed: None for threads of this process, ``gpu``,
        ``dask(address=tcp://host:8786)``, ``spark(master=yarn)``, ``local(threads=2)``
    work_dir : for engines with workers, a folder or URL that all of them can read
    progress : where long jobs report
    **options : ``ties``, ``seen``, ``interval``, ``level``, ``users``, ``target``, ``seed``, ``n_threads``,
        ``device``, ``sampler``, ``estimators``, ``uncertainty``, ``bounds`` and ``check`` as in
        ``truerank.evaluation.Options``

    Examples
    --------
    >>> from truerank.core.interactions import Interactions
    >>> train = Interactions.from_codes([0, 0, 1, 2], [0, 1, 1, 1], n_users=3, n_items=3)
    >>> test = Interactions.from_codes([1, 2], [0, 2], n_users=3, n_items=3)
    >>> evaluate("popularity", Split(train, test), "recall@1", engine="local").value("recall@1")
    0.5
    """
    made = None if engine is None else ENGINES.make(engine)
    if work_dir is not None and (made is None or isinstance(made, Gpu)):
        raise InvalidParameter(
            "work_dir is for engines with workers. Name one, such as dask, or leave it out."
        )
    if made is None:
        return evaluate_here(models, split, metrics, progress=progress, **options)
    if isinstance(made, Gpu):
        result = evaluate_here(models, split, metrics, progress=progress, device=made.device, **options)
        return replace(result, provenance={**result.provenance, "engine": str(made)})
    return evaluate_on(made, models, split, metrics, work_dir=work_dir, progress=progress, **options)
