"""Sub-samples of partitioned Parquet are those of the data in one piece, to the row."""

from __future__ import annotations

import json
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from tests.distributed.cluster import CallOnce, kill, loopback
from tests.subsampling.strategies import drawn_events, fractions
from truerank.core.errors import DataWarning, InvalidData, InvalidParameter, JobFailed, UnknownName
from truerank.core.interactions import Interactions
from truerank.core.types import IntArray
from truerank.data.read import from_frame
from truerank.distributed import partitions as census
from truerank.distributed import selection as key_cut
from truerank.distributed import subsample as module
from truerank.distributed.dask import Dask
from truerank.distributed.selection import DISTRIBUTABLE
from truerank.distributed.subsample import subsample_files
from truerank.subsampling.base import STRATEGIES
from truerank.subsampling.subsample import SubSample, events_frame, select_events

EVERY = [
    *("random", "stratified", "stratified(legacy=true)", "temporal", "temporal(legacy=true)"),
    *("random-user", "random-user(exact=false)", "head-user", "head-user(exact=false)"),
    *("random-item", "random-item(exact=false)", "head-item", "head-item(exact=false)"),
]


def log(n_users: int = 40, n_items: int = 30, seed: int = 0, *, text: bool = False) -> pl.DataFrame:
    """Users of 1 to 60 events in the order of their ids, some pairs repeated, ids with gaps."""
    rng = np.random.default_rng(seed)
    user = np.repeat(np.arange(n_users), rng.geometric(0.06, n_users).clip(1, 60))
    n = len(user)
    item = np.minimum(rng.geometric(0.1, n), n_items) - 1
    frame = pl.DataFrame(
        {
            "uid": 3 * user + 5,
            "movie": 7 * item,
            "stars": rng.integers(1, 6, n),
            "when": rng.integers(0, 50, n),
            "note": rng.random(n),
        }
    )
    return frame.with_columns(pl.format("u{}", "uid").alias("uid")) if text else frame


COLUMNS = {"user": "uid", "item": "movie", "rating": "stars", "timestamp": "when"}


def write(folder: Path, frame: pl.DataFrame, parts: IntArray) -> Path:
    """Write the rows of each part as a file."""
    folder.mkdir()
    for part in np.unique(parts):
        frame.filter(pl.Series(parts == part)).write_parquet(folder / f"f{part:03d}.parquet")
    return folder


def by_user(frame: pl.DataFrame, n_parts: int, seed: int = 0) -> IntArray:
    """Return a part for each row, the same for all rows of a user."""
    own = frame["uid"].rank("dense").to_numpy() - 1
    parts: IntArray = np.random.default_rng(seed).integers(0, n_parts, int(own.max()) + 1)[own]
    return parts


def expected(frame: pl.DataFrame, strategy: str, fraction: float, seed: int, **read: Any) -> SubSample:
    return select_events(from_frame(frame, columns=COLUMNS, **read), strategy, fraction, seed=seed)


