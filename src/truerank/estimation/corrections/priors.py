"""Priors over global ranks: the weights of ranks in the error that a correction minimises.

A prior is given (uniform, beta, a table or a file of weights), or is the rank distribution that an estimator
fits to the sampled ranks themselves.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar
from weakref import WeakKeyDictionary

import numpy as np

from truerank.core.checkpoint import check_input
from truerank.core.errors import InvalidData, InvalidParameter, UnknownName, check_above
from truerank.core.plugin import Plugin, Source, Spec
from truerank.core.types import FloatArray, frozen
from truerank.estimation.base import Estimator
from truerank.estimation.distribution.likelihood import RankGrid
from truerank.estimation.tally import Tally

if TYPE_CHECKING:
    from truerank.estimation.distribution.base import MixtureEstimator


@dataclass(frozen=True)
class Prior(Plugin, ABC):
    """Weights over global ranks that sum to 1.

    A prior is a distribution function F on the relative scale (0, 1]; rank R of n ranks has the weight
    F(R/n) - F((R-1)/n), so one prior serves pools of all sizes.
    """

    @abstractmethod
    def cdf(self, fraction: FloatArray) -> FloatArray:
        """Return F at fractions of the list in [0, 1]."""

    def weights(self, n_ranks: int) -> FloatArray:
        """Return the weight of each of ranks 1..n_ranks."""
        weights: FloatArray = np.diff(self.cdf(np.arange(n_ranks + 1) / n_ranks))
        return weights

    def resolve(self, tally: Tally) -> Prior:
        """Return the prior for a sample: itself, unless it is fitted to the sampled ranks."""
        return self

    def check_size(self, n_ranks: int) -> None:
        """Raise unless the prior can serve data whose largest list of ranks is that long."""

    def fingerprint(self) -> str:
        """Return a text that is equal for equal weights only."""
        return str(self)


@dataclass(frozen=True)
class UniformPrior(Prior):
    """All ranks have the same weight.

    Examples
    --------
    >>> UniformPrior().weights(4).tolist()
    [0.25, 0.25, 0.25, 0.25]
    """

    key: ClassVar[str] = "uniform"
    source: ClassVar[Source] = Source("krichene2020", "Sec. 5.2")

    def cdf(self, fraction: FloatArray) -> FloatArray:
        """Return the fraction itself."""
        return fraction

    def weights(self, n_ranks: int) -> FloatArray:
        """Return 1/n_ranks for each rank."""
        return np.full(n_ranks, 1 / n_ranks)


@dataclass(frozen=True)
class BetaPrior(Prior):
    """Ranks as Beta(a, 1): the smaller a, the more targets at the top; a = 1 is uniform.

    Parameters
    ----------
    a : exponent of the distribution function, > 0; real recommenders lie around 0.2 to 0.5

    Notes
    -----
    Weights are differences of the distribution function, because the density is infinite at rank 1.

    Examples
    --------
    >>> BetaPrior(0.5).weights(4).round(4).tolist()  # sqrt(1/4), sqrt(2/4) - sqrt(1/4), ...
    [0.5, 0.2071, 0.1589, 0.134]
    """

    a: float = 0.5
    key: ClassVar[str] = "beta"
    source: ClassVar[Source] = Source("li2020", "Eq. 14")

    def __post_init__(self) -> None:
        check_above("a", self.a, 0)

    def cdf(self, fraction: FloatArray) -> FloatArray:
        """Return fraction ** a."""
        return np.power(fraction, self.a)


@dataclass(frozen=True, eq=False)
class TablePrior(Prior):
    """Weights given as an array, such as a rank distribution estimated elsewhere.

    Lists of another length get differences of the linearly interpolated distribution function.

    Parameters
    ----------
    given : (N,) weights of ranks 1..N, >= 0, sum 1

    Raises
    ------
    InvalidData
        When they are not a distribution.

    Examples
    --------
    >>> TablePrior(np.array([0.5, 0.5])).weights(4).tolist()
    [0.25, 0.25, 0.25, 0.25]
    """

    given: FloatArray
    key: ClassVar[str] = "table"

    def __post_init__(self) -> None:
        weights = np.asarray(self.given, dtype=np.float64)
        check_weights(weights, "the prior")
        object.__setattr__(self, "given", frozen(weights))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TablePrior) and np.array_equal(self.given, other.given)

    def __hash__(self) -> int:
        return hash(self.fingerprint())

    def cdf(self, fraction: FloatArray) -> FloatArray:
        """Return the interpolated sums of the weights."""
        steps = np.arange(len(self.given) + 1) / len(self.given)
        sums: FloatArray = np.interp(fraction, steps, np.concatenate([[0.0], np.cumsum(self.given)]))
        return sums

    def weights(self, n_ranks: int) -> FloatArray:
        """Return the weights as given where the length fits."""
        if n_ranks != len(self.given):
            return super().weights(n_ranks)
        weights: FloatArray = self.given
        return weights

    def check_size(self, n_ranks: int) -> None:
        """Raise unless there is one weight per rank of the longest list."""
        if len(self.given) != n_ranks:
            raise InvalidData(
                f"the prior must have {n_ranks} weights, one per rank of the largest pool, "
                f"got {len(self.given)}. Give a prior for this pool, or file(path=..., resize=true)."
            )

    def fingerprint(self) -> str:
        """Return a digest of the weights."""
        return hashlib.blake2b(np.ascontiguousarray(self.given).tobytes(), digest_size=16).hexdigest()

    def spec(self) -> Spec:
        """Return a spec with a digest of the weights; an array cannot be made from it."""
        return Spec(self.key, (("digest", self.fingerprint()),))


@dataclass(frozen=True)
class FilePrior(Prior):
    """Weights from a text file, one number per rank, first rank first.

    Parameters
    ----------
    path : the file; a first line that is not a number is taken as a heading
    resize : whether weights of another number than the ranks of the largest pool are stretched to it. Smaller
        pools of the same data always get theirs by linear interpolation of the distribution function.

    Raises
    ------
    InvalidData
        When a number is negative or missing, the sum is not 1, or the length is wrong.
    """

    path: str = ""
    resize: bool = False
    key: ClassVar[str] = "file"

    def __post_init__(self) -> None:
        if not self.path:
            raise InvalidParameter("prior 'file' needs a path. Write it as file(path=prior.csv).")
        self._table()

    def cdf(self, fraction: FloatArray) -> FloatArray:
        """Return the interpolated sums of the weights."""
        return self._table().cdf(fraction)

    def weights(self, n_ranks: int) -> FloatArray:
        """Return the weights as given where the length fits."""
        return self._table().weights(n_ranks)

    def check_size(self, n_ranks: int) -> None:
        """Raise unless there is one weight per rank of the longest list or ``resize`` is true."""
        if not self.resize:
            self._table().check_size(n_ranks)

    def fingerprint(self) -> str:
        """Return a digest of the weights."""
        return self._table().fingerprint()

    def _table(self) -> TablePrior:
        check_input(self.path, "a prior file")
        try:
            state = Path(self.path).stat()
        except OSError:
            raise InvalidData(f"cannot read prior file {self.path!r}. Check the path.") from None
        return _read(self.path, state.st_mtime_ns, state.st_size)


def check_weights(weights: FloatArray, name: str) -> None:
    """Raise unless weights are a distribution over at least one rank."""
    if weights.ndim != 1 or len(weights) == 0 or not np.isfinite(weights).all():
        raise InvalidData(f"{name} must be a list of finite weights, one per rank. Check the file or array.")
    if weights.min() < 0:
        rank = int(np.argmin(weights)) + 1
        raise InvalidData(f"weights of {name} must be >= 0, got {weights.min():g} at rank {rank}.")
    if abs(weights.sum() - 1) > 1e-8:
        raise InvalidData(
            f"weights of {name} must sum to 1, got {weights.sum():.10g}. Divide them by their sum."
        )


@lru_cache(maxsize=8)
def _read(path: str, _modified: int, _size: int) -> TablePrior:
    """Read a file; again when it was modified."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise InvalidData(f"prior file {path!r} must be text, but it cannot be read ({error}).") from None
    lines = [line.strip().rstrip(",;") for line in text.splitlines()]
    numbers: list[float] = []
    for number, line in enumerate(lines, start=1):
        if not line:
            continue
        try:
            numbers.append(float(line))
        except ValueError:
            if number == 1:
                continue
            raise InvalidData(
                f"line {number} of prior file {path!r} must be one number, got {line!r}."
            ) from None
    weights = np.array(numbers)
    check_weights(weights, f"prior file {path!r}")
    return TablePrior(weights)


