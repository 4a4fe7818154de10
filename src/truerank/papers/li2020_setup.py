"""What the recipes of Li et al. (2020) share: data sets, models, sampling schemes and repeated samples."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np

from truerank.core.interactions import Interactions
from truerank.core.progress import tracked
from truerank.core.ranks import Ranks, SampledRanks, SeenPolicy
from truerank.core.split import Split
from truerank.core.stream import stream
from truerank.core.types import FloatArray
from truerank.data import load
from truerank.data.filter import k_core, min_history
from truerank.estimators.mapping import MAPPINGS
from truerank.estimators.mapping.curve import global_at_sampled, sampled_hit_ratios
from truerank.models import MODELS
from truerank.papers.fitted import Setup
from truerank.papers.recipe import Settings
from truerank.ranks import exact_ranks
from truerank.ranks.simulated import simulate_sample
from truerank.split import make_split

#: the paper draws one sample per model; repetitions tell its noise from a difference
REPEATS = 20
NEURAL = {"NeuMF": "neumf", "MultiVAE": "multi-vae", "NGCF": "ngcf"}
#: the paper gives no hyper-parameters: those of the authors' next paper, and on ml-1m the nearest fit
SETUPS = {
    "ml-1m": Setup(
        "ml-1m",
        "column(name=ncf_split)",
        {
            **NEURAL,
            "EASE": "ease(reg=1250)",
            "itemKNN": "l23-knn(neighbours=150)",
            "ALS": "ials(factors=64)",
        },
        slow=("NeuMF", "NGCF"),
    ),
    "yelp": Setup(
        "yelp",
        "leave-one-out",
        {
            **NEURAL,
            "EASE": "ease(reg=500)",
            "itemKNN": "l23-knn(neighbours=350)",
            "ALS": "ials(factors=75, reg=0.01, alpha=1)",
        },
        slow=tuple(NEURAL),
    ),
    "pinterest-20": Setup(
        "pinterest-20",
        "column(name=ncf_test, train=false, test=true)",
        {
            **NEURAL,
            "EASE": "ease(reg=1500)",
            "itemKNN": "l23-knn(neighbours=1250)",
            "ALS": "ials(factors=45, reg=0.01, alpha=1)",
        },
        slow=tuple(NEURAL),
    ),
    "citeulike": Setup(
        "citeulike-a",
        "leave-one-out",
        {
            **NEURAL,
            "EASE": "ease(reg=500)",
            "itemKNN": "l23-knn(neighbours=350)",
            "ALS": "ials(factors=64)",
        },
        slow=tuple(NEURAL),
    ),
}
FUNCTIONS = {
    "Linear": "linear",
    "Bound": "bound",
    "Beta@1": "beta(a=1)",
    "Beta@0.5": "beta(a=0.5)",
    "Beta@0.2": "beta(a=0.2)",
}
#: why cells that lie farther off than fits do differ
FITS = "the fits are ours, as the paper gives no hyper-parameters"
#: EASE on ml-1m moves as far when its weight goes from 200 to 1500, hit ratios and exponents
SPREAD_HIT, SPREAD_EXPONENT = 0.05, 0.03
#: book-X: books with two events, then users with ten; this gives the printed 786,690 events, 11,325 users
#: and 139,331 books
BOOKS = Setup(
    "book-crossing",
    "leave-one-out",
    {"ALS": "ials(factors=64)", "NeuMF": NEURAL["NeuMF"]},
    slow=("NeuMF",),
)
BOOK_ITEM, BOOK_USER = 2, 10
#: users whose 139,331 items a network ranks, for the time it takes; all for other models
BOOK_USERS = {"NeuMF": 1_000}


@dataclass(frozen=True)
class Scheme:
    """How negatives are drawn and what becomes of items the user has seen."""

    seen: SeenPolicy
    replacement: bool


#: under ``actual`` seen items rank last and are not drawn, so removing them gives the same ranks
SCHEMES = {
    "binom": Scheme("keep", True),
    "hyper": Scheme("keep", False),
    "actual": Scheme("remove", False),
}


def missing(setup: Setup, model: str, settings: Settings) -> str:
    """Return why a model does not take part on a data set here, '' if it does."""
    name = setup.models[model].partition("(")[0]
    if setup.is_at_hand and name not in MODELS.names():
        return f"model {name} is not there yet"
    return setup.missing(model, quick=settings.quick)


def reason(gap: float, spread: float) -> str:
    """Return why a number that depends on a model's fit differs, if it differs by no more than fits do."""
    return "the paper gives no hyper-parameters, and fits differ as much" if abs(gap) <= spread else ""


