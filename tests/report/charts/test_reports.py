"""``--report``: the file holds the sections, and bad paths end before the work starts."""

from __future__ import annotations

import re
import shlex
from html import unescape
from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import Truerank
from truerank.data.demo import demo
from truerank.subsampling.subsample import write_events


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "small.csv"
    write_events(path, demo(n_users=60, n_items=150))
    return path


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sampled ranks of two models, one of which has a name that html would take for a tag."""
    draw = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("ranks") / "ranks.csv"
    lines = [
        f"{model},u{user},{rank},19,200"
        for model, top in (("ease", 6), ("<b>pop", 20))
        for user, rank in enumerate(draw.integers(1, top + 1, 60).tolist())
    ]
    path.write_text("\n".join(["model,user_id,rank,n_negatives,n_items", *lines]) + "\n")
    return path


def pasted_command(text: str) -> list[str]:
    """The words of the command on a page, as a shell reads them."""
    found = re.search(r'<pre class="command"[^>]*><code>(.*?)</code></pre>', text, re.DOTALL)
    assert found is not None
    return shlex.split(unescape(found[1]).replace("\\\n", " "))


def test_evaluate(truerank: Truerank, data: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    models = ("--model", "popularity", "--model", "item-knn")
    done = truerank("evaluate", data, *models, "--metrics", "ndcg@10", "--report", page)
    assert done.code == 0, done.err
    assert f"wrote {page}" in done.err.replace("\n", "")
    text = page.read_text()
    for title in (
        "Distribution of target ranks",
        "ndcg@K of all models",
        "ndcg@10 among m sampled items",
        "scores computed",
    ):
        assert title in text
    assert "Cost of ranking" not in text  # both models took as many scores: a table says that
    command = ["evaluate", str(data), *models, "--metrics", "ndcg@10", "--report", str(page)]
    assert pasted_command(text) == ["truerank", *command]


@pytest.mark.slow
def test_evaluate_with_negatives(truerank: Truerank, data: Path, tmp_path: Path) -> None:
    """Sampled ranks stay with the result, so a report of estimates has all its charts."""
    page = tmp_path / "page.html"
    flags = ("--model", "popularity", "--metrics", "recall@10", "--negatives", "20", "--check")
    for more in ((), ("--engine", "local")):
        done = truerank("evaluate", data, *flags, *more, "--report", page)
        assert done.code == 0, done.err
        text = page.read_text()
        for title in (
            "Distribution of target ranks: popularity",
            "recall@K of popularity",
            "Blind spot",
            "exact ranks",
        ):
            assert title in text


@pytest.mark.slow
def test_estimate(truerank: Truerank, ranks: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    done = truerank("estimate", ranks, "--metrics", "recall@10", "--estimator", "bv", "--report", page)
    assert done.code == 0, done.err
    text = page.read_text()
    for title in (
        "Distribution of target ranks: ease",
        "recall@K of ease",
        "Blind spot: which recall@K this sample resolves",
    ):
        assert title in text
    assert "&lt;b&gt;pop" in text
    assert "<b>pop" not in text
    flags = ("--metrics", "recall@10", "--estimator", "bv", "--no-bounds")
    bare = truerank("estimate", ranks, *flags, "--report", page)
    assert bare.code == 0
    assert "Blind spot" not in page.read_text()


def test_compare(truerank: Truerank, ranks: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    done = truerank("compare", ranks, "--metrics", "auc", "--report", page)
    assert done.code == 0, done.err
    assert f"wrote {page}" in done.err.replace("\n", "")
    text = page.read_text()
    for title in ("Verdicts", "Differences in auc", "Values"):
        assert title in text
    assert pasted_command(text)[:3] == ["truerank", "compare", str(ranks)]
    assert "<b>pop" not in text


def test_agreement(truerank: Truerank, data: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    asked = ("--strategies", "random", "--fractions", "0.5", "--seeds", "1", "--resamples", "60")
    models = ("--models", "popularity,item-knn(neighbours=5)")
    done = truerank("agreement", data, *asked, *models, "--report", page)
    assert done.code == 0, done.err
    assert f"wrote {page}" in done.err.replace("\n", "")
    text = page.read_text()
    for title in (
        "Agreement over certain pairs",
        "Which models sub-samples favour",
        "Values on the full data",
    ):
        assert title in text


@pytest.mark.slow
def test_study(truerank: Truerank, data: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    asked = ("--estimator", "naive,bv", "--metrics", "recall", "--cutoffs", "1-10", "--repeats", "2")
    models = ("--model", "popularity", "--model", "item-knn", "--no-posterior")
    done = truerank("study", data, *models, *asked, "--format", "json", "--report", page)
    assert done.code == 0, done.err
    text = page.read_text()
    for title in ("Closest to the exact metrics is bv", "Error in recall", "Who is named best"):
        assert title in text
    assert pasted_command(text)[:3] == ["truerank", "study", str(data)]


@pytest.mark.parametrize(
    "command",
    [
        ("evaluate", "nothing.csv", "--model", "ease"),
        ("study", "nothing.csv", "--model", "ease"),
        ("estimate", "nothing.csv"),
        ("compare", "nothing.csv", "nothing-else.csv"),
        ("agreement", "nothing.csv"),
    ],
)
def test_bad_paths_end_first(truerank: Truerank, command: tuple[str, ...], tmp_path: Path) -> None:
    """The data do not exist either, so the sentence shows that the path was looked at before them."""
    for path, sentence in (
        (tmp_path, "--report must be a file"),
        (tmp_path / "no" / "x.html", "existing folder"),
    ):
        done = truerank(*command, "--report", path)
        assert done.code == 2
        assert sentence in done.err.replace("\n", " ")
        assert done.out == ""
