"""Differences within groups: simultaneous over all of them, and a planted reversal is found."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.workflows.segments.test_values import Given, many_users, planted, scores_of
from truerank.core.errors import InvalidParameter
from truerank.core.interactions import Interactions
from truerank.core.ranks import Ranks
from truerank.core.result import Result
from truerank.core.split import GroupLabels, Split
from truerank.ranking.exact import exact_ranks
from truerank.ranking.sampled import sampled_ranks
from truerank.workflows.compare.changes import changes
from truerank.workflows.compare.compare import compare
from truerank.workflows.compare.result import Comparison, Verdict
from truerank.workflows.estimate import estimate
from truerank.workflows.evaluate import evaluate
from truerank.workflows.segments.grouping import make_groupings, split_of_ids

QUICK: dict[str, Any] = {"resamples": 400}


@pytest.mark.slow
def test_differences_within_groups_by_hand() -> None:
    """One grouping with one group for all is the comparison itself."""
    split = many_users(n_users=120)
    tables = {"a": scores_of(split, 1, 40), "b": scores_of(split, 2, 40)}
    whole = GroupLabels("g", "users", ("all", "none"), np.zeros(120, np.int64), "All.")
    found = compare(tables, split, "recall@3,ndcg@3", by=Given(whole), **QUICK)
    everyone, nobody = found.by("g").groups
    assert nobody.differences == () and nobody.n_users == 0
    assert everyone.differences == found.differences
    assert [(e.model, e.value) for e in everyone.estimates] == [(e.model, e.value) for e in found.estimates]
    assert found.by("g").notes == ("Without targets: none.",)


def test_intervals_hold_for_all_groups_at_once() -> None:
    """More groups make intervals wider, as more models and metrics do; values are those of each group."""
    split = many_users(n_users=400)
    tables = {"a": scores_of(split, 1, 40), "b": scores_of(split, 2, 40)}
    label = np.arange(400) % 8
    names = tuple(f"group {n}" for n in range(8))
    found = compare(tables, split, "ndcg@3", by=Given(GroupLabels("g", "users", names, label)), **QUICK)
    for place, group in enumerate(found.by("g").groups):
        test = split.test.where(label[split.test.user] == place)
        alone = compare(tables, Split(split.train, test), "ndcg@3", **QUICK).differences[0]
        inside = group.differences[0]
        assert inside.value == pytest.approx(alone.value, abs=1e-12)
        assert inside.n_users == alone.n_users == group.n_users == 50
        assert inside.low is not None and alone.low is not None
        assert inside.low < alone.low
        assert inside.sentence.startswith(("these 50 users cannot tell a from b", "a beats", "b beats"))


def test_the_winner_that_loses_and_the_json_form() -> None:
    split, tables, by = planted(-1)
    found = compare(tables, split, "recall@1", by=by, **QUICK)
    assert found.differences[0].verdict is Verdict.FIRST
    verdicts = [group.differences[0].verdict for group in found.by("g").groups]
    assert verdicts == [Verdict.FIRST, Verdict.SECOND]
    assert (
        found.by("g")
        .notes[0]
        .startswith("a is ahead of b in recall@1 overall, but loses to it in the group 'small' (-0.")
    )
    assert Comparison.from_json(found.to_json()) == found
    assert len(found.provenance["by"]) == 1
    table = found.by("g").to_table()
    assert table.columns[:4] == ("g", "A", "B", "metric")
    assert [row[0] for row in table.rows] == ["large", "small"]
    assert len(table.strong) == 2
    assert found.by("g").to_table(intervals=False).rows[0][4].count("[") == 0
    assert found.by("g").to_polars().columns[:4] == ["by", "group", "first", "second"]


def test_ranks_need_their_split() -> None:
    split, tables, by = planted(-1)
    ranks = {name: exact_ranks(scores, split) for name, scores in tables.items()}
    with pytest.raises(InvalidParameter, match="by needs the split that the ranks are of"):
        compare(ranks, by=by)
    given = compare(ranks, split, "recall@1", by=by, **QUICK)
    fitted = compare(tables, split, "recall@1", by=by, **QUICK)
    assert given.segments == fitted.segments
    result = evaluate(tables, split, "recall@1")
    assert compare(result, split, "recall@1", by=by, **QUICK).segments == given.segments


def test_tables_of_ranks_have_no_train_events() -> None:
    split = many_users(n_users=5)
    with pytest.raises(InvalidParameter, match="by needs train events for history, and a table of ranks"):
        split_of_ids(make_groupings("history"), split.train.users, None)


@pytest.mark.slow
def test_sampled_ranks_within_groups() -> None:
    """Each group has the estimates and differences of its own ranks alone."""
    split, tables, by = planted(-1)
    samples = {name: sampled_ranks(scores, split, sampler="uniform(m=20)") for name, scores in tables.items()}
    estimated = estimate(samples, "recall@1", "bv", by=by, split=split)
    found = compare(samples, split, "recall@1", estimator="bv", by=by, **QUICK)
    label = np.arange(600) % 3 == 0
    for place, group in enumerate(estimated.by("g").groups):
        parts = {name: sample.take(label[sample.user] == bool(place)) for name, sample in samples.items()}
        alone = estimate(parts, "recall@1", "bv")
        assert group.estimates == alone.estimates
        inside = found.by("g").groups[place]
        assert [e.value for e in inside.estimates] == [e.value for e in alone.estimates]
        (difference,) = inside.differences
        assert difference.value == pytest.approx(alone.value("recall@1", "a") - alone.value("recall@1", "b"))
        assert difference.bound_low is None
    assert Result.from_json(estimated.to_json()) == estimated
    with pytest.raises(InvalidParameter, match="estimate with by needs a Split, got NoneType"):
        estimate(samples, "recall@1", "bv", by=by)


def mixture(n_easy: int, n_hard: int, easy: float, hard: float, seed: int) -> Result:
    """A result on users of two groups, of which the easy ones have short histories."""
    n_users = n_easy + n_hard
    random = np.random.default_rng(seed)
    is_hard = np.arange(n_users) >= n_easy
    user = np.concatenate([np.arange(n_users), np.flatnonzero(is_hard), np.flatnonzero(is_hard)])
    item = np.concatenate([np.full(n_users, 39), np.full(n_hard, 38), np.full(n_hard, 37)])
    train = Interactions.from_codes(user, item, n_users=n_users, n_items=40)
    test = Interactions.from_codes(
        np.arange(n_users), np.zeros(n_users, np.int64), n_users=n_users, n_items=40
    )
    scores = np.ones((n_users, 40))
    scores[:, 0] = np.where(random.random(n_users) < np.where(is_hard, hard, easy), 2, 0)
    return evaluate({"ease": scores}, Split(train, test), "recall@1", by="history(cuts=2)")


@pytest.mark.slow
def test_a_planted_reversal_between_two_results() -> None:
    """Simpson: this week's model is worse in both groups and ahead overall, because more users are easy."""
    old = mixture(500, 2000, easy=0.9, hard=0.3, seed=1)
    new = mixture(2000, 500, easy=0.8, hard=0.2, seed=2)
    found = changes(old, new)
    assert found.differences[0].verdict is Verdict.FIRST
    segments = found.by("history")
    assert [group.name for group in segments.groups] == ["below 2", "2 and more"]
    assert all(group.differences[0].value < 0 for group in segments.groups)
    start = "ease (new) is ahead of ease (old) in recall@1 overall only through the mix of groups: "
    assert f"{start}in every group of history(cuts=2) it is behind." in segments.notes
    lost = [note for note in segments.notes if "loses to it in the groups 'below 2' (-0." in note]
    assert len(lost) == 1
    assert Comparison.from_json(found.to_json()) == found
    same = changes(old, mixture(500, 2000, easy=0.9, hard=0.3, seed=3))
    assert same.by("history").notes == ()


