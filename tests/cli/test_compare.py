"""``truerank compare``."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import Truerank

EXACT = "user_id,rank,n_items\n"
A = EXACT + "a,1,10\nb,4,10\nc,1,10\nd,8,10\n"
B = EXACT + "d,10,10\nc,6,10\nb,4,10\na,1,10\n"


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    paths = tmp_path / "ease.csv", tmp_path / "pop.csv"
    for path, text in zip(paths, (A, B), strict=True):
        path.write_text(text)
    return paths


def sampled(path: Path, top: int, *, n_users: int = 300) -> Path:
    ranks = np.arange(n_users) * top // n_users + 1
    lines = [f"u{user},{rank},100,1000" for user, rank in enumerate(ranks.tolist())]
    path.write_text("\n".join(["user_id,rank,n_negatives,n_items", *lines]) + "\n")
    return path


def test_exact_files(truerank: Truerank, files: tuple[Path, Path]) -> None:
    """Recall@1 of four users is 2/4 and 1/4, whatever the order of the rows."""
    done = truerank("compare", *files, "--metrics", "recall@1")
    assert done.code == 0
    assert "these 4 users cannot tell ease from pop in recall@1: noise." in done.err.replace("\n", " ")
    header, line = done.out.splitlines()
    names = [
        "A",
        "B",
        "metric",
        "A - B",
        "relative",
        "wins/ties/losses",
        "adjusted p",
        "verdict",
    ]
    assert re.split(r"\s{2,}", header) == names
    assert re.fullmatch(r"cannot tell: noise \(about [\d,]+ users needed\)", re.split(r"\s{2,}", line)[-1])
    done = truerank("compare", *files, "--metrics", "recall@1", "--target", "test-users")
    line = done.out.splitlines()[1]
    cells = ["ease", "pop", "recall@1", "+0.2500 [+0.2500, +0.2500]", "+100.0 %", "1/3/0"]
    assert re.split(r"\s{2,}", line)[:6] == cells
    assert line.endswith("ease, exactly")
    said = done.err.replace("\n", " ")
    assert "ease beats pop in recall@1 on these 4 users, exactly: +0.2500. In the population of users" in said


def test_formats_and_files(truerank: Truerank, files: tuple[Path, Path], tmp_path: Path) -> None:
    for suffix in ("json", "csv", "md", "txt"):
        out = tmp_path / f"found.{suffix}"
        form = {"md": "markdown", "txt": "table"}.get(suffix, suffix)
        done = truerank("compare", *files, "--metrics", "mrr", "--format", form, "--out", out)
        assert done.code == 0
        assert out.read_text() == done.out
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["differences"][0]["value"] == pytest.approx((2.375 - (1 + 1 / 4 + 1 / 6 + 1 / 10)) / 4)
    assert found["provenance"]["correction"] == "max-t"
    assert "first,second,metric,value,low,high" in (tmp_path / "found.csv").read_text()


def test_sampled_files(truerank: Truerank, tmp_path: Path) -> None:
    """A is better in AUC whatever the ranks are; Recall@10 is below what 100 negatives resolve."""
    good, bad = sampled(tmp_path / "good.csv", 40), sampled(tmp_path / "bad.csv", 90)
    done = truerank("compare", good, bad, "--metrics", "auc,recall@10", "--format", "json")
    assert done.code == 0, done.err
    auc, recall = json.loads(done.out)["differences"]
    assert (auc["verdict"], auc["strength"]) == ("A beats B", "whatever the ranks are")
    assert recall["verdict"].startswith("cannot tell")
    flags = ("--metrics", "recall@10", "--estimator", "naive", "--no-bounds", "--no-posterior")
    trusting = truerank("compare", good, bad, *flags)
    assert "note: intervals for noise from sampled ranks include the variance between users" in trusting.err
    assert trusting.out.splitlines()[1].endswith("good, by the estimator")
    shaped = truerank("compare", good, bad, "--metrics", "recall@10", "--shape", "decreasing")
    assert shaped.code == 0


def test_sampled_files_by_the_posterior(truerank: Truerank, tmp_path: Path) -> None:
    """Ranks of two curves like those of recommenders: the posterior decides, and the table says what does."""
    draw = np.random.default_rng(0)
    for name, shape in (("good", 0.25), ("bad", 0.6)):
        exact = (draw.beta(shape, 2, 400) * 900).astype(int)
        above = draw.hypergeometric(exact, 999 - exact, 100)
        lines = [f"u{user},{rank},100,1000" for user, rank in enumerate((above + 1).tolist())]
        text = "\n".join(["user_id,rank,n_negatives,n_items", *lines]) + "\n"
        (tmp_path / f"{name}.csv").write_text(text)
    files = tmp_path / "good.csv", tmp_path / "bad.csv"
    done = truerank("compare", *files, "--metrics", "recall@20", "--no-bounds")
    assert done.code == 0, done.err
    assert done.out.splitlines()[1].endswith("good, by the posterior, the sample decides")
    assert "good beats bad in recall@20 by the posterior: [+0." in done.err.replace("\n", " ")
    noise = truerank("compare", *files, "--metrics", "recall@20", "--no-bounds", "--no-posterior")
    assert noise.out.splitlines()[1].endswith("good, by the estimator")


def test_models_on_data(truerank: Truerank, tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    rows = [(user, item) for user in range(40) for item in draw.permutation(30)[:6].tolist()]
    lines = [f"{user},{item},{time}" for time, (user, item) in enumerate(rows)]
    data = tmp_path / "events.csv"
    data.write_text("\n".join(["user_id,item_id,timestamp", *lines]) + "\n")
    flags = ("--data", data, "--model", "popularity", "--model", "item-knn", "--metrics", "ndcg@10")
    done = truerank("compare", *flags, "--format", "json")
    assert done.code == 0, done.err
    one = json.loads(done.out)["differences"][0]
    values = json.loads(truerank("evaluate", data, *flags[2:], "--format", "json").out)["estimates"]
    assert one["value"] == pytest.approx(values[0]["value"] - values[1]["value"], abs=1e-12)
    drawn = truerank("compare", *flags, "--negatives", "10", "--format", "json")
    assert json.loads(drawn.out)["differences"][0]["pairing"] == "paired users, shared negatives"
    some = json.loads(truerank("compare", *flags, "--users", "20", "--format", "json").out)["differences"][0]
    assert one["target"] == some["target"] == "population"
    assert one["low"] < one["value"] < one["high"] and some["high"] - some["low"] > one["high"] - one["low"]
    part = json.loads(
        truerank("compare", *flags, "--users", "20", "--target", "test-users", "--format", "json").out
    )["differences"][0]
    assert some["low"] < part["low"] < part["value"] < part["high"] < some["high"]  # of 40, 20 are known
    dense = json.loads(truerank("compare", *flags, "--core", "5", "--format", "json").out)["differences"][0]
    few = truerank("evaluate", data, *flags[2:], "--core", "5", "--format", "json")
    first, second = json.loads(few.out)["estimates"]
    assert first["n_users"] < 40
    assert dense["value"] == pytest.approx(first["value"] - second["value"], abs=1e-12)


def test_baseline_and_several_models(truerank: Truerank, files: tuple[Path, Path], tmp_path: Path) -> None:
    third = tmp_path / "third.csv"
    third.write_text(A)
    done = truerank("compare", *files, third, "--baseline", "pop", "--metrics", "mrr", "--format", "csv")
    assert [line.split(",")[:2] for line in done.out.splitlines()[1:]] == [["ease", "pop"], ["third", "pop"]]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ((), "give either files of ranks, or --data and --model."),
        (("A", "B", "--data", "demo"), "give either files of ranks, or --data and --model."),
        (("A", "B", "--model", "ease"), "--model and --sampler need --data"),
        (("A", "B", "--users", "0.5"), "--test, --users, --gain and filters of events need --data."),
        (("A", "B", "--gain", "rating"), "--test, --users, --gain and filters of events need --data."),
        (("A", "B", "--core", "5"), "--test, --users, --gain and filters of events need --data."),
        (("--data", "demo"), "--data needs models to compare"),
        (("--data", "demo", "--model", "ease"), "at least two models, got 1"),
        (
            ("--data", "demo", "--model", "ease", "--negatives", "9", "--sampler", "uniform"),
            "either --negatives or --sampler",
        ),
        (("A", "A"), "names of models must be unique|at least two models"),
        (("A", "nothing.csv"), "must be an existing file"),
        (("A", "B", "--baseline", "peas"), "unknown baseline 'peas'. Did you mean 'ease'"),
        (("A", "B", "--correction", "fdr"), "correction must be one of"),
        (("A", "B", "--target", "me"), "target must be one of"),
        (("A", "B", "--margin", "2"), "--margin must lie between 0 and 1"),
        (("A", "B", "--estimator", "bw"), "Did you mean 'bv'"),
        (("A", "B", "--metrics", "recall@11"), "at most the largest pool of 10"),
        (("A", "B", "--out", "x.html"), "--out must end in"),
    ],
)
def test_bad_input(
    truerank: Truerank,
    files: tuple[Path, Path],
    flags: tuple[str, ...],
    sentence: str,
) -> None:
    named = {"A": str(files[0]), "B": str(files[1])}
    done = truerank("compare", *(named.get(flag, flag) for flag in flags))
    assert (done.code, done.out) == (2, ""), done.err
    assert re.search(sentence, done.err.replace("\n", " ")), done.err


def test_users_that_only_some_have(truerank: Truerank, files: tuple[Path, Path]) -> None:
    files[1].write_text(EXACT + "a,1,10\nb,4,10\nx,2,10\n")
    done = truerank("compare", *files, "--metrics", "mrr")
    assert done.code == 2
    advice = "share 2 of 4 and 3. Compare the shared ones with --common-users"
    assert advice in done.err.replace("\n", " ")
    done = truerank("compare", *files, "--metrics", "mrr", "--common-users")
    assert done.code == 0
    assert "note: ease: 2 of 4 users left out" in done.err.replace("\n", " ")


@pytest.fixture
def weeks(truerank: Truerank, tmp_path: Path) -> tuple[Path, Path]:
    """Results of two weeks: the same data, an item-knn with fewer neighbours."""
    rng = np.random.default_rng(2)
    rows = [
        f"{user},{item},{at}"
        for user in range(120)
        for at, item in enumerate(rng.permutation(20)[:5] + 20 * (user % 2))
    ]
    data = tmp_path / "events.csv"
    data.write_text("user_id,item_id,timestamp\n" + "\n".join(rows) + "\n")
    for week, model in (("old", "item-knn"), ("new", "popularity")):
        (tmp_path / week).mkdir()
        done = truerank(
            *("evaluate", data, "--model", model, "--metrics", "recall@5,ndcg@5"),
            *("--out", tmp_path / week / "result.json", "--ranks-out", tmp_path / week / "ranks.parquet"),
        )
        assert done.code == 0, done.err
    return tmp_path / "old" / "result.json", tmp_path / "new" / "result.json"


def test_what_changed_since_last_week(truerank: Truerank, weeks: tuple[Path, Path], tmp_path: Path) -> None:
    done = truerank("compare", *weeks, "--format", "json", "--fail-on", "worse")
    found = json.loads(done.out)
    assert {one["pairing"] for one in found["differences"]} == {"paired users"}
    assert found["provenance"]["gate"] == {
        "fail_on": "worse",
        "passed": done.code == 0,
        "failures": found["provenance"]["gate"]["failures"],
    }
    assert "Since " in done.err and "popularity (new)" in done.err
    table = truerank("compare", *weeks, "--metrics", "recall@5")
    assert table.code == 0
    assert table.out.splitlines()[0].split() == ["model", "metric", "old", "new", "change", "verdict"]
    assert len(table.out.splitlines()) == 2
    same = truerank("compare", weeks[0], weeks[0], "--fail-on", "not-better")
    assert (same.code, "is not shown to be better" in same.err) == (1, True)
    assert truerank("compare", weeks[0], weeks[0], "--fail-on", "worse").err.endswith("passed.\n")
    report = tmp_path / "r.html"
    assert truerank("compare", *weeks, "--report", report).code == 0
    assert "popularity (new)" in report.read_text()


def test_gate_against_a_baseline(truerank: Truerank, files: tuple[Path, Path], tmp_path: Path) -> None:
    """Four users tell nothing: nobody is worse, nobody is shown to be better."""
    against = ("compare", *files, "--metrics", "recall@1", "--baseline", "pop")
    assert truerank(*against, "--fail-on", "worse").code == 0
    out = tmp_path / "found.json"
    done = truerank(*against, "--fail-on", "not-better", "--out", out)
    assert done.code == 1
    assert json.loads(out.read_text())["provenance"]["gate"]["passed"] is False


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (("--fail-on", "worse"), "--fail-on needs --baseline"),
        (("--fail-on", "bad", "--baseline", "pop"), "must be one of worse, not-better, possibly-worse"),
        (("--fail-on", "possibly-worse", "--baseline", "pop"), "needs a margin"),
    ],
)
def test_bad_gates(
    truerank: Truerank, files: tuple[Path, Path], flags: tuple[str, ...], sentence: str
) -> None:
    done = truerank("compare", *files, "--metrics", "recall@1", *flags)
    assert (done.code, done.out) == (2, "")
    assert sentence in done.err.replace("\n", " ")


def test_results_come_in_twos(truerank: Truerank, weeks: tuple[Path, Path], files: tuple[Path, Path]) -> None:
    for paths, sentence in (
        (weeks[:1], "two at a time"),
        ((weeks[0], files[0]), "two at a time"),
        ((*weeks, "--baseline", "popularity"), "--baseline has no meaning with results"),
        ((weeks[0], weeks[0].with_name("nowhere.json")), "cannot be read"),
    ):
        done = truerank("compare", *paths)
        assert (done.code, done.out) == (2, "")
        assert sentence in done.err.replace("\n", " ")


def test_decide_ends_with_a_sentence_and_json(truerank: Truerank) -> None:
    """Models at hand are ranked, so the decision is exact."""
    options = ("--data", "demo", "--model", "item-knn", "--model", "popularity", "--metrics", "recall@10")
    done = truerank("compare", *options, "--decide", "--format", "json")
    assert done.code == 0
    said = done.err.replace("\n", " ")
    assert "item-knn beats popularity in recall@10 on these 2,500 users, exactly: +0.1462; over all" in said
    found = json.loads(done.out)
    assert found["provenance"]["decide"] is True
    assert found["provenance"]["ways"]["item-knn"]["design"] == "exact"
    (one,) = found["differences"]
    assert (one["verdict"], one["strength"], one["method"]) == ("A beats B", "exactly", "exact")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--decide", "--sampler", "uni100"), "Leave out --sampler, or leave out --decide."),
        (("--decide", "--users", "50", "--by", "history"), "Leave out --users, --by, or leave out --decide."),
        (("--decide", "--target", "population"), "Leave out --target, or leave out --decide."),
        (("--decide", "--margin", "2"), "--margin must lie between 0 and 1, got 2.0."),
        (("--decide", "--proxy", "eas"), "Did you mean 'ease'"),
        (("--decide", "--baseline", "nobody"), "unknown baseline 'nobody'"),
        (("--proxy", "ease"), "--proxy needs --decide"),
        (("--budget", "50000"), "--budget needs --decide"),
        (("--decide", "--budget", "20usd"), "20usd is an amount of money and needs price"),
        (("--decide", "--budget", "10"), "--budget must allow a first round: complete rows of 20 users"),
    ],
)
def test_options_that_do_not_go_with_a_decision(
    truerank: Truerank, options: tuple[str, ...], sentence: str
) -> None:
    done = truerank("compare", "--data", "demo", "--model", "ease", "--model", "popularity", *options)
    assert done.code == 2
    assert done.out == ""
    assert sentence in done.err.replace("\n", " ")


def test_ranks_cannot_be_asked(truerank: Truerank, files: tuple[Path, Path]) -> None:
    done = truerank("compare", *files, "--decide")
    assert done.code == 2
    assert "--decide asks models for scores, which needs --data and --model." in done.err
