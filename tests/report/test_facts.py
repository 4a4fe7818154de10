"""Counts and provenance."""

from __future__ import annotations

from dataclasses import replace

from tests.report.results import MODELS, make_result
from truerank.report.facts import Fact, cost_table, model_table, repeat_facts


def test_what_differs_by_model_is_a_table() -> None:
    """Specs are a table with one row per model; seconds and scores are one of their own."""
    result = make_result()
    table = cost_table(result)
    assert table is not None
    assert table.columns == ("Model", "seconds: fit", "seconds: rank", "scores computed")
    assert table.rows == tuple((model, "1.250", "0.500", "200,000") for model in MODELS)
    specs = {"models": {model: f"{model}()" for model in MODELS}}
    table = model_table(replace(result, provenance={**specs, **result.provenance}))
    assert table is not None
    assert table.columns == ("Model", "spec")
    assert table.column("spec") == tuple(f"{model}()" for model in MODELS)


def test_all_else_is_listed_as_typed() -> None:
    """Seeds have no thousands marks, truth values and none are lower case, nested names are paths."""
    provenance = {"seed": 12345, "options": {"fast": True, "n_threads": None, "ks": [1, 2]}}
    facts = repeat_facts(replace(make_result(), provenance=provenance))
    assert facts[-4:] == [
        Fact("seed", "12345"),
        Fact("options: fast", "true"),
        Fact("options: n threads", "none"),
        Fact("options: ks", "1, 2"),
    ]
    assert model_table(replace(make_result(), provenance=provenance)) is None
    assert cost_table(replace(make_result(), provenance=provenance)) is None
