"""Estimators of a rank distribution whose fit depends on more than shares of outcomes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from truerank.core.errors import CannotEstimate
from truerank.core.estimator import check_uniform
from truerank.core.tally import Tally
from truerank.estimators.likelihood import Likelihood, make_likelihood
from truerank.estimators.mixture import Fit, MixtureEstimator


@dataclass(frozen=True)
class CountedMixture(MixtureEstimator):
    """A mixture whose fit depends on the number of rows or on the design, which shares do not tell."""

    @abstractmethod
    def fit_runs(self, likelihood: Likelihood, tallies: Sequence[Tally]) -> Fit:
        """Return masses for each run, given what the likelihood was made of."""

    def fit(self, likelihood: Likelihood) -> Fit:
        """Raise: shares alone do not say how many rows there are, nor when sampling stopped."""
        raise CannotEstimate(f"'{self}' needs the counts of each run, not shares. Call fit_tallies, not fit.")

    def fit_tallies(self, tallies: Sequence[Tally]) -> tuple[Likelihood, Fit]:
        """Fit one or several runs of the same experiment."""
        for tally in tallies:
            check_uniform(self, tally)
        likelihood = make_likelihood(tallies, step=self.grid)
        return likelihood, self.fit_runs(likelihood, tallies)
