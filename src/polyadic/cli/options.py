"""Options of `polyadic fit`: one for each parameter of the estimator, or a TOML file."""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Callable
from typing import Any, TypeVar

import click

from polyadic import FeatureLearningRegressor, features
from polyadic.cli.errors import Mistake

F = TypeVar("F", bound=Callable[..., Any])

# Feature maps are told in a configuration file; the others make no sense in one command.
_NOT_OPTIONS = {"self", "feature_maps", "warm_start", "verbose"}

_HELP = {
    "n_basis": "Basis functions of an input, or one number for each: 4,8,8.",
    "rank": "Rank of the weight tensor.",
    "quantized": "Whether an input has several small cores in place of one.",
    "alpha": "Penalty on the weight tensor.",
    "beta": "Penalty on the feature weights.",
    "mixing": "simplex, l1, l2 or fixed_norm.",
    "nonnegative": "Whether feature weights must not be negative.",
    "objective": "real or complex.",
    "max_iter": "Epochs at most.",
    "tol": "Gain below which a fit stops.",
    "n_estimators": "Members whose predictions are averaged.",
    "early_stopping": "Whether held-out rows end a fit.",
    "validation_fraction": "Share of rows held out for that.",
    "n_iter_no_change": "Epochs without gain before a fit stops.",
    "scale_inputs": "Whether inputs are scaled to [0, 1].",
    "engine": "What computes.",
    "device": "Where the engine computes.",
    "dtype": "float64 or float32.",
    "chunk_size": "Rows of a chunk.",
    "memory_limit": "Memory that a fit may take; with rows on disk, all that the process takes.",
    "subsample": "Share of the rows that the first epoch sees; it doubles with every epoch.",
    "checkpoint": "File from which an interrupted fit goes on.",
    "n_jobs": "Threads.",
    "random_state": "Seed; 0 by default, so that a command gives the same model again.",
}


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


def estimator_options(command: F) -> F:
    """Add an option for each parameter of the estimator."""
    parameters = inspect.signature(FeatureLearningRegressor.__init__).parameters
    for name in reversed([name for name in parameters if name not in _NOT_OPTIONS]):
        flag = "--" + name.replace("_", "-")
        text = _HELP.get(name, "Parameter of the estimator.")
        command = click.option(flag, name, type=Value(), default=None, help=text)(command)
    return command


def csv_options(command: F) -> F:
    """Add what tells how a CSV file is written."""
    for flag, default, text in (
        ("--decimal", ".", "Decimal mark of a CSV file."),
        ("--delimiter", None, "Delimiter of a CSV file; a comma, or a tab for .tsv."),
    ):
        command = click.option(flag, default=default, callback=_one_character, help=text)(command)
    return command


def _one_character(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    value = "\t" if value == "\\t" else value
    if value is not None and (len(value) != 1 or not value.isascii()):
        raise click.BadParameter(f"must be one character, got {value!r}.")
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
    known = {option.name for option in ctx.command.params} - {"config", "data"}
    for name in values:
        if name not in known:
            raise Mistake(
                f"{path} has an unknown name {name!r}. Known are feature_maps, "
                f"{', '.join(sorted(str(option) for option in known))}."
            )
    ctx.default_map = values


def feature_maps(stored: Any, path: str) -> list[features.FeatureMap] | None:
    """Return the maps of a configuration: tables with `kind` and the map's parameters."""
    if stored is None:
        return None
    kinds = {name.removesuffix("Features").lower(): name for name in _map_names()}
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


def _map_names() -> list[str]:
    """Return the names of the maps that can be made."""
    abstract = {"FeatureMap", "GeometricFeatures", "TensorLayout"}
    return [name for name in features.__all__ if name not in abstract]
