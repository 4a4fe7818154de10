"""Scenarios: splits, models, values against literal twins, and the two policies for the catalogue."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from truerank.core.errors import InvalidData, InvalidParameter, UnknownName
from truerank.core.interactions import Interactions
from truerank.core.scorer import ReadsHistories, as_scorer
from truerank.core.split import Split
from truerank.data.demo import demo
from truerank.metrics.registry import make_metrics, values
from truerank.models.registry import MODELS
from truerank.ranking.exact import exact_ranks
from truerank.subsampling.base import ProxyStrategy
from truerank.subsampling.importance import make_strategy
from truerank.workflows.agreement.scenarios import (
    SCENARIOS,
    Catalogue,
    Explicit,
    Implicit,
    Improvements,
    Known,
    Sequential,
    squared_errors,
)
from truerank.workflows.evaluate import evaluate

SMALL = demo(n_users=60, n_items=150)


def rated() -> Interactions:
    ratings = 1.0 + np.random.default_rng(0).integers(0, 5, len(SMALL))
    return replace(SMALL, value=ratings)


def test_scenarios_are_written_as_specs() -> None:
    for name in SCENARIOS.names():
        made = SCENARIOS.make(name)
        assert SCENARIOS.make(str(made)) == made
    written = "implicit(selection=test, metrics='recall@5,auc', catalogue=surviving)"
    assert SCENARIOS.make(str(SCENARIOS.make(written))) == Implicit(
        selection="test", metrics="recall@5,auc", catalogue="surviving"
    )


def test_splits_are_those_of_the_paper() -> None:
    random = Implicit().divide(SMALL, seed=0)
    counts = SMALL.user_counts()
    np.testing.assert_array_equal(random.train.user_counts(), np.floor(0.8 * counts + 1e-9))
    assert random.valid is not None
    last = Sequential().divide(SMALL, seed=0)
    assert last.valid is not None
    assert (last.test.user_counts() == 1).all()
    assert (last.valid.user_counts() == 1).all()
    assert last.test.time is not None
    assert last.train.time is not None
    for user in range(5):
        latest = last.train.time[last.train.user == user].max()
        assert latest <= last.test.time[last.test.user == user].min()


def test_users_with_short_histories_are_left_out_and_counted() -> None:
    events = Interactions.from_codes([0, 0, 0, 1, 1, 2, 2, 2, 2], [0, 1, 2, 0, 1, 0, 1, 2, 3])
    split = Implicit(split="leave-one-out").divide(events, seed=0)
    assert split.train.n_users == 2
    assert split.summary()["users_filtered"] == 1


def test_mse_is_the_literal_mean_over_events() -> None:
    scenario, events = Explicit(), rated()
    split = scenario.divide(events, seed=0)
    scorer = scenario.adapt(MODELS.make("mf(factors=4, epochs=3)")).fit(split.train, seed=0)
    total, squares = 0, 0.0
    assert split.test.value is not None
    for user, item, rating in zip(split.test.user, split.test.item, split.test.value, strict=True):
        squares += (float(scorer.score(np.array([user]), np.array([item]))[0, 0]) - rating) ** 2
        total += 1
    totals, weights = scenario.user_totals(scorer, split), scenario.weights(split.test)
    assert totals.shape == (len(weights), 1)
    assert totals.sum() / weights.sum() == pytest.approx(squares / total, rel=1e-6)
    np.testing.assert_allclose(squared_errors(scorer, split.test).mean(), squares / total, rtol=1e-6)
    watch = scenario.validator(scenario.fit_setup(split, split.train))
    assert watch is not None
    assert split.valid is not None
    assert watch(scorer) == -squared_errors(scorer, split.valid).mean()


@pytest.mark.parametrize("scenario", [Implicit(), Sequential()])
def test_values_on_the_full_data_are_those_of_evaluate(scenario: Implicit | Sequential) -> None:
    split = scenario.divide(SMALL, seed=0)
    model = MODELS.make("item-knn(neighbours=5)")
    scorer = model.fit(split.train)
    setup = scenario.fit_setup(split, split.train)
    found = scenario.user_totals(scorer, setup.evaluated).sum(axis=0) / scenario.weights(split.test).sum()
    expected = evaluate("item-knn(neighbours=5)", split, scenario.metrics)
    for name, value in zip(scenario.metric_names(), found, strict=True):
        assert value == pytest.approx(expected.value(name), rel=1e-12)


def half(split: Split) -> Interactions:
    return split.train.where(np.arange(len(split.train)) % 2 == 0)


def test_the_full_catalogue_keeps_every_pool() -> None:
    scenario = Implicit(metrics="ndcg@10")
    split = scenario.divide(SMALL, seed=0)
    setup = scenario.fit_setup(split, half(split))
    assert len(setup.train) < len(split.train)
    assert setup.evaluated is split
    scorer = MODELS.make("popularity").fit(setup.train)
    on_half, on_full = (
        exact_ranks(scorer, evaluated)
        for evaluated in (setup.evaluated, Split(split.train, split.test, split.valid))
    )
    np.testing.assert_array_equal(on_half.n_pool, on_full.n_pool)


def test_the_surviving_catalogue_is_what_is_left_in_any_part() -> None:
    scenario = Implicit(metrics="ndcg@10", catalogue="surviving")
    split = scenario.divide(SMALL, seed=0)
    few = split.train.where(split.train.user < 3)
    setup = scenario.fit_setup(split, few)
    assert split.valid is not None
    left = sorted({*few.item.tolist(), *split.valid.item.tolist(), *split.test.item.tolist()})
    assert setup.train.n_items == len(left) < split.train.n_items
    assert setup.train.items.decode(setup.train.item) == split.train.items.decode(few.item)
    assert setup.evaluated.test.items.decode(setup.evaluated.test.item) == split.train.items.decode(
        split.test.item
    )
    scorer = MODELS.make("popularity").fit(setup.train)
    found = scenario.user_totals(scorer, setup.evaluated)
    scores = np.full(split.train.n_items, -np.inf)
    scores[left] = few.item_counts()[left]
    users = np.flatnonzero(split.test.user_counts())
    pools = Split(few, split.test, split.valid)
    literal = exact_ranks(_Dense(np.tile(scores, (split.train.n_users, 1))), pools)
    expected = values(make_metrics("ndcg@10"), literal)
    assert len(found) == len(users)
    np.testing.assert_allclose(found, expected, atol=1e-12)
    assert scenario.fit_setup(split, split.train).evaluated is split  # on the full data nothing changes


class _Dense:
    def __init__(self, scores: np.ndarray) -> None:
        self.scores, self.n_items = scores, scores.shape[1]

    def score(self, users: np.ndarray, items: np.ndarray) -> np.ndarray:
        found: np.ndarray = self.scores[users][:, items]
        return found


def test_ratings_are_learnt_by_models_and_proxies() -> None:
    scenario = Explicit()
    assert str(scenario.adapt(MODELS.make("mf"))) == "mf(loss=mse)"
    assert str(scenario.adapt(MODELS.make("s21-neumf"))).count("loss=mse") == 1
    proxy = scenario.adapt_strategy(make_strategy("svp-cf(proxy=bias, negatives=3)"))
    assert isinstance(proxy, ProxyStrategy)
    assert (proxy.feedback, proxy.negatives) == ("explicit", 1)
    plain = make_strategy("random")
    assert scenario.adapt_strategy(plain) is plain


def test_bad_input_is_said_in_a_sentence() -> None:
    with pytest.raises(InvalidData, match=r"'explicit' needs a rating for each event, but 'demo' has none"):
        Explicit().divide(SMALL, seed=0)
    with pytest.raises(InvalidData, match=r"'sequential' needs a timestamp for each event, but 'demo'"):
        Sequential().divide(replace(SMALL, time=None), seed=0)
    with pytest.raises(
        InvalidParameter, match=r"needs models that predict ratings, but 'popularity' does not"
    ):
        Explicit().adapt(MODELS.make("popularity"))
    with pytest.raises(InvalidData, match=r"must have ratings to compare predictions with"):
        squared_errors(MODELS.make("popularity").fit(SMALL), SMALL)
    with pytest.raises(InvalidParameter, match=r"catalogue=.*must be full or surviving"):
        SCENARIOS.make("implicit(catalogue=half)")
    with pytest.raises(InvalidParameter, match="selection must be one of validation, test"):
        Implicit(selection="train")  # type: ignore[arg-type]
    with pytest.raises(UnknownName, match="Did you mean 'implicit'"):
        SCENARIOS.make("implict")
    with pytest.raises(UnknownName, match="unknown metric 'ndgc'"):
        Implicit(metrics="ndgc@10")


# what models know, and what they have seen

KNN = "item-knn(neighbours=5)"


@pytest.mark.parametrize("catalogue", ["full", "surviving"])
def test_models_that_read_histories_know_validation_events_where_asked(catalogue: Catalogue) -> None:
    """Literal twin: the histories of the sub-sample and the validation part; others are as they were."""
    scenario = Sequential(known="validation", catalogue=catalogue, metrics="ndcg@10")
    split = scenario.divide(SMALL, seed=0)
    setup = scenario.fit_setup(split, half(split))
    valid = setup.evaluated.valid
    assert valid is not None
    scorer = MODELS.make(KNN).fit(setup.train)
    found, evaluated = scenario.at_test(scorer, setup)
    assert evaluated is setup.evaluated
    both = Interactions.from_codes(
        [*setup.train.user, *valid.user],
        [*setup.train.item, *valid.item],
        n_users=split.train.n_users,
        n_items=setup.train.n_items,
    )
    assert isinstance(scorer, ReadsHistories)
    everything = np.arange(split.train.n_users), np.arange(setup.train.n_items)
    np.testing.assert_array_equal(found.score(*everything), scorer.with_histories(both).score(*everything))
    assert not np.array_equal(found.score(*everything), scorer.score(*everything))
    popular = MODELS.make("popularity").fit(setup.train)
    assert scenario.at_test(popular, setup) == (popular, setup.evaluated)
    usual = replace(scenario, known="train")
    assert usual.at_test(scorer, setup) == (scorer, setup.evaluated)


@pytest.mark.parametrize("known", ["train", "validation"])
@pytest.mark.parametrize("catalogue", ["full", "surviving"])
def test_own_seen_items_are_those_that_a_model_knows(known: Known, catalogue: Catalogue) -> None:
    """Pools: the catalogue without the items of the user's events that the model was trained on or given."""
    scenario = Sequential(known=known, seen="own", catalogue=catalogue, metrics="ndcg@10")
    split = scenario.divide(SMALL, seed=0)
    for train in (half(split), split.train):
        setup = scenario.fit_setup(split, train)
        assert setup.evaluated.valid is not None
        for spec in ("popularity", KNN):
            scorer, evaluated = scenario.at_test(MODELS.make(spec).fit(setup.train), setup)
            is_told = known == "validation" and spec == KNN
            for row, user in enumerate(np.unique(split.test.user)):
                seen = set(setup.train.item[setup.train.user == user])
                if is_told:
                    seen |= set(setup.evaluated.valid.item[setup.evaluated.valid.user == user])
                pool = exact_ranks(scorer, evaluated).n_pool
                assert pool[row] == setup.train.n_items - len(seen)
                if row > 4:
                    break
        validated = setup.validated
        assert validated is not None
        assert validated.valid is None
        np.testing.assert_array_equal(validated.train.item, setup.train.item)


