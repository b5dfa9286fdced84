"""A user's mistake ends in one sentence and exit code 2, never in a traceback."""

from __future__ import annotations

import functools
import re
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


_IGNORE = "Fix the file, or pass --ignore to leave the column out of a fit."
_REMEDIES = {
    "gap": "Fill the gap in, or remove the row.",
    "gaps": "Fill the gap in, or fit a model without feature maps of its own, which takes gaps.",
    "infinite": "Fix the file, or pass --na {!r} to read it as a gap.",
    "columns": _IGNORE,
    "stray": "Fix the file, or pass --na {!r} to read it as a gap.",
    "fit": "Fix the file.",
    "dates": "Write days as 2020-12-31.",
    "thousands": "Remove these marks from the numbers: they are no decimal marks.",
    "commas": "Remove commas that separate thousands, and keep those that are decimals.",
    "decimal": "Pass --decimal ','.",
    "marks": "Write all numbers with one decimal mark.",
    "encoding": "Pass --encoding cp1252, or another.",
    "target": "The target must be numbers; texts can be classes (--task classification).",
}


# A text that is shown in part, with … at its end, cannot be passed on.
_TEXT_AMONG_NUMBERS = re.compile(r"must be numbers, .* but is text \(row \d+ is (.*[^…].)\)\.$")
# Arrow counts the header as a row; everywhere else the first row is the one under it.
_LONG_ROW = re.compile(r"CSV parse error: Row #(\d+): Expected")


class Mistake(click.ClickException):
    """Something the user can put right."""

    exit_code = 2

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))


def as_user_errors(command: F) -> F:
    """Turn the errors that polyadic raises about what users pass into one sentence.

    ``ValueError`` and ``OSError`` are what polyadic and scikit-learn raise about data,
    parameters and files; ``ImportError`` is how a missing extra shows.
    """

    @functools.wraps(command)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _print_warning
                return command(*args, **kwargs)
        except BrokenPipeError:  # the reader of our output has seen enough
            raise
        except (ValueError, OSError) as error:
            raise Mistake(_tell(error)) from error
        except ImportError as error:
            if error.name is None:  # polyadic's own, which says what to install
                raise Mistake(str(error)) from error
            raise Mistake(
                f"{error}. This command needs {error.name.split('.')[0]}: install it with "
                "pip install 'polyadic[app]'."
            ) from error

    return guarded  # type: ignore[return-value]


def _tell(error: Exception) -> str:
    """Return what an error says; what to do about rows, in the words of the command."""
    from polyadic.sources.files.row_files import RowsError

    if isinstance(error, RowsError):
        return error.told(_REMEDIES | _other_remedies(error.problem))
    return _LONG_ROW.sub(lambda found: f"row {int(found[1]) - 1}: expected", str(error))


def _other_remedies(problem: str) -> dict[str, str]:
    """Return what to do about a problem where that depends on the command, or on a value."""
    found = {}
    if not _takes("--task"):
        found["target"] = (
            "The target must be numbers, as in the fit. Fix the file, or pass --target to name "
            "another column."
        )
    text = _TEXT_AMONG_NUMBERS.search(problem)
    if text is not None and _takes("--na"):
        # A remedy is a pattern, in which braces stand for something else.
        shown = text[1].replace("{", "{{").replace("}", "}}")
        found["fit"] = f"Fix the file, or pass --na {shown} to read it as a gap."
    return found


def _takes(option: str) -> bool:
    """Return whether the command that runs has an option."""
    context = click.get_current_context(silent=True)
    return context is not None and any(option in each.opts for each in context.command.params)


def warn(message: str | None) -> None:
    """Print a warning, if there is one."""
    if message is not None:
        click.echo(f"Warning: {message}", err=True)


def note(message: str) -> None:
    """Print what was found out about a table."""
    click.echo(f"Note: {message}", err=True)


def _print_warning(
    message: Any, category: Any, filename: Any, lineno: Any, file: Any = None, line: Any = None
) -> None:
    """Print a warning without the line of code it came from."""
    click.echo(f"Warning: {message}", err=True)
