"""An HTML report of the JSON results in a folder."""

from pcpq.experiments.report.page import write_report

__all__ = ["write_report"]
