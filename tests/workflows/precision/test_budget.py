"""Budgets as they are written, and evaluations of slow models that keep scores and end in time."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.workflows.plan.world import Counting, make_world
from truerank.core.errors import DataWarning, InvalidData, InvalidParameter
from truerank.core.result import Result
from truerank.core.scorer import as_scorer
from truerank.metrics.registry import make_metrics, values
from truerank.models.slow.slow_scorer import SlowScorer, slow_scorer
from truerank.ranking.exact import exact_ranks
from truerank.workflows.compare.compare import compare
from truerank.workflows.evaluate import evaluate
from truerank.workflows.precision import budget as budget_module
from truerank.workflows.precision.budget import Budget

SPLIT, SCORES = make_world()
METRICS = "ndcg@10,recall@10"


def asked(users: list[int], items: list[int]) -> list[float]:
    """The slow model: ids are codes here."""
    return [float(score) for score in SCORES[users, items]]


def slow(function: Any = asked, **options: Any) -> SlowScorer:
    return slow_scorer(function, SPLIT.train, **{"batch": 100, "version": "1", **options})


def run(scorer: Any, metrics: str = METRICS, **options: Any) -> Result:
    given = {"precision": 0.05, **options}
    if given["precision"] is not None:
        given.setdefault("proxy", "popularity")
    return evaluate({"net": scorer}, SPLIT, metrics, **given)


def way(result: Result) -> dict[str, Any]:
    found: dict[str, Any] = result.provenance["ways"]["net"]
    return found


def contains_truth(result: Result, metrics: str = METRICS) -> bool:
    exact = values(make_metrics(metrics), exact_ranks(as_scorer(SCORES), SPLIT)).mean(axis=0)
    pairs = zip(result.estimates, exact, strict=True)
    return all(one.low - 1e-12 <= value <= one.high + 1e-12 for one, value in pairs)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("given", "price", "scores", "seconds", "words"),
    [
        (None, None, None, None, "no limit"),
        (50_000, None, 50_000, None, "50,000 scores"),
        ("50000", None, 50_000, None, "50,000 scores"),
        ("600s", None, None, 600, "10 min"),
        ("1.5h", 2.0, None, 5400, "90 min"),
        ("10min", None, None, 600, "10 min"),
        ("20usd", 0.5, 40_000, None, "20usd (40,000 scores)"),
        ("0.3EUR", 0.1, 3_000, None, "0.3EUR (3,000 scores)"),
    ],
)
def test_budgets(given: Any, price: float | None, scores: Any, seconds: Any, words: str) -> None:
    found = Budget.read(given, price=price)
    assert (found.scores, found.seconds, str(found)) == (scores, seconds, words)


@pytest.mark.parametrize(
    "given", ["10m", "50k", "1e6", "50,000", "s", "-5s", "0s", "20sec", "20 dollars", ""]
)
def test_ambiguous_budgets_are_refused(given: str) -> None:
    with pytest.raises(InvalidParameter, match=r"budget must be a number of scores such as 50000, a time"):
        Budget.read(given, price=1)


@pytest.mark.parametrize(
    ("given", "price", "sentence"),
    [
        ("20usd", None, r"budget=20usd is an amount of money and needs price"),
        (0, None, "budget must be a number of scores >= 1, got 0"),
        ("-3", None, "budget must be a number of scores >= 1, got '-3'"),
        (True, None, "budget must be a number of scores >= 1, got True"),
        (10**30, None, "budget must be a number of scores >= 1"),
        (None, 0, "price must be what 1,000 scores cost, a number from 1e-09 to 1e\\+09, got 0"),
        (None, 1e308, "price must be what 1,000 scores cost"),
        ("20usd", 1e-320, "price must be what 1,000 scores cost"),
        ("9" * 400 + "usd", 1, r"or money such as 20usd, at most 1e\+12 of these, got '9{197}\.\.\.'"),
        ("9" * 400 + "h", None, "at most 1e\\+12 of these"),
        (None, float("nan"), "price must be what 1,000 scores cost"),
        (None, "cheap", "price must be what 1,000 scores cost"),
    ],
)
def test_bad_budgets(given: Any, price: Any, sentence: str) -> None:
    with pytest.raises(InvalidParameter, match=sentence):
        Budget.read(given, price=price)


@pytest.mark.slow
def test_a_slow_scorer_gives_the_digits_of_any_other() -> None:
    scorer = slow(concurrency=3)
    found, other = run(scorer), run(Counting(SCORES))
    assert found.estimates == other.estimates
    assert way(found)["n_scores"] == way(found)["n_asked"] == scorer.n_asked <= way(other)["n_scores"]


@pytest.mark.slow
def test_kept_scores_cost_nothing(tmp_path: Path) -> None:
    path = tmp_path / "scores.db"
    first = run(slow(), scores=path, price=2.0)
    assert way(first)["cost"] == pytest.approx(way(first)["n_asked"] * 2.0 / 1000)
    assert f"(cost {way(first)['cost']:,.2f})." in way(first)["why"][-1]
    again = run(slow(), scores=path)
    assert again.estimates == first.estimates
    assert way(again)["n_asked"] == 0
    assert "; 0 were asked for now, the others were known already." in way(again)["why"][-1]
    rougher = run(slow(), "recall@10", scores=path, precision=0.08)
    assert way(rougher)["n_asked"] < 0.2 * way(rougher)["n_scores"]  # other users may be drawn
    smaller = run(slow(), "recall@5", scores=path, precision=0.05)
    assert way(smaller)["n_asked"] < 0.2 * way(smaller)["n_scores"]
    closer = run(slow(), scores=path, precision=0.03)
    assert way(closer)["n_asked"] < 0.8 * way(closer)["n_scores"]
    assert closer.estimates == run(slow(), precision=0.03).estimates
    assert closer.provenance["scores"] == str(path)


@pytest.mark.slow
def test_another_version_is_asked_anew(tmp_path: Path) -> None:
    path = tmp_path / "scores.db"
    run(slow(), scores=path)
    other = run(
        slow(lambda users, items: [-score for score in asked(users, items)], version="2"), scores=path
    )
    assert way(other)["n_asked"] == way(other)["n_scores"]
    assert way(other)["why"][-1] == "Kept scores of version 1 are not used, because this is version 2."


@pytest.mark.parametrize(
    ("model", "options", "kind", "sentence"),
    [
        (
            Counting(SCORES),
            {"scores": "s.db"},
            InvalidParameter,
            r"only scores of slow models, .* are kept, but net is none",
        ),
        ("popularity", {"scores": "s.db"}, InvalidParameter, r"net is none\. Leave scores out"),
        (
            "bare",
            {"scores": "s.db"},
            InvalidParameter,
            "scores that are kept need a version of the model 'net'",
        ),
        ("slow", {"scores": "s.db", "precision": None}, InvalidParameter, "scores needs precision"),
        ("slow", {"price": 1, "precision": None}, InvalidParameter, "price needs precision"),
        ("slow", {"scores": "no/s.db"}, InvalidParameter, "scores needs an existing folder"),
        ("slow", {"scores": "text.db"}, InvalidData, "must be a whole file of scores"),
    ],
)
def test_bad_input_gets_a_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, model: Any, options: Any, kind: Any, sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text.db").write_text("hello")
    made = {"bare": slow(version=""), "slow": slow()}
    scorer = made.get(model, model) if isinstance(model, str) else model
    with pytest.raises(kind, match=sentence):
        run(scorer, **options)
    assert not Path("s.db").exists()


def test_two_models_never_share_kept_scores(tmp_path: Path) -> None:
    """One name and version for both: the second would be given the scores of the first."""
    path = tmp_path / "s.db"
    models = {"a": slow(name="net"), "b": slow(lambda users, items: [0.0] * len(users), name="net")}
    sentence = (
        r"a and b would keep their scores under one name and version \(name='net', version='1'\), so that "
        r"one is given the scores of the other\. Give each model a name of its own"
    )
    with pytest.raises(InvalidParameter, match=sentence):
        evaluate(models, SPLIT, "recall@10", precision=0.05, scores=path)
    with pytest.raises(InvalidParameter, match=sentence):
        compare(models, SPLIT, "recall@10", decide=True, scores=path)
    assert not path.exists()
    assert all(model.n_asked == 0 for model in models.values())
    models["b"] = slow(asked, name="net", version="2")
    found = evaluate(models, SPLIT, "recall@10", precision=0.05, scores=path, proxy="popularity")
    assert all(one["n_asked"] == one["n_scores"] for one in found.provenance["ways"].values())


def test_a_slow_model_is_no_proxy() -> None:
    """It would be asked for every item of many users, outside the budget."""
    model, proxy = slow(), slow()
    with pytest.raises(InvalidParameter, match=r"a proxy must be cheap, .* but SlowScorer is a slow model"):
        run(model, proxy=[proxy])
    with pytest.raises(InvalidParameter, match=r"but http\(url=http://127.0.0.1:1/\) is a slow model"):
        run(model, proxy="http(url=http://127.0.0.1:1/)")
    assert model.n_asked == proxy.n_asked == 0


class Clock:
    """A clock that only the model moves: each score takes a second."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        told = SimpleNamespace(monotonic=lambda: self.now, perf_counter=time.perf_counter)
        for name in ("precision.budget", "precision.partial_rows"):
            monkeypatch.setattr(f"truerank.workflows.{name}.time", told)
        monkeypatch.setattr("truerank.models.slow.slow_scorer.time", told)

    def asked(self, users: list[int], items: list[int]) -> list[float]:
        self.now += len(users)
        return asked(users, items)


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [300, 1_500, 5_000, 12_000])
@pytest.mark.parametrize("is_slow", [True, False])
def test_time_ends_it_with_a_valid_interval(
    monkeypatch: pytest.MonkeyPatch, seconds: int, is_slow: bool
) -> None:
    clock = Clock(monkeypatch)

    class Timed(Counting):
        def score(self, users: Any, items: Any) -> Any:
            found = super().score(users, items)
            clock.now += found.size
            return found

    model: Any = slow(clock.asked, batch=10, concurrency=2) if is_slow else Timed(SCORES)
    found = run(model, budget=f"{seconds}s", precision=0.01, level=0.999)
    took = clock.now - 1000
    assert took <= seconds + (20 if is_slow else 40_000)
    assert contains_truth(found)
    assert not way(found)["is_reached"]
    said = " ".join(way(found)["why"])
    assert "has ended." in said or "allows no further user" in said
    assert "further scores would reach +-0.01 (" in said
    assert way(found)["further"] > 0


