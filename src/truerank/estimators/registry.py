"""The estimators and priors there are."""

from __future__ import annotations

from truerank.core.estimator import Estimator
from truerank.core.registry import Registry
from truerank.estimators.prior import Prior

ESTIMATORS: Registry[Estimator] = Registry(
    "estimator",
    {
        "beta-binomial": "truerank.estimators.beta_binomial:BetaBinomial",
        "bv": "truerank.estimators.bias_variance:BiasVariance",
        "cls": "truerank.estimators.constrained:ConstrainedLeastSquares",
        "ls": "truerank.estimators.least_squares:LeastSquares",
        "mapping": "truerank.estimators.mapped:Mapped",
        "mes": "truerank.estimators.mes:MaximalEntropy",
        "mle": "truerank.estimators.mle:MaximumLikelihood",
        "mn": "truerank.estimators.multinomial:Multinomial",
        "naive": "truerank.estimators.naive:Naive",
        "rank-estimate": "truerank.estimators.rank_estimate:RankEstimate",
        "smooth": "truerank.estimators.smooth:Smooth",
    },
)

PRIORS: Registry[Prior] = Registry(
    "prior",
    {
        "beta": "truerank.estimators.prior:Beta",
        "file": "truerank.estimators.prior:File",
        "uniform": "truerank.estimators.prior:Uniform",
    },
)
