"""Model files: what a fitted estimator is made of in one file, without pickle.

    class, parameters, fitted attributes, notes

They are written as JSON and arrays in a checksummed file, see `container`.  Loading builds
objects of polyadic's own classes and of those the caller names, and runs nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from polyadic.features import FeatureMap, Table, TensorLayout
from polyadic.features.tables import N_KNOTS
from polyadic.members import Member, Reach
from polyadic.model.als import Model
from polyadic.model.error_distribution import ErrorDistribution
from polyadic.model.posterior import CorePosterior
from polyadic.rows.filling import Bumps, Filling
from polyadic.rows.scaling import InputScaling, TargetScaling
from polyadic.sources.dates import DATE_PARTS
from polyadic.sources.schema import COLUMN_KINDS, Column, Schema
from polyadic.storage.container import Container
from polyadic.storage.values import Decoder, Encoder, ModelFileError
from polyadic.uncertainty import N_BESIDE, LearnedScale, PosteriorScale, Uncertainty

__all__ = ["ModelFileError", "SavedModel"]

_CONTAINER = Container("polyadic", "model file", version=1, remedy="Save it again.")
# Fitted attributes are those whose names end with an underscore, and these.
_PRIVATE_ATTRIBUTES = ("_single_target", "_link", "_classes")
_REMEDIES = {
    "parameters": "A parameter that a prediction does not need can be set to a plain value "
    "before: model.set_params({name}=None).",
    "fitted": "Delete the attribute before: del model.{name}.",
    "notes": "Keep strings, numbers, lists, dicts and arrays in `notes`.",
}


@dataclass(frozen=True)
class SavedModel:
    """An estimator in parts.

    Parameters
    ----------
    estimator : str
        The name of its class.
    parameters, fitted, notes : dict
        What it was made with, what it learned, and what was kept beside it.
    """

    estimator: str
    parameters: dict[str, Any]
    fitted: dict[str, Any]
    notes: dict[str, Any]

    def pack(self) -> bytes:
        """Return the bytes of the file."""
        encoder = Encoder()
        description = {
            "class": self.estimator,
            "parameters": _encode_each(encoder, self.parameters, "parameters"),
            "fitted": _encode_each(encoder, self.fitted, "fitted"),
            "notes": _encode_each(encoder, {"notes": self.notes}, "notes")["notes"],
        }
        return _CONTAINER.pack(description, encoder.arrays)

    @classmethod
    def unpack(cls, content: bytes, feature_maps: Iterable[type[FeatureMap]] = ()) -> SavedModel:
        """Return what the bytes of a file stand for, checked as far as a prediction relies on it.

        Raises
        ------
        ModelFileError
            If the file is damaged, changed, of another kind, of a newer version, or does not
            hold together.
        """
        try:
            description, arrays = _CONTAINER.unpack(content)
            decoder = Decoder(arrays, feature_maps)
            parameters, fitted = (
                {name: decoder.decode(value) for name, value in description[part].items()}
                for part in ("parameters", "fitted")
            )
            saved = cls(
                description["class"], parameters, fitted, decoder.decode(description["notes"])
            )
            saved._check()
        except ModelFileError:
            raise
        except _FORGED as error:
            # The checksum is right, so somebody wrote this on purpose, or with another polyadic.
            raise ModelFileError(f"the model in this file is inconsistent ({error!r}).") from None
        return saved

    def _check(self) -> None:
        for name in self.fitted:
            if not is_fitted_attribute(name):
                raise ModelFileError(f"{name!r} is no fitted attribute.")
        _require(isinstance(self.estimator, str), "its estimator has no name.")
        _require(isinstance(self.notes, dict), "its notes are not a dictionary.")
        n_columns, members = self.fitted["n_features_in_"], self.fitted["members_"]
        _require(isinstance(n_columns, int), "its number of inputs is not a number.")
        _require(isinstance(members, list) and len(members) > 0, "it has no members.")
        targets = self.fitted["target_scaling_"]
        _check_target_scaling(targets, self.fitted["_single_target"])
        # Files of the first edition have no schema: every column is an input.
        schema = self.fitted.get("schema_")
        n_inputs = n_columns if schema is None else _check_schema(schema, n_columns)
        for member in members:
            _check_member(member, n_inputs, len(targets.mean))
        if "uncertainty_" in self.fitted:
            _check_uncertainty(self.fitted["uncertainty_"], n_inputs, len(targets.mean))
        if "reach_" in self.fitted:
            _check_reach(self.fitted["reach_"], n_inputs)
        names = self.fitted.get("feature_names_in_")
        if names is not None:
            fits = isinstance(names, np.ndarray) and names.shape == (n_columns,)
            _require(fits and names.dtype.kind in "OU", "its names do not fit its inputs.")


# What reading a forged description may end in.
_FORGED = (KeyError, TypeError, ValueError, IndexError, AttributeError, RecursionError)


def is_fitted_attribute(name: str) -> bool:
    """Whether an attribute of an estimator is part of its file."""
    public = name.endswith("_") and not name.startswith("_")
    return public or name in _PRIVATE_ATTRIBUTES


def _encode_each(encoder: Encoder, values: dict[str, Any], part: str) -> dict[str, Any]:
    """Return values as JSON; an error says what to do about one that cannot be written."""
    encoded = {}
    for name, value in values.items():
        try:
            encoded[name] = encoder.encode(value, name)
        except ModelFileError as error:
            raise ModelFileError(f"{error} {_REMEDIES[part].format(name=name)}") from None
    return encoded


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise ModelFileError(otherwise)


def _check_schema(schema: Any, n_columns: int) -> int:
    """Raise unless a schema holds together; return the number of inputs that it makes."""
    sound = isinstance(schema, Schema) and isinstance(schema.columns, tuple)
    sound = sound and len(schema.columns) == n_columns
    sound = sound and all(type(each) is bool for each in (schema.has_names, schema.is_whole))
    for column in schema.columns if sound else ():
        levels, parts = column.levels, column.parts
        sound = sound and isinstance(column, Column) and column.kind in COLUMN_KINDS
        sound = sound and isinstance(column.name, str) and type(column.n_gaps) is int
        sound = sound and all(isinstance(each, tuple) for each in (levels, parts))
        sound = sound and all(type(level) in (str, int, float) for level in levels)
        sound = sound and set(parts) <= set(DATE_PARTS)
        sound = sound and (column.zone is None or isinstance(column.zone, str))
        sound = sound and (column.kind != "date" or len(parts) > 0)
    _require(sound, "what it says about columns does not hold together.")
    return len(schema.inputs)


def _check_member(member: Any, n_inputs: int, n_targets: int) -> None:
    """Raise unless cores, maps and inputs fit together, as prediction takes for granted."""
    kinds = (Member, InputScaling, TensorLayout, Model)
    parts = (member, member.inputs, member.layout, member.model)
    _require(all(map(isinstance, parts, kinds)), "a member is not made of what members are.")
    layout, model = member.layout, member.model
    _require(isinstance(member.share, float), "the share of a member is not a number.")
    _check_input_scaling(member.inputs, n_inputs)
    _require(
        isinstance(layout.maps, tuple)
        and len(layout.maps) > 0
        and all(isinstance(each, FeatureMap) for each in layout.maps)
        and isinstance(layout.n_basis, tuple)
        and len(layout.n_basis) == member.inputs.n_columns
        and all(type(size) is int and size >= 1 for size in layout.n_basis)
        and _is_real(model.map_weights, len(layout.maps)),
        "its feature maps do not fit its inputs or weights.",
    )
    _require(all(map(_is_sound, layout.tables)), "the table of an input does not hold together.")
    _require(
        isinstance(model.cores, tuple) and len(model.cores) == n_targets,
        "its members do not agree on the number of targets.",
    )
    kind = np.complex128 if layout.is_complex else np.float64
    for cores in model.cores:
        ranks = {core.shape[1:] for core in cores}
        sound = tuple(len(core) for core in cores) == layout.core_sizes and len(ranks) == 1
        sound = sound and all(core.ndim == 2 and core.dtype == kind for core in cores)
        _require(sound and ranks != {(0,)}, "its cores do not fit its feature maps.")


def _check_uncertainty(found: Any, n_inputs: int, n_targets: int) -> None:
    """Raise unless what is said of errors fits the inputs and the targets."""
    sound = isinstance(found, Uncertainty) and len(found.errors) == n_targets
    sound = sound and _is_real(found.units, n_targets) and _is_real(found.noise, n_targets)
    sound = sound and all(map(_is_distribution, found.errors))
    _require(sound, "its distribution of errors does not hold together.")
    scale = found.scale
    if isinstance(scale, LearnedScale):
        _check_member(scale.familiarity, n_inputs, 1)
        for model in scale.models:
            _check_member(model, n_inputs + N_BESIDE, 1)
        ends = (scale.low, scale.high)
        sound = len(scale.models) == n_targets and scale.bounds.shape == (n_targets, 2)
        sound = sound and _is_real(scale.bounds.reshape(-1))
        sound = sound and all(_is_real(each, n_inputs, finite=False) for each in ends)
        sound = sound and type(scale.n_members) is int and isinstance(scale.least, float)
    else:
        _require(isinstance(scale, PosteriorScale), "its errors have no scale.")
        sound = _is_real(scale.noise, n_targets) and len(scale.members) == len(scale.posteriors)
        for member, posteriors in zip(scale.members, scale.posteriors, strict=sound):
            _check_member(member, n_inputs, n_targets)
            sound = sound and len(posteriors) == n_targets
            sound = sound and all(_fits_core(each, member) for each in posteriors)
        sound = sound and isinstance(scale.span, tuple) and _is_real(np.array(scale.span), 2)
    _require(sound, "the scale of its errors does not hold together.")


def _check_reach(reach: Any, n_inputs: int) -> None:
    """Raise unless a reach fits the inputs."""
    sound = isinstance(reach, Reach) and isinstance(reach.slack, float) and reach.slack >= 0
    sound = sound and all(_is_real(e, n_inputs, finite=False) for e in (reach.low, reach.high))
    _require(sound and bool((reach.low < reach.high).all()), "its reach does not fit its inputs.")


def _is_distribution(errors: Any) -> bool:
    """Whether a distribution of errors is sound."""
    sound = isinstance(errors, ErrorDistribution) and _is_real(errors.errors)
    sound = sound and _is_real(errors.levels, len(errors.errors))
    numbers = (errors.freedom, errors.below, errors.above, errors.deviation)
    return bool(sound and all(isinstance(each, float) and 0 < each < np.inf for each in numbers))


def _fits_core(posterior: Any, member: Member) -> bool:
    """Whether a posterior is that of a core of a member."""
    sizes = member.layout.core_sizes
    sound = isinstance(posterior, CorePosterior) and posterior.core in range(len(sizes))
    unknowns = member.model.cores[0][posterior.core].size * (2 if member.layout.is_complex else 1)
    root = posterior.root
    sound = (
        sound
        and posterior.curve is None
        and isinstance(root, np.ndarray)
        and root.dtype == np.float64
    )
    return bool(sound and root.ndim == 2 and len(root) == unknowns and np.isfinite(root).all())


def _check_input_scaling(scaling: InputScaling, n_inputs: int) -> None:
    columns = [scaling.knots, scaling.values]
    sound = all(isinstance(each, tuple) and len(each) == n_inputs for each in columns)
    sound = sound and _is_real(scaling.slopes, n_inputs, finite=False)
    for knots, values in zip(*columns, strict=sound):
        sound = sound and _is_real(knots) and _is_real(values, len(knots))
        sound = sound and len(knots) > 0 and bool((np.diff(knots) > 0).all())
    sound = sound and _fills(scaling.filling, scaling.flagged, n_inputs)
    sound = sound and _are_ends(scaling.ends, len(scaling.flagged))
    sound = sound and _are_directions(scaling.directions, n_inputs)
    sound = sound and (scaling.directions is None or scaling.filling is None)
    _require(sound, "the scaling of its inputs does not hold together.")


def _fills(filling: Any, flagged: Any, n_inputs: int) -> bool:
    """Whether a filling and the inputs with flags are sound, or there are none."""
    sound = isinstance(flagged, tuple) and all(
        type(d) is int and 0 <= d < n_inputs for d in flagged
    )
    if filling is None:
        return sound and not flagged
    columns = filling.columns if isinstance(filling, Filling) else None
    if not sound or not isinstance(columns, np.ndarray) or columns.dtype != np.int64:
        return False
    sound = columns.ndim == 1 and bool(((columns >= 0) & (columns < n_inputs)).all())
    sound = sound and _are_bumps(filling.bumps, len(columns))
    if not sound:
        return False
    size = len(columns) + (0 if filling.bumps is None else len(filling.bumps))
    sound = sound and _is_real(filling.mean, size) and _is_real(filling.scale, size)
    precision = filling.precision
    sound = sound and isinstance(precision, np.ndarray) and precision.shape == (size, size)
    return bool(sound and _is_real(precision.reshape(-1)) and (precision.diagonal() > 0).all())


def _are_bumps(bumps: Any, n_columns: int) -> bool:
    """Whether bumps are those of some columns, or there are none."""
    if bumps is None:
        return True
    if not isinstance(bumps, Bumps):
        return False
    places, corners = bumps.places, bumps.corners
    sound = isinstance(places, np.ndarray) and places.ndim == 1
    sound = sound and places.dtype == np.int64
    sound = sound and bool(((places >= 0) & (places < n_columns)).all())
    sound = sound and isinstance(corners, np.ndarray) and corners.shape == (3, len(places))
    return bool(sound and _is_real(corners.reshape(-1)) and (np.diff(corners, axis=0) > 0).all())


def _are_ends(ends: Any, n_flagged: int) -> bool:
    """Whether there is a range for each input with a flag, or for none."""
    return (
        isinstance(ends, tuple)
        and all(
            isinstance(each, tuple) and _is_real(np.array(each), 2) and each[0] < each[1]
            for each in ends
        )
        and len(ends) in (0, n_flagged)
    )


def _are_directions(directions: Any, n_inputs: int) -> bool:
    """Whether directions say of each input how much it counts, or there are none."""
    if directions is None:
        return True
    sound = isinstance(directions, np.ndarray) and directions.ndim == 2
    sound = sound and len(directions) == n_inputs
    return bool(sound and _is_real(directions.reshape(-1)))


def _check_target_scaling(scaling: Any, single_target: Any) -> None:
    sound = isinstance(scaling, TargetScaling) and isinstance(single_target, bool)
    sound = sound and _is_real(scaling.mean) and _is_real(scaling.scale, len(scaling.mean))
    sound = sound and (len(scaling.mean) == 1 or not single_target)
    _require(sound, "the scaling of its targets does not hold together.")


def _is_sound(table: Any) -> bool:
    """Whether a table has all the knots that its positions may ask for, of finite values."""
    sound = isinstance(table, Table) and isinstance(table.values, np.ndarray)
    sound = sound and isinstance(table.n_levels, int) and table.n_levels >= 0
    gap = 0.0 if not sound or table.gap is None else table.gap
    sound = sound and type(table.has_filled) is bool and not (table.has_filled and table.n_levels)
    sound = sound and isinstance(gap, float) and 0 <= gap <= table.n_levels + N_KNOTS
    sound = sound and table.values.shape == (table.n_points, table.n_basis)
    sound = sound and _is_real(table.values.reshape(-1))
    ends = (table.low, table.high)
    return bool(sound and all(isinstance(end, float) and np.isfinite(end) for end in ends))


def _is_real(value: Any, length: int | None = None, *, finite: bool = True) -> bool:
    """Whether a value is a vector of double precision, of one length where that is known."""
    sound = isinstance(value, np.ndarray) and value.dtype == np.float64 and value.ndim == 1
    sound = sound and (length is None or len(value) == length)
    return bool(sound and (not finite or np.isfinite(value).all()))
