"""Evaluation scenarios of [sachdeva2021]_: implicit, explicit and sequential feedback.

A scenario is a kind of feedback with its split, its models, its metrics and the way a fitted model is
evaluated. Implicit and sequential scenarios rank all items; the explicit one predicts ratings.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np

from truerank.core.errors import InvalidData, InvalidParameter, check_at_least, check_choice
from truerank.core.interactions import Interactions, Vocabulary
from truerank.core.model import Model, Validate
from truerank.core.plugin import Plugin, Registry, Source
from truerank.core.scorer import ReadsHistories, Scorer
from truerank.core.split import Split
from truerank.core.types import BoolArray, FloatArray, IntArray
from truerank.data.clean import min_history
from truerank.metrics.base import Metric
from truerank.metrics.registry import make_metrics, values
from truerank.ranking.exact import exact_ranks
from truerank.split.base import SPLITS
from truerank.subsampling.base import ProxyStrategy, Strategy
from truerank.workflows.fitting import make_validate

Selection: TypeAlias = Literal["validation", "test"]
Repeated: TypeAlias = Literal["drop", "keep"]


@dataclass(frozen=True, eq=False)
class FitSetup:
    """Train events and evaluation split of one fit.

    Parameters
    ----------
    train : events that models are trained on
    evaluated : its test events are the targets; its train and validation events are the seen items
    """

    train: Interactions
    evaluated: Split

    @property
    def validated(self) -> Split | None:
        """The validation events as targets, None where there are none."""
        if self.evaluated.valid is None or len(self.evaluated.valid) == 0:
            return None
        full = self.evaluated
        return Split(full.train, self.evaluated.valid, method=full.method, repeats=full.repeats)


@dataclass(frozen=True)
class Scenario(Plugin, ABC):
    """A kind of feedback with its split, models and metrics.

    A subclass has its own default for ``split`` and lists the models of [sachdeva2021]_, Table 2.

    Parameters
    ----------
    split : spec string of the split
    least_history : users with fewer events are left out
    selection : the part on which hyper-parameters are selected, anew for each sub-sample; ``test`` is what
        the published code does
    select_by : the metric by which one configuration is selected for all metrics; empty selects one for each
        metric by that metric
    repeated : what becomes of a target that other events of the user repeat. ``drop`` takes those out of
        train and validation. ``keep`` leaves them, as the published code does: a target that a model has seen
        is not ranked, so that metrics with a cut-off count it as missed, while AUC compares its score
    """

    models: ClassVar[Mapping[str, str]] = {}

    split: str = ""
    least_history: int = 3
    selection: Selection = "validation"
    select_by: str = ""
    repeated: Repeated = "drop"

    def __post_init__(self) -> None:
        check_choice("selection", self.selection, ("validation", "test"))
        check_choice("repeated", self.repeated, ("drop", "keep"))
        check_at_least("least_history", self.least_history, 1)
        if self.select_by and self.select_by not in self.metric_names():
            raise InvalidParameter(
                f"select_by must be one of the metrics of the scenario ({', '.join(self.metric_names())}), "
                f"got {self.select_by!r}. Leave it out to select by each metric for itself."
            )

    def divide(self, events: Interactions, seed: int) -> Split:
        """Filter and split the events.

        Where events repeat a pair of user and item, a target takes its other events out of train and
        validation, unless the scenario keeps them; ``events_dropped`` of the split counts them.

        Raises
        ------
        InvalidData
            When the events lack what the scenario needs.
        """
        self.check(events)
        kept = min_history(events, self.least_history)
        return SPLITS.make(self.split).split(kept, seed=seed, repeated=self.repeated)

    def fit_setup(self, full: Split, train: Interactions) -> FitSetup:
        """Return train events and evaluation split for a sub-sample of the full train part."""
        return FitSetup(train, full)

    def at_test(self, scorer: Scorer, setup: FitSetup) -> tuple[Scorer, Split]:
        """Return a fitted model as it is tested, with what it may know of users, and its split."""
        return scorer, setup.evaluated

    def adapt_strategy(self, strategy: Strategy) -> Strategy:
        """Return the strategy as this scenario uses it: a proxy is trained on the scenario's feedback."""
        return strategy

    def weights(self, targets: Interactions) -> FloatArray:
        """Return the weight of each user with targets: metrics are sums of totals over sums of weights."""
        return np.ones(int((targets.user_counts() > 0).sum()))

    @abstractmethod
    def check(self, events: Interactions) -> None:
        """Raise when the events lack what the scenario needs."""

    @abstractmethod
    def metric_names(self) -> tuple[str, ...]:
        """Return the spec strings of the metrics."""

    @property
    @abstractmethod
    def higher_is_better(self) -> bool:
        """Whether larger values are better, for all metrics of the scenario."""

    @abstractmethod
    def adapt(self, model: Model) -> Model:
        """Return the model as this scenario trains it.

        Raises
        ------
        InvalidParameter
            When the model cannot be used here.
        """

    @abstractmethod
    def user_totals(self, scorer: Scorer, evaluated: Split) -> FloatArray:
        """Return one total per user with test events and metric, (n_users, n_metrics)."""

    @abstractmethod
    def validator(self, setup: FitSetup) -> Validate | None:
        """Return the validation function of early stopping; None without validation events."""


