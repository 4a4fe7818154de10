"""Recommending a strategy: the rule finds what was planted, and is judged on data sets that took no part."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.strategy_choice import STRATEGIES, gini, judge, predict


def test_gini() -> None:
    assert gini(np.array([3, 3, 3])) == 0
    assert gini(np.array([0, 0, 0, 8])) == pytest.approx(3 / 4)
    assert gini(np.array([1, 3])) == pytest.approx(1 / 4)


def test_prediction_is_ridge_regression() -> None:
    """Beside scikit-learn's, on standardised characteristics; without a penalty it is the plane itself."""
    linear_model = pytest.importorskip("sklearn.linear_model")
    rng = np.random.default_rng(0)
    known, psi, new = rng.random((12, 4)), rng.random((12, 9)), rng.random((3, 4))
    scaled, asked = ((of - known.mean(axis=0)) / known.std(axis=0) for of in (known, new))
    twin = linear_model.Ridge(alpha=0.3 * 12).fit(scaled, psi).predict(asked)
    assert predict(known, psi, new, 0.3) == pytest.approx(twin)
    plane = rng.random((4, 9))
    assert predict(known, known @ plane, new, 0.0) == pytest.approx(new @ plane)


def test_planted_and_left_out() -> None:
    """The best strategy follows one characteristic; a family that breaks the law learns nothing of itself."""
    rng = np.random.default_rng(1)
    known = rng.random((10, 4))
    psi = np.zeros((10, len(STRATEGIES), 2))
    psi[:, 2] = known[:, :1]
    psi[:, 5] = 1 - known[:, :1]
    families = ["a", "a", *"bcdefghi"]
    rows = judge(known, psi, families)
    names = [STRATEGIES[2] if first > 0.5 else STRATEGIES[5] for first in known[:, 0]]
    assert [row["recommended"] for row in rows] == names
    assert [row["psi"] for row in rows] == pytest.approx([row["psi of its own best"] for row in rows])
    broken = psi.copy()
    broken[:2, 7] = 5.0  # both versions of one data set: the others do not know of it
    assert judge(known, broken, families)[0]["recommended"] == names[0]
