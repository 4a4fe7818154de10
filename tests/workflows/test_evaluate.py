"""The whole line in Python."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from scipy import stats

import truerank
from truerank.core.digest import data_hash
from truerank.core.errors import Interrupted, InvalidData, InvalidParameter, UnknownArgument
from truerank.core.interactions import Interactions
from truerank.core.model import Model
from truerank.core.progress import SILENT_TASK, ProgressTask
from truerank.core.result import Result
from truerank.core.split import Split
from truerank.data.catalogue import find_local, load
from truerank.data.demo import demo
from truerank.split.base import SPLITS
from truerank.workflows.evaluate import evaluate


@pytest.fixture(scope="module")
def small() -> Split:
    return SPLITS.make("leave-last-out").split(demo(n_users=60, n_items=80))


def test_equals_a_full_sort(small: Split) -> None:
    """Distinct random scores: NDCG@5 and recall@5 from argsort of each user's unseen items."""
    scores = np.random.default_rng(0).random((60, 80))
    result = evaluate({"mine": scores}, small, "ndcg@5,recall@5")
    gains = []
    for user, target in zip(small.test.user, small.test.item, strict=True):
        row = scores[user].copy()
        row[small.train.item[small.train.user == user]] = -1
        rank = 1 + np.argsort(-row).tolist().index(target)
        gains.append((1 / np.log2(rank + 1) if rank <= 5 else 0.0, float(rank <= 5)))
    expected = np.mean(gains, axis=0)
    assert result.value("ndcg@5") == pytest.approx(expected[0], abs=1e-15)
    assert result.value("recall@5", "mine") == pytest.approx(expected[1], abs=1e-15)


def test_all_ways_to_name_models(small: Split) -> None:
    factors = (np.ones((60, 1), np.float32), np.arange(80, dtype=np.float32)[:, None])
    assert evaluate("popularity", small).models() == ["popularity"]
    assert evaluate(["popularity", "ease( reg=9 )"], small).models() == ["popularity", "ease(reg=9)"]
    assert evaluate({"a": "kr20-y", "b": factors}, small).models() == ["a", "b"]
    assert evaluate(factors, small).models() == ["Factors"]
    named = evaluate("kr20-y", small)
    assert named.models() == ["kr20-y"]
    assert named.provenance["models"]["kr20-y"].startswith("item-knn(power=3")


def test_result_is_complete_and_repeatable(small: Split) -> None:
    first, second = (evaluate("ials(sweeps=2)", small, "ndcg@10", seed=1) for _ in range(2))
    assert first.estimates == second.estimates
    assert first.provenance["data_hash"] == second.provenance["data_hash"]
    assert first.provenance["scores_computed"] == {"ials(sweeps=2)": 60 * 80}
    assert Result.from_json(first.to_json()).estimates == first.estimates
    assert first.ranks["ials(sweeps=2)"].n_users == 60


def test_threads_do_not_matter(small: Split) -> None:
    models = ["popularity", "item-knn", "item-knn(neighbours=5)", "ease", "ials(sweeps=2)"]
    one = evaluate(models, small, "ndcg@10,auc", n_threads=1)
    assert evaluate(models, small, "ndcg@10,auc", n_threads=3).estimates == one.estimates


def test_data_hash_depends_on_pairs_and_parts_only(small: Split) -> None:
    order = np.random.default_rng(0).permutation(len(small.train))
    assert data_hash(Split(small.train.take(order), small.test)) == data_hash(small)
    assert data_hash(Split(small.train.take(order[1:]), small.test)) != data_hash(small)