Catalogue: TypeAlias = Literal["full", "surviving"]
Known: TypeAlias = Literal["train", "validation"]
Seen: TypeAlias = Literal["full", "own"]


@dataclass(frozen=True)
class RankingScenario(Scenario, ABC):
    """Rank all items that a user has not seen.

    Parameters
    ----------
    metrics : of ranks, separated by commas; the defaults are those of [sachdeva2021]_
    stop : validation metric of early stopping; of several, an epoch is better when one of them is better than
        in all epochs before (the published code has ``auc,recall(norm=min)@10``)
    catalogue : ``full`` keeps the pool of every user as it is on the full data: all items, without those of
        the user's full train and validation events, so that values are comparable. ``surviving`` is what the
        published code does: items without any event in the sub-sample, validation or test part leave the
        catalogue, and train events outside the sub-sample count as not seen
    known : what models that compute users from their histories (`ReadsHistories`, such as ``multi-vae``,
        ``svae``, ``sasrec``, ``ease``) know of them at the test: their ``train`` events, or those of the
        ``validation`` part too, as in the published code; nothing is trained on the latter
    seen : items that are not ranked. ``full``: those of a user's full train and validation events, the same
        for all models. ``own``: those of the events that a model knows, which are its sub-sample and, with
        known=validation, the validation events of models that know them; so in the published code
    """

    metrics: str = "auc,recall(norm=min)@100,ndcg@10"
    stop: str = "ndcg@10"
    catalogue: Catalogue = "full"
    known: Known = "train"
    seen: Seen = "full"

    def __post_init__(self) -> None:
        check_choice("catalogue", self.catalogue, ("full", "surviving"))
        check_choice("known", self.known, ("train", "validation"))
        check_choice("seen", self.seen, ("full", "own"))
        super().__post_init__()
        make_metrics(self.metrics)
        make_metrics(self.stop)

    def check(self, events: Interactions) -> None:
        """Accept all events: nothing but users and items is needed."""

    def metric_names(self) -> tuple[str, ...]:
        """Return the spec strings of the metrics."""
        return tuple(str(metric) for metric in make_metrics(self.metrics))

    @property
    def higher_is_better(self) -> bool:
        """True: all metrics of ranks are better when larger."""
        return True

    def adapt(self, model: Model) -> Model:
        """Return the model unchanged: every model ranks items."""
        return model

    def fit_setup(self, full: Split, train: Interactions) -> FitSetup:
        """Return the setup with the full catalogue, or with the items that still have events."""
        if train is full.train:
            return FitSetup(train, full)
        if self.catalogue == "full":
            is_own = self.seen == "own"
            return FitSetup(train, replace(full, train=train) if is_own else full)
        parts = [train, full.test, *([] if full.valid is None else [full.valid])]
        alive = np.sum([part.item_counts() for part in parts], axis=0) > 0
        vocabulary = Vocabulary(train.items.take(np.flatnonzero(alive)))
        kept = [_recoded(part, alive, vocabulary) for part in parts]
        valid = None if full.valid is None else kept[2]
        return FitSetup(kept[0], replace(full, train=kept[0], test=kept[1], valid=valid))

    def at_test(self, scorer: Scorer, setup: FitSetup) -> tuple[Scorer, Split]:
        """Return the model with the histories it may know, and the split without the items it has seen."""
        evaluated, valid = setup.evaluated, setup.evaluated.valid
        if valid is not None and self.known == "validation" and isinstance(scorer, ReadsHistories):
            return scorer.with_histories(setup.train.joined(valid)), evaluated
        return scorer, replace(evaluated, valid=None) if self.seen == "own" else evaluated

    def user_totals(self, scorer: Scorer, evaluated: Split) -> FloatArray:
        """Return the value of each user."""
        return user_values(make_metrics(self.metrics), scorer, evaluated)

    def validator(self, setup: FitSetup) -> Validate | None:
        """Return the metric on the validation events, or of several metrics the number of improvements."""
        validated = setup.validated
        if validated is None:
            return None
        if len(make_metrics(self.stop)) > 1:
            return Improvements(self.stop, validated)
        return make_validate(setup.evaluated, self.stop, n_threads=1)


