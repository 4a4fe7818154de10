"""Exact ranks of many models on many data sets: what the prior of the ``posterior`` interval is learnt from.

One file per data set, split, model and treatment of seen items. Models are fitted once and ranked with seen
items removed and kept; some are fitted badly on purpose. The one target of each user comes last in time
(where there are times) or is drawn at random; at most 10,000 test users are ranked, drawn at random. Files
that are there are not made again, so the run can be interrupted. The data of amazon-magazine-svpcf are part
of amazon-magazine-raw, and those of book-crossing part of book-crossing-2core: who leaves data sets out to
judge what was learnt from the others leaves out both. Models without neural networks come first,
and small data sets come before large ones; what is too dear for a corpus is left out, with the reason.

With ``--targets several`` a tenth or three tenths of each user's events are targets, of at most 2,000 users,
by fewer models and with seen items removed; this corpus goes into a folder of its own.

A file ``<data set>__<split>__<model>__<remove|keep>.npz`` holds ``n_above``, ``n_tied``, ``n_pool`` (as in
`truerank.Ranks`, one row per user) and ``n_history`` (train items of the user), all int32, and ``meta``: JSON
with data_set, split, spec, seen, n_items. Files of several targets also hold ``user``, ``item``,
``n_relevant``, ``n_relevant_above`` and ``n_relevant_tied``, one row per target.

    python -m benchmarks.rank_corpus --keep FOLDER [--targets several] [--only SUBSTRING] [--list]
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import time
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

from truerank.core.checkpoint import replace_file
from truerank.core.errors import DataWarning
from truerank.core.interactions import Interactions
from truerank.core.ranks import Ranks
from truerank.core.scorer import Scorer
from truerank.core.split import Split
from truerank.core.types import IntArray
from truerank.data.catalogue import load
from truerank.data.clean import k_core
from truerank.models.registry import MODELS
from truerank.ranking.exact import exact_ranks
from truerank.split.base import make_split, sample_users

Seen = Literal["remove", "keep"]
SEEN: tuple[Seen, ...] = ("remove", "keep")
MOST_USERS = 10_000
MOST_SEVERAL = 2_000
#: Splits with several targets per user, by the name they have in files.
SEVERAL = {"ratio-0.1": "ratio(test=0.1, valid=0)", "ratio-0.3": "ratio(test=0.3, valid=0)"}
TIMED = ("leave-last-out", "leave-one-out")
UNTIMED = ("leave-one-out",)


@dataclass(frozen=True)
class Source:
    """A data set of the corpus.

    Parameters
    ----------
    name : in the catalogue
    n_users, n_items, n_events : after the filter; what models cost depends on them
    splits : rules, each a part of the corpus
    core : users and items keep at least so many events; 1 keeps all
    """

    name: str
    n_users: int
    n_items: int
    n_events: int
    splits: tuple[str, ...] = UNTIMED
    core: int = 1

    def read(self) -> Interactions:
        """Return the events, each pair once."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)  # part of pinterest-20 will do
            events = load(self.name)
        return k_core(events, self.core, self.core) if self.core > 1 else events


SOURCES: Mapping[str, Source] = {
    "ml-100k": Source("ml-100k", 943, 1_682, 100_000, TIMED),
    "amazon-magazine-svpcf": Source("amazon-magazine-svpcf", 3_092, 1_305, 12_217, TIMED),
    "amazon-magazine-raw": Source("amazon-magazine-subscriptions", 72_098, 2_428, 88_318, TIMED),
    "online-retail-uci": Source("online-retail-uci", 4_339, 3_665, 266_802, TIMED),
    "lastfm-hetrec": Source("lastfm-hetrec", 1_892, 17_632, 92_834),
    "citeulike-a": Source("citeulike-a", 5_551, 16_980, 204_986),
    "ml-1m": Source("ml-1m", 6_040, 3_706, 1_000_209, TIMED),
    "pinterest-20": Source("pinterest-20", 37_501, 9_836, 1_000_154),
    "book-crossing": Source("book-crossing", 15_798, 38_093, 585_579, core=5),
    "book-crossing-2core": Source("book-crossing", 40_445, 135_605, 890_826, core=2),
}