def test_results_with_other_groups_say_so() -> None:
    old = mixture(100, 100, easy=0.9, hard=0.3, seed=1)
    other = replace(old.segments[0], groups=old.segments[0].groups[:1])
    found = changes(old, replace(old, segments=(other,)))
    assert any("Groups by history(cuts=2) have other cut points" in note for note in found.notes)
    assert [group.name for group in found.by("history").groups] == ["below 2"]
    none = changes(old, replace(old, segments=()))
    assert "The new result has no groups by history(cuts=2)." in none.notes
    assert none.segments == ()


def test_a_group_that_one_model_has_no_users_in() -> None:
    """Models with users of their own: a group needs users of both."""
    first = Ranks.single(np.arange(60) % 9, n_pool=50)
    second = replace(Ranks.single(np.arange(60) % 7, n_pool=50), user=np.arange(100, 160))
    label = np.zeros(160, np.int64)
    label[:30] = 1
    users = Interactions.from_codes([0], [0], n_users=160, n_items=50)
    by = Given(GroupLabels("g", "users", ("both", "first"), label))
    found = compare(
        {"a": first, "b": second},
        Split(users, Interactions.from_codes([0], [1], n_users=160, n_items=50)),
        "recall@3",
        by=by,
        **QUICK,
    )
    both, alone = found.by("g").groups
    assert (len(both.differences), alone.differences, alone.n_users) == (1, (), 0)
    assert both.differences[0].pairing == "independent users"
