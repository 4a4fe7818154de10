"""Attacks on what truerank has written: results, models, kept pieces and work folders.

A result is the user's own: a number that was changed is read as that number, or the file is refused. Model
files, kept pieces and work folders carry digests: one that was changed is never taken for the whole one.
"""

from __future__ import annotations

import json
import random
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from tests.fuzz.commands import METRICS, MODELS, SCENARIO, prepare_files
from tests.fuzz.harness import Attack, Verdict, WrongAnswer, call, discard, judge_call, listing
from tests.fuzz.hostile import WORDS, changed_json, mutated
from truerank.core.errors import TruerankError
from truerank.core.result import Result
from truerank.models.saved_scorer import load_scorer
from truerank.models.saving import read_arrays, write_arrays
from truerank.papers.record import reference_runs, runs_from_json, runs_to_json
from truerank.workflows.agreement.result import Agreement
from truerank.workflows.compare.result import Comparison


def differences(written: Any, read: Any, path: str = "") -> list[str]:
    """Return where two JSON values differ; a field that only one has is no difference."""
    if isinstance(written, dict) and isinstance(read, dict):
        return [
            text
            for key in written.keys() & read.keys()
            for text in differences(written[key], read[key], f"{path}/{key}")
        ]
    if isinstance(written, list) and isinstance(read, list) and len(written) == len(read):
        return [
            text
            for at, pair in enumerate(zip(written, read, strict=True))
            for text in differences(*pair, f"{path}/{at}")
        ]
    is_same = written == read and isinstance(written, bool) == isinstance(read, bool)
    return [] if is_same else [f"{path}: {written!r} was read as {read!r}"]


class JsonFiles(Attack):
    """Results, comparisons, agreements and records of papers with changed bytes and values."""

    name: ClassVar[str] = "saved: JSON"
    cases: ClassVar[int] = 4_000
    few: ClassVar[int] = 80

    def prepare(self) -> None:
        prepare_files(self.folder)
        calls: dict[str, tuple[str, ...]] = {
            "comparison": ("compare", "exact.csv", *METRICS),
            "agreement": (
                *("agreement", "events.csv", "--strategies", "random", "--fractions", "0.5", "--seeds", "1"),
                *("--models", "popularity,item-knn", "--resamples", "50", *SCENARIO),
            ),
        }
        texts = {"result": (self.folder / "old.json").read_text()}
        for name, words in calls.items():
            made = call("-q", *words, "--format", "json")
            assert made.code == 0, made.err
            texts[name] = made.out
        texts["record"] = runs_to_json([min(reference_runs().items())[1]])
        self.texts = texts
        self.readers: dict[str, Callable[[str], Any]] = {
            "result": Result.from_json,
            "comparison": Comparison.from_json,
            "agreement": Agreement.from_json,
        }
        self.before = listing(self.folder)

    def attempt(self, draw: random.Random) -> Verdict:
        kind = draw.choice(sorted(self.texts))
        if draw.random() < 0.4:
            text = mutated(self.texts[kind].encode(), draw).decode("utf-8", "replace")
        else:
            text = json.dumps(changed_json(json.loads(self.texts[kind]), draw)[0])
        if kind == "record":
            again = runs_to_json(runs_from_json(text))
            check_same(as_recorded(text), again)
            return Verdict.ok
        if kind == "result" and draw.random() < 0.2:
            return self.compare(text)
        read = self.readers[kind](text)
        check_same(text, read.to_json())
        read.to_table()
        read.to_polars()
        str(read)
        return Verdict.ok

    def compare(self, text: str) -> Verdict:
        """Let the command line read a result."""
        (self.folder / "odd.json").write_text(text, encoding="utf-8", errors="surrogatepass")
        try:
            return judge_call(
                call("compare", "old.json", "odd.json"), self.folder, self.before | {"odd.json"}
            )
        finally:
            discard(self.folder, self.before)


