"""Plans: what is refused before any work, and which configurations a grid has."""

from __future__ import annotations

from typing import Any

import pytest

from truerank.core.errors import InvalidParameter, UnknownName
from truerank.models.registry import MODELS
from truerank.workflows.agreement.plan import GRIDS, configurations, make_plan


def test_a_plan_has_the_models_of_the_paper_by_default() -> None:
    plan = make_plan("random,s21-svp-cf-mf-user", scenario="explicit,implicit,sequential")
    assert [len(model_grids) for model_grids in plan.model_grids.values()] == [3, 5, 7]
    assert list(plan.strategies) == ["random", "s21-svp-cf-mf-user"]
    assert plan.fractions == (0.8, 0.6, 0.4, 0.2, 0.1, 0.01)
    explicit = next(iter(plan.model_grids.values()))
    assert all("loss=mse" in str(model_grid.configurations[0]) for model_grid in explicit)


@pytest.mark.parametrize(
    ("model", "n_reduced", "n_repo", "n_paper", "n_large"),
    [
        ("popularity", 1, 1, 1, 1),
        ("s21-bias-only", 1, 1, 3, 1),
        ("s21-mf", 2, 4, 45, 15),
        ("s21-neumf", 2, 4, 45, 15),
        ("s21-multi-vae", 2, 4, 45, 15),
        ("s21-svae", 2, 4, 15, 5),
        ("s21-sasrec", 2, 4, 45, 15),
        ("item-knn", 1, 1, 1, 1),
    ],
)
def test_grids(model: str, n_reduced: int, n_repo: int, n_paper: int, n_large: int) -> None:
    made = MODELS.make(model)
    found = [
        len(configurations(made, GRIDS[name])) for name in ("none", "reduced", "repo", "paper", "paper-large")
    ]
    assert found == [1, n_reduced, n_repo, n_paper, n_large]
    for one in configurations(made, GRIDS["paper"]):
        assert MODELS.make(str(one)) == one


def test_a_grid_changes_widths_everywhere() -> None:
    (first, _) = configurations(MODELS.make("s21-neumf"), GRIDS["reduced"])
    assert (getattr(first, "factors"), getattr(first, "layers")) == (8, "16-8-8")  # noqa: B009
    (first, _) = configurations(MODELS.make("s21-svae"), GRIDS["reduced"])
    widths = {getattr(first, name) for name in ("embedding", "recurrent", "hidden", "latent")}
    assert widths == {8}


@pytest.mark.parametrize(
    ("changed", "error", "sentence"),
    [
        ({"models": "mf"}, InvalidParameter, "an order needs at least two models, got mf. Add another one"),
        ({"models": []}, InvalidParameter, "an order needs at least two models, got none"),
        ({"models": "mf,mf"}, InvalidParameter, "model 'mf' is given twice"),
        ({"models": "mf,mf(factors=64)"}, InvalidParameter, "is given twice"),
        ({"models": "mf,popularty"}, UnknownName, "Did you mean 'popularity'"),
        ({"strategies": "randm"}, UnknownName, "Did you mean 'random'"),
        ({"strategies": []}, InvalidParameter, "at least one strategy is needed"),
        ({"strategies": "svp-cf(proxy=popularity)"}, InvalidParameter, "a proxy must be a model that trains"),
        ({"fractions": [0.5, 1.0]}, InvalidParameter, "strictly between 0 and 1, got 1.0"),
        ({"fractions": [0]}, InvalidParameter, "strictly between 0 and 1, got 0"),
        ({"fractions": [float("nan")]}, InvalidParameter, "strictly between 0 and 1, got nan"),
        ({"fractions": []}, InvalidParameter, "strictly between 0 and 1, got none"),
        ({"scenario": "sequental"}, UnknownName, "Did you mean 'sequential'"),
        (
            {"scenario": "explicit", "models": "mf,popularity"},
            InvalidParameter,
            "models that predict ratings",
        ),
        ({"seeds": 0}, InvalidParameter, "seeds must be at least 1"),
        ({"seed": -1}, InvalidParameter, "seed must be an integer"),
        ({"grid": "big"}, UnknownName, "unknown grid 'big'"),
        ({"level": 95}, InvalidParameter, "level must lie between 0 and 1"),
        ({"resamples": 3}, InvalidParameter, "resamples must be at least 50"),
        ({"least_events": -1}, InvalidParameter, "least_events must be at least 0, got -1"),
        ({"least_users": -2}, InvalidParameter, "least_users must be at least 0, got -2"),
        ({"least_items": -3}, InvalidParameter, "least_items must be at least 0, got -3"),
        ({"threshold": 0}, InvalidParameter, "threshold must be above 0"),
    ],
)
def test_bad_plans_are_refused(changed: dict[str, Any], error: type[Exception], sentence: str) -> None:
    given: dict[str, Any] = {"strategies": "random", "fractions": [0.5], "models": "popularity,mf", **changed}
    with pytest.raises(error, match=sentence.replace("(", r"\(").replace(")", r"\)")):
        make_plan(given.pop("strategies"), given.pop("fractions"), **given)
