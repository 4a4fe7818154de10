"""Errors survive the way to another process."""

from __future__ import annotations

import pickle

import pytest

from truerank.core.errors import (
    CannotEstimate,
    InvalidData,
    InvalidParameter,
    JobFailed,
    MissingDependency,
    NotConverged,
    TruerankError,
    UnknownArgument,
    UnknownName,
)


@pytest.mark.parametrize(
    "error",
    [
        InvalidParameter("a must be 1, got 2."),
        InvalidData("no rows."),
        JobFailed("task 3 failed."),
        UnknownName("metric", "ndgc", ["ndcg", "recall"]),
        UnknownArgument("evaluate", "sead", ["seed"]),
        MissingDependency("downloading data", "pooch", extra="data"),
        NotConverged("no end in sight.", [1.0, 2.0]),
        CannotEstimate("not this sample."),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_is_the_same_after_pickling(error: TruerankError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert vars(again) == vars(error)