@pytest.mark.parametrize(
    ("models", "options", "message"),
    [
        ([], {}, "at least one model is needed"),
        (["ease", "ease"], {}, "given twice"),
        (object(), {}, "scores must be an array"),
        ("popularity", {"ties": "coin"}, "ties must be one of"),
        ("popularity", {"metrics": "ndcg@81"}, "must be at most the largest pool"),
        ("popularity", {"metrics": []}, "at least one metric"),
    ],
)
def test_bad_arguments(small: Split, models: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        evaluate(models, small, **options)


def test_no_targets(small: Split) -> None:
    nothing = small.test.take(np.zeros(0, dtype=np.int64))
    with pytest.raises(InvalidData, match="must hold at least one target"):
        evaluate("popularity", Split(small.train, nothing, method="hand"))


def test_scores_that_do_not_fit(small: Split) -> None:
    with pytest.raises(InvalidData, match="must know the 80 items"):
        evaluate(np.zeros((60, 79)), small)


def test_public_names_work_together() -> None:
    """Train holds x twice; y and z are tied below it for both users: (1/1 + 1/2) / 2."""
    data = truerank.from_arrays(["a", "a", "b", "b"], ["x", "y", "x", "z"], timestamps=[1, 2, 1, 2])
    split = truerank.make_split(data, "leave-last-out")
    result = truerank.evaluate(["popularity"], split, "mrr", interval="normal")
    assert isinstance(split.train, Interactions)
    assert result.value("mrr") == pytest.approx((1 + 1 / 2) / 2)


@pytest.mark.data
@pytest.mark.skipif(
    find_local("ml-1m") is None, reason="ml-1m does not lie in TRUERANK_DATA or ../shared/data"
)
def test_krichene_rendle_y_and_z_on_ml_1m() -> None:
    """Exact rows of Table 3: Y in all four metrics; Z in recall and NDCG, its AUC within 0.1 (ties)."""
    split = SPLITS.make("column(name=ncf_split)").split(load("ml-1m", keep=["ncf_split"]))
    assert (split.train.n_users, split.train.n_items, len(split.test)) == (6040, 3706, 6040)
    result = evaluate(["kr20-y", "kr20-z"], split, "recall@10,ndcg@10,ap,auc", interval="normal")

    def percent(metric: str, model: str) -> float:
        return 100 * result.value(metric, model)

    printed = {"recall@10": 8.84, "ndcg@10": 4.59, "ap": 4.32, "auc": 85.33}
    for metric, value in printed.items():
        assert percent(metric, "kr20-y") == pytest.approx(value, abs=0.005), metric
    assert percent("recall@10", "kr20-z") == pytest.approx(9.42, abs=0.005)
    assert percent("ndcg@10", "kr20-z") == pytest.approx(4.79, abs=0.005)
    assert percent("auc", "kr20-z") == pytest.approx(74.73, abs=0.1)


def test_models_are_not_changed_by_fitting(small: Split) -> None:
    model = truerank.MODELS.make("ials(sweeps=2)")
    assert isinstance(model, Model)
    before = str(model)
    model.fit(small.train)
    assert str(model) == before


def test_some_users(small: Split) -> None:
    """Values are means over the users drawn; the interval shrinks with the share of users that is known."""
    everybody = evaluate("popularity", small, "ndcg@10", interval="normal")
    some = evaluate("popularity", small, "ndcg@10", interval="normal", users=30, seed=3)
    wide = evaluate("popularity", small, "ndcg@10", interval="normal", users=30, seed=3, target="population")
    for_these, for_all = some.estimates[0], wide.estimates[0]
    assert for_these.value == for_all.value != everybody.estimates[0].value
    assert (for_these.n_users, for_these.target, for_these.method) == (
        30,
        "test-users",
        "normal, finite population",
    )
    assert (for_all.target, for_all.method) == ("population", "normal")
    assert for_all.high is not None and for_these.high is not None
    narrowed = (for_these.high - for_these.value) / (for_all.high - for_all.value)
    assert narrowed == pytest.approx(np.sqrt(0.5), abs=1e-12)
    assert some.data["users_drawn_from"] == 60 and some.provenance["users"] == 30


def test_all_users_drawn_leave_nothing_unknown(small: Split) -> None:
    found = evaluate("popularity", small, "ndcg@10", users=60).estimates[0]
    assert found.low == found.value == found.high
    assert found.value == evaluate("popularity", small, "ndcg@10").value("ndcg@10")


@pytest.mark.stat
def test_coverage_of_the_mean_over_all_test_users(small: Split) -> None:
    """95 % intervals from half of 60 users cover the value of all 60 in 400 draws: level 1e-6.

    Negative control: the interval for the population covers far too often.
    """
    exact = evaluate("popularity", small, "auc").value("auc")

    def covered(target: str) -> int:
        options: dict[str, Any] = {"users": 30, "target": target, "interval": "normal"}
        found = [
            evaluate("popularity", small, "auc", seed=seed, **options).estimates[0] for seed in range(400)
        ]
        return sum(one.low <= exact <= one.high for one in found if one.low is not None)  # type: ignore[operator]

    share = stats.binom(400, 0.95)
    assert share.ppf(1e-6) <= covered("test-users") <= share.ppf(1 - 1e-6)
    assert covered("population") > share.ppf(1 - 1e-3)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [({"users": 0}, "users must be an integer >= 1"), ({"target": "me"}, "target must be one of test-users")],
)
def test_wrong_users_and_targets(small: Split, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidParameter, match=sentence):
        evaluate("popularity", small, **options)


