"""From the values of stacks to Psi: configurations chosen by one metric, taus by scipy."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from scipy.stats import kendalltau

pytest.importorskip("torch")

from benchmarks.svp_cf.collect import Board, assembled
from benchmarks.svp_cf.job import AS_CODED, CHANGES, read_results, stack_names
from truerank.papers.sachdeva2021 import noise_floor
from truerank.papers.sachdeva2021_protocol import DATA, STRATEGIES, plan_of

NAME = ("ml-100k", "published")
PROJECT = Path(__file__).resolve().parents[2]


def random_results(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return values of all stacks of the implicit scenario, at one fraction."""
    results: dict[str, np.ndarray] = {}
    for stack in stack_names(*NAME, "implicit", (0.5,)):
        shape = (1 if stack.fraction == 1 else 16, 3, 1 if stack.model == "popularity" else 3)
        results |= {f"{stack}/{part}": rng.random((*shape, 3)) for part in ("valid", "test")}
        results[f"{stack}/last"] = np.full(shape, 10, np.int16)
    return results


@pytest.mark.parametrize("selection", ["test", "validation"])
def test_psi_of_random_values(selection: Literal["test", "validation"]) -> None:
    plan = plan_of(DATA[1], "published", fractions=(0.5,))
    scenario = replace(list(plan.model_grids)[1], selection=selection)
    plan = replace(plan, model_grids={scenario: plan.model_grids[list(plan.model_grids)[1]]})
    results = random_results(np.random.default_rng(0))
    board = Board(NAME, scenario, plan, results)
    assert board.missing == board.holes == []
    agreement = assembled(plan, [board], [])
    part = "test" if selection == "test" else "valid"

    def chosen(model: str, fraction: float, a: int, s: int) -> Any:
        """Return the test values of the configuration with the best AUC on the part."""
        fits = [
            (results[f"{stack}/{part}"][a, s, r, 0], results[f"{stack}/test"][a, s, r])
            for stack in stack_names(*NAME, "implicit", (0.5,))
            if (stack.model, stack.fraction) == (model, fraction)
            for r in range(results[f"{stack}/test"].shape[2])
        ]
        return max(fits, key=lambda fit: fit[0])[1]

    for a in (0, 7):
        taus = []
        for s in range(3):
            full = np.array([chosen(model, 1.0, 0, s) for model in board.models])
            small = np.array([chosen(model, 0.5, a, s) for model in board.models])
            taus += [kendalltau(full[:, k], small[:, k]).statistic for k in range(3)]
        assert agreement.scores[a].psi == pytest.approx(np.mean(taus))
    assert agreement.cell("random", 0.5).speedup == pytest.approx(2.0)  # as many epochs, half the events
    assert np.mean([move.probability for move in agreement.moves if move.probability]) == pytest.approx(0.5)


def test_missing_stacks_are_named_and_files_are_joined(tmp_path: Path) -> None:
    plan = plan_of(DATA[1], "published", fractions=(0.5,))
    scenario = list(plan.model_grids)[1]
    results = random_results(np.random.default_rng(1))
    few = {key: value for key, value in results.items() if " mf " not in key and " neumf 32 " not in key}
    board = Board(NAME, scenario, plan, few)
    assert board.holes == ["mf"]
    assert "neumf of width 32" in board.missing
    key = next(key for key in results if key.endswith("mf 8 0.5/test"))
    first, second = results[key].copy(), results[key].copy()
    first[:, 1:], second[:, :1] = np.nan, np.nan
    halves: dict[str, dict[str, Any]] = {"a": {key: first}, "b": {key: second}}
    for name, arrays in halves.items():
        np.savez(tmp_path / f"{name}.npz", **arrays)
    joined = read_results([tmp_path / "a.npz", tmp_path / "b.npz"])
    np.testing.assert_array_equal(joined[key], results[key])


