"""The page on adapters shows what happens."""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path
from typing import Any

import pytest

import truerank
from tests.models.adapters.world import library

PAGE = (Path(__file__).parents[3] / "docs" / "adapters.md").read_text()


def test_every_adapter_is_on_the_page() -> None:
    shown = set(re.findall(r"^\| `((?:scorer_)?from_\w+)\(", PAGE, re.MULTILINE))
    files = Path(truerank.__file__).parent.joinpath("models", "adapters").glob("*.py")
    defined = "".join(path.read_text() for path in files)
    assert shown == set(re.findall(r"^def ((?:scorer_)?from_\w+)\(", defined, re.MULTILINE))


@pytest.mark.slow
def test_the_blocks_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    library("implicit.als")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for block in re.findall(r"(?<!-->\n)^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL):  # run blocks
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # implicit warns about the threads of BLAS
            exec(compile(block, "docs/adapters.md", "exec"), names)
    assert names["result"].value("ndcg@10") > 0
    assert names["again"].value("ndcg@10") == truerank.evaluate(
        "item-knn(neighbours=50)", names["split"], "ndcg@10"
    ).value("ndcg@10")
    assert len(json.loads(capsys.readouterr().out)["estimates"]) == 2