@pytest.mark.slow
def test_more_time_gives_narrower_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, widths = Clock(monkeypatch), []
    for seconds in (500, 3_000, 20_000):
        found = run(slow(clock.asked, batch=10), budget=f"{seconds}s", precision=0.01)
        widths.append(max(one.high - one.low for one in found.estimates))  # type: ignore[operator]
    assert widths[0] > widths[1] > widths[2] > 0


@pytest.mark.slow
def test_money_is_a_number_of_scores(tmp_path: Path) -> None:
    found = run(slow(), budget="10usd", price=0.5, precision=0.01)
    assert found.estimates == run(slow(), budget=20_000, precision=0.01).estimates
    assert "The budget of 10usd (20,000 scores) allows no further user." in way(found)["why"]
    assert " usd" in way(found)["why"][-1]
    assert found.provenance["budget"] == "10usd"


@pytest.mark.slow
def test_what_more_takes_is_about_right() -> None:
    """The forecast at the end of a budget, against what the goal takes without one."""
    ended = way(run(slow(), budget=12_000, precision=0.03))
    whole = way(run(slow(), precision=0.03))
    assert whole["further"] is None
    assert 0.5 < (ended["n_scores"] + ended["further"]) / whole["n_scores"] < 2


class Watching:
    """Remembers notes."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def task(self, label: str, total: int | None = None) -> Any:
        return self

    def done(self, task: Any) -> None:
        pass

    def advance(self, steps: int = 1) -> None:
        pass

    def note(self, text: str) -> None:
        self.notes.append(text)


@pytest.mark.slow
def test_progress_tells_scores_width_time_and_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget_module, "_SHOWN", 0.0)
    clock, progress = Clock(monkeypatch), Watching()
    run(slow(clock.asked), budget="100usd", price=0.5, precision=0.04, progress=progress)
    assert progress.notes[0].startswith("100 scores, +-0.5")
    assert any(re.search(r", [\d.]+ (min|h), [\d.]+ usd left$", note) for note in progress.notes)
    assert not any("0 s, 0.00 usd left" in note for note in progress.notes)


def test_progress_of_a_decision_tells_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scores of both models, the widest interval that is open, and about the time and money that are left."""
    monkeypatch.setattr(budget_module, "_SHOWN", 0.0)
    rng, progress = np.random.default_rng(0), Watching()
    noisy = SCORES + 1.5 * rng.normal(size=SCORES.shape)
    models = {"a": slow(), "b": slow(lambda users, items: noisy[users, items])}
    compare(models, SPLIT, "ndcg@10", decide=True, proxy="popularity", price=0.5, progress=progress)
    form = re.compile(r"([\d,]+) scores, \+-(0\.\d+|0|1)(, .*cost \d+\.\d\d left)?\Z")
    shown = [form.match(one) for one in progress.notes]
    assert all(shown)
    numbers = [int(one[1].replace(",", "")) for one in shown if one]
    assert numbers == sorted(numbers)
    assert numbers[-1] == sum(model.n_asked for model in models.values())
    assert any(one[3] for one in shown if one)


