"""Text in a terminal: nothing is sent that it would obey, nothing is broken that is one word or number."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from truerank.core.display import lay_out, text_width, visible, wrap_words
from truerank.core.table import MISSING, Table

INTERVAL = "0.0191 [0.0153, 0.0237]"
LEADERBOARD = Table(
    ("model", "ndcg@10", "recall@10", "ap", "auc"),
    (("popularity", *[INTERVAL] * 4), ("item-knn(power=3, norm=l2)", *[INTERVAL] * 4)),
    strong=frozenset({(1, 4)}),
)
WIDE = "\N{CJK UNIFIED IDEOGRAPH-4E2D}\N{CJK UNIFIED IDEOGRAPH-6587}"
ACCENTED = "caf\N{LATIN SMALL LETTER E WITH ACUTE}"
FACE = "\N{GRINNING FACE}"


@pytest.mark.parametrize(
    ("text", "encoding", "shown"),
    [
        ("plain", "ascii", "plain"),
        ("\x1b]0;title\x07", "utf-8", r"\u001b]0;title\u0007"),
        ("\x9b31m", "utf-8", r"\u009b31m"),
        ("a\N{RIGHT-TO-LEFT OVERRIDE}b", "utf-8", r"a\u202eb"),
        ("a\nb\rc\td", "utf-8", r"a\nb\rc\td"),
        ("lone \udcff", "utf-8", r"lone \udcff"),
        (ACCENTED, "utf-8", ACCENTED),
        (ACCENTED, "latin-1", ACCENTED),
        (ACCENTED, "ascii", r"caf\u00e9"),
        (FACE, "ascii", r"\ud83d\ude00"),
        (f"{MISSING} 95\N{NO-BREAK SPACE}%", "ascii", "- 95 %"),
    ],
)
def test_what_is_shown(text: str, encoding: str, shown: str) -> None:
    assert visible(text, encoding) == shown


def test_line_feeds_that_are_meant_stay() -> None:
    assert visible("a\nb\x00", keep="\n") == "a\nb\\u0000"


@given(st.text())
def test_escapes_are_those_of_json(text: str) -> None:
    assert json.loads(visible(json.dumps(text, ensure_ascii=False), "ascii")) == _plain_signs(text)


def _plain_signs(text: str) -> str:
    return "".join(
        visible(character, "ascii") if visible(character, "ascii")[0] != "\\" else character
        for character in text
    )


@given(st.text(), st.sampled_from(["ascii", "utf-8", "latin-1", "cp1252"]))
def test_what_is_shown_can_be_sent(text: str, encoding: str) -> None:
    shown = visible(text, encoding)
    assert shown.encode(encoding).decode(encoding) == shown
    assert not re.search(r"[\x00-\x1f\x7f-\x9f]", shown)


def test_columns_of_a_terminal() -> None:
    assert [text_width(text) for text in ("abc", WIDE, ACCENTED, "e\N{COMBINING ACUTE ACCENT}", FACE)] == [
        *(3, 4, 4, 1, 2)
    ]


@given(st.lists(st.text("ab1.,", min_size=1, max_size=12), max_size=20), st.integers(12, 40))
def test_wrapping_keeps_all_words_in_lines_that_fit(words: list[str], width: int) -> None:
    lines = wrap_words(" ".join(words), width)
    assert " ".join(lines).split() == words
    assert all(len(line) <= width for line in lines)


def test_wrapped_messages() -> None:
    assert wrap_words("  indented words here\nnext", 12, indent="    ") == [
        "  indented",
        "    words",
        "    here",
        "next",
    ]
    assert wrap_words("a longer-than-the-line b", 5) == ["a", "longer-than-the-line", "b"]
    assert wrap_words("95\N{NO-BREAK SPACE}% of all", 5) == ["95\N{NO-BREAK SPACE}%", "of", "all"]
    assert wrap_words("up to 30 % on", 8) == ["up to", "30 % on"]
    assert wrap_words("any length", None) == ["any length"]


def test_a_file_has_lines_of_any_length() -> None:
    head, first, second = lay_out(LEADERBOARD).splitlines()
    assert head.split() == list(LEADERBOARD.columns)
    assert len({len(head), len(first), len(second)}) == 1
    assert first == f"popularity{' ' * 16}" + f"  {INTERVAL}" * 4


def test_intervals_stand_below_their_values_when_that_is_enough() -> None:
    table = Table(LEADERBOARD.columns[:4], tuple(row[:4] for row in LEADERBOARD.rows))
    assert lay_out(table, 80).splitlines()[1:3] == [
        "popularity                            0.0191            0.0191            0.0191",
        "                            [0.0153, 0.0237]  [0.0153, 0.0237]  [0.0153, 0.0237]",
    ]


def test_columns_that_do_not_fit_follow_in_a_second_table() -> None:
    first, second = lay_out(LEADERBOARD, 80).split("\n\n")
    assert first.splitlines()[0].split() == ["model", "ndcg@10", "recall@10"]
    assert second.splitlines()[0].split() == ["model", "ap", "auc"]
    assert second.splitlines()[2] == f"item-knn(power=3, norm=l2)  {INTERVAL}  {INTERVAL}"


def test_a_narrow_terminal_gets_a_line_per_cell() -> None:
    records = lay_out(LEADERBOARD, 40).split("\n\n")
    assert records[1].splitlines() == [
        "model      item-knn(power=3, norm=l2)",
        *(f"{name:<9}  {INTERVAL}" for name in LEADERBOARD.columns[1:]),
    ]


def test_one_row_with_many_columns_is_a_list() -> None:
    table = Table(tuple(f"column {at}" for at in range(12)), (("some value",) * 12,))
    assert lay_out(table, 80).splitlines() == [f"{name:<9}  some value" for name in table.columns]


def test_names_of_columns_and_long_texts_are_wrapped_between_words() -> None:
    summary = (
        "Item-item regression with a zero diagonal, in closed form, over all items and users of the data."
    )
    table = Table(("name", "m: noise and bias", "summary"), (("ease", "12", summary), ("b", "3", "short")))
    assert lay_out(table, 44).splitlines() == [
        "         m:",
        "      noise",
        "        and",
        "name   bias  summary",
        "ease     12  Item-item regression with a",
        "             zero diagonal, in closed form,",
        "             over all items and users of the",
        "             data.",
        "b         3  short",
    ]


def test_wide_letters_are_aligned() -> None:
    lines = lay_out(Table(("model", "auc"), ((WIDE, "0.8"), (ACCENTED, "12.5")))).splitlines()
    assert {text_width(line) for line in lines} == {11}


def test_a_terminal_without_the_letters_keeps_the_alignment() -> None:
    lines = lay_out(Table(("model", "auc"), ((WIDE, "0.8"), ("b", MISSING))), encoding="ascii").splitlines()
    assert lines == ["model         auc", r"\u4e2d\u6587  0.8", "b               -"]


def test_names_and_strong_cells_are_bold() -> None:
    text = lay_out(LEADERBOARD, bold=lambda cell: f"<{cell}>")
    assert text.splitlines()[0].endswith("<auc>")
    assert text.splitlines()[2].endswith(f"<{INTERVAL}>")
    assert text.count("<") == 6


def test_control_characters_in_cells_are_shown() -> None:
    assert lay_out(Table(("model\x07",), (("a\x1b[2J\nb",),))) == "model\\u0007\na\\u001b[2J\\nb"


def test_a_table_without_rows() -> None:
    assert lay_out(Table(("model", "auc"), ()), 80) == "model  auc"


CELLS = st.one_of(
    st.sampled_from(["", INTERVAL, "0.5", MISSING, "item-knn(power=3, norm=l2)", WIDE]),
    st.text("abc -,(", max_size=30),
)
TABLES = st.integers(1, 9).flatmap(
    lambda n: st.builds(
        Table,
        st.tuples(*[st.text("abc ", min_size=1, max_size=14)] * n),
        st.lists(st.tuples(*[CELLS] * n), max_size=5).map(tuple),
    )
)


@pytest.mark.slow
@given(TABLES, st.integers(50, 120))
def test_no_line_is_too_long_and_no_word_is_broken(table: Table, width: int) -> None:
    """Words and numbers of up to 30 columns fit; so do names of columns in a third of the line."""
    text = lay_out(table, width)
    assert all(text_width(line) <= width for line in text.splitlines())
    shown = set(text.split())
    for row in table.rows:
        for cell in row:
            assert shown >= {word for word in cell.split(" ") if word}


def test_rows_keep_all_their_names_in_a_second_table() -> None:
    rows = (
        ("popularity", "naive", *[INTERVAL] * 6),
        ("popularity", "smooth", *[INTERVAL] * 6),
        ("popularity", "bounds", *["[0.0000, 0.1191]"] * 6),
    )
    columns = ("model", "estimator", *(f"ndcg@{cutoff}" for cutoff in (1, 5, 10, 20, 50, 100)))
    blocks = lay_out(Table(columns, rows), 80).split("\n\n")
    assert len(blocks) > 1
    assert all(block.split()[:2] == ["model", "estimator"] for block in blocks)
    assert all(block.count("smooth") == 1 for block in blocks)
