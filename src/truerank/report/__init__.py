"""Results and documents to self-contained html files."""

from truerank.report.document import render_document, write_document
from truerank.report.page import render_report, write_report

__all__ = ["render_document", "render_report", "write_document", "write_report"]
