"""Attacks on work folders: planted code is never run, and changed files never change a number."""

from __future__ import annotations

import json
import pickle
import stat
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.distributed.attacks import N_ITEMS, N_USERS, Meddling, Opaque, Planted
from truerank import evaluate
from truerank.core.checkpoint import Store
from truerank.core.digest import content_digest, file_hash
from truerank.core.errors import DataWarning, InvalidData, InvalidParameter
from truerank.core.scorer import DenseScores, Factors
from truerank.core.split import Split
from truerank.data.demo import demo
from truerank.distributed import storage
from truerank.distributed.dask import Dask
from truerank.distributed.engine import EngineTask
from truerank.distributed.files import MANIFEST, Files, slice_tasks, write_files
from truerank.distributed.map_tasks import map_tasks
from truerank.distributed.sealed import private_folder, write_pickle
from truerank.distributed.storage import drop_copies, map_array, version_stamp, write_bytes
from truerank.models.saved_scorer import save_scorer
from truerank.split.base import SPLITS
from truerank.workflows.evaluate_on_engine import evaluate_files

METRIC = "ndcg@5"


@pytest.fixture(scope="module")
def split() -> Split:
    return SPLITS.make("leave-last-out").split(demo(n_users=N_USERS, n_items=N_ITEMS))


@pytest.fixture(scope="module")
def factors() -> Factors:
    rng = np.random.default_rng(0)
    return Factors(rng.normal(size=(N_USERS, 4)), rng.normal(size=(N_ITEMS, 4)))


@pytest.fixture
def trap(tmp_path: Path) -> Iterator[Planted]:
    """What an attacker plants; the test fails if it was run."""
    planted = Planted(tmp_path / "planted-code-was-run")
    pickle.loads(pickle.dumps(planted))
    assert planted.path.exists(), "the trap works"
    planted.path.unlink()
    yield planted
    assert not planted.path.exists()


def value(found: Any) -> float:
    return float(found.value(METRIC))


def test_a_pickle_planted_in_a_kept_folder_is_not_loaded(split: Split, tmp_path: Path, trap: Planted) -> None:
    work = tmp_path / "work"
    expected = value(evaluate({"mine": Opaque()}, split, METRIC))
    assert value(evaluate({"mine": Opaque()}, split, METRIC, engine="local", work_dir=work)) == expected
    (folder,) = work.glob("truerank-*")
    for name in ("scorer.pickle", "scorer.truerank"):
        (folder / name).write_bytes(pickle.dumps(trap))
    for partial in (work / "partials").rglob("*.npz"):
        partial.unlink()
    assert value(evaluate({"mine": Opaque()}, split, METRIC, engine="local", work_dir=work)) == expected


def test_a_pickle_that_is_swapped_during_the_run_is_refused(
    split: Split, tmp_path: Path, trap: Planted
) -> None:
    seen: list[tuple[int, int]] = []

    class Swapping(Meddling):
        def meddle(self) -> None:
            (place,) = (tmp_path / "work").glob("truerank-private-*/scorer.pickle")
            seen.append((stat.S_IMODE(place.parent.stat().st_mode), len(list(place.parent.iterdir()))))
            place.write_bytes(pickle.dumps(trap))

    with pytest.raises(InvalidData, match="must hold what this run wrote, but somebody has changed it"):
        evaluate({"mine": Opaque()}, split, METRIC, engine=Swapping(), work_dir=tmp_path / "work")
    assert seen == [(0o700, 2)]  # with the lock of the folder
    assert not list((tmp_path / "work").glob("truerank-private-*")), "removed at the end"


@pytest.mark.parametrize("model", ["item-knn", "ease", "dense"])
def test_scorers_made_of_arrays_travel_without_pickle(split: Split, tmp_path: Path, model: str) -> None:
    scores = np.random.default_rng(1).normal(size=(N_USERS, N_ITEMS))
    named: dict[str, Any] = {"mine": scores if model == "dense" else model}
    expected = value(evaluate(named, split, METRIC))
    assert value(evaluate(named, split, METRIC, engine="local", work_dir=tmp_path)) == expected
    assert not list(tmp_path.rglob("*.pickle"))
    (folder,) = tmp_path.glob("truerank-*")
    assert (folder / "scorer.truerank").is_file()
    told = json.loads((folder / MANIFEST).read_text())["files"]
    assert told == {path.name: file_hash(path) for path in folder.iterdir() if path.name != MANIFEST}


