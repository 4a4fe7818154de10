"""The model ``http``: a service that scores pairs of users and items, sent and answered as JSON.

Nothing that a server sends is run. Addresses are https, or http on this machine; redirects are not followed,
answers have a limited size, and whatever is not one finite number per pair is refused.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from email.message import Message
from http.client import HTTPException
from typing import Any, ClassVar, NoReturn
from urllib.parse import urlsplit

from truerank.core.errors import InvalidParameter, excerpt
from truerank.core.interactions import Interactions
from truerank.core.model import Model, Validate
from truerank.core.progress import SILENT, Progress
from truerank.core.scorer import Scorer
from truerank.models.slow.slow_scorer import BadAnswer, SlowScorer, check_calls
from truerank.version import __version__

_THIS_MACHINE = ("127.0.0.1", "localhost", "::1")
_MOST_BYTES, _BYTES_PER_PAIR = 1 << 16, 100  # of an answer
_BUSY = (408, 425, 429)  # the same question may be answered later, and so may all of 5xx but these
_NEVER = (501, 505)


@dataclass(frozen=True)
class Http(Model):
    """A service that is asked for the scores of pairs over HTTP.

    It gets ``{"users": ["ann", "ann"], "items": ["x", "y"]}``, the ids of the data, by POST and answers
    ``{"scores": [0.7, 0.1]}``, higher is better. Nothing is learnt. Meant for ``--precision``, with a file
    that keeps the scores (``--scores``).

    Parameters
    ----------
    url : the address: https, or http on this machine
    batch : pairs per request
    concurrency : requests at the same time
    retries : further requests after one that failed or that the server had no time for
    timeout : seconds for each request
    token : the environment variable that holds a token, sent as ``Authorization: Bearer``; empty for none
    name, version : under which scores are kept, and the name in the result; scores are kept under the
        address where there is no name. Give another version whenever the model behind the address changes

    Examples
    --------
    >>> str(Http(url="http://127.0.0.1:8000/score", version="2026-11"))
    "http(url=http://127.0.0.1:8000/score, version='2026-11')"
    """

    key: ClassVar[str] = "http"
    is_slow: ClassVar[bool] = True

    url: str = "http://127.0.0.1:8000/"
    batch: int = 64
    concurrency: int = 4
    retries: int = 3
    timeout: float = 120.0
    token: str = ""
    name: str = ""
    version: str | int = ""

    def __post_init__(self) -> None:
        check_calls(
            layout="pairs",
            batch=self.batch,
            concurrency=self.concurrency,
            retries=self.retries,
            timeout=self.timeout,
        )
        check_service(self.url)

    def fit(
        self,
        train: Interactions,
        *,
        validate: Validate | None = None,
        seed: int = 0,
        progress: Progress = SILENT,
    ) -> Scorer:
        """Return what asks the service about users and items of train."""
        return SlowScorer(
            Service(self.url, timeout=self.timeout, token=self.token).score_pairs,
            train,
            batch=self.batch,
            concurrency=self.concurrency,
            retries=self.retries,
            timeout=self.timeout,
            name=self.name or self.url,
            version=str(self.version),
        )


def check_service(url: str) -> None:
    """Raise unless an address is one of https, or of http on this machine, without a password in it.

    Examples
    --------
    >>> check_service("https://example.org/score"), check_service("http://localhost:8000/")
    (None, None)
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        parts, host = urlsplit(""), ""
    if parts.scheme not in ("http", "https") or not host or not url.isprintable() or " " in url:
        raise InvalidParameter(
            f"url must be an address such as https://example.org/score, got {excerpt(url)!r}."
        )
    if parts.username is not None or parts.password is not None:
        raise InvalidParameter(
            f"url must hold no user or password, because results repeat it, but that of {host} does. Put a "
            "token into an environment variable and name that as token=..."
        )
    if parts.scheme == "http" and host not in _THIS_MACHINE:
        raise InvalidParameter(
            f"url must begin with https, because others could read and change what is sent to {host} over "
            "http. Use https, or a tunnel that ends on this machine (ssh -L) and http://127.0.0.1."
        )


