"""Kept pieces of every kind: a change of any byte is found and told, an interrupted recipe goes on."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from truerank.core.checkpoint import Store
from truerank.core.errors import DataWarning
from truerank.core.model import Model
from truerank.core.ranks import Ranks
from truerank.data.demo import demo
from truerank.models.registry import MODELS
from truerank.papers import krichene2020, rendle2019
from truerank.papers.outcome import PaperNumber, RecipeOutcome
from truerank.papers.recipe import Settings
from truerank.papers.record import Run, keep_run, last_runs
from truerank.papers.store import PaperStore
from truerank.ranking.simulate import simulate_sample
from truerank.split.base import make_split

VALUE = {"ndcg": [0.25, 1e-9], "n": 3, "name": "mf"}
ARRAYS = {"x": np.arange(5), "y": np.array([0.5, -1.0], np.float32), "text": np.array("none")}
PARTS = make_split(demo(n_users=20, n_items=50), "leave-last-out")
MODEL = "mf(factors=2, epochs=1)"
FITTED = MODELS.make(MODEL).fit(PARTS.train)
RUN = Run("r19.table1", RecipeOutcome((PaperNumber("A", "AUC", 0.99, 0.9901),), notes=("a note",)))


class Piece(NamedTuple):
    """A kind of kept piece: how it is written, and how a later process reads it, computing if need be."""

    keep: Callable[[Path], object]
    read: Callable[[Path, Callable[[], None]], Any]


def _told(result: Any, computing: Callable[[], None]) -> Callable[[], Any]:
    def compute() -> Any:
        computing()
        return result

    return compute


def read_value(folder: Path, computing: Callable[[], None]) -> Any:
    return Store(folder).value("v", _told(VALUE, computing))


def read_arrays(folder: Path, computing: Callable[[], None]) -> Any:
    found = Store(folder).arrays("a", _told(ARRAYS, computing))
    return {name: (array.dtype.str, array.tolist()) for name, array in found.items()}


def read_fit(folder: Path, computing: Callable[[], None]) -> Any:
    model = MODELS.make(MODEL)

    class Watched(type(model)):  # type: ignore[misc]
        def fit(self, *arguments: Any, **options: Any) -> Any:
            computing()
            return FITTED

    watched: Model = Watched(**vars(model))
    scorer = PaperStore(folder)._fitted("fit", watched, PARTS, 0, Settings().progress)
    return scorer.score(np.arange(20), np.arange(50)).tolist()


def read_run(folder: Path, computing: Callable[[], None]) -> Any:
    """A run that is damaged is left out, which is as good as computing it again."""
    found = last_runs(folder)
    if not found:
        computing()
        keep_run(folder, RUN)
    return (found or last_runs(folder))["r19.table1"].to_dict()


def ignore() -> None:
    """What is computed first is of no interest."""


PIECES = {
    "value": Piece(lambda folder: read_value(folder, ignore), read_value),
    "arrays": Piece(lambda folder: read_arrays(folder, ignore), read_arrays),
    "fit": Piece(lambda folder: read_fit(folder, ignore), read_fit),
    "run": Piece(lambda folder: keep_run(folder, RUN), read_run),
}


def changes(whole: bytes, n_regions: int) -> list[bytes]:
    """In each region of the file: bytes flipped, dropped, doubled and zeroed; and the file cut there."""
    rng = np.random.default_rng(0)
    edges = np.unique(np.linspace(0, len(whole), n_regions + 1).astype(int))
    changed = [b"", b"[" * 100_000, whole + whole]
    for first, last in pairwise(edges.tolist()):
        at = int(rng.integers(first, last))
        flipped = bytes([whole[at] ^ int(rng.integers(1, 256))])
        changed += [
            whole[:at] + flipped + whole[at + 1 :],
            whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :],
            whole[:at] + whole[at + 1 :],
            whole[:last] + whole[first:],
            whole[:first] + bytes(last - first) + whole[last:],
            whole[:first],
        ]
    return changed


@pytest.mark.slow
@pytest.mark.parametrize("kind", PIECES)
def test_no_change_is_taken_as_a_value(tmp_path: Path, kind: str) -> None:
    """What was kept is found, or it is computed again with a note; no other error comes out."""
    piece = PIECES[kind]
    piece.keep(tmp_path)
    (path,) = (path for path in tmp_path.rglob("*") if path.is_file())
    whole, expected = path.read_bytes(), piece.read(tmp_path, pytest.fail)
    n_again, changed = 0, changes(whole, 40)
    for content in changed:
        if content == whole:
            continue
        path.write_bytes(content)
        computed: list[int] = []
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            assert piece.read(tmp_path, lambda computed=computed: computed.append(1)) == expected  # type: ignore[misc]
        notes = [one for one in told if issubclass(one.category, DataWarning)]
        assert len(notes) == len(computed) <= 1
        assert all("is damaged" in str(one.message) for one in notes)
        n_again += len(computed)
        if computed:
            assert piece.read(tmp_path, pytest.fail) == expected  # what was computed is kept again
    assert n_again > 0.7 * len(changed)  # archives hold dates and such, which mean nothing


def test_the_fit_of_another_model_is_not_taken(tmp_path: Path) -> None:
    read_fit(tmp_path, ignore)
    (path,) = tmp_path.iterdir()
    other = MODELS.make("mf(factors=3, epochs=1)")
    with pytest.warns(DataWarning, match="is damaged, or of other work, and is computed again"):
        scorer = PaperStore(tmp_path)._fitted("fit", other, PARTS, 0, Settings().progress)
    assert scorer.factors().user.shape[1] != 2  # type: ignore[attr-defined]
    assert list(tmp_path.iterdir()) == [path]


class Interrupting:
    """A progress that interrupts at a step of some number."""

    def __init__(self, step: int) -> None:
        self.left = step

    def task(self, label: str, total: int | None = None) -> Interrupting:
        return self

    def done(self, task: object) -> None:
        pass

    def advance(self, steps: int = 1) -> None:
        self.left -= steps
        if self.left == 0:
            raise KeyboardInterrupt


@pytest.mark.slow
def test_rendle_2019_goes_on_where_it_was_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of three recommenders with 20 repetitions each, the first is finished."""
    with pytest.raises(KeyboardInterrupt):
        rendle2019.sampled_table(Settings(repeats=20, progress=Interrupting(25), store=PaperStore(tmp_path)))
    assert len(list(tmp_path.iterdir())) == 1
    labels: list[str] = []

    def counted(*arguments: Any, label: str, **options: Any) -> Any:
        labels.append(label)
        return simulate_sample(*arguments, label=label, **options)

    monkeypatch.setattr(rendle2019, "simulate_sample", counted)
    continued = rendle2019.sampled_table(Settings(repeats=20, store=PaperStore(tmp_path)))
    assert labels == ["B"] * 20 + ["C"] * 20
    assert continued == rendle2019.sampled_table(Settings(repeats=20))
    labels.clear()
    assert rendle2019.sampled_table(Settings(repeats=20, store=PaperStore(tmp_path))) == continued
    assert labels == []


