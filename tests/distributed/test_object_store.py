"""Object storage: moto's S3 on loopback, as it should be, failing for a while, and failing for ever."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.distributed.attacks import Opaque
from tests.distributed.cluster import loopback
from truerank.core.errors import InvalidData, InvalidParameter, TruerankError
from truerank.data.demo import demo
from truerank.distributed import storage
from truerank.distributed.dask import Dask
from truerank.distributed.files import Files, write_files
from truerank.distributed.storage import list_names, parquet_files, write_bytes
from truerank.distributed.subsample import subsample_files
from truerank.models.registry import MODELS
from truerank.split.base import SPLITS
from truerank.subsampling.subsample import events_frame
from truerank.workflows.evaluate import evaluate
from truerank.workflows.evaluate_on_engine import evaluate_files

for needed in ("moto", "flask", "flask_cors", "s3fs"):
    pytest.importorskip(needed, reason=f"{needed} is not installed")

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.filterwarnings("default")]

EVENTS = demo(n_users=60, n_items=50)
METRICS = "ndcg@10,recall@5"


class Store:
    """An S3 server on loopback whose requests can be made to fail.

    ``trouble`` is called with the method and the path of each request; a number is answered in its place, a
    negative one keeps the client waiting.
    """

    def __init__(self) -> None:
        from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
        from werkzeug.serving import make_server

        self._moto = DomainDispatcherApplication(create_backend_app)
        self._server = make_server("127.0.0.1", 0, self._answer, threaded=True)
        self._ended = threading.Event()
        self.trouble: Callable[[str, str], int | None] = lambda method, path: None
        self.address = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def _answer(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        code = self.trouble(environ["REQUEST_METHOD"], environ["PATH_INFO"])
        if code is None:
            answer: Iterable[bytes] = self._moto(environ, start)
            return answer
        if code < 0:
            self._ended.wait(-code)
        start("500 Internal Server Error", [("Content-Length", "0")])
        return [b""]

    def close(self) -> None:
        self._ended.set()
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture(scope="module")
def server() -> Iterator[Store]:
    """Start a server whose clients wait a second for an answer, and ask three times."""
    import fsspec

    store = Store()
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    quick = {"connect_timeout": 1, "read_timeout": 1, "retries": {"total_max_attempts": 3}}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {
            "AWS_ACCESS_KEY_ID": "anybody",
            "AWS_SECRET_ACCESS_KEY": "anything",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": store.address,
            "AWS_ALLOW_HTTP": "true",
            "AWS_EC2_METADATA_DISABLED": "true",
        }.items():
            patch.setenv(name, value)
        patch.setitem(storage._PATIENCE, "config_kwargs", quick)
        yield store
        fsspec.filesystem("s3").clear_instance_cache()
    store.close()


@pytest.fixture
def bucket(server: Store) -> Iterator[str]:
    """Make a bucket of its own for a test."""
    system, _ = storage._remote("s3://any/thing")
    name = f"bucket-{secrets.token_hex(8)}"
    system.mkdir(name)
    yield f"s3://{name}"
    server.trouble = lambda method, path: None


def put_events(bucket: str) -> str:
    for part in range(3):
        frame = events_frame(EVENTS).filter(pl.col("user_id") % 3 == part)
        path = f"{bucket}/events/part-{part}.parquet"
        write_bytes(path, _parquet(frame))
    return f"{bucket}/events"


def _parquet(frame: pl.DataFrame) -> bytes:
    import io

    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    return buffer.getvalue()


def read_back(place: str) -> pl.DataFrame:
    frames = [pl.read_parquet(storage.fetch_bytes(file)) for file in parquet_files(place)]
    return pl.concat(frames)


def sample(source: str, out: str, **options: Any) -> Any:
    return subsample_files(source, out, "stratified", 0.4, engine=options.pop("engine", "local"), **options)


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> pl.DataFrame:
    """Sample the same files in folders of this machine."""
    place = tmp_path_factory.mktemp("local")
    (place / "events").mkdir()
    for part in range(3):
        frame = events_frame(EVENTS).filter(pl.col("user_id") % 3 == part)
        frame.write_parquet(place / "events" / f"part-{part}.parquet")
    sample(str(place / "events"), str(place / "out"))
    return read_back(str(place / "out"))


def times(n: int, method: str, part: str, code: int = 500) -> Callable[[str, str], int | None]:
    """Return trouble for the first n requests of a method whose path holds a word."""
    left = [n]

    def trouble(asked: str, path: str) -> int | None:
        if asked != method or part not in path or left[0] <= 0:
            return None
        left[0] -= 1
        return code

    return trouble


def test_work_folders(bucket: str) -> None:
    """Vectors, a model file and a pickle travel by S3; nothing private stays."""
    split = SPLITS.make("leave-last-out").split(EVENTS)
    models = {"ials": "ials(sweeps=1, factors=4)", "ease": "ease", "mine": Opaque()}
    there = evaluate(models, split, METRICS, engine="local(threads=2)", work_dir=f"{bucket}/job", rows=16)
    assert there.estimates == evaluate(models, split, METRICS).estimates
    names = list_names(f"{bucket}/job")
    assert len(names) == 3
    assert not [name for name in names if "private" in name]
    again = evaluate(models, split, METRICS, engine="local(threads=2)", work_dir=f"{bucket}/job", rows=16)
    assert again.estimates == there.estimates


def test_files_that_were_never_here(bucket: str, server: Store) -> None:
    """Without digests polars opens the users itself; a store that fails is said in one sentence."""
    split = SPLITS.make("leave-last-out").split(EVENTS)
    model = MODELS.make("ials(sweeps=1, factors=4)")
    written = write_files(f"{bucket}/job", model.fit(split.train, seed=0), split, "remove")
    users = str(written.users[0]).rpartition("/")[0]
    files = Files(users, items=written.items, item_counts=written.item_counts)
    found = evaluate_files("local", {"ials": files}, METRICS)
    there = evaluate({"ials": model}, split, METRICS)
    assert [one.value for one in found.estimates] == [one.value for one in there.estimates]
    server.trouble = times(10**6, "GET", "users-")
    with pytest.raises(InvalidData, match=r"must be able to read 's3://.*users-00000.parquet', but this one"):
        evaluate_files("local", {"ials": files}, METRICS)


def test_partitioned_data(bucket: str, local: pl.DataFrame) -> None:
    """Dask reads, counts, gathers and writes in other processes: what the driver remembers must not count."""
    pytest.importorskip("distributed", reason="distributed is not installed")
    source = put_events(bucket)
    with loopback() as cluster:
        engine = Dask(cluster.scheduler_address)
        found = sample(source, f"{bucket}/out", engine=engine, work_dir=f"{bucket}/plan")
        assert read_back(f"{bucket}/out").equals(local)
        assert found.n_files == 3
        gathered = sample(source, f"{bucket}/two", engine=engine, work_dir=f"{bucket}/plan", gather=2)
        assert gathered.loss.after.events == found.loss.after.events
    with pytest.raises(InvalidParameter, match=r"to an empty or a new folder, but 's3://.*/out' holds"):
        sample(source, f"{bucket}/out")


@pytest.mark.parametrize(
    ("method", "part", "code"),
    [("PUT", "/out/part", 500), ("GET", "/plan/", 500), ("PUT", "/plan/", -9)],
)
def test_a_store_that_fails_for_a_while(
    bucket: str, server: Store, local: pl.DataFrame, method: str, part: str, code: int
) -> None:
    source = put_events(bucket)
    server.trouble = times(2, method, part, code)
    sample(source, f"{bucket}/out", work_dir=f"{bucket}/plan")
    assert read_back(f"{bucket}/out").equals(local)


@pytest.mark.parametrize(
    ("method", "part", "code"),
    [("PUT", "/out/part-000001", 500), ("PUT", "/plan/", -9), ("GET", "/events/part-1", 500)],
)
def test_a_store_that_fails_for_ever(
    bucket: str, server: Store, local: pl.DataFrame, method: str, part: str, code: int
) -> None:
    """One sentence; what is there is not taken as whole, and the same call finishes it later."""
    source = put_events(bucket)
    server.trouble = times(10**6, method, part, code)
    begun = time.monotonic()
    with pytest.raises(TruerankError) as raised:
        sample(source, f"{bucket}/out", work_dir=f"{bucket}/plan")
    print(f"{method} {part} {code}: {time.monotonic() - begun:.1f} s: {raised.value}")
    said = str(raised.value)
    assert "s3://" in said
    assert "\n" not in said
    assert said.count("s3://") == 1
    server.trouble = lambda asked, path: None
    marker = f"{bucket}/out/_truerank.json"
    assert not storage.exists(marker) or b'"done": false' in storage.fetch_bytes(marker)
    sample(source, f"{bucket}/out", work_dir=f"{bucket}/plan")
    assert read_back(f"{bucket}/out").equals(local)


def test_a_work_folder_that_fails_in_the_middle(bucket: str, server: Store) -> None:
    """A model whose vectors could not be written has no manifest; the next run writes it whole."""
    split = SPLITS.make("leave-last-out").split(EVENTS)
    server.trouble = times(10**6, "PUT", "items.npy")
    with pytest.raises(InvalidParameter, match=r"must be written to 's3://.*items.npy', but that failed"):
        evaluate("ials(sweeps=1, factors=4)", split, METRICS, engine="local", work_dir=f"{bucket}/job")
    server.trouble = lambda method, path: None
    (folder,) = list_names(f"{bucket}/job")
    assert "complete.json" not in list_names(f"{bucket}/job/{folder}")
    found = evaluate("ials(sweeps=1, factors=4)", split, METRICS, engine="local", work_dir=f"{bucket}/job")
    assert found.estimates == evaluate("ials(sweeps=1, factors=4)", split, METRICS).estimates


def test_nobody_answers(server: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import fsspec

    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    fsspec.filesystem("s3").clear_instance_cache()
    with pytest.raises(InvalidData, match=r"must be able to read 's3://lake/events', but this one cannot"):
        sample("s3://lake/events", str(tmp_path / "out"))
    fsspec.filesystem("s3").clear_instance_cache()
