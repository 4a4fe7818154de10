"""What posterior intervals hold, in words."""

from __future__ import annotations

from typing import Any

from truerank.core.result import Estimate
from truerank.inference.estimate_interval.base import EXCLUDES
from truerank.inference.posterior.interval import _name, posterior_sentences, without_rank


def made(estimator: str = "smooth", value: float = 0.1, **other: Any) -> Estimate:
    fields: dict[str, Any] = {
        "low": 0.05,
        "high": 0.2,
        "level": 0.95,
        "target": "test-users",
        "method": _name(1037),
    } | other
    return Estimate("ease", "ndcg@10", value, kind="estimate", estimator=estimator, **fields)


def test_names_of_methods_lose_the_rank() -> None:
    assert without_rank(_name(1037)) == without_rank(_name(1)) == "posterior"
    assert without_rank(f"{_name(1037)}{EXCLUDES}: the sample speaks against it") == "posterior"
    other = "identification bounds: there is no posterior with fewer than 50 users"
    assert without_rank(other) == other


def test_sentences_say_what_holds_and_where_the_prior_decides() -> None:
    assert posterior_sentences([made(), made("bv")]) == [
        "A posterior interval holds the exact value for about 95 % of models like those its prior was learnt "
        "from.",
        "Below rank 1,037 the prior decides how targets are spread, not the sample.",
    ]
    population = made(target="population", level=0.9, method="posterior")
    assert posterior_sentences([population]) == [
        "A posterior interval holds the value of the user population for about 90 % of models like those its "
        "prior was learnt from."
    ]


def test_several_samples_name_the_span_of_ranks() -> None:
    mixed = posterior_sentences([made(), made(method=_name(37)), made(method=_name(99))])
    assert mixed[1] == "Below ranks 37 to 1,037 the prior decides how targets are spread, not the sample."


def test_values_outside_are_explained() -> None:
    last = posterior_sentences([made(), made("naive", 0.5), made("bv", 0.01)])[-1]
    assert last == (
        "Values of naive and bv lie outside: the interval is of the metric among all items, whatever the "
        "estimator."
    )


def test_other_intervals_say_nothing() -> None:
    assert (
        posterior_sentences([made(method="delta, ignores bias"), made(low=None, high=None, level=None)]) == []
    )
