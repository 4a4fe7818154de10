"""What ``truerank plan --scale --gpus`` prints."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import Truerank


def test_seconds_and_memory_of_gpus(truerank: Truerank) -> None:
    found = {}
    for gpus in ("1", "8"):
        done = truerank("plan", "--scale", "1e8x1e7x64", "--gpus", gpus, "--format", "json")
        assert done.code == 0, done.err
        found[gpus] = json.loads(done.out)["costs"]
    assert [row["negatives"] for row in found["8"]] == [None, 99, 999]
    assert [row["gpus"] for row in found["8"]] == [8, 8, 8]
    exact, few, many = (row["seconds"] for row in found["1"])
    assert exact > 5 * many > 5 * few > 0
    assert 7.5 < exact / found["8"][0]["seconds"] <= 8
    table = truerank("plan", "--scale", "1e8x1e7", "--gpus", "8", "--negatives", "100")
    lines = table.out.splitlines()
    assert lines[0].split()[:2] == ["ranks", "GPUs"]
    assert [line.split()[:2] for line in lines[1:]] == [["exact", "8"], ["100", "sampled"]]
    assert "on 8 GPUs like an H200, data in the memory of their hosts" in table.err.replace("\n", " ")


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (("--scale", "10x10", "--gpus", "0"), "gpus must be at least 1"),
        (("--scale", "many", "--gpus", "2"), "--scale must be USERSxITEMS"),
    ],
)
def test_wrong_sizes(truerank: Truerank, flags: tuple[str, ...], sentence: str) -> None:
    done = truerank("plan", *flags)
    assert done.code == 2
    assert sentence in done.err.replace("\n", " ")
