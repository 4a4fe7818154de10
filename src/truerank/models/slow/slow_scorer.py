"""Scorers of slow functions and coroutines: called in batches, concurrently, and again after a failure.

`SlowScorer` is the one place where a slow model is asked. Every score is kept (`score_file`), so that a pair
is asked for once, whatever is computed from its score afterwards.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, Literal, NoReturn

import numpy as np

from truerank.core.errors import (
    MOST_THREADS,
    InvalidData,
    InvalidParameter,
    JobFailed,
    check_at_least,
    check_choice,
    suggests_arguments,
)
from truerank.core.interactions import Interactions
from truerank.core.table import count_of
from truerank.core.types import FloatArray, IntArray
from truerank.models.checks import check_count
from truerank.models.slow.score_file import KeptScores, ScoreFile

_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 60.0  # seconds between a failed call and the next one; doubles each time
_LOOKED = 0.1  # seconds between two looks at whether Ctrl-C was pressed, while calls are waited for
_KINDS = {"O": "other objects", "U": "text", "S": "bytes", "b": "truth values", "c": "complex numbers"}
_GOLDEN = 0.618033988749895  # multiples of it, without their integers, lie evenly in [0, 1)


class BadAnswer(Exception):  # noqa: N818 - named for what came
    """An answer that is not what was asked for; a second call would not mend it.

    Parameters
    ----------
    reason : what came
    pair : the place of the pair that it came for; None for all pairs of the call
    """

    def __init__(self, reason: str, pair: int | None = None) -> None:
        super().__init__(reason)
        self.pair = pair


class TimeIsUp(Exception):  # noqa: N818
    """The time for asking has ended; what was answered until then is kept."""


class SlowScorer:
    """A slow model behind a function of users and items, see ``slow_scorer``.

    ``is_slow`` tells evaluations that its scores may be kept.

    Attributes
    ----------
    kept : all scores that are known
    n_asked : scores that were asked for by this object, not read from a file
    n_calls, n_failed : calls of the function, and how many of them failed
    seconds : how long asking took
    block : pairs that evaluations ask for at once, enough to keep all calls busy
    deadline : ``time.monotonic()`` after which no further call is made; None for no limit
    watch : called after each call, perhaps from another thread
    """

    is_slow = True

    def __init__(
        self,
        function: Callable[[Any, list[Any]], Any],
        train: Interactions,
        *,
        layout: Literal["pairs", "rows"] = "pairs",
        batch: int = 64,
        concurrency: int = 1,
        retries: int = 3,
        timeout: float | None = 120.0,
        name: str = "",
        version: str = "",
    ) -> None:
        self.function, self.users, self.items = function, train.users, train.items
        self.layout, self.batch, self.concurrency = layout, batch, concurrency
        self.retries, self.timeout, self.name, self.version = retries, timeout, name, version
        self.n_items = train.n_items
        self.block = 16 * batch * concurrency
        self.kept = KeptScores(self.n_items)
        self.n_asked = self.n_calls = self.n_failed = 0
        self.seconds = 0.0
        self.deadline: float | None = None
        self.watch: Callable[[], None] | None = None
        self._is_coroutine = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            getattr(function, "__call__", None)  # noqa: B004 - an object whose call is a coroutine
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()

    def keep_in(self, file: ScoreFile, name: str) -> None:
        """Read known scores from a file and write new ones to it, under ``name`` unless there is an own one.

        Raises
        ------
        InvalidParameter
            Without a version.
        """
        check_version(self.name or name, self.version)
        self.kept = file.scores(self.name or name, self.version, self.n_items)

    def score(self, users: IntArray, items: IntArray) -> FloatArray:
        """Return scores, (len(users), n)."""
        users = np.asarray(users, np.int64)
        shape = (len(users), np.shape(items)[-1])
        item = np.ravel(np.broadcast_to(np.asarray(items, np.int64), shape))
        return self.score_pairs(np.repeat(users, shape[1]), item).reshape(shape)

    def score_pairs(self, users: IntArray, items: IntArray) -> FloatArray:
        """Return the score of each pair; those that are not known are asked for, each once.

        Raises
        ------
        InvalidData
            When an answer is not one number per pair.
        JobFailed
            When a call and all its repetitions failed.
        TimeIsUp
            When the deadline does not allow asking for all of them.
        """
        scores = self.kept.find(users, items)
        is_new = np.isnan(scores)
        if is_new.any():
            keys = np.unique(np.asarray(users, np.int64)[is_new] * self.n_items + np.asarray(items)[is_new])
            started = time.monotonic()
            try:
                self._ask(*np.divmod(keys, self.n_items))
            finally:
                self.seconds += time.monotonic() - started
            scores[is_new] = self.kept.find(np.asarray(users)[is_new], np.asarray(items)[is_new])
        return scores

    def _ask(self, users: IntArray, items: IntArray) -> None:
        """Ask for pairs, sorted by user, and keep the scores of each call as soon as it returns."""
        waiting = self._batches(users)
        stop, failures = threading.Event(), []
        lock = threading.Lock()

        def work() -> None:
            while not stop.is_set():
                with lock:
                    batch = next(waiting, None)
                if batch is None:
                    return
                try:
                    if self.deadline is not None and time.monotonic() >= self.deadline:
                        raise TimeIsUp
                    self._ask_batch(users[batch], items[batch], stop)
                except BaseException as error:
                    failures.append(error)
                    stop.set()

        if self.concurrency == 1:
            work()
        else:
            threads = [threading.Thread(target=work, daemon=True) for _ in range(self.concurrency)]
            try:
                for thread in threads:
                    thread.start()
                for thread in threads:
                    while thread.is_alive():  # waiting without a limit would not hear Ctrl-C
                        thread.join(_LOOKED)
            except BaseException:  # Ctrl-C: running calls are not waited for
                stop.set()
                raise
        for kind in (KeyboardInterrupt, SystemExit, Exception):
            for failure in failures:
                if isinstance(failure, kind) and not isinstance(failure, TimeIsUp):
                    raise failure
        if failures:
            raise failures[0]

    def _batches(self, users: IntArray) -> Iterator[slice]:
        """Yield the pairs of each call; with rows those of one user."""
        edges = [0, len(users)]
        if self.layout == "rows":
            edges = [0, *(np.flatnonzero(np.diff(users)) + 1).tolist(), len(users)]
        for start, stop in pairwise(edges):
            for first in range(start, stop, self.batch):
                yield slice(first, min(first + self.batch, stop))

    def _ask_batch(self, users: IntArray, items: IntArray, stop: threading.Event) -> None:
        """Call the function until it answers, and keep what it says."""
        for attempt in range(self.retries + 1):
            try:
                scores = _checked(self._call(users, items), len(users))
                break
            except BadAnswer as error:
                of = slice(None) if error.pair is None else slice(error.pair, error.pair + 1)
                raise InvalidData(
                    f"{self._what()} must give a number for each pair, but for "
                    f"{self._pairs(users[of], items[of])} {error}.{self._what_is_kept()}"
                ) from None
            except Exception as error:
                with self._lock:
                    self.n_failed += 1
                    turn = self.n_failed
                if attempt == self.retries:
                    self._give_up(error, users, items)
                pause = min(_FIRST_PAUSE * 2**attempt, _LONGEST_PAUSE) * (0.5 + turn * _GOLDEN % 1)
                pause = max(pause, min(float(getattr(error, "retry_after", 0.0)), 5 * _LONGEST_PAUSE))
                if self.deadline is not None and time.monotonic() + pause > self.deadline:
                    raise TimeIsUp from None
                if stop.wait(pause):
                    return
        self.kept.add(users, items, scores)
        with self._lock:
            self.n_asked += len(scores)
        if self.watch is not None:
            self.watch()

    def _call(self, users: IntArray, items: IntArray) -> Any:
        """Call the function once, with ids, within the time limit."""
        with self._lock:
            self.n_calls += 1
        who: Any = self.users.decode(users if self.layout == "pairs" else users[:1])
        if self.layout == "rows":
            who = who[0]
        what = self.items.decode(items)
        if self._is_coroutine:
            return self._awaited(who, what)
        if self.timeout is None:
            return self.function(who, what)
        outcome: list[tuple[bool, Any]] = []

        def work() -> None:
            try:
                outcome.append((True, self.function(who, what)))
            except BaseException as error:
                outcome.append((False, error))

        thread = threading.Thread(target=work, daemon=True)  # a call that hangs does not keep the process
        thread.start()
        thread.join(self.timeout)
        if not outcome:
            raise TimeoutError(f"no answer within {self.timeout:g} s")
        is_answer, found = outcome[0]
        if not is_answer:
            raise found
        return found

    def _awaited(self, who: Any, what: list[Any]) -> Any:
        """Run the coroutine on the event loop of this scorer: sessions that it holds stay with one loop."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, daemon=True).start()
        coroutine: Any = self.function(who, what)
        limited = asyncio.wait_for(coroutine, self.timeout)
        try:
            return asyncio.run_coroutine_threadsafe(limited, self._loop).result()
        except TimeoutError as error:
            raise TimeoutError(str(error) or f"no answer within {self.timeout:g} s") from None

    def _give_up(self, error: Exception, users: IntArray, items: IntArray) -> NoReturn:
        n_calls = self.retries + 1
        tried = "the call failed with" if n_calls == 1 else f"{n_calls} calls failed, the last one with"
        reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise JobFailed(
            f"{self._what()} must give a score for {self._pairs(users, items)}, but {tried} "
            f"{reason.rstrip('.')}.{self._what_is_kept()}"
        ) from error

    def _what_is_kept(self) -> str:
        return "" if self.kept.file is None else " Scores given before are kept: run it again to go on."

    def _what(self) -> str:
        return f"the model {self.name!r}" if self.name else "the slow model"

    def _pairs(self, users: IntArray, items: IntArray) -> str:
        """Return the pairs of a call, in a sentence."""
        first = f"user {self.users.decode(users[:1])[0]!r} and item {self.items.decode(items[:1])[0]!r}"
        more = len(users) - 1
        return first if more == 0 else f"{first} (and {count_of(more, 'further pair')} of this call)"


