"""Attacks on the command line: every option of every command with hostile values, and odd files."""

from __future__ import annotations

import json
import os
import random
import shutil
import tarfile
import zipfile
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from tests.fuzz.harness import (
    Answer,
    Attack,
    Verdict,
    WrongAnswer,
    call,
    call_process,
    discard,
    judge_call,
    listing,
)
from tests.fuzz.hostile import NUMBERS, WORDS, mutated, mutated_text
from tests.fuzz.specs import REGISTRIES, drawn_spec
from truerank.cli.main import whole_command

EVENTS = "user_id,item_id,rating,timestamp\n" + "".join(
    f"u{u},i{(2 * u + v**3) % 24},{1 + v % 5},{v}\n" for u in range(24) for v in range(6)
)
MODELS = ("--model", "popularity", "--model", "item-knn")
METRICS = ("--metrics", "recall@3")
SCENARIO = ("--scenario", "implicit(metrics='recall@3')")
#: Calls that work, to which hostile values are added.
CALLS: tuple[tuple[str, ...], ...] = (
    ("evaluate", "events.csv", *MODELS, *METRICS),
    ("evaluate", "events.csv", *MODELS, *METRICS, "--negatives", "5", "--estimator", "naive", "--no-bounds"),
    ("evaluate", "events.csv", "--model", "item-knn", *METRICS, "--precision", "0.4"),
    ("sample", "events.csv", *MODELS, "--sampler", "uniform(m=5)", "--out", "sampled.csv"),
    ("estimate", "ranks.csv", *METRICS, "--estimator", "mle", "--uncertainty", "delta", "--no-bounds"),
    ("compare", "exact.csv", *METRICS),
    ("compare", "old.json", "new.json"),
    ("compare", "--data", "events.csv", *MODELS, *METRICS),
    ("plan", "--scale", "1e6x1e5"),
    ("fit", "events.csv", "--model", "item-knn", "--out", "fitted.truerank"),
    (
        "study",
        "events.csv",
        "--model",
        "popularity",
        "--sampler",
        "uniform(m=5)",
        "--cutoffs",
        "1,3",
        "--repeats",
        "2",
    ),
    ("subsample", "events.csv", "--strategy", "random", "--fraction", "0.5", "--out", "small.csv"),
    (
        *("agreement", "events.csv", "--strategies", "random", "--fractions", "0.5", "--seeds", "1"),
        *("--models", "popularity,item-knn", "--resamples", "50", *SCENARIO),
    ),
    ("list", "models", "ease"),
    ("trec", "run.txt", "qrels.txt", "--metrics", "mrr"),
    ("data", "list"),
    ("data", "describe", "ml-1m"),
    ("data", "fetch", "ml-1m"),
    ("paper", "list", "r19"),
    ("paper", "run", "kr20.table1", "--fresh"),
)
#: Calls that take a second or more when nothing is refused, one in twenty.
SLOW: tuple[tuple[str, ...], ...] = (
    ("estimate", "ranks.csv", *METRICS),
    ("plan", "--pilot", "ranks.csv", *METRICS, "--half-width", "0.2"),
    ("plan", "events.csv", *MODELS, *METRICS, "--half-width", "0.2", "--sampler", "uniform(m=5)"),
)
#: Registries whose specs an option takes; models and strategies that train networks are left to their tests.
SPECS = {
    "--split": "SPLITS",
    "--sampler": "SAMPLERS",
    "--estimator": "ESTIMATORS",
    "--metrics": "METRICS",
    "--interval": "INTERVALS",
    "--uncertainty": "UNCERTAINTIES",
    "--scenario": "SCENARIOS",
}
FAST = {
    "--model": (
        "popularity",
        "item-knn(neighbours=2)",
        "ease(reg=1)",
        "saved(path=m.truerank)",
        "arrays(path=a.npz)",
    ),
    "--models": ("popularity,ease", "popularity", "item-knn(neighbours=2),popularity"),
    "--strategy": ("random", "head-user", "temporal", "forest-fire", "centrality", "random-walk"),
    "--engine": (
        "local",
        "local(threads=1)",
        "local(threads=0)",
        "gpu",
        "nosuch",
        "dask(address=x)",
        "spark(master=x)",
    ),
}
WRITTEN = ("--out", "--ranks-out", "--report", "--keep", "--work-dir")
#: Names of outputs that would leave the folder.
OUTSIDE = (
    "/",
    "..",
    "~",
    ".",
    "/dev",
    "/etc",
    "/proc",
    "//host/x",
    "file:",
    "memory:",
    "s3:",
    "hf:",
    "data:",
)


