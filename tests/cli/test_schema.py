"""The JSON of every command is of the published form, and its provenance names software and data."""

from __future__ import annotations

import copy
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.cli.conftest import Truerank
from truerank import InvalidData, Result, load_scorer
from truerank.core.provenance import FILE_KEY, SCHEMA_VERSION, check_schema, versions
from truerank.core.result import Estimate

jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")

PROJECT = Path(__file__).resolve().parents[2]
PUBLISHED = PROJECT / "docs" / "schema" / f"truerank-{SCHEMA_VERSION}.json"
SCHEMA: dict[str, Any] = json.loads(PUBLISHED.read_text())
OPTIONS = ("--format", "json")


def without_more(schema: Any) -> Any:
    """Return the schema with fields that it does not name forbidden, where it names any."""
    if isinstance(schema, dict):
        strict = {key: without_more(value) for key, value in schema.items()}
        if "properties" in strict and "required" in strict:
            strict.setdefault("additionalProperties", False)
        return strict
    return [without_more(one) for one in schema] if isinstance(schema, list) else schema


STRICT = without_more(copy.deepcopy(SCHEMA))


def check(found: Any, name: str) -> None:
    """Raise unless the JSON is what the schema calls ``name``, with no field that it does not describe."""
    jsonschema.Draft202012Validator({**STRICT, "oneOf": [{"$ref": f"#/$defs/{name}"}]}).validate(found)


@pytest.fixture
def events(tmp_path: Path) -> Path:
    """Sixty users with six of 150 items each."""
    draw = np.random.default_rng(0)
    rows = [(user, item, at) for user in range(60) for at, item in enumerate(draw.permutation(150)[:6])]
    path = tmp_path / "events.csv"
    pl.DataFrame(rows, schema=["user", "item", "time"], orient="row").write_csv(path)
    return path


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["$id"].endswith(PUBLISHED.name)


