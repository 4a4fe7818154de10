"""A new estimator of a rank distribution is one class and one table line; nothing else knows its name."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

import truerank
from truerank.core.errors import CannotEstimate
from truerank.core.ranks import Ranks, SampledRanks, Stopping
from truerank.core.result import Estimate
from truerank.core.types import FloatArray, IntArray
from truerank.estimation.base import Estimator
from truerank.estimation.distribution.base import FittedMasses, MixtureEstimator, Sensitivity, mean_under
from truerank.estimation.distribution.likelihood import Likelihood
from truerank.estimation.registry import ESTIMATORS
from truerank.estimation.tally import Tally, tally
from truerank.inference.estimate_interval.registry import Target
from truerank.metrics.registry import make_metrics
from truerank.ranking.simulate import simulate_adaptive, simulate_sample
from truerank.workflows.estimate import estimate

SOURCE = Path(truerank.__file__).parent


@dataclass(frozen=True)
class OneStep(MixtureEstimator):
    """The posterior of the ranks under a uniform prior: one step of EM."""

    key: ClassVar[str] = "one-step"

    def fit(self, likelihood: Likelihood, tallies: Sequence[Tally]) -> FittedMasses:
        """Return masses for each run."""
        even = likelihood.grid.even
        posterior = likelihood.matrix * even / (likelihood.matrix @ even)[:, None]
        return FittedMasses(likelihood.fractions @ posterior)

    @property
    def has_influence(self) -> bool:
        """It is linear in the fractions of outcomes."""
        return True

    def sensitivity(
        self, likelihood: Likelihood, fit: FittedMasses, tally: Tally, slope: FloatArray
    ) -> Sensitivity:
        """Return the derivatives of the fit."""
        return OneStepSensitivity(likelihood.grid.even, slope)


@dataclass(frozen=True, eq=False)
class OneStepSensitivity(Sensitivity):
    even: FloatArray
    slope: FloatArray

    def at(
        self, probabilities: FloatArray, n_negatives: int, n_candidates: int, n_above: IntArray
    ) -> FloatArray:
        return mean_under(probabilities, self.even, self.slope)


@dataclass(frozen=True)
class Jumping(OneStep):
    """The same without a derivative: what an estimator has that states nothing but ``fit``."""

    key: ClassVar[str] = "jumping"

    @property
    def has_influence(self) -> bool:
        return False


@pytest.fixture(autouse=True)
def table_line(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in (OneStep, Jumping):
        monkeypatch.setitem(ESTIMATORS.table, kind.key, f"{__name__}:{kind.__name__}")


def sample(n_users: int = 400, *, adaptive: bool = False) -> SampledRanks:
    above = (300 * np.random.default_rng(4).beta(0.4, 1.0, n_users)).astype(np.int64)
    ranks = Ranks.single(above, n_pool=400)
    if adaptive:
        return simulate_adaptive(ranks, Stopping((10, 20, 40)), seed=3)
    return simulate_sample(ranks, 30, seed=3)


def limits(entry: Estimate) -> tuple[float, float]:
    assert entry.low is not None
    assert entry.high is not None
    return entry.low, entry.high


@pytest.mark.parametrize("adaptive", [False, True])
@pytest.mark.parametrize("target", ["test-users", "population"])
def test_estimates_and_their_intervals(adaptive: bool, target: Target) -> None:
    """Standard errors by the derivative and by refitting resamples agree; both hold the estimate."""
    some = sample(adaptive=adaptive)
    (value,) = OneStep().estimate(tally(some), make_metrics("ndcg@20")).value
    half = {}
    for kind in ("delta", "bootstrap(resamples=400)"):
        found = estimate(some, "ndcg@20", "one-step", uncertainty=kind, target=target)
        (entry,) = found.estimates
        assert entry.value == pytest.approx(value, rel=1e-12)
        low, high = limits(entry)
        assert low < entry.value < high
        half[kind] = high - low
    assert half["bootstrap(resamples=400)"] == pytest.approx(half["delta"], rel=0.2)


def test_without_a_derivative_there_is_the_bootstrap() -> None:
    some = sample(60)
    with pytest.raises(CannotEstimate, match="the fit of 'jumping' moves in jumps"):
        estimate(some, "ndcg@20", "jumping", uncertainty="delta")
    (entry,) = estimate(some, "ndcg@20", "jumping", uncertainty="sampling(resamples=50)").estimates
    assert entry.method.startswith("bootstrap")
    low, high = limits(entry)
    assert low < entry.value < high


def test_it_serves_as_a_prior() -> None:
    fitted = ESTIMATORS.make("bv(prior=one-step)")
    assert np.isfinite(fitted.estimate(tally(sample()), make_metrics("recall@10")).value).all()


def type_checks(tree: ast.AST) -> Iterator[str]:
    """Yield the class names in second arguments of isinstance and issubclass, and in ``match`` patterns."""
    for node in ast.walk(tree):
        inner: ast.AST
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("isinstance", "issubclass"):
            inner = node.args[1]
        elif isinstance(node, ast.MatchClass):
            inner = node.cls
        else:
            continue
        yield from (one.id for one in ast.walk(inner) if isinstance(one, ast.Name))
        yield from (one.attr for one in ast.walk(inner) if isinstance(one, ast.Attribute))


@pytest.mark.slow
def test_no_module_asks_which_estimator_it_has() -> None:
    """Classes in the table of estimators are named by type checks in their own file at most."""
    own = {
        name: ESTIMATORS.type_of(name) for name in ESTIMATORS.names() if name not in ("one-step", "jumping")
    }
    assert len(own) >= 11
    assert all(issubclass(kind, Estimator) for kind in own.values())
    home = {kind.__name__: kind.__module__ for kind in own.values()}
    wrong = [
        f"{path.relative_to(SOURCE)}: {name}"
        for path in sorted(SOURCE.rglob("*.py"))
        for name in type_checks(ast.parse(path.read_text(encoding="utf-8")))
        if name in home
        and home[name].replace(".", "/") + ".py" != f"truerank/{path.relative_to(SOURCE).as_posix()}"
    ]
    assert wrong == []
    assert list(type_checks(ast.parse("isinstance(x, (Smooth, mle.MaximumLikelihood))"))) == [
        "Smooth",
        "mle",
        "MaximumLikelihood",
    ]
