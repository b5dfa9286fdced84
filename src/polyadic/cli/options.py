"""Options of `polyadic fit`: one for each parameter of the estimator, or a TOML file."""

from __future__ import annotations

import ast
import functools
import re
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, TypeVar

import click

from polyadic.cli.errors import Mistake

F = TypeVar("F", bound=Callable[..., Any])

# Feature maps are told in a configuration file, categories by --category; the others make no
# sense in one command.
_NOT_OPTIONS = {"feature_maps", "categorical_features", "warm_start", "verbose"}

# What the command does otherwise than the estimator.
_HELP = {
    "random_state": "Seed; 0 by default, so that a command gives the same model again.",
    "quantile": "Predict this quantile, between 0 and 1, instead of a mean.",
    "class_weight": "Weights of classes: balanced, or some of them such as yes=5,no=1.",
}
CONFIG = "polyadic.config"
"""Where the context of a command keeps the path of its configuration."""

_TRUE_OR_FALSE = {"true": True, "false": False}


class Value(click.ParamType):  # type: ignore[type-arg]
    """A number, true, false, none, a list of numbers, or a word."""

    name = "value"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return what a word stands for; what comes from TOML is left as it is."""
        if not isinstance(value, str):
            return value
        words = {"true": True, "false": False, "none": None}
        if value.lower() in words:
            return words[value.lower()]
        if "," in value:
            return [self.convert(part.strip(), param, ctx) for part in value.split(",")]
        for number in (int, float):
            try:
                return number(value)
            except ValueError:
                continue
        return value


class Levels(click.ParamType):  # type: ignore[type-arg]
    """Numbers between 0 and 1, with commas between them."""

    name = "levels"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[float, ...]:
        """Return the numbers; an empty text, as of an unset variable of a shell, is refused."""
        if not isinstance(value, str):
            return tuple(value)
        try:
            found = [float(part) for part in value.split(",")]
        except ValueError:
            found = [-1.0]
        if not all(0 < each < 1 for each in found):
            self.fail(f"must be numbers between 0 and 1, such as 0.9 or 0.5,0.9, got {value!r}.")
        return tuple(dict.fromkeys(found))


@dataclass(frozen=True)
class Parameter:
    """A parameter of an estimator: whether it is true or false, and what its docstring says."""

    is_flag: bool
    text: str


def read_parameters(module: str, name: str) -> dict[str, Parameter]:
    """Return the parameters of an estimator, read from its source.

    Importing it would import scikit-learn, which takes two seconds: too long for a command that
    only prints its help, or refuses a word.

    Parameters
    ----------
    module : str
        File of the estimator in the package, such as "estimators/feature_learning.py".
    name : str
        Its class.
    """
    tree = ast.parse(files("polyadic").joinpath(module).read_text("utf-8"))
    (found,) = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name]
    (init,) = [
        node for node in found.body if isinstance(node, ast.FunctionDef) and node.name == "__init__"
    ]
    documented = _read_docstring(ast.get_docstring(found) or "")
    defaults = dict(zip((a.arg for a in init.args.kwonlyargs), init.args.kw_defaults, strict=True))
    return {
        name: Parameter(
            isinstance(default, ast.Constant) and isinstance(default.value, bool),
            _HELP.get(name) or documented.get(name, ""),
        )
        for name, default in defaults.items()
        if name not in _NOT_OPTIONS
    }


def estimator_options(command: F) -> F:
    """Add an option for each parameter of the estimators, of numbers and of classes."""
    regressor = read_parameters("estimators/feature_learning.py", "FeatureLearningRegressor")
    classifier = read_parameters("estimators/classifiers.py", "FeatureLearningClassifier")
    for name, parameter in reversed((regressor | {**classifier, **regressor}).items()):
        flag, is_flag = "--" + name.replace("_", "-"), parameter.is_flag
        kind = click.Choice(list(_TRUE_OR_FALSE)) if is_flag else Value()
        command = click.option(
            flag, name, type=kind, callback=_as_flag if is_flag else None, help=parameter.text
        )(command)
    return command


def _as_flag(ctx: click.Context, param: click.Parameter, value: str | None) -> bool | None:
    return None if value is None else _TRUE_OR_FALSE[value]


def _read_docstring(text: str) -> dict[str, str]:
    """Return what an estimator's docstring says of each parameter."""
    section = text.split("Parameters\n----------\n", 1)[1].split("\n\nAttributes\n")[0]
    entries = re.findall(r"^(\w+) : (.*)\n((?:    .*\n?)+)", section, re.MULTILINE)
    texts = {name: f"{' '.join(body.split())} {_choices(kind)}" for name, kind, body in entries}
    return {name: text.replace("`", "").strip() for name, text in texts.items()}