class Improvements:
    """Validation by several metrics: the number of epochs so far in which one of them reached a new best.

    An epoch in which none did has the number of the best one before it and so is no better. The metrics are
    tried in their order, and only the first that improves is noted, as in the code of [sachdeva2022]_.

    Parameters
    ----------
    metrics : spec strings, separated by commas
    validated : its test events are the validation events
    """

    def __init__(self, metrics: str, validated: Split) -> None:
        self.metrics, self.validated = make_metrics(metrics), validated
        self.restart()

    def restart(self) -> None:
        """Forget the epochs of an earlier training."""
        self.best, self.n_better = np.full(len(self.metrics), -np.inf), 0

    def __call__(self, scorer: Scorer) -> float:
        """Return the number of improvements up to this epoch."""
        found = user_values(self.metrics, scorer, self.validated).mean(axis=0)
        better = np.flatnonzero(found > self.best)
        if len(better):
            self.best[better[0]] = found[better[0]]
            self.n_better += 1
        return float(self.n_better)


def user_values(metrics: Sequence[Metric], scorer: Scorer, evaluated: Split) -> FloatArray:
    """Return the metrics of each user with targets, (n_users, n_metrics).

    Where the split keeps repeated pairs, a target that is among the seen items competes for AUC and is missed
    for all other metrics.
    """
    if not evaluated.repeats:
        return values(metrics, exact_ranks(scorer, evaluated, n_threads=1))
    if (evaluated.test.user_counts() > 1).any():
        raise InvalidData(
            "repeated=keep needs one target per user, as a split by leave-last-out has, but some users have "
            "several. Use repeated=drop."
        )
    known = evaluated.train if evaluated.valid is None else evaluated.train.joined(evaluated.valid)
    pairs, targets = pair_codes(known), pair_codes(evaluated.test)
    others = known.take(np.flatnonzero(~np.isin(pairs, targets)))
    ranks = exact_ranks(scorer, Split(others, evaluated.test), n_threads=1)
    found, is_known = values(metrics, ranks), np.isin(targets, pairs)
    missed = np.isin(np.unique(ranks.user), evaluated.test.user[is_known])
    has_cutoff = np.array([metric.key != "auc" for metric in metrics])
    return np.where(missed[:, None] & has_cutoff, 0.0, found)


def pair_codes(events: Interactions) -> IntArray:
    """Return one number for each event's pair of user and item."""
    return events.user.astype(np.int64) * events.n_items + events.item


def _recoded(events: Interactions, alive: BoolArray, vocabulary: Vocabulary) -> Interactions:
    codes = np.cumsum(alive) - 1
    return replace(events, item=codes[events.item], items=vocabulary)


@dataclass(frozen=True)
class Implicit(RankingScenario):
    """Rank a random tenth of each history among all items.

    Parameters
    ----------
    split, least_history, selection, select_by, repeated : as in every scenario
    metrics, stop, catalogue, known, seen : as in every scenario in which items are ranked
    """

    key: ClassVar[str] = "implicit"
    source: ClassVar[Source | None] = Source("sachdeva2021", "Sec. 3.1")
    models: ClassVar[Mapping[str, str]] = {
        "popularity": "popularity",
        "bias-only": "s21-bias-only",
        "mf": "s21-mf",
        "neumf": "s21-neumf",
        "multi-vae": "s21-multi-vae",
    }

    split: str = "ratio"


_BLOCK = 1 << 16
_CAN_RATE = ("bias-only", "mf", "neumf")


