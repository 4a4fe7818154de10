"""Fitted models come back from a file bit for bit, and what is not such a file is refused."""

from __future__ import annotations

import copy
import dataclasses
import io
import json
import pickle
import re
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.models.literal import small_train
from truerank.core.errors import DataWarning, InvalidData, InvalidParameter
from truerank.core.interactions import Interactions, Vocabulary
from truerank.core.model import InterruptedTraining, interrupted_training
from truerank.core.scorer import CallableScores, Factors, HasSparseRows, Scorer, as_scorer
from truerank.core.split import Split
from truerank.models.nets.towers import TowerScorer
from truerank.models.registry import MODELS
from truerank.models.saved_scorer import NAMED_ARRAYS, SCORER_FORMATS, load_scorer, pack_scorer, save_scorer
from truerank.models.saving import pack_ids, unpack_ids
from truerank.ranking.exact import exact_ranks
from truerank.workflows.evaluate import evaluate

TRAIN = small_train()
RNG = np.random.default_rng(0)
CSR = ("indptr", "indices", "data", "shape")
TOWERS = (
    *("user_hidden", "item_hidden", "user_product", "item_product", "user_bias", "item_bias"),
    *("weights", "sizes", "is_last_linear"),
)
ALL = np.arange(TRAIN.n_users), np.arange(TRAIN.n_items)


def towers() -> TowerScorer:
    def floats(*shape: int) -> Any:
        return RNG.normal(size=shape).astype(np.float32)

    return TowerScorer(
        user_hidden=floats(TRAIN.n_users, 4),
        item_hidden=floats(TRAIN.n_items, 4),
        user_product=floats(TRAIN.n_users, 3),
        item_product=floats(TRAIN.n_items, 3),
        user_bias=floats(TRAIN.n_users),
        item_bias=floats(TRAIN.n_items),
        weights=floats(5 * 2 + 2),
        sizes=(4, 2),
        is_last_linear=False,
    )


def sparse() -> Any:
    import scipy.sparse

    return scipy.sparse.random_array((TRAIN.n_users, TRAIN.n_items), density=0.2, rng=RNG).tocsr()


SCORERS: dict[str, Callable[[], Scorer]] = {
    **{
        spec: lambda spec=spec: MODELS.make(spec).fit(TRAIN)  # type: ignore[misc]
        for spec in ("popularity", "ials(factors=3, sweeps=2)", "ease(reg=2)", "item-knn(neighbours=3)")
    },
    "factors with bias": lambda: as_scorer(
        (
            RNG.normal(size=(TRAIN.n_users, 2)),
            RNG.normal(size=(TRAIN.n_items, 2)),
            RNG.normal(size=TRAIN.n_items),
        )
    ),
    "dense": lambda: as_scorer(RNG.normal(size=(TRAIN.n_users, TRAIN.n_items))),
    "sparse": lambda: as_scorer(sparse()),
    "towers": towers,
}


@pytest.mark.parametrize("name", SCORERS)
def test_a_round_trip_gives_the_same_bits(name: str, tmp_path: Path) -> None:
    scorer = SCORERS[name]()
    path = tmp_path / "m.truerank"
    save_scorer(path, scorer, model=name, data=TRAIN)
    found = load_scorer(path)
    assert type(found.scorer) is type(scorer)
    assert np.array_equal(found.scorer.score(*ALL), scorer.score(*ALL))
    assert (found.model, found.n_users, found.n_items) == (name, TRAIN.n_users, TRAIN.n_items)
    assert found.users == TRAIN.users
    assert found.items == TRAIN.items
    assert found.aligned(TRAIN) is found.scorer
    save_scorer(tmp_path / "again.truerank", found.scorer, model=found.model, data=TRAIN)
    assert (tmp_path / "again.truerank").read_bytes() == path.read_bytes()
    assert not any(array.flags.writeable for array in arrays_of(found.scorer))


def arrays_of(value: object) -> Iterator[np.ndarray]:
    if isinstance(value, np.ndarray):
        yield value
    elif hasattr(value, "tocsr"):
        yield from (value.data, value.indices, value.indptr)  # type: ignore[attr-defined]
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from arrays_of(getattr(value, field.name))


