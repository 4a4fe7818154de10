"""What to compare: strategies, fractions, scenarios, models and seeds, checked before any work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from truerank.agreement.grid import configurations, find_grid
from truerank.agreement.registry import SCENARIOS
from truerank.agreement.scenario import Scenario
from truerank.core.check import check_at_least, check_level
from truerank.core.errors import InvalidParameter
from truerank.core.model import Model
from truerank.core.spec import parse_spec, split_specs
from truerank.core.strategy import Strategy
from truerank.core.stream import check_seed
from truerank.models import MODELS
from truerank.subsampling import make_strategy

#: Shares kept in [sachdeva2021]_.
PAPER_FRACTIONS = (0.8, 0.6, 0.4, 0.2, 0.1, 0.01)


@dataclass(frozen=True)
class Entrant:
    """A model of a scenario under the name it has in tables, with the configurations to try."""

    name: str
    configurations: tuple[Model, ...]


@dataclass(frozen=True)
class Plan:
    """An experiment without its data.

    Parameters
    ----------
    strategies : by name
    fractions : shares of the train events, largest first
    entrants : the models of each scenario
    seeds : of sub-samples and trainings
    seed : of the split and the resamples
    grid : the name of the grid
    level : of intervals, and of what counts as certain
    resamples : bootstrap samples of users
    threshold : how large the lower end of tau over certain pairs must be for an order to count as kept
    """

    strategies: Mapping[str, Strategy]
    fractions: tuple[float, ...]
    entrants: Mapping[Scenario, tuple[Entrant, ...]]
    seeds: tuple[int, ...]
    seed: int
    grid: str
    level: float
    resamples: int
    threshold: float


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
) -> Plan:
    """Build a plan from spec strings or objects.

    Examples
    --------
    >>> plan = make_plan("random,head-user", [0.1, 0.5], models="popularity,mf")
    >>> list(plan.strategies), plan.fractions, plan.seeds
    (['random', 'head-user'], (0.5, 0.1), (0, 1, 2))
    """
    check_seed(seed)
    check_level(level)
    check_at_least("resamples", resamples, 50)
    check_at_least("seeds", seeds, 1)
    if not 0 < threshold <= 1:
        raise InvalidParameter(f"threshold must be above 0 and at most 1, got {threshold!r}. Use 0.8.")
    return Plan(
        strategies=_strategies(strategies),
        fractions=_fractions(fractions),
        entrants={one: _entrants(one, models, grid) for one in SCENARIOS.make_all(scenario)},
        seeds=tuple(range(seed, seed + seeds)),
        seed=seed,
        grid=grid,
        level=level,
        resamples=resamples,
        threshold=threshold,
    )


def _strategies(given: str | Strategy | Sequence[str | Strategy]) -> dict[str, Strategy]:
    listed = split_specs(given) if isinstance(given, str) else given
    listed = [listed] if isinstance(listed, Strategy) else listed
    made = {(_name(one)): make_strategy(one) for one in listed}
    if not made:
        raise InvalidParameter("at least one strategy is needed, got none. Use for example random.")
    return made


def _fractions(given: Sequence[float]) -> tuple[float, ...]:
    wrong = [one for one in given if not 0 < one < 1]
    if wrong or not given:
        raise InvalidParameter(
            f"fractions must lie strictly between 0 and 1, got {wrong[0] if wrong else 'none'}. "
            "The full data is fitted anyway; use for example 0.5,0.1."
        )
    return tuple(sorted({float(one) for one in given}, reverse=True))


def _entrants(
    scenario: Scenario, given: str | Sequence[str | Model] | None, grid: str
) -> tuple[Entrant, ...]:
    chosen = find_grid(grid)
    named: list[tuple[str, str | Model]] = (
        list(scenario.models.items())
        if given is None
        else [(_name(one), one) for one in (split_specs(given) if isinstance(given, str) else given)]
    )
    made: dict[str, Model] = {}
    for name, written in named:
        model = scenario.adapt(MODELS.make(written))
        if name in made or model in made.values():
            raise InvalidParameter(f"model {name!r} is given twice. Leave one out.")
        made[name] = model
    if len(made) < 2:
        raise InvalidParameter(
            f"an order needs at least two models, got {', '.join(made) or 'none'}. Add another one."
        )
    return tuple(Entrant(name, configurations(model, chosen)) for name, model in made.items())


def _name(given: str | Strategy | Model) -> str:
    return str(parse_spec(given)) if isinstance(given, str) else str(given)
