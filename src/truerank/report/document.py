"""Documents as one self-contained html file."""

from __future__ import annotations

from pathlib import Path

from truerank.core.document import Document
from truerank.core.output import replace_text
from truerank.report.html import fill
from truerank.report.look import Looks


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
    return fill("document.html.jinja", Looks.of((), pictures), document.version, document=document)