@pytest.mark.parametrize("does_the_manifest_follow", [False, True])
def test_flipped_vectors_are_written_anew(
    split: Split, factors: Factors, tmp_path: Path, does_the_manifest_follow: bool
) -> None:
    """The attack that once changed ndcg@5 from 0.0749 to 0.2028."""
    arguments: dict[str, Any] = {"engine": "local", "work_dir": tmp_path}
    expected = evaluate({"mine": factors}, split, METRIC, **arguments)
    (folder,) = tmp_path.glob("truerank-*")
    np.save(folder / "items.npy", -np.load(folder / "items.npy"))
    if does_the_manifest_follow:
        manifest = json.loads((folder / MANIFEST).read_text())
        manifest["files"]["items.npy"] = file_hash(folder / "items.npy")
        (folder / MANIFEST).write_text(json.dumps(manifest))
    for partial in (tmp_path / "partials").rglob("*.npz"):
        partial.unlink()
    with pytest.warns(DataWarning, match=r"was damaged or comes from other versions: items\.npy did not"):
        again = evaluate({"mine": factors}, split, METRIC, **arguments)
    assert value(again) == value(expected)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert value(evaluate({"mine": factors}, split, METRIC, **arguments)) == value(expected)


@pytest.mark.parametrize("name", ["items.npy", "users-00000.parquet", "item_counts.npy"])
def test_files_that_change_during_the_run_are_refused(
    split: Split, factors: Factors, tmp_path: Path, name: str
) -> None:
    class Flipping(Meddling):
        def meddle(self) -> None:
            (place,) = (tmp_path).glob(f"truerank-*/{name}")
            if name.endswith(".npy"):
                np.save(place, -np.load(place))
            else:
                pl.read_parquet(place).reverse().write_parquet(place)

    options: dict[str, Any] = (
        {"sampler": "popularity(m=5)", "estimators": "naive"} if "counts" in name else {}
    )
    with pytest.raises(InvalidData, match="must hold what this run wrote or found intact, but it was chan"):
        evaluate({"mine": factors}, split, METRIC, engine=Flipping(), work_dir=tmp_path, **options)


def test_a_half_written_folder_is_completed_without_a_word(
    split: Split, factors: Factors, tmp_path: Path
) -> None:
    files = write_files(str(tmp_path), factors, split, "remove")
    (folder,) = tmp_path.glob("truerank-*")
    (folder / MANIFEST).unlink()
    (folder / "items.npy").write_bytes(b"half")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert write_files(str(tmp_path), factors, split, "remove") == files
    assert np.array_equal(np.load(folder / "items.npy"), factors.item)


def test_a_damaged_manifest_is_written_anew(split: Split, factors: Factors, tmp_path: Path) -> None:
    write_files(str(tmp_path), factors, split, "remove")
    (folder,) = tmp_path.glob("truerank-*")
    (folder / MANIFEST).write_text("{")
    with pytest.warns(DataWarning, match=r"complete\.json did not hold what belongs there and was written"):
        write_files(str(tmp_path), factors, split, "remove")
    assert "items.npy" in json.loads((folder / MANIFEST).read_text())["files"]


@pytest.mark.parametrize("name", [MANIFEST, "items.npy"])
def test_a_folder_in_the_place_of_a_work_file(
    split: Split, factors: Factors, tmp_path: Path, name: str
) -> None:
    files = write_files(str(tmp_path), factors, split, "remove")
    (folder,) = tmp_path.glob("truerank-*")
    (folder / name).unlink()
    (folder / name).mkdir()
    is_told = name != MANIFEST  # without one the folder is taken for half-written
    told = pytest.warns(DataWarning, match=f"{name} did not hold") if is_told else nullcontext()
    with told:
        assert write_files(str(tmp_path), factors, split, "remove") == files
    (folder / name).unlink()
    (folder / name / "more").mkdir(parents=True)
    with pytest.raises(InvalidParameter, match=rf"{name}' is a folder that cannot be removed"):
        write_files(str(tmp_path), factors, split, "remove")


