"""Services that are asked over HTTP, and what they may answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.models.slow.server import ScoreServer, serving
from tests.models.slow.world import N_ITEMS, N_USERS, all_pairs, make_split, score_pairs, table
from truerank.core.errors import InvalidData, InvalidParameter, JobFailed
from truerank.models.registry import MODELS
from truerank.models.slow import slow_scorer as module
from truerank.models.slow.http import Http, Service, check_service
from truerank.models.slow.slow_scorer import SlowScorer

TRAIN = make_split().train


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScoreServer]:
    monkeypatch.setattr(module, "_FIRST_PAUSE", 0.0)
    with serving(score_pairs) as running:
        yield running


def scorer_of(server: ScoreServer, **options: Any) -> SlowScorer:
    made = Http(url=server.url, **options).fit(TRAIN)
    assert isinstance(made, SlowScorer)
    return made


def test_every_pair_is_asked_once_by_its_ids(server: ScoreServer) -> None:
    scorer = scorer_of(server, batch=8, concurrency=3)
    np.testing.assert_array_equal(scorer.score_pairs(*all_pairs()), table().ravel())
    assert len(server.asked) == len(set(server.asked)) == N_USERS * N_ITEMS
    assert ("u3", "i07") in server.asked
    assert all("Authorization" not in headers for headers in server.headers)


def test_a_token_comes_from_the_environment(server: ScoreServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RERANKER_TOKEN", "s3cret")
    scorer_of(server, token="RERANKER_TOKEN").score(np.array([1]), np.array([2]))
    assert server.headers[0]["Authorization"] == "Bearer s3cret"
    with pytest.raises(InvalidParameter, match="that holds a token, but 'NO_SUCH' is not set"):
        scorer_of(server, token="NO_SUCH")
    monkeypatch.setenv("RERANKER_TOKEN", "a\nb")
    with pytest.raises(InvalidParameter, match="but 'RERANKER_TOKEN' holds none"):
        scorer_of(server, token="RERANKER_TOKEN")


def test_a_busy_server_is_asked_again(server: ScoreServer) -> None:
    server.answers = [(503, b""), (429, b"", {"Retry-After": "0"}), (529, b"")]
    scorer = scorer_of(server)
    assert scorer.score(np.array([1]), np.array([2]))[0, 0] == table()[1, 2]
    assert (scorer.n_calls, scorer.n_failed) == (4, 3)
    server.answers = [(None, b"")]
    assert scorer.score(np.array([1]), np.array([3]))[0, 0] == table()[1, 3]
    assert (scorer.n_calls, scorer.n_failed) == (6, 4)


def test_a_server_that_cannot_do_it_is_not_asked_again(server: ScoreServer) -> None:
    server.answers = [(501, b"")]
    scorer = scorer_of(server)
    with pytest.raises(InvalidData, match="the server answers 501"):
        scorer.score(np.array([1]), np.array([2]))
    assert scorer.n_calls == 1


def test_a_server_that_stays_busy_ends_it(server: ScoreServer) -> None:
    server.answers = [(500, b"")] * 2
    with pytest.raises(
        JobFailed,
        match=rf"the model '{server.url}' must give a score for user 'u1' and item 'i02' \(and 1 further "
        r"pair of this call\), but 2 calls failed, the last one with ConnectionError: the server answers 500",
    ):
        scorer_of(server, retries=1).score(np.array([1]), np.array([2, 5]))


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ((200, b"<html>"), r"it gave no JSON \(b'<html>'\)"),
        ((200, b"\xff\xfe"), "it gave no JSON"),
        ((200, b""), "it gave no JSON"),
        ((200, b"[" * 50_000), "it gave no JSON"),
        ((200, b'{"scores": [' + b"9" * 5000 + b", 1]}"), "it gave no JSON"),
        ((200, b'{"score": [1, 2]}'), r'it gave no \{"scores": \[\.\.\.\]\}'),
        ((200, b'{"scores": 3}'), "it gave no"),
        ((200, b"7"), "it gave no"),
        ((200, b'{"scores": [1]}'), "it gave 1 scores instead of 2"),
        ((200, b'{"scores": [1, NaN]}'), "but for user 'u1' and item 'i05' it gave NaN"),
        ((200, b'{"scores": [1, Infinity]}'), "'i05' it gave Infinity"),
        ((200, b'{"scores": [1e999, 2]}'), "'i02' it gave Infinity"),
        ((200, b'{"scores": [true, 2]}'), "'i02' it gave true"),
        ((200, b'{"scores": [1, "2"]}'), "'i05' it gave \"2\""),
        ((200, b'{"scores": [1, null]}'), "'i05' it gave null"),
        ((200, b'{"scores": [1, ' + b" " * 100_000 + b"2]}"), r"is longer than 65,736 bytes"),
        ((302, b"", {"Location": "http://example.org/"}), "leads to 'http://example.org/', and redirects"),
        ((307, b"", {"Location": "/elsewhere"}), "leads to '/elsewhere', and redirects are not followed"),
        ((404, b""), "the server answers 404"),
        ((401, b""), "the server answers 401, perhaps because of the token"),
    ],
)
def test_bad_answers_are_refused_at_once(server: ScoreServer, answer: Any, sentence: str) -> None:
    server.answers = [answer]
    scorer = scorer_of(server)
    with pytest.raises(InvalidData, match=sentence) as raised:
        scorer.score(np.array([1]), np.array([2, 5]))
    assert f"the model '{server.url}' must give a number for each pair, but for user 'u1'" in str(
        raised.value
    )
    assert (scorer.n_calls, scorer.n_asked, server.asked) == (1, 0, [])


def test_a_plain_list_is_an_answer(server: ScoreServer) -> None:
    server.answers = [(200, b"[0.5, -3]")]
    assert scorer_of(server).score(np.array([1]), np.array([2, 5])).tolist() == [[0.5, -3.0]]


def test_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FIRST_PAUSE", 0.0)
    with serving(score_pairs) as server:
        url = server.url
    scorer = Http(url=url, retries=1).fit(TRAIN)
    with pytest.raises(
        JobFailed, match="2 calls failed, the last one with ConnectionError: Connection refused"
    ):
        scorer.score(np.array([1]), np.array([2]))


def test_no_proxy_stands_before_this_machine(server: ScoreServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9/")
    assert Service(server.url, timeout=5).score_pairs(["u1"], ["i02"]) == [table()[1, 2]]


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        (
            "example.org/score",
            "url must be an address such as https://example.org/score, got 'example.org/score'",
        ),
        ("file:///etc/passwd", "url must be an address"),
        ("ftp://example.org/", "url must be an address"),
        ("https://", "url must be an address"),
        ("https://exa mple.org/", "url must be an address"),
        ("https://example.org:99999/", "url must be an address"),
        ("https://[::1/", "url must be an address"),
        ("http://example.org/score", "url must begin with https, because others could read .* example.org"),
        ("http://10.0.0.5:8000/", "url must begin with https"),
        ("https://me:secret@example.org/", "url must hold no user or password"),
    ],
)
def test_addresses(url: str, sentence: str) -> None:
    with pytest.raises(InvalidParameter, match=sentence) as raised:
        check_service(url)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("http(batch=0)", "batch must be an integer >= 1"),
        ("http(timeout=0)", "timeout must be a number of seconds above 0"),
        ("http(concurrency=2000)", "concurrency must be at most 1,000"),
        ("http(version=1.5)", "must be text or an integer, got 1.5"),
        ("http(url=gopher://x/)", "url must be an address"),
    ],
)
def test_bad_specs(spec: str, sentence: str) -> None:
    with pytest.raises(InvalidParameter, match=sentence):
        MODELS.make(spec)


def test_specs_round_trip() -> None:
    made = MODELS.make("http(url='https://example.org/score?model=a', version=3, token=KEY)")
    assert MODELS.make(str(made)) == made
    fitted = MODELS.make("http(url=https://example.org/s, version=3)").fit(TRAIN)
    assert isinstance(fitted, SlowScorer)
    assert (fitted.name, fitted.version) == ("https://example.org/s", "3")
