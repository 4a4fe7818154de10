"""``truerank study`` and ``truerank fit``: what they print, keep, and refuse."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.cli.conftest import Truerank

STUDY = ("study", "demo", "--model", "popularity", "--model", "item-knn(neighbours=5)", "--repeats", "2")
SMALL = (*STUDY, "--sampler", "uniform(m=20)", "--estimator", "naive", "--estimator", "mle(iterations=5)")


@pytest.mark.slow
def test_a_study_prints_errors_and_winners(truerank: Truerank) -> None:
    done = truerank(*SMALL, "--cutoffs", "1,5-6")
    assert done.code == 0
    assert "2 samples by uniform(m=20); errors relative, in percent, mean over K = 1,5-6" in done.err
    head, *rows = done.out.splitlines()
    assert head.split() == ["metric", "model", "estimator", "error", "spread", "items"]
    assert [row.split()[-1] for row in rows[:4]] == ["21.0"] * 4  # the target and 20 negatives
    assert any(row.startswith("ndcg@5") and row.endswith("of 2") for row in rows)
    assert any(re.fullmatch(r"ndcg@5 .* posterior +[0-2] of 2, [0-2] wrong, [0-2] open", row) for row in rows)
    assert "posterior" not in truerank(*SMALL, "--cutoffs", "5", "--no-posterior").out


@pytest.mark.slow
def test_json_holds_the_values(truerank: Truerank) -> None:
    done = truerank(*SMALL, "--cutoffs", "1-3", "--metrics", "recall", "--format", "json")
    found = json.loads(done.out)
    assert found["estimators"] == ["naive", "mle(iterations=5)"]
    assert found["repeats"] == 2
    assert len(found["exact"]) == 2  # models
    assert len(found["mean"][0][0][0]) == 3  # cut-offs
    assert set(found["named_best"]) == {"recall@1", "recall@2", "recall@3"}
    assert [sum(count.values()) for count in found["named_by_posterior"].values()] == [2]  # recall@1


@pytest.mark.slow
def test_a_kept_study_repeats_to_the_digit(truerank: Truerank, tmp_path: Path) -> None:
    arguments = (*SMALL, "--cutoffs", "1-3", "--keep", str(tmp_path / "kept"), "--format", "csv")
    first = truerank(*arguments)
    assert first.code == 0
    n_files = len(list((tmp_path / "kept").iterdir()))
    assert n_files == 2 * (1 + 2 + 1 + 1)  # per model: exact, two estimators, scores per user, posterior
    assert truerank(*arguments).out == first.out
    assert len(list((tmp_path / "kept").iterdir())) == n_files


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        (("--cutoffs", "5-1"), "--cutoffs must be numbers and ranges such as 1-50 or 1,5,10, got '5-1'"),
        (("--cutoffs", "x"), "--cutoffs must be numbers and ranges"),
        (("--cutoffs", "7000"), "--cutoffs must lie in 1..6000, the items of the data"),
        (("--repeats", "1"), "--repeats must be at least 2, got 1"),
        (("--prior-mode", "mean"), "--prior-mode must be one of per-run, averaged, both, got 'mean'."),
        (("--estimator", "mel"), "Did you mean 'mle'"),
        (("--model", "popularty"), "Did you mean 'popularity'"),
        (("--threads", "-1"), "--threads must be at least"),
    ],
)
def test_bad_input_gets_a_sentence_and_code_2(
    truerank: Truerank, changed: tuple[str, ...], sentence: str, tmp_path: Path
) -> None:
    done = truerank(*SMALL, *changed, "--keep", tmp_path / "kept")
    assert done.code == 2
    assert sentence in done.err
    assert done.out == ""
    assert list(tmp_path.iterdir()) == []  # no folder is made before all options are right


@pytest.mark.slow
def test_an_estimator_that_cannot_take_the_sampler(truerank: Truerank) -> None:
    done = truerank(*SMALL, "--sampler", "adaptive(start=5)", "--estimator", "naive")
    assert (done.code, done.out) == (2, "")
    assert "adaptive" in done.err


@pytest.mark.slow
def test_a_fitted_model_is_evaluated_as_if_fitted_now(truerank: Truerank, tmp_path: Path) -> None:
    path = tmp_path / "knn.truerank"
    fitted = truerank("fit", "demo", "--model", "item-knn(neighbours=5)", "--out", path)
    assert fitted.code == 0
    assert "fitted item-knn(neighbours=5) to 102,435 events" in fitted.err
    evaluated = truerank(
        "evaluate", "demo", "--model", "item-knn(neighbours=5)", "--model", f"saved(path={path})"
    )
    first, second = (line.split()[1:] for line in evaluated.out.splitlines()[1:])
    assert first == second


def test_fit_refuses_before_it_works(truerank: Truerank, tmp_path: Path) -> None:
    missing = truerank("fit", "demo", "--model", "popularity", "--out", tmp_path / "no" / "x.truerank")
    assert missing.code == 2
    assert "--out needs an existing folder" in missing.err
    unknown = truerank("fit", "demo", "--model", "popularty", "--out", tmp_path / "x.truerank")
    assert unknown.code == 2
    assert "Did you mean 'popularity'" in unknown.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_damaged_model_file_is_refused(truerank: Truerank, tmp_path: Path) -> None:
    path = tmp_path / "model.truerank"
    truerank("fit", "demo", "--model", "popularity", "--out", path)
    path.write_bytes(path.read_bytes()[:200])
    done = truerank("evaluate", "demo", "--model", f"saved(path={path})")
    assert done.code == 2
    assert "model.truerank" in done.err
    assert done.err.count("\n") <= 2


def test_recipes_keep_their_pieces_or_not(truerank: Truerank, tmp_path: Path) -> None:
    both = truerank("paper", "run", "r19.table1", "--fresh", "--keep", tmp_path)
    assert both.code == 2
    assert "give either --keep or --fresh, not both" in both.err
    for bad in (("--repeats", "1"), ("--workers", "0"), ("--quick", "--full")):
        assert truerank("paper", "run", "r19.table1", *bad, "--keep", tmp_path / "kept").code == 2
        assert list(tmp_path.iterdir()) == []
    assert truerank("paper", "run", "r19.table1", "--fresh").code == 0


@pytest.mark.slow
def test_fitted_estimates_have_intervals_and_say_why_there_are_no_bounds(truerank: Truerank) -> None:
    done = truerank(
        *("evaluate", "demo", "--model", "popularity", "--sampler", "adaptive(start=20, max=80)"),
        *("--estimator", "mle", "--metrics", "recall@10"),
    )
    assert done.code == 0
    assert "Estimates with 95 % intervals for all test users, by method: posterior (mle)." in done.err
    assert "bounds of adaptive samples need ties 'best'" in done.err
    assert "[" in done.out
