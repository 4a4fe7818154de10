"""What an evaluation of a slow model may cost, in scores, seconds or money, and what is left of it."""

from __future__ import annotations

import numbers
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from truerank.core.errors import InvalidParameter, excerpt
from truerank.core.split import Split
from truerank.core.table import count_of, duration, listed_in_words, round_up
from truerank.core.types import IntArray
from truerank.models.slow.score_file import ScoreFile, told_versions
from truerank.models.slow.slow_scorer import SlowScorer, check_version
from truerank.workflows.fitting import is_slow

_SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0}
_WRITTEN = re.compile(r"(\d+(?:\.\d+)?)([A-Za-z]*)\Z")
_PRICES = (1e-9, 1e9)  # of 1,000 scores: beyond them costs and budgets are no numbers any more
_MOST = 1e12  # seconds, minutes, hours or units of money
_SHOWN = 0.5  # seconds between two reports of progress
_FEWEST_ROWS = 20  # complete ones that a budget must allow, unless it allows to screen all users
_NO_CURRENCIES = {"sec", "hrs", "day", "mio"}


@dataclass(frozen=True)
class Budget:
    """Limits of the cost of one model; None where there is none.

    Parameters
    ----------
    scores : that may be used, those kept from earlier runs included
    seconds : that asking may take in this run
    price : of 1,000 scores, in any currency
    currency : how money is written, such as ``usd``
    written : the budget as it was given

    Examples
    --------
    >>> Budget.read("20usd", price=0.5).scores, Budget.read("10min").seconds, Budget.read(50000).scores
    (40000, 600.0, 50000)
    """

    scores: int | None = None
    seconds: float | None = None
    price: float | None = None
    currency: str = ""
    written: int | str | None = None

    @classmethod
    def read(cls, given: int | str | None, *, price: float | None = None) -> Budget:
        """Return the limits that a number of scores, a time or an amount of money stands for.

        Raises
        ------
        InvalidParameter
            When it is none of these, or money without a price.
        """
        given_price: Any = price
        is_number = isinstance(given_price, numbers.Real) and not isinstance(given_price, bool)
        if price is not None and not (is_number and _PRICES[0] <= price <= _PRICES[1]):
            raise InvalidParameter(
                f"price must be what 1,000 scores cost, a number from {_PRICES[0]:g} to {_PRICES[1]:g}, got "
                f"{price!r}. Use for example 0.5."
            )
        if given is None:
            return cls(price=price)
        if not isinstance(given, str) or re.fullmatch(r"-?\d+", given.strip()):
            return cls(_number_of_scores(given), price=price, written=given)
        found = _WRITTEN.match(given.strip())
        number, unit = (float(found[1]), found[2].lower()) if found else (0.0, "")
        is_amount = 0 < number <= _MOST
        if is_amount and unit in _SECONDS:
            return cls(seconds=number * _SECONDS[unit], price=price, written=given)
        if is_amount and len(unit) == 3 and unit not in _NO_CURRENCIES:
            if price is None:
                raise InvalidParameter(
                    f"budget={given} is an amount of money and needs price, what 1,000 scores cost. Use for "
                    "example price=0.5, or write a time as 600s, 10min or 2h."
                )
            scores = int(1000 * number / price * (1 + 1e-12))
            return cls(max(scores, 1), price=price, currency=unit, written=given)
        raise InvalidParameter(
            "budget must be a number of scores such as 50000, a time such as 600s, 10min or 2h, or money "
            f"such as 20usd, at most {_MOST:g} of these, got {excerpt(given)!r}."
        )

    def allows_rows(
        self,
        left: float | None,
        rows: IntArray,
        *,
        screening: IntArray | None,
        depth: int | None,
        n_models: int = 1,
    ) -> bool:
        """Return whether complete rows of a first few users may be scored; else all users are to be screened.

        Screening tells upper limits for certain, and leaves users to be drawn whose rows are seldom scored to
        their ends.

        Parameters
        ----------
        left : scores that may be used; None for no limit
        rows : (n_users,) scores that complete rows may take, in the order in which users are sampled
        screening : (n_users,) scores that the most promising items of each user may take; None where users
            cannot be screened
        depth : how many items these are
        n_models : models that the scores are of, together

        Raises
        ------
        InvalidParameter
            When the budget allows neither.

        Examples
        --------
        >>> import numpy as np
        >>> rows, screening = np.full(900, 1_700), np.full(900, 11)
        >>> budget = Budget.read(20_000)
        >>> budget.allows_rows(20_000, rows, screening=screening, depth=10)
        False
        """
        of_rows = int(rows[:_FEWEST_ROWS].sum())
        if left is None or of_rows <= left:
            return True
        n_first = count_of(min(_FEWEST_ROWS, len(rows)), "user")
        needed = f"complete rows of {n_first}, which may take {of_rows:,} scores"
        if screening is not None:
            if screening.sum() <= left:
                return False
            needed += (
                f", or the {depth} most promising items of all {len(screening):,} users, at most "
                f"{int(screening.sum()):,} scores"
            )
        together = " of all models together" if n_models > 1 else ""
        raise InvalidParameter(
            f"budget must allow a first round{together}: {needed}; got {self}. Raise the budget."
        )

    def cost(self, n_scores: float) -> str:
        """Return what scores cost, in words; nothing without a price.

        Examples
        --------
        >>> Budget.read("20usd", price=0.5).cost(12_345), Budget.read(None, price=2).cost(10)
        ('6.17 usd', 'cost 0.02')
        """
        if self.price is None:
            return ""
        amount = f"{n_scores * self.price / 1000:,.2f}"
        return f"{amount} {self.currency}" if self.currency else f"cost {amount}"

    def __str__(self) -> str:
        if self.seconds is not None:
            return duration(self.seconds)
        if self.currency:
            return f"{self.written} ({self.scores:,} scores)"
        return "no limit" if self.scores is None else f"{self.scores:,} scores"


