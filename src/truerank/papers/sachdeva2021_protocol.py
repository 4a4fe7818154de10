"""Sachdeva et al. (2021), SVP-CF: the experiment behind Table 1, under two protocols.

``published`` is what the authors' code does: hyper-parameters are chosen on the test part, small sub-samples
are skipped, strategies and propensities are as coded. ``ours`` has the same models and the same search,
chosen on the validation part; every sub-sample counts. Both are plans for one runner.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from truerank.core.errors import InvalidParameter
from truerank.core.interactions import Interactions
from truerank.core.progress import SILENT, Progress
from truerank.data.catalogue import find_local, load
from truerank.models.registry import MODELS
from truerank.workflows.agreement.plan import (
    PAPER_FRACTIONS,
    AgreementPlan,
    ModelGrid,
    configurations,
    find_grid,
    make_plan,
)
from truerank.workflows.agreement.scenarios import Explicit, Implicit, Scenario, Sequential

SCENARIOS = ("explicit", "implicit", "sequential")
#: group and sampler in Table 1 to the strategy
STRATEGIES: Mapping[tuple[str, str], str] = {
    ("interaction", "Random"): "random",
    ("interaction", "Stratified"): "stratified",
    ("interaction", "Temporal"): "temporal",
    ("interaction", "SVP-CF w/ MF"): "s21-svp-cf-mf",
    ("interaction", "SVP-CF w/ Bias-only"): "s21-svp-cf-bias",
    ("interaction", "SVP-CF-PROP w/ MF"): "s21-svp-cf-prop-mf",
    ("interaction", "SVP-CF-PROP w/ Bias-only"): "s21-svp-cf-prop-bias",
    ("user", "Random"): "random-user",
    ("user", "Head"): "head-user",
    ("user", "SVP-CF w/ MF"): "s21-svp-cf-mf-user",
    ("user", "SVP-CF w/ Bias-only"): "s21-svp-cf-bias-user",
    ("user", "SVP-CF-PROP w/ MF"): "s21-svp-cf-prop-mf-user",
    ("user", "SVP-CF-PROP w/ Bias-only"): "s21-svp-cf-prop-bias-user",
    ("graph", "Centrality"): "centrality",
    ("graph", "Random-walk"): "random-walk",
    ("graph", "Forest-fire"): "forest-fire",
}
#: the same strategies as the authors' code has them, where that is something else
AS_CODED: Mapping[str, str] = {
    "stratified": "stratified(legacy=true)",
    "temporal": "temporal(legacy=true)",
    "s21-svp-cf-mf": "svp-cf(proxy=mf, legacy=true, exact=false)",
    "s21-svp-cf-bias": "svp-cf(proxy=bias, legacy=true, exact=false)",
    "s21-svp-cf-prop-mf": "svp-cf-prop(proxy=mf, legacy=true, exact=false, variant=repo)",
    "s21-svp-cf-prop-bias": "svp-cf-prop(proxy=bias, legacy=true, exact=false, variant=repo)",
    "random-user": "random-user(exact=false)",
    "head-user": "head-user(exact=false)",
    "s21-svp-cf-mf-user": "svp-cf(proxy=mf, legacy=true, unit=user, exact=false)",
    "s21-svp-cf-bias-user": "svp-cf(proxy=bias, legacy=true, unit=user, exact=false)",
    "s21-svp-cf-prop-mf-user": "svp-cf-prop(proxy=mf, legacy=true, unit=user, exact=false, variant=repo)",
    "s21-svp-cf-prop-bias-user": "svp-cf-prop(proxy=bias, legacy=true, unit=user, exact=false, variant=repo)",
    "centrality": "centrality(exact=false, legacy=true)",
    "random-walk": "random-walk(exact=false, legacy=true)",
    "forest-fire": "forest-fire(exact=false, legacy=true)",
}
#: the paper's name of an algorithm to ours
ALGORITHMS = {
    "Bias-only": "bias-only",
    "MF": "mf",
    "NeuMF": "neumf",
    "PopRec": "popularity",
    "MVAE": "multi-vae",
    "SVAE": "svae",
    "SASRec": "sasrec",
}
#: repetitions of the whole experiment, with other sub-samples and first weights; the paper has one
SEEDS = 3
#: name of the search that is run by default, and of the single configuration of a quick run
SEARCH, QUICK_SEARCH = "reduced-rates", "none"
_STOP = "auc,recall(norm=min)@10"
_CHOSEN = {"explicit": "mse", "implicit": "auc", "sequential": "recall(norm=min)@100"}


@dataclass(frozen=True)
class AgreementProtocol:
    """How the experiment is made.

    Parameters
    ----------
    name : as on the command line
    scenarios : splits, masks, and the part on which hyper-parameters are chosen
    strategies : by the name that tables have
    duplicates : what becomes of repeated pairs of user and item
    least : train events, users and items that a sub-sample must have to count
    as_coded : whether models that read histories are what the authors' code computes, ``variant=s21``
    """

    name: str
    scenarios: tuple[Scenario, ...]
    strategies: Mapping[str, str]
    duplicates: str
    least: tuple[int, int, int]
    as_coded: bool


PROTOCOLS: Mapping[str, AgreementProtocol] = {
    "ours": AgreementProtocol(
        "ours",
        (
            Explicit(select_by=_CHOSEN["explicit"]),
            Implicit(select_by=_CHOSEN["implicit"], stop=_STOP),
            Sequential(select_by=_CHOSEN["sequential"], stop=_STOP),
        ),
        {name: name for name in STRATEGIES.values()},
        "last",
        (0, 0, 0),
        False,
    ),
    "published": AgreementProtocol(
        "published",
        (
            Explicit(split="ratio(first=test)", selection="test", select_by=_CHOSEN["explicit"]),
            Implicit(
                split="ratio(first=test)",
                selection="test",
                select_by=_CHOSEN["implicit"],
                stop=_STOP,
                catalogue="surviving",
                known="validation",
                seen="own",
            ),
            Sequential(
                selection="test",
                select_by=_CHOSEN["sequential"],
                repeated="keep",
                stop=_STOP,
                catalogue="surviving",
                known="validation",
                seen="own",
            ),
        ),
        {name: AS_CODED.get(name, name) for name in STRATEGIES.values()},
        "keep",
        (100, 0, 0),  # their 50 users and 50 items are those of all three parts, which always have more
        True,
    ),
}


@dataclass(frozen=True)
class PaperData:
    """A data set of the paper.

    Parameters
    ----------
    name : as in Table 1
    dataset : what ``load`` takes
    epochs, batch, every, patience, length : training options of the published code; the model is validated
        after the first epoch and after ``every`` epochs, and histories have at most ``length`` items
    grid : the search of the paper's appendix
    is_slow : whether a quick run leaves it out
    """

    name: str
    dataset: str
    epochs: int
    batch: int
    every: int
    patience: int
    length: int
    grid: str
    is_slow: bool = True

    @property
    def is_available(self) -> bool:
        """Whether the data set lies on this machine."""
        return find_local(self.dataset) is not None

    def events(self, protocol: AgreementProtocol, progress: Progress = SILENT) -> Interactions:
        """Read the data set."""
        return load(self.dataset, duplicates=protocol.duplicates, progress=progress)

    def models(self, *, full: bool = False, quick: bool = False, as_coded: bool = False) -> dict[str, str]:
        """Return the models by name, with the training of the published code.

        NeuMF is pre-trained in the full search alone; a quick run has small networks and fewer epochs.
        """
        coded = ", variant=s21" if as_coded else ""
        epochs = min(self.epochs, 20) if quick else self.epochs
        common = f"epochs={epochs}, batch={self.batch}, every={self.every}, patience={self.patience}, first=1"
        grown = f"{common}, anneal_epochs={epochs}"
        small = {
            "neumf": "factors=8, layers=16-8-8, ",
            "multi-vae": "hidden=32, latent=32, ",
            "svae": "embedding=16, recurrent=16, hidden=16, latent=16, ",
            "sasrec": "factors=16, ",
        }
        size = {name: sizes if quick else "" for name, sizes in small.items()}
        towers = "true" if full else "false"
        return {
            "popularity": "popularity",
            "bias-only": f"s21-bias-only({common})",
            "mf": f"s21-mf({common})",
            "neumf": f"s21-neumf({size['neumf']}{common}, pretrain={towers})",
            "multi-vae": f"s21-multi-vae({size['multi-vae']}{grown}{coded})",
            "svae": f"s21-svae({size['svae']}{grown}, max_length={self.length}"
            f"{f'{coded}, beta2=0.98' if as_coded else ''})",
            "sasrec": f"s21-sasrec({size['sasrec']}{common}, max_length={self.length}{coded})",
        }


DATA = (
    PaperData("Amazon Magazine", "amazon-magazine-svpcf", 120, 1024, 5, 6, 10, "paper", is_slow=False),
    PaperData("ML-100k", "ml-100k", 100, 1024, 5, 5, 100, "paper"),
    PaperData("Amazon Luxury", "amazon-luxury-beauty", 80, 1024, 5, 4, 10, "paper"),
    PaperData("Amazon Video-games", "amazon-video-games", 25, 1024, 3, 2, 10, "paper-large"),
    PaperData("Beer Advocate", "beeradvocate", 30, 256, 3, 3, 10, "paper-large"),
    PaperData("Goodreads Comics", "goodreads-comics", 20, 128, 3, 2, 30, "paper-large"),
)


def find_protocol(name: str) -> AgreementProtocol:
    """Return a protocol by its name."""
    if name not in PROTOCOLS:
        raise InvalidParameter(f"protocol must be {' or '.join(PROTOCOLS)}, got {name!r}.")
    return PROTOCOLS[name]


def plan_of(
    data: PaperData,
    protocol: str = "ours",
    *,
    full: bool = False,
    quick: bool = False,
    seeds: int = SEEDS,
    seed: int = 0,
    fractions: Sequence[float] = PAPER_FRACTIONS,
) -> AgreementPlan:
    """Return the experiment of one data set: sixteen strategies, six fractions, three scenarios.

    Examples
    --------
    >>> small, large = (sum(n_fits(plan_of(DATA[0], full=full, seeds=1))) for full in (False, True))
    >>> small, large
    (6887, 41807)
    """
    chosen = find_protocol(protocol)
    plan = make_plan(
        list(chosen.strategies.values()),
        fractions,
        chosen.scenarios,
        seeds=seeds,
        seed=seed,
        least_events=chosen.least[0],
        least_users=chosen.least[1],
        least_items=chosen.least[2],
    )
    grid = data.grid if full else QUICK_SEARCH if quick else SEARCH
    models = data.models(full=full, quick=quick, as_coded=chosen.as_coded)
    parameters = find_grid(grid)
    model_grids = {
        scenario: tuple(
            ModelGrid(
                listed.name, configurations(scenario.adapt(MODELS.make(models[listed.name])), parameters)
            )
            for listed in listed_models
        )
        for scenario, listed_models in plan.model_grids.items()
    }
    named = dict(zip(chosen.strategies, plan.strategies.values(), strict=True))
    return replace(plan, strategies=named, model_grids=model_grids, grid=grid)


def n_fits(plan: AgreementPlan) -> tuple[int, int]:
    """Return how many models are fitted to the full data, and how many to sub-samples."""
    each = sum(
        len(model_grid.configurations) for listed in plan.model_grids.values() for model_grid in listed
    )
    each *= len(plan.seeds)
    return each, each * len(plan.strategies) * len(plan.fractions)
