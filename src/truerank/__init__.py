"""What a recommender's top-K metrics really are: exact where affordable, honest where not.

Everything public is here: functions (``evaluate``, ``estimate``, ``compare``, ``changes``, ``plan``,
``bounds``, ``subsample``, ``agreement``, ``study``), the types that travel between them, registries (mappings
in upper case), the base classes of plug-ins (``GainMetric``, ``Model``, ...) and errors. Names are imported
on first use, so that ``import truerank`` stays fast.
"""

from __future__ import annotations

from truerank.version import __version__

TYPE_CHECKING = False  # as in typing, which takes longer to load than all of this
if TYPE_CHECKING:
    from typing import Any

    from truerank.core.errors import (
        BrokenPlugin,
        CannotEstimate,
        DataWarning,
        Interrupted,
        InvalidData,
        InvalidParameter,
        JobFailed,
        MissingDependency,
        NotConverged,
        TruerankError,
        UnknownArgument,
        UnknownName,
    )
    from truerank.core.interactions import Interactions
    from truerank.core.model import Model
    from truerank.core.ranks import Ranks, SampledRanks
    from truerank.core.result import Estimate, Result, Segments
    from truerank.core.scorer import Factors, as_scorer
    from truerank.core.split import GroupLabels, Split
    from truerank.data.catalogue import load
    from truerank.data.clean import k_core, min_history
    from truerank.data.read import from_arrays, from_csr, from_frame, read_interactions
    from truerank.distributed.engine import ENGINES, Engine
    from truerank.estimation.base import Estimator
    from truerank.estimation.mapping.functions import MAPPINGS
    from truerank.estimation.registry import ESTIMATORS, PRIORS
    from truerank.inference.bounds.identify import identification_bounds as bounds
    from truerank.inference.estimate_interval.registry import UNCERTAINTIES
    from truerank.inference.user_interval import INTERVALS
    from truerank.metrics.base import GainMetric, Metric, RankMetric
    from truerank.metrics.grades import GAINS
    from truerank.metrics.registry import METRICS
    from truerank.models.adapters.arrays import scorer_from_arrays
    from truerank.models.adapters.cornac import from_cornac
    from truerank.models.adapters.function import from_callable
    from truerank.models.adapters.implicit import from_implicit
    from truerank.models.adapters.irspack import from_irspack
    from truerank.models.adapters.lenskit import from_lenskit
    from truerank.models.adapters.recbole import from_recbole
    from truerank.models.adapters.torch import from_torch
    from truerank.models.registry import MODELS
    from truerank.models.saved_scorer import load_scorer, save_scorer
    from truerank.models.slow.slow_scorer import slow_scorer
    from truerank.ranking.exact import exact_ranks
    from truerank.ranking.files import read_sampled_ranks
    from truerank.ranking.negatives import Sampler
    from truerank.ranking.sampled import sampled_ranks
    from truerank.ranking.samplers.registry import SAMPLERS
    from truerank.ranking.samplers.weighted import WeightedSampler
    from truerank.report.page import write_report
    from truerank.split.base import SPLITS, Splitter, make_split, sample_users
    from truerank.subsampling.base import STRATEGIES, Strategy
    from truerank.subsampling.subsample import subsample
    from truerank.workflows.agreement.experiment import measure_agreement as agreement
    from truerank.workflows.agreement.scenarios import SCENARIOS
    from truerank.workflows.compare.changes import changes
    from truerank.workflows.compare.compare import compare
    from truerank.workflows.compare.result import Comparison
    from truerank.workflows.estimate import RankAccumulator, estimate
    from truerank.workflows.evaluate import evaluate
    from truerank.workflows.plan.plan import plan
    from truerank.workflows.segments.grouping import GROUPINGS, Grouping
    from truerank.workflows.study import study
    from truerank.workflows.tracking import MlflowLogger, log_result