def _choices(kind: str) -> str:
    """Return the words that a parameter may be, from the type that the docstring gives it."""
    found = re.search(r"\{(.*?)\}", kind)
    return "" if found is None else f"One of {found[1]}.".replace('"', "")


def csv_options(command: F) -> F:
    """Add options that tell how a CSV file is written; the command gets them as `csv`."""

    @functools.wraps(command)
    def pass_format(
        *args: Any,
        delimiter: str | None,
        decimal: str | None,
        encoding: str | None,
        na: Sequence[str],
        **options: Any,
    ) -> Any:
        csv = {
            "delimiter": delimiter,
            "decimal": decimal,
            "na": tuple(na),
            "encoding": encoding,
        }
        return command(*args, csv=csv, **options)

    wrapped: Any = pass_format
    for flag, text in (
        ("--decimal", "Decimal mark of a CSV file; told from the file by default."),
        ("--delimiter", "Delimiter of a CSV file; told from the file by default."),
    ):
        wrapped = click.option(flag, callback=_one_character, help=text)(wrapped)
    wrapped = click.option(
        "--encoding",
        callback=_known_encoding,
        help="Encoding of a CSV file, such as cp1252; told from the file by default.",
    )(wrapped)
    return click.option(  # type: ignore[no-any-return]
        "--na",
        multiple=True,
        metavar="TEXT",
        help="Text that stands for a missing value in a CSV file; repeatable.",
    )(wrapped)


def force_option(command: F) -> F:
    """Add ``--force``, without which no file is replaced."""
    return click.option("--force", is_flag=True, help="Replace the file of --out.")(command)


def _one_character(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    value = "\t" if value == "\\t" else value
    if value is not None and (len(value) != 1 or not value.isascii()):
        raise click.BadParameter(f"must be one character, got {value!r}.")
    return value


def _known_encoding(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    if value is None:
        return None
    from polyadic.sources.files.sniff import check_encoding

    try:
        check_encoding(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    return value


def config_option(command: F) -> F:
    """Add ``--config``, a TOML file with the same names as the options."""
    return click.option(
        "--config",
        type=click.Path(exists=True, dir_okay=False),
        is_eager=True,
        expose_value=False,
        callback=_read_config,
        help="TOML file with options and feature_maps; options given here come first.",
    )(command)


def _read_config(ctx: click.Context, param: click.Parameter, path: str | None) -> None:
    if path is None:
        return
    try:
        with open(path, "rb") as file:
            content = tomllib.load(file)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Mistake(f"{path} is not TOML: {error}") from error
    values = {name.replace("-", "_"): value for name, value in content.items()}
    ctx.obj = feature_maps(values.pop("feature_maps", None), path)
    ctx.meta[CONFIG] = path
    known = {_name(option): option for option in ctx.command.params}
    for name in values:
        if name not in known or name in ("config", "data"):
            names = sorted(set(known) - {"config", "data"})
            raise Mistake(
                f"{path} has an unknown name {name!r}. Known are feature_maps, {', '.join(names)}."
            )
    ctx.default_map = {
        str(known[name].name): _convert_config(known[name], value, path)
        for name, value in values.items()
    }


def _name(option: click.Parameter) -> str:
    """Return what an option is called on the command line, in the spelling of Python."""
    return max(option.opts, key=len).removeprefix("--").replace("-", "_")


def _convert_config(option: click.Parameter, value: Any, path: str) -> Any:
    """Return a value of a configuration as an option takes it."""
    if option.multiple and not isinstance(value, list):
        raise Mistake(
            f"{path}: {_name(option)} must be a list, such as {_name(option)} = "
            f'["{value}"], got {value!r}.'
        )
    if isinstance(option.type, click.Choice) and isinstance(value, bool):
        return str(value).lower()
    return value


def feature_maps(stored: Any, path: str) -> list[Any] | None:
    """Return the maps of a configuration: tables with `kind` and the map's parameters."""
    if stored is None:
        return None
    from polyadic import features

    abstract = {"FeatureMap", "GeometricFeatures", "TensorLayout"}
    names = [name for name in features.__all__ if name not in abstract]
    kinds = {name.removesuffix("Features").lower(): name for name in names}
    maps = []
    for entry in stored if isinstance(stored, list) else [stored]:
        kind = entry.get("kind") if isinstance(entry, dict) else None
        name = kinds.get(str(kind).removesuffix("Features").lower())
        if name is None:
            raise Mistake(
                f"{path}: each of feature_maps must be a table with kind = one of "
                f"{', '.join(kinds)}, got {entry!r}."
            )
        parameters = {key: value for key, value in entry.items() if key != "kind"}
        try:
            maps.append(getattr(features, name)(**parameters))
        except TypeError as error:
            raise Mistake(f"{path}: feature map {kind!r}: {error}.") from error
    return maps