def test_only_seeds_that_were_run_count() -> None:
    """Sub-samples under one seed of three: no tau is missing, and work that was not done is not averaged."""
    plan = plan_of(DATA[1], "published", fractions=(0.5,))
    scenario = list(plan.model_grids)[1]
    plan = replace(plan, model_grids={scenario: plan.model_grids[scenario]})
    results = random_results(np.random.default_rng(2))
    for key, array in results.items():
        if " 0.5/" in key and " multi-vae " not in key:
            array[:, 1:] = 0 if key.endswith("last") else np.nan
    remarks: list[str] = []
    agreement = assembled(plan, [Board(NAME, scenario, plan, results)], remarks)
    cell = agreement.cell("random", 0.5)
    assert (cell.n_missing, cell.n_skipped) == (0, 0)
    assert cell.speedup == pytest.approx(2.0)
    assert remarks == ["sub-samples under 1 of 3 seeds for want of device time, the full data under all."]
    assert np.isnan(np.array(agreement.boards[0].small, dtype=np.float64)[:, :, 1:]).all()


def test_a_width_that_one_seed_lacks_is_left_out_under_that_seed() -> None:
    plan = plan_of(DATA[1], "published", fractions=(0.5,))
    scenario = list(plan.model_grids)[1]
    results = random_results(np.random.default_rng(3))
    both = Board(NAME, scenario, plan, results)
    narrow = {key: array for key, array in results.items() if " mf 32 " not in key}
    alone = Board(NAME, scenario, plan, narrow)
    for part in ("valid", "test"):
        results[f"ml-100k published implicit mf 32 0.5/{part}"][:, 1] = np.nan
    results["ml-100k published implicit mf 32 0.5/last"][:, 1] = 0
    board = Board(NAME, scenario, plan, results)
    assert (board.missing, board.holes) == (["mf of width 32 under seed 1"], [])
    assert (alone.missing, alone.holes) == (["mf of width 32"], [])
    for seed in range(3):
        expected = alone if seed == 1 else both
        np.testing.assert_array_equal(board.full[seed], expected.full[seed])
        np.testing.assert_array_equal(board.small[:, :, seed], expected.small[:, :, seed])
        assert board.full_work[seed] == expected.full_work[seed]
        np.testing.assert_array_equal(board.small_work[..., seed], expected.small_work[..., seed])
    np.testing.assert_array_equal(board.again, both.full)  # the full data have both widths under all seeds
    np.testing.assert_array_equal(alone.again, alone.full)


def test_models_that_read_histories_are_as_coded_under_the_published_protocol_alone() -> None:
    for protocol, is_coded in (("published", True), ("ours", False)):
        for grids in plan_of(DATA[1], protocol).model_grids.values():
            for grid in grids:
                for model in grid.configurations:
                    reads = grid.name in ("multi-vae", "svae", "sasrec")
                    assert getattr(model, "variant", "") == "s21" or not (reads and is_coded)
                    assert not (reads and not is_coded and "variant" in str(model))
                    if grid.name == "svae":
                        changes = (AS_CODED if is_coded else CHANGES)["svae"]
                        assert getattr(model, "beta2", None) == changes["beta2"]


@pytest.mark.slow
def test_the_table_of_the_page_is_that_of_the_results() -> None:
    page = (PROJECT / "docs" / "papers.md").read_text(encoding="utf-8")
    rows = {
        cells[1]: cells
        for line in page.splitlines()
        if len(cells := [c.strip() for c in line.split("|")]) == 9
    }
    folder = PROJECT / "benchmarks" / "results" / "nvidia-h200"
    results = read_results(sorted(folder.glob("svp_cf_*.npz")))
    for data, columns in zip(
        DATA[:2], ({"published": 3, "ours": 4}, {"published": 6, "ours": 7}), strict=True
    ):
        for protocol, column in columns.items():
            plan = plan_of(data, protocol)
            boards = [Board((data.dataset, protocol), s, plan, results) for s in plan.model_grids]
            assert not any(board.holes for board in boards)
            agreement = assembled(plan, boards, [])
            for (group, sampler), strategy in STRATEGIES.items():
                shown = rows[f"{group}, {sampler}"][column].split()[0]
                assert shown == f"{agreement.score(strategy).psi:.3f}"
            floor = noise_floor(agreement)
            assert rows["full data with themselves, other random numbers"][column] == f"{floor:.3f}"