def test_the_file_is_what_the_classes_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mended by: python scripts/json_schema.py"""
    monkeypatch.syspath_prepend(PROJECT / "scripts")
    import json_schema  # type: ignore[import-not-found,unused-ignore]

    try:
        assert json.loads(json_schema.text()) == SCHEMA
    finally:
        del sys.modules["json_schema"]


@pytest.mark.slow
def test_json_of_every_command(truerank: Truerank, events: Path, tmp_path: Path) -> None:
    def run(*arguments: str | Path) -> Any:
        done = truerank(*arguments, *OPTIONS)
        assert done.code == 0, done.err
        return json.loads(done.out)

    ranks, small = tmp_path / "ranks.parquet", tmp_path / "small.parquet"
    models = ("--model", "popularity", "--model", "item-knn")
    sampler = ("--sampler", "uniform(m=5)")
    assert truerank("sample", events, *models, *sampler, "--out", ranks).code == 0
    run_file, qrels = tmp_path / "a.run", tmp_path / "a.qrels"
    run_file.write_text("q1 Q0 d1 1 2.0 t\nq1 Q0 d2 2 1.0 t\nq2 Q0 d1 1 1.0 t\n")
    qrels.write_text("q1 0 d2 1\nq2 0 d1 1\n")
    metrics = ("--metrics", "recall@3")
    found = {
        "evaluate": (run("evaluate", events, *models, *metrics), "result"),
        "evaluate, sampled": (
            run("evaluate", events, *models, *metrics, "--negatives", "5", "--check", "--bounds"),
            "result",
        ),
        "estimate": (run("estimate", ranks, *metrics), "result"),
        "trec": (run("trec", run_file, qrels, "--metrics", "mrr"), "result"),
        "compare": (run("compare", "--data", events, *models, *metrics), "comparison"),
        "compare, sampled": (run("compare", ranks, *metrics), "comparison"),
        "study": (run("study", events, *models, *sampler, "--cutoffs", "1,3", "--repeats", "2"), "study"),
        "subsample": (
            run("subsample", events, "--strategy", "random", "--fraction", "0.5", "--out", small),
            "subsample",
        ),
        "subsample, split": (
            run(
                "subsample",
                events,
                "--strategy",
                "random",
                "--split",
                "ratio",
                "--fraction",
                "0.5",
                "--out",
                small,
            ),
            "subsample",
        ),
        "agreement": (
            run(
                *("agreement", events, "--strategies", "random", "--fractions", "0.5", "--seeds", "1"),
                *("--models", "popularity,item-knn", "--resamples", "50"),
            ),
            "agreement",
        ),
        "plan": (run("plan", "--pilot", ranks, *metrics, "--half-width", "0.2"), "plan"),
        "plan --scale": (run("plan", "--scale", "1e6x1e5"), "plan"),
        "plan --scale --gpus": (run("plan", "--scale", "1e6x1e5", "--gpus", "2"), "plan"),
        "paper run": (run("paper", "run", "kr20.table1", "--fresh"), "paper_run"),
    }
    for what, (document, name) in found.items():
        check(document, name)
        jsonschema.Draft202012Validator(SCHEMA).validate(document)  # one of the documents, not several
        assert document["provenance"]["versions"] == versions(), what
        if what.partition(" --")[0] != "plan" or what == "plan":
            assert "data_hash" in document["provenance"], what
    for arguments, name in {
        ("list", "metrics"): "plugins",
        ("list", "models"): "plugins",
        ("data", "list"): "datasets",
        ("data", "describe", "ml-1m"): "dataset",
        ("paper", "list"): "papers",
    }.items():
        check(run(*arguments), name)


def test_a_field_without_description_is_found() -> None:
    """The check can fail: a field that the schema does not name, and one of the wrong type."""
    result = Result("evaluate", (Estimate("a", "auc", 0.5),), provenance={"versions": versions()}).to_dict()
    check(result, "result")
    with pytest.raises(jsonschema.ValidationError):
        check({**result, "surprise": 1}, "result")
    with pytest.raises(jsonschema.ValidationError):
        check({**result, "estimates": [{**result["estimates"][0], "value": "0.5"}]}, "result")
    with pytest.raises(jsonschema.ValidationError):
        check({**result, "provenance": {}}, "result")


def test_target_says_what_the_interval_is_for(truerank: Truerank, events: Path) -> None:
    """The interval of an exact value is for the population, whatever was asked for."""
    done = truerank("evaluate", events, "--model", "popularity", "--metrics", "recall@3", *OPTIONS)
    result = json.loads(done.out)
    assert {estimate["target"] for estimate in result["estimates"]} == {"population"}
    assert result["provenance"]["asked_target"] == "test-users"
    assert "target" not in result["provenance"]


def test_data_hash_follows_the_data(truerank: Truerank, events: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.csv"
    other.write_text(events.read_text() + "0,19,99\n")
    hashes = []
    for path in (events, events, other):
        done = truerank("evaluate", path, "--model", "popularity", "--metrics", "recall@3", *OPTIONS)
        hashes.append(json.loads(done.out)["provenance"]["data_hash"])
    assert hashes[0] == hashes[1] != hashes[2]


def test_files_of_ranks_and_models_name_versions_and_data(
    truerank: Truerank, events: Path, tmp_path: Path
) -> None:
    sampled, exact, model = (tmp_path / name for name in ("s.parquet", "e.parquet", "m.truerank"))
    done = truerank("sample", events, "--model", "popularity", "--out", sampled, "--sampler", "uniform(m=5)")
    assert done.code == 0, done.err
    arguments = ("--model", "popularity", "--metrics", "recall@3", "--ranks-out", exact, *OPTIONS)
    evaluated = json.loads(truerank("evaluate", events, *arguments).out)
    for path in (sampled, exact):
        kept = json.loads(pl.read_parquet_metadata(path)[FILE_KEY])
        assert kept["versions"] == versions()
        assert kept["data_hash"] == evaluated["provenance"]["data_hash"]
        assert kept["models"] == {"popularity": "popularity"}
    assert truerank("fit", events, "--model", "ease", "--out", model).code == 0
    with np.load(model) as archive:
        header = json.loads(archive["header"].tobytes())
    assert header["versions"] == versions()
    assert len(header["data_hash"]) == 24
    assert load_scorer(model).model == "ease"


@pytest.mark.parametrize("found", [SCHEMA_VERSION + 1, 0, "2", None])
def test_an_unknown_schema_version_is_refused(found: object) -> None:
    with pytest.raises(InvalidData, match=r"must have a schema version from 1 to 2, got .*update truerank"):
        check_schema({"schema_version": found}, "a result")


def test_results_without_a_schema_version_are_read() -> None:
    result = Result("evaluate", (Estimate("a", "auc", 0.5),), provenance={"target": "test-users"})
    fields = {name: value for name, value in result.to_dict().items() if name != "schema_version"}
    assert Result.from_json(json.dumps(fields)) == result