_FITS: WeakKeyDictionary[Tally, dict[MixtureEstimator, BinnedPrior]] = WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class BinnedPrior(Prior):
    """Masses over bins of ranks, as the estimators of a rank distribution fit them.

    A pool of another size than the largest is the same list stretched.

    Parameters
    ----------
    grid : the bins
    masses : (n_bins,) >= 0, sum 1

    Raises
    ------
    InvalidData
        When the masses are not a distribution over the bins.

    Examples
    --------
    >>> BinnedPrior(RankGrid(np.array([0, 1, 3])), np.array([0.5, 0.5])).weights(3).tolist()
    [0.5, 0.25, 0.25]
    """

    grid: RankGrid
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
        return isinstance(other, BinnedPrior) and self.fingerprint() == other.fingerprint()

    def __hash__(self) -> int:
        return hash(self.fingerprint())

    def cdf(self, fraction: FloatArray) -> FloatArray:
        """Return the mass at or below each fraction of the ranks."""
        return self.grid.cdf(self.masses, fraction)

    def weights(self, n_ranks: int) -> FloatArray:
        """Return the weight of each of ranks 1..n_ranks."""
        return self.grid.spread(self.masses, n_ranks)

    def fingerprint(self) -> str:
        """Return a digest of bins and masses."""
        content = self.grid.edges.tobytes() + self.masses.tobytes()
        return hashlib.blake2b(content, digest_size=16).hexdigest()

    def spec(self) -> Spec:
        """Return a spec with a digest of the masses; they cannot be made from it."""
        return Spec(self.key, (("digest", self.fingerprint()),))


