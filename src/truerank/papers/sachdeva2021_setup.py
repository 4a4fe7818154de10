"""Data sets, strategies and models of Sachdeva et al. (2021): a reduced search, and that of the paper."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

from truerank.agreement import PAPER_FRACTIONS, Agreement, Experiment, Plan, make_plan
from truerank.agreement.grid import configurations, find_grid
from truerank.agreement.piece import digest_of
from truerank.agreement.plan import Entrant
from truerank.core.errors import InvalidData
from truerank.data import find_local, load
from truerank.models import MODELS
from truerank.papers.fitted import QUICK
from truerank.papers.recipe import Settings

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
#: repetitions of the whole: one, as in the paper
SEEDS = 1
#: name of the search that is run by default: one configuration of each model
REDUCED = "s21-reduced"


@dataclass(frozen=True)
class PaperData:
    """A data set of the paper.

    Parameters
    ----------
    name : as in Table 1
    dataset : what ``load`` takes
    epochs, batch, every, patience, length : of training, from the published code; validations come after so
        many epochs each, ``length`` is that of histories
    grid : the search of the paper's appendix
    short : length of histories in the reduced search
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
    short: int = 10
    is_slow: bool = True

    @property
    def is_at_hand(self) -> bool:
        """Whether the data set lies on this machine."""
        return find_local(self.dataset) is not None

    def models(self, full: bool) -> dict[str, str]:
        """Return the models by name: with the training of the published code, or the reduced ones."""
        if full:
            common = f"epochs={self.epochs}, batch={self.batch}, every={self.every}, patience={self.patience}"
            return {
                "popularity": "popularity",
                "bias-only": f"s21-bias-only({common})",
                "mf": f"s21-mf({common})",
                "neumf": f"s21-neumf({common})",
                "multi-vae": f"s21-multi-vae({common}, anneal_epochs={self.epochs})",
                "svae": f"s21-svae({common}, anneal_epochs={self.epochs}, max_length={self.length})",
                "sasrec": f"s21-sasrec({common}, max_length={self.length})",
            }
        # batches of users are small: with 1,024 of a few thousand users there would be too few steps
        return {
            "popularity": "popularity",
            "bias-only": "s21-bias-only(every=10, patience=2)",
            "mf": "s21-mf(every=10, patience=2)",
            "neumf": "s21-neumf(factors=8, layers=16-8-8, pretrain=false, epochs=50, every=10, patience=2)",
            "multi-vae": "s21-multi-vae(hidden=32, latent=32, epochs=50, anneal_epochs=50, batch=128, "
            "every=10, patience=2)",
            "svae": f"s21-svae(max_length={self.short}, embedding=16, recurrent=16, hidden=16, latent=16, "
            "epochs=20, anneal_epochs=20, batch=64, every=5, patience=2)",
            "sasrec": f"s21-sasrec(max_length={self.short}, factors=16, epochs=40, batch=128, every=10, "
            "patience=2)",
        }


DATA = (
    PaperData("Amazon Magazine", "amazon-magazine-svpcf", 120, 1024, 5, 6, 10, "paper", is_slow=False),
    PaperData("ML-100k", "ml-100k", 100, 1024, 5, 5, 100, "paper", short=20),
    PaperData("Amazon Luxury", "amazon-luxury-beauty", 80, 1024, 5, 4, 10, "paper"),
    PaperData("Amazon Video-games", "amazon-video-games", 25, 1024, 3, 2, 10, "paper-large"),
    PaperData("Beer Advocate", "beeradvocate", 30, 256, 3, 3, 10, "paper-large"),
    PaperData("Goodreads Comics", "goodreads-comics", 20, 128, 3, 2, 30, "paper-large", short=20),
)


def plan_of(data: PaperData, *, full: bool = False, seeds: int = SEEDS, seed: int = 0) -> Plan:
    """Return the experiment of one data set: sixteen strategies, six fractions, three scenarios.

    Examples
    --------
    >>> small, large = (sum(n_fits(plan_of(DATA[0], full=full))) for full in (False, True))
    >>> small, large
    (1455, 41807)
    """
    plan = make_plan(list(STRATEGIES.values()), PAPER_FRACTIONS, SCENARIOS, seeds=seeds, seed=seed)
    models, grid = data.models(full), find_grid(data.grid if full else "none")
    entrants = {
        scenario: tuple(
            Entrant(one.name, configurations(scenario.adapt(MODELS.make(models[one.name])), grid))
            for one in listed
        )
        for scenario, listed in plan.entrants.items()
    }
    return replace(plan, entrants=entrants, grid=data.grid if full else REDUCED)


def n_fits(plan: Plan) -> tuple[int, int]:
    """Return how many models are fitted to the full data, and how many to sub-samples."""
    each = sum(len(one.configurations) for listed in plan.entrants.values() for one in listed)
    each *= len(plan.seeds)
    return each, each * len(plan.strategies) * len(plan.fractions)


def measured(settings: Settings, data: PaperData) -> Agreement:
    """Return what the experiment finds; finished pieces and the result are kept in the store."""
    plan = plan_of(data, full=settings.full, seeds=settings.repeated(SEEDS), seed=settings.seed)
    events = load(data.dataset, progress=settings.progress)
    store = settings.store

    def run() -> dict[str, object]:
        folder = None if store.folder is None else store.folder / f"s21-{data.dataset}"
        experiment = Experiment(plan, events, folder=folder, workers=settings.workers)
        return experiment.run(settings.progress).to_dict()

    return Agreement.from_json(json.dumps(store.value(_key(plan, data, digest_of(events)), run)))


def measure_at_hand(settings: Settings) -> tuple[dict[str, Agreement], list[str]]:
    """Return what was found by the paper's name of each data set that takes part, and why others do not.

    Raises
    ------
    InvalidData
        When none takes part.
    """
    why = {data.name: _missing(data, settings) for data in DATA}
    if all(why.values()):
        name = next(data.dataset for data in DATA if not data.is_slow)
        raise InvalidData(
            f"a quick run needs the data set {name!r}, which is not at hand. Run without --quick."
        )
    found = {data.name: measured(settings, data) for data in DATA if not why[data.name]}
    return found, [f"{name}: {reason}" for name, reason in why.items() if reason]


def _missing(data: PaperData, settings: Settings) -> str:
    if not data.is_at_hand:
        return f"data not at hand ({data.dataset}); it runs once it is"
    return QUICK if settings.quick and data.is_slow else ""


def _key(plan: Plan, data: PaperData, digest: str) -> str:
    """Return everything the result depends on."""
    models = {
        str(scenario): [[str(model) for model in one.configurations] for one in listed]
        for scenario, listed in plan.entrants.items()
    }
    strategies = [str(strategy) for strategy in plan.strategies.values()]
    parts = (plan.fractions, plan.seeds, plan.seed, plan.level, plan.resamples, plan.threshold)
    return f"s21 agreement {data.dataset} data={digest} {models} {strategies} {parts}"