def test_every_kind_is_covered() -> None:
    assert {pack_scorer(make())[0] for make in SCORERS.values()} == {*SCORER_FORMATS, *NAMED_ARRAYS}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(MODELS.table) - {"arrays", "http", "saved"}))
def test_whatever_a_model_returns_can_be_saved(name: str, tmp_path: Path) -> None:
    """One epoch where there are epochs."""
    pytest.importorskip("torch", reason="neural models need torch: pip install 'truerank[torch]'")
    model = MODELS.type_of(name)
    short = {"epochs": 1} if "epochs" in model.__dataclass_fields__ else {}
    train = Interactions.from_codes(
        TRAIN.user,
        TRAIN.item,
        n_users=TRAIN.n_users,
        n_items=TRAIN.n_items,
        value=1.0 + TRAIN.item % 5,
        time=np.arange(len(TRAIN)),
    )
    scorer = model(**short).fit(train)
    save_scorer(tmp_path / "m.truerank", scorer)
    loaded = load_scorer(tmp_path / "m.truerank").aligned(train)
    assert np.array_equal(loaded.score(*ALL), scorer.score(*ALL))


def renamed(order: int = 7, extra: int = 0) -> tuple[Interactions, Interactions]:
    """The train events under text ids, and the same events read with ids in another order."""
    rng = np.random.default_rng(order)
    first = [f"{n:03d}" for n in range(60)]
    second = [first[n] for n in rng.permutation(60)]

    def read(names: list[str], more: int) -> Interactions:
        users, items = (Vocabulary.of(names[: size + more]) for size in (TRAIN.n_users, TRAIN.n_items))
        user, item = (
            users.encode([names[n] for n in TRAIN.user]),
            items.encode([names[n] for n in TRAIN.item]),
        )
        return Interactions(user, item, users, items)

    return read(second, 0), read(second, extra)


@pytest.mark.parametrize("name", ["ials(factors=3, sweeps=2)", "ease(reg=2)", "item-knn(neighbours=3)"])
def test_data_read_later_with_fewer_or_more_ids(name: str, tmp_path: Path) -> None:
    """Scores follow the ids; new items rank last; new users say nothing."""
    first, later = renamed(extra=4)
    scorer = MODELS.make(name).fit(first)
    save_scorer(tmp_path / "m.truerank", scorer, model=MODELS.make(name), data=first)
    saved = load_scorer(tmp_path / "m.truerank")
    with pytest.raises(
        InvalidData, match=r"the model must know every user of the data, but it does not know 4"
    ):
        saved.aligned(later)
    aligned = saved.aligned(later, unknown="bottom")
    users, items = later.users.encode(first.users.ids), later.items.encode(first.items.ids)
    expected = scorer.score(np.arange(first.n_users), np.arange(first.n_items))
    np.testing.assert_allclose(aligned.score(users, items), expected, rtol=1e-6, atol=1e-9)
    new = np.setdiff1d(np.arange(later.n_items), items)
    assert (aligned.score(users, new).max(axis=1) < expected.min(axis=1)).all()
    fresh = np.setdiff1d(np.arange(later.n_users), users)
    assert np.ptp(aligned.score(fresh, items), axis=1).max() == 0


def test_fewer_items_than_the_model_knows(tmp_path: Path) -> None:
    """Sparse rows stay sparse and agree with scores; what the data lack is said."""
    scorer = MODELS.make("item-knn(neighbours=3)").fit(TRAIN)
    save_scorer(tmp_path / "m.truerank", scorer, data=TRAIN)
    few = Interactions.from_codes([0], [0], n_users=30, n_items=20)
    with pytest.warns(DataWarning, match="of the model are not in the data"):
        aligned = load_scorer(tmp_path / "m.truerank").aligned(few)
    assert isinstance(aligned, HasSparseRows)
    users = np.array([7, 3, 0])
    assert np.array_equal(aligned.sparse_rows(users).toarray(), scorer.score(users, np.arange(20)))
    assert np.array_equal(aligned.score(users, np.arange(20)), scorer.score(users, np.arange(20)))


