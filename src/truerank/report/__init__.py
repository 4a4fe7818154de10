"""Result records to one self-contained html file, and figures for notebooks."""

from truerank.report.page import render_report, write_report
from truerank.report.picture import figure

__all__ = ["figure", "render_report", "write_report"]