class Service:
    """An address that answers pairs of ids with scores; may be asked from several threads.

    Parameters
    ----------
    url : the address, see `check_service`
    timeout : seconds for each wait of a request
    token : the environment variable that holds a token; empty for none

    Raises
    ------
    InvalidParameter
        When the address is none of those, or there is no such variable.
    """

    def __init__(self, url: str, *, timeout: float, token: str = "") -> None:
        check_service(url)
        self.url, self.timeout = url, timeout
        self.headers = {
            "Accept": "application/json",
            "Accept-Encoding": "identity",
            "Content-Type": "application/json",
            "User-Agent": f"truerank/{__version__}",
        }
        if token:
            secret = os.environ.get(token, "")
            if not secret.isascii() or not secret.isprintable() or not secret:
                raise InvalidParameter(
                    f"token must be the name of an environment variable that holds a token, but {token!r} "
                    f"{'holds none' if secret else 'is not set'}."
                )
            self.headers["Authorization"] = f"Bearer {secret}"
        self._open = _opener(is_here=urlsplit(url).hostname in _THIS_MACHINE)

    def score_pairs(self, users: list[Any], items: list[Any]) -> list[float]:
        """Return the score of each pair of ids.

        Raises
        ------
        BadAnswer
            When the answer is not one number per pair.
        ConnectionError
            When there is no answer, or none for now.
        """
        from urllib.request import Request

        asked = json.dumps({"users": users, "items": items}).encode()
        most = _MOST_BYTES + _BYTES_PER_PAIR * len(users)
        try:
            request = Request(self.url, asked, self.headers)  # noqa: S310 - see check_service
            with self._open(request, timeout=self.timeout) as answer:
                text = answer.read(most + 1)
        except OSError as error:
            _raise_refusal(error)
        except HTTPException as error:
            raise ConnectionError(f"the connection broke ({type(error).__name__})") from None
        if len(text) > most:
            raise BadAnswer(f"the answer of {self.url} is longer than {most:,} bytes")
        return _scores(text, len(users))


def _opener(*, is_here: bool) -> Callable[..., Any]:
    """Return what opens addresses, without following redirects, and without a proxy on this machine."""
    from urllib.request import HTTPRedirectHandler, ProxyHandler, build_opener

    class NoRedirects(HTTPRedirectHandler):
        def redirect_request(self, *_: Any, **__: Any) -> None:
            return None

    return build_opener(NoRedirects, *([ProxyHandler({})] if is_here else [])).open


def _raise_refusal(error: OSError) -> NoReturn:
    """Raise what an error of urllib means: a reason to ask again, or none."""
    import ssl
    from urllib.error import HTTPError

    if isinstance(error, HTTPError):
        with error:
            headers: Message | Any = error.headers
            if error.code in _BUSY or (500 <= error.code <= 599 and error.code not in _NEVER):
                busy = ConnectionError(f"the server answers {error.code}")
                busy.retry_after = _seconds(headers.get("Retry-After"))  # type: ignore[attr-defined]
                raise busy from None
            if error.code in (301, 302, 303, 307, 308):
                place = excerpt(str(headers.get("Location")))
                raise BadAnswer(f"the server leads to {place!r}, and redirects are not followed") from None
            hint = ", perhaps because of the token" if error.code in (401, 403) else ""
            raise BadAnswer(f"the server answers {error.code}{hint}") from None
    reason = getattr(error, "reason", error)
    if isinstance(reason, ssl.SSLCertVerificationError):
        raise BadAnswer("the certificate of the server is not trusted") from None
    if isinstance(reason, TimeoutError):
        raise TimeoutError("no answer in time") from None
    told = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
    raise ConnectionError(told) from None


def _seconds(written: str | None) -> float:
    """Return the seconds of a header Retry-After; dates, which need a common clock, count as none."""
    return float(written) if written is not None and written.isdecimal() and len(written) < 10 else 0.0


def _scores(text: bytes, n: int) -> list[float]:
    """Return the numbers of an answer; raise `BadAnswer` where it is not as agreed."""
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError):
        raise BadAnswer(f"it gave no JSON ({excerpt(repr(text[:40]))})") from None
    scores = answer.get("scores") if isinstance(answer, dict) else answer
    if not isinstance(scores, list):
        raise BadAnswer('it gave no {"scores": [...]}')
    if len(scores) != n:
        raise BadAnswer(f"it gave {len(scores):,} scores instead of {n:,}")
    for at, score in enumerate(scores):
        if isinstance(score, bool) or not isinstance(score, int | float) or not abs(score) < 1e300:
            raise BadAnswer(f"it gave {excerpt(json.dumps(score))}", at)
    return [float(score) for score in scores]
