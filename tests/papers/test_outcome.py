"""Statuses can fail: z-scores, joint tests, and short runs that never look better than long ones."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from truerank.core.errors import InvalidData
from truerank.papers.outcome import (
    LEVEL,
    NO_EVIDENCE,
    UNDECIDED,
    PaperNumber,
    RecipeOutcome,
    independent_cells,
    joint_test,
)

SAME = PaperNumber("Y", "Recall", 8.84, 8.8411)
NEAR = PaperNumber("Y", "Sampled", 56.51, 56.55, error=0.03)
OFF = PaperNumber("X", "AUC", 89.13, 89.30)
WHY = replace(OFF, note="the start is not given")
NEW = PaperNumber("Z", "ours", None, 1.0)


def test_cell_status() -> None:
    assert PaperNumber("a", "b", 1.0, 1.004).status == "matches"
    assert PaperNumber("a", "b", 1.0, 1.1).status == "differs"
    assert PaperNumber("a", "b", 1.0, 1.1, note="why").status == "explained"
    assert PaperNumber("a", "b", 1.0, 1.1, error=0.06).status == "within 2 standard errors"
    assert PaperNumber("a", "b", 1.0, 1.1, error=0.04).status == "beyond 2 standard errors"
    assert PaperNumber("a", "b", 1.0, 1.1, error=0.04, note="why").status == "explained"
    assert PaperNumber("a", "b", None, 1.1).status == "new"


def test_a_reason_has_a_reach() -> None:
    assert PaperNumber("a", "b", 1.0, 1.1, note="why", reach=0.11).status == "explained"
    assert PaperNumber("a", "b", 1.0, 1.1, note="why", reach=0.09).status == "differs"
    assert PaperNumber("a", "b", 1.0, 1.1, 0.02, note="why", reach=0.09).status == "beyond 2 standard errors"


def test_z_holds_the_rounding_of_print() -> None:
    cell = PaperNumber("a", "b", 50, 53, error=1.0, digits=0)
    assert cell.z == pytest.approx(3 / math.hypot(1, 1 / math.sqrt(12)))
    assert cell.to_dict()["z"] == cell.z
    assert SAME.z is None


def test_status_of_a_table() -> None:
    assert RecipeOutcome((SAME, NEW)).status == "matches"
    assert RecipeOutcome((SAME, NEAR)).status == "agrees"
    assert RecipeOutcome((SAME, NEAR, WHY)).status == "explained"
    assert RecipeOutcome((SAME, WHY, OFF)).status == "differs"
    assert RecipeOutcome((NEW,)).status == RecipeOutcome().status == "no printed numbers"


def test_reasons_come_from_the_recipe_alone() -> None:
    assert RecipeOutcome((SAME, WHY)).verdict == "differs because the start is not given (1 of 2 cells)"
    assert RecipeOutcome((NEW, WHY, OFF)).verdict == "differs, and it is not known why (2 of 2 cells)"
    off = RecipeOutcome((OFF,), reason="fits are ours")
    assert off.verdict == "differs because fits are ours (1 of 1 cells)"
    assert RecipeOutcome((SAME,), reason="fits are ours").verdict == "matches"


def test_many_small_differences_of_one_sign_are_no_chance() -> None:
    """Every cell lies within 2 standard errors, and fifteen of sixteen lie below print."""
    cells = [PaperNumber(str(n), "Psi", 0.4, 0.4 - 0.02, error=0.03, digits=3) for n in range(15)]
    found = RecipeOutcome((*cells, PaperNumber("15", "Psi", 0.4, 0.41, error=0.03, digits=3)))
    assert found.joint is not None
    assert (found.joint.below, found.joint.above) == (15, 1)
    assert found.joint.p_signs == pytest.approx(2 * stats.binom.cdf(1, 16, 0.5))
    assert found.count() == {"within 2 standard errors": 16}
    assert found.status == "differs"
    assert found.verdict == "differs, and it is not known why (0 of 16 cells, joint p = 0.0016)"


def test_one_far_cell_among_many_is_seen() -> None:
    z = [0.7, -0.7] * 60 + [6.0]
    found = joint_test(z)
    assert found is not None
    assert found.p_chi_square > LEVEL
    assert found.p < 1e-5


def test_chi_square_is_that_of_scipy() -> None:
    z = [1.2, -0.4, 2.2, 0.1, -1.9]
    found = joint_test(z)
    assert found is not None
    assert (found.degrees, found.n_cells) == (5, 5)
    assert found.p_chi_square == pytest.approx(stats.chi2.sf(np.square(z).sum(), 5))
    assert found.p_largest == pytest.approx(5 * 2 * stats.norm.sf(2.2))
    assert joint_test([]) is None
    assert joint_test([0.0, 0.0]).p == 1  # type: ignore[union-attr]
    rounding = joint_test([1e-15, 0.5])
    assert rounding is not None
    assert (rounding.below, rounding.above) == (0, 1)


def test_correlated_cells_count_less() -> None:
    """Twenty copies of one number are one number: its two-sided p is that of one z-score."""
    copies = independent_cells([np.ones((20, 20))])
    assert (copies.n_cells, copies.chi_square, copies.signs) == (20, 1, 1)
    found = joint_test([1.5] * 20, copies)
    assert found is not None
    assert found.p_chi_square == pytest.approx(2 * stats.norm.sf(1.5))
    assert found.p_signs > 0.3
    alone = joint_test([1.5] * 20)
    assert alone is not None
    assert alone.p_signs < 1e-5
    assert independent_cells([np.eye(4)] * 2).signs == pytest.approx(8)


def test_many_far_cells_that_are_correlated_are_undecided() -> None:
    """One fluctuation puts a quarter of the cells beyond 2: no proof of a difference, and no agreement."""
    cells = tuple(
        PaperNumber(str(n), "HR", 0.5, 0.5 + (0.021 if n < 5 else 0.005), 0.01, 4) for n in range(20)
    )
    copies = independent_cells([np.ones((20, 20))])
    found = RecipeOutcome(cells, independent=copies)
    assert found.joint is not None
    assert found.joint.p >= LEVEL
    assert found.status == UNDECIDED
    assert found.verdict.startswith("undecided (15 of 20 cells, joint p = ")
    assert RecipeOutcome(cells[4:], independent=copies).status == "agrees"  # one of 16 is chance
    assert replace(found, short="10 repeats").status == NO_EVIDENCE


@pytest.mark.parametrize("wrong", [[], [np.ones(3)], [np.ones((2, 3))]])
def test_correlations_are_square(wrong: list[np.ndarray]) -> None:
    with pytest.raises(InvalidData, match="correlations must"):
        independent_cells(wrong)


@pytest.mark.slow
def test_the_joint_test_holds_its_level() -> None:
    """Of 4,000 tables of correlated normal cells at most as many are rejected as the level says.

    Level 1e-6: the binomial bound on rejections at probability LEVEL. Negative control: the same tables
    judged as if their cells were independent are rejected more often than that.
    """
    rng = np.random.default_rng(0)
    r = 0.5 * np.ones((12, 12)) + 0.5 * np.eye(12)
    z = rng.multivariate_normal(np.zeros(12), r, size=4000)
    known = independent_cells([r])
    rejected = sum((joint_test(row.tolist(), known) or pytest.fail()).p < LEVEL for row in z)
    naive = sum((joint_test(row.tolist()) or pytest.fail()).p < LEVEL for row in z)
    bound = stats.binom.isf(1e-6, 4000, LEVEL)
    assert rejected <= bound
    assert naive > bound


finite = st.floats(-50, 50, allow_nan=False)
random_cells = st.builds(
    PaperNumber,
    st.just("row"),
    st.just("column"),
    st.none() | finite,
    finite,
    st.sampled_from([0.0, 0.01, 0.3, 1.0, 7.0]),
    st.integers(0, 3),
    st.sampled_from(["", "why"]),
    st.none() | st.floats(0, 20),
)


@given(st.lists(random_cells, max_size=12), st.floats(1, 50))
def test_fewer_repeats_never_improve_a_status(cells: list[PaperNumber], wider: float) -> None:
    """Fewer repeats make errors wider: a table or cell stays as it is or becomes no evidence."""
    long = RecipeOutcome(tuple(cells))
    short = RecipeOutcome(tuple(replace(c, error=c.error * wider) for c in cells), short="10 repeats")
    assert short.status in (long.status, NO_EVIDENCE)
    if short.joint is not None:
        assert short.status in ("differs", NO_EVIDENCE)
    for before, after in zip(long.cells, short.cells, strict=True):
        assert short.cell_status(after) in (long.cell_status(before), NO_EVIDENCE)


@given(st.lists(random_cells, max_size=12))
def test_a_table_that_fails_the_joint_test_does_not_agree(cells: list[PaperNumber]) -> None:
    found = RecipeOutcome(tuple(cells))
    if found.joint is not None and found.joint.p < LEVEL:
        assert found.status in ("differs", "explained")
        assert found.verdict.startswith("differs")


def test_a_short_run_says_so() -> None:
    short = RecipeOutcome((NEAR, SAME), short="10 of 100 repeats")
    assert short.verdict == "10 of 100 repeats, no evidence"
    assert short.count() == {NO_EVIDENCE: 1, "matches": 1}
    assert [cell["status"] for cell in short.cells_to_dicts()] == [NO_EVIDENCE, "matches"]
    assert RecipeOutcome((SAME,), short="10 of 100 repeats").status == "matches"  # nothing in it is random
    far = replace(NEAR, value=57.0)
    assert RecipeOutcome((far,), short="10 of 100 repeats").status == "differs"
