"""Tables in CSV, Markdown and LaTeX."""

from __future__ import annotations

import csv
import io
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from truerank.core.errors import InvalidParameter
from truerank.core.result import Estimate, Result, mark_best
from truerank.core.table import MISSING, Table, escape_latex

SPECIAL = r"&%$#_{}~^\<>|`'-,[]*" + "\N{MINUS SIGN}é日"
# No line breaks or control characters: a cell is one line.
CELLS = st.one_of(
    st.text(st.sampled_from(SPECIAL + "ab 1."), max_size=12),
    st.text(st.characters(exclude_categories=("Cc", "Cf", "Cs", "Zl", "Zp")), max_size=12),
)
COMMANDS = {
    "textbackslash": "\\",
    "textasciitilde": "~",
    "textasciicircum": "^",
    "textasciigrave": "`",
    "textless": "<",
    "textgreater": ">",
    "textbar": "|",
}


def typeset(source: str) -> str:
    """What LaTeX prints for a source without mark-up; raises where it would do anything else."""
    printed, at = [], 0
    while at < len(source):
        rest = source[at:]
        if found := re.match(r"\\([a-z]+)\{\}", rest):
            printed.append(COMMANDS[found[1]])
        elif found := re.match(r"\\([&%$#_{}])", rest):
            printed.append(found[1])
        elif found := re.match(r"\$-\$", rest):
            printed.append("\N{MINUS SIGN}")
        elif found := re.match(r"\{\}", rest):
            pass
        elif found := re.match(r"--|''|,,|[&%$#_{}~^\\<>|`]", rest):
            raise AssertionError(f"LaTeX would not print {found[0]!r} of {source!r} as it is")
        else:
            found = re.match(r".", rest, re.DOTALL)
            assert found is not None
            printed.append(found[0])
        at += found.end()
    return "".join(printed)


@given(CELLS)
def test_latex_prints_what_stands_there(text: str) -> None:
    assert typeset(escape_latex(text)) == text


@pytest.mark.parametrize("source", ["a_b", "50%", "a--b", "x < y", "`a'", "R&D"])
def test_the_typesetter_can_fail(source: str) -> None:
    with pytest.raises(AssertionError, match="would not print"):
        typeset(source)


@given(st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=4))
@example([(" *", "[")])
def test_latex_rows_hold_the_cells(rows: list[tuple[str, str]]) -> None:
    """Cut at ampersands, every line gives its cells back, and none starts like an option of the last."""
    lines = Table(("a", "b"), tuple(rows)).latex().splitlines()
    assert lines[1:2] + lines[3:4] + lines[-2:] == [
        r"\toprule",
        r"\midrule",
        r"\bottomrule",
        r"\end{tabular}",
    ]
    body = lines[4:-2]
    assert not [line for line in body if re.match(r"\s*[\[*]", line)]
    found = [tuple(typeset(cell) for cell in line[:-3].split(" & ")) for line in body]
    minus = "\N{MINUS SIGN}"  # numbers get a real minus sign
    assert [[cell.replace(minus, "-") for cell in row] for row in found] == [
        [cell.replace(minus, "-") for cell in row] for row in rows
    ]


@given(st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=4))
def test_markdown_rows_hold_the_cells(rows: list[tuple[str, str]]) -> None:
    lines = Table(("a", "b"), tuple(rows)).markdown().splitlines()
    for line, row in zip(lines[2:], rows, strict=True):
        assert line.startswith("| ")
        assert line.endswith(" |")
        cells = line[2:-2].split(" | ")  # a bar within a cell has a backslash before it, so never this
        assert [re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", cell) for cell in cells] == list(row)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("a|b", r"a\|b"),
        ("*bold* `code`", r"\*bold\* \`code\`"),
        ("leave_one_out", "leave_one_out"),
        ("_a_", r"\_a\_"),
        ("<b>&amp;", r"\<b>\&amp;"),
        ("[text](link)", r"[text]\(link)"),
        ("$x$ a\\b ~~c~~", r"\$x\$ a\\b \~\~c\~\~"),
        ("two\nlines", "two lines"),
    ],
)
def test_markdown_takes_nothing_for_mark_up(text: str, written: str) -> None:
    assert Table(("name",), ((text,),)).markdown().splitlines()[2] == f"| {written} |"


@given(st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=4))
def test_csv_round_trip(rows: list[tuple[str, str]]) -> None:
    """Cells that a spreadsheet would take for a formula have an apostrophe before them."""
    read = list(csv.reader(io.StringIO(Table(("a", "b"), tuple(rows)).csv())))
    plain = [[re.sub("^'(?=[=+@-])", "", cell) for cell in row] for row in read]
    assert plain == [["a", "b"], *([re.sub("^'(?=[=+@-])", "", cell) for cell in row] for row in rows)]
    assert not [cell for row in read for cell in row if re.match(r"[=@]|[+-][^0-9.]", cell)]


def test_latex_float() -> None:
    """The whole text: title and notes escaped, numbers right, the strong cell bold."""
    table = Table(
        ("model_name", "p"),
        (("[a]", "-0.5 [-1, 1e-05]"), ("*", "\N{EN DASH}")),
        title="50 % of A&B",
        notes=("x_1.",),
        strong=frozenset({(0, 1), (1, 0)}),
    )
    assert table.latex(label="tab:a_1").splitlines() == [
        r"\begin{table}",
        r"\centering",
        r"\caption{50 \% of A\&B}",
        r"\label{tab:a_1}",
        r"\begin{tabular}{lr}",
        r"\toprule",
        r"model\_name & p \\",
        r"\midrule",
        r"{}[a] & \textbf{$-$0.5 [$-$1, 1e-05]} \\",
        r"\textbf{*} & " + "\N{EN DASH} \\\\",
        r"\bottomrule",
        r"\end{tabular}",
        r"\par\smallskip{\footnotesize x\_1.\par}",
        r"\end{table}",
    ]
    assert r"\caption{mine}" in table.latex(caption="mine")
    assert r"\caption" not in table.latex(caption="", label="a")


