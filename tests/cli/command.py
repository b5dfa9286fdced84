"""The command, as tests call it."""

from __future__ import annotations

from click.testing import CliRunner

from polyadic.cli import main


def run(*words, code=0):
    """Run the command, which must end with this code; return its result."""
    result = CliRunner().invoke(main, [str(word) for word in words])
    assert result.exit_code == code, result.output
    return result


def say(*words, code=0):
    """Run the command; return what it answers, or why it refuses."""
    result = run(*words, code=code)
    return result.stdout if code == 0 else result.stderr
