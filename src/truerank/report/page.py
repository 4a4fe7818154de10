"""HTML pages in one self-contained file each: reports of results, and documents such as comparisons.

A report begins with a sentence that names the best model, then shows the leaderboard, identification bounds,
charts, cost, and what is needed to repeat it. Templates escape all text; a page loads nothing and runs no
script.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from truerank.core.chart import DARK, LIGHT, Document, HeatMap, Picture
from truerank.core.checkpoint import replace_text
from truerank.core.errors import InvalidParameter, suggests_arguments
from truerank.core.result import NAIVE, NAIVE_ORDER, SAMPLED_USERS, Estimate, Result
from truerank.core.table import MISSING, Table, count_of, decimals, fixed, listed_in_words, percent
from truerank.report.charts.segments import segment_charts
from truerank.report.charts.top_k import top_k_chart
from truerank.report.facts import (
    COMMAND_LINE,
    basis_sentence,
    caution_sentence,
    cost_table,
    data_facts,
    estimator_line,
    metric_facts,
    model_table,
    pasted,
    repeat_facts,
)
from truerank.report.layout import ModelStyles
from truerank.report.leaderboard import Leaderboard, build_leaderboard, dot_panels
from truerank.report.outline import Part, chart_sections, outlined
from truerank.report.shown_table import stacking_of, table_for_page
from truerank.report.svg.heat_map import PaintedHeatMap, level_colours, paint_heat_map
from truerank.report.svg.painter import PaintedChart, axis_name, css_classes, paint_chart
from truerank.report.svg.rows import PaintedRows, paint_rows
from truerank.workflows.compare.result import Comparison

if TYPE_CHECKING:
    from jinja2 import Environment


def render_page(template: str, styles: ModelStyles, version: str, **entries: Any) -> str:
    """Return a page; a model has the same colour and marker in all its charts."""

    def paint(picture: Picture) -> PaintedChart | PaintedHeatMap | PaintedRows:
        if isinstance(picture, HeatMap):
            return paint_heat_map(picture)
        return paint_rows(picture, styles) if picture.has_rows else paint_chart(picture, styles)

    return _environment().get_template(template).render(paint=paint, version=version, **entries)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("truerank.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(
        light=LIGHT,
        dark=DARK,
        missing=MISSING,
        light_levels=level_colours("light"),
        dark_levels=level_colours("dark"),
    )
    environment.filters.update(
        css=css_classes, fixed=fixed, percent=percent, axis_name=axis_name, for_page=table_for_page
    )
    return environment


def write_document(document: Document, path: Path) -> None:
    """Write a document as one html file that needs nothing else.

    The file loads nothing from the network, runs no script, follows the light or dark theme of the reader
    and prints. Equal documents give equal files. What was at ``path`` is replaced in one step.

    Parameters
    ----------
    document : what to show
    path : the file to write

    Raises
    ------
    InvalidParameter
        When the folder does not exist, the path is not a file or it cannot be written.
    """
    replace_text(Path(path), render_document(document), "the report")


def render_document(document: Document) -> str:
    """Return the html text that ``write_document`` writes.

    Examples
    --------
    >>> "<h1>ease &lt; ials</h1>" in render_document(Document("ease < ials", "By 0.01.", ()))
    True
    """
    pictures = [picture for section in document.sections for picture in section.charts]
    sections = outlined(document)
    contents = [Part(entry.key, entry.section.title) for entry in sections]
    if document.command or document.facts:
        contents.append(Part("repeat", "How to repeat this"))
    return render_page(
        "document.html.jinja",
        ModelStyles.of((), pictures),
        document.version,
        document=document,
        command=pasted(document.command),
        sections=sections,
        contents=contents,
        meanings=dict(metric_facts(document.metrics)),
    )


def best_model_sentence(result: Result, board: Leaderboard) -> str:
    """Return one sentence: which model is best on the first metric, and which cannot be told from it.

    Where there are several estimators, the sentence is about the reference of the leaderboard.
    """
    if not board.metrics:
        return "This result holds no estimates."
    board = board.leaders()
    metric = board.metrics[0]
    has_dataset = (
        result.data.get("name") and result.command != "estimate"
    )  # there the name is that of the model
    on_dataset = f" on {result.data['name']}" if has_dataset else ""
    column = board.column(metric)
    if not column:
        return f"No model has a value of {metric}{on_dataset}."
    row, cell = column[0]
    way = "" if row.label == row.model else f" by estimator {board.reference}"
    if board.reference == "exact":
        way = ""
    if len(board.rows) == 1:
        return f"{row.model} reaches {metric} {cell.words}{on_dataset}{way}{_users(cell.estimate, result)}."
    opening = f"Of {count_of(len(board.rows), 'model')}{on_dataset}"
    if board.reference == NAIVE:
        return f"{opening}, none is marked as best. {NAIVE_ORDER}"
    best = [leader.model for leader in board.best(metric)]
    equal = [other.model for other, shown in column if shown.estimate.value == cell.estimate.value]
    verb = "has" if len(equal) == 1 else "share"
    opening += f", {listed_in_words(equal)} {verb} the highest {metric}{way}, {cell.words}"
    rivals = [model for model in best if model not in equal]
    if len(best) == len(column) > 2 and rivals:
        return f"{opening}; no model is distinguishable from it."
    if rivals:
        verb, it = "is" if len(rivals) == 1 else "are", "it" if len(equal) == 1 else "them"
        return f"{opening}; {listed_in_words(rivals)} {verb} not distinguishable from {it}."
    return f"{opening}{_consistency(board, equal)}."


def verdict_sentences(result: Result, leaders: Leaderboard) -> list[str]:
    """Return which models are best on the other metrics; nothing where the first sentence says that.

    Parameters
    ----------
    result : what is shown
    leaders : rows of the reference of its leaderboard
    """
    sentences = result.best_sentences()
    if len(sentences) != 1 or len(leaders.metrics) == 1:
        return sentences if len(leaders.metrics) > 1 else []
    has_rivals = len(leaders.best(leaders.metrics[0])) > 1
    number = "both" if len(leaders.metrics) == 2 else f"all {len(leaders.metrics)}"
    return [f"The same holds for {number} metrics."] if has_rivals else []


def _users(estimate: Estimate, result: Result) -> str:
    """Return the users that a value is about: of a slow model all test users, however few are known."""
    n_users = estimate.n_users
    if estimate.estimator == SAMPLED_USERS and estimate.target == "test-users":
        n_users = int(result.data.get("users_with_targets", 0))
    return f", averaged over {count_of(n_users, 'user')}" if n_users else ""


def _consistency(board: Leaderboard, best: list[str]) -> str:
    """Return on how many metrics the best model is alone at the top."""
    if len(board.metrics) == 1 or len(best) > 1:
        return ""
    led = sum([row.model for row in board.best(metric)] == best for metric in board.metrics)
    if led == len(board.metrics):
        return f", and is best on all {len(board.metrics)} metrics"
    return f", and is alone at the top on {led} of {len(board.metrics)} metrics"


def bound_table(result: Result) -> Table | None:
    """Return the bounds of a result; None where it has none.

    Examples
    --------
    >>> from truerank.core.result import Estimate
    >>> bound = Estimate("popularity", "ndcg@10", 0.15, 0.1, 0.2, 0.95, kind="bound", estimator="bounds")
    >>> bound_table(Result("estimate", (), bounds=(bound,))).rows
    (('popularity', '0.1000 to 0.2000'),)
    """
    if not result.bounds:
        return None
    metrics = tuple(dict.fromkeys(bound.metric for bound in result.bounds))
    limits = [end for bound in result.bounds for end in (bound.low, bound.high) if end is not None]
    places = decimals(limits)
    texts = {
        (bound.model, bound.metric): f"{fixed(bound.low, places)} to {fixed(bound.high, places)}"
        for bound in result.bounds
        if bound.low is not None and bound.high is not None
    }
    models = dict.fromkeys(bound.model for bound in result.bounds)
    rows = tuple((model, *(texts.get((model, metric), MISSING) for metric in metrics)) for model in models)
    return Table(("Model", *metrics), rows)


def bound_sentence(result: Result) -> str:
    """Return a sentence that explains the bounds, or nothing where there are none.

    Examples
    --------
    >>> bound_sentence(Result("estimate", ()))
    ''
    """
    if not result.bounds:
        return ""
    level = result.bounds[0].level
    sure = "" if level is None else f" at {percent(level)} confidence"
    return (
        "Identification bounds: every value between these limits is consistent with the sampled ranks"
        f"{sure}; no estimator is used."
    )


@suggests_arguments
def write_report(result: Result | Comparison, path: str | Path) -> None:
    """Write a result or a comparison as one html file that needs nothing else.

    The file loads nothing from the network, runs no script, follows the light or dark theme of the reader
    and prints. Equal results give equal files. What was at ``path`` is replaced in one step.

    Parameters
    ----------
    result : what to show, with its ``charts``; the curve of top-K shares needs its ``ranks``
    path : the file to write

    Raises
    ------
    InvalidParameter
        When the folder does not exist, the path is not a file or it cannot be written.
    """
    if isinstance(result, Comparison):
        from truerank.report.charts.comparison import comparison_document

        write_document(comparison_document(result), Path(path))
        return
    if not isinstance(result, Result):
        raise InvalidParameter(
            f"write_report needs a Result or a Comparison, got {type(result).__name__}. truerank.evaluate, "
            "truerank.estimate and truerank.compare return them."
        )
    replace_text(Path(path), render_report(result), "the report")


def render_report(result: Result) -> str:
    """Return the html text that ``write_report`` writes.

    Examples
    --------
    >>> from truerank.core.result import Estimate
    >>> html = render_report(Result("evaluate", (Estimate("popularity", "auc", 0.8),)))
    >>> "popularity reaches auc 0.8000." in html
    True
    """
    board = build_leaderboard(result)
    curve = top_k_chart(result.ranks, result.models())
    charts: list[Picture] = [*result.charts, *segment_charts(result.segments), *([curve] if curve else [])]
    leaders = board.plain_leaders()
    sections = chart_sections(charts, leaders.rows[0].model if leaders.rows else "")
    bounds, cost = bound_table(result), cost_table(result)
    best = leaders.rows[0].model if leaders.rows and leaders.reference != "exact" else ""
    caution = caution_sentence(result, best, board.metrics[0]) if best else ""
    shown = {
        "leaderboard": ("Leaderboard", bool(board.metrics)),
        "limits": ("What is known, and what is not", bool(bounds or result.notes)),
        **{key: (one.subject.title, True) for key, one in sections.items() if key != "charts"},
        "cost": ("Cost", cost is not None or "cost" in sections),
        **{key: (one.subject.title, True) for key, one in sections.items() if key == "charts"},
        "repeat": ("Data, and how to repeat this", True),
    }
    panels = dot_panels(board if board.has_exact_and_estimates else leaders)
    return render_page(
        "report.html.jinja",
        ModelStyles.of(result.models(), charts),
        result.version,
        result=result,
        name=str(result.data.get("name") or "result"),
        contents=[Part(key, title) for key, (title, is_shown) in shown.items() if is_shown],
        summary=best_model_sentence(result, board),
        verdicts=verdict_sentences(result, leaders),
        basis=" ".join(filter(None, (basis_sentence(result), caution))),
        board=board,
        has_best=any(cell and cell.is_best for row in board.rows for cell in row.cells),
        stacking=stacking_of(180 + 140 * len(board.metrics)),
        leaders=leaders.rows,
        others=[row for row in board.rows if row.estimator not in {one.estimator for one in leaders.rows}],
        meanings=dict(metric_facts(board.metrics)),
        ways={row.estimator: estimator_line(row.estimator) for row in board.rows},
        panels=panels if len(board.rows) > 1 else [],
        bounds=bounds,
        bound_sentence=bound_sentence(result),
        charts=sections,
        cost=cost,
        data=data_facts(result.data),
        repeat=repeat_facts(result),
        command=pasted(result.provenance.get(COMMAND_LINE)),
        per_model=model_table(result),
    )
