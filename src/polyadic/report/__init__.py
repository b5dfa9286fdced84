"""The report: one self-contained HTML page about a fitted model.

subject ─► figures (inline SVG that follows the page's colours) ─► template ─► one file
"""

from polyadic.report._page import render, write_report
from polyadic.report._subject import Subject

__all__ = ["Subject", "render", "write_report"]
