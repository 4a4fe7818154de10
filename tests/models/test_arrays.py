"""Scores from files, and what is said when they do not fit."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from tests.models.literal import small_train
from truerank.core.errors import InvalidData, InvalidParameter
from truerank.core.interactions import Interactions
from truerank.core.scorer import DenseScores, Factors, SparseScores
from truerank.models.arrays import Arrays
from truerank.models.registry import MODELS

TRAIN = small_train()
N_USERS, N_ITEMS = TRAIN.n_users, TRAIN.n_items
RNG = np.random.default_rng(0)
USER, ITEM, BIAS = RNG.normal(size=(N_USERS, 4)), RNG.normal(size=(N_ITEMS, 4)), RNG.normal(size=N_ITEMS)
ALL = np.arange(N_USERS), np.arange(N_ITEMS)


def test_factors(tmp_path: Path) -> None:
    np.savez(tmp_path / "m.npz", user=USER.astype(np.float32), item=ITEM, item_bias=BIAS)
    scorer = Arrays(str(tmp_path / "m.npz")).fit(TRAIN)
    assert isinstance(scorer, Factors)
    assert scorer.user.dtype == np.float32
    assert not scorer.item.flags.writeable
    expected = USER.astype(np.float32).astype(np.float64) @ ITEM.T + BIAS
    np.testing.assert_allclose(scorer.score(*ALL), expected, rtol=1e-12, atol=1e-12)


def test_factors_of_integers_and_compressed(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "m.npz", user=np.ones((N_USERS, 1), int), item=np.arange(N_ITEMS)[:, None])
    assert Arrays(str(tmp_path / "m.npz")).fit(TRAIN).score(*ALL)[0].tolist() == list(range(N_ITEMS))


def test_dense_scores_are_memory_mapped(tmp_path: Path) -> None:
    scores = RNG.normal(size=(N_USERS, N_ITEMS)).astype(np.float32)
    np.save(tmp_path / "m.npy", scores)
    scorer = Arrays(str(tmp_path / "m.npy")).fit(TRAIN)
    assert isinstance(scorer, DenseScores)
    assert isinstance(scorer.scores, np.memmap)
    assert not scorer.scores.flags.writeable
    assert np.array_equal(scorer.score(*ALL), scores)


def test_sparse_scores(tmp_path: Path) -> None:
    scores = scipy.sparse.random_array((N_USERS, N_ITEMS), density=0.2, rng=RNG).tocsr()
    scipy.sparse.save_npz(tmp_path / "m.npz", scores)
    scorer = Arrays(str(tmp_path / "m.npz")).fit(TRAIN)
    assert isinstance(scorer, SparseScores)
    assert np.array_equal(scorer.score(*ALL), scores.toarray())
    assert not scorer.scores.data.flags.writeable


def test_train_may_be_empty(tmp_path: Path) -> None:
    """Nothing is learnt, so nothing is needed."""
    np.save(tmp_path / "m.npy", np.zeros((2, 3)))
    train = Interactions.from_codes([], [], n_users=2, n_items=3)
    assert Arrays(str(tmp_path / "m.npy")).fit(train).n_items == 3


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"user": USER}, "must hold the arrays user and item and perhaps item_bias"),
        ({"U": USER, "V": ITEM}, "got U, V."),
        ({}, "got nothing."),
        ({"user": USER[1:], "item": ITEM}, "user in .* must have shape (40, 4), got (39, 4)"),
        ({"user": USER, "item": ITEM[1:]}, "item in .* must have shape (23, 4), got (22, 4)"),
        ({"user": USER[:, 1:], "item": ITEM}, "must have shape (40, 4), got (40, 3)"),
        ({"user": USER, "item": ITEM.ravel()}, "must have shape"),
        ({"user": USER, "item": np.float64(1)}, "must have shape"),
        ({"user": USER, "item": ITEM, "item_bias": BIAS[:, None]}, "must have shape (23,), got (23, 1)"),
        ({"user": USER, "item": ITEM * np.nan}, "item in .* must not hold NaN or infinity"),
        ({"user": USER.astype(str), "item": ITEM}, "user in .* must be numbers, got <U32"),
        ({"user": USER.astype(object), "item": ITEM}, "cannot be read"),
    ],
)
def test_bad_factors(tmp_path: Path, arrays: dict[str, Any], message: str) -> None:
    path = tmp_path / "m.npz"
    np.savez(path, **arrays)
    with pytest.raises(InvalidData, match=re.sub(r"([()])", r"\\\1", message)):
        Arrays(str(path)).fit(TRAIN)


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        (
            np.zeros((3, 4)),
            r"scores in .* must have shape \(40, 23\), got \(3, 4\).*order of their sorted ids",
        ),
        (np.full((N_USERS, N_ITEMS), np.nan), "scores in .* must not hold NaN"),
        (np.zeros((N_USERS, N_ITEMS), complex), "scores in .* must be numbers, got complex128"),
        (np.array([None]), "cannot be read"),
    ],
)
def test_bad_dense_scores(tmp_path: Path, scores: Any, message: str) -> None:
    np.save(tmp_path / "m.npy", scores)
    with pytest.raises(InvalidData, match=message):
        Arrays(str(tmp_path / "m.npy")).fit(TRAIN)


def test_bad_sparse_scores(tmp_path: Path) -> None:
    path = tmp_path / "m.npz"
    scores = scipy.sparse.random_array((N_USERS, N_ITEMS), density=0.2, rng=RNG)
    scipy.sparse.save_npz(path, scores.tocsc())
    with pytest.raises(InvalidData, match="must be in CSR form, got 'csc'"):
        Arrays(str(path)).fit(TRAIN)
    scipy.sparse.save_npz(path, scores.tocsr()[:5])
    with pytest.raises(InvalidData, match=r"must have shape \(40, 23\), got \(5, 23\)"):
        Arrays(str(path)).fit(TRAIN)
    scipy.sparse.save_npz(path, scores.tocsr() * np.nan)
    with pytest.raises(InvalidData, match="must not hold NaN"):
        Arrays(str(path)).fit(TRAIN)
    broken = scores.tocsr()
    np.savez(
        path,
        format="csr",
        shape=broken.shape,
        data=broken.data,
        indptr=broken.indptr,
        indices=broken.indices + N_ITEMS,
    )
    with pytest.raises(InvalidData, match="cannot be read"):
        Arrays(str(path)).fit(TRAIN)


@pytest.mark.parametrize("name", ["m.npz", "m.npy"])
@pytest.mark.parametrize("left", [0, 10, 200])
def test_truncated_file(tmp_path: Path, name: str, left: int) -> None:
    path = tmp_path / name
    if name == "m.npz":
        np.savez(path, user=USER, item=ITEM)
    else:
        np.save(path, np.zeros((N_USERS, N_ITEMS)))
    path.write_bytes(path.read_bytes()[:left])
    with pytest.raises(InvalidData, match=r"cannot be read .* Write it anew with numpy"):
        Arrays(str(path)).fit(TRAIN)


def test_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(InvalidData, match=r"m\.npz does not exist\. Check the path"):
        Arrays(str(tmp_path / "m.npz")).fit(TRAIN)
    (tmp_path / "folder.npy").mkdir()
    with pytest.raises(InvalidData, match=r"must be a file, but .* is a folder"):
        Arrays(str(tmp_path / "folder.npy")).fit(TRAIN)
    with pytest.raises(InvalidParameter, match=r"path must end in \.npz or \.npy, got 'm\.pt'"):
        MODELS.make("arrays(path=m.pt)")
