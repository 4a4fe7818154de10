"""Evaluation on engines gives what evaluate gives, to the digit."""

from __future__ import annotations

import pickle
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.distributed.cluster import CallOnce, kill, loopback
from truerank.core.errors import InvalidData, InvalidParameter, JobFailed, MissingDependency, UnknownArgument
from truerank.core.interactions import Interactions
from truerank.core.result import Result
from truerank.core.scorer import DenseScores, Factors
from truerank.core.split import Split
from truerank.data.demo import demo
from truerank.data.read import from_arrays
from truerank.distributed.dask import Dask
from truerank.distributed.files import Files, slice_tasks, write_files
from truerank.split.base import SPLITS
from truerank.workflows import evaluate_on_engine as composed
from truerank.workflows.evaluate import evaluate
from truerank.workflows.evaluate_on_engine import evaluate_files

N_USERS, N_ITEMS = 90, 70


@pytest.fixture(scope="module")
def split() -> Split:
    made = SPLITS.make("ratio(valid=0.1)").split(demo(n_users=N_USERS, n_items=N_ITEMS))
    assert made.valid is not None
    return made


@pytest.fixture(scope="module")
def factors() -> Factors:
    """Vectors of small integers, so that many scores tie."""
    rng = np.random.default_rng(0)
    return Factors(
        rng.integers(-2, 3, (N_USERS, 4)).astype(np.float32),
        rng.integers(-2, 3, (N_ITEMS, 4)).astype(np.float32),
        rng.integers(0, 2, N_ITEMS).astype(np.float64),
    )


def same(result: Result, expected: Result) -> None:
    assert result.estimates == expected.estimates
    assert (result.bounds, result.notes) == (expected.bounds, expected.notes)
    assert result.data == expected.data
    for model, ranks in expected.ranks.items():
        for column in ("user", "item", "n_above", "n_tied", "n_pool", "n_relevant_tied"):
            np.testing.assert_array_equal(getattr(result.ranks[model], column), getattr(ranks, column))
    assert result.provenance["data_hash"] == expected.provenance["data_hash"]


@pytest.mark.slow
@pytest.mark.parametrize("rows", [7, 1000, None])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"seen": "bottom", "ties": "random", "seed": 3, "interval": "normal"},
        {"seen": "keep", "ties": "worst", "users": 0.5},
        {"uncertainty": "delta", "sampler": "uniform(m=20)"},
        {
            "uncertainty": "delta",
            "sampler": "uniform(m=9, replace=true, per=target, shared=false)",
            "check": True,
            "seed": 5,
        },
        {"uncertainty": "delta", "sampler": "adaptive(start=5, max=30)", "seen": "bottom"},
        {"sampler": "popularity(m=9)", "estimators": "naive"},
        {"uncertainty": "delta", "sampler": "full", "seen": "keep"},
    ],
    ids=str,
)
def test_factors(split: Split, factors: Factors, options: dict[str, Any], rows: int | None) -> None:
    expected = evaluate({"mine": factors}, split, "ndcg@10,recall@5,auc", **options)
    found = evaluate(
        {"mine": factors}, split, "ndcg@10,recall@5,auc", engine="local(threads=2)", rows=rows, **options
    )
    same(found, expected)
    assert found.provenance["scores_computed"] == expected.provenance["scores_computed"]
    assert found.provenance["engine"] == "local(threads=2)"


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"uncertainty": "delta", "sampler": "uniform(m=20)"},
        {"uncertainty": "delta", "sampler": "adaptive(start=5, max=30)"},
    ],
)
def test_other_scorers(split: Split, options: dict[str, Any]) -> None:
    """Dense scores, sparse rows (item-knn) and vectors of a fitted model."""
    scores = np.random.default_rng(1).integers(0, 9, (N_USERS, N_ITEMS)).astype(np.float32)
    models = {"dense": scores, "knn": "item-knn(neighbours=5)", "ials": "ials(sweeps=1, factors=8)"}
    expected = evaluate(models, split, **options)
    same(evaluate(models, split, engine="local(threads=2)", rows=11, **options), expected)