@dataclass(frozen=True)
class Explicit(Scenario):
    r"""Predict ratings; mean squared error over test events.

    .. math:: \mathrm{MSE} = \frac{1}{|T|} \sum_{(u, i, r) \in T} (\hat y_{ui} - r)^2

    Parameters
    ----------
    split, least_history, selection, select_by, repeated : as in every scenario
    """

    key: ClassVar[str] = "explicit"
    source: ClassVar[Source | None] = Source("sachdeva2021", "Sec. 3.1")
    models: ClassVar[Mapping[str, str]] = {
        "bias-only": "s21-bias-only",
        "mf": "s21-mf",
        "neumf": "s21-neumf",
    }

    split: str = "ratio"

    def check(self, events: Interactions) -> None:
        """Raise where events have no ratings."""
        if events.value is None:
            raise InvalidData(
                f"scenario 'explicit' needs a rating for each event, but {events.name!r} has none. Name the "
                "column with columns={'rating': NAME} or use scenario 'implicit'."
            )

    def metric_names(self) -> tuple[str, ...]:
        """Return the mean squared error, the only metric."""
        return ("mse",)

    @property
    def higher_is_better(self) -> bool:
        """False: errors are better when smaller."""
        return False

    def adapt(self, model: Model) -> Model:
        """Return the model with squared error as its loss."""
        if model.key not in _CAN_RATE:
            raise InvalidParameter(
                f"scenario 'explicit' needs models that predict ratings, but {str(model)!r} does not. "
                f"Use {', '.join(_CAN_RATE)}."
            )
        changed: dict[str, Any] = {"loss": "mse"}
        return replace(model, **changed)

    def adapt_strategy(self, strategy: Strategy) -> Strategy:
        """Return the strategy with a proxy that is trained on ratings."""
        if not isinstance(strategy, ProxyStrategy):
            return strategy
        return replace(strategy, feedback="explicit", negatives=1, auc="complement")

    def weights(self, targets: Interactions) -> FloatArray:
        """Return the number of targets of each user."""
        counts = targets.user_counts()
        return counts[counts > 0].astype(np.float64)

    def user_totals(self, scorer: Scorer, evaluated: Split) -> FloatArray:
        """Return the sum of squared errors of each user."""
        errors = squared_errors(scorer, evaluated.test)
        sums = np.zeros(evaluated.test.n_users)
        np.add.at(sums, evaluated.test.user, errors)
        return sums[evaluated.test.user_counts() > 0, None]

    def validator(self, setup: FitSetup) -> Validate | None:
        """Return minus the mean squared error of the validation events."""
        validated = setup.validated
        if validated is None:
            return None
        return lambda scorer: -float(squared_errors(scorer, validated.test).mean())


def squared_errors(scorer: Scorer, events: Interactions) -> FloatArray:
    """Return the squared error of each event's rating, by blocks."""
    if events.value is None:
        raise InvalidData(
            f"{events.name!r} must have ratings to compare predictions with, but has none. Read a column "
            "of ratings."
        )
    errors = np.empty(len(events))
    for start in range(0, len(events), _BLOCK):
        rows = slice(start, start + _BLOCK)
        users, items = events.user[rows].astype(np.int64), events.item[rows].astype(np.int64)
        predicted = np.asarray(scorer.score(users, items[:, None]))[:, 0]
        errors[rows] = (predicted.astype(np.float64) - events.value[rows]) ** 2
    return errors


@dataclass(frozen=True)
class Sequential(RankingScenario):
    """Rank each user's last item among all items, by models trained on all but the last two.

    Parameters
    ----------
    split, least_history, selection, select_by, repeated : as in every scenario
    metrics, stop, catalogue, known, seen : as in every scenario in which items are ranked

    Notes
    -----
    By default all models use the train part alone. The code of [sachdeva2022]_ appends the validation item to
    the histories of some models at the test: ``known=validation``.
    """

    key: ClassVar[str] = "sequential"
    source: ClassVar[Source | None] = Source("sachdeva2021", "Sec. 3.1")
    models: ClassVar[Mapping[str, str]] = {
        "popularity": "popularity",
        "bias-only": "s21-bias-only",
        "mf": "s21-mf",
        "neumf": "s21-neumf",
        "multi-vae": "s21-multi-vae",
        "svae": "s21-svae",
        "sasrec": "s21-sasrec",
    }

    split: str = "leave-last-out(valid=true)"

    def check(self, events: Interactions) -> None:
        """Raise where events have no times."""
        if events.time is None:
            raise InvalidData(
                f"scenario 'sequential' needs a timestamp for each event, but {events.name!r} has none. Name "
                "the column with columns={'timestamp': NAME} or use scenario 'implicit'."
            )


SCENARIOS: Registry[Scenario] = Registry(
    "scenario",
    {
        "explicit": "truerank.workflows.agreement.scenarios:Explicit",
        "implicit": "truerank.workflows.agreement.scenarios:Implicit",
        "sequential": "truerank.workflows.agreement.scenarios:Sequential",
    },
)