def test_kept_repeated_targets_are_missed_by_models_that_have_seen_them() -> None:
    """Users have A B B, A B A, A B C, B C B C and three others; the last but one event is validation."""
    A, B, C = range(3)
    events = Interactions.from_codes(
        [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4],
        [A, B, B, A, B, A, A, B, C, B, C, B, C, 3, 4, 5],
        time=np.arange(16),
    )
    scenario = Sequential(repeated="keep", known="validation", seen="own", metrics="auc,recall@5")
    assert str(scenario) in str(SCENARIOS.make(str(scenario)))
    split = scenario.divide(events, seed=0)
    assert split.repeats
    assert (len(split.train), split.valid and len(split.valid), len(split.test)) == (6, 5, 5)
    setup = scenario.fit_setup(split, split.train)
    rng = np.random.default_rng(0)
    table = rng.permuted(np.arange(30.0).reshape(5, 6), axis=1)
    for spec, missed in (("popularity", [1, 3]), (KNN, [0, 1, 3])):
        _, evaluated = scenario.at_test(MODELS.make(spec).fit(split.train), setup)
        found = scenario.user_totals(as_scorer(table), evaluated)
        assert np.flatnonzero(found[:, 1] == 0).tolist() == missed
        assert set(found[:, 1]) == {0.0, 1.0}
        for user, target in enumerate((B, A, C, C, 5)):
            seen = set(split.train.item[split.train.user == user])
            if spec == KNN:
                assert split.valid is not None
                seen |= set(split.valid.item[split.valid.user == user])
            others = [item for item in range(6) if item not in seen | {target}]
            assert found[user, 0] == pytest.approx(np.mean(table[user, others] < table[user, target]))
    dropped = Sequential(metrics="recall@5").divide(events, seed=0)
    assert (len(dropped.train), len(dropped.test), dropped.counts["events_dropped"]) == (3, 5, 4)
    several = Split(split.test, split.train, repeats=True)
    with pytest.raises(InvalidData, match="needs one target per user"):
        scenario.user_totals(as_scorer(table), several)
    with pytest.raises(InvalidParameter, match="repeated must be one of drop, keep"):
        Sequential(repeated="refuse")  # type: ignore[arg-type]


