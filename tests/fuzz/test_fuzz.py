"""The first cases of every attack, and that the harness counts what it says."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz import harness
from tests.fuzz.__main__ import surroundings
from tests.fuzz.attacks import ATTACKS
from tests.fuzz.harness import BAD, Answer, Attack, Verdict, WrongAnswer, judge, judge_call, table, tally
from tests.fuzz.readers import OtherForms, ParquetColumns, TextCells, TextFiles, check_events
from tests.fuzz.saved import as_recorded, check_same, differences
from tests.fuzz.specs import ChangedSpecs, Specs
from tests.fuzz.tables import RankTables, TrecFiles, check_ranks
from truerank.core.errors import DataWarning, InvalidData, TruerankError
from truerank.data.read import from_arrays, read_interactions
from truerank.papers.outcome import PaperNumber, RecipeOutcome
from truerank.papers.record import Run, runs_from_json, runs_to_json


@pytest.fixture(autouse=True)
def surround(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in surroundings(tmp_path).items():
        if not name.endswith("_THREADS"):
            monkeypatch.setenv(name, value)


@pytest.mark.slow
@pytest.mark.parametrize("attack", [one for one in ATTACKS if one.few], ids=lambda one: one.name)
def test_first_cases(attack: type[Attack], tmp_path: Path) -> None:
    made = attack(tmp_path / "files")
    findings = [judge(made, 0, number) for number in range(attack.few)]
    bad = [one for one in findings if one.verdict in BAD]
    assert not bad, "\n\n".join(f"case {one.number}: {one.verdict}\n{one.told}" for one in bad[:3])
    assert {one.verdict for one in findings} & {Verdict.ok, Verdict.refused}


def test_make_fuzz_runs_enough() -> None:
    assert sum(attack.cases for attack in ATTACKS) >= 30_000
    assert len({attack.name for attack in ATTACKS}) == len(ATTACKS)


@pytest.mark.slow
@pytest.mark.parametrize(
    "attack", [TextFiles, TextCells, ParquetColumns, OtherForms, RankTables, TrecFiles, Specs, ChangedSpecs]
)
@pytest.mark.filterwarnings("ignore:blanks or other letters:truerank.core.errors.DataWarning")
def test_drawn_by_hypothesis(attack: type[Attack], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same attacks with a generator that searches for bad cases and makes them small."""
    made = attack(tmp_path / "files")
    monkeypatch.chdir(made.folder)

    @settings(
        max_examples=25,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.randoms(use_true_random=False))
    def attempt(draw: random.Random) -> None:
        try:
            made.attempt(draw)
        except TruerankError as error:
            assert harness.is_sentence(str(error))

    attempt()


class Staged(Attack):
    """An attack whose cases end in every possible way."""

    name: ClassVar[str] = "staged"
    cases: ClassVar[int] = 6

    def attempt(self, draw: random.Random) -> Verdict:
        kind = self.order.pop(0)
        if kind == "traceback":
            raise KeyError("x")
        if kind == "slow":
            time.sleep(5)
        if kind == "wrong":
            raise WrongAnswer("7 was read as 8")
        if kind == "refused":
            raise InvalidData("a file must be whole, but it is not.")
        if kind == "no sentence":
            raise InvalidData("x" * 9)
        return Verdict.ok

    order: ClassVar[list[str]] = []


def test_the_harness_counts_every_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "LIMIT", 0.2)
    made = Staged(tmp_path)
    made.order[:] = ["ok", "refused", "traceback", "slow", "wrong", "no sentence"]
    findings = [judge(made, 0, number) for number in range(6)]
    assert [one.verdict.value for one in findings] == ["ok", "refused", "traceback", "slow", "wrong", "wrong"]
    assert "KeyError: 'x'" in findings[2].told and "8" in findings[4].told
    counts = tally(findings)
    assert table(counts, {"staged": 1.0}).splitlines()[-1].split() == [
        "all",
        "6",
        "1",
        "1",
        "1",
        "1",
        "2",
        "1",
    ]