@dataclass(frozen=True)
class FittedPrior(Prior):
    """The distribution that an estimator fits to the sample itself, such as ``mle(iterations=50)``.

    Written as the spec of the estimator. Each sample gets a prior fitted to it; for one prior from the mean
    over repeated samples see ``averaged_prior``.

    Parameters
    ----------
    estimator : what is fitted
    """

    estimator: MixtureEstimator

    def resolve(self, tally: Tally) -> Prior:
        """Return the masses fitted to a sample; the same sample is fitted once."""
        fits = _FITS.setdefault(tally, {})
        if self.estimator not in fits:
            fits[self.estimator] = self.resolve_runs([tally])[0]
        return fits[self.estimator]

    def resolve_runs(self, tallies: Sequence[Tally]) -> list[BinnedPrior]:
        """Return the masses fitted to each of several samples, all fitted at once over common bins."""
        likelihood, fit = self.estimator.fit_tallies(tallies)
        return [BinnedPrior(likelihood.grid, masses) for masses in fit.masses]

    def cdf(self, fraction: FloatArray) -> FloatArray:
        """Raise: there is no distribution before there is a sample."""
        raise InvalidParameter(
            f"prior '{self}' is fitted to sampled ranks. Call resolve(tally) for its distribution."
        )

    def fingerprint(self) -> str:
        """Raise: there is no distribution before there is a sample."""
        raise InvalidParameter(
            f"prior '{self}' is fitted to sampled ranks. Call resolve(tally) for its fingerprint."
        )

    def spec(self) -> Spec:
        """Return the spec of the estimator."""
        return self.estimator.spec()


def fitted_prior(estimator: Estimator) -> FittedPrior | None:
    """Return the prior that an estimator fits to each sample, or None if it has none."""
    prior = getattr(estimator, "prior", None)
    return prior if isinstance(prior, FittedPrior) else None


def averaged_prior(estimator: str | Spec | Estimator | FittedPrior, tallies: Sequence[Tally]) -> Prior:
    """Return the mean of what is fitted to each of several samples.

    The priors of the tables of [li2023]_ are such means over all repeats; they use the repeats' whole budget.

    Parameters
    ----------
    estimator : of a rank distribution, such as ``mle``; or a prior of that kind
    tallies : the samples

    Examples
    --------
    >>> from truerank.core.ranks import SampledRanks
    >>> from truerank.estimation.tally import tally
    >>> runs = [tally(SampledRanks.single([j], n_negatives=1, n_pool=2)) for j in (0, 0, 1)]
    >>> averaged_prior("mle(grid=0)", runs).weights(2).round(4).tolist()
    [0.6667, 0.3333]
    """
    prior = estimator if isinstance(estimator, FittedPrior) else make_fitted(estimator)
    fits = prior.resolve_runs(tallies)
    return BinnedPrior(fits[0].grid, np.mean([fit.masses for fit in fits], axis=0))


def make_prior(written: object) -> Prior:
    """Build a prior from an object, or from the spec of a prior or of an estimator of a rank distribution."""
    from truerank.estimation.registry import ESTIMATORS, PRIORS

    if isinstance(written, Prior):
        return written
    if isinstance(written, Estimator):
        return make_fitted(written)
    if not isinstance(written, Spec):
        raise InvalidParameter(
            f"prior must be a prior or a spec such as uniform, beta(a=0.5) or mle, got {written!r}."
        )
    if written.name in PRIORS:
        return PRIORS.make(written)
    if written.name in ESTIMATORS:
        return make_fitted(written)
    raise UnknownName("prior", written.name, [*PRIORS.names(), *_fitting()])


def make_fitted(written: str | Spec | Estimator) -> FittedPrior:
    """Build a fitted prior from an estimator of a rank distribution.

    Raises
    ------
    InvalidParameter
        When the estimator does not fit a rank distribution.
    """
    from truerank.estimation.distribution.base import MixtureEstimator
    from truerank.estimation.registry import ESTIMATORS

    estimator = ESTIMATORS.make(written)
    if not isinstance(estimator, MixtureEstimator):
        raise InvalidParameter(
            f"prior must be a distribution of ranks, and '{estimator}' fits none. "
            f"Use {', '.join(_fitting())}."
        )
    return FittedPrior(estimator)


def _fitting() -> list[str]:
    """Return the names of the estimators of a rank distribution."""
    from truerank.estimation.distribution.base import MixtureEstimator
    from truerank.estimation.registry import ESTIMATORS

    return [
        name for name in sorted(ESTIMATORS.table) if issubclass(ESTIMATORS.type_of(name), MixtureEstimator)
    ]
