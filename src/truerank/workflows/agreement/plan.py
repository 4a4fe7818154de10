"""Plan of an agreement experiment: strategies, fractions, scenarios, models with their grids, and seeds.

A plan is built from spec strings or objects and checked before any work starts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from truerank.core.errors import (
    MOST_RESAMPLES,
    MOST_SEEDS,
    InvalidParameter,
    UnknownName,
    check_at_least,
    check_level,
)
from truerank.core.model import Model
from truerank.core.plugin import parse_spec, split_specs
from truerank.core.random import check_seed
from truerank.models.registry import MODELS
from truerank.subsampling.base import Strategy
from truerank.subsampling.importance import make_strategy
from truerank.workflows.agreement.scenarios import SCENARIOS, Scenario


@dataclass(frozen=True)
class ParameterGrid:
    """Hyper-parameter values to try; where there are none, a model keeps its own.

    Parameters
    ----------
    sizes : dimensions of embeddings and layers
    dropouts : dropout probabilities
    rates : learning rates
    """

    sizes: tuple[int, ...] = ()
    dropouts: tuple[float, ...] = ()
    rates: tuple[float, ...] = ()


#: ``paper`` is the search of [sachdeva2021]_, App. B, on its three small data sets, ``paper-large`` that on
#: its three large ones; ``repo`` is the default of the published code.
GRIDS: Mapping[str, ParameterGrid] = {
    "none": ParameterGrid(),
    "reduced": ParameterGrid(sizes=(8, 32)),
    "reduced-rates": ParameterGrid(sizes=(8, 32), rates=(0.001, 0.006, 0.02)),
    "repo": ParameterGrid(sizes=(8, 16, 32, 50)),
    "paper": ParameterGrid((4, 8, 16, 32, 50), (0.0, 0.3, 0.5), (0.001, 0.006, 0.02)),
    "paper-large": ParameterGrid((4, 8, 16, 32, 50), (0.0, 0.3, 0.5)),
}

_SIZES: Mapping[str, Callable[[int], dict[str, Any]]] = {
    "ials": lambda d: {"factors": d},
    "mf": lambda d: {"factors": d},
    "multi-vae": lambda d: {"hidden": d, "latent": d},
    "neumf": lambda d: {"factors": d, "layers": f"{2 * d}-{d}-{d}"},
    "sasrec": lambda d: {"factors": d},
    "svae": lambda d: {"embedding": d, "recurrent": d, "hidden": d, "latent": d},
}


def find_grid(name: str) -> ParameterGrid:
    """Return a grid by its name."""
    if name not in GRIDS:
        raise UnknownName("grid", name, GRIDS)
    return GRIDS[name]


def configurations(model: Model, grid: ParameterGrid) -> tuple[Model, ...]:
    """Return the model with every combination of those values of the grid that it has a parameter for.

    Examples
    --------
    >>> from truerank.models.registry import MODELS
    >>> [str(model) for model in configurations(MODELS.make("mf"), GRIDS["reduced"])]
    ['mf(factors=8)', 'mf(factors=32)']
    >>> len(configurations(MODELS.make("mf"), GRIDS["paper"]))
    45
    >>> len(configurations(MODELS.make("popularity"), GRIDS["paper"]))
    1
    """
    sized = [replace(model, **_SIZES[model.key](size)) for size in grid.sizes if model.key in _SIZES]
    variants: list[Model] = sized or [model]
    for field, values in (("dropout", grid.dropouts), ("learning_rate", grid.rates)):
        if values and hasattr(model, field):
            variants = [_with(variant, field, value) for variant in variants for value in values]
    return tuple(dict.fromkeys(variants))


def _with(model: Model, field: str, value: float) -> Model:
    return replace(model, **{field: value})


#: Fractions of the train events in [sachdeva2021]_.
PAPER_FRACTIONS = (0.8, 0.6, 0.4, 0.2, 0.1, 0.01)


@dataclass(frozen=True)
class ModelGrid:
    """A model of a scenario under the name it has in tables, with the configurations to try."""

    name: str
    configurations: tuple[Model, ...]


@dataclass(frozen=True)
class AgreementPlan:
    """What an agreement experiment compares, without the data.

    Parameters
    ----------
    strategies : by name
    fractions : of the train events, largest first
    model_grids : the models of each scenario
    seeds : of sub-samples and trainings
    seed : of the split and the resamples
    grid : name of the grid
    level : of intervals, and of the order of two models to be certain on the full data
    resamples : bootstrap samples of users
    threshold : an order is kept when the lower limit of tau over certain pairs is at least this
    least_events, least_users, least_items : sub-samples with fewer train events, or fewer users or items that
        have one, are skipped: their taus are missing; 0 skips none
    """

    strategies: Mapping[str, Strategy]
    fractions: tuple[float, ...]
    model_grids: Mapping[Scenario, tuple[ModelGrid, ...]]
    seeds: tuple[int, ...]
    seed: int
    grid: str
    level: float
    resamples: int
    threshold: float
    least_events: int = 0
    least_users: int = 0
    least_items: int = 0

    @property
    def has_limits(self) -> bool:
        """Whether sub-samples can be too small."""
        return max(self.least_events, self.least_users, self.least_items) > 0

    def shortfall(self, n_events: int, n_users: int, n_items: int) -> str:
        """Return in words why a sub-sample of this size is skipped; empty when it is not.

        Examples
        --------
        >>> plan = make_plan("random", [0.5], models="popularity,mf", least_events=100)
        >>> plan.shortfall(99, 50, 50), plan.shortfall(100, 1, 1)
        ('99 train events, fewer than 100', '')
        """
        sizes = (
            ("train events", n_events, self.least_events),
            ("users", n_users, self.least_users),
            ("items", n_items, self.least_items),
        )
        return "; ".join(f"{n} {what}, fewer than {least}" for what, n, least in sizes if n < least)


def make_plan(
    strategies: str | Strategy | Sequence[str | Strategy],
    fractions: Sequence[float] = PAPER_FRACTIONS,
    scenario: str | Scenario | Sequence[str | Scenario] = "implicit",
    models: str | Sequence[str | Model] | None = None,
    *,
    seeds: int = 3,
    seed: int = 0,
    grid: str = "none",
    level: float = 0.95,
    resamples: int = 400,
    threshold: float = 0.8,
    least_events: int = 0,
    least_users: int = 0,
    least_items: int = 0,
) -> AgreementPlan:
    """Build a plan from spec strings or objects.

    Examples
    --------
    >>> plan = make_plan("random,head-user", [0.1, 0.5], models="popularity,mf")
    >>> list(plan.strategies), plan.fractions, plan.seeds
    (['random', 'head-user'], (0.5, 0.1), (0, 1, 2))
    """
    check_seed(seed)
    check_level(level)
    check_at_least("resamples", resamples, 50, MOST_RESAMPLES)
    check_at_least("seeds", seeds, 1, MOST_SEEDS)
    check_seed(seed + seeds - 1)
    for name, least in (
        ("least_events", least_events),
        ("least_users", least_users),
        ("least_items", least_items),
    ):
        check_at_least(name, least, 0)
    if not 0 < threshold <= 1:
        raise InvalidParameter(
            f"threshold must be above 0 and at most 1, got {threshold!r}. Use for example 0.8."
        )
    return AgreementPlan(
        strategies=_strategies(strategies),
        fractions=_fractions(fractions),
        model_grids={made: _model_grids(made, models, grid) for made in SCENARIOS.make_all(scenario)},
        seeds=tuple(range(seed, seed + seeds)),
        seed=seed,
        grid=grid,
        level=level,
        resamples=resamples,
        threshold=threshold,
        least_events=least_events,
        least_users=least_users,
        least_items=least_items,
    )


def _strategies(given: str | Strategy | Sequence[str | Strategy]) -> dict[str, Strategy]:
    listed = split_specs(given) if isinstance(given, str) else given
    listed = [listed] if isinstance(listed, Strategy) else listed
    strategies = {_name(spec): make_strategy(spec) for spec in listed}
    if not strategies:
        raise InvalidParameter("at least one strategy is needed, got none. Use for example random.")
    return strategies


def _fractions(given: Sequence[float]) -> tuple[float, ...]:
    wrong = [fraction for fraction in given if not 0 < fraction < 1]
    if wrong or not given:
        raise InvalidParameter(
            f"fractions must lie strictly between 0 and 1, got {wrong[0] if wrong else 'none'}. "
            "Use for example 0.5,0.1; the full data is always fitted too."
        )
    return tuple(sorted({float(fraction) for fraction in given}, reverse=True))


def _model_grids(
    scenario: Scenario, given: str | Sequence[str | Model] | None, grid: str
) -> tuple[ModelGrid, ...]:
    parameter_grid = find_grid(grid)
    named: list[tuple[str, str | Model]] = (
        list(scenario.models.items())
        if given is None
        else [(_name(spec), spec) for spec in (split_specs(given) if isinstance(given, str) else given)]
    )
    models: dict[str, Model] = {}
    for name, spec in named:
        model = scenario.adapt(MODELS.make(spec))
        if name in models or model in models.values():
            raise InvalidParameter(f"model {name!r} is given twice. Leave one out.")
        models[name] = model
    if len(models) < 2:
        raise InvalidParameter(
            f"an order needs at least two models, got {', '.join(models) or 'none'}. Add another one."
        )
    return tuple(ModelGrid(name, configurations(model, parameter_grid)) for name, model in models.items())


def _name(given: str | Strategy | Model) -> str:
    return str(parse_spec(given)) if isinstance(given, str) else str(given)