def test_sparse_rows_of_unknown_users_are_empty(tmp_path: Path) -> None:
    scorer = MODELS.make("item-knn(neighbours=3)").fit(TRAIN)
    save_scorer(tmp_path / "m.truerank", scorer, data=TRAIN)
    more = Interactions.from_codes([0], [0], n_users=TRAIN.n_users + 2, n_items=TRAIN.n_items)
    aligned = load_scorer(tmp_path / "m.truerank").aligned(more, unknown="bottom")
    assert isinstance(aligned, HasSparseRows)
    users = np.array([TRAIN.n_users, 4, TRAIN.n_users + 1])
    rows = aligned.sparse_rows(users)
    assert np.array_equal(rows.toarray(), aligned.score(users, ALL[1]))
    assert rows.indptr.tolist()[1] == 0


@pytest.mark.parametrize("name", ["ials(factors=3, sweeps=2)", "ease(reg=2)", "item-knn(neighbours=3)"])
def test_evaluate_gives_the_same_result_from_a_file(name: str, tmp_path: Path) -> None:
    test = np.array([(u, i) for u in range(9) for i in range(9) if TRAIN.matrix()[u, i] == 0])
    split = Split(TRAIN, Interactions.from_codes(*test.T, n_users=TRAIN.n_users, n_items=TRAIN.n_items))
    path = tmp_path / "m.truerank"
    save_scorer(path, MODELS.make(name).fit(TRAIN), model=name, data=TRAIN)
    direct, again = evaluate(name, split, "ndcg@5"), evaluate(f"saved(path='{path}')", split, "ndcg@5")
    assert direct.value("ndcg@5") == again.value("ndcg@5")
    fitted = exact_ranks(MODELS.make(name).fit(TRAIN), split)
    assert np.array_equal(exact_ranks(load_scorer(path).scorer, split).n_above, fitted.n_above)


def test_without_ids_the_size_must_be_the_same(tmp_path: Path) -> None:
    path = tmp_path / "m.truerank"
    save_scorer(path, SCORERS["popularity"]())
    saved = load_scorer(path)
    assert saved.users is None
    assert saved.aligned(TRAIN) is saved.scorer
    for n_users, n_items in ((TRAIN.n_users + 1, TRAIN.n_items), (TRAIN.n_users, TRAIN.n_items - 1)):
        other = Interactions.from_codes([0], [0], n_users=n_users, n_items=n_items)
        with pytest.raises(
            InvalidData, match=r"a model of 40 users and 23 items without their ids, but the data"
        ):
            MODELS.make(f"saved(path='{path}')").fit(other)


@pytest.mark.slow
@given(st.lists(st.text(max_size=4), unique=True, max_size=9))
def test_text_ids(ids: list[str]) -> None:
    vocabulary = Vocabulary.of(ids) if ids else Vocabulary.range(0)
    found = unpack_ids(pack_ids(vocabulary, "user"), "user")
    assert found == vocabulary
    assert unpack_ids(pack_ids(vocabulary, "user"), "item") is None


# What is refused.


@pytest.fixture
def path(tmp_path: Path) -> Path:
    save_scorer(tmp_path / "m.truerank", SCORERS["ease(reg=2)"](), data=renamed()[0])
    return tmp_path / "m.truerank"


