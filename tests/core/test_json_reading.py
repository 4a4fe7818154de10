"""What truerank wrote is read back by its types: refused by its place, never converted."""

from __future__ import annotations

import json
from typing import Any

import pytest

from truerank.core.errors import InvalidData, InvalidParameter
from truerank.core.parallel import available_threads, chosen_threads
from truerank.core.provenance import from_fields, parse_json
from truerank.core.result import Estimate, Group, Result, Segments
from truerank.papers.record import reference_runs, runs_from_json, runs_to_json

RESULT = Result(
    "evaluate",
    (Estimate("ease", "auc", 0.7, 0.6, 0.8, 0.95, n_users=9),),
    notes=("a",),
    segments=(Segments("history", "users", "By events.", (Group("few", 1, 1, ()),), ("b",)),),
)


def test_round_trip_with_groups() -> None:
    assert Result.from_json(RESULT.to_json()) == RESULT


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (("estimates", 0, "value"), "0.7", r"estimates\[0\].value is '0.7' instead of a number"),
        (("estimates", 0, "value"), True, r"estimates\[0\].value is True instead of a number"),
        (("estimates", 0, "n_users"), 2.5, r"n_users is 2.5 instead of an integer"),
        (("estimates", 0, "n_users"), 10**400, r"n_users is 1000"),
        (("estimates", 0, "kind"), "sure", r"kind is 'sure' instead of exact or estimate or bound"),
        (("estimates", 0, "low"), [], r"low is \[\] instead of a number or null"),
        (("estimates", 0, "surprise"), 1, r"estimates\[0\] has an unknown field 'surprise'"),
        (("notes",), "ab", "notes is 'ab' instead of a list"),
        (("data",), [], r"data is \[\] instead of an object"),
        (("segments", 0, "groups", 0, "name"), None, r"segments\[0\].groups\[0\].name is None"),
    ],
)
def test_values_of_other_types(place: tuple[Any, ...], value: Any, message: str) -> None:
    document = json.loads(RESULT.to_json())
    parent = document
    for key in place[:-1]:
        parent = parent[key]
    parent[place[-1]] = value
    with pytest.raises(InvalidData, match=message):
        Result.from_json(json.dumps(document))


@pytest.mark.parametrize(
    "text", ["{", "[" * 100_000, '{"a": NaN}', '{"a": 1e400}', '{"a": "\\ud800"}', "9" * 5_000, ""]
)
def test_texts_that_are_no_json(text: str) -> None:
    with pytest.raises(InvalidData, match="a result must be the JSON that truerank wrote") as raised:
        parse_json(text, "a result")
    assert len(str(raised.value)) < 400


def test_a_missing_field_and_another_value() -> None:
    with pytest.raises(InvalidData, match="it lacks the field 'metric'"):
        from_fields(Estimate, {"model": "a", "value": 1.0}, "an estimate")
    with pytest.raises(InvalidData, match="it is 3 instead of an object"):
        from_fields(Estimate, 3, "an estimate")


def test_records_of_papers() -> None:
    run = reference_runs()["r19.table1"]
    assert runs_from_json(runs_to_json([run])) == [run]
    for old, new in (
        ('"notes": []', '"notes": "ab"'),
        ('"seed": 0', '"seed": "0"'),
        (', 3, "", null]', ', 3, ""]'),
    ):
        text = runs_to_json([run])
        assert old in text
        with pytest.raises(InvalidData, match="a record of runs must be the JSON that truerank wrote"):
            runs_from_json(text.replace(old, new, 1))


def test_messages_show_the_beginning_of_long_values() -> None:
    shown = str(InvalidData(f"rank must be a number, got {'9' * 5_000!r} in row 3."))
    assert len(shown) < 300 and shown.endswith("... in row 3.")
    assert len(str(InvalidData("ab " * 5_000))) < 2_000


def test_threads_within_their_limit() -> None:
    assert chosen_threads(None) == available_threads() and chosen_threads(1_000) == 1_000
    for asked in (0, -1, 1_001, 10**11):
        with pytest.raises(InvalidParameter, match=r"n_threads must be at (least|most)"):
            chosen_threads(asked)
