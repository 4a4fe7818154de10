"""Models and a split in, ranks on the same users, targets and negatives out."""

from __future__ import annotations

from collections.abc import Mapping

from truerank.core.model import Model
from truerank.core.progress import SILENT, Progress
from truerank.core.ranks import Ranks, SampledRanks, SeenPolicy
from truerank.core.scorer import Scorer
from truerank.core.split import Split
from truerank.evaluation import check_targets, fit_scorer
from truerank.ranks import SAMPLERS, Sampler, exact_ranks, sample
from truerank.validation import make_validate


def rank_models(
    models: Mapping[str, Model | Scorer],
    split: Split,
    *,
    sampler: str | Sampler | None = None,
    seen: SeenPolicy = "remove",
    seed: int = 0,
    n_threads: int | None = None,
    progress: Progress = SILENT,
) -> dict[str, Ranks | SampledRanks]:
    """Fit models and rank their targets, against all items or against negatives that all models share.

    Parameters
    ----------
    models : by name, as ``evaluation.name_models`` returns them
    split : train and test events
    sampler : how negatives are drawn; None ranks all items. With ``shared=false`` each model has its own
    seen, seed, n_threads, progress : as in ``evaluate``
    """
    check_targets(split)
    chosen = None if sampler is None else SAMPLERS.make(sampler)
    validate = make_validate(split, seen=seen, n_threads=n_threads)
    ranks: dict[str, Ranks | SampledRanks] = {}
    for name, model in models.items():
        scorer = fit_scorer(model, split, validate=validate, seed=seed, progress=progress)
        if chosen is None:
            ranks[name] = exact_ranks(scorer, split, seen=seen, n_threads=n_threads, progress=progress)
        else:
            ranks[name] = sample(
                scorer,
                split,
                chosen,
                seen=seen,
                seed=seed,
                label=name,
                n_threads=n_threads,
                progress=progress,
            ).ranks
    return ranks
