"""The leaderboard and its sentence."""

from __future__ import annotations

import pytest

from tests.report.results import make_result
from truerank.core.result import Estimate, Result
from truerank.report.leaderboard import build_leaderboard
from truerank.report.page import best_model_sentence


def sentence(*estimates: Estimate, name: str = "demo") -> str:
    result = Result("evaluate", estimates, {"name": name, "users_with_targets": 250})
    return best_model_sentence(result, build_leaderboard(result)).replace("\N{NO-BREAK SPACE}", " ")


def test_best_model_of_the_first_metric_is_on_top() -> None:
    """Rows are in the order of the first metric; models keep the look of their place in the result."""
    board = build_leaderboard(make_result())
    assert [row.label for row in board.rows] == ["ease(reg=500)", "item-knn(power=3, norm=l2)", "popularity"]
    assert [row.mark.colour for row in board.rows] == [2, 1, 0]


def test_marks_all_that_are_not_distinguishable_from_the_best() -> None:
    """Values whose intervals overlap that of the highest one are best too; a single model has no rival."""
    tied = [
        Estimate("a", "auc", 0.5, 0.45, 0.55),
        Estimate("b", "auc", 0.48, 0.43, 0.53),
        Estimate("c", "auc", 0.4, 0.35, 0.44),
    ]
    assert [row.label for row in build_leaderboard(Result("evaluate", tuple(tied))).best("auc")] == ["a", "b"]
    assert build_leaderboard(Result("evaluate", (Estimate("a", "auc", 0.5),))).best("auc") == []


def test_missing_values_come_last() -> None:
    """A model without a value of the first metric is last and has a gap there."""
    estimates = (Estimate("a", "auc", 0.5), Estimate("b", "ap", 0.2), Estimate("c", "auc", 0.6))
    board = build_leaderboard(Result("evaluate", estimates))
    assert [row.label for row in board.rows] == ["c", "a", "b"]
    assert board.rows[2].cells[0] is None


@pytest.mark.parametrize(
    ("estimates", "expected"),
    [
        ((), "This result holds no estimates."),
        ((Estimate("a", "auc", 0.5, n_users=1),), "a reaches auc 0.5000 on demo, averaged over 1 user."),
        (
            (Estimate("a", "auc", 0.5, target="test-users", estimator="sampled users", n_users=9),),
            "a reaches auc 0.5000 on demo, averaged over 250 users.",  # 9 of them are known
        ),
        (
            (Estimate("a", "auc", 0.5, target="population", estimator="sampled users", n_users=9),),
            "a reaches auc 0.5000 on demo, averaged over 9 users.",
        ),
        ((Estimate("a", "auc", float("nan")),), "No model has a value of auc on demo."),
        (
            (Estimate("a", "auc", 0.5, 0.4, 0.6, 0.95), Estimate("b", "auc", 0.4)),
            "Of 2 models on demo, a has the highest auc, 0.5000 (95 % interval 0.4000 to 0.6000); b is not "
            "distinguishable from it.",
        ),
        (
            (Estimate("a", "auc", 0.5), Estimate("b", "auc", 0.4), Estimate("c", "auc", 0.3)),
            "Of 3 models on demo, a has the highest auc, 0.5000; no model is distinguishable from it.",
        ),
        (
            (Estimate("a", "auc", 0.5), Estimate("b", "auc", 0.5), Estimate("c", "auc", 0.5)),
            "Of 3 models on demo, a, b and c share the highest auc, 0.5000.",
        ),
        (
            (
                Estimate("a", "auc", 0.5, 0.45, 0.55),
                Estimate("b", "auc", 0.4, 0.35, 0.44),
                Estimate("a", "ap", 0.1, 0.05, 0.15),
                Estimate("b", "ap", 0.12, 0.06, 0.15),
            ),
            "Of 2 models on demo, a has the highest auc, 0.5000 (0.4500 to 0.5500), and is alone at the top "
            "on 1 of 2 metrics.",
        ),
        (
            tuple(Estimate(name, "auc", 0.5, 0.4, 0.6, estimator="naive") for name in "ab"),
            "Of 2 models on demo, none is marked as best. Naive values are those of the sampled lists, and "
            "may put models in another order than all items do. Other estimators, such as smooth, say more.",
        ),
    ],
)
def test_sentence(estimates: tuple[Estimate, ...], expected: str) -> None:
    """One sentence says who is best, by what value and how consistently."""
    assert sentence(*estimates) == expected