@pytest.mark.parametrize("label", ["a}b", "50%", "", "a\\b"])
def test_labels_are_names(label: str) -> None:
    with pytest.raises(InvalidParameter, match="label must be letters, digits"):
        Table(("a",), (("b",),)).latex(label=label)


@pytest.mark.parametrize(
    ("cells", "is_number"),
    [
        (("0.5", "-1", "\N{MINUS SIGN}1,000.5", "+.5", "1e-05"), True),
        (("0.5 [0.4, 0.6]", "3 (2 to 4)", ""), True),
        (("95 %", "12 MB", "3s"), True),
        (("", "\N{EN DASH}"), False),
        (("1", "all"), False),
        (("1 of 2 models",), False),
        ((), False),
    ],
)
def test_columns_of_numbers(cells: tuple[str, ...], is_number: bool) -> None:
    assert Table(("a",), tuple((cell,) for cell in cells)).is_number(0) is is_number


def test_a_result_as_a_table() -> None:
    """Values that no interval lies above are strong, but no naive ones; what is missing is a dash."""
    values = {("a", "exact"): 0.5, ("b", "exact"): 0.75, ("a", "naive"): -0.01, ("b", "naive"): float("nan")}
    estimates = [
        Estimate(model, "auc", value, value - 0.1, value + 0.1, 0.95, estimator=way, kind="estimate")
        for (model, way), value in values.items()
    ]
    estimates.append(Estimate("a", "ap", 0.00012, estimator="exact"))
    bound = Estimate("b", "auc", 0.5, 0.25, 0.75, 0.95, kind="bound")
    result = Result("estimate", tuple(estimates), bounds=(bound,))
    table = result.to_table()
    assert table.columns == ("model", "estimator", "auc", "ap")
    assert table.rows == (
        ("a", "exact", "0.5000 [0.4000, 0.6000]", "0.000120"),
        ("b", "exact", "0.7500 [0.6500, 0.8500]", MISSING),
        ("a", "naive", "-0.0100 [-0.1100, 0.0900]", MISSING),
        ("b", "naive", MISSING, MISSING),
        ("b", "bounds", "[0.2500, 0.7500]", MISSING),
    )
    assert table.strong == {(1, 2)}
    assert table.notes == (
        "Bold: the highest value, and those not distinguishable from it (95 % confidence).",
    )
    assert result.to_table(intervals=False).column("auc")[:2] == ("0.5000", "0.7500")
    assert (result.best("auc", "exact"), result.best("auc", "naive"), result.best("ap", "exact")) == (
        ["b"],
        [],
        [],
    )


def test_what_cannot_be_told_apart_is_best_together() -> None:
    """Overlapping intervals tell nothing apart, nor do missing ones and those about these users alone."""
    spread = {"a": (0.7, 0.9), "b": (0.6, 0.75), "c": (0.1, 0.2), "d": (None, None), "e": (0.3, 0.3)}
    result = Result(
        "evaluate",
        tuple(
            Estimate(name, "auc", value, *spread[name])
            for name, value in zip("abcde", (0.8, 0.7, 0.1, 0.2, 0.3), strict=True)
        ),
    )
    assert result.best("auc") == result.best("auc", "exact") == ["a", "b", "e", "d"]
    assert result.to_table().columns == ("model", "auc")
    assert result.best_sentences() == ["Best in auc: a, but b, e and d are not distinguishable from it."]
    assert [e.is_best for e in mark_best(result.estimates)] == [True, True, False, True, True]
    ignorant = replace(result.estimates[2], method="delta, ignores bias")
    assert mark_best([result.estimates[0], ignorant])[1].is_best
    marked = replace(result.estimates[1], is_best=False)
    told = Result("evaluate", (replace(result.estimates[0], is_best=True), marked))
    assert told.best("auc") == ["a"]  # what compared users in pairs is believed
    assert Result.from_json(told.to_json()) == told


def test_naive_values_crown_no_model() -> None:
    estimates = [
        Estimate(model, "auc", value, value - 0.01, value + 0.01, 0.95, "estimate", estimator=way)
        for way, values in {"smooth": (0.2, 0.3), "naive": (0.9, 0.8)}.items()
        for model, value in zip("ab", values, strict=True)
    ]
    result = Result("evaluate", tuple(estimates))
    assert result.reference() == "smooth"
    assert (result.best("auc"), result.best("auc", "naive")) == (["b"], [])
    naive = Result("evaluate", tuple(estimates[2:]))
    assert naive.best("auc") == []
    assert naive.best_sentences()[0].startswith("No model is marked as best. Naive values are those of the")
    assert not naive.to_table().strong


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs pdflatex")
def test_pdflatex_accepts_it(tmp_path: Path) -> None:
    rows = tuple((cell, "-0.5") for cell in ("a&b_c%", "[x]", "*", r"\$#{}~^", "<|>`", "é"))
    table = Table(("name", "value"), rows, title="R&D", notes=("50 %",))
    source = tmp_path / "a.tex"
    source.write_text(
        "\\documentclass{article}\\usepackage[T1]{fontenc}\\usepackage{booktabs}\\begin{document}\n"
        f"{table.latex(label='tab:a')}\n\\end{{document}}\n"
    )
    command = ["pdflatex", "-halt-on-error", "-interaction=nonstopmode", source.name]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:]