def test_a_pickle_in_place_of_a_model_file_is_refused(split: Split, tmp_path: Path, trap: Planted) -> None:
    files = write_files(str(tmp_path), Factors(np.ones((N_USERS, 1)), np.ones((N_ITEMS, 1))), split, "remove")
    place = tmp_path / "scorer.pickle"
    place.write_bytes(pickle.dumps(trap))
    with pytest.raises(InvalidData, match="must be a model file of truerank, but it is not one"):
        evaluate_files("local", Files(files.users, scorer=str(place), n_items=N_ITEMS), METRIC)


def test_a_model_file_of_the_user_is_ranked(split: Split, tmp_path: Path) -> None:
    scores = np.random.default_rng(1).normal(size=(N_USERS, N_ITEMS))
    files = write_files(str(tmp_path), Factors(np.ones((N_USERS, 1)), np.ones((N_ITEMS, 1))), split, "remove")
    expected = evaluate({"mine": scores}, split, METRIC)
    save_scorer(tmp_path / "mine.truerank", DenseScores(scores))
    mine = Files(files.users, scorer=str(tmp_path / "mine.truerank"), n_items=N_ITEMS)
    assert value(evaluate_files("local", mine, METRIC)) == value(expected)


def test_a_scorer_that_must_be_pickled_needs_a_private_folder(split: Split, tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match="a scorer of type Opaque is not made of arrays"):
        write_files(str(tmp_path), Opaque(), split, "remove")


