"""The report: all sections in one self-contained html file."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from truerank.core.number import MISSING, fixed, percent
from truerank.core.output import replace_text
from truerank.core.palette import DARK, LIGHT
from truerank.core.result import Result
from truerank.report.board import build_board
from truerank.report.bounds import bound_table
from truerank.report.curve import top_share_curve
from truerank.report.dots import dot_panels
from truerank.report.facts import data_facts, model_facts, repeat_facts
from truerank.report.summary import summarise

if TYPE_CHECKING:
    from jinja2 import Environment


def write_report(result: Result, path: Path) -> None:
    """Write a result as one html file that needs nothing else.

    The file loads nothing from the network, runs no script, follows the light or dark theme of the reader
    and prints. Equal results give equal files. What was at ``path`` is replaced in one step.

    Parameters
    ----------
    result : what to show; the curve of top-K shares needs its ``ranks``
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
    return (
        _environment()
        .get_template("report.html.jinja")
        .render(
            result=result,
            name=str(result.data.get("name") or "result"),
            summary=summarise(result, board),
            board=board,
            panels=dot_panels(board),
            bounds=bound_table(result),
            curve=top_share_curve(result.ranks, board),
            data=data_facts(result.data),
            repeat=repeat_facts(result),
            per_model=model_facts(result),
        )
    )


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
    environment.globals.update(light=LIGHT, dark=DARK, missing=MISSING)
    environment.filters.update(fixed=fixed, percent=percent)
    return environment