def test_sentence_without_a_name() -> None:
    """Data without a name are left out of the sentence."""
    assert sentence(Estimate("a", "auc", 0.5), name="") == "a reaches auc 0.5000."


def test_sampled_ranks_go_by_their_models() -> None:
    """A table of sampled ranks has no data of its own to name: no "a reaches ... on a"."""
    result = Result("estimate", (Estimate("a", "auc", 0.5),), {"name": "a"})
    assert best_model_sentence(result, build_leaderboard(result)) == "a reaches auc 0.5000."


def test_models_are_compared_within_one_estimator() -> None:
    """Naive values are higher than exact ones and never marked; the sentence goes by the exact ones."""
    estimates = tuple(
        Estimate(
            model,
            "ndcg@10",
            value,
            value - 0.01,
            value + 0.01,
            estimator=estimator,
            kind="exact" if estimator == "exact" else "estimate",
        )
        for estimator, values in {"naive": (0.7, 0.6), "bv": (0.2, 0.1), "exact": (0.1, 0.3)}.items()
        for model, value in zip("ab", values, strict=True)
    )
    result = Result("evaluate", estimates)
    board = build_leaderboard(result)
    assert [row.label for row in board.rows] == [
        *("b · exact", "a · exact", "a · naive", "b · naive", "a · bv", "b · bv"),
    ]
    assert [row.label for row in board.best("ndcg@10")] == ["b · exact", "a · bv"]
    assert sentence(*estimates).startswith("Of 2 models on demo, b has the highest ndcg@10, 0.3000 (")
    sampled = [e for e in estimates if e.estimator != "exact"]
    for shown in (sampled, sampled[::-1]):  # naive is not the reference, wherever it stands
        assert sentence(*shown).startswith(
            "Of 2 models on demo, a has the highest ndcg@10 by estimator bv, 0.2000 ("
        )
    assert board.rows[1].mark == board.rows[2].mark != board.rows[0].mark


def test_notes_say_once_what_posterior_intervals_hold() -> None:
    """The rank below which the prior decides stands in a sentence of its own, not with every method."""
    method = "posterior; below rank 37 the prior decides"
    estimates = tuple(
        Estimate("a", metric, 0.1, 0.05, 0.2, 0.95, "estimate", method, "smooth", target="test-users")
        for metric in ("ndcg@10", "recall@10")
    )
    notes = build_leaderboard(Result("estimate", estimates)).notes
    assert [note for note in notes if "interval" in note or "prior" in note] == [
        "In small type stands the 95\N{NO-BREAK SPACE}% interval (posterior).",
        "A posterior interval holds the exact value for about 95 % of models like those its prior was learnt "
        "from.",
        "Below rank 37 the prior decides how targets are spread, not the sample.",
    ]


def test_means_over_sampled_users_are_named_and_compared_with_exact_values() -> None:
    """They differ from exact values by chance alone, so the best of both is marked."""
    sampled = Estimate("a", "auc", 0.8, 0.7, 0.9, 0.95, kind="estimate", estimator="sampled users")
    result = Result("evaluate", (sampled, Estimate("b", "auc", 0.6, 0.55, 0.65)))
    board = build_leaderboard(result)
    assert [row.label for row in board.best("auc")] == ["a · sampled users"]
    assert result.best("auc", "exact") == result.best("auc", "sampled users") == ["a"]
    assert best_model_sentence(result, board).startswith("Of 2 models, a has the highest auc, 0.8000")
    assert any(note.startswith("Sampled users: from some of the scores, those") for note in board.notes)
    assert not any("naive" in note for note in board.notes)


def test_a_lower_value_may_be_marked_and_that_is_explained() -> None:
    """b trails a little for all users and is told from a; c trails more but only now and then."""
    values = {"a": (0.5, True), "b": (0.49, False), "c": (0.4, True)}
    estimates = tuple(Estimate(name, "auc", value, is_best=best) for name, (value, best) in values.items())
    board = build_leaderboard(Result("evaluate", estimates))
    assert [row.model for row in board.best("auc")] == ["a", "c"]
    assert board.notes[-1].startswith("A lower value can be marked where a higher one is not")
    plain = build_leaderboard(Result("evaluate", estimates[:2]))
    assert not any("lower value" in note for note in plain.notes)