def check_same(text: str, again: str) -> None:
    """Raise unless what was read writes itself with the values of the text."""
    found = differences(json.loads(text), json.loads(again))
    found = [one for one in found if not one.startswith(("/schema_version:", "/command:"))]
    if found:
        raise WrongAnswer("; ".join(found[:3]))


def as_recorded(text: str) -> str:
    """Return runs with what a record shortens, and nothing else, as it keeps it.

    Times are kept to tenths of a second, values and errors of cells to eight digits.
    """
    runs = json.loads(text)
    for run in runs:
        run |= {key: round(run[key], 1) for key in ("seconds", "cpu_seconds")}
        for cell in run["cells"]:
            cell[3:5] = [float(f"{number:.8g}") for number in cell[3:5]]
    return json.dumps(runs)


class ModelFiles(Attack):
    """Model files with changed bytes, with changed arrays under a right digest, and archives of arrays."""

    name: ClassVar[str] = "saved: models and arrays"
    cases: ClassVar[int] = 3_000

    def prepare(self) -> None:
        prepare_files(self.folder)
        for name in ("ease", "popularity"):
            path = f"{name}.truerank"
            made = call("-q", "fit", "events.csv", "--model", name, "--out", path)
            assert made.code == 0, made.err
        self.files = ("ease.truerank", "popularity.truerank", "m.truerank")
        self.whole = {name: (self.folder / name).read_bytes() for name in self.files}
        self.scores = {name: self.score(name) for name in self.files}
        self.arrays = (self.folder / "a.npz").read_bytes()
        self.before = listing(self.folder)
        self.expected = call("-q", "evaluate", "events.csv", "--model", "arrays(path=a.npz)", *METRICS).out

    def score(self, name: str) -> np.ndarray:
        """Return all scores of a model file."""
        saved = load_scorer(self.folder / name)
        return np.asarray(saved.scorer.score(np.arange(24), np.arange(saved.scorer.n_items)))

    def attempt(self, draw: random.Random) -> Verdict:
        odd = self.folder / "odd.truerank"
        name, kind = draw.choice(self.files), draw.randrange(10)
        try:
            if kind < 6:
                odd.write_bytes(mutated(self.whole[name], draw))
                if not np.array_equal(self.score("odd.truerank"), self.scores[name]):
                    raise WrongAnswer(f"a changed {name} has other scores")
                return Verdict.ok
            if kind < 9:
                self.rewrite(self.folder / name, odd, draw)
                self.score("odd.truerank")
                words = ("-q", "evaluate", "events.csv", "--model", "saved(path=odd.truerank)", *METRICS)
                return judge_call(call(*words), self.folder, self.before | {odd.name})
            odd = self.folder / "odd.npz"
            odd.write_bytes(mutated(self.arrays, draw))
            answer = call("-q", "evaluate", "events.csv", "--model", "arrays(path=odd.npz)", *METRICS)
            verdict = judge_call(answer, self.folder, self.before | {odd.name})
            if verdict is Verdict.ok and answer.out.split()[-3:] != self.expected.split()[-3:]:
                raise WrongAnswer(f"changed arrays gave {answer.out}")
            return verdict
        finally:
            discard(self.folder, self.before)

    def rewrite(self, whole: Path, odd: Path, draw: random.Random) -> None:
        """Write the file with another array or field, and the digest that belongs to it."""
        header, arrays = read_arrays(whole)
        fields = {
            key: value
            for key, value in header.items()
            if key not in ("format", "version", "truerank", "blake2b")
        }
        if draw.random() < 0.5:
            fields = changed_json(fields, draw)[0]
        else:
            name = draw.choice(sorted(arrays))
            array = arrays[name]
            changes: list[Callable[[], Any]] = [
                *(
                    lambda: array[:-1],
                    lambda: array.reshape(-1),
                    lambda: array.astype(np.float16),
                    lambda: array[None],
                ),
                *(
                    lambda: array * np.nan,
                    lambda: array.astype(np.float64) * 1e9,
                    lambda: -array.astype(np.int64),
                    lambda: array[:0],
                ),
                *(lambda: np.zeros((1, 1)), lambda: array.astype(bool), lambda: np.asfortranarray(array)),
                *(
                    lambda: np.repeat(array, 3, axis=0),
                    lambda: array.astype(np.complex128),
                    lambda: array.astype(">f8"),
                ),
            ]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                changed = dict(arrays)
                if draw.random() < 0.2:
                    changed[draw.choice([*WORDS[:8], "user_ids", "item_text", "header"])] = changed.pop(name)
                else:
                    changed[name] = draw.choice(changes)()
            arrays = changed
        try:
            write_arrays(odd, fields, arrays)
        except (TruerankError, ValueError, TypeError, OverflowError, RecursionError, UnicodeError):
            shutil.copyfile(whole, odd)  # no file can be so