@dataclass(frozen=True)
class Candidate:
    """A model of the corpus and the largest data set on which a fit takes about a minute of one processor.

    Parameters
    ----------
    spec : the model
    items, events, cells : it is left out of data sets with more items, events, or users times items
    stands_in : another spec that it stands in for where that one is too dear; elsewhere both rank alike, and
        it is left out
    needs_time : whether it is left out of data sets without times
    """

    spec: str
    items: float = np.inf
    events: float = np.inf
    cells: float = np.inf
    stands_in: str = ""
    needs_time: bool = False

    def reason_against(self, source: Source) -> str:
        """Return why the model is left out of a data set; nothing when it is not."""
        if self.needs_time and source.splits == UNTIMED:
            return "needs times"
        for what, size, most in (
            ("items", source.n_items, self.items),
            ("events", source.n_events, self.events),
            ("users times items", source.n_users * source.n_items, self.cells),
        ):
            if size > most:
                return f"too dear with more than {most:,} {what}"
        if any(
            one.spec == self.stands_in and not one.reason_against(source) for one in (*CLASSICAL, *NEURAL)
        ):
            return f"too much like {self.stands_in}"
        return ""


#: fitted in this order on each data set; "poorly fitted" models are as much wanted as good ones
CLASSICAL = (
    Candidate("popularity"),
    Candidate("item-knn"),
    Candidate("item-knn(neighbours=20)"),
    Candidate("kr20-z"),
    Candidate("ials"),
    Candidate("ials(factors=8, sweeps=1)"),
    Candidate("kr20-y", items=18_000),
    Candidate("item-knn(power=3, neighbours=200, norm=l2, include_self=true)", stands_in="kr20-y"),
    Candidate("ials(factors=32, reg=0.1)"),
    Candidate("ials(factors=64)"),
    Candidate("ease", items=12_000),
    Candidate("bias-only"),
    Candidate("mf(epochs=3)"),
    Candidate("mf(epochs=12)", items=40_000),
    Candidate("mf", cells=200_000_000),
)
NEURAL = (
    Candidate("sasrec(epochs=5)", needs_time=True),
    Candidate("ngcf(epochs=5)", events=300_000),
    Candidate("multi-vae(epochs=5)", events=300_000),
    Candidate("multi-vae(hidden=100, latent=50, epochs=5)", items=40_000, stands_in="multi-vae(epochs=5)"),
    Candidate("multi-vae(hidden=100, latent=50, epochs=20)", cells=200_000_000),
    Candidate("sasrec(max_length=50, epochs=30)", events=300_000, needs_time=True),
    Candidate("ngcf(factors=32, layers=2, epochs=30)", items=2_000),
    Candidate("neumf(epochs=1)", items=4_000),
    Candidate("svae(max_length=50, epochs=3)", events=100_000, needs_time=True),
)
#: Data sets and models of the corpus of several targets; each model is also a candidate above.
SEVERAL_SETS = (
    "ml-100k",
    "lastfm-hetrec",
    "ml-1m",
    "online-retail-uci",
    "citeulike-a",
    "pinterest-20",
    "book-crossing",
)
SEVERAL_MODELS = (
    "popularity",
    "item-knn",
    "ials",
    "ials(factors=8, sweeps=1)",
    "ease",
    "bias-only",
    "mf(epochs=3)",
)


@dataclass(frozen=True)
class Fit:
    """One model on one split of one data set, ranked twice."""

    data_set: str
    split: str
    candidate: Candidate

    @property
    def spec(self) -> str:
        """The model."""
        return self.candidate.spec

    @property
    def reason_against(self) -> str:
        """Why it is left out; nothing when it is not."""
        return self.candidate.reason_against(SOURCES[self.data_set])

    def file_name(self, seen: Seen) -> str:
        """Return the name of the file with its ranks."""
        model = re.sub(r"[^A-Za-z0-9=.-]+", "_", self.spec).strip("_")
        return f"{self.data_set}__{self.split}__{model}__{seen}.npz"

    def missing(self, folder: Path) -> list[Seen]:
        """Return for which treatments of seen items the folder has no file."""
        wanted = SEEN[:1] if self.split in SEVERAL else SEEN
        return [seen for seen in wanted if not (folder / self.file_name(seen)).is_file()]