def ranks_of(settings: Settings, dataset: str, model: str, scheme: str) -> Ranks:
    """Return exact ranks, with seen items in the pool or without."""
    setup = SETUPS[dataset]
    return settings.store.ranks(
        setup.dataset,
        setup.split,
        setup.models[model],
        seen=SCHEMES[scheme].seen,
        seed=settings.seed,
        progress=settings.progress,
    )


def samples_of(settings: Settings, ranks: Ranks, scheme: str, n: int, label: str) -> Iterator[SampledRanks]:
    """Yield repeated samples of n - 1 negatives."""
    repeats = settings.repeated(REPEATS)
    with tracked(settings.progress, f"{label}, n = {n}", repeats) as task:
        for repeat in range(repeats):
            yield simulate_sample(
                ranks,
                n - 1,
                replacement=SCHEMES[scheme].replacement,
                seed=settings.seed,
                repeat=repeat,
                label=f"l20/{label}/{scheme}",
            )
            task.advance()


@dataclass(frozen=True, eq=False)
class Curves:
    """Global and sampled hit ratios of one model.

    Parameters
    ----------
    ranks : exact ranks
    n_items : N of the catalogue, which the paper puts into f whatever the pool
    sampled : (n_repeats, n) SHR@1 ... SHR@n of each sample
    """

    ranks: Ranks
    n_items: int
    sampled: FloatArray

    @property
    def n(self) -> int:
        """Items of the sampled list, the target included."""
        return int(self.sampled.shape[1])

    @property
    def mean(self) -> FloatArray:
        """SHR@k, mean over the samples."""
        return np.asarray(self.sampled.mean(axis=0))

    @property
    def error(self) -> FloatArray:
        """Standard error of the difference between that mean and one sample of the authors."""
        return single_error(self.sampled)

    def at(self, mapping: str, *, own_pool: bool = False) -> FloatArray:
        """Return HR@f(1) ... HR@f(n)."""
        n_items = None if own_pool else self.n_items
        return global_at_sampled(self.ranks, MAPPINGS.make(mapping), self.n, n_items=n_items)


def single_error(runs: FloatArray) -> FloatArray:
    """Return the standard error of the difference between the mean of the runs and one further run."""
    error: FloatArray = runs.std(axis=0, ddof=1) * np.sqrt(1 + 1 / len(runs))
    return error


def curves_of(settings: Settings, dataset: str, model: str, scheme: str, n: int) -> Curves:
    """Return the curves of a model on a data set."""
    ranks = ranks_of(settings, dataset, model, scheme)
    samples = samples_of(settings, ranks, scheme, n, f"{dataset} {model}")
    sampled = np.array([sampled_hit_ratios(sample) for sample in samples])
    return Curves(ranks, n_items_of(settings, dataset), sampled)


def n_items_of(settings: Settings, dataset: str) -> int:
    """Return N of a data set."""
    setup = SETUPS[dataset]
    return settings.store.split(setup.dataset, setup.split).train.n_items


def book_events() -> Interactions:
    """Return the book-X of the paper."""
    return min_history(k_core(load(BOOKS.dataset), user=1, item=BOOK_ITEM), BOOK_USER)


def book_split() -> Split:
    """Return book-X with one random test event per user."""
    return make_split(book_events(), BOOKS.split)


def book_ranks(settings: Settings, name: str) -> Ranks:
    """Return exact ranks on book-X, seen items in the pool, of all users or of some drawn at random."""
    model, n_users = MODELS.make(BOOKS.models[name]), BOOK_USERS.get(name)
    key = f"l20 book-X {BOOK_ITEM} {BOOK_USER} {model} users={n_users} seed={settings.seed}"
    names = [field.name for field in fields(Ranks)]

    def compute() -> dict[str, np.ndarray]:
        split = book_split()
        scorer = model.fit(split.train, seed=settings.seed, progress=settings.progress)
        if n_users is not None:
            chosen = stream(settings.seed, "l20/book-X").permutation(split.train.n_users)[:n_users]
            split = Split(
                split.train, split.test.where(np.isin(split.test.user, chosen)), method=split.method
            )
        found = exact_ranks(scorer, split, seen="keep", progress=settings.progress)
        return {name: getattr(found, name) for name in names}

    return Ranks(**settings.store.arrays(key, compute))