def test_the_last_epoch_is_stopped_by_any_of_several_metrics() -> None:
    """Literal rule of the published code: AUC first, else HR@10; only what improved is noted."""
    scenario = Implicit(stop="auc,recall(norm=min)@10")
    split = scenario.divide(SMALL, seed=0)
    validate = scenario.validator(scenario.fit_setup(split, split.train))
    assert isinstance(validate, Improvements)
    assert split.valid is not None
    held_out = Split(split.train, split.valid)
    rng, best_auc, best_hits, n_better, kinds = np.random.default_rng(0), -1.0, -1.0, 0, set()
    for epoch in range(40):
        if epoch == 20:
            validate.restart()
            best_auc, best_hits, n_better = -1.0, -1.0, 0
        scorer = as_scorer(rng.normal(size=(split.train.n_users, split.train.n_items)))
        auc, hits = values(make_metrics("auc,recall(norm=min)@10"), exact_ranks(scorer, held_out)).mean(
            axis=0
        )
        kind = "none"
        if auc > best_auc:
            kind, best_auc = "auc", auc
        elif hits > best_hits:
            kind, best_hits = "hits", hits
        kinds.add(kind)
        n_better += kind != "none"
        assert validate(scorer) == n_better
    assert kinds == {"auc", "hits", "none"}