class KeptPieces(Attack):
    """Kept pieces of studies, agreements and recipes, and work folders: damaged ones are computed again."""

    name: ClassVar[str] = "kept pieces and work folders"
    cases: ClassVar[int] = 1_200
    few: ClassVar[int] = 12

    def prepare(self) -> None:
        prepare_files(self.folder)
        models = ("--models", "popularity,item-knn", "--resamples", "50", *SCENARIO)
        self.calls: dict[str, tuple[str, ...]] = {
            "study": (
                *("study", "events.csv", "--model", "popularity", "--sampler", "uniform(m=5)"),
                *("--cutoffs", "1,3", "--repeats", "2", "--keep", "study"),
            ),
            "agreement": (
                *("agreement", "events.csv", "--strategies", "random", "--fractions", "0.5", "--seeds", "1"),
                *(*models, "--keep", "agreement"),
            ),
            "work": ("evaluate", "events.csv", *MODELS, *METRICS, "--engine", "local", "--work-dir", "work"),
            "paper": ("paper", "run", "r19.table1", "--quick", "--keep", "paper"),
        }
        self.expected = {name: self.answer(words)[1] for name, words in self.calls.items()}
        shutil.copytree(self.folder, self.folder.parent / "whole", dirs_exist_ok=True)

    def answer(self, words: tuple[str, ...]) -> tuple[Verdict, Any]:
        """Return the answer of a call without times."""
        made = call("-q", *words, "--format", "json")
        verdict = judge_call(made, self.folder, listing(self.folder))
        return verdict, _without_times(json.loads(made.out)) if verdict is Verdict.ok else None

    def attempt(self, draw: random.Random) -> Verdict:
        name = draw.choice(sorted(self.calls))
        shutil.rmtree(self.folder / name)
        shutil.copytree(self.folder.parent / "whole" / name, self.folder / name)
        files = sorted(path for path in (self.folder / name).rglob("*") if path.is_file())
        for path in draw.sample(files, min(len(files), draw.choice([1, 1, 2, 99]))):
            self.damage(path, files, draw)
        verdict, found = self.answer(self.calls[name])
        if verdict is Verdict.ok and found != self.expected[name]:
            raise WrongAnswer(f"{name}: {differences(self.expected[name], found)[:3]}")
        return verdict

    def damage(self, path: Path, files: list[Path], draw: random.Random) -> None:
        """Change a file, or put something else in its place."""
        kind = draw.randrange(10)
        data = path.read_bytes()
        path.unlink()
        if kind == 0:
            path.mkdir()
        elif kind == 1:
            path.symlink_to("nowhere")
        elif kind == 2:
            other = draw.choice(files)
            path.write_bytes(other.read_bytes() if other.is_file() else b"")
        elif kind == 3 and path.suffix == ".json":
            path.write_text(json.dumps(changed_json(json.loads(data), draw)[0]))
        elif kind > 3:
            path.write_bytes(mutated(data, draw))


#: Fields that say how long something took, and the sentence that repeats it.
TIMES = ("seconds", "versions", "speedup", "speedup_validated", "answer")


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_times(one) for key, one in value.items() if key not in TIMES}
    return [_without_times(one) for one in value] if isinstance(value, list) else value


ATTACKS: tuple[type[Attack], ...] = (JsonFiles, ModelFiles, KeptPieces)