def fits(only: str = "", *, has_several: bool = False) -> Iterator[Fit]:
    """Yield the corpus in the order of the work; ``only`` must be part of a file's name."""
    if has_several:
        for data_set, split, candidate in itertools.product(SEVERAL_SETS, SEVERAL, CLASSICAL):
            fit = Fit(data_set, split, candidate)
            if candidate.spec in SEVERAL_MODELS and only in fit.file_name("remove"):
                yield fit
        return
    for group in (CLASSICAL, NEURAL):
        for data_set, source in SOURCES.items():
            for split in source.splits:
                for candidate in group:
                    fit = Fit(data_set, split, candidate)
                    if any(only in fit.file_name(seen) for seen in SEEN):
                        yield fit


@lru_cache(maxsize=1)
def _split(data_set: str, rule: str) -> Split:
    split = make_split(SOURCES[data_set].read(), SEVERAL.get(rule, rule))
    n_users = int((split.test.user_counts() > 0).sum())
    return sample_users(split, min(n_users, MOST_SEVERAL if rule in SEVERAL else MOST_USERS))


def rows_of(ranks: Ranks, history: IntArray, *, has_several: bool = False) -> dict[str, Any]:
    """Return the arrays of a file from ranks and each user's number of train items."""
    assert has_several or (ranks.n_relevant == 1).all(), "each user must have one target"
    several = ("user", "item", "n_relevant", "n_relevant_above", "n_relevant_tied") if has_several else ()
    columns = {
        **{name: getattr(ranks, name) for name in several},
        "n_above": ranks.n_above,
        "n_tied": ranks.n_tied,
        "n_pool": ranks.n_pool,
        "n_history": history[ranks.user],
    }
    return {name: column.astype(np.int32) for name, column in columns.items()}


def write_ranks(path: Path, scorer: Scorer, split: Split, seen: Seen, meta: Mapping[str, Any]) -> None:
    """Rank the targets of a split and write the file in one step."""
    ranks, history = exact_ranks(scorer, split, seen=seen), split.train.by_user().lengths()
    rows = rows_of(ranks, history, has_several=meta["split"] in SEVERAL)
    text = json.dumps({**meta, "seen": seen, "n_items": split.train.n_items})
    replace_file(path, lambda part: np.savez_compressed(part, meta=np.array(text), **rows), "the ranks")


def build(fit: Fit, folder: Path) -> str:
    """Make the files of one model that are missing; return a line that says what it took."""
    start = time.process_time()
    split = _split(fit.data_set, fit.split)
    read = time.process_time()
    scorer = MODELS.make(fit.spec).fit(split.train, seed=0)
    fitted = time.process_time()
    meta = {"data_set": fit.data_set, "split": fit.split, "spec": fit.spec}
    for seen in fit.missing(folder):
        write_ranks(folder / fit.file_name(seen), scorer, split, seen, meta)
    ranked = time.process_time()
    return (
        f"{split.train.n_items:,} items, {len(split.test):,} users; processor seconds: "
        f"read {read - start:.1f}, fit {fitted - read:.1f}, rank {ranked - fitted:.1f}"
    )


def main() -> None:
    """Make what is missing, or list the corpus."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--keep", type=Path, required=True, metavar="FOLDER", help="where the files are")
    parser.add_argument("--only", default="", metavar="SUBSTRING", help="files whose name has it")
    parser.add_argument("--list", action="store_true", help="say what is there, missing and left out")
    parser.add_argument("--targets", choices=("one", "several"), default="one", help="of a user")
    options = parser.parse_args()
    options.keep.mkdir(parents=True, exist_ok=True)
    work = list(fits(options.only, has_several=options.targets == "several"))
    for number, fit in enumerate(work, start=1):
        where = f"{number}/{len(work)} {fit.data_set} {fit.split} {fit.spec}"
        if fit.reason_against:
            print(f"{where}: left out, {fit.reason_against}", flush=True)
        elif options.list or not fit.missing(options.keep):
            print(f"{where}: {'missing' if fit.missing(options.keep) else 'there'}", flush=True)
        else:
            print(f"{where}: {build(fit, options.keep)}", flush=True)


if __name__ == "__main__":
    main()
