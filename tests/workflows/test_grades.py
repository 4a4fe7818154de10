"""Evaluation with grades: gains of ratings in workflows, engines, files and commands."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from truerank.core.errors import InvalidData, InvalidParameter
from truerank.core.interactions import Interactions
from truerank.core.ranks import Ranks
from truerank.core.split import Split
from truerank.ranking.files import ranks_table, read_rank_files, read_sampled_ranks, write_sampled
from truerank.workflows.compare.compare import compare
from truerank.workflows.estimate import estimate
from truerank.workflows.evaluate import evaluate

#: Items from best to worst for everyone, and the ratings of the held-out ones of two users.
SCORES = np.tile(np.arange(12.0)[::-1], (2, 1))
RATED = {0: {1: 2.0, 4: 5.0, 7: 0.0}, 1: {3: 1.0}}


def rated_split() -> Split:
    pairs = [(user, item, rating) for user, items in RATED.items() for item, rating in items.items()]
    user, item, rating = zip(*pairs, strict=True)
    train = Interactions.from_codes([0, 1], [0, 0], n_users=2, n_items=12, value=np.ones(2))
    test = Interactions.from_codes(list(user), list(item), n_users=2, n_items=12, value=np.array(rating))
    return Split(train, test)


def wanted(form: Callable[[float], float]) -> dict[str, float]:
    """Values by hand: item 0 is removed, so ranks are 1 and 4 for the first user, 3 for the second."""
    two, five, one = form(2), form(5), form(1)
    first = (two + five / math.log2(5)) / (five + two / math.log2(3))
    stop = [gain / (five + 1) for gain in (two, five, one)]
    err = stop[0] + (1 - stop[0]) * stop[1] / 4, stop[2] / 3
    return {"ndcg@4": (first + 1 / 2) / 2, "err@4": sum(err) / 2, "recall@4": 1.0, "mrr": (1 + 1 / 3) / 2}


@pytest.mark.parametrize(
    ("gain", "form"), [("rating", lambda r: r), ("rating(form=exp2)", lambda r: 2**r - 1)]
)
@pytest.mark.parametrize("engine", [None, "local"])
def test_gains_of_ratings(gain: str, form: Callable[[float], float], engine: str | None) -> None:
    """The item rated 0 is no target but an irrelevant item; other metrics count targets alike."""
    metrics = list(wanted(form))
    result = evaluate({"mine": SCORES}, rated_split(), metrics, gain=gain, engine=engine, interval="normal")
    for metric, value in wanted(form).items():
        assert result.value(metric) == pytest.approx(value, rel=1e-13), metric
    assert result.provenance["gain"] == gain
    assert result.data["targets_without_gain"] == 1
    assert result.ranks["mine"].columns()["gain"].tolist() == [form(2), form(5), form(1)]


def test_without_gain_nothing_changes() -> None:
    result = evaluate({"mine": SCORES}, rated_split(), "ndcg@4", interval="normal")
    assert "gain" not in result.provenance
    assert result.ranks["mine"].gain is None and result.data["n_test"] == 4


def test_what_has_no_gains() -> None:
    split = rated_split()
    with pytest.raises(InvalidParameter, match="precision knows no gains"):
        evaluate({"mine": SCORES}, split, "ndcg@4", gain="rating", precision=0.1)
    with pytest.raises(InvalidParameter, match=r"workers know no gains.*Use keep='ranks'"):
        evaluate({"mine": SCORES}, split, "ndcg@4", gain="rating", engine="local", keep="sums")
    plain = Split(split.train, Interactions.from_codes([0], [1], n_users=2, n_items=12))
    with pytest.raises(InvalidData, match="gain 'rating' needs a rating for each test event"):
        evaluate({"mine": SCORES}, plain, "ndcg@4", gain="rating")


def test_comparisons_use_the_gains_of_files(tmp_path: Path) -> None:
    """Written and read again, the ranks of two models give the differences of graded values."""
    split = rated_split()
    models = {"mine": SCORES, "other": SCORES[:, ::-1].copy()}
    result = evaluate(models, split, "ndcg@4", gain="rating", interval="normal")
    table = ranks_table(result.ranks, split.train.users, split.train.items)
    table.write_parquet(tmp_path / "ranks.parquet")
    found = compare(read_rank_files([tmp_path / "ranks.parquet"]), metrics="ndcg@4")
    values = [result.value("ndcg@4", name) for name in models]
    assert found.differences[0].value == pytest.approx(values[0] - values[1])


def test_no_rank_has_a_gain_of_zero() -> None:
    ranks = evaluate({"mine": SCORES}, rated_split(), "ndcg@4", gain="rating", interval="normal").ranks[
        "mine"
    ]
    assert ranks.item.tolist() == [1, 4, 3]


def test_models_with_other_gains_are_not_compared() -> None:
    ranks = Ranks.single([0, 3, 5], n_pool=9)
    graded = replace(ranks, gain=np.array([1.0, 2.0, 3.0]))
    for other in (ranks, replace(ranks, gain=np.array([1.0, 2.0, 4.0]))):
        with pytest.raises(InvalidData, match="'a' and 'b' must have targets of the same gain"):
            compare({"a": graded, "b": other}, metrics="err@5")


@pytest.mark.slow
def test_estimates_of_graded_metrics(tmp_path: Path) -> None:
    """Sampled, written, read and compared: estimates next to exact values, and intervals that hold these."""
    draw = np.random.default_rng(3)
    n_users, n_items = 150, 80
    scores = draw.normal(size=(n_users, n_items))
    items = np.argsort(-scores - draw.gumbel(size=scores.shape), axis=1)[:, :2]
    users = np.repeat(np.arange(n_users), 2)
    rating = draw.integers(1, 6, 2 * n_users).astype(float)
    none = Interactions.from_codes([], [], n_users=n_users, n_items=n_items)
    test = Interactions.from_codes(users, items.ravel(), n_users=n_users, n_items=n_items, value=rating)
    split = Split(none, test)
    result = evaluate(
        {"mine": scores},
        split,
        "ndcg@10,err@10,recall@10",
        gain="rating",
        sampler="uniform(m=40)",
        estimators="smooth",
        bounds=True,
        check=True,
        interval="normal",
    )
    for metric in ("ndcg@10", "err@10", "recall@10"):
        exact = result.estimate(metric, estimator="exact").value
        found = result.estimate(metric, estimator="smooth")
        assert found.value == pytest.approx(exact, abs=0.06)
        assert found.low is not None and found.high is not None and found.low <= exact <= found.high
        (bound,) = [one for one in result.bounds if one.metric == metric]
        assert bound.low is not None and bound.high is not None and bound.low <= exact <= bound.high
    path = tmp_path / "sampled.parquet"
    write_sampled(path, result.sampled, split.train.users, split.train.items)
    again = estimate(read_sampled_ranks(path), "err@10", "smooth")
    assert again.value("err@10") == pytest.approx(result.estimate("err@10", estimator="smooth").value)