def _number_of_scores(given: int | str) -> int:
    try:
        is_whole = not isinstance(given, bool) and isinstance(given, str | numbers.Integral)
        number = int(given) if is_whole and len(str(given)) <= 20 else 0
    except ValueError:
        number = 0
    if number < 1:
        raise InvalidParameter(
            f"budget must be a number of scores >= 1, got {given!r}. Leave it out for no limit."
        )
    return number


class Spending:
    """What asking one model has cost since this was made, and what is left of the budget.

    Parameters
    ----------
    scorer : the model; a slow one says itself what it was asked for
    limit : the budget
    """

    def __init__(self, scorer: Any, limit: Budget) -> None:
        self.scorer = scorer if isinstance(scorer, SlowScorer) else None
        self.limit, self.started = limit, time.monotonic()
        self._before = (0, 0.0) if self.scorer is None else (self.scorer.n_asked, self.scorer.seconds)

    @property
    def deadline(self) -> float | None:
        """``time.monotonic()`` at which the budget ends."""
        return None if self.limit.seconds is None else self.started + self.limit.seconds

    @contextmanager
    def watched(self, watch: Callable[[], None]) -> Iterator[None]:
        """End asking a slow model at the deadline, and call ``watch`` twice a second while it is asked."""
        if self.scorer is None:
            yield
            return
        shown = [0.0]

        def seldom() -> None:
            if time.monotonic() - shown[0] > _SHOWN:
                shown[0] = time.monotonic()
                watch()

        self.scorer.deadline, self.scorer.watch = self.deadline, seldom
        try:
            yield
        finally:
            self.scorer.deadline = self.scorer.watch = None

    def asked(self, n_scores: int) -> int:
        """Return the scores that were asked for, where ``n_scores`` were used."""
        return n_scores if self.scorer is None else self.scorer.n_asked - self._before[0]

    def seconds_per_score(self, n_scores: int) -> float | None:
        """Return how long asking for a score takes; None before any was asked for."""
        n_asked = self.asked(n_scores)
        spent = time.monotonic() - self.started
        if self.scorer is not None and self.scorer.seconds > self._before[1]:
            spent = self.scorer.seconds - self._before[1]
        return spent / n_asked if n_asked else None

    def affordable(self, n_scores: int) -> int | None:
        """Return about how many scores may be used in all, by the budget and by the time that is left."""
        most = self.limit.scores
        pace = self.seconds_per_score(n_scores)
        if self.deadline is not None and pace is not None:
            in_time = n_scores + max(int((self.deadline - time.monotonic()) / pace), 0)
            most = in_time if most is None else min(most, in_time)
        return most

    def cost(self, n_scores: int) -> float | None:
        """Return what the scores that were asked for cost; None without a price."""
        return None if self.limit.price is None else self.asked(n_scores) * self.limit.price / 1000

    def told(self, n_scores: int) -> str:
        """Return what was asked for and its cost, to end a sentence about the scores that were used."""
        n_asked = self.asked(n_scores)
        cost = "" if self.limit.price is None else f" ({self.limit.cost(n_asked)})"
        if n_asked == n_scores:
            return cost
        others = ", the others were known already" if n_asked < n_scores else ""
        return f"; {n_asked:,} were asked for now{cost}{others}"

    def what_more_takes(self, further: float, n_scores: int, precision: float) -> list[str]:
        """Return a sentence about the scores that are missing for a precision."""
        if further < 1:
            return []
        left = self.left(further, n_scores)
        told = f"About {round_up(further, digits=2):,} further scores would reach +-{precision:g}"
        return [f"{told} ({left})." if left else f"{told}."]

    def progress(self, n_scores: int, width: float, expected_end: float | None) -> str:
        """Return what is shown while it runs: scores asked for, the widest interval, about what is left."""
        n_asked = self.asked(n_scores)
        told = f"{n_asked:,} scores, +-{width:.2g}"
        further = 0.0 if expected_end is None else expected_end - max(n_scores, n_asked)
        left = self.left(further, n_scores) if further >= 1 else ""
        return f"{told}, {left} left" if left else told

    def left(self, further: float, n_scores: int) -> str:
        """Return in words how long further scores take and what they cost; nothing where neither is known.

        Examples
        --------
        >>> Spending(None, Budget.read(None, price=0.5)).left(40_000, 0)
        'cost 20.00'
        """
        pace = self.seconds_per_score(n_scores)
        told = [] if pace is None else [duration(further * pace)]
        return ", ".join([*told, *([self.limit.cost(further)] if self.limit.price is not None else [])])


