"""The report: one self-contained HTML page about a fitted model.

subject ─► findings (all numbers) ─► figures (inline SVG in the page's colours) ─► one file
"""

from polyadic.report._page import render, write_report
from polyadic.report._subject import Subject

__all__ = ["Subject", "render", "write_report"]