def ordered(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.sort(frame.columns)


@pytest.mark.parametrize("strategy", EVERY)
@pytest.mark.parametrize("duplicates", ["keep", "last"])
def test_the_events_are_those_of_the_data_in_one_piece(
    tmp_path: Path, strategy: str, duplicates: str
) -> None:
    frame = log(text=duplicates == "last")
    for number, (n_parts, engine) in enumerate([(1, "local(threads=1)"), (7, "local(threads=3)")]):
        source = write(tmp_path / f"in{number}", frame, by_user(frame, n_parts))
        out = tmp_path / f"out{number}"
        found = subsample_files(
            source, out, strategy, 0.3, engine=engine, columns=COLUMNS, duplicates=duplicates, seed=5
        )
        known = expected(frame, strategy, 0.3, 5, duplicates=duplicates)
        kept = pl.read_parquet(out / "*.parquet")
        assert_frame_equal(ordered(kept), ordered(events_frame(known.train)))
        assert found.loss == known.loss
        assert found.n_files == len(list(out.glob("part-*.parquet"))) == n_parts
    assert 0 < kept.height < frame.height


def test_rows_keep_their_order(tmp_path: Path) -> None:
    frame = log()
    parts = (frame["uid"].to_numpy() > 50).astype(np.int64)  # files in the order of the rows
    subsample_files(write(tmp_path / "in", frame, parts), tmp_path / "out", "random", 0.5, columns=COLUMNS)
    assert_frame_equal(
        pl.read_parquet(tmp_path / "out/*.parquet"), events_frame(expected(frame, "random", 0.5, 0).train)
    )


@settings(max_examples=40, deadline=None)
@given(drawn_events(least=1), st.sampled_from(EVERY), fractions, st.integers(1, 4), st.integers(0, 9))
def test_any_events_and_any_partitions(
    events: Interactions, strategy: str, fraction: float, n_parts: int, seed: int
) -> None:
    frame = events_frame(events)
    whole = from_frame(frame, duplicates="keep")
    known = select_events(whole, strategy, fraction, seed=seed)
    parts = np.random.default_rng(seed).integers(0, n_parts, whole.n_users)[whole.user]
    with tempfile.TemporaryDirectory() as name:
        source = write(Path(name) / "in", frame, parts)
        found = subsample_files(
            source, Path(name) / "out", strategy, fraction, seed=seed, duplicates="keep", engine="local"
        )
        kept = pl.read_parquet(Path(name) / "out/*.parquet")
    assert_frame_equal(ordered(kept), ordered(events_frame(known.train)))
    assert found.loss == known.loss


@pytest.mark.parametrize("strategy", EVERY)
def test_gathered_users(tmp_path: Path, strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows lie anywhere, in files that are cut into slices."""
    monkeypatch.setattr("truerank.distributed.partitions.SLICE_ROWS", 50)
    frame = log().sample(fraction=1, shuffle=True, seed=1)
    source = write(tmp_path / "in", frame, np.arange(frame.height) * 3 // frame.height)
    found = subsample_files(
        source, tmp_path / "out", strategy, 0.4, columns=COLUMNS, gather=5, engine="local(threads=2)"
    )
    known = expected(frame, strategy, 0.4, 0)
    assert_frame_equal(
        ordered(pl.read_parquet(tmp_path / "out/*.parquet")), ordered(events_frame(known.train))
    )
    assert found.loss == known.loss
    assert 1 < found.n_files <= 5


def test_users_in_several_files(tmp_path: Path) -> None:
    frame = log()
    source = write(tmp_path / "in", frame, np.arange(frame.height) % 2)
    for strategy in ("random", "stratified", "head-user"):
        with pytest.raises(
            InvalidData,
            match=r"must lie in one file, but \d+ users have theirs in several, such as \d+ in '.*f000.pa"
            r"rquet' and '.*f001.parquet'. Repartition them with gather=64",
        ):
            subsample_files(source, tmp_path / "out", strategy, 0.5, columns=COLUMNS)


@pytest.mark.parametrize("name", STRATEGIES.names())
def test_every_strategy_works_or_says_why_not(tmp_path: Path, name: str) -> None:
    frame = log(8)
    source, out = write(tmp_path / "in", frame, by_user(frame, 2)), tmp_path / "out"
    if name in DISTRIBUTABLE.replace(" or ", ", ").split(", "):
        found = subsample_files(source, out, name, 0.5, columns=COLUMNS)
        assert found.loss.after.events == round(0.5 * found.loss.before.events)
        return
    with pytest.raises(
        InvalidParameter, match=r"and a worker has one partition\. Use random, stratified, .* head-item"
    ):
        subsample_files(source, out, name, 0.5, columns=COLUMNS)
    assert not out.exists()


def test_a_place_that_cannot_be_a_folder(tmp_path: Path) -> None:
    frame = log(8)
    source = write(tmp_path / "in", frame, by_user(frame, 2))
    (tmp_path / "letter.txt").write_text("Dear Sir")
    for place, reason in (("letter.txt", "File exists"), ("letter.txt/deeper", "Not a directory")):
        with pytest.raises(InvalidParameter, match=rf"the sub-sample must be .* that failed \({reason}\)"):
            subsample_files(source, tmp_path / place, "random", 0.5, columns=COLUMNS)


def test_types_agree_in_all_files(tmp_path: Path) -> None:
    """One file has whole times and short ratings, the other has not; the result can be read as one table."""
    frame = pl.DataFrame({"user": [1, 1, 2, 2], "item": [1, 2, 1, 2]}).with_columns(
        rating=pl.Series([1.0, 2.0, 0.1, 0.2]), time=pl.Series([1.0, 2.0, 0.5, 3.0])
    )
    source = write(tmp_path / "in", frame, np.array([0, 0, 1, 1]))
    subsample_files(source, tmp_path / "out", "random", 1)
    first, second = (pl.read_parquet(tmp_path / f"out/part-00000{part}.parquet") for part in (0, 1))
    assert first.schema == second.schema
    assert_frame_equal(pl.concat([first, second]), events_frame(from_frame(frame)), check_dtypes=False)


def test_files_without_rows_are_passed_over(tmp_path: Path) -> None:
    frame = log(6)
    source = write(tmp_path / "in", frame, by_user(frame, 2))
    frame.clear().write_parquet(source / "f000a.parquet")
    found = subsample_files(source, tmp_path / "out", "random", 0.5, columns=COLUMNS)
    assert found.n_files == 2
    assert found.loss == expected(frame, "random", 0.5, 0).loss
    (tmp_path / "none").mkdir()
    frame.clear().write_parquet(tmp_path / "none" / "f.parquet")
    for gather in (None, 2):
        with pytest.raises(InvalidData, match="must hold at least one event, but they hold none"):
            subsample_files(
                tmp_path / "none", tmp_path / f"o{gather}", "random", 0.5, columns=COLUMNS, gather=gather
            )


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"fraction": 1.5}, "fraction must be a number from 0 to 1"),
        ({"strategy": "randm"}, "Did you mean 'random'"),
        ({"seed": -1}, "seed must be an integer"),
        ({"gather": 0}, "gather must be at least 1"),
        ({"duplicates": "maybe"}, "duplicates must be one of"),
        ({"duplicates": "error"}, "each pair must occur once"),
        ({"columns": {"user": "nobody"}}, "must have a column 'nobody'"),
        ({"columns": {**COLUMNS, "timestamp": ""}, "strategy": "temporal"}, "needs a timestamp for each"),
        ({"source": "nowhere"}, "there must be Parquet files at 'nowhere'"),
        ({"engine": "local(threads=0)"}, "threads must be at least 1"),
    ],
)
def test_bad_input(tmp_path: Path, change: dict[str, Any], sentence: str) -> None:
    frame = log(8)
    asked: dict[str, Any] = {"strategy": "random", "fraction": 0.5, "columns": COLUMNS, **change}
    source = asked.pop("source", write(tmp_path / "in", frame, by_user(frame, 2)))
    with pytest.raises((InvalidData, InvalidParameter, UnknownName), match=sentence):
        subsample_files(source, tmp_path / "out", asked.pop("strategy"), asked.pop("fraction"), **asked)
    assert not list((tmp_path / "out").glob("*.parquet"))


def test_files_that_differ(tmp_path: Path) -> None:
    frame = log(8)
    source = write(tmp_path / "in", frame, by_user(frame, 2))
    log(4, seed=1, text=True).write_parquet(source / "text.parquet")
    with pytest.raises(InvalidData, match="user ids must be integers in all files or text in all files"):
        subsample_files(source, tmp_path / "out", "random", 0.5, columns=COLUMNS)
    (source / "text.parquet").unlink()
    frame.drop("stars").write_parquet(source / "short.parquet")
    with pytest.raises(InvalidData, match=r"'.*short.parquet' must have a column 'stars'"):
        subsample_files(source, tmp_path / "out", "random", 0.5, columns=COLUMNS)
    (source / "short.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(InvalidData, match=r"must be able to read '.*short.parquet', but this one cannot"):
        subsample_files(source, tmp_path / "out", "random", 0.5, columns=COLUMNS)


def test_ids_with_blanks_are_told_once(tmp_path: Path) -> None:
    """Ids are kept as written, and one note for all files names those with blanks around them."""
    frame = log(8, text=True).with_columns(pl.format(" {}", "uid").alias("uid"))
    source = write(tmp_path / "in", frame, by_user(frame, 4))
    with pytest.warns(DataWarning, match=r"around 8 ids in column 'uid' of the files, such as ' u") as told:
        subsample_files(source, tmp_path / "out", "random", 0.9, columns=COLUMNS)
    assert len(told) == 1
    kept = pl.read_parquet(tmp_path / "out/*.parquet")
    assert set(kept["user_id"]) <= set(frame["uid"])


def test_what_is_there_is_not_touched(tmp_path: Path) -> None:
    frame = log(8)
    source, out = write(tmp_path / "in", frame, by_user(frame, 2)), tmp_path / "out"
    out.mkdir()
    (out / "letter.txt").write_text("Dear Sir")
    with pytest.raises(InvalidParameter, match=r"an empty or a new folder, but '.*out' holds 'letter.txt'"):
        subsample_files(source, out, "random", 0.5, columns=COLUMNS)
    (out / "letter.txt").unlink()
    subsample_files(source, out, "random", 0.5, columns=COLUMNS)
    about = json.loads((out / "_truerank.json").read_text())
    assert (about["done"], about["after"]["events"]) == (True, round(0.5 * about["before"]["events"]))
    with pytest.raises(InvalidParameter, match=r"holds '_truerank.json'"):
        subsample_files(source, out, "random", 0.5, columns=COLUMNS)


def test_it_goes_on_after_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A work folder keeps the counts, and a folder that was not finished is finished by the same call."""
    frame = log()
    source = write(tmp_path / "in", frame, by_user(frame, 3))
    asked: dict[str, Any] = {"columns": COLUMNS, "work_dir": tmp_path / "work"}
    counted = []
    original = census.count_events

    def counting(*given: Any, **named: Any) -> Any:
        before = len(list((tmp_path / "work").rglob("partials/*")))
        counted.append(before)
        return original(*given, **named)

    monkeypatch.setattr(module, "count_events", counting)
    with monkeypatch.context() as patch:
        patch.setattr(module.KeepJob, "run", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            subsample_files(source, tmp_path / "out", "random", 0.5, **asked)
    with pytest.raises(InvalidParameter, match="an empty or a new folder"):  # another draw
        subsample_files(source, tmp_path / "out", "random", 0.4, **asked)
    found = subsample_files(source, tmp_path / "out", "random", 0.5, **asked)
    assert counted == [0, 3]
    assert found.loss == expected(frame, "random", 0.5, 0).loss


@pytest.mark.parametrize(
    ("gather", "pattern"), [(None, "users-000001.parquet"), (None, "items-*.parquet"), (4, "gathered-*/*")]
)
def test_a_damaged_work_folder_is_rebuilt(tmp_path: Path, gather: int | None, pattern: str) -> None:
    """Counts and gathered events that were changed or removed since are made anew, with a note."""
    frame = log()
    source = write(tmp_path / "in", frame, by_user(frame, 3))
    asked: dict[str, Any] = {"columns": COLUMNS, "work_dir": tmp_path / "work", "gather": gather}
    known = expected(frame, "random", 0.5, 0).loss
    assert subsample_files(source, tmp_path / "first", "random", 0.5, **asked).loss == known
    first, *others = sorted((tmp_path / "work").rglob(pattern))
    pl.read_parquet(first).reverse().write_parquet(first)
    if others:
        others[0].unlink()
    with pytest.warns(
        DataWarning, match=r"work folder was damaged: files of \d of \d finished tasks were not"
    ):
        again = subsample_files(source, tmp_path / "again", "random", 0.5, **asked)
    assert again.loss == known
    assert_frame_equal(
        pl.read_parquet(tmp_path / "again/*.parquet"), pl.read_parquet(tmp_path / "first/*.parquet")
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert subsample_files(source, tmp_path / "third", "random", 0.5, **asked).loss == known


@pytest.mark.parametrize("pattern", ["told-items-*.parquet", "told-??????*-000001.parquet"])
def test_plans_that_change_during_the_run_are_refused(
    tmp_path: Path, pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = log()
    source = write(tmp_path / "in", frame, by_user(frame, 3))
    original = key_cut.PartitionPlan.write

    def write_and_meddle(plan: key_cut.PartitionPlan, *given: Any) -> Any:
        made = original(plan, *given)
        place = next(
            path
            for path in sorted((tmp_path / "work").rglob(pattern))
            if ("items" in path.name) == ("items" in pattern)
        )
        pl.read_parquet(place).reverse().write_parquet(place)
        return made

    monkeypatch.setattr(key_cut.PartitionPlan, "write", write_and_meddle)
    with pytest.raises(InvalidData, match=r"told-.* must hold what this run wrote or found intact"):
        subsample_files(
            source, tmp_path / "out", "stratified", 0.5, columns=COLUMNS, work_dir=tmp_path / "work"
        )


def test_workers_that_write_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker whose disk is not the driver's leaves nothing where the driver looks."""
    frame = log(8)
    source, out = write(tmp_path / "in", frame, by_user(frame, 2)), tmp_path / "out"
    original = module.KeepJob.run

    def elsewhere(job: module.KeepJob, *given: Any) -> bytes:
        found = original(job, *given)
        (out / "part-000001.parquet").unlink(missing_ok=True)
        return found

    monkeypatch.setattr(module.KeepJob, "run", elsewhere)
    with pytest.raises(
        JobFailed, match=r"where the driver sees it, but 1 of 2 files are not there\. Name a fo"
    ):
        subsample_files(source, out, "random", 0.5, columns=COLUMNS, engine="local(threads=1)")
    assert json.loads((out / "_truerank.json").read_text())["done"] is False


def test_a_remote_place(tmp_path: Path) -> None:
    """Source, work folder and result behind fsspec; threads of this process see its memory."""
    fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")
    frame = log()
    source = write(tmp_path / "in", frame, by_user(frame, 3))
    system = fsspec.filesystem("memory")
    system.put(str(source), "/lake/in", recursive=True)
    try:
        for number, gather in enumerate((None, 2)):
            found = subsample_files(
                "memory://lake/in",
                f"memory://lake/out{number}",
                "stratified",
                0.3,
                columns=COLUMNS,
                work_dir="memory://lake/work",
                engine="local(threads=2)",
                gather=gather,
            )
            system.get(f"/lake/out{number}", str(tmp_path / f"out{number}"), recursive=True)
            known = expected(frame, "stratified", 0.3, 0)
            kept = pl.read_parquet(tmp_path / f"out{number}" / "*.parquet")
            assert_frame_equal(ordered(kept), ordered(events_frame(known.train)))
            assert found.loss == known.loss
        with pytest.raises(
            InvalidParameter, match="an empty or a new folder, but 'memory://lake/out0' holds"
        ):
            subsample_files("memory://lake/in", "memory://lake/out0", "random", 0.3, columns=COLUMNS)
    finally:
        system.rm("/lake", recursive=True)


def test_a_window_that_misses_is_widened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = log(400)
    source = write(tmp_path / "in", frame, by_user(frame, 3))
    asked = []
    original = key_cut.KeyWindow.around

    def narrow(n_keep: int, n_events: int, times: float) -> key_cut.KeyWindow:
        asked.append(times)
        return original(n_keep, n_events, times)

    monkeypatch.setattr(key_cut, "DEVIATIONS", 0.001)
    monkeypatch.setattr(key_cut, "ADDED", 0.0)
    monkeypatch.setattr(key_cut.KeyWindow, "around", narrow)
    subsample_files(source, tmp_path / "out", "random", 0.3, columns=COLUMNS, seed=1)
    assert asked[:2] == [1.0, 64.0]
    assert_frame_equal(
        ordered(pl.read_parquet(tmp_path / "out/*.parquet")),
        ordered(events_frame(expected(frame, "random", 0.3, 1).train)),
    )


def test_equal_keys_at_the_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Should events of several partitions have one key, still as many are kept as asked."""
    frame = log()
    source = write(tmp_path / "in", frame, by_user(frame, 3))
    original = key_cut.event_keys

    def coarse(*given: Any) -> Any:
        rows, keys = original(*given)
        return rows, keys >> np.uint64(62) << np.uint64(62)

    monkeypatch.setattr(key_cut, "event_keys", coarse)
    monkeypatch.setattr(module, "event_keys", coarse)
    found = subsample_files(source, tmp_path / "out", "random", 0.4, columns=COLUMNS, duplicates="keep")
    assert found.loss.after.events == round(0.4 * frame.height)


@pytest.mark.cluster
def test_a_killed_worker_changes_nothing(tmp_path: Path) -> None:
    """Two workers, of which one is killed while the files are counted."""
    pytest.importorskip("distributed", reason="distributed is not installed")
    frame = log(300)
    source = write(tmp_path / "in", frame, by_user(frame, 12))
    known = expected(frame, "random", 0.3, 0)
    with loopback() as cluster:
        worker = cluster.workers[0].process
        rows = CallOnce(lambda: kill(worker.pid))
        found = subsample_files(
            source,
            tmp_path / "out",
            "random",
            0.3,
            columns=COLUMNS,
            engine=Dask(cluster.scheduler_address),
            work_dir=tmp_path / "work",
            progress=rows,
        )
        assert worker.returncode == -9
        assert rows.rows == 3 * 12  # counted, drawn, written
        (source / "f003.parquet").write_bytes(b"no Parquet")
        with pytest.raises(
            InvalidData, match=r"cannot .*f003|f003.parquet', but this one cannot .*raised on"
        ):
            subsample_files(
                source,
                tmp_path / "other",
                "random",
                0.3,
                columns=COLUMNS,
                engine=Dask(cluster.scheduler_address),
            )
    assert found.loss == known.loss
    kept = pl.read_parquet(tmp_path / "out/*.parquet")
    assert_frame_equal(ordered(kept), ordered(events_frame(known.train)))