def test_a_misspelt_keyword_is_answered_with_the_nearest_one(small: Split) -> None:
    sentence = re.escape("evaluate() has no argument 'sampelr'. Did you mean 'sampler'?")
    with pytest.raises(UnknownArgument, match=sentence):
        evaluate("popularity", small, sampelr="uniform(m=9)")  # type: ignore[call-arg]
    assert isinstance(UnknownArgument("f", "a", ["b"]), TypeError)


def test_precision_is_an_argument_of_evaluate(small: Split) -> None:
    result = evaluate("popularity", small, "recall@1", precision=0.1)
    assert result.value("recall@1") == evaluate("popularity", small, "recall@1").value("recall@1")
    assert result.provenance["precision"] == 0.1
    for options, sentence in (
        ({"budget": 9}, "budget needs precision"),
        (
            {"precision": 0.1, "sampler": "full", "users": 2},
            "Leave out sampler, users, or leave out precision",
        ),
        ({"precision": 0.1, "engine": "local"}, "Leave out engine, or"),
        ({"work_dir": "x"}, "work_dir is for engines with workers"),
    ):
        with pytest.raises(InvalidParameter, match=sentence):
            evaluate("popularity", small, **options)


class Impatient:
    """A progress that interrupts a training at the end of its second epoch."""

    n_steps = 0

    def task(self, label: str, total: int | None = None) -> Impatient | ProgressTask:
        return self if label.startswith("mf") else SILENT_TASK

    def done(self, task: ProgressTask) -> None:
        pass

    def advance(self, steps: int = 1) -> None:
        self.n_steps += 1
        if self.n_steps == 2:
            raise KeyboardInterrupt


@pytest.mark.parametrize("how", [{}, {"engine": "local"}, {"precision": 0.2}], ids=str)
def test_an_interrupted_training_is_marked_and_the_last(small: Split, how: dict[str, Any]) -> None:
    mf = "mf(factors=2, epochs=9)"
    with pytest.warns(Interrupted) as told:
        result = evaluate(["popularity", mf, "ease"], small, "auc", progress=Impatient(), **how)
    assert [str(one.message) for one in told] == [
        f"{mf}: training was interrupted in epoch 2 of 9; epoch 2 is kept.",
        "interrupted: 2 of 3 models were evaluated.",
    ]
    assert result.models() == ["popularity", mf]
    assert result.provenance["interrupted"] == {mf: {"epoch": 2, "epochs": 9, "kept": 2, "path": ""}}
    assert result.provenance["unfinished"] == ["ease"]
    assert result.notes[0] == "interrupted: 2 of 3 models were evaluated."
    assert f"{mf}: training was interrupted in epoch 2 of 9; epoch 2 is kept." in " ".join(result.notes)
    assert Result.from_json(result.to_json()) == result
    whole = evaluate(mf, small, "auc", **how)
    assert not {"interrupted", "unfinished"} & set(whole.provenance)
    assert whole.value("auc") != result.value("auc", mf)


def test_a_comparison_takes_no_half_training(small: Split) -> None:
    with pytest.raises(KeyboardInterrupt):
        truerank.compare(["popularity", "mf(factors=2, epochs=9)"], small, progress=Impatient())
