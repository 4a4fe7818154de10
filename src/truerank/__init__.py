"""What a recommender's top-K metrics really are: exact where affordable, honest where not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from truerank.version import __version__

if TYPE_CHECKING:
    from truerank.accumulator import RankAccumulator
    from truerank.agreement import measure_agreement
    from truerank.bounds import identified
    from truerank.cluster import evaluate
    from truerank.comparison import Comparison, compare
    from truerank.core.estimate import Estimate
    from truerank.core.interactions import Interactions
    from truerank.core.ranks import Ranks, SampledRanks
    from truerank.core.result import Result
    from truerank.core.scorer import Factors, as_scorer
    from truerank.core.split import Split
    from truerank.data import from_arrays, from_csr, from_frame, k_core, load, min_history, read_interactions
    from truerank.estimation import estimate
    from truerank.estimators import ESTIMATORS
    from truerank.metrics import METRICS
    from truerank.models import MODELS
    from truerank.models.adapters import (
        from_callable,
        from_cornac,
        from_implicit,
        from_irspack,
        from_lenskit,
        from_recbole,
        from_torch,
    )
    from truerank.models.saving.scorer_file import load_scorer, save_scorer
    from truerank.planning import evaluate_to_precision, plan
    from truerank.ranks import SAMPLERS, exact_ranks, read_sampled_ranks, sampled_ranks
    from truerank.report import write_report
    from truerank.split import SPLITS, draw_users, make_split
    from truerank.studies import study
    from truerank.subsample import STRATEGIES
    from truerank.tracking import MlflowLogger, log_result
    from truerank.uncertainty import UNCERTAINTIES

# Public names and where they live; imported on first use so that `import truerank` stays fast.
_HOMES = {
    "ESTIMATORS": "truerank.estimators",
    "METRICS": "truerank.metrics",
    "MODELS": "truerank.models",
    "SAMPLERS": "truerank.ranks",
    "SPLITS": "truerank.split",
    "STRATEGIES": "truerank.subsample",
    "UNCERTAINTIES": "truerank.uncertainty",
    "Comparison": "truerank.comparison",
    "Estimate": "truerank.core.estimate",
    "Factors": "truerank.core.scorer",
    "Interactions": "truerank.core.interactions",
    "MlflowLogger": "truerank.tracking",
    "RankAccumulator": "truerank.accumulator",
    "Ranks": "truerank.core.ranks",
    "Result": "truerank.core.result",
    "SampledRanks": "truerank.core.ranks",
    "Split": "truerank.core.split",
    "as_scorer": "truerank.core.scorer",
    "compare": "truerank.comparison",
    "draw_users": "truerank.split",
    "estimate": "truerank.estimation",
    "evaluate": "truerank.cluster",
    "evaluate_to_precision": "truerank.planning",
    "exact_ranks": "truerank.ranks",
    "from_arrays": "truerank.data",
    "from_callable": "truerank.models.adapters",
    "from_cornac": "truerank.models.adapters",
    "from_csr": "truerank.data",
    "from_frame": "truerank.data",
    "from_implicit": "truerank.models.adapters",
    "from_irspack": "truerank.models.adapters",
    "from_lenskit": "truerank.models.adapters",
    "from_recbole": "truerank.models.adapters",
    "from_torch": "truerank.models.adapters",
    "identified": "truerank.bounds",
    "k_core": "truerank.data",
    "load": "truerank.data",
    "load_scorer": "truerank.models.saving.scorer_file",
    "log_result": "truerank.tracking",
    "make_split": "truerank.split",
    "measure_agreement": "truerank.agreement",
    "min_history": "truerank.data",
    "plan": "truerank.planning",
    "read_interactions": "truerank.data",
    "read_sampled_ranks": "truerank.ranks",
    "sampled_ranks": "truerank.ranks",
    "save_scorer": "truerank.models.saving.scorer_file",
    "study": "truerank.studies",
    "write_report": "truerank.report",
}

__all__ = [
    "ESTIMATORS",
    "METRICS",
    "MODELS",
    "SAMPLERS",
    "SPLITS",
    "STRATEGIES",
    "UNCERTAINTIES",
    "Comparison",
    "Estimate",
    "Factors",
    "Interactions",
    "MlflowLogger",
    "RankAccumulator",
    "Ranks",
    "Result",
    "SampledRanks",
    "Split",
    "__version__",
    "as_scorer",
    "compare",
    "draw_users",
    "estimate",
    "evaluate",
    "evaluate_to_precision",
    "exact_ranks",
    "from_arrays",
    "from_callable",
    "from_cornac",
    "from_csr",
    "from_frame",
    "from_implicit",
    "from_irspack",
    "from_lenskit",
    "from_recbole",
    "from_torch",
    "identified",
    "k_core",
    "load",
    "load_scorer",
    "log_result",
    "make_split",
    "measure_agreement",
    "min_history",
    "plan",
    "read_interactions",
    "read_sampled_ranks",
    "sampled_ranks",
    "save_scorer",
    "study",
    "write_report",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'truerank' has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