def run_and_write(path: str, log: str, dies_at: str) -> None:
    """Evaluate with a model that logs what it answers, and kills its process when it is called so often."""
    calls = [0]

    def model(users: list[int], items: list[int]) -> list[float]:
        calls[0] += 1
        if calls[0] == int(dies_at):
            os.kill(os.getpid(), signal.SIGKILL)
        with Path(log).open("a") as file:
            file.writelines(f"{user} {item}\n" for user, item in zip(users, items, strict=True))
        return asked(users, items)

    Path(f"{log}.json").write_text(run(slow(model), scores=path).to_json())


@pytest.mark.slow
def test_kill_9_and_a_restart(tmp_path: Path) -> None:
    """No score is asked for twice, and the digits are those of a run that was not killed."""
    path, log = tmp_path / "scores.db", tmp_path / "log"
    codes = [
        subprocess.run(
            [sys.executable, "-m", "tests.workflows.precision.test_budget", path, log, calls]
        ).returncode
        for calls in ("90", "0")
    ]
    assert codes == [-signal.SIGKILL, 0]
    lines = log.read_text().splitlines()
    found = Result.from_json(Path(f"{log}.json").read_text())
    assert len(lines) == len(set(lines)) == way(found)["n_scores"] > way(found)["n_asked"] > 0
    assert found.estimates == run(slow()).estimates


def test_slow_models_have_their_own_names_and_all_scores_are_announced() -> None:
    named = [slow(name="net"), slow(name="net", version="2"), slow()]
    with pytest.warns(
        DataWarning, match=r"^each of [\d,]+ scores of net, net 2 and SlowScorer is asked for\. A"
    ):
        result = evaluate(named, SPLIT, "recall@10")
    assert result.models() == ["net", "net 2", "SlowScorer"]
    assert named[0].n_asked <= int(SPLIT.summary()["users_with_targets"]) * SPLIT.train.n_items
    with pytest.raises(InvalidParameter, match="model 'SlowScorer' is given twice"):
        evaluate([slow(), slow()], SPLIT, "recall@10")


if __name__ == "__main__":
    run_and_write(*sys.argv[1:])