def test_bounds(split: Split, factors: Factors) -> None:
    options: dict[str, Any] = {"uncertainty": "delta", "sampler": "uniform(m=20)", "bounds": True}
    expected = evaluate({"mine": factors}, split, "recall@5", **options)
    assert expected.bounds
    same(evaluate({"mine": factors}, split, "recall@5", engine="local", rows=40, **options), expected)


def test_the_compiled_path() -> None:
    """More work than NumPy is asked for: 3,000 users, 3,000 items, float32 vectors."""
    rng = np.random.default_rng(2)
    item = np.argsort(rng.random((3000, 40)), axis=1)[:, :3] * 75 + rng.integers(0, 75, (3000, 3))
    user = np.repeat(np.arange(3000), 2)
    train = Interactions.from_codes(user, item[:, :2].ravel(), n_users=3000, n_items=3000)
    test = Interactions.from_codes(np.arange(3000), item[:, 2], n_users=3000, n_items=3000)
    large = {"large": Factors(*rng.normal(size=(2, 3000, 16)).astype(np.float32))}
    for sampler in (None, "uniform(m=50)"):
        expected = evaluate(large, Split(train, test), sampler=sampler, interval="normal")
        found = evaluate(
            large, Split(train, test), engine="local(threads=2)", rows=900, sampler=sampler, interval="normal"
        )
        same(found, expected)


@pytest.mark.parametrize("options", [{}, {"users": 0.5, "seed": 2}, {"ties": "random"}])
def test_sums_do_not_depend_on_the_cut(split: Split, factors: Factors, options: dict[str, Any]) -> None:
    expected = evaluate({"mine": factors}, split, "ndcg@10,auc", interval="normal", **options)
    first, second = (
        evaluate(
            {"mine": factors},
            split,
            "ndcg@10,auc",
            engine="local",
            keep="sums",
            rows=rows,
            interval="normal",
            **options,
        )
        for rows in (7, 50)
    )
    assert first.estimates == second.estimates
    for ours, theirs in zip(first.estimates, expected.estimates, strict=True):
        assert (ours.value, ours.low, ours.high) == pytest.approx(
            (theirs.value, theirs.low, theirs.high), rel=1e-12
        )
        assert (ours.method, ours.target, ours.n_users) == (theirs.method, theirs.target, theirs.n_users)


