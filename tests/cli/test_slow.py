"""``truerank evaluate`` with a service that is asked for scores."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Truerank
from tests.models.slow.server import ScoreServer, serving

FLAGS = ("--metrics", "recall@5", "--precision", "0.1", "--proxy", "popularity")


def model(users: list[str], items: list[str]) -> list[float]:
    return [
        float((7 * int(user[1:]) + 3 * int(item[1:])) % 101) for user, item in zip(users, items, strict=True)
    ]


@pytest.fixture
def server() -> Iterator[ScoreServer]:
    with serving(model) as running:
        yield running


@pytest.mark.slow
def test_scores_are_kept_between_calls(
    truerank: Truerank, files: dict[str, str], server: ScoreServer, tmp_path: Path
) -> None:
    path = tmp_path / "scores.db"
    call: tuple[str, ...] = (
        "evaluate",
        files["EVENTS"],
        "--model",
        f"http(url={server.url}, version=1)",
        *FLAGS,
    )
    call = (*call, "--scores", str(path), "--price", "2", "--format", "json")
    first = truerank(*call)
    assert first.code == 0, first.err
    n_asked = len(server.asked)
    assert n_asked == len(set(server.asked)) > 0
    assert f"(cost {2 * n_asked / 1000:.2f})." in first.err
    again = truerank(*call)
    assert len(server.asked) == n_asked
    assert "; 0 were asked for now (cost 0.00), the others were known already." in again.err
    found, repeated = json.loads(first.out), json.loads(again.out)
    assert found["estimates"] == repeated["estimates"]
    (way,) = found["provenance"]["ways"].values()
    assert (way["n_asked"], way["cost"], way["further"]) == (n_asked, 2 * n_asked / 1000, None)
    other = truerank("evaluate", files["EVENTS"], "--split", "leave-one-out", *call[2:])
    assert (other.code, other.out) == (2, "")
    assert "must hold scores for this split of 'events', but it holds those for another one" in other.err


@pytest.mark.slow
@pytest.mark.parametrize("named", [None, "recall@5,auc"])
def test_metrics_that_need_complete_rows_are_asked_for_by_name(
    truerank: Truerank, files: dict[str, str], server: ScoreServer, named: str | None
) -> None:
    call = ("evaluate", files["EVENTS"], "--model", f"http(url={server.url})", *FLAGS[2:])
    done = truerank(*call, "--format", "json", *(() if named is None else ("--metrics", named)))
    assert done.code == 0, done.err
    metrics = [one["metric"] for one in json.loads(done.out)["estimates"]]
    assert metrics == (["ndcg@10", "recall@10"] if named is None else ["recall@5", "auc"])
    sentence = "ndcg@10,recall@10: ap and auc need complete rows of slow models."
    assert (sentence in done.err) == (named is None)


@pytest.mark.slow
def test_models_are_shown_by_their_names_and_asked_for_everything_only_with_a_note(
    truerank: Truerank, files: dict[str, str], server: ScoreServer
) -> None:
    """Two versions of one model, exact and then up to a precision; and compared with each other."""
    named = [f"http(url={server.url}, name=reranker, version={version}, batch=500)" for version in (1, 2)]
    call = (files["EVENTS"], "--model", named[0], "--model", named[1], *FLAGS[:2])
    exact = truerank("evaluate", *call)
    assert exact.code == 0, exact.err
    n_scores = len(set(server.asked))
    note = f"note: each of {n_scores:,} scores of reranker and reranker 2 is asked for. "
    assert f"{note}A precision of 0.01 takes" in " ".join(exact.err.split())
    assert [line.split("  ")[0] for line in exact.out.splitlines()[1:]] == ["reranker", "reranker 2"]
    rough = truerank("evaluate", *call, *FLAGS[2:], "--format", "json")
    assert [one["model"] for one in json.loads(rough.out)["estimates"]] == ["reranker", "reranker 2"]
    assert "is asked for" not in rough.err
    compared = truerank("compare", "--data", *call)
    assert f"{note}To decide which model is better" in " ".join(compared.err.split())


@pytest.mark.slow
def test_a_budget_that_ends_early(truerank: Truerank, files: dict[str, str], server: ScoreServer) -> None:
    server.model = lambda users, items: [0.0] * len(items)  # all tie, so that rows never end early
    call = ("evaluate", files["EVENTS"], "--model", f"http(url={server.url})", *FLAGS[:2], *FLAGS[4:])
    done = truerank(*call, "--precision", "0.001", "--budget", "12usd", "--price", "2")
    assert done.code == 0, done.err
    assert len(server.asked) <= 6_000
    assert "The budget of 12usd (6,000 scores) allows no further user." in done.err
    assert "further scores would reach +-0.001 (" in done.err and " usd)." in done.err


@pytest.mark.slow
def test_ctrl_c_says_where_scores_are(
    truerank: Truerank, files: dict[str, str], server: ScoreServer, tmp_path: Path
) -> None:
    def interrupting(users: list[str], items: list[str]) -> list[float]:
        if len(server.asked) > 200:
            os.kill(os.getpid(), signal.SIGINT)
        return model(users, items)

    server.model, path = interrupting, tmp_path / "scores.db"
    spec = f"http(url={server.url}, version=1, concurrency=1)"
    # Whatever the tests were started with: a shell lets jobs in the background ignore it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        done = truerank("evaluate", files["EVENTS"], "--model", spec, *FLAGS, "--scores", str(path))
    finally:
        signal.signal(signal.SIGINT, before)
    assert (done.code, done.out) == (130, "")
    assert f"Scores given so far are kept in '{path}'; run the same command again to continue." in done.err
    n_asked = len(server.asked)
    server.model = model
    again = truerank("evaluate", files["EVENTS"], "--model", spec, *FLAGS, "--scores", str(path))
    assert again.code == 0, again.err
    assert len(server.asked) - len(set(server.asked)) <= 64  # the call that was under way
    assert n_asked > 200


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (("--scores", "s.db"), "--scores needs --precision, the half-width to reach"),
        (("--price", "1"), "--price needs --precision"),
        (("--precision", "0.1", "--scores", "s.db"), "are kept, but popularity is none. Leave --scores out."),
        (
            ("--precision", "0.1", "--budget", "10m"),
            "--budget must be a number of scores such as 50000, a time",
        ),
        (("--precision", "0.1", "--budget", "9eur"), "--budget 9eur is an amount of money and needs price"),
        (("--precision", "0.1", "--price", "-1"), "--price must be what 1,000 scores cost"),
        (("--precision", "0.1", "--scores", "no/s.db"), "--scores needs an existing folder"),
    ],
)
def test_bad_input(
    truerank: Truerank,
    tiny: Path,
    monkeypatch: pytest.MonkeyPatch,
    flags: tuple[str, ...],
    sentence: str,
) -> None:
    monkeypatch.chdir(tiny.parent)
    done = truerank("evaluate", tiny, "--model", "popularity", "--metrics", "mrr@2", *flags)
    assert (done.code, done.out) == (2, "")
    assert sentence in " ".join(done.err.split())
    assert [path.name for path in tiny.parent.iterdir()] == ["tiny.csv"]


def test_a_service_that_is_not_there(truerank: Truerank, tiny: Path) -> None:
    done = truerank("evaluate", tiny, "--model", "http(url=http://example.org/)", "--precision", "0.1")
    assert (done.code, done.out) == (2, "")
    assert "url must begin with https" in done.err
