"""Numbers and files that would take for ever or all memory are refused, with the limit in the sentence."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import Truerank

EVALUATE = ("evaluate", "demo", "--model", "popularity")
STUDY = ("study", "demo", "--model", "popularity")
AGREEMENT = ("agreement", "demo", "--models", "popularity,ease")
DIGITS = "9" * 5_000
NESTED = "bv(prior=" * 3_000 + "x" + ")" * 3_000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((*EVALUATE, "--metrics", f"ndcg@{DIGITS}"), "integers have at most 20 digits, got 999"),
        ((*EVALUATE, "--metrics", "ndcg@99999999999999"), "cutoff must be at most 1,000,000,000, got 999"),
        ((*EVALUATE, "--model", f"ease(reg={DIGITS})"), "integers have at most 20 digits, got 999"),
        ((*EVALUATE, "--model", NESTED), "must have at most 10,000 letters, got 30,001."),
        ((*EVALUATE, "--model", NESTED[:9_000]), "specs stand at most 10 deep in one another."),
        ((*EVALUATE, "--model", "a" * 100_000), "must have at most 10,000 letters, got 100,000."),
        ((*EVALUATE, "--model", f"ease(reg={'1' * 9_000}x)"), "must be a number, got '111"),
        ((*EVALUATE, "--level", "0.9999999999999999"), "--level must be at most 0.999999999, got"),
        (
            (*EVALUATE, "--interval", "bca(resamples=1000000000)"),
            "must be at most 1,000,000, got 1000000000.",
        ),
        ((*STUDY, "--cutoffs", "1-10000000000"), "--cutoffs must be at most 10,000, got 10001."),
        ((*STUDY, "--cutoffs", f"1-{DIGITS}"), "Numbers have at most 18 digits"),
        pytest.param(
            *((*STUDY, "--repeats", "1000000000"), "--repeats must be at most 10,000, got 1000000000."),
            marks=pytest.mark.slow,
        ),
        ((*STUDY, "--repeats", "100000"), "--repeats must be at most 10,000, got 100000."),
        ((*AGREEMENT, "--seeds", "1000000000"), "--seeds must be at most 10,000, got 1000000000."),
        ((*AGREEMENT, "--seeds", "1" + "0" * 30), "--seeds must be at most 10,000, got 1000"),
        ((*AGREEMENT, "--seed", str(2**64 - 1)), "--seed must be an integer in [0, 2**64)"),
        (("paper", "run", "r19.table1", "--repeats", "1000000000"), "--repeats must be at most 10,000"),
    ],
)
def test_numbers_and_specs(truerank: Truerank, arguments: tuple[str, ...], message: str) -> None:
    done = truerank(*arguments)
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert len(done.err) < 1_000


@pytest.mark.slow
@pytest.mark.parametrize("users", ["inf", "1e400", "nan"])
def test_infinitely_many_users(truerank: Truerank, users: str) -> None:
    done = truerank(*EVALUATE, "--users", users)
    assert (done.code, done.out) == (2, "")
    assert "--users must be an integer >= 1" in done.err


def test_the_pool_of_a_run(truerank: Truerank, tmp_path: Path) -> None:
    run, qrels = tmp_path / "a.run", tmp_path / "a.qrels"
    run.write_text("q1 Q0 a 1 9 t\n")
    qrels.write_text("q1 0 a 1\nq1 0 b 1\n")
    for pool in ("10000000000000", "1" + "0" * 25):
        done = truerank("trec", run, qrels, "--n-pool", pool)
        assert (done.code, done.out) == (2, "")
        assert f"--n-pool must be at most 1,000,000,000, got {pool}." in done.err
    assert truerank("trec", run, qrels, "--n-pool", "1000000000", "--metrics", "ndcg@10,auc").code == 0
    done = truerank("trec", run, qrels, "--n-pool", "1000000000", "--metrics", "ndcg")
    assert (done.code, done.out) == (2, "")
    assert "tied down to rank 1,000,000,000: sums of discounts go to rank 67,108,863." in done.err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("option", "value", "limit"),
    [
        ("--half-width", "1e-300", "at least 1e-06"),
        ("--half-width", "inf", "at most 1"),
        ("--difference", "1e-200", "at least 1e-06"),
        ("--n-users", "1" + "0" * 21, "at most 1,000,000,000,000"),
        ("--budget", "1" + "0" * 25, "at most 1,000,000,000,000,000,000,000"),
        ("--n-items", "1" + "0" * 10, "at most 1,000,000,000"),
    ],
)
def test_plans(truerank: Truerank, tmp_path: Path, option: str, value: str, limit: str) -> None:
    ranks = tmp_path / "ranks.csv"
    ranks.write_text("user,rank\n" + "".join(f"{user},{user}\n" for user in range(1, 60)))
    given = {"--n-items": "1000", "--negatives": "99", option: value}
    done = truerank("plan", "--pilot", ranks, *(word for pair in given.items() for word in pair))
    assert (done.code, done.out) == (2, "")
    assert f"{option} must be {limit}, got {value}." in done.err


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ["bv", "cls", "ls", "mn"])
def test_matrices_between_sampled_ranks(truerank: Truerank, tmp_path: Path, estimator: str) -> None:
    ranks = tmp_path / "ranks.csv"
    ranks.write_text("user,rank\n1,5\n2,40000\n3,1000\n")
    sizes = ("--n-items", "100000", "--negatives", "50000", "--no-bounds")
    done = truerank("estimate", ranks, *sizes, "--estimator", estimator)
    assert (done.code, done.out) == (2, "")
    assert "must be at most 10,000, got 50,001. Use smooth or bv(gamma=1)" in done.err


@pytest.mark.slow
def test_pools_of_corrections(truerank: Truerank, tmp_path: Path) -> None:
    ranks = tmp_path / "ranks.csv"
    ranks.write_text("user,rank\n1,5\n2,40\n")
    sizes = ("--n-items", "100000000", "--negatives", "99", "--no-bounds")
    done = truerank("estimate", ranks, *sizes, "--estimator", "bv")
    assert (done.code, done.out) == (2, "")
    assert "must have at most 30,000,000 items, got 100,000,000. Use smooth or mle" in done.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("plan", "--scale", "1e14x1e14"), "--scale: users must be at most 1,000,000,000,000"),
        (("plan", "--scale", "1e6xinf"), "--scale must be USERSxITEMS"),
        ((*EVALUATE, "--threads", "100000000000"), "--threads must be at most 1,000, got 100000000000."),
        ((*EVALUATE, "--threads", "many"), "Invalid value for '--threads'"),
        ((*EVALUATE, "--nosuch"), "No such option: --nosuch"),
        (("evaluate",), "Missing argument"),
        (("nosuch",), "No such command 'nosuch'. See truerank --help."),
    ],
)
def test_calls_that_cannot_be_run(truerank: Truerank, arguments: tuple[str, ...], message: str) -> None:
    done = truerank(*arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("truerank: ") and message in done.err and done.err.count("\n") == 1


def _header(shape: tuple[int, ...]) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": "<f8", "fortran_order": False, "shape": shape})
    return stream.getvalue()


@pytest.mark.slow
def test_arrays_that_lie_about_their_shape(truerank: Truerank, tmp_path: Path) -> None:
    path = tmp_path / "lie.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("user.npy", _header((10**11, 8)) + bytes(80))
        archive.writestr("item.npy", _header((5, 8)) + bytes(320))
    done = truerank("evaluate", "demo", "--model", f"arrays(path={path})")
    assert (done.code, done.out) == (2, "")
    assert "cannot be read (array 'user' is not as large as it says)" in done.err


@pytest.mark.slow
def test_arrays_that_unpack_to_gigabytes(truerank: Truerank, tmp_path: Path) -> None:
    path, block = tmp_path / "bomb.npz", bytes(1 << 24)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("user.npy", "w") as member:
            member.write(_header((20 << 21, 1)))
            for _ in range(20):
                member.write(block)
        archive.writestr("item.npy", _header((5, 1)) + bytes(40))
    done = truerank("evaluate", "demo", "--model", f"arrays(path={path})")
    assert (done.code, done.out) == (2, "")
    assert "bytes, and at most 268,435,456 are allowed" in done.err


@pytest.mark.slow
@pytest.mark.parametrize("url", ["s3://", "://x", "zip://x::y", "gopher://x/y"])
def test_odd_urls(truerank: Truerank, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = truerank(*EVALUATE, "--engine", "dask(workers=1)", "--work-dir", url)
    assert (done.code, done.out) == (2, "")
    assert f"'{url}" in done.err
    assert list(tmp_path.iterdir()) == []  # no folder of that name either