#: Public names, and the module and name behind each.
_HOMES = {
    "ENGINES": "truerank.distributed.engine:ENGINES",
    "ESTIMATORS": "truerank.estimation.registry:ESTIMATORS",
    "GAINS": "truerank.metrics.grades:GAINS",
    "GROUPINGS": "truerank.workflows.segments.grouping:GROUPINGS",
    "INTERVALS": "truerank.inference.user_interval:INTERVALS",
    "MAPPINGS": "truerank.estimation.mapping.functions:MAPPINGS",
    "METRICS": "truerank.metrics.registry:METRICS",
    "MODELS": "truerank.models.registry:MODELS",
    "PRIORS": "truerank.estimation.registry:PRIORS",
    "SAMPLERS": "truerank.ranking.samplers.registry:SAMPLERS",
    "SCENARIOS": "truerank.workflows.agreement.scenarios:SCENARIOS",
    "SPLITS": "truerank.split.base:SPLITS",
    "STRATEGIES": "truerank.subsampling.base:STRATEGIES",
    "UNCERTAINTIES": "truerank.inference.estimate_interval.registry:UNCERTAINTIES",
    "BrokenPlugin": "truerank.core.errors:BrokenPlugin",
    "CannotEstimate": "truerank.core.errors:CannotEstimate",
    "Comparison": "truerank.workflows.compare.result:Comparison",
    "DataWarning": "truerank.core.errors:DataWarning",
    "Engine": "truerank.distributed.engine:Engine",
    "Estimate": "truerank.core.result:Estimate",
    "Estimator": "truerank.estimation.base:Estimator",
    "Factors": "truerank.core.scorer:Factors",
    "GainMetric": "truerank.metrics.base:GainMetric",
    "GroupLabels": "truerank.core.split:GroupLabels",
    "Grouping": "truerank.workflows.segments.grouping:Grouping",
    "Interactions": "truerank.core.interactions:Interactions",
    "Interrupted": "truerank.core.errors:Interrupted",
    "InvalidData": "truerank.core.errors:InvalidData",
    "InvalidParameter": "truerank.core.errors:InvalidParameter",
    "JobFailed": "truerank.core.errors:JobFailed",
    "Metric": "truerank.metrics.base:Metric",
    "MissingDependency": "truerank.core.errors:MissingDependency",
    "MlflowLogger": "truerank.workflows.tracking:MlflowLogger",
    "Model": "truerank.core.model:Model",
    "NotConverged": "truerank.core.errors:NotConverged",
    "RankAccumulator": "truerank.workflows.estimate:RankAccumulator",
    "RankMetric": "truerank.metrics.base:RankMetric",
    "Ranks": "truerank.core.ranks:Ranks",
    "Result": "truerank.core.result:Result",
    "SampledRanks": "truerank.core.ranks:SampledRanks",
    "Sampler": "truerank.ranking.negatives:Sampler",
    "Segments": "truerank.core.result:Segments",
    "Split": "truerank.core.split:Split",
    "Splitter": "truerank.split.base:Splitter",
    "Strategy": "truerank.subsampling.base:Strategy",
    "TruerankError": "truerank.core.errors:TruerankError",
    "UnknownArgument": "truerank.core.errors:UnknownArgument",
    "UnknownName": "truerank.core.errors:UnknownName",
    "WeightedSampler": "truerank.ranking.samplers.weighted:WeightedSampler",
    "agreement": "truerank.workflows.agreement.experiment:measure_agreement",
    "as_scorer": "truerank.core.scorer:as_scorer",
    "bounds": "truerank.inference.bounds.identify:identification_bounds",
    "changes": "truerank.workflows.compare.changes:changes",
    "compare": "truerank.workflows.compare.compare:compare",
    "estimate": "truerank.workflows.estimate:estimate",
    "evaluate": "truerank.workflows.evaluate:evaluate",
    "exact_ranks": "truerank.ranking.exact:exact_ranks",
    "from_arrays": "truerank.data.read:from_arrays",
    "from_callable": "truerank.models.adapters.function:from_callable",
    "from_cornac": "truerank.models.adapters.cornac:from_cornac",
    "from_csr": "truerank.data.read:from_csr",
    "from_frame": "truerank.data.read:from_frame",
    "from_implicit": "truerank.models.adapters.implicit:from_implicit",
    "from_irspack": "truerank.models.adapters.irspack:from_irspack",
    "from_lenskit": "truerank.models.adapters.lenskit:from_lenskit",
    "from_recbole": "truerank.models.adapters.recbole:from_recbole",
    "from_torch": "truerank.models.adapters.torch:from_torch",
    "k_core": "truerank.data.clean:k_core",
    "load": "truerank.data.catalogue:load",
    "load_scorer": "truerank.models.saved_scorer:load_scorer",
    "log_result": "truerank.workflows.tracking:log_result",
    "make_split": "truerank.split.base:make_split",
    "min_history": "truerank.data.clean:min_history",
    "plan": "truerank.workflows.plan.plan:plan",
    "read_interactions": "truerank.data.read:read_interactions",
    "read_sampled_ranks": "truerank.ranking.files:read_sampled_ranks",
    "sample_users": "truerank.split.base:sample_users",
    "sampled_ranks": "truerank.ranking.sampled:sampled_ranks",
    "save_scorer": "truerank.models.saved_scorer:save_scorer",
    "scorer_from_arrays": "truerank.models.adapters.arrays:scorer_from_arrays",
    "slow_scorer": "truerank.models.slow.slow_scorer:slow_scorer",
    "study": "truerank.workflows.study:study",
    "subsample": "truerank.subsampling.subsample:subsample",
    "write_report": "truerank.report.page:write_report",
}

__all__ = [
    "ENGINES",
    "ESTIMATORS",
    "GAINS",
    "GROUPINGS",
    "INTERVALS",
    "MAPPINGS",
    "METRICS",
    "MODELS",
    "PRIORS",
    "SAMPLERS",
    "SCENARIOS",
    "SPLITS",
    "STRATEGIES",
    "UNCERTAINTIES",
    "BrokenPlugin",
    "CannotEstimate",
    "Comparison",
    "DataWarning",
    "Engine",
    "Estimate",
    "Estimator",
    "Factors",
    "GainMetric",
    "GroupLabels",
    "Grouping",
    "Interactions",
    "Interrupted",
    "InvalidData",
    "InvalidParameter",
    "JobFailed",
    "Metric",
    "MissingDependency",
    "MlflowLogger",
    "Model",
    "NotConverged",
    "RankAccumulator",
    "RankMetric",
    "Ranks",
    "Result",
    "SampledRanks",
    "Sampler",
    "Segments",
    "Split",
    "Splitter",
    "Strategy",
    "TruerankError",
    "UnknownArgument",
    "UnknownName",
    "WeightedSampler",
    "__version__",
    "agreement",
    "as_scorer",
    "bounds",
    "changes",
    "compare",
    "estimate",
    "evaluate",
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
    "k_core",
    "load",
    "load_scorer",
    "log_result",
    "make_split",
    "min_history",
    "plan",
    "read_interactions",
    "read_sampled_ranks",
    "sample_users",
    "sampled_ranks",
    "save_scorer",
    "scorer_from_arrays",
    "slow_scorer",
    "study",
    "subsample",
    "write_report",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'truerank' has no attribute {name!r}")
    import importlib

    module, _, attribute = _HOMES[name].partition(":")
    value = getattr(importlib.import_module(module), attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
