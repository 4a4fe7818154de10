"""Every error truerank raises on purpose, and the checks of arguments that raise them.

::

    TruerankError
    |-- InvalidParameter(ValueError)    an option or argument that cannot be used
    |-- InvalidData(ValueError)         a file, frame or array that cannot be used
    |-- UnknownName(LookupError)        a metric, model, split, ... that is not registered
    |-- UnknownArgument(TypeError)      a keyword that a public function does not have
    |-- MissingDependency(ImportError)  an optional library that is not installed
    |-- BrokenPlugin(ImportError)       a plug-in of another package that cannot be used
    |-- NotConverged(RuntimeError)      an iteration that stopped too early
    |-- CannotEstimate(TypeError)       a method that cannot treat this kind of sample
    `-- JobFailed(RuntimeError)         tasks that an engine could not run to their end

Each message is one sentence: what must hold, what came, what to do. The command line prints it and
exits with 2. ``DataWarning`` marks results that are valid but surprising, ``Interrupted`` those
of work that Ctrl-C has ended early.

Arguments are checked where they enter: in public functions, constructors, readers and commands. Code behind
these relies on the types.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import math
import numbers
import re
from collections.abc import Callable, Iterable
from typing import Any, ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
ReturnT = TypeVar("ReturnT")


#: Limits of numbers that are asked for, above which work would not end or not fit into memory.
MOST_ITEMS = 10**9
MOST_USERS = 10**12
MOST_CUTOFFS = 10_000
MOST_SEEDS = 10_000
MOST_REPEATS = 10_000
MOST_RESAMPLES = 1_000_000
MOST_THREADS = 1_000  # and processes; more only wait for each other
LEAST_WIDTH = 1e-6  # of an interval; less would take more users than there can be
MOST_LEVEL = 1 - 1e-9  # tails of less are lost in rounding


class TruerankError(Exception):
    """Base of all errors raised on purpose; a worker can send each of them to another process.

    A value that a message repeats is shown by its beginning where it is very long.
    """

    def __init__(self, *told: Any) -> None:
        super().__init__(*(_readable(one) if isinstance(one, str) else one for one in told))

    def __reduce__(self) -> tuple[Any, ...]:
        return _remade, (type(self), self.args, self.__dict__)


class InvalidParameter(TruerankError, ValueError):  # noqa: N818 - named for what the user gave
    """An option or argument that cannot be used."""


class InvalidData(TruerankError, ValueError):  # noqa: N818
    """A file, frame or array that cannot be used."""


class JobFailed(TruerankError, RuntimeError):  # noqa: N818
    """Tasks that could not be run to their end; finished ones are kept where there is a store."""


class UnknownName(TruerankError, LookupError):  # noqa: N818
    """A name that is not registered.

    Parameters
    ----------
    kind : what was looked up, such as ``metric``
    name : the unknown name
    known : the names there are; the nearest one is suggested

    Examples
    --------
    >>> print(UnknownName("metric", "ndgc", ["ndcg", "recall"]))
    unknown metric 'ndgc'. Did you mean 'ndcg'?
    """

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        self.kind, self.name, self.known = kind, name, tuple(sorted(known))
        super().__init__(f"unknown {kind} {excerpt(name)!r}. {suggestion(name, self.known)}")


class UnknownArgument(TruerankError, TypeError):  # noqa: N818
    """A keyword argument that a public function does not have.

    Examples
    --------
    >>> print(UnknownArgument("evaluate", "sampelr", ["sampler", "seed"]))
    evaluate() has no argument 'sampelr'. Did you mean 'sampler'?
    """

    def __init__(self, function: str, name: str, known: Iterable[str]) -> None:
        self.function, self.name, self.known = function, name, tuple(sorted(known))
        super().__init__(f"{function}() has no argument {name!r}. {suggestion(name, self.known)}")


class MissingDependency(TruerankError, ImportError):  # noqa: N818
    """An optional library that is not installed.

    Examples
    --------
    >>> print(MissingDependency("downloading data", "pooch", extra="data"))
    downloading data needs pooch. Install it with: pip install 'truerank[data]'
    >>> print(MissingDependency("to_pandas()", "pandas"))
    to_pandas() needs pandas. Install it with: pip install pandas
    """

    def __init__(self, what: str, library: str, *, extra: str = "") -> None:
        package = f"'truerank[{extra}]'" if extra else library
        super().__init__(f"{what} needs {library}. Install it with: pip install {package}")


class BrokenPlugin(TruerankError, ImportError):  # noqa: N818
    """A plug-in of another package that cannot be used; the others can."""


class NotConverged(TruerankError, RuntimeError):  # noqa: N818
    """An iteration that stopped before its tolerance; ``last`` holds the last iterate."""

    def __init__(self, message: str, last: object) -> None:
        super().__init__(message)
        self.last = last


class CannotEstimate(TruerankError, TypeError):  # noqa: N818
    """A method that cannot treat this kind of sample."""


class DataWarning(UserWarning):
    """A result that is valid but surprising; the text holds counts and examples."""


class Interrupted(DataWarning):
    """A result of work that was ended early by Ctrl-C; the text says what is missing."""


def suggests_arguments(function: Callable[Arguments, ReturnT]) -> Callable[Arguments, ReturnT]:
    """Make a public function answer a misspelt keyword with the nearest one that it has.

    Examples
    --------
    >>> @suggests_arguments
    ... def evaluate(*, seed: int = 0) -> int:
    ...     return seed
    >>> evaluate(sead=1)
    Traceback (most recent call last):
    truerank.core.errors.UnknownArgument: evaluate() has no argument 'sead'. Did you mean 'seed'?
    """
    known = inspect.signature(function).parameters

    @functools.wraps(function)
    def checked(*args: Arguments.args, **kwargs: Arguments.kwargs) -> ReturnT:
        for name in kwargs:
            if name not in known:
                raise UnknownArgument(function.__name__, name, known)
        return function(*args, **kwargs)

    return checked


def suggestion(name: str, known: tuple[str, ...]) -> str:
    """Return the sentence that names the nearest known name, or all of them."""
    near = difflib.get_close_matches(name[:100].lower(), known, n=1, cutoff=0.5)
    if near:
        return f"Did you mean {near[0]!r}?"
    return f"Known: {', '.join(known)}."


def excerpt(text: str) -> str:
    """Return a text that was given as it is shown in a sentence: its beginning, where it is very long.

    Examples
    --------
    >>> excerpt("ndcg@10"), len(excerpt("9" * 5000))
    ('ndcg@10', 200)
    """
    return text if len(text) <= 200 else f"{text[:197]}..."


def _readable(message: str) -> str:
    """Return a message without words of hundreds of letters, and not longer than a page."""
    message = re.sub(r"\S{401,}", lambda word: excerpt(word[0]), message)
    return message if len(message) <= 1_900 else f"{message[:1_700]} ... {message[-150:]}"


def _remade(kind: type[TruerankError], args: tuple[Any, ...], state: dict[str, Any]) -> TruerankError:
    """Return an error as it was, without making its message anew."""
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(state)
    return error


def check_cutoff(cutoff: int | None) -> None:
    """Raise unless the cut-off is None (no cut-off) or an integer >= 1."""
    if cutoff is None:
        return
    if isinstance(cutoff, bool) or not isinstance(cutoff, numbers.Integral) or cutoff < 1:
        raise InvalidParameter(f"cutoff must be an integer >= 1, got {cutoff!r}.")
    if cutoff > MOST_ITEMS:
        raise InvalidParameter(
            f"cutoff must be at most {MOST_ITEMS:,}, got {excerpt(str(cutoff))}. Lower it."
        )


def check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    """Raise unless the value is one of the named choices."""
    if value not in choices:
        raise InvalidParameter(f"{name} must be one of {', '.join(choices)}, got {value!r}.")


def check_level(level: float) -> None:
    """Raise unless the confidence level lies strictly between 0 and 1."""
    if not 0 < level < 1:
        raise InvalidParameter(f"level must lie between 0 and 1, got {level!r}. Use for example 0.95.")
    if level > MOST_LEVEL:
        raise InvalidParameter(f"level must be at most {MOST_LEVEL}, got {level!r}. Use for example 0.95.")


def check_at_least(name: str, value: float, least: float, most: float = math.inf) -> None:
    """Raise unless least <= value, and value <= most where there is such a limit."""
    if not value >= least:
        raise InvalidParameter(f"{name} must be at least {least}, got {value!r}.")
    if not value <= most:
        raise InvalidParameter(f"{name} must be at most {most:,}, got {value!r}.")


def check_above(name: str, value: float, bound: float) -> None:
    """Raise unless value > bound."""
    if not value > bound:
        raise InvalidParameter(f"{name} must be greater than {bound}, got {value!r}.")
