"""Spec strings: what is written is what is meant."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from truerank.core.errors import InvalidParameter
from truerank.core.plugin import Spec, Value, parse_spec, split_specs

names = st.from_regex(r"[a-z][a-z0-9]{0,5}(-[a-z0-9]{1,4})?", fullmatch=True)
texts = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), max_size=12)
plain = st.one_of(st.integers(-(10**9), 10**9), st.floats(allow_nan=False), st.booleans(), st.none(), texts)


def specs(values: st.SearchStrategy[Value]) -> st.SearchStrategy[Spec]:
    params = st.dictionaries(st.from_regex(r"[a-z][a-z_0-9]{0,6}", fullmatch=True), values, max_size=3)
    cutoffs = st.one_of(st.none(), st.integers(1, 10**6))
    return st.builds(lambda n, p, c: Spec(n, tuple(p.items()), c), names, params, cutoffs)


def _is_call(value: Value) -> bool:
    return isinstance(value, Spec) and bool(value.params or value.cutoff)


@given(specs(st.one_of(plain, specs(plain).filter(_is_call))))
def test_parse_undoes_format(spec: Spec) -> None:
    assert parse_spec(str(spec)) == spec


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ndcg", Spec("ndcg")),
        ("ndcg@10", Spec("ndcg", (), 10)),
        (" ap ( norm = rel ) @ 5 ", Spec("ap", (("norm", "rel"),), 5)),
        ("ease(reg=500)", Spec("ease", (("reg", 500),))),
        (
            "x(a=1e-3, b=.5, c=-2, d=true, e=None)",
            Spec("x", (("a", 1e-3), ("b", 0.5), ("c", -2), ("d", True), ("e", None))),
        ),
        ("arrays(path=runs/model-1.npz)", Spec("arrays", (("path", "runs/model-1.npz"),))),
        ("arrays(path='my model (1).npz')", Spec("arrays", (("path", "my model (1).npz"),))),
        ("temporal(at=2020-01-31)", Spec("temporal", (("at", "2020-01-31"),))),
        ("bv(prior=beta(a=0.5))", Spec("bv", (("prior", Spec("beta", (("a", 0.5),))),))),
        ("x(a='inf')", Spec("x", (("a", "inf"),))),
        ("x(a=inf)", Spec("x", (("a", math.inf),))),
        ("ease()", Spec("ease")),
    ],
)
def test_reads(text: str, expected: Spec) -> None:
    assert parse_spec(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a name but found 'the end'"),
        ("10", "expected a name but found '10'"),
        ("ndcg@", "cutoff must be an integer >= 1, got 'the end'"),
        ("ndcg@ten", "cutoff must be an integer >= 1, got 'ten'"),
        ("ndcg@1.5", "cutoff must be an integer >= 1, got '1.5'"),
        ("ap(norm)", "expected '=' but found"),
        ("ap(norm=rel", "expected ',' but found 'the end'"),
        ("ap(norm=)", "expected a value but found"),
        ("ap(norm=a, norm=b)", "'norm' is given twice"),
        ("ap)(", "unexpected '\\)'"),
        ("ap(norm='x)", "unexpected"),
    ],
)
def test_unreadable(text: str, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        parse_spec(text)


def test_lists_are_split_outside_parentheses_and_quotes() -> None:
    assert split_specs("a(x=1,y=2)@3,b('p,q'), ,c") == ["a(x=1,y=2)@3", "b('p,q')", "c"]