def test_pretraining_restarts_the_validation() -> None:
    """NeuMF trains three times; each training keeps its own best epoch."""
    scenario = Implicit(stop="auc,recall(norm=min)@10", metrics="auc")
    split = scenario.divide(SMALL, seed=0)
    validate = scenario.validator(scenario.fit_setup(split, split.train))
    assert isinstance(validate, Improvements)
    started, restart = [0], validate.restart

    def counted() -> None:
        started[0] += 1
        restart()

    validate.restart = counted  # type: ignore[method-assign]
    spec = "neumf(factors=2, layers=4-2, epochs=1, pretrain=true, variant=s21, loss=bpr, device=cpu)"
    pytest.importorskip("torch")
    MODELS.make(spec).fit(split.train, validate=validate)
    assert started == [3]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("sequential(known=test)", r"sequential\(known=...\) must be train or validation, got 'test'"),
        ("implicit(seen=train)", r"implicit\(seen=...\) must be full or own, got 'train'"),
        (
            "implicit(select_by=recall@100)",
            r"select_by must be one of the metrics of the scenario \(auc, recall\(norm=min\)@100, ndcg@10\), "
            "got 'recall@100'. Leave it out",
        ),
        ("explicit(select_by=auc)", r"metrics of the scenario \(mse\), got 'auc'"),
    ],
)
def test_bad_ways_to_know_see_and_select(spec: str, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        SCENARIOS.make(spec)
    with pytest.raises(InvalidParameter, match="known must be one of train, validation, got 'all'"):
        Sequential(known="all")  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="seen must be one of full, own, got 'all'"):
        Implicit(seen="all")  # type: ignore[arg-type]


def test_new_parameters_are_written_as_specs() -> None:
    written = "sequential(known=validation, seen=own, select_by=recall(norm=min)@100, selection=test)"
    made = SCENARIOS.make(written)
    assert made == Sequential(
        known="validation", seen="own", select_by="recall(norm=min)@100", selection="test"
    )
    assert SCENARIOS.make(str(made)) == made
