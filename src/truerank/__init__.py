"""What a recommender's top-K metrics really are: exact where affordable, honest where not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from truerank.version import __version__

if TYPE_CHECKING:
    from truerank.core.interactions import Interactions
    from truerank.core.ranks import Ranks, SampledRanks
    from truerank.core.result import Estimate, Result
    from truerank.core.scorer import Factors, as_scorer
    from truerank.core.split import Split
    from truerank.data.catalogue import load
    from truerank.data.clean import k_core, min_history
    from truerank.data.read import from_arrays, from_csr, from_frame, read_interactions
    from truerank.estimation.registry import ESTIMATORS
    from truerank.inference.bounds.identify import identification_bounds
    from truerank.inference.estimate_interval.registry import UNCERTAINTIES
    from truerank.metrics.registry import METRICS
    from truerank.models.adapters.cornac import from_cornac
    from truerank.models.adapters.function import from_callable
    from truerank.models.adapters.implicit import from_implicit
    from truerank.models.adapters.irspack import from_irspack
    from truerank.models.adapters.lenskit import from_lenskit
    from truerank.models.adapters.recbole import from_recbole
    from truerank.models.adapters.torch import from_torch
    from truerank.models.registry import MODELS
    from truerank.models.saved_scorer import load_scorer, save_scorer
    from truerank.ranking.exact import exact_ranks
    from truerank.ranking.files import read_sampled_ranks
    from truerank.ranking.sampled import sampled_ranks
    from truerank.ranking.samplers.registry import SAMPLERS
    from truerank.report.page import write_report
    from truerank.split.base import SPLITS, make_split, sample_users
    from truerank.subsampling.base import STRATEGIES
    from truerank.workflows.agreement.experiment import measure_agreement
    from truerank.workflows.compare.compare import compare
    from truerank.workflows.compare.result import Comparison
    from truerank.workflows.estimate import RankAccumulator, estimate
    from truerank.workflows.evaluate import evaluate
    from truerank.workflows.plan.plan import plan
    from truerank.workflows.precision.precision import evaluate_to_precision
    from truerank.workflows.study import study
    from truerank.workflows.tracking import MlflowLogger, log_result

# Public names and where they live; imported on first use so that `import truerank` stays fast.
_HOMES = {
    "ESTIMATORS": "truerank.estimation.registry",
    "METRICS": "truerank.metrics.registry",
    "MODELS": "truerank.models.registry",
    "SAMPLERS": "truerank.ranking.samplers.registry",
    "SPLITS": "truerank.split.base",
    "STRATEGIES": "truerank.subsampling.base",
    "UNCERTAINTIES": "truerank.inference.estimate_interval.registry",
    "Comparison": "truerank.workflows.compare.result",
    "Estimate": "truerank.core.result",
    "Factors": "truerank.core.scorer",
    "Interactions": "truerank.core.interactions",
    "MlflowLogger": "truerank.workflows.tracking",
    "RankAccumulator": "truerank.workflows.estimate",
    "Ranks": "truerank.core.ranks",
    "Result": "truerank.core.result",
    "SampledRanks": "truerank.core.ranks",
    "Split": "truerank.core.split",
    "as_scorer": "truerank.core.scorer",
    "compare": "truerank.workflows.compare.compare",
    "sample_users": "truerank.split.base",
    "estimate": "truerank.workflows.estimate",
    "evaluate": "truerank.workflows.evaluate",
    "evaluate_to_precision": "truerank.workflows.precision.precision",
    "exact_ranks": "truerank.ranking.exact",
    "from_arrays": "truerank.data.read",
    "from_callable": "truerank.models.adapters.function",
    "from_cornac": "truerank.models.adapters.cornac",
    "from_csr": "truerank.data.read",
    "from_frame": "truerank.data.read",
    "from_implicit": "truerank.models.adapters.implicit",
    "from_irspack": "truerank.models.adapters.irspack",
    "from_lenskit": "truerank.models.adapters.lenskit",
    "from_recbole": "truerank.models.adapters.recbole",
    "from_torch": "truerank.models.adapters.torch",
    "identification_bounds": "truerank.inference.bounds.identify",
    "k_core": "truerank.data.clean",
    "load": "truerank.data.catalogue",
    "load_scorer": "truerank.models.saved_scorer",
    "log_result": "truerank.workflows.tracking",
    "make_split": "truerank.split.base",
    "measure_agreement": "truerank.workflows.agreement.experiment",
    "min_history": "truerank.data.clean",
    "plan": "truerank.workflows.plan.plan",
    "read_interactions": "truerank.data.read",
    "read_sampled_ranks": "truerank.ranking.files",
    "sampled_ranks": "truerank.ranking.sampled",
    "save_scorer": "truerank.models.saved_scorer",
    "study": "truerank.workflows.study",
    "write_report": "truerank.report.page",
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
    "identification_bounds",
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
    "sample_users",
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
