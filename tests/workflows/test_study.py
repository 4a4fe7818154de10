"""Errors of estimators over repeats: the definition, the draws, the priors, and going on after a stop."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from truerank.core.checkpoint import Store
from truerank.core.errors import InvalidParameter, TruerankError
from truerank.core.interactions import Interactions
from truerank.core.scorer import Factors, Scorer, as_scorer
from truerank.core.split import Split
from truerank.core.types import FloatArray
from truerank.estimation.corrections.priors import averaged_prior
from truerank.estimation.registry import ESTIMATORS
from truerank.estimation.tally import tally
from truerank.metrics.registry import make_metrics
from truerank.ranking.sampled import sampled_ranks
from truerank.workflows.study import NamedBest, Study, study

N_USERS, N_ITEMS = 60, 40


def make_parts() -> Split:
    rng = np.random.default_rng(5)
    items = np.stack([rng.permutation(N_ITEMS)[:4] for _ in range(N_USERS)])
    users = np.arange(N_USERS)
    train = Interactions.from_codes(
        np.repeat(users, 3), items[:, :3].ravel(), n_users=N_USERS, n_items=N_ITEMS
    )
    test = Interactions.from_codes(users, items[:, 3], n_users=N_USERS, n_items=N_ITEMS)
    return Split(train, test, method="toy")


PARTS = make_parts()


def make_scores(seed: int, lift: float) -> FloatArray:
    scores = np.random.default_rng(seed).normal(size=(N_USERS, N_ITEMS))
    scores[PARTS.test.user, PARTS.test.item] += lift
    return scores


MODELS = {"weak": as_scorer(make_scores(1, 0.5)), "strong": as_scorer(make_scores(2, 2.0))}


def made_study(exact: list[float], runs: list[list[float]]) -> Study:
    """Return a study of one estimator and one metric at one K; ``runs`` holds a list of repeats per model."""
    values = np.array(runs)
    return Study(
        models=tuple("abc"[: len(exact)]),
        estimators=("naive",),
        families=("recall",),
        cutoffs=(10,),
        exact=np.array(exact)[:, None, None],
        runs=values[None, :, :, None, None],
        items_per_user=np.ones(len(exact)),
    )


def test_errors_are_relative_and_a_zero_counts_as_zero() -> None:
    found = Study(
        models=("a",),
        estimators=("naive",),
        families=("recall",),
        cutoffs=(1, 2),
        exact=np.array([[[0.0, 0.5]]]),
        runs=np.array([[[[[0.3, 0.6]], [[0.1, 0.5]]]]]),
        items_per_user=np.ones(1),
    )
    mean, spread = found.errors()
    # the first repeat is 20 % off at K = 2 and its K = 1 counts as 0: 10 %; the second 0 %
    assert mean.tolist() == [[[pytest.approx(5.0)]]]
    assert spread.tolist() == [[[pytest.approx(5.0)]]]


def test_the_first_of_equal_models_is_named() -> None:
    found = made_study([0.2, 0.4, 0.4], [[0.1, 0.9, 0.3], [0.5, 0.1, 0.3], [0.5, 0.2, 0.1]])
    assert found.best("recall", 10) == "b"
    assert found.winners("recall", 10).tolist() == [1]  # of three repeats a wins the last two


def test_posterior_names_are_right_wrong_or_open() -> None:
    """b is best; the posterior names b, leaves two repeats open, and names a once."""
    found = made_study([0.2, 0.4, 0.4], [[0.1] * 4, [0.9] * 4, [0.3] * 4])
    with pytest.raises(InvalidParameter, match="posterior of a study needs two models and one of the cut-"):
        found.posterior_winners("recall", 10)
    named = replace(found, named=np.array([1, -1, 0, -1]).reshape(4, 1, 1))
    assert named.posterior_winners("recall", 10) == NamedBest(1, 1, 2)
    assert named.to_dict()["named_by_posterior"] == {"recall@10": {"right": 1, "wrong": 1, "open": 2}}
    as_good = replace(found, named=np.array([2, 2, 2, 2]).reshape(4, 1, 1))
    assert as_good.posterior_winners("recall", 10) == NamedBest(4, 0, 0)
    with pytest.raises(InvalidParameter, match=r"and 5. Give posterior=True"):
        named.posterior_winners("recall", 5)


def noisy_models(n_users: int, **lifts: float) -> tuple[Split, dict[str, Scorer]]:
    """Return 400 items with one target per user, and models whose scores lift targets, on average by this."""
    n_items, rng = 400, np.random.default_rng(0)
    users, target = np.arange(n_users), rng.integers(200, n_items, n_users)
    train = Interactions.from_codes(users, rng.integers(0, 200, n_users), n_users=n_users, n_items=n_items)
    test = Interactions.from_codes(users, target, n_users=n_users, n_items=n_items)
    models = {}
    for name, lift in lifts.items():
        scores = rng.normal(size=(n_users, n_items))
        scores[users, target] += rng.exponential(lift, n_users)
        models[name] = as_scorer(scores)
    return Split(train, test, method="toy"), models


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_users", "bad", "expected"),
    [
        (300, 0.5, NamedBest(2, 0, 0)),
        (300, 2.0, NamedBest(0, 0, 2)),  # as good
        (40, 0.5, NamedBest(0, 0, 2)),  # too few users for a posterior
    ],
)
def test_the_posterior_names_a_clear_winner_or_none(n_users: int, bad: float, expected: NamedBest) -> None:
    parts, models = noisy_models(n_users, good=2.0, bad=bad)
    found = study(
        models,
        parts,
        "uniform(m=60)",
        "naive",
        families="recall",
        cutoffs=[10, 30],
        repeats=2,
        posterior=True,
    )
    assert found.winner_cutoffs == (10,)
    assert found.posterior_winners("recall", 10) == expected


def test_one_model_has_nobody_to_beat() -> None:
    one = {"weak": MODELS["weak"]}
    assert study(one, PARTS, "uniform(m=9)", "naive", cutoffs=[1], repeats=2, posterior=True).named is None


def test_values_are_those_of_the_estimators_on_the_same_draws() -> None:
    found = study(
        MODELS, PARTS, "uniform(m=9, replace=true)", "naive,mle(iterations=5)", cutoffs=[1, 3], repeats=3
    )
    metrics = make_metrics([f"{name}@{k}" for name in ("recall", "ndcg", "ap") for k in (1, 3)])
    for number, name in enumerate(("naive", "mle(iterations=5)")):
        for m, scorer in enumerate(MODELS.values()):
            for repeat in range(3):
                drawn = sampled_ranks(scorer, PARTS, "uniform(m=9, replace=true)", repeat=repeat)
                value = ESTIMATORS.make(name).estimate(tally(drawn), metrics).value
                np.testing.assert_allclose(found.runs[number, m, repeat].ravel(), value, atol=1e-12)
    assert found.items_per_user.tolist() == [10.0, 10.0]


def test_all_items_sampled_leave_no_error() -> None:
    found = study(MODELS, PARTS, "full", "naive", cutoffs=[1, 5], repeats=2)
    assert found.errors()[0].max() == 0
    assert found.winners("ndcg", 5).tolist() == [2]
    assert found.best("ndcg", 5) == "strong"


def test_both_prior_modes_stand_side_by_side() -> None:
    sampler = "uniform(m=9, replace=true)"
    found = study(
        {"strong": MODELS["strong"]},
        PARTS,
        sampler,
        "naive,bv(prior=mle(iterations=20), gamma=0.05)",
        families="recall",
        cutoffs=[1, 3],
        repeats=4,
        prior_mode="both",
    )
    name = "bv(prior=mle(iterations=20), gamma=0.05)"
    assert found.estimators == ("naive", name, f"{name}, averaged prior")
    tallies = [tally(sampled_ranks(MODELS["strong"], PARTS, sampler, repeat=r)) for r in range(4)]
    prior = averaged_prior("mle(iterations=20)", tallies)
    metrics = make_metrics("recall@1,recall@3")
    own, shared = ESTIMATORS.make(name), type(ESTIMATORS.make(name))(gamma=0.05, prior=prior)  # type: ignore[call-arg]
    for repeat, one in enumerate(tallies):
        np.testing.assert_allclose(
            found.runs[1, 0, repeat].ravel(), own.estimate(one, metrics).value, atol=1e-10
        )
        np.testing.assert_allclose(
            found.runs[2, 0, repeat].ravel(), shared.estimate(one, metrics).value, atol=1e-10
        )


def test_averaged_alone_leaves_the_per_run_prior_out() -> None:
    found = study(
        MODELS, PARTS, "uniform(m=9)", "naive,mn(prior=mle)", cutoffs=[2], repeats=2, prior_mode="averaged"
    )
    assert found.estimators == ("naive", "mn(prior=mle), averaged prior")


class Counting:
    """A scorer that counts how often it is asked."""

    def __init__(self) -> None:
        self.calls = 0

    def fit_again(self) -> Factors:
        self.calls += 1
        return Factors(np.ones((N_USERS, 1)), np.arange(N_ITEMS, dtype=np.float64)[:, None])


def test_a_second_run_takes_what_the_first_has_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from truerank.models.popularity import Popularity

    counting = Counting()
    monkeypatch.setattr(Popularity, "fit", lambda *_, **__: counting.fit_again())
    first = study(
        "popularity", PARTS, "uniform(m=9)", "naive", cutoffs=[1, 2], repeats=2, store=Store(tmp_path)
    )
    assert counting.calls == 1
    again = study(
        "popularity", PARTS, "uniform(m=9)", "naive", cutoffs=[1, 2], repeats=2, store=Store(tmp_path)
    )
    assert counting.calls == 1
    np.testing.assert_array_equal(first.runs, again.runs)
    more = study(
        "popularity", PARTS, "uniform(m=9)", "naive,mle", cutoffs=[1, 2], repeats=2, store=Store(tmp_path)
    )
    assert counting.calls == 2  # a new estimator needs the samples again
    np.testing.assert_array_equal(more.runs[0], first.runs[0])


def test_an_interrupted_study_goes_on_with_the_same_digits(tmp_path: Path) -> None:
    models = ["popularity", "item-knn"]

    def run(store: Store, names: list[str]) -> Study:
        return study(names, PARTS, "uniform(m=9)", "naive,mle", cutoffs=[1, 2], repeats=3, store=store)

    run(Store(tmp_path), models[:1])  # as if stopped after the first model
    np.testing.assert_array_equal(run(Store(tmp_path), models).runs, run(Store(), models).runs)


def test_a_refused_study_keeps_nothing(tmp_path: Path) -> None:
    with pytest.raises(TruerankError, match="Sample fewer"):
        study(
            "popularity", PARTS, "popularity(m=999)", "naive", cutoffs=[1], repeats=2, store=Store(tmp_path)
        )
    assert not list(tmp_path.iterdir())


def test_foreign_scores_are_never_taken_from_a_store(tmp_path: Path) -> None:
    store = Store(tmp_path)
    study({"x": MODELS["weak"]}, PARTS, "uniform(m=9)", "naive", cutoffs=[1], repeats=2, store=store)
    other = study(
        {"x": MODELS["strong"]}, PARTS, "uniform(m=9)", "naive", cutoffs=[1], repeats=2, store=store
    )
    alone = study({"x": MODELS["strong"]}, PARTS, "uniform(m=9)", "naive", cutoffs=[1], repeats=2)
    np.testing.assert_array_equal(other.runs, alone.runs)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"repeats": 1}, "repeats must be at least 2, got 1"),
        ({"cutoffs": []}, "cutoffs must lie in 1..40"),
        ({"cutoffs": [0, 1]}, "cutoffs must lie in 1..40"),
        ({"cutoffs": [41]}, "cutoffs must lie in 1..40, the items of the data"),
        ({"families": "recall@10"}, "metrics without a cut-off, got 'recall@10'"),
        ({"families": "recal"}, "Did you mean 'recall'"),
        ({"prior_mode": "mean"}, "prior_mode must be one of"),
        ({"estimators": "nope"}, "nope"),
    ],
)
def test_bad_input_gets_a_sentence(changed: dict[str, object], sentence: str) -> None:
    given: dict[str, object] = {
        "sampler": "uniform(m=9)",
        "estimators": "naive",
        "cutoffs": [1],
        "repeats": 2,
    }
    with pytest.raises(TruerankError, match=sentence):
        study("popularity", PARTS, **{**given, **changed})  # type: ignore[arg-type]


def test_unknown_keyword() -> None:
    with pytest.raises(TypeError, match="repeat"):
        study("popularity", PARTS, repeat=3)  # type: ignore[call-arg]


def test_averaging_needs_a_fitted_prior() -> None:
    from truerank.workflows.study import averaged

    with pytest.raises(InvalidParameter, match="'naive' has no prior that is fitted to the sample"):
        averaged(ESTIMATORS.make("naive"), [])
