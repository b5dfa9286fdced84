"""The `polyadic` command: one group, one module for each family of subcommands."""

from __future__ import annotations

import io
import sys

import click

from polyadic import __version__
from polyadic.cli.demo import demo
from polyadic.cli.export import export
from polyadic.cli.models import evaluate, fit, predict, show
from polyadic.cli.report import report
from polyadic.cli.reproduce import reproduce

__all__ = ["main"]


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="polyadic")
def main() -> None:
    """Kernel regression and classification without a search for hyperparameters."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A code page without λ must not end a command whose work is done.
            stream.reconfigure(errors="replace")


for command in (demo, fit, predict, evaluate, show, report, export, reproduce):
    main.add_command(command)