def _checked(answer: Any, n: int) -> FloatArray:
    """Return the numbers of an answer; raise `BadAnswer` unless there are n."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(answer, torch.Tensor):
        answer = answer.detach().float().cpu() if answer.dtype != torch.float64 else answer.detach().cpu()
    try:
        scores = np.asarray(answer)
    except (ValueError, TypeError) as error:
        raise BadAnswer(f"it gave no list of numbers ({error})") from None
    if scores.dtype.kind not in "fiu":
        of = "" if scores.ndim == 0 else f" of {_KINDS.get(scores.dtype.kind, str(scores.dtype))}"
        raise BadAnswer(f"it gave {type(answer).__name__}{of} instead of numbers")
    if scores.shape == (n, 1):
        scores = scores[:, 0]
    if scores.shape != (n,):
        raise BadAnswer(f"it gave {_shape(scores)} instead of {count_of(n, 'score')}")
    if np.isnan(scores).any():
        raise BadAnswer("it gave NaN", int(np.argmax(np.isnan(scores))))
    return scores.astype(np.float64)


def _shape(scores: FloatArray) -> str:
    return count_of(len(scores), "score") if scores.ndim == 1 else f"an array of shape {scores.shape}"


@suggests_arguments
def slow_scorer(
    function: Callable[[Any, list[Any]], Any],
    train: Interactions,
    *,
    layout: Literal["pairs", "rows"] = "pairs",
    batch: int = 64,
    concurrency: int = 1,
    retries: int = 3,
    timeout: float | None = 120.0,
    name: str = "",
    version: str = "",
) -> SlowScorer:
    """Return the scorer of a function that takes long or costs money: a network, a language model, a service.

    Users and items are given by their ids. Every pair is asked for once; with ``evaluate(..., precision=0.01,
    scores="scores.db")`` all scores are kept in a file, and a run that was killed goes on from there. See the
    page *Evaluate a slow model*.

    Parameters
    ----------
    function : ``score_pairs(users, items)``, given two lists of equal length, returns one score per pair,
        higher is better; with ``layout='rows'`` it is given one user and a list of items. It may be a
        coroutine (``async def``)
    train : whose users and items the ids are
    layout : ``pairs`` or ``rows``
    batch : pairs per call at most
    concurrency : calls at the same time at most: threads, or coroutines of one event loop. With 1 a function
        needs not be safe to call from several threads
    retries : further calls after one that raised an error or took too long, with pauses of about 0.5, 1, 2,
        ... seconds
    timeout : seconds for each call; None for no limit. A coroutine is cancelled; a function cannot be, and
        goes on unheard
    name, version : under which scores are kept, and the name in the result where models are not given by
        names; scores are kept under the name in the result where there is none here. Give another version
        whenever the model, its prompt or its parameters change

    Examples
    --------
    >>> train = Interactions.from_codes([0, 1], [1, 0], n_items=3)
    >>> scorer = slow_scorer(lambda users, items: [10 * u + i for u, i in zip(users, items)], train)
    >>> scorer.score(np.array([0, 1]), np.array([2, 0])).tolist(), scorer.n_asked
    ([[2.0, 0.0], [12.0, 10.0]], 4)
    """
    if not callable(function):
        raise InvalidParameter(
            f"slow_scorer takes a function of users and items, got {type(function).__name__}."
        )
    if not isinstance(train, Interactions):
        raise InvalidParameter(
            f"train must be the interactions whose users and items are scored, got {type(train).__name__}. "
            "Give split.train."
        )
    check_calls(layout=layout, batch=batch, concurrency=concurrency, retries=retries, timeout=timeout)
    for what, text in (("name", name), ("version", version)):
        if not isinstance(text, str):
            raise InvalidParameter(f"{what} must be text, got {text!r}. Write {what}='{text}'.")
    return SlowScorer(
        function,
        train,
        layout=layout,
        batch=batch,
        concurrency=concurrency,
        retries=retries,
        timeout=timeout,
        name=name,
        version=version,
    )


def check_version(name: str, version: str) -> None:
    """Raise unless the scores of a model can be told from those of another version of it."""
    if not version:
        raise InvalidParameter(
            f"scores that are kept need a version of the model {name!r}, so that those of another version "
            "are not taken for its own. Give version='1', and another one whenever the model changes."
        )


def check_calls(*, layout: str, batch: int, concurrency: int, retries: int, timeout: float | None) -> None:
    """Raise unless these say how a slow model can be called."""
    check_choice("layout", layout, ("pairs", "rows"))
    check_count("batch", batch, 1)
    check_count("concurrency", concurrency, 1)
    check_at_least("concurrency", concurrency, 1, MOST_THREADS)
    check_count("retries", retries, 0)
    if timeout is not None and (isinstance(timeout, bool) or not 0 < timeout < float("inf")):
        raise InvalidParameter(
            f"timeout must be a number of seconds above 0, or None for no limit, got {timeout!r}."
        )
