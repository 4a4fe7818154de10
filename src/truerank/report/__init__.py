"""Result records to one self-contained html file, and figures for notebooks."""

from truerank.report.file import check_report_path
from truerank.report.page import render_report, write_report
from truerank.report.picture import figure

__all__ = ["check_report_path", "figure", "render_report", "write_report"]
