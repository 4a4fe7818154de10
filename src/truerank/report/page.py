"""The report: all sections in one self-contained html file."""

from __future__ import annotations

from pathlib import Path

from truerank.core.chart import Picture
from truerank.core.output import replace_text
from truerank.core.result import Result
from truerank.report.board import build_board
from truerank.report.bounds import bound_table, bound_words
from truerank.report.dots import dot_panels
from truerank.report.facts import cost_table, data_facts, model_table, repeat_facts
from truerank.report.html import fill
from truerank.report.look import Looks
from truerank.report.summary import summarise
from truerank.report.top_share import top_share_chart


def write_report(result: Result, path: Path) -> None:
    """Write a result as one html file that needs nothing else.

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
    replace_text(Path(path), render_report(result), "the report")


def render_report(result: Result) -> str:
    """Return the html text that ``write_report`` writes.

    Examples
    --------
    >>> from truerank.core.estimate import Estimate
    >>> html = render_report(Result("evaluate", (Estimate("popularity", "auc", 0.8),)))
    >>> "popularity reaches auc 0.8000." in html
    True
    """
    board = build_board(result)
    curve = top_share_chart(result.ranks, result.models())
    charts: list[Picture] = [*result.charts, *([curve] if curve else [])]
    return fill(
        "report.html.jinja",
        Looks.of(result.models(), charts),
        result.version,
        result=result,
        name=str(result.data.get("name") or "result"),
        summary=summarise(result, board),
        board=board,
        panels=dot_panels(board),
        bounds=bound_table(result),
        bound_words=bound_words(result),
        charts=charts,
        cost=cost_table(result),
        data=data_facts(result.data),
        repeat=repeat_facts(result),
        per_model=model_table(result),
    )