def prepare_files(folder: Path) -> None:
    """Write small files of every kind that commands read."""
    (folder / "events.csv").write_text(EVENTS)
    (folder / "run.txt").write_text(
        "".join(f"q{q} Q0 d{d} {d} {99 - d} t\n" for q in range(4) for d in range(1, 8))
    )
    (folder / "qrels.txt").write_text("".join(f"q{q} 0 d{1 + q % 3} 1\n" for q in range(4)))
    head = "model,user_id,item_id,rank,n_items"
    rows = [
        (model, user, user % 7, 1 + (user * shift) % 9)
        for model, shift in (("a", 3), ("b", 5))
        for user in range(30)
    ]
    (folder / "exact.csv").write_text(f"{head}\n" + "".join(f"{m},{u},{i},{r},100\n" for m, u, i, r in rows))
    (folder / "ranks.csv").write_text(
        f"{head},n_negatives\n" + "".join(f"{m},{u},{i},{r},100,20\n" for m, u, i, r in rows)
    )
    random_numbers = np.random.default_rng(0)
    np.savez(
        folder / "a.npz", user=random_numbers.normal(size=(24, 3)), item=random_numbers.normal(size=(24, 3))
    )
    for name, seed in (("old", "0"), ("new", "1")):
        made = call(
            "-q", "evaluate", "events.csv", *MODELS, *METRICS, "--seed", seed, "--out", f"{name}.json"
        )
        assert made.code == 0, made.err
    made = call("-q", "fit", "events.csv", "--model", "item-knn", "--out", "m.truerank")
    assert made.code == 0, made.err


@cache
def parameters(path: tuple[str, ...]) -> list[Any]:
    """Return the options and arguments of the command that a call names."""
    command: Any = whole_command()
    for word in path:
        inner = getattr(command, "commands", None) or {}
        if word not in inner:
            break
        command = inner[word]
    return [one for one in command.params if one.name != "help"]


def hostile_value(option: str, draw: random.Random) -> str:
    """Return a value for an option, of the kind that it takes or of any other."""
    if option in SPECS and draw.random() < 0.6:
        text = drawn_spec(REGISTRIES[SPECS[option]], draw)[0]
        return mutated_text(text, draw) if draw.random() < 0.3 else text
    if option in FAST and draw.random() < 0.6:
        text = draw.choice(FAST[option])
        return mutated_text(text, draw) if draw.random() < 0.3 else text
    if option in WRITTEN and draw.random() < 0.7:
        suffix = draw.choice(
            [".json", ".csv", ".md", ".tex", ".txt", ".parquet", ".html", ".truerank", "", ".CSV", ".x"]
        )
        return (
            draw.choice(["new", "ä", "x" * 250, "a/b", "new folder", "\x1b[1m", "\ud800", "-x", "%s"])
            + suffix
        )
    return draw.choice(NUMBERS) if draw.random() < 0.6 else draw.choice(WORDS)


def hostile_call(draw: random.Random) -> list[str]:
    """Return the words of a call with one to three hostile values."""
    words = list(draw.choice(SLOW if draw.random() < 0.05 else CALLS))
    known = parameters(tuple(words[:2]))
    for _ in range(draw.choice([1, 1, 1, 2, 3])):
        one = draw.choice(known)
        option = max(one.opts, key=len)
        if one.param_type_name == "argument":
            at = draw.randrange(1, len(words))
            words[at] = hostile_value("", draw)
            continue
        if getattr(one, "is_flag", False):
            words.append(draw.choice([option, *getattr(one, "secondary_opts", [])]))
            continue
        value = hostile_value(option, draw)
        if option in WRITTEN and value.startswith(OUTSIDE):
            continue
        if option in ("--engine", "--data") and value.startswith(("dask", "spark")) and "(" not in value:
            continue
        if option in words and draw.random() < 0.8:
            words[words.index(option) + 1 : words.index(option) + 2] = [value]
        else:
            words += draw.choice([[option, value], [f"{option}={value}"]])
    if (
        draw.random() < 0.5
        and words[0] not in ("sample", "fit", "subsample")
        and words[:2] != ["data", "fetch"]
    ):
        words += ["--format", "json"]
    return words


def check_answer(words: list[str], answer: Answer) -> None:
    """Raise unless JSON is JSON, and seed and level are those that were asked for."""
    if answer.code != 0 or words[-2:] != ["--format", "json"] or "--help" in words:
        return
    try:
        document = json.loads(answer.out, parse_constant=_refuse)
    except ValueError as error:
        raise WrongAnswer(f"what was printed is no JSON: {error}: {answer.out[:300]}") from None
    is_told = isinstance(document, dict) and words[1:3] != ["old.json", "new.json"]  # there a note tells
    told = document.get("provenance", {}) if is_told else {}
    for option, field in (("--seed", "seed"), ("--level", "level"), ("--ties", "ties"), ("--seen", "seen")):
        given = [words[at + 1] for at, word in enumerate(words[:-1]) if word == option]
        if (
            given
            and field in told
            and str(told[field]) != given[-1]
            and float(told[field]) != float(given[-1])
        ):
            raise WrongAnswer(f"{option} {given[-1]} became {told[field]!r}")


def _refuse(constant: str) -> float:
    raise ValueError(constant)