def test_many_users_give_sums(split: Split, factors: Factors, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(composed, "MOST_RANKS", 10)
    assert evaluate({"mine": factors}, split, engine="local").ranks == {}


def test_a_cutoff_beyond_all_pools_is_refused_but_not_beyond_some(factors: Factors) -> None:
    """User 0 has seen all but two items: alone in its task, the cut-off is larger than its pool."""
    user = np.concatenate([np.zeros(N_ITEMS - 2, int), [1]])
    item = np.concatenate([np.arange(N_ITEMS - 2), [0]])
    train = Interactions.from_codes(user, item, n_users=2, n_items=N_ITEMS)
    test = Interactions.from_codes([0, 1], [N_ITEMS - 1, 5], n_users=2, n_items=N_ITEMS)
    few = Split(train, test)
    for keep in ("ranks", "sums"):
        found = evaluate({"mine": factors}, few, "recall@10", engine="local", rows=1, keep=keep)
        assert found.value("recall@10") == evaluate({"mine": factors}, few, "recall@10").value("recall@10")
        with pytest.raises(InvalidParameter, match=f"at most the largest pool of {N_ITEMS - 1} items"):
            evaluate({"mine": factors}, few, "recall@70", engine="local", rows=1, keep=keep)


def test_a_work_folder_is_used_again(split: Split, factors: Factors, tmp_path: Path) -> None:
    """The second call writes and ranks nothing; other vectors get another folder."""
    first = evaluate({"mine": factors}, split, engine="local", work_dir=tmp_path, rows=40)
    written = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.*")}
    second = evaluate({"mine": factors}, split, engine="local", work_dir=tmp_path, rows=40)
    assert first.estimates == second.estimates
    assert written == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.*")}
    for rows in (30, 45, None):
        again = evaluate({"mine": factors}, split, engine="local", work_dir=tmp_path, rows=rows)
        assert again.estimates == first.estimates
    other = Factors(factors.user, factors.item + 1)
    evaluate({"mine": other}, split, engine="local", work_dir=tmp_path)
    assert len(list(tmp_path.glob("truerank-*"))) == 2


def test_urls(split: Split, factors: Factors, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What fsspec opens is written and read, item vectors by a copy on this machine."""
    pytest.importorskip("fsspec", reason="fsspec is not installed")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    place = (tmp_path / "bucket").as_uri()
    expected = evaluate({"mine": factors}, split)
    same(evaluate({"mine": factors}, split, engine="local", work_dir=place, rows=40), expected)
    folder = next((tmp_path / "bucket").glob("truerank-*"))
    files = Files(f"{folder.as_uri()}/users-*.parquet", f"{folder.as_uri()}/items.npy", name="mine")
    assert evaluate_files("local", replace(files, item_bias=f"{folder.as_uri()}/item_bias.npy")).value(
        "ndcg@10"
    ) == expected.value("ndcg@10")


def write(folder: Path, frame: pl.DataFrame, items: np.ndarray) -> Files:
    """Write users in two partitions, as another tool would."""
    for part in range(2):
        place = folder / f"day={part}"
        place.mkdir(parents=True)
        frame[part::2].write_parquet(place / "part.parquet")
    np.save(folder / "items.npy", items)
    return Files(str(folder), str(folder / "items.npy"), name="lake")


@pytest.fixture
def lake() -> tuple[pl.DataFrame, np.ndarray]:
    """Four users of a lake; user 40 has no target."""
    frame = pl.DataFrame(
        {
            "user": [10, 20, 30, 40],
            "targets": [[2, 0], [1], [4], []],
            "seen": [[1], None, [0, 2], [3]],
            "vector": [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1.0, 0.0]],
        }
    )
    return frame, np.array([[5.0, 1], [4, 9], [3, 3], [2, 9], [1, 0]], np.float64)


def test_files_that_others_wrote(lake: tuple[pl.DataFrame, np.ndarray], tmp_path: Path) -> None:
    """By hand: user 10 has its items at ranks 1 and 2, 20 its one tied first of five, 30 last of three."""
    files = write(tmp_path, *lake)
    found = evaluate_files("local", files, "recall@1,mrr,recall@3", interval="normal")
    assert found.value("recall@1") == pytest.approx((0.5 + 0.5 + 0) / 3)
    assert found.value("mrr") == pytest.approx((1 + (1 + 1 / 2) / 2 + 1 / 3) / 3)
    assert found.value("recall@3") == pytest.approx(1)
    assert found.data == {
        "name": "lake",
        "n_items": 5,
        "n_test": 4,
        "users_with_targets": 3,
        "users_without_targets": 1,
    }
    assert found.ranks["lake"].n_pool.tolist() == [4, 4, 3, 5]
    assert sorted(set(found.ranks["lake"].user.tolist())) == [10, 20, 30]
    assert Result.from_json(found.to_json()).estimates == found.estimates


def test_files_equal_a_split(split: Split, factors: Factors, tmp_path: Path) -> None:
    """What was written for a split, read as files of unknown origin, with draws from the same codes."""
    files = replace(write_files(str(tmp_path), factors, split, "remove"), digest=None)
    for options in (
        {},
        {"uncertainty": "delta", "sampler": "uniform(m=20)"},
        {"sampler": "popularity(m=5)", "estimators": "naive"},
    ):
        expected = evaluate({"mine": factors}, split, **options)  # type: ignore[arg-type]
        found = evaluate_files("local(threads=2)", {"mine": files}, rows=13, **options)  # type: ignore[arg-type]
        assert found.estimates == expected.estimates


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"targets": [[9], [1], [4], []]}, r"item codes must lie in 0\.\.4"),
        ({"targets": [[1], [1], [4], []]}, "train and test must not share pairs.*user 10"),
        ({"targets": [[None, 2], [1], [4], []]}, "lists of targets must not hold nulls"),
        ({"vector": [[1.0], [0.0], [1.0], [1.0]]}, "must have 2 numbers like those of the items"),
        ({"vector": [[np.nan, 0], [0.0, 1], [1.0, 1], [1.0, 1]]}, "user factors must be finite"),
        (
            {"user": ["a", "b", "c", "d"]},
            "user must be an integer in each row.*keep their names in a column id",
        ),
        ({"user": [10, 20, None, 40]}, "user must be an integer in each row"),
        ({"vector": None}, "must have columns user, targets, vector, it lacks vector"),
        ({"targets": [[], [], [], []]}, "at least one target, but no user has any"),
        ({"user": [10, 20, 10, 40]}, None),
        ({"user": [10, 10, 30, 40]}, "rows of one user must lie together"),
    ],
)
def test_bad_files(
    lake: tuple[pl.DataFrame, np.ndarray], tmp_path: Path, change: dict[str, Any], message: str | None
) -> None:
    frame, items = lake
    for name, column in change.items():
        if column is None:
            frame = frame.drop(name)
            continue
        dtype = pl.List(pl.Int64) if name == "targets" else None
        frame = frame.with_columns(pl.Series(name, column, dtype=dtype))
    files = write(tmp_path, frame, items)
    if message is None:
        evaluate_files("local", files, "mrr")
        return
    with pytest.raises(InvalidData, match=message):
        evaluate_files("local", files, "mrr")


def test_users_are_named_by_their_ids(factors: Factors) -> None:
    """Ids are written beside the codes, for messages."""
    users = [f"user {number:03d}" for number in range(N_USERS)]
    events = from_arrays(users * 3, sorted([1, 2, 3] * N_USERS), timestamps=list(range(3 * N_USERS)))
    made = SPLITS.make("leave-last-out").split(events)
    scores = np.ones((N_USERS, 3))
    scores[17] = np.nan
    with pytest.raises(InvalidData, match="user 'user 017' gets NaN"):
        evaluate({"mine": scores}, made, "mrr", engine="local", rows=10)


def test_what_cannot_be_asked(split: Split, factors: Factors, tmp_path: Path) -> None:
    files = write_files(str(tmp_path), factors, split, "remove")
    for options, message in (
        ({"sampler": "uniform(m=9)", "keep": "sums"}, "estimates need all sampled ranks"),
        ({"sampler": "given(path=a.csv)"}, "candidate lists are not sent to workers"),
        ({"keep": "some"}, "keep must be one of auto, ranks, sums"),
        ({"rows": 0}, "rows must be at least 1"),
        ({"keep": "sums", "interval": "bca"}, "bca needs a value per user"),
    ):
        with pytest.raises(InvalidParameter, match=message):
            evaluate({"mine": factors}, split, engine="local", **options)
    with pytest.raises(UnknownArgument, match=r"evaluate_files\(\) has no argument 'users'"):
        evaluate_files("local", files, users=5)  # type: ignore[call-arg]
    with pytest.raises(InvalidParameter, match="at least one model is needed"):
        evaluate_files("local", {})
    with pytest.raises(InvalidParameter, match="by item vectors or by a model file"):
        Files("users.parquet")
    with pytest.raises(InvalidParameter, match="n_items must be given with a scorer"):
        Files("users.parquet", scorer="scorer.pickle")
    with pytest.raises(InvalidData, match="there must be Parquet files at"):
        evaluate_files("local", Files(str(tmp_path / "none"), "items.npy"))
    with pytest.raises(InvalidData, match=r"must be able to read '.*gone\.npy'"):
        evaluate_files("local", replace(files, items=str(tmp_path / "gone.npy"), digest="x"))
    with pytest.raises(InvalidParameter, match="a scorer must be picklable for workers"):
        evaluate({"f": _Unpicklable(N_ITEMS)}, split, engine="local")
    with pytest.raises((InvalidParameter, MissingDependency), match="nowhere://"):
        evaluate({"mine": factors}, split, engine="local", work_dir="nowhere://bucket")
    nothing = split.test.take(np.zeros(0, dtype=np.int64))
    with pytest.raises(InvalidData, match="must hold at least one target"):
        evaluate({"mine": factors}, Split(split.train, nothing), engine="local")
    with pytest.raises(InvalidData, match="must know the 70 items"):
        evaluate(np.zeros((N_USERS, 69)), split, engine="local")
    with pytest.raises(InvalidData, match="there must be a vector for each user"):
        evaluate(Factors(factors.user[:9], factors.item), split, engine="local")


class _Unpicklable(DenseScores):
    def __init__(self, n_items: int) -> None:
        super().__init__(np.zeros((N_USERS, n_items)))

    def __reduce__(self) -> Any:
        raise pickle.PicklingError("it holds a socket")


def test_popularity_needs_counts(lake: tuple[pl.DataFrame, np.ndarray], tmp_path: Path) -> None:
    with pytest.raises(InvalidData, match=r"Name a \.npy file with them in item_counts"):
        evaluate_files("local", write(tmp_path, *lake), "mrr", sampler="popularity(m=1)", estimators="naive")


def test_tasks_are_cut_by_rows(split: Split, factors: Factors, tmp_path: Path) -> None:
    files = write_files(str(tmp_path), factors, split, "remove")
    tasks = slice_tasks(files, 40)
    assert [task.rows for task in tasks] == [30, 30, 30]
    assert [task.payload.start for task in tasks] == [0, 30, 60]
    assert len(slice_tasks(files, 10**9)) == 1
    assert len({task.id for rows in (40, 50, 90) for task in slice_tasks(files, rows)}) == 3 + 2 + 1


@pytest.mark.cluster
def test_dask_gives_the_same_digits_though_a_worker_is_killed(
    split: Split, factors: Factors, tmp_path: Path
) -> None:
    """Exact and sampled ranks with worker 0 killed in the middle; then a worker that cannot read the data."""
    both: dict[str, Any] = {"uncertainty": "delta", "sampler": "uniform(m=20)", "check": True}
    expected = evaluate({"mine": factors, "ease": "ease"}, split, n_threads=1, **both)
    with loopback() as cluster:
        engine = Dask(cluster.scheduler_address)
        worker = cluster.workers[0].process
        rows = CallOnce(lambda: kill(worker.pid))
        found = evaluate(
            {"mine": factors, "ease": "ease"},
            split,
            engine=engine,
            work_dir=tmp_path,
            rows=3,
            progress=rows,
            **both,
        )
        same(found, expected)
        assert rows.function is None
        files = write_files(str(tmp_path), factors, split, "remove")
        gone = replace(files, digest="gone", items=files.items)
        _ = gone.parts  # the driver saw them
        for path in tmp_path.rglob("users-*.parquet"):
            path.unlink()
        with pytest.raises(
            InvalidData, match=r"every worker must be able to read .*\(raised on .*, process \d+"
        ):
            evaluate_files(engine, gone, work_dir=tmp_path / "other")
        with pytest.raises(JobFailed, match="must answer at"):
            evaluate_files(Dask("tcp://127.0.0.1:9", timeout=0.5), gone)


@pytest.mark.parametrize("options", [{}, {"uncertainty": "delta", "sampler": "uniform(m=9)"}])
def test_a_remote_work_folder(split: Split, factors: Factors, options: dict[str, Any]) -> None:
    """Everything workers read lies behind fsspec, in the memory that threads of this process share."""
    fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")
    expected = evaluate({"mine": factors}, split, "ndcg@10", **options)
    try:
        found = evaluate(
            {"mine": factors},
            split,
            "ndcg@10",
            engine="local(threads=2)",
            work_dir="memory://work",
            rows=20,
            **options,
        )
        same(found, expected)
        folder = fsspec.filesystem("memory").ls("/work", detail=False)[0]
        files = Files(f"memory:/{folder}", items=f"memory:/{folder}/items.npy", n_test_users=None)
        assert files.n_rows == expected.data["users_with_targets"]
    finally:
        fsspec.filesystem("memory").rm("/work", recursive=True)
