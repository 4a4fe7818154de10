"""What changed between two results, and gates on it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import truerank
from truerank.core.errors import InvalidData, InvalidParameter
from truerank.core.provenance import file_metadata
from truerank.core.ranks import Ranks
from truerank.core.result import Estimate, Result
from truerank.core.split import Split
from truerank.data.demo import demo
from truerank.ranking.files import ranks_table
from truerank.split.base import SPLITS
from truerank.workflows.compare.changes import (
    Gate,
    change_summary,
    change_table,
    changes,
    judge,
    read_result_files,
)
from truerank.workflows.compare.result import Strength, Verdict


@pytest.fixture(scope="module")
def small() -> Split:
    return SPLITS.make("leave-last-out").split(demo(n_users=300, n_items=200))


def scores(split: Split, quality: float, seed: int = 1) -> np.ndarray:
    made = np.random.default_rng(seed).random((split.train.n_users, split.train.n_items))
    made[split.test.user, split.test.item] += quality
    return made


def evaluated(split: Split, **qualities: float) -> Result:
    models = {name: scores(split, quality) for name, quality in qualities.items()}
    return truerank.evaluate(models, split, "ndcg@10,recall@10")


def told(model: str, value: float, half: float = 0.01, **fields: Any) -> Estimate:
    return Estimate(model, "auc", value, value - half, value + half, 0.95, **fields)


def test_users_are_paired_where_the_data_are_the_same(small: Split) -> None:
    """One model got better, one stayed: paired intervals are narrower than those of both results."""
    old, new = evaluated(small, ease=0.5, pop=0.1), evaluated(small, ease=0.7, pop=0.1)
    found = changes(old, new)
    verdicts = {(one.first, one.metric): one.verdict for one in found.differences}
    assert verdicts == {
        ("ease (new)", "ndcg@10"): Verdict.FIRST,
        ("ease (new)", "recall@10"): Verdict.FIRST,
        ("pop (new)", "ndcg@10"): Verdict.EQUAL,
        ("pop (new)", "recall@10"): Verdict.EQUAL,
    }
    assert found.notes == ()
    one = found.differences[0]
    assert one.value == pytest.approx(new.value("ndcg@10", "ease") - old.value("ndcg@10", "ease"))
    assert one.low is not None and one.high is not None and one.wins is not None and one.wins > 0
    alone = changes(replace(old, ranks={}), replace(new, ranks={}))
    wide = alone.differences[0]
    assert wide.low is not None and wide.high is not None
    assert wide.high - wide.low > one.high - one.low
    assert "Users are not paired" in alone.notes[0] and "--ranks-out" in alone.notes[0]
    table = change_table(found)
    assert table.columns == ("model", "metric", "old", "new", "change", "verdict")
    assert [row[-1] for row in table.rows] == ["better", "better", "unchanged", "unchanged"]
    assert table.strong == {(0, 4), (1, 4)}
    assert change_summary(found, "last week") == "Since last week, of 4 values: 2 better and 2 unchanged."
    assert json.loads(found.to_json())["provenance"]["old"]["data"]["n_users"] == 300


def test_numbers_alone_tell_what_does_not_overlap() -> None:
    old = Result("evaluate", (told("a", 0.5), told("b", 0.5), told("c", 0.5)))
    new = Result("evaluate", (told("a", 0.6), told("b", 0.51), told("c", 0.4)))
    found = changes(old, new)
    assert [one.verdict for one in found.differences] == [Verdict.FIRST, Verdict.NOISE, Verdict.SECOND]
    first = found.differences[0]
    assert [first.low, first.high] == pytest.approx([0.08, 0.12])
    assert first.strength is Strength.INTERVALS
    assert first.sentence == (
        "a (new) beats a (old) in auc: 0.5000 -> 0.6000, +0.1000 [+0.0800, +0.1200], the intervals of both "
        "results do not overlap."
    )
    assert changes(old, new, tie_margin=0.05).differences[1].verdict is Verdict.EQUIVALENT
    without = Result("evaluate", (Estimate("a", "auc", 0.9),))
    assert changes(Result("evaluate", (told("a", 0.5),)), without).differences[0].verdict is Verdict.NOISE


def test_what_else_differs_is_said_first() -> None:
    old = Result(
        "evaluate",
        (told("a", 0.5), told("gone", 0.5)),
        {"name": "shop", "n_users": 100},
        {"split": "leave-last-out", "data_hash": "x", "ties": "expected", "models": {"a": "ease(reg=1)"}},
    )
    new = Result(
        "evaluate",
        (told("a", 0.6), told("added", 0.5)),
        {"name": "shop", "n_users": 120},
        {"split": "ratio(test=0.1)", "data_hash": "y", "ties": "best", "models": {"a": "ease(reg=5)"}},
        version="9.9",
    )
    notes = changes(old, new).notes
    assert notes[0] == "The data are not the same: users 100 -> 120. A change may come from them."
    assert notes[1] == (
        "Settings that differ: split leave-last-out -> ratio(test=0.1); ties expected -> best; a is "
        f"ease(reg=1) -> ease(reg=5); truerank {old.version} -> 9.9."
    )
    assert notes[2:4] == ("The new result lacks gone.", "The new result also has added.")


def test_other_data_are_not_paired_by_codes(small: Split) -> None:
    """Codes of other data stand for other users, though their counts may be the same."""
    old, new = evaluated(small, a=0.5), evaluated(small, a=0.5)
    other = replace(new, provenance={**new.provenance, "data_hash": "other"})
    found = changes(old, other)
    assert found.differences[0].pairing == "users not paired"
    assert found.notes[0] == "The data are not the same, with the same counts. A change may come from them."
    by_hand = changes(old, other, ranks=(old.ranks, other.ranks))
    assert by_hand.differences[0].verdict is Verdict.EQUAL
    fewer = {name: Ranks.single([0, 1, 2], n_pool=50) for name in other.ranks}
    assert "not tested on the same users" in changes(old, other, ranks=(old.ranks, fewer)).notes[-1]


def test_single_models_are_compared_whatever_their_names() -> None:
    old, new = (
        Result("evaluate", (told("ease(reg=1)", 0.5),)),
        Result("evaluate", (told("ease(reg=2)", 0.6),)),
    )
    found = changes(old, new).differences[0]
    assert (found.first, found.second) == ("ease(reg=2) (new)", "ease(reg=1) (old)")


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ((told("a", 0.5), told("b", 0.5)), (told("c", 0.5),), "must have a model in common"),
        ((told("a", 0.5),), (replace(told("a", 0.5), metric="ap"),), "must have a metric in common"),
        (
            (told("a", 0.5, estimator="naive", kind="estimate"),),
            (told("a", 0.6, estimator="naive", kind="estimate"),),
            "naive values are those of sampled lists",
        ),
    ],
)
def test_results_that_cannot_be_compared(
    old: tuple[Estimate, ...], new: tuple[Estimate, ...], sentence: str
) -> None:
    with pytest.raises(InvalidData, match=sentence):
        changes(Result("evaluate", old), Result("evaluate", new))


@pytest.mark.parametrize(
    ("change", "passed"),
    [
        (0.1, {Gate.WORSE, Gate.NOT_BETTER, Gate.POSSIBLY_WORSE}),
        (0.01, {Gate.WORSE, Gate.POSSIBLY_WORSE}),
        (-0.01, {Gate.WORSE}),
        (-0.1, set()),
    ],
)
def test_gates(change: float, passed: set[Gate]) -> None:
    """Half-widths of both are 0.01, so a change has an interval of +-0.02; a loss of 0.015 is accepted."""
    old, new = Result("evaluate", (told("a", 0.5),)), Result("evaluate", (told("a", 0.5 + change),))
    found = changes(old, new)
    outcomes = {gate: judge(found, gate, margin=0.015) for gate in Gate}
    assert {gate for gate, outcome in outcomes.items() if outcome.is_passed} == passed
    for gate, outcome in outcomes.items():
        assert outcome.to_dict()["fail_on"] == gate.value
        assert len(outcome.failures) == (gate not in passed)


def test_what_is_missing_fails_every_gate() -> None:
    old = Result("evaluate", (told("a", 0.5), told("b", 0.5)))
    found = changes(old, Result("evaluate", (told("a", 0.7),)))
    assert judge(found, "worse").failures == ("The new result lacks b.",)


def test_bad_gates() -> None:
    found = changes(Result("evaluate", (told("a", 0.5),)), Result("evaluate", (told("a", 0.5),)))
    with pytest.raises(InvalidParameter, match="fail_on must be one of worse, not-better, possibly-worse"):
        judge(found, "bad")
    with pytest.raises(InvalidParameter, match="needs a margin"):
        judge(found, "possibly-worse")


def test_files(small: Split, tmp_path: Path) -> None:
    """Ranks are found beside the result; those of other data and lost ones are not used."""
    paths = []
    for week, quality in (("old", 0.5), ("new", 0.7)):
        folder = tmp_path / week
        folder.mkdir()
        result = evaluated(small, ease=quality)
        named = replace(result, provenance={**result.provenance, "ranks_out": "ranks.parquet"})
        (folder / "result.json").write_text(named.to_json())
        frame = ranks_table(result.ranks, small.train.users, small.train.items)
        frame.write_parquet(
            folder / "ranks.parquet", metadata=file_metadata(data_hash=result.provenance["data_hash"])
        )
        paths.append(folder / "result.json")
    files = read_result_files(*paths)
    assert files.notes == ()
    found = changes(files.old, files.new, ranks=files.ranks)
    assert found.differences[0].pairing == "paired users"
    assert found.differences[0].verdict is Verdict.FIRST
    frame.write_parquet(paths[1].with_name("ranks.parquet"), metadata=file_metadata(data_hash="other"))
    assert "made from other data" in read_result_files(*paths).notes[0]
    paths[1].with_name("ranks.parquet").unlink()
    files = read_result_files(*paths)
    assert "ranks.parquet, were not found" in files.notes[0]
    assert "the new result has no exact ranks" in changes(files.old, files.new, ranks=files.ranks).notes[-1]
    with pytest.raises(InvalidData, match="cannot be read"):
        read_result_files(paths[0], tmp_path / "nowhere.json")
    paths[1].write_text("{}")
    with pytest.raises(InvalidData, match="must be the JSON that truerank wrote"):
        read_result_files(*paths)


def test_the_level_of_unpaired_changes_is_said() -> None:
    old, new = (
        Result("evaluate", (Estimate("ease", "auc", at, at - 0.1, at + 0.1, 0.95),)) for at in (0.5, 0.7)
    )
    assert not any("level" in note for note in changes(old, new).notes)
    assert "Their level is 0.95, not 0.9." in changes(old, new, level=0.9).notes
    with pytest.raises(InvalidParameter, match="level must lie between 0 and 1, got 0"):
        changes(old, new, level=0)