class Options(Attack):
    """Every option of every command with hostile values."""

    name: ClassVar[str] = "options"
    cases: ClassVar[int] = 6_000
    few: ClassVar[int] = 60
    run = staticmethod(call)

    def prepare(self) -> None:
        prepare_files(self.folder)
        self.before = listing(self.folder)

    def attempt(self, draw: random.Random) -> Verdict:
        words = hostile_call(draw)
        self.told = words
        try:
            answer = self.run(*words)
            verdict = judge_call(
                answer, self.folder, self.before, ends=(0, 1) if "--fail-on" in " ".join(words) else (0,)
            )
            check_answer(words, answer)
            return verdict
        except BaseException as error:
            error.add_note(f"truerank {words}")
            raise
        finally:
            discard(self.folder, self.before)


class Processes(Options):
    """The same as real processes, with 6 GiB of address space."""

    name: ClassVar[str] = "options, as processes"
    cases: ClassVar[int] = 300
    few: ClassVar[int] = 0
    run = staticmethod(call_process)


class Places(Attack):
    """URLs, archives, links, pipes and folders in the place of files."""

    name: ClassVar[str] = "URLs, archives and odd files"
    cases: ClassVar[int] = 1_500

    def prepare(self) -> None:
        prepare_files(self.folder)
        (self.folder / "empty").mkdir()
        with zipfile.ZipFile(self.folder / "z.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("events.csv", EVENTS)
        with tarfile.open(self.folder / "t.tar.gz", "w:gz") as tar:
            tar.add(self.folder / "events.csv", "events.csv")
        for name in ("zero.csv", "zero.json", "zero.txt", "zero.truerank", "zero.npz", "zero.parquet"):
            (self.folder / name).symlink_to("/dev/zero")
        for name in ("loop.csv", "loop.json"):
            (self.folder / name).symlink_to(name)
        (self.folder / "gone.csv").symlink_to("nowhere.csv")
        self.before = listing(self.folder)

    def attempt(self, draw: random.Random) -> Verdict:
        words = list(draw.choice(CALLS[:14]))
        files = [at for at, word in enumerate(words) if Path(word).suffix in (".csv", ".json", ".txt")]
        if words[0] == "fit":
            words, files = ["evaluate", "events.csv", "--model", "saved(path=FILE)", *METRICS], [3]
        if not files:
            words, files = ["evaluate", "events.csv", "--model", "arrays(path=FILE)", *METRICS], [3]
        at, suffix = (
            draw.choice(files),
            draw.choice([".csv", ".json", ".txt", ".parquet", ".npz", ".truerank", ".zip"]),
        )
        place = self.place(suffix, draw)
        words[at] = words[at].replace("FILE", f"'{place}'") if "FILE" in words[at] else place
        try:
            before = listing(self.folder)
            return judge_call(call(*words), self.folder, before)
        except BaseException as error:
            error.add_note(f"truerank {words}")
            raise
        finally:
            discard(self.folder, self.before)

    def place(self, suffix: str, draw: random.Random) -> str:
        """Return the name of something that is no plain file of the kind that is asked for."""
        odd = self.folder / f"odd{suffix}"
        kind = draw.randrange(9)
        if kind == 0:
            return draw.choice(
                [
                    *(
                        "http://127.0.0.1:9/a",
                        "https://user:pass@127.0.0.1:9/a",
                        "ftp://127.0.0.1:9/a",
                        "s3://bucket/a",
                    ),
                    *(
                        "gs://b/a",
                        "file:///nowhere/a",
                        "file://",
                        "http://[::1",
                        "http://",
                        "hdfs://x/a",
                        "abfs://c@d/a",
                    ),
                    *(
                        "memory://a",
                        "github://a:b@c/d",
                        "zip://events.csv::z.zip",
                        "gzip://x",
                        "simplecache::s3://b/a",
                    ),
                ]
            ) + draw.choice(["", suffix, f"{suffix}?x=1#y"])
        if kind == 1:
            return draw.choice(["zero", "loop", "gone"]) + suffix
        if kind == 2:
            os.mkfifo(odd)
        elif kind == 3:
            odd.mkdir()
            if draw.random() < 0.5:
                (odd / "part.parquet").write_bytes(draw.randbytes(40))
        elif kind == 4:
            shutil.copyfile(self.folder / draw.choice(["z.zip", "t.tar.gz"]), odd)
        elif kind == 5:
            odd.write_bytes(
                mutated((self.folder / draw.choice(["z.zip", "a.npz", "t.tar.gz"])).read_bytes(), draw)
            )
        elif kind == 6:
            odd.write_bytes(
                draw.choice([b"", b"\n", b"\x00" * 1_000, b"\xff" * 1_000, b"PK\x03\x04", b"{", b"[" * 9_999])
            )
        elif kind == 7:
            with zipfile.ZipFile(odd, "w", zipfile.ZIP_DEFLATED) as archive:
                for name in draw.sample(
                    ["../x.csv", "/x.csv", "user.npy", "item.npy", "header.npy", "a" * 300], 2
                ):
                    archive.writestr(name, bytes(draw.choice([0, 100, 10**6])))
        else:
            return draw.choice(
                [
                    *WORDS,
                    "empty",
                    ".",
                    "/proc/self/environ",
                    "/proc/self/fd",
                    "events.csv/",
                    "./events.csv/..",
                ]
            )
        return str(odd.name)


ATTACKS: tuple[type[Attack], ...] = (Options, Processes, Places)