def test_copies_of_remote_files_are_private_and_removed(
    factors: Factors, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file at the place where copies once lay, predictable from the URL, is not read."""
    pytest.importorskip("fsspec", reason="fsspec is not installed")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "bucket").mkdir()
    np.save(tmp_path / "bucket" / "items.npy", factors.item)
    url = f"{(tmp_path / 'bucket').as_uri()}/items.npy"
    digest = content_digest([f"{url}\n{version_stamp(url)}"], size=12)
    np.save(tmp_path / f"truerank-{digest}.npy", -factors.item)
    drop_copies()
    assert np.array_equal(map_array(url), factors.item)
    (folder,) = tmp_path.glob("truerank-copies-*")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    copied = map_array(url)
    drop_copies()
    assert not folder.exists()
    assert np.array_equal(copied, factors.item), "what is mapped stays readable"


def test_a_remote_scorer_planted_in_the_temporary_folder_is_not_loaded(
    split: Split, tmp_path: Path, trap: Planted, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    made: list[str] = []
    write = storage.write_bytes

    def write_and_plant(path: str, data: bytes, **options: Any) -> None:
        write(path, data, **options)
        if path.startswith("memory://"):
            made.append(path)
            digest = content_digest([f"{path}\n{version_stamp(path)}"], size=12)
            (tmp_path / f"truerank-{digest}{Path(path).suffix}").write_bytes(pickle.dumps(trap))

    for module in ("files", "sealed"):
        monkeypatch.setattr(f"truerank.distributed.{module}.write_bytes", write_and_plant)
    expected = value(evaluate({"mine": Opaque()}, split, METRIC))
    memory = fsspec.filesystem("memory")
    try:
        found = evaluate({"mine": Opaque()}, split, METRIC, engine="local", work_dir="memory://sealed")
        assert value(found) == expected
        assert [path for path in made if path.endswith("scorer.pickle")]
        assert not [path for path in memory.find("/sealed") if "private" in path], "removed at the end"
    finally:
        memory.rm("/sealed", recursive=True)
    assert not list(tmp_path.glob("truerank-copies-*"))


def test_changed_remote_files_are_refused(factors: Factors, tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")
    memory = fsspec.filesystem("memory")
    data = storage.array_bytes(factors.item)
    try:
        write_bytes("memory://sealed/items.npy", data)
        assert len(map_array("memory://sealed/items.npy", storage.seal_of(data))) == N_ITEMS
        write_bytes("memory://sealed/items.npy", storage.array_bytes(-factors.item))
        drop_copies()
        with pytest.raises(InvalidData, match=r"memory://sealed/items\.npy' must hold what this run wrote"):
            map_array("memory://sealed/items.npy", storage.seal_of(data))
    finally:
        memory.rm("/sealed", recursive=True)


def test_writing_follows_no_link(tmp_path: Path) -> None:
    """A link in place of the file is replaced; what it leads to stays as it was."""
    victim, place = tmp_path / "victim", tmp_path / "items.npy"
    victim.write_text("mine")
    place.symlink_to(victim)
    write_bytes(str(place), b"new")
    assert victim.read_text() == "mine"
    assert not place.is_symlink()
    assert place.read_bytes() == b"new"
    assert {path.name for path in tmp_path.iterdir()} == {"victim", "items.npy"}


def test_a_linked_work_file_is_checked_by_its_contents(
    split: Split, factors: Factors, tmp_path: Path
) -> None:
    files = write_files(str(tmp_path / "work"), factors, split, "remove")
    (folder,) = (tmp_path / "work").glob("truerank-*")
    np.save(tmp_path / "other.npy", -factors.item)
    (folder / "items.npy").unlink()
    (folder / "items.npy").symlink_to(tmp_path / "other.npy")
    with pytest.raises(InvalidData, match="it was changed since"):
        files.map(str(files.items))
    with pytest.warns(DataWarning, match="items.npy"):
        write_files(str(tmp_path / "work"), factors, split, "remove")
    assert np.array_equal(np.load(tmp_path / "other.npy"), -factors.item), "the link was replaced, not used"


def test_the_key_is_not_written_and_not_shown(tmp_path: Path) -> None:
    with private_folder(str(tmp_path)) as folder:
        sealed = write_pickle(folder, "one.pickle", [1], what="a list", instead="")
        assert sealed.load() == [1]
        assert sealed.key not in Path(sealed.path).read_bytes()
        assert repr(sealed) == f"SealedPickle(path={sealed.path!r})"
        other = write_pickle(folder, "two.pickle", [1], what="a list", instead="")
        assert other.key != sealed.key
        Path(sealed.path).write_bytes(Path(other.path).read_bytes())
        assert sealed.load() == [1], "the same bytes"
        Path(sealed.path).write_bytes(b"")
        with pytest.raises(InvalidData, match="so it is not loaded"):
            sealed.load()


def test_kept_results_of_functions_run_no_code(tmp_path: Path, trap: Planted) -> None:
    store = Store(tmp_path / "kept")
    assert map_tasks("local", abs, {"a": -1}, key="abs", store=store) == {"a": 1}
    (place,) = (tmp_path / "kept").glob("*.npz")
    place.unlink()
    forged = {"partial": np.frombuffer(pickle.dumps(trap), np.uint8)}
    Store(tmp_path / "kept").arrays("each abs/a", lambda: forged)
    assert place.exists(), "under the same name"
    with pytest.raises(InvalidData, match="the kept result of task a must be JSON, but it is damaged"):
        map_tasks("local", abs, {"a": -1}, key="abs", store=Store(tmp_path / "kept"))
    with pytest.raises(InvalidParameter, match="results that are kept must be what JSON can hold"):
        map_tasks("local", complex, {"a": 1}, key="complex", store=store)


@pytest.mark.cluster
def test_workers_of_a_cluster_load_what_the_run_wrote(
    split: Split, factors: Factors, dask: Any, tmp_path: Path, trap: Planted
) -> None:
    """In other processes: the same digits by pickle, model file and vectors, and no planted code."""
    models: dict[str, Any] = {"opaque": Opaque(), "knn": "item-knn", "factors": factors}
    engine = Dask(dask.scheduler_address)
    expected = evaluate(models, split, METRIC)
    found = evaluate(models, split, METRIC, engine=engine, work_dir=tmp_path / "work", rows=20)
    assert found.estimates == expected.estimates
    assert not list((tmp_path / "work").glob("truerank-private-*"))

    class Swapping(Dask):
        def map(self, *arguments: Any, **options: Any) -> Any:
            (place,) = (tmp_path / "other").glob("truerank-private-*/scorer.pickle")
            place.write_bytes(pickle.dumps(trap))
            return super().map(*arguments, **options)

    with pytest.raises(InvalidData, match="must hold what this run wrote, but somebody has changed it"):
        evaluate(
            {"mine": Opaque()},
            split,
            METRIC,
            engine=Swapping(dask.scheduler_address),
            work_dir=tmp_path / "other",
        )


def test_a_task_carries_the_seal_of_its_file(split: Split, factors: Factors, tmp_path: Path) -> None:
    files = write_files(str(tmp_path), factors, split, "remove")
    tasks: list[EngineTask] = slice_tasks(files, 20)
    assert {task.payload.seal for task in tasks} == {files.seals["users-00000.parquet"]}
    assert set(files.for_job().seals) == {"items.npy", "item_counts.npy"}
