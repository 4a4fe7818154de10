"""A split that the file brings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from truerank.core.errors import InvalidData
from truerank.core.interactions import Interactions
from truerank.split.base import make_split
from truerank.split.column import Column


def events(labels: list[Any]) -> Interactions:
    plain = Interactions.from_codes([0] * len(labels), list(range(len(labels))))
    return Interactions(plain.user, plain.item, plain.users, plain.items, labels={"part": np.array(labels)})


def test_texts() -> None:
    split = make_split(events(["train", "valid", "test", "train", "unused"]), "column(name=part)")
    assert split.valid is not None
    assert [part.item.tolist() for part in (split.train, split.valid, split.test)] == [[0, 3], [1], [2]]
    assert split.counts["events_dropped"] == 1
    assert split.method == "column(name=part)"


def test_true_and_false() -> None:
    split = make_split(events([False, True, False]), "column(name=part, train=false, test=true)")
    assert (split.train.item.tolist(), split.test.item.tolist(), split.valid) == ([0, 2], [1], None)


def test_numbers() -> None:
    split = make_split(events([0, 1, 2]), "column(name=part, train=0, valid=1, test=2)")
    assert split.valid is not None and split.valid.item.tolist() == [1]


def test_true_is_not_one() -> None:
    with pytest.raises(InvalidData, match="must hold the train label False, found '0', '1'"):
        make_split(events([0, 1]), "column(name=part, train=false, test=true)")


@pytest.mark.parametrize(
    ("labels", "rule", "sentence"),
    [
        (
            ["a", "b"],
            "column(name=part)",
            "column 'part' of 'data' must hold the train label 'train', found 'a', 'b'",
        ),
        (["train", "Test"], "column(name=part)", "must hold the test label 'test', found 'Test', 'train'"),
        (
            ["train"],
            "column(name=fold)",
            r"needs the column 'fold', but 'data' was read without it.*keep=\['fold'\]",
        ),
        (["train"], "column", "needs the column 'split'"),
    ],
)
def test_bad_labels(labels: list[str], rule: str, sentence: str) -> None:
    with pytest.raises(InvalidData, match=sentence):
        make_split(events(labels), rule)


def test_columns_to_keep() -> None:
    assert Column(name="ncf_split").columns == ("ncf_split",)
    assert str(Column()) == "column"