def test_a_case_repeats_from_its_seed() -> None:
    texts = []
    for seed in (0, 0, 1):
        draw = random.Random(f"{seed} specs: drawn 3")
        texts.append(repr([draw.random() for _ in range(3)]))
    assert texts[0] == texts[1] != texts[2]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (Answer(0, "x", ""), Verdict.ok),
        (Answer(2, "", "truerank: a name must be given, got none.\n"), Verdict.refused),
        (Answer(2, "half", "truerank: a name must be given, got none.\n"), None),
        (Answer(2, "", "wrong\n"), None),
        (Answer(2, "", "truerank: \x1b[31m must be text, got none.\n"), None),
        (Answer(1, "", "truerank: a name must be given, got none.\n"), None),
    ],
)
def test_calls_are_judged(answer: Answer, expected: Verdict | None, tmp_path: Path) -> None:
    if expected is not None:
        assert judge_call(answer, tmp_path, set()) is expected
        return
    with pytest.raises(WrongAnswer):
        judge_call(answer, tmp_path, set())


def test_what_is_left_behind_is_found(tmp_path: Path) -> None:
    (tmp_path / ".truerank-1.csv").touch()
    with pytest.raises(WrongAnswer, match="left"):
        judge_call(Answer(2, "", "truerank: a name must be given, got none.\n"), tmp_path, set())


def test_differences_between_json_values() -> None:
    assert differences({"a": [1, {"b": 2}]}, {"a": [1, {"b": 2, "c": 3}]}) == []
    assert differences({"a": [1]}, {"a": [2]}) == ["/a/0: 1 was read as 2"]
    assert differences({"a": "12"}, {"a": ["1", "2"]}) and differences({"a": 1}, {"a": True})


@pytest.mark.parametrize("value", ["-1.584962499999", "1.00000005", "9007199254740993", "0.5"])
def test_records_are_compared_to_the_digits_that_they_keep(value: str) -> None:
    text = runs_to_json([Run("r19.table1", RecipeOutcome((PaperNumber("A", "AUC", 0.99, 0.25),)))])
    changed = text.replace("0.25,", f"{value},")
    assert changed != text
    check_same(as_recorded(changed), runs_to_json(runs_from_json(changed)))
    with pytest.raises(WrongAnswer, match="was read as"):
        check_same(as_recorded(changed), text)
    with pytest.raises(WrongAnswer, match=r"/0/seed: 7 was read as 0"):
        check_same(as_recorded(text.replace('"seed": 0', '"seed": 7')), text)


@pytest.mark.parametrize("attack", [TextFiles, TextCells])
def test_a_reader_that_changes_ids_is_caught(
    attack: type[Attack], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A negative control: a reader that drops the last event."""
    from tests.fuzz import readers

    def shortened(*arguments: object, **options: object) -> object:
        read = read_interactions(*arguments, **options)  # type: ignore[arg-type]
        return read.where(np.arange(len(read)) < len(read) - 1)

    monkeypatch.setattr(readers, "read_interactions", shortened)
    made = attack(tmp_path / "files")
    assert Verdict.wrong in {judge(made, 0, number).verdict for number in range(60)}


@pytest.mark.parametrize("ids", [[" 5", "5"], ["\x1f0", "0"], ["7\xa0", "7"]], ids=ascii)
def test_ids_are_judged_as_written(ids: list[str], tmp_path: Path) -> None:
    """Blanks belong to an id, in tables of ranks and in events; a reader that takes them away is caught."""
    rows = [{"user_id": one, "rank": str(at + 1)} for at, one in enumerate(ids)]
    path = tmp_path / "ranks.csv"
    path.write_text("user_id,rank,n_items\n" + "".join(f"{one['user_id']},{one['rank']},9\n" for one in rows))
    with pytest.warns(DataWarning, match="stand around 1 id"):
        check_ranks(path, rows)
    path.write_text("user_id,rank,n_items\n5,1,9\n6,2,9\n")
    with pytest.raises(WrongAnswer, match="were read as"):
        check_ranks(path, [{"user_id": "5", "rank": "1"}, {"user_id": "5", "rank": "2"}])
    written = [[one, "x", None, None] for one in ids]
    with pytest.warns(DataWarning, match="stand around 1 id"):
        check_events(from_arrays(ids, ["x", "x"]), written)
    with pytest.raises(WrongAnswer, match="was read as"):
        check_events(from_arrays([one.strip() for one in ids], ["x", "x"], duplicates="keep"), written)