def test_krichene_2020_fits_nothing_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """X, Y, Z and four starts of X, interrupted after two starts, in three processes."""
    fitted: list[object] = []

    def fit(of: object, seed: int) -> Ranks:
        fitted.append(of)
        return Ranks.single(np.arange(5) + seed, n_pool=40)

    monkeypatch.setattr(krichene2020, "_fit_of_x", lambda sweeps, seed: fit((sweeps, seed), seed))
    monkeypatch.setattr(krichene2020, "_fit_of", lambda name: fit(name, 9))
    monkeypatch.setattr(krichene2020, "_digest", lambda: "data")
    monkeypatch.setattr(krichene2020, "X_STARTS", 4)

    def run(progress: Any = None) -> list[list[int]]:
        monkeypatch.setattr(krichene2020, "_fitted", {})  # another process
        fitted.clear()
        settings = Settings(store=PaperStore(tmp_path))
        ranks = krichene2020.recommender_ranks(settings.store)
        starts = krichene2020.ranks_of_starts(progress or settings.progress, settings.store)
        return [each.n_above.tolist() for each in (*ranks.values(), *starts)]

    with pytest.raises(KeyboardInterrupt):
        run(Interrupting(2))
    assert fitted == [(6, 11), "Y", "Z", (6, 0), (6, 1)]
    found = run()
    assert fitted == [(6, 2), (6, 3)]
    assert run() == found
    assert fitted == []
    assert [each[0] for each in found] == [11, 9, 9, 0, 1, 2, 3]
