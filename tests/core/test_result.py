"""Results survive their JSON form."""

from __future__ import annotations

import json

import pytest

from truerank.core.errors import InvalidData
from truerank.core.result import Estimate, Result

RESULT = Result(
    "evaluate",
    (Estimate("a", "auc", 0.5, 0.4, 0.6, 0.95, n_users=3), Estimate("b", "auc", 0.7)),
    data={"n_users": 3},
    provenance={"seed": 0},
)


def test_json_round_trip() -> None:
    assert Result.from_json(RESULT.to_json()) == RESULT
    entry = json.loads(RESULT.to_json())["estimates"][0]
    wanted = {
        "model",
        "metric",
        "estimator",
        "value",
        "low",
        "high",
        "level",
        "kind",
        "n_users",
        "n_negatives",
    }
    assert wanted <= set(entry)


def test_look_up() -> None:
    assert RESULT.value("auc", "b") == 0.7
    assert (RESULT.models(), RESULT.metrics()) == (["a", "b"], ["auc"])
    with pytest.raises(InvalidData, match="exactly one estimate of 'auc', found 2"):
        RESULT.value("auc")
    with pytest.raises(InvalidData, match=r"There are: auc of a \(exact\); auc of b"):
        RESULT.value("ndcg")


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"command": 1, "estimates": [{"x": 1}]}'])
def test_damaged_json(text: str) -> None:
    with pytest.raises(InvalidData):
        Result.from_json(text)


def test_nan_is_never_written() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        Result("evaluate", (Estimate("a", "auc", float("nan")),)).to_json()
