"""Functions that are asked in batches, at once, again, and within a time limit."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from functools import partial
from typing import Any

import numpy as np
import pytest

from tests.models.slow.world import N_ITEMS, N_USERS, all_pairs, make_split, score_pairs, table, true_score
from truerank.core.errors import InvalidData, InvalidParameter, JobFailed
from truerank.models.slow import slow_scorer as module
from truerank.models.slow.slow_scorer import TimeIsUp, slow_scorer

TRAIN = make_split().train


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FIRST_PAUSE", 0.0)


class Recording:
    """Remembers what it was asked, and how many calls ran at once."""

    def __init__(self, pause: float = 0.0) -> None:
        self.calls: list[tuple[Any, list[str]]] = []
        self.now = self.most = 0
        self.pause, self.lock = pause, threading.Lock()

    def __call__(self, users: Any, items: list[str]) -> list[float]:
        with self.lock:
            self.calls.append((users, items))
            self.now += 1
            self.most = max(self.most, self.now)
        time.sleep(self.pause)
        with self.lock:
            self.now -= 1
        return score_pairs([users] * len(items) if isinstance(users, str) else users, items)


@pytest.mark.parametrize("layout", ["pairs", "rows"])
@pytest.mark.parametrize("concurrency", [1, 3])
def test_every_pair_is_asked_once_in_batches(layout: Any, concurrency: int) -> None:
    model = Recording()
    scorer = slow_scorer(model, TRAIN, layout=layout, batch=4, concurrency=concurrency)
    users, items = all_pairs()
    shuffled = np.random.default_rng(0).permutation(len(users))
    found = scorer.score_pairs(np.tile(users[shuffled], 2), np.tile(items[shuffled], 2))
    np.testing.assert_array_equal(found, np.tile(table().ravel()[shuffled], 2))
    np.testing.assert_array_equal(scorer.score(np.arange(N_USERS), np.arange(N_ITEMS)), table())
    own = scorer.score(np.array([2, 5]), np.array([[1, 2], [3, 3]]))
    np.testing.assert_array_equal(own, table()[[[2, 2], [5, 5]], [[1, 2], [3, 3]]])
    asked = [
        (user, item)
        for users, items in model.calls
        for user, item in zip([users] * len(items) if layout == "rows" else users, items, strict=True)
    ]
    assert len(asked) == len(set(asked)) == scorer.n_asked == N_USERS * N_ITEMS
    assert max(len(items) for _, items in model.calls) == 4
    assert scorer.n_calls == len(model.calls) == (N_USERS * 3 if layout == "rows" else 20)
    assert scorer.n_failed == 0


@pytest.mark.parametrize("is_coroutine", [False, True])
def test_concurrency_is_used_and_limited(is_coroutine: bool) -> None:
    model = Recording(pause=0.02)

    async def awaited(users: list[str], items: list[str]) -> list[float]:
        model.now += 1
        model.most = max(model.most, model.now)
        await asyncio.sleep(0.02)
        model.now -= 1
        return score_pairs(users, items)

    scorer = slow_scorer(awaited if is_coroutine else model, TRAIN, batch=5, concurrency=4)
    np.testing.assert_array_equal(scorer.score_pairs(*all_pairs()), table().ravel())
    assert 2 <= model.most <= 4


def test_coroutines_share_one_loop() -> None:
    loops = set()

    async def awaited(users: list[str], items: list[str]) -> list[float]:
        loops.add(id(asyncio.get_running_loop()))
        return score_pairs(users, items)

    scorer = slow_scorer(awaited, TRAIN, batch=5, concurrency=2)
    for user in range(3):
        scorer.score(np.array([user]), np.arange(N_ITEMS))
    assert len(loops) == 1


def test_failed_calls_are_repeated() -> None:
    failed = set()

    def model(users: list[str], items: list[str]) -> list[float]:
        key = (users[0], items[0])
        if key not in failed:
            failed.add(key)
            raise ConnectionError("the line is busy")
        return score_pairs(users, items)

    scorer = slow_scorer(model, TRAIN, batch=10, concurrency=2)
    np.testing.assert_array_equal(scorer.score_pairs(*all_pairs()), table().ravel())
    assert (scorer.n_calls, scorer.n_failed, scorer.n_asked) == (16, 8, N_USERS * N_ITEMS)


def test_pauses_grow_and_follow_what_the_server_says(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []

    class Watched(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            waited.append(timeout or 0.0)
            return False

    class BusyError(Exception):
        retry_after = 7.0

    def model(users: list[str], items: list[str]) -> list[float]:
        if len(waited) < 3:
            raise BusyError if len(waited) == 2 else OSError
        return score_pairs(users, items)

    monkeypatch.setattr(module, "_FIRST_PAUSE", 1.0)
    scorer = slow_scorer(model, TRAIN)
    scorer._ask_batch(np.array([0]), np.array([1]), Watched())
    assert len(waited) == 3
    assert 0.5 <= waited[0] < 1.5
    assert 1.0 <= waited[1] < 3.0
    assert waited[2] == 7.0


@pytest.mark.parametrize("is_coroutine", [False, True])
def test_a_call_that_hangs_is_given_up(is_coroutine: bool) -> None:
    cancelled = []

    def model(users: list[str], items: list[str]) -> list[float]:
        time.sleep(5)
        return score_pairs(users, items)

    async def awaited(users: list[str], items: list[str]) -> list[float]:
        try:
            await asyncio.sleep(5)
        except asyncio.CancelledError:
            cancelled.append(users)
            raise
        return score_pairs(users, items)

    scorer = slow_scorer(awaited if is_coroutine else model, TRAIN, timeout=0.02, retries=1)
    with pytest.raises(
        JobFailed,
        match=r"the slow model must give a score for user 'u2' and item 'i03', but 2 calls failed, the last "
        r"one with TimeoutError: no answer within 0.02 s\.$",
    ):
        scorer.score(np.array([2]), np.array([3]))
    assert len(cancelled) == (2 if is_coroutine else 0)


def test_what_was_answered_before_a_failure_is_known() -> None:
    def model(users: list[str], items: list[str]) -> list[float]:
        if "u4" in users:
            raise RuntimeError("out of memory")
        return score_pairs(users, items)

    scorer = slow_scorer(model, TRAIN, batch=N_ITEMS, retries=0, name="net")
    with pytest.raises(
        JobFailed,
        match=r"the model 'net' must give a score for user 'u4' and item 'i00' \(and 10 further pairs of "
        r"this call\), but the call failed with RuntimeError: out of memory\.$",
    ):
        scorer.score_pairs(*all_pairs())
    assert scorer.n_asked == len(scorer.kept) == 4 * N_ITEMS


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ([1.0], r"user 'u1' and item 'i02' \(and 1 further pair of this call\) it gave 1 score instead of 2"),
        ([1.0, float("nan")], "but for user 'u1' and item 'i05' it gave NaN"),
        ([[1.0, 2.0], [3.0, 4.0]], r"it gave an array of shape \(2, 2\) instead of 2 scores"),
        (["high", "low"], "it gave list of text instead of numbers"),
        ([True, False], "it gave list of truth values instead of numbers"),
        ([None, 1.0], "it gave list of other objects instead of numbers"),
        ([[1.0], [1.0, 2.0]], "it gave no list of numbers"),
        (None, "it gave NoneType instead of numbers"),
        (3.0, r"it gave an array of shape \(\) instead of 2 scores"),
    ],
)
def test_bad_answers_are_refused_at_once(answer: Any, sentence: str) -> None:
    scorer = slow_scorer(lambda users, items: answer, TRAIN)
    with pytest.raises(InvalidData, match=sentence):
        scorer.score(np.array([1]), np.array([2, 5]))
    assert (scorer.n_calls, scorer.n_asked) == (1, 0)


def test_tensors_and_columns_are_answers() -> None:
    torch = pytest.importorskip("torch")
    for kind in (torch.float32, torch.float64, torch.bfloat16):
        ones = torch.ones((2, 1), dtype=kind, requires_grad=True)
        scorer = slow_scorer(partial(given, ones), TRAIN)
        assert scorer.score(np.array([1]), np.array([2, 5])).tolist() == [[1.0, 1.0]]


def given(answer: Any, users: list[str], items: list[str]) -> Any:
    """A model that says the same of everybody."""
    return answer


def test_no_call_after_the_deadline() -> None:
    scorer = slow_scorer(score_pairs, TRAIN, batch=5)
    scorer.score(np.array([3]), np.arange(N_ITEMS))
    scorer.deadline = time.monotonic() - 1
    with pytest.raises(TimeIsUp):
        scorer.score(np.array([4]), np.arange(N_ITEMS))
    assert scorer.n_asked == N_ITEMS
    assert scorer.score(np.array([3]), np.array([2]))[0, 0] == true_score("u3", "i02")  # is known


@pytest.mark.parametrize("concurrency", [1, 2])
def test_ctrl_c_ends_it(concurrency: int) -> None:
    def model(users: list[str], items: list[str]) -> list[float]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        slow_scorer(model, TRAIN, concurrency=concurrency).score(np.array([1]), np.arange(N_ITEMS))


@pytest.mark.parametrize("concurrency", [1, 3])
def test_ctrl_c_is_heard_while_calls_are_waited_for(concurrency: int) -> None:
    """Also where a library has asked the system to go on with what a signal interrupts."""
    released = threading.Event()

    def model(users: list[str], items: list[str]) -> list[float]:
        released.wait(20)
        return score_pairs(users, items)

    scorer = slow_scorer(model, TRAIN, batch=2, concurrency=concurrency)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's job may ignore the signal
    signal.siginterrupt(signal.SIGINT, False)
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    started = time.monotonic()
    try:
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            scorer.score(np.array([1]), np.arange(N_ITEMS))
        assert time.monotonic() - started < 10
        assert scorer.n_calls == concurrency
    finally:
        signal.signal(signal.SIGINT, before)
        released.set()
        timer.cancel()


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"function": 3}, "slow_scorer takes a function of users and items, got int"),
        ({"train": make_split()}, r"train must be the interactions .* got Split\. Give split\.train"),
        ({"layout": "columns"}, "layout must be one of pairs, rows, got 'columns'"),
        ({"batch": 0}, "batch must be an integer >= 1, got 0"),
        ({"concurrency": 0}, "concurrency must be an integer >= 1, got 0"),
        ({"concurrency": 5000}, "concurrency must be at most 1,000, got 5000"),
        ({"retries": -1}, "retries must be an integer >= 0, got -1"),
        ({"timeout": 0}, "timeout must be a number of seconds above 0, or None for no limit, got 0"),
        ({"timeout": float("nan")}, "timeout must be a number of seconds"),
        ({"version": 2}, r"version must be text, got 2\. Write version='2'"),
        ({"bacth": 2}, r"slow_scorer\(\) has no argument 'bacth'\. Did you mean 'batch'"),
    ],
)
def test_bad_input_gets_a_sentence(changed: dict[str, Any], sentence: str) -> None:
    given: dict[str, Any] = {"function": score_pairs, "train": TRAIN, **changed}
    with pytest.raises((InvalidParameter, TypeError), match=sentence):
        slow_scorer(given.pop("function"), given.pop("train"), **given)
