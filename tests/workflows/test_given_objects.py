"""What is no split, no interactions or no scorer simply works, or gets the sentence that helps."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import truerank
from truerank.core.errors import DataWarning, InvalidParameter
from truerank.core.interactions import Interactions
from truerank.core.split import Split

N_USERS, N_ITEMS = 30, 20


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    rng = np.random.default_rng(0)
    user, item = np.nonzero(rng.random((N_USERS, N_ITEMS)) < 0.3)
    return pl.DataFrame({"user_id": user, "item_id": item, "timestamp": rng.permutation(len(user))})


@pytest.fixture(scope="module")
def split(frame: pl.DataFrame) -> Split:
    return truerank.make_split(truerank.from_frame(frame))


def events(frame: pl.DataFrame, kind: str, folder: Path) -> Any:
    frame.write_csv(folder / "events.csv")
    columns = {name: frame[name].to_numpy() for name in frame.columns}
    given: dict[str, Any] = {
        "polars": frame,
        "lazy": frame.lazy(),
        "pandas": pd.DataFrame(columns),
        "pyarrow": pa.table(columns),
        "interactions": truerank.from_frame(frame),
        "text": str(folder / "events.csv"),
        "path": folder / "events.csv",
    }
    return given[kind]


@pytest.mark.parametrize("kind", ["polars", "lazy", "pandas", "pyarrow", "interactions", "text", "path"])
def test_events_are_split_by_default_and_that_is_said(
    frame: pl.DataFrame, split: Split, kind: str, tmp_path: Path
) -> None:
    given = events(frame, kind, tmp_path)
    with pytest.warns(DataWarning, match=r"was split by leave-last-out, because no split was given") as told:
        result = truerank.evaluate("popularity", given, "recall@5")
    assert [warning.filename for warning in told] == [__file__]
    expected = truerank.evaluate("popularity", split, "recall@5")
    assert result.value("recall@5") == expected.value("recall@5")
    assert result.provenance["split"] == "leave-last-out"


def test_without_times_one_event_is_left_out_at_random(frame: pl.DataFrame, split: Split) -> None:
    without = frame.drop("timestamp")
    data = truerank.from_frame(without)
    expected = truerank.evaluate(
        "popularity", truerank.make_split(data, "leave-one-out", seed=3), "mrr", seed=3
    )
    for given in (without, data.matrix()):
        with pytest.warns(DataWarning, match="was split by leave-one-out"):
            result = truerank.evaluate("popularity", given, "mrr", seed=3)
        assert result.value("mrr") == expected.value("mrr")


def test_a_split_is_taken_without_a_word(split: Split) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        truerank.evaluate("popularity", split, "recall@5")


@pytest.mark.slow
def test_compare_and_study_take_the_same(frame: pl.DataFrame, split: Split) -> None:
    with pytest.warns(DataWarning, match="leave-last-out"):
        found = truerank.compare(["popularity", "item-knn"], frame, "recall@5")
    assert found.differences == truerank.compare(["popularity", "item-knn"], split, "recall@5").differences
    result = truerank.evaluate(["popularity", "item-knn"], split, "recall@5")
    assert truerank.compare(result, metrics="recall@5").differences == found.differences
    with pytest.warns(DataWarning, match="leave-last-out"):
        truerank.study("popularity", frame, "full", "naive", cutoffs=[1, 2], repeats=2)


def test_arrays_are_ranked_directly(split: Split) -> None:
    scores = np.random.default_rng(1).random((N_USERS, N_ITEMS))
    ready = truerank.as_scorer(scores)
    assert (truerank.exact_ranks(scores, split).n_above == truerank.exact_ranks(ready, split).n_above).all()
    sampled = truerank.sampled_ranks(scores, split, "uniform(m=3)")
    assert (sampled.n_above == truerank.sampled_ranks(ready, split, "uniform(m=3)").n_above).all()


def test_a_class_and_the_file_of_a_model(split: Split, tmp_path: Path) -> None:
    by_name = truerank.evaluate("ease", split, "mrr")
    assert truerank.evaluate(truerank.MODELS["ease"], split, "mrr").value("mrr") == by_name.value("mrr")
    path = tmp_path / "ease.truerank"
    truerank.save_scorer(str(path), truerank.MODELS.make("ease").fit(split.train), data=split.train)
    for given in (path, str(path)):
        assert truerank.evaluate(given, split, "mrr").value("mrr") == by_name.value("mrr")


def test_paths_may_be_text(split: Split, tmp_path: Path) -> None:
    result = truerank.evaluate("popularity", split, "recall@5")
    truerank.write_report(result, str(tmp_path / "report.html"))
    assert (tmp_path / "report.html").exists()
    folder = tmp_path / "kept"
    truerank.study("popularity", split, "full", "naive", cutoffs=[1], repeats=2, store=str(folder))
    assert list(folder.iterdir())


@pytest.mark.slow
def test_a_comparison_is_reported_too(split: Split, tmp_path: Path) -> None:
    found = truerank.compare(["popularity", "item-knn"], split, "recall@5")
    truerank.write_report(found, str(tmp_path / "report.html"))
    assert "item-knn" in (tmp_path / "report.html").read_text()


class Fitted:
    """Something like a model of scikit-learn."""

    def fit(self, x: Any, y: Any) -> Fitted:
        return self

    def predict(self, x: Any) -> Any:
        return x


def of_library(library: str, base: type = object) -> Any:
    """Return an object whose class is defined in a library."""
    return type("TheirModel", (base,), {"__module__": f"{library}.models"})()


def ranks() -> truerank.Ranks:
    return truerank.Ranks.single([0, 1], n_pool=9)


#: without types, as in a notebook
untyped: Any = truerank
SENTENCES: list[tuple[Callable[[Split, Any], Any], str]] = [
    (lambda s, f: untyped.evaluate(s, "ease"), r"got Split\. Models come first and data second"),
    (lambda s, f: untyped.evaluate(f, "ease"), r"got DataFrame\. .* events come second, behind the models"),
    (
        lambda s, f: untyped.evaluate("ease", np.ones((2, 2))),
        r"data must be a split, .* got ndarray\. .*from_arrays",
    ),
    (
        lambda s, f: untyped.evaluate(Fitted(), s),
        r"got Fitted\. Give its factors .* truerank\.from_callable",
    ),
    (lambda s, f: untyped.evaluate(lambda u, i: u, s), r"got function\. Use truerank\.from_callable"),
    (
        lambda s, f: untyped.evaluate("ease", s, 10),
        r"a metric must be a text such as 'ap' or an object of truerank\.Metric, got int",
    ),
    (lambda s, f: untyped.estimate(s, "mrr", 3), "estimate needs sampled ranks, got Split"),
    (lambda s, f: untyped.make_split(f), r"make_split needs Interactions, got DataFrame\. .*from_frame"),
    (
        lambda s, f: untyped.make_split("a.csv"),
        r"make_split needs Interactions, got str\. .*read_interactions",
    ),
    (lambda s, f: untyped.make_split(s), r"make_split needs Interactions, got Split\. .*split\.train"),
    (lambda s, f: untyped.make_split(s.train.matrix()), r"got csr_array\. .*from_csr"),
    (lambda s, f: untyped.make_split(3), r"got int\. .*from_arrays"),
    (lambda s, f: untyped.k_core(f), "k_core needs Interactions, got DataFrame"),
    (lambda s, f: untyped.min_history(f, 2), "min_history needs Interactions, got DataFrame"),
    (lambda s, f: untyped.subsample(f, "random", 0.5), "subsample needs Interactions, got DataFrame"),
    (lambda s, f: untyped.agreement(f, "random"), "agreement needs Interactions, got DataFrame"),
    (
        lambda s, f: untyped.exact_ranks(np.ones((2, 2)), s.train),
        r"exact_ranks needs a Split, got Interactions\. .*make_split",
    ),
    (
        lambda s, f: untyped.sampled_ranks(np.ones((2, 2)), f),
        r"needs a Split, got DataFrame\. .*from_frame.* Split these",
    ),
    (lambda s, f: untyped.sample_users(s.train, 2), "sample_users needs a Split, got Interactions"),
    (
        lambda s, f: untyped.compare({"a": ranks(), "b": ranks()}, "mrr"),
        r"Name the others, such as compare\(ranks, metrics=",
    ),
    (
        lambda s, f: untyped.estimate(ranks()),
        r"estimate needs sampled ranks, got Ranks\. Exact ranks leave nothing",
    ),
    (lambda s, f: untyped.estimate("ranks.csv"), r"got str\. Read a file with truerank\.read_sampled_ranks"),
    (
        lambda s, f: untyped.plan(s),
        r"plan needs sampled ranks, got Split\. Make them with truerank\.sampled_ranks",
    ),
    (lambda s, f: untyped.bounds(ranks()), "bounds needs sampled ranks, got Ranks"),
    (lambda s, f: untyped.read_interactions(f), r"needs the path of a file, got DataFrame\. .*from_frame"),
    (lambda s, f: untyped.load(__file__), r"but '.*' is a path\. Read it with truerank\.read_interactions"),
    (
        lambda s, f: untyped.write_report(s, "x.html"),
        "write_report needs a Result or a Comparison, got Split",
    ),
    (
        lambda s, f: untyped.scorer_from_arrays(np.ones((2, 2)), s),
        r"needs Interactions, got Split\. .*split\.train",
    ),
]


@pytest.mark.parametrize(("call", "said"), SENTENCES, ids=[said[:40] for _, said in SENTENCES])
def test_sentences(call: Callable[[Any, Any], Any], said: str, split: Split, frame: pl.DataFrame) -> None:
    with pytest.raises(InvalidParameter, match=said):
        call(split, frame)


@pytest.mark.parametrize("library", ["cornac", "implicit", "irspack", "lenskit", "recbole", "torch"])
def test_models_of_libraries_need_their_adapter(library: str, split: Split) -> None:
    said = (
        rf"a model of {library} must be made a scorer first, got TheirModel\. Use truerank\.from_{library}\("
    )
    for given in (of_library(library), {"a": of_library(library)}, [of_library(library)]):
        with pytest.raises(InvalidParameter, match=said):
            truerank.evaluate(given, split)
    own = of_library("mine", type(of_library(library)))  # a class of one's own, derived from theirs
    with pytest.raises(InvalidParameter, match=said):
        truerank.as_scorer(own, n_items=3)
    with pytest.raises(InvalidParameter, match="TheirModel of torch"):
        truerank.as_scorer(type("TheirModel", (), {"__module__": "torch", "numpy": None})())


def test_an_own_scorer_may_be_derived_from_a_class_of_a_library() -> None:
    parent = type(of_library("torch"))
    scores = {"n_items": 3, "score": lambda self, users, items: np.ones((len(users), len(items)))}
    own = type("Own", (parent,), {**scores, "__module__": "mine"})()
    assert truerank.as_scorer(own) is own


def test_nothing_is_split_for_a_wrong_model(frame: pl.DataFrame) -> None:
    """Models are looked at first, so that no warning about data stands before the error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(truerank.UnknownName, match="Did you mean 'ease'"):
            truerank.evaluate("eese", frame)
    assert isinstance(truerank.from_frame(frame), Interactions)