def members(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def rewrite(path: Path, content: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> None:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in content.items():
            archive.writestr(name, data)


def header_of(content: dict[str, bytes]) -> dict[str, Any]:
    header: dict[str, Any] = json.loads(np.load(io.BytesIO(content["header.npy"])).tobytes())
    return header


def text_array(text: bytes) -> bytes:
    return npy(np.frombuffer(text, np.uint8))


def with_header(path: Path, **fields: Any) -> None:
    content = members(path)
    text = json.dumps({**header_of(content), **fields}).encode()
    rewrite(path, {**content, "header.npy": text_array(text)})


def npy(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def test_any_numpy_reads_the_file(path: Path) -> None:
    """An .npz archive whose header is JSON."""
    with np.load(path, allow_pickle=False) as file:
        header = json.loads(file["header"].tobytes())
        assert np.array_equal(file["scorer/weights"], SCORERS["ease(reg=2)"]().weights)  # type: ignore[attr-defined]
    assert (header["format"], header["version"], header["kind"]) == ("truerank model", 2, "dense-history")


def test_foreign_files(path: Path) -> None:
    for content in (b"", b"user,item\n1,2\n", npy(np.zeros(3)), npy(np.zeros(3)) + path.read_bytes()):
        path.write_bytes(content)
        with pytest.raises(
            InvalidData, match=r"must be a model file of truerank, but it is not one, .* Save"
        ):
            load_scorer(path)
    np.savez(path.with_suffix(".npz"), user=np.zeros((1, 1)))
    with pytest.raises(InvalidData, match=r"but it is another archive\. Save the model again"):
        load_scorer(path.with_suffix(".npz"))
    rewrite(path, {"header.npy": text_array(b'{"format": "other"}')})
    with pytest.raises(InvalidData, match="but it is another archive"):
        load_scorer(path)
    for text in (b"[1", b"\xff", b"[" * 100_000):
        rewrite(path, {"header.npy": text_array(text)})
        with pytest.raises(InvalidData, match="but it is damaged"):
            load_scorer(path)
    with pytest.raises(InvalidData, match=r"there is no model file '.*none'\. Check the path"):
        load_scorer(path.parent / "none")
    with pytest.raises(InvalidData, match=r"must be a file, but '.*' is a folder"):
        load_scorer(path.parent)


def test_files_of_version_1(path: Path) -> None:
    content = members(path)
    header = json.dumps({"format": "truerank model", "version": 1, "truerank": "0.1.0"}).encode()
    rewrite(path, {**{k: v for k, v in content.items() if k != "header.npy"}, "header.json": header})
    with pytest.raises(
        InvalidData,
        match=r"'.*' is a model file of version 1, and this truerank reads version 2\. "
        r"Fit the model again, or load it with the truerank that wrote it\.",
    ):
        load_scorer(path)


def test_truncated_anywhere(path: Path) -> None:
    whole = path.read_bytes()
    for size in np.linspace(0, len(whole) - 1, 60).astype(int):
        path.write_bytes(whole[:size])
        with pytest.raises(InvalidData, match="must be a model file of truerank"):
            load_scorer(path)


@pytest.mark.slow
def test_one_changed_byte_anywhere_is_found_or_means_nothing(path: Path) -> None:
    """Dates and such in the archive may change; scores may not.

    Every byte of the first array's headers and of the directory at the end, and many in between.
    """
    expected = load_scorer(path).scorer.score(*ALL)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    places = [*range(200), *rng.integers(len(whole), size=300), *range(len(whole) - 500, len(whole))]
    refused = 0
    for place in places:
        changed = bytearray(whole)
        changed[place] ^= int(rng.integers(1, 256))
        path.write_bytes(bytes(changed))
        try:
            found = load_scorer(path)
        except InvalidData as error:
            text = str(error)
            assert any(
                end in text for end in ("Save the model again", "Update truerank", "Fit the model again")
            )
            refused += 1
        else:
            assert np.array_equal(found.scorer.score(*ALL), expected)
    assert refused > 0.6 * len(places)


def test_content_that_was_exchanged(path: Path) -> None:
    """With a valid archive around it: the digest speaks."""
    content = members(path)
    weights = np.load(io.BytesIO(content["scorer/weights.npy"])).copy()
    weights[0, 1] += 1
    rewrite(path, {**content, "scorer/weights.npy": npy(weights)})
    with pytest.raises(InvalidData, match="damaged: its arrays are not those that were written"):
        load_scorer(path)
    rewrite(path, {**content, "more.npy": npy(weights)})
    with pytest.raises(InvalidData, match="damaged: its arrays are not those that were written"):
        load_scorer(path)
    rewrite(path, {name: data for name, data in content.items() if name != "ids/item_ends.npy"})
    with pytest.raises(InvalidData, match="damaged: its arrays are not those that were written"):
        load_scorer(path)
    for extra in ({"more.txt": b"x"}, {"header": b"x"}):
        rewrite(path, {**content, **extra})
        with pytest.raises(InvalidData, match="its members are not arrays with different names"):
            load_scorer(path)
    rewrite(path, content)
    with pytest.warns(UserWarning, match="Duplicate name"), zipfile.ZipFile(path, "a") as archive:
        archive.writestr("scorer/weights.npy", npy(weights))
    with pytest.raises(InvalidData, match="its members are not arrays with different names"):
        load_scorer(path)


class Planted:
    """Creates a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("member", ["scorer/weights.npy", "header.npy"])
def test_pickled_objects_are_refused_and_not_run(path: Path, member: str) -> None:
    planted = np.array([Planted(path.with_name("planted"))], dtype=object)
    stream = io.BytesIO()
    np.save(stream, planted, allow_pickle=True)
    rewrite(path, {**members(path), member: stream.getvalue()})
    name = member.removesuffix(".npy")
    with pytest.raises(InvalidData, match=f"array '{name}' holds object instead of numbers"):
        load_scorer(path)
    rewrite(path, {**members(path), member: pickle.dumps(Planted(path.with_name("planted")))})
    with pytest.raises(InvalidData, match="but it is damaged"):
        load_scorer(path)
    assert not path.with_name("planted").exists()
    np.load(io.BytesIO(stream.getvalue()), allow_pickle=True)  # negative control: unpickling does run it
    assert path.with_name("planted").exists()


@pytest.mark.parametrize("text", [np.array(["a"]), np.array([b"a"]), np.zeros(2, [("x", "f8")])])
def test_arrays_of_something_else_are_refused(path: Path, text: np.ndarray) -> None:
    rewrite(path, {**members(path), "scorer/weights.npy": npy(text)})
    with pytest.raises(InvalidData, match=r"array 'scorer/weights' holds .* instead of numbers"):
        load_scorer(path)


def claiming(shape: tuple[int, ...]) -> bytes:
    """The header of an array of that shape, without its numbers."""
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": "<f8", "fortran_order": False, "shape": shape})
    return stream.getvalue()


def peak_bytes(work: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("member", ["scorer/weights.npy", "header.npy"])
@pytest.mark.parametrize("shape", [(10**15,), (1 << 28,), (3,), (-1,), (2, -(10**9))])
def test_a_huge_array_in_a_small_file_takes_no_memory(
    path: Path, member: str, shape: tuple[int, ...]
) -> None:
    rewrite(path, {**members(path), member: claiming(shape)})

    def load() -> None:
        with pytest.raises(InvalidData, match="must be a model file of truerank, but it is damaged"):
            load_scorer(path)

    assert peak_bytes(load) < 1 << 21


@pytest.mark.parametrize("compression", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_zip_bombs_are_refused_before_they_are_unpacked(path: Path, compression: int) -> None:
    zeros = claiming((1 << 22,)) + bytes(1 << 25)
    rewrite(path, {**members(path), "scorer/weights.npy": zeros}, compression)
    assert path.stat().st_size < 1 << 21
    del zeros

    def load() -> None:
        with pytest.raises(InvalidData, match="but it is compressed or claims to be larger than it is"):
            load_scorer(path)

    assert peak_bytes(load) < 1 << 21


def test_members_that_share_their_bytes_are_refused(path: Path) -> None:
    """A directory that lists one large member a thousand times, under different names."""
    content = members(path)
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in content.items():
            archive.writestr(name, data)
        weights = archive.getinfo("scorer/weights.npy")
        for number in range(1000):
            again = copy.copy(weights)
            again.filename = f"scorer/{number:07d}.npy"
            archive.filelist.append(again)
            archive.NameToInfo[again.filename] = again
        archive._didModify = True  # type: ignore[attr-defined]
    with pytest.raises(InvalidData, match="but it is compressed or claims to be larger than it is"):
        load_scorer(path)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"version": 3},
            r"has version 3 of its format \(written by truerank .*\), but this truerank reads version 2",
        ),
        ({"version": "2"}, "has version 2 of its format"),
        ({"kind": "quantum"}, "unknown kind of scorer 'quantum' in the model file. Update truerank"),
        ({"kind": "factors"}, "a scorer of kind 'factors' is made of user, item, but the file holds indptr"),
        ({"n_items": 7}, "the sizes in its header are not those of its arrays"),
        ({"blake2b": 3}, "its arrays are not those that were written"),
        ({"interrupted": True}, "its header does not say which epoch was interrupted"),
        ({"interrupted": {"epoch": 1, "kept": 1}}, "its header does not say which epoch was interrupted"),
    ],
)
def test_headers(path: Path, fields: dict[str, Any], message: str) -> None:
    with_header(path, **fields)
    with pytest.raises(InvalidData, match=message):
        load_scorer(path)


def forge(path: Path, arrays: dict[str, np.ndarray], **fields: Any) -> None:
    """A file with sound digests and senseless arrays."""
    from truerank.models.saving import write_arrays

    write_arrays(path, {"model": "", "n_users": 1, "n_items": 2, **fields}, arrays)


@pytest.mark.parametrize(
    ("kind", "arrays", "message"),
    [
        ("dense-history", {"indptr": [0, 1], "items": [2], "weights": np.eye(2)}, "do not fit together"),
        ("dense-history", {"indptr": [0, 2], "items": [0], "weights": np.eye(2)}, "do not fit together"),
        (
            "dense-history",
            {"indptr": [0, 1], "items": [0], "weights": np.ones((2, 3))},
            "do not fit together",
        ),
        (
            "sparse-scores",
            {"scores_indptr": [0, 1], "scores_indices": [5], "scores_data": [1.0], "scores_shape": [1, 2]},
            "the sparse matrix 'scores' of the model file is broken",
        ),
        (
            "sparse-scores",
            {"scores_indptr": [0, 1], "scores_indices": [0], "scores_data": [1.0], "scores_shape": [9, 2]},
            "the sparse matrix 'scores' of the model file is broken",
        ),
        ("factors", {"user": np.ones((1, 2)), "item": np.ones((2, 3))}, "must have equal width"),
        ("towers", {"user_bias": np.ones(1)}, "the arrays of a NeuMF scorer must include"),
        ("towers", {name: np.float32(1) for name in TOWERS}, "its arrays are not those of a scorer"),
        ("factors", {"user": 1.0, "item": 2.0}, "user factors must be float32 or float64 with 2 dimensions"),
        ("sparse-scores", {f"scores_{name}": 1 for name in CSR}, "the sparse matrix 'scores'"),
    ],
)
def test_arrays_that_are_no_scorer(tmp_path: Path, kind: str, arrays: dict[str, Any], message: str) -> None:
    """Also when somebody computed the digests: no kernel ever reads outside of an array."""
    forge(tmp_path / "m", {f"scorer/{name}": np.asarray(array) for name, array in arrays.items()}, kind=kind)
    with pytest.raises(InvalidData, match=f"cannot be used: .*{message}"):
        load_scorer(tmp_path / "m")


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ({"item_ids": [1, 1]}, "the item ids of the model file are broken"),
        ({"item_ids": [2, 1]}, "the item ids of the model file are broken"),
        ({"item_ids": [1, 2, 3]}, "another number of ids than of users or items"),
        ({"item_text": np.array([255, 97], np.uint8), "item_ends": [1, 2]}, "the item ids of the model file"),
        ({"item_text": np.array([98, 97], np.uint8), "item_ends": [1]}, "the item ids of the model file"),
        (
            {"item_text": np.array([97, 98], np.uint8), "item_ends": [[1, 2]]},
            "the item ids of the model file",
        ),
        (
            {"item_text": np.array([97, 98], np.uint8), "item_ends": [1.0, 2.0]},
            "the item ids of the model file",
        ),
        ({"item_text": np.array([97, 98], np.uint8), "item_ends": 2}, "the item ids of the model file"),
        ({"item_names": [1, 2]}, "the item ids of the model file are broken"),
    ],
)
def test_broken_ids(tmp_path: Path, ids: dict[str, Any], message: str) -> None:
    named = {f"ids/{name}": np.asarray(array) for name, array in ids.items()}
    factors = {"scorer/user": np.ones((1, 2)), "scorer/item": np.ones((2, 2)), **named}
    forge(tmp_path / "m", factors, kind="factors")
    with pytest.raises(InvalidData, match=message):
        load_scorer(tmp_path / "m")


def test_ids_that_overlap_take_no_memory(tmp_path: Path) -> None:
    """A thousand ids that all claim the whole text of a megabyte."""
    text = np.full(1 << 20, 97, np.uint8)
    ids = {"ids/item_text": text, "ids/item_ends": np.tile([len(text), 0], 1000)[:-1]}
    forge(
        tmp_path / "m",
        {"scorer/user": np.ones((1, 2)), "scorer/item": np.ones((2, 2)), **ids},
        kind="factors",
    )

    def load() -> None:
        with pytest.raises(InvalidData, match="the item ids of the model file are broken"):
            load_scorer(tmp_path / "m")

    assert peak_bytes(load) < 1 << 24


def test_what_cannot_be_saved(tmp_path: Path) -> None:
    path = tmp_path / "m.truerank"
    with pytest.raises(InvalidParameter, match="a CallableScores cannot be saved: it is not made of arrays"):
        save_scorer(path, CallableScores(lambda users, items: np.zeros((1, 1)), 3))
    with pytest.raises(InvalidData, match=r"data must be what the model was fitted on \(2 users, 3 items\)"):
        save_scorer(path, Factors(np.ones((2, 1)), np.ones((3, 1))), data=TRAIN)
    with pytest.raises(InvalidParameter, match=re.escape("needs an existing folder")):
        save_scorer(tmp_path / "no" / "m.truerank", Factors(np.ones((2, 1)), np.ones((3, 1))))
    assert list(tmp_path.iterdir()) == []
    from truerank.models.saving import write_arrays

    with pytest.raises(InvalidData, match="array 'x' must hold numbers to be saved, got object"):
        write_arrays(path, {}, {"x": np.array([{}])})


def test_a_failed_save_leaves_the_old_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = path.read_bytes()

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", fail)
    with pytest.raises(InvalidParameter, match="that failed \\(No space left on device\\)"):
        save_scorer(path, SCORERS["popularity"]())
    assert path.read_bytes() == before
    assert [one.name for one in path.parent.iterdir()] == [path.name]


def test_an_interrupted_training_is_marked_in_the_file_and_in_results(tmp_path: Path) -> None:
    path, training = tmp_path / "mf.truerank", InterruptedTraining(3, 20, 2)
    first, later = renamed(extra=4)
    scorer = MODELS.make("mf(factors=2, epochs=1)").fit(first)
    training.mark(scorer)
    save_scorer(path, scorer, data=first)
    told = r"mf.truerank' is not fully trained: training was interrupted in epoch 3 of 20; epoch 2 is kept"
    with pytest.warns(DataWarning, match=told):
        found = load_scorer(path)
    assert found.interrupted == dataclasses.replace(training, path=str(path))
    assert interrupted_training(found.scorer) == found.interrupted
    assert interrupted_training(found.aligned(later, unknown="bottom")) == found.interrupted
    with pytest.warns(DataWarning, match="is not fully trained"):
        parts = Split(first, first.take(np.arange(3)), repeats=True)
        result = evaluate(path, parts, "auc", seen="keep")
    name = f"saved(path={path})"
    assert result.provenance["interrupted"] == {name: dataclasses.asdict(found.interrupted)}
    assert result.notes[-1].startswith(f"{name}: training was interrupted in epoch 3 of 20; epoch 2 is kept.")
    save_scorer(path, MODELS.make("popularity").fit(first), data=first)
    assert load_scorer(path).interrupted is None


def test_the_plug_in() -> None:
    assert (
        str(MODELS.make("saved(path=a/b.truerank, unknown=bottom)"))
        == "saved(path=a/b.truerank, unknown=bottom)"
    )
    with pytest.raises(
        InvalidParameter, match=r"saved\(unknown=\.\.\.\) must be error or bottom, got 'drop'"
    ):
        MODELS.make("saved(unknown=drop)")
