"""A server on this machine that answers pairs with scores, counts them, and can misbehave."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class ScoreServer(ThreadingHTTPServer):
    """Answers with ``model(users, items)``; ``asked`` lists every pair, ``answers`` come before that.

    An answer is (code, body) or (code, body, headers).
    """

    daemon_threads = True

    def __init__(self, model: Callable[[list[Any], list[Any]], list[float]]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.model, self.lock = model, threading.Lock()
        self.asked: list[tuple[Any, Any]] = []
        self.answers: list[tuple[Any, ...]] = []
        self.headers: list[dict[str, str]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/score"


class _Handler(BaseHTTPRequestHandler):
    server: ScoreServer

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            self.server.headers.append(dict(self.headers))
            planned = self.server.answers.pop(0) if self.server.answers else None
        if planned is None:
            scores = self.server.model(body["users"], body["items"])
            with self.server.lock:
                self.server.asked += list(zip(body["users"], body["items"], strict=True))
            planned = (200, json.dumps({"scores": scores}).encode())
        code, text, headers = (*planned, {})[:3]
        if code is None:
            self.close_connection = True
            return
        self.send_response(code)
        for name, value in {"Content-Length": str(len(text)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text)

    def do_GET(self) -> None:
        raise AssertionError("a redirect was followed")

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@contextmanager
def serving(model: Callable[[list[Any], list[Any]], list[float]]) -> Iterator[ScoreServer]:
    """Run a server for the length of the block."""
    server = ScoreServer(model)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
