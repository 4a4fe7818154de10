"""TREC runs against trec_eval, and every way a file can be wrong."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from truerank.core.errors import DataWarning, InvalidData, InvalidParameter
from truerank.core.ranks import TiePolicy
from truerank.metrics.trec import evaluate_run, ranks_from_run, read_qrels, read_run, run_values

Scores = dict[str, dict[str, float]]
Grades = dict[str, dict[str, int]]
MEASURES = {
    "ap(norm=rel)": "AP",
    "ap(norm=rel)@5": "AP@5",
    "hit@3": "Success@3",
    "mrr": "RR",
    "ndcg": "nDCG",
    "ndcg@5": "nDCG@5",
    "precision@5": "P@5",
    "recall@5": "R@5",
}


def random_run(*, seed: int, ties: bool) -> tuple[Scores, Grades]:
    """Queries with relevant documents that were not retrieved, and one with none retrieved."""
    rng = np.random.default_rng(seed)
    run: Scores = {}
    qrels: Grades = {}
    for code in range(30):
        query = f"q{code:02}"
        documents = [f"d{i:02}" for i in rng.permutation(40)]
        scores = rng.integers(0, 6, 20) if ties else rng.permutation(20)
        run[query] = {d: float(s) for d, s in zip(documents[:20], scores, strict=True)}
        qrels[query] = dict.fromkeys(rng.permutation(documents)[: rng.integers(1, 9)].tolist(), 1)
    qrels["q00"] = dict.fromkeys(documents[-1:], 1)
    run["q00"].pop(documents[-1], None)
    return run, qrels


def trec_eval(run: Scores, qrels: Grades, measure: str) -> list[float]:
    ir_measures = pytest.importorskip("ir_measures")
    found = {
        m.query_id: m.value for m in ir_measures.iter_calc([ir_measures.parse_measure(measure)], qrels, run)
    }
    return [found[query] for query in sorted(qrels)]


def ours(run: Scores, qrels: Grades, metric: str, ties: TiePolicy = "expected") -> list[float]:
    column: list[float] = run_values(ranks_from_run(run, qrels), metric, ties=ties).values[:, 0].tolist()
    return column


@pytest.mark.parametrize(("metric", "measure"), MEASURES.items())
def test_runs_without_ties_equal_trec_eval(metric: str, measure: str) -> None:
    """Relevant documents that were not retrieved count in the norm and earn nothing."""
    run, qrels = random_run(seed=0, ties=False)
    assert ours(run, qrels, metric) == pytest.approx(trec_eval(run, qrels, measure), rel=1e-12)


@pytest.mark.parametrize(("metric", "measure"), MEASURES.items())
def test_runs_with_ties(metric: str, measure: str) -> None:
    """trec_eval puts the greater id first: broken so we agree, else it lies between worst and best."""
    run, qrels = random_run(seed=1, ties=True)
    theirs = trec_eval(run, qrels, measure)
    broken = {
        query: {d: float(i) for i, d in enumerate(sorted(scored, key=lambda d: (scored[d], d)))}
        for query, scored in run.items()
    }
    assert ours(broken, qrels, metric) == pytest.approx(theirs, rel=1e-12)
    low, high = np.array(ours(run, qrels, metric, "worst")), np.array(ours(run, qrels, metric, "best"))
    assert (low <= np.array(theirs) + 1e-12).all()
    assert (high >= np.array(theirs) - 1e-12).all()


def test_pool_size_ties_what_was_not_retrieved() -> None:
    """One of two relevant documents retrieved on top; the other lies at rank 3 or 4 of 4."""
    found = ranks_from_run({"q": {"a": 2.0, "b": 1.0}}, {"q": {"a": 1, "c": 1}}, n_pool=4)
    assert run_values(found, "auc,ap").values.tolist() == [
        [pytest.approx(0.625), pytest.approx((1 + 7 / 12) / 2)]
    ]
    with pytest.raises(InvalidParameter, match="n_pool must be at least the 3 documents"):
        ranks_from_run({"q": {"a": 2.0, "b": 1.0}}, {"q": {"a": 1, "c": 1}}, n_pool=2)


@pytest.mark.parametrize("metric", ["auc", "auc@2", "precision", "ap(norm=k)", "ndcg(ideal=k)"])
def test_metrics_of_the_pool_need_its_size(metric: str) -> None:
    with pytest.raises(InvalidParameter, match="needs the number of documents in the collection"):
        run_values(ranks_from_run({"q": {"a": 2.0}}, {"q": {"a": 1}}), metric)


def write(folder: Path, run: str, qrels: str) -> tuple[Path, Path]:
    (folder / "run.txt").write_text(run)
    (folder / "qrels.txt").write_text(qrels)
    return folder / "run.txt", folder / "qrels.txt"


RUN = "1 Q0 a 1 3.5 t\n1 Q0 b 2 2.5 t\n\n2 Q0 a 1 1 t\n9 Q0 a 1 1 t\n"
QRELS = "1 0 b 1\n1 0 c 1\n1 0 a 0\n2 0 b 1\n3 0 a 1\n4 0 a 0\n"


def test_files_to_values(tmp_path: Path) -> None:
    """Query 1 finds one of two at rank 2; 2 finds none, 3 is not in the run; 4 has nothing to find."""
    found = evaluate_run(*write(tmp_path, RUN, QRELS), "mrr,recall@1")
    assert found.queries == ("1", "2", "3")
    assert found.values.tolist() == [[0.5, 0.0], [0.0, 0.0], [0.0, 0.0]]
    assert found.means() == {"mrr": pytest.approx(1 / 6), "recall@1": 0.0}
    assert found.counts == {
        "queries": 3,
        "queries_not_in_run": 1,
        "queries_without_judgement": 1,
        "queries_without_relevant": 1,
        "relevant": 4,
        "relevant_not_retrieved": 3,
    }


def test_short_lists_warn(tmp_path: Path) -> None:
    paths = write(tmp_path, RUN, "1 0 b 1\n2 0 a 1\n")
    with pytest.warns(DataWarning, match="1 of 2 queries have fewer than 2 retrieved documents, such as '2'"):
        assert evaluate_run(*paths, "recall@2").values.tolist() == [[1.0], [1.0]]


def test_grades_are_gains(tmp_path: Path) -> None:
    """Ranks 1 and 2 have the grades 1 and 3; d of grade 2 is not retrieved, but in the ideal list."""
    judged = "1 0 a 1\n1 0 b 3\n1 0 c -2\n1 0 d 2\n"
    paths = write(tmp_path, "1 Q0 a 1 3 t\n1 Q0 b 2 2 t\n", judged)
    second = 1 / math.log2(3)
    for gain, (a, b, d) in {"grade": (1, 3, 2), "grade(form=exp2)": (1, 7, 3), None: (1, 1, 1)}.items():
        (found,) = evaluate_run(*paths, "ndcg@2,err@2,mrr", gain=gain).values.tolist()
        stop = a / (b + 1), b / (b + 1)
        assert found == pytest.approx(
            [(a + b * second) / (b + d * second), stop[0] + (1 - stop[0]) * stop[1] / 2, 1.0]
        )
    # with b and d relevant alone
    found = evaluate_run(*paths, "ndcg@2,mrr", relevance=2).values.tolist()
    assert found == [pytest.approx([3 * second / (3 + 2 * second), 0.5])]
    whole = evaluate_run(*paths, "ndcg", n_pool=4).values.tolist()  # c and d tie below the others
    low = (1 / 2 + 1 / math.log2(5)) / 2
    assert whole == [[pytest.approx((1 + 3 * second + 2 * low) / (3 + 2 * second + 1 / 2))]]
    with pytest.raises(InvalidParameter, match="must be above 0 to be gains, got -2"):
        evaluate_run(*paths, "ndcg@2", relevance=-2)
    assert evaluate_run(*paths, "mrr", relevance=-2).values.tolist() == [[1.0]]


def test_equal_grades_are_no_grades(tmp_path: Path) -> None:
    """Binary judgements keep their digits, and metrics that know no grades can be had."""
    paths = write(tmp_path, "1 Q0 a 1 3 t\n1 Q0 b 2 2 t\n", "1 0 b 1\n1 0 c 1\n")
    assert evaluate_run(*paths, "ndcg(ideal=k)@2").values.tolist() == [
        [pytest.approx(1 / math.log2(3) / (1 + 1 / math.log2(3)))]
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "run file {path} is empty. Give lines of the form 'query Q0 document rank score tag'."),
        ("1 Q0 a 1 3.5\n", "line 1 of {path} must have 6 columns 'query Q0 document rank score tag', got 5."),
        ("1 Q0 a 1 x t\n", "score in line 1 of {path} must be a finite number, got 'x'."),
        ("1 Q0 a 1 nan t\n", "score in line 1 of {path} must be a finite number, got 'nan'."),
        (
            "1 Q0 a 1 2 t\n1 Q0 a 2 1 t\n",
            "document 'a' appears twice for query '1' in line 2 of {path}. Keep one of the lines.",
        ),
    ],
)
def test_bad_runs(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "run.txt"
    path.write_text(text)
    with pytest.raises(InvalidData) as caught:
        read_run(path)
    assert str(caught.value) == message.format(path=path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\n", "qrels file {path} is empty. Give lines of the form 'query 0 document grade'."),
        ("1 0 a\n", "line 1 of {path} must have 4 columns 'query 0 document grade', got 3."),
        ("1 0 b 1\n1 0 a 1.5\n", "grade in line 2 of {path} must be an integer, got '1.5'."),
        (
            "1 0 a 1\n1 0 a 0\n",
            "document 'a' appears twice for query '1' in line 2 of {path}. Keep one of the lines.",
        ),
    ],
)
def test_bad_qrels(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "qrels.txt"
    path.write_text(text)
    with pytest.raises(InvalidData) as caught:
        read_qrels(path)
    assert str(caught.value) == message.format(path=path)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InvalidData, match="is a folder"):
        read_run(tmp_path)
    with pytest.raises(InvalidData, match="No such file or directory"):
        read_run(tmp_path / "absent")
    (tmp_path / "packed").write_bytes(b"\x1f\x8b\xff")
    with pytest.raises(InvalidData, match="must be UTF-8 text"):
        read_qrels(tmp_path / "packed")


def test_run_and_qrels_must_meet() -> None:
    with pytest.raises(InvalidData, match="must have a query with relevant documents in common"):
        ranks_from_run({"1": {"a": 1.0}}, {"2": {"a": 1}})
