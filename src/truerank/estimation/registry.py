"""Tables of the estimators and of the priors, by name."""

from __future__ import annotations

from truerank.core.plugin import Registry
from truerank.estimation.base import Estimator
from truerank.estimation.corrections.priors import Prior

ESTIMATORS: Registry[Estimator] = Registry(
    "estimator",
    {
        "beta-binomial": "truerank.estimation.distribution.beta_binomial:BetaBinomial",
        "bv": "truerank.estimation.corrections.bias_variance:BiasVariance",
        "cls": "truerank.estimation.corrections.constrained:ConstrainedLeastSquares",
        "ls": "truerank.estimation.corrections.least_squares:LeastSquares",
        "mapping": "truerank.estimation.mapping.estimator:Mapped",
        "mes": "truerank.estimation.distribution.mes:MaximalEntropy",
        "mle": "truerank.estimation.distribution.mle:MaximumLikelihood",
        "mn": "truerank.estimation.corrections.multinomial:Multinomial",
        "naive": "truerank.estimation.corrections.naive:Naive",
        "rank-estimate": "truerank.estimation.corrections.rank_estimate:RankEstimate",
        "smooth": "truerank.estimation.distribution.smooth:Smooth",
    },
    base=Estimator,
)

PRIORS: Registry[Prior] = Registry(
    "prior",
    {
        "beta": "truerank.estimation.corrections.priors:BetaPrior",
        "file": "truerank.estimation.corrections.priors:FilePrior",
        "uniform": "truerank.estimation.corrections.priors:UniformPrior",
    },
)