def open_scores(
    path: str | Path | None, split: Split, models: Mapping[str, Any]
) -> AbstractContextManager[ScoreFile | None]:
    """Return the file in which scores are kept, as a context manager; None without a path.

    Raises
    ------
    InvalidParameter
        When none of the models is one whose scores are kept, one has no version, or two would keep theirs in
        one place.
    """
    if path is None:
        return nullcontext()
    slow = {name: model for name, model in models.items() if is_slow(model)}
    kept_as: dict[tuple[str, str], str] = {}
    for name, model in slow.items():
        kept_name, version = model.name or getattr(model, "url", "") or name, str(model.version)
        check_version(kept_name, version)
        first = kept_as.setdefault((kept_name, version), name)
        if first != name:
            raise InvalidParameter(
                f"{first} and {name} would keep their scores under one name and version (name={kept_name!r}, "
                f"version={version!r}), so that one is given the scores of the other. Give each model a name "
                "of its own."
            )
    if not slow:
        raise InvalidParameter(
            "only scores of slow models, those of http and truerank.slow_scorer, are kept, but "
            f"{listed_in_words(list(models))} {'is' if len(models) == 1 else 'are'} none. Leave scores out."
        )
    return ScoreFile(path, split)


@contextmanager
def kept_scores(scorer: Any, file: ScoreFile | None, name: str) -> Iterator[list[str]]:
    """Let a slow scorer keep its scores in a file while the block runs; yield sentences about it."""
    if file is None or not isinstance(scorer, SlowScorer):
        yield []
        return
    others = told_versions(scorer.version, file.versions(scorer.name or name))
    before = scorer.kept
    scorer.keep_in(file, name)
    try:
        yield others
    finally:
        scorer.kept = before
