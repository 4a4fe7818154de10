"""Any function on any engine."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from truerank.core.checkpoint import Store
from truerank.distributed.map_tasks import map_tasks


def test_results_by_name() -> None:
    arguments = {f"n{number}": number for number in range(9)}
    found = map_tasks("local(threads=3)", math.factorial, arguments, key="factorial", is_thread_safe=True)
    assert found == {f"n{number}": math.factorial(number) for number in range(9)}


def test_finished_units_are_kept(tmp_path: Path) -> None:
    """A second run with a function that would fail is not asked for what is there."""
    store = Store(tmp_path)
    assert map_tasks("local", math.sqrt, {"four": 4.0}, key="root", store=store) == {"four": 2.0}
    with pytest.raises(TypeError):
        map_tasks("local", math.sqrt, {"four": "text"}, key="other", store=store)  # type: ignore[arg-type]
    assert map_tasks("local", math.gamma, {"four": 4.0}, key="root", store=store) == {"four": 2.0}
