"""Priors that are fitted to the sampled ranks themselves."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar
from weakref import WeakKeyDictionary

import numpy as np

from truerank.core.errors import InvalidData, InvalidParameter, UnknownName
from truerank.core.estimator import Estimator
from truerank.core.spec import Spec
from truerank.core.tally import Tally
from truerank.core.types import FloatArray, frozen
from truerank.estimators.grid import Grid
from truerank.estimators.prior import Prior

if TYPE_CHECKING:
    from truerank.estimators.mixture import MixtureEstimator

_FITS: WeakKeyDictionary[Tally, dict[MixtureEstimator, Binned]] = WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class Binned(Prior):
    """Masses over bins of ranks, as the estimators of a rank distribution fit them.

    A pool of another size than the largest is the same list stretched.

    Parameters
    ----------
    grid : the bins
    masses : (n_bins,) >= 0, sum 1

    Raises
    ------
    InvalidData
        When the masses are no distribution over the bins.

    Examples
    --------
    >>> Binned(Grid(np.array([0, 1, 3])), np.array([0.5, 0.5])).weights(3).tolist()
    [0.5, 0.25, 0.25]
    """

    grid: Grid
    masses: FloatArray
    key: ClassVar[str] = "binned"

    def __post_init__(self) -> None:
        masses = np.asarray(self.masses, dtype=np.float64)
        if masses.shape != (self.grid.n_bins,) or not np.isfinite(masses).all() or masses.min() < 0:
            raise InvalidData(f"a prior over {self.grid.n_bins} bins needs one mass >= 0 for each of them.")
        if abs(masses.sum() - 1) > 1e-6:
            raise InvalidData(f"masses of a prior must sum to 1, got {masses.sum():.8g}.")
        object.__setattr__(self, "masses", frozen(masses / masses.sum()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Binned) and self.fingerprint() == other.fingerprint()

    def __hash__(self) -> int:
        return hash(self.fingerprint())

    def cdf(self, share: FloatArray) -> FloatArray:
        """Return the mass at or below each share of the ranks."""
        return self.grid.cdf(self.masses, share)

    def weights(self, n_ranks: int) -> FloatArray:
        """Return the weight of each of ranks 1..n_ranks."""
        return self.grid.spread(self.masses, n_ranks)

    def fingerprint(self) -> str:
        """Return a digest of bins and masses."""
        content = self.grid.edges.tobytes() + self.masses.tobytes()
        return hashlib.blake2b(content, digest_size=16).hexdigest()

    def spec(self) -> Spec:
        """Return a spec that names the masses; they cannot be written out, so it cannot be read back."""
        return Spec(self.key, (("digest", self.fingerprint()),))


@dataclass(frozen=True)
class Fitted(Prior):
    """The distribution that an estimator fits to the sample at hand, such as ``mle(iterations=50)``.

    Written as the estimator itself. Each sample gets its own prior; for one prior from the mean over repeated
    samples see ``averaged_prior``.

    Parameters
    ----------
    estimator : what is fitted
    """

    estimator: MixtureEstimator

    def resolve(self, tally: Tally) -> Prior:
        """Return the masses fitted to a sample; the same sample is fitted once."""
        held = _FITS.setdefault(tally, {})
        if self.estimator not in held:
            held[self.estimator] = self.resolve_runs([tally])[0]
        return held[self.estimator]

    def resolve_runs(self, tallies: Sequence[Tally]) -> list[Binned]:
        """Return the masses fitted to each of several samples, all fitted at once over common bins."""
        likelihood, fit = self.estimator.fit_tallies(tallies)
        return [Binned(likelihood.grid, masses) for masses in fit.masses]

    def cdf(self, share: FloatArray) -> FloatArray:
        """Raise: there is no distribution before there is a sample."""
        raise InvalidParameter(
            f"prior '{self}' is fitted to sampled ranks. Call resolve(tally) for its distribution."
        )

    def fingerprint(self) -> str:
        """Raise: what is fitted has one, this has not."""
        raise InvalidParameter(
            f"prior '{self}' is fitted to sampled ranks. Call resolve(tally) for its fingerprint."
        )

    def spec(self) -> Spec:
        """Return the spec of the estimator."""
        return self.estimator.spec()


def fitted_prior(estimator: Estimator) -> Fitted | None:
    """Return the prior that an estimator fits to each sample, or None if it has none."""
    prior = getattr(estimator, "prior", None)
    return prior if isinstance(prior, Fitted) else None


def averaged_prior(estimator: str | Spec | Estimator | Fitted, tallies: Sequence[Tally]) -> Prior:
    """Return the mean of what is fitted to each of several samples.

    The priors of the tables of [li2023]_ are such means over all repeats; they use the repeats' whole budget.

    Parameters
    ----------
    estimator : of a rank distribution, such as ``mle``; or a prior of that kind
    tallies : the samples

    Examples
    --------
    >>> from truerank.core.ranks import SampledRanks
    >>> from truerank.core.tally import tally
    >>> runs = [tally(SampledRanks.single([j], n_negatives=1, n_pool=2)) for j in (0, 0, 1)]
    >>> averaged_prior("mle(grid=0)", runs).weights(2).round(4).tolist()
    [0.6667, 0.3333]
    """
    made = estimator if isinstance(estimator, Fitted) else make_fitted(estimator)
    found = made.resolve_runs(tallies)
    return Binned(found[0].grid, np.mean([one.masses for one in found], axis=0))


def make_prior(written: object) -> Prior:
    """Build a prior from an object, or from the spec of a prior or of an estimator of a rank distribution."""
    from truerank.estimators.registry import ESTIMATORS, PRIORS

    if isinstance(written, Prior):
        return written
    if isinstance(written, Estimator):
        return make_fitted(written)
    if not isinstance(written, Spec):
        raise InvalidParameter(
            f"prior must be a prior or a spec such as uniform, beta(a=0.5) or mle, got {written!r}."
        )
    if written.name in PRIORS.table or written.name in PRIORS.presets:
        return PRIORS.make(written)
    if written.name in ESTIMATORS.table or written.name in ESTIMATORS.presets:
        return make_fitted(written)
    raise UnknownName("prior", written.name, [*PRIORS.names(), *_fitting()])


def make_fitted(written: str | Spec | Estimator) -> Fitted:
    """Build a fitted prior from an estimator of a rank distribution.

    Raises
    ------
    InvalidParameter
        When the estimator fits none.
    """
    from truerank.estimators.mixture import MixtureEstimator
    from truerank.estimators.registry import ESTIMATORS

    made = ESTIMATORS.make(written)
    if not isinstance(made, MixtureEstimator):
        raise InvalidParameter(
            f"prior must be a distribution of ranks, and '{made}' fits none. Use {', '.join(_fitting())}."
        )
    return Fitted(made)


def _fitting() -> list[str]:
    """Return the names of the estimators of a rank distribution."""
    from truerank.estimators.mixture import MixtureEstimator
    from truerank.estimators.registry import ESTIMATORS

    return [
        name for name in sorted(ESTIMATORS.table) if issubclass(ESTIMATORS.type_of(name), MixtureEstimator)
    ]
