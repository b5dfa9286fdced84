"""Model files: bit-exact round trips, and files that are not what they should be."""

from __future__ import annotations

import copy
import hashlib
import json
import os
import pickle
import re
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from sklearn.base import clone
from sklearn.datasets import make_friedman1
from sklearn.model_selection import KFold

import polyadic
from polyadic.estimators import saving
from polyadic.features import (
    DampedFourierFeatures,
    FourierFeatures,
    GaussianFeatures,
    MercerFeatures,
    PurePowerFeatures,
    Table,
    Tabled,
    TensorLayout,
    Unused,
)
from polyadic.storage import model_file
from polyadic.storage.model_file import ModelFileError
from tests.oracle import Cosines
from tests.small import turned_rows

X, Y = make_friedman1(50, n_features=5, noise=0.5, random_state=0)
TABLE = Table.mercer("rbf", 0.3, n_basis=4)
SMALL = {"rank": 2, "n_basis": 4, "max_iter": 3, "random_state": 0}


def learned(maps="auto", y=Y, rows=X, **changes):
    model = polyadic.FeatureLearningRegressor(maps, **{**SMALL, **changes})
    return model.fit(rows, y)


def tabled(table=TABLE):
    """Return a model whose inputs have tables, or take no part."""
    model = learned([PurePowerFeatures()], quantized=False)
    inputs = (Tabled(table), Unused(), Tabled(Table.mercer("matern12", 0.2, n_basis=3)))
    layout = TensorLayout((MercerFeatures(),), (*inputs, Unused(), Tabled(table)))
    (member,), rng = model.members_, np.random.RandomState(0)
    cores = [rng.standard_normal((size, 2)) for size in layout.core_sizes]
    model.members_ = [replace(member, layout=layout, model=replace(member.model, cores=(cores,)))]
    return model


@cache
def with_gaps():
    """Return a model that fills in gaps along a curve, which needs bumps."""
    rng = np.random.RandomState(0)
    rows = rng.standard_normal((400, 3))
    rows[:, 1] = rows[:, 0] ** 2
    y = rows[:, 1] + rows[:, 2]
    rows[rng.uniform(size=rows.shape) < 0.2] = np.nan
    model = polyadic.FeatureLearningRegressor(n_estimators=1, effort=0.1, random_state=0)
    model.fit(rows, y)
    assert model.members_[0].inputs.filling.bumps is not None
    return model


MODELS = {
    "default maps": lambda: learned(),
    "several members": lambda: learned(n_estimators=3),
    "several targets": lambda: learned(y=np.column_stack([Y, -Y])),
    "column target": lambda: learned(y=Y[:, None]),
    "mixed kinds": lambda: learned(
        [GaussianFeatures(0.3, 1.5), PurePowerFeatures(), FourierFeatures(2.0)],
        quantized=False,
        n_basis=[3, 4, 5, 2, 3],
    ),
    "eigenfunctions": lambda: learned(
        [MercerFeatures("rbf", 0.3), MercerFeatures("matern12", 0.6)], quantized=False
    ),
    "tables": tabled,
    "real cores": lambda: learned([PurePowerFeatures()], mixing="l1"),
    "names": lambda: learned(rows=pd.DataFrame(X, columns=list("abcde"))),
    "early stopping": lambda: learned(early_stopping=True),
    "random state": lambda: learned(random_state=np.random.RandomState(3)),
    "not scaled": lambda: learned(scale_inputs=False),
    "one map": lambda: polyadic.KernelMachineRegressor(**SMALL).fit(X, Y),
    "cross-validated": lambda: polyadic.KernelMachineRegressorCV(
        [FourierFeatures(2.0), DampedFourierFeatures(2.0, 0.7)], cv=2, **SMALL
    ).fit(X, Y),
}


def assert_same(left, right):
    """Compare values of fitted attributes to the last bit."""
    assert type(left) is type(right)
    if isinstance(left, np.ndarray):
        assert left.dtype == right.dtype
        assert left.shape == right.shape
        if left.dtype.kind in "OU":
            assert left.tolist() == right.tolist()
        else:
            assert left.tobytes() == right.tobytes()
    elif isinstance(left, list | tuple):
        assert len(left) == len(right)
        for pair in zip(left, right, strict=True):
            assert_same(*pair)
    elif isinstance(left, dict):
        assert list(left) == list(right)
        assert_same(list(left.values()), list(right.values()))
    elif hasattr(left, "__dataclass_fields__"):
        for name in left.__dataclass_fields__:
            assert_same(getattr(left, name), getattr(right, name))
    elif isinstance(left, np.random.RandomState):
        assert_same(left.get_state(), right.get_state())
    else:
        assert left == right


@pytest.mark.parametrize("kind", MODELS)
def test_round_trip_is_exact(tmp_path, kind):
    model = MODELS[kind]()
    polyadic.save(model, tmp_path / "m.polyadic")
    again = polyadic.load(tmp_path / "m.polyadic")
    assert type(again) is type(model)
    assert_same(again.get_params(deep=False), model.get_params(deep=False))
    fitted = {name for name in vars(model) if name.endswith("_") and not name.startswith("_")}
    assert fitted <= set(vars(again))
    for name in fitted:
        ours, theirs = getattr(again, name), getattr(model, name)
        if isinstance(theirs, np.generic):  # JSON has Python's numbers only
            assert ours == theirs
        else:
            assert_same(ours, theirs)
    rows = pd.DataFrame(X, columns=list("abcde")) if kind == "names" else X
    np.testing.assert_array_equal(again.predict(rows), model.predict(rows))


def test_the_same_model_makes_the_same_file(tmp_path):
    model = learned()
    for name in ("a", "b"):
        polyadic.save(model, tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_loaded_models_can_be_cloned_pickled_and_fitted_on(tmp_path):
    model = learned(warm_start=True)
    polyadic.save(model, tmp_path / "m")
    again = polyadic.load(tmp_path / "m")
    assert clone(again).get_params() == clone(model).get_params()
    copy = pickle.loads(pickle.dumps(again))
    np.testing.assert_array_equal(copy.predict(X), model.predict(X))
    np.testing.assert_array_equal(again.fit(X, Y).predict(X), model.fit(X, Y).predict(X))


def test_any_safetensors_reader_can_look_inside(tmp_path):
    polyadic.save(learned(), tmp_path / "m.polyadic", notes={"rows": 50})
    with safe_open(tmp_path / "m.polyadic", "numpy") as file:
        assert file.metadata()["format"] == "polyadic"
        assert json.loads(file.metadata()["model"])["class"] == "FeatureLearningRegressor"
        assert len(list(file.keys())) > 5


def test_notes_come_back(tmp_path):
    notes = {"target": "y", "values": np.arange(3.0), "nested": [{"a": (1, None)}], 3: True}
    polyadic.save(learned(), tmp_path / "m", notes=notes)
    assert_same(saving.load_with_notes(tmp_path / "m")[1], notes)


def test_attributes_that_a_later_version_may_add_are_kept(tmp_path):
    model = learned()
    model.selection_ = {"alpha": [0.1, None], "scores": np.ones((2, 3)), ("a", 1): {"rank": 4}}
    model.alpha_ = 0.3
    polyadic.save(model, tmp_path / "m")
    again = polyadic.load(tmp_path / "m")
    assert_same(again.selection_, model.selection_)
    assert again.alpha_ == 0.3
    model.selection_ = {1, 2}
    with pytest.raises(ModelFileError, match=r"`selection_=.*set is neither data nor"):
        polyadic.save(model, tmp_path / "m")


def test_a_model_fitted_on_a_device_that_is_not_here_predicts_on_the_cpu(tmp_path):
    model = learned()
    expected = model.predict(X)
    path = tmp_path / "model.polyadic"
    polyadic.save(model.set_params(device="cuda:99"), path)
    with pytest.warns(UserWarning, match=r"fitted with device='cuda:99' .* cannot be used"):
        loaded = polyadic.load(path)
    assert loaded.device is None
    np.testing.assert_array_equal(loaded.predict(X), expected)


def test_own_feature_maps_must_be_named(tmp_path):
    model = learned([Cosines(2.0), PurePowerFeatures()], quantized=False)
    polyadic.save(model, tmp_path / "m")
    with pytest.raises(ModelFileError, match=r"feature_maps=\[Cosines\]"):
        polyadic.load(tmp_path / "m")
    again = polyadic.load(tmp_path / "m", feature_maps=[Cosines])
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_what_cannot_be_saved_is_named(tmp_path):
    with pytest.raises(TypeError, match="`model` must be one of"):
        polyadic.save(object(), tmp_path / "m")
    with pytest.raises(ValueError, match="not fitted yet"):
        polyadic.save(polyadic.FeatureLearningRegressor(), tmp_path / "m")
    searched = polyadic.KernelMachineRegressorCV([FourierFeatures(2.0)], cv=KFold(2), **SMALL)
    with pytest.raises(ModelFileError, match=r"`cv=KFold.*set_params\(cv=None\)"):
        polyadic.save(searched.fit(X, Y), tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


def test_notes_that_cannot_be_saved_are_named(tmp_path):
    with pytest.raises(
        ModelFileError, match=r"`notes\['a'\]=<object.*Keep strings, numbers"
    ) as raised:
        polyadic.save(learned(), tmp_path / "m", notes={"a": object()})
    assert "set_params" not in str(raised.value)
    assert list(tmp_path.iterdir()) == []


def test_names_from_undecodable_bytes_come_back(tmp_path):
    name = os.fsdecode(b"caf\xe9")  # a surrogate stands for the byte
    model = learned()
    model.feature_names_in_ = np.array([name, "b", "c", "d", "ε"], dtype=object)
    polyadic.save(model, tmp_path / "m", notes={name: name})
    again, notes = saving.load_with_notes(tmp_path / "m")
    assert notes == {name: name}
    assert again.feature_names_in_.tolist() == model.feature_names_in_.tolist()


def test_files_stay_readable_for_version_1(saved):
    fields = description_of(saved)["fitted"]["members_"][0]["fields"]
    assert sorted(fields) == ["inputs", "layout", "model", "share"]
    assert sorted(fields["inputs"]["fields"]) == ["knots", "slopes", "values"]
    assert sorted(fields["layout"]["fields"]) == ["maps", "n_basis", "quantized"]
    assert sorted(fields["model"]["fields"]) == ["cores", "weights"]


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "m"
    path.write_bytes(b"old")
    monkeypatch.setattr(os, "fsync", lambda handle: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        polyadic.save(learned(), path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "m.polyadic"
    maps = [FourierFeatures(2.0), DampedFourierFeatures(3.0, 0.7)]
    polyadic.save(learned(maps, max_iter=1, n_basis=2), path, notes={"target": "y"})
    return path.read_bytes()


def assert_refused(folder, content):
    path = folder / "changed"
    path.write_bytes(content)
    with pytest.raises(ModelFileError):
        polyadic.load(path)


@pytest.mark.slow
def test_flipped_bits_are_noticed(saved, tmp_path, rng):
    for place in range(len(saved)):
        changed = bytearray(saved)
        changed[place] ^= 1 << rng.randint(8)
        assert_refused(tmp_path, bytes(changed))


def test_truncations_are_noticed(saved, tmp_path):
    for length in [*range(0, len(saved), 13), len(saved) - 1]:
        assert_refused(tmp_path, saved[:length])


@settings(max_examples=200)
@given(data=st.data())
def test_random_edits_are_noticed(saved, tmp_path_factory, data):
    first, last = sorted(data.draw(st.tuples(*[st.integers(0, len(saved))] * 2)))
    patch = data.draw(st.binary(max_size=40))
    changed = saved[:first] + patch + saved[last:]
    if changed != saved:
        assert_refused(tmp_path_factory.mktemp("edit"), changed)


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b"PK\x03\x04", b"\x80\x04.", b"a,b\n1,2\n", b"\xff" * 100, bytes(8) + b"{}"],
)
def test_foreign_files_are_refused(tmp_path, content):
    assert_refused(tmp_path, content)


def test_a_safetensors_file_of_somebody_else_is_refused(tmp_path):
    from safetensors.numpy import save

    (tmp_path / "m").write_bytes(save({"a": np.zeros(3)}, metadata={"format": "pt"}))
    with pytest.raises(ModelFileError, match="not a model file of polyadic"):
        polyadic.load(tmp_path / "m")


def test_a_newer_file_asks_for_an_upgrade(saved, tmp_path):
    (tmp_path / "m").write_bytes(saved.replace(b'"version":"1"', b'"version":"7"'))
    with pytest.raises(ModelFileError, match=r"version 7 .* Upgrade polyadic"):
        polyadic.load(tmp_path / "m")


def description_of(content):
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    return json.loads(header["__metadata__"]["model"])


def with_description(content, description):
    """Return the file with another description and a checksum that fits it."""
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    header["__metadata__"]["model"] = json.dumps(description)
    header["__metadata__"]["sha256"] = "0" * 64
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    changed = len(text).to_bytes(8, "little") + text + content[8 + length :]
    digest = hashlib.sha256(changed).hexdigest().encode()
    return changed.replace(b'"sha256":"' + b"0" * 64, b'"sha256":"' + digest)


def places(value, path=()):
    """Yield the path to every node of a JSON value."""
    yield path
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            yield from places(item, (*path, key))


def replaced(value, path, new):
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = replaced(value[path[0]], path[1:], new)
    return copy


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 99)
    | st.floats()
    | st.text(max_size=4)
    | st.sampled_from(["a0", "a1", "os.system", "FourierFeatures", "Member"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["$array", "$map", "$record", "$tuple", "$dict", "$random", "fields"]),
            inner,
            max_size=2,
        )
    ),
    max_leaves=4,
)


def test_resealing_by_itself_changes_nothing(saved, tmp_path):
    (tmp_path / "before").write_bytes(saved)
    (tmp_path / "after").write_bytes(with_description(saved, description_of(saved)))
    before, after = (polyadic.load(tmp_path / name).predict(X) for name in ("before", "after"))
    np.testing.assert_array_equal(after, before)


@pytest.mark.slow
@settings(max_examples=300)
@given(data=st.data())
def test_forged_descriptions_load_or_are_refused(saved, tmp_path_factory, data):
    description = description_of(saved)
    path = data.draw(st.sampled_from(list(places(description))))
    forged = replaced(description, path, data.draw(JSON_VALUES))
    file = tmp_path_factory.mktemp("forged") / "m"
    file.write_bytes(with_description(saved, forged))
    try:
        model = polyadic.load(file)
    except ModelFileError:
        return
    assert type(model).__module__.startswith("polyadic.")
    assert_predicts(model)


def assert_predicts(model):
    """Predict with a model that was let in: numbers, or an error that names what is wrong."""
    try:
        predicted = model.predict(X)
    except (ValueError, MemoryError) as error:
        assert re.match("`(X|memory_limit)` must", str(error))  # noqa: PT017
    else:
        assert len(predicted) == len(X)


def with_arrays(content, change):
    """Return the file with one array changed, and a checksum that fits it."""
    description, arrays = model_file._CONTAINER.unpack(content)
    return model_file._CONTAINER.pack(description, change(dict(arrays)))


WRONG_ARRAYS = {
    "another shape": lambda a: a.reshape(-1)[:-1],
    "one more dimension": lambda a: a[..., None],
    "nothing": lambda a: a[:0],
    "single precision": lambda a: a.astype(np.float32),
    "whole numbers": lambda a: a.astype(np.int64),
    "not numbers": lambda a: np.full(a.shape, np.nan),
    "backwards": lambda a: np.ascontiguousarray(a[::-1]),
}


@pytest.mark.slow
@pytest.mark.parametrize("wrong", WRONG_ARRAYS)
@pytest.mark.parametrize("kind", ["quantized", "plain", "tables", "automatic"])
def test_arrays_that_do_not_fit_are_refused_or_do_no_harm(wrong, kind, tmp_path):
    if kind == "tables":
        model = tabled()
    elif kind == "automatic":
        model = polyadic.FeatureLearningRegressor(effort=0.05, n_estimators=1, random_state=0)
    else:
        maps = [FourierFeatures(2.0), PurePowerFeatures()]
        model = polyadic.FeatureLearningRegressor(maps, quantized=kind == "quantized", **SMALL)
    polyadic.save(model if kind == "tables" else model.fit(X, Y), tmp_path / "whole")
    whole = (tmp_path / "whole").read_bytes()
    refused = 0
    for name in model_file._CONTAINER.unpack(whole)[1]:

        def change(arrays, name=name):
            return {**arrays, name: WRONG_ARRAYS[wrong](arrays[name])}

        (tmp_path / "forged").write_bytes(with_arrays(whole, change))
        try:
            forged = polyadic.load(tmp_path / "forged")
        except ModelFileError as error:
            refused += 1
            assert str(tmp_path / "forged") in str(error)  # noqa: PT017
        else:
            assert_predicts(forged)
    assert refused > 0


@pytest.mark.parametrize(
    "wrong",
    [
        replace(TABLE, values=TABLE.values[:-1]),
        replace(TABLE, values=np.where(TABLE.values > 0.5, np.nan, TABLE.values)),
        replace(TABLE, low=np.inf),
        replace(TABLE, high="1"),
    ],
    ids=["a knot less", "not numbers", "no end", "text"],
)
def test_tables_that_do_not_hold_together_are_refused(wrong, tmp_path):
    polyadic.save(tabled(wrong), tmp_path / "m")
    with pytest.raises(ModelFileError, match="the table of an input does not hold together"):
        polyadic.load(tmp_path / "m")


def test_a_model_that_fills_in_gaps_along_curves_comes_back(tmp_path):
    model = with_gaps()
    polyadic.save(model, tmp_path / "m")
    rows = np.array([[1.5, np.nan, 0.0], [np.nan, 2.0, 1.0], [np.nan, np.nan, np.nan]])
    np.testing.assert_array_equal(polyadic.load(tmp_path / "m").predict(rows), model.predict(rows))


WRONG_BUMPS = {
    "none where numbers are theirs": lambda bumps: None,
    "no bumps": lambda bumps: 3,
    "a place that is no column": lambda bumps: replace(bumps, places=bumps.places + 2),
    "places that are no whole numbers": lambda bumps: replace(bumps, places=bumps.places * 1.0),
    "one place less": lambda bumps: replace(bumps, places=bumps.places[1:]),
    "two corners": lambda bumps: replace(bumps, corners=bumps.corners[1:]),
    "corners that fall": lambda bumps: replace(bumps, corners=-bumps.corners),
    "corners nowhere": lambda bumps: replace(bumps, corners=np.nan * bumps.corners),
}


@pytest.mark.parametrize("wrong", WRONG_BUMPS)
def test_bumps_that_do_not_hold_together_are_refused(wrong, tmp_path):
    model = copy.copy(with_gaps())
    model.members_ = list(model.members_)
    for index, member in enumerate(model.members_):
        filling = member.inputs.filling
        filling = replace(filling, bumps=WRONG_BUMPS[wrong](filling.bumps))
        model.members_[index] = replace(member, inputs=replace(member.inputs, filling=filling))
    polyadic.save(model, tmp_path / "m")
    with pytest.raises(ModelFileError, match="the scaling of its inputs does not hold together"):
        polyadic.load(tmp_path / "m")


def test_what_was_filled_in_by_scaled_numbers_must_be_fitted_again(tmp_path):
    polyadic.save(with_gaps(), tmp_path / "m")
    content = (tmp_path / "m").read_bytes()
    description = description_of(content)
    for path in [path for path in places(description) if path[-1:] == ("bumps",)]:
        fields = description
        for key in path[:-1]:
            fields = fields[key]
        del fields["bumps"]
    (tmp_path / "m").write_bytes(with_description(content, description))
    with pytest.raises(ModelFileError, match=r"given up before the first release. Fit it again\."):
        polyadic.load(tmp_path / "m")


@cache
def with_directions():
    model = polyadic.FeatureLearningRegressor(effort=0.1, n_estimators=1, random_state=0)
    return model.fit(*turned_rows())


def test_directions_are_kept(tmp_path):
    rows, _ = turned_rows()
    polyadic.save(with_directions(), tmp_path / "m")
    loaded = polyadic.load(tmp_path / "m")
    assert any(member.inputs.directions is not None for member in loaded.members_)
    np.testing.assert_array_equal(loaded.predict(rows), with_directions().predict(rows))


WRONG_DIRECTIONS = {
    "no array": lambda d: 3,
    "one input less": lambda d: d[1:],
    "a vector": lambda d: d[:, 0],
    "nowhere": lambda d: np.nan * d,
}


@pytest.mark.parametrize("wrong", WRONG_DIRECTIONS)
def test_directions_that_do_not_hold_together_are_refused(wrong, tmp_path):
    model = copy.copy(with_directions())
    model.members_ = list(model.members_)
    for index, member in enumerate(model.members_):
        if member.inputs.directions is not None:
            directions = WRONG_DIRECTIONS[wrong](member.inputs.directions)
            inputs = replace(member.inputs, directions=directions)
            model.members_[index] = replace(member, inputs=inputs)
    polyadic.save(model, tmp_path / "m")
    with pytest.raises(ModelFileError, match=r"does not hold together|do not fit its inputs"):
        polyadic.load(tmp_path / "m")


WRONG_SCHEMAS = {
    "no schema": lambda s: 3,
    "no columns": lambda s: replace(s, columns=()),
    "one column less": lambda s: replace(s, columns=s.columns[1:]),
    "an unknown kind": lambda s: _with_column(s, kind="text"),
    "levels that are none": lambda s: _with_column(s, levels=(None,)),
    "levels in a list": lambda s: _with_column(s, levels=["a"]),
    "a date without parts": lambda s: _with_column(s, kind="date"),
    "an unknown part": lambda s: _with_column(s, kind="date", parts=("moon",)),
    "one input more": lambda s: _with_column(s, kind="date", parts=("", "weekday")),
    "a name that is none": lambda s: _with_column(s, name=3),
    "a zone that is none": lambda s: _with_column(s, zone=3),
}


def _with_column(schema, **fields):
    first, *others = schema.columns
    return replace(schema, columns=(replace(first, **fields), *others))


@pytest.mark.parametrize("wrong", WRONG_SCHEMAS)
def test_a_schema_that_does_not_hold_together_is_refused(wrong, tmp_path):
    frame = pd.DataFrame({"c": list("abcd") * 10, "x": np.arange(40.0)})
    model = polyadic.FeatureLearningRegressor(n_estimators=1, effort=0.02, random_state=0)
    model.fit(frame, np.arange(40.0))
    model.schema_ = WRONG_SCHEMAS[wrong](model.schema_)
    polyadic.save(model, tmp_path / "m")
    with pytest.raises(ModelFileError):
        polyadic.load(tmp_path / "m")


def test_files_of_named_maps_have_no_schema(saved):
    assert "schema_" not in description_of(saved)["fitted"]


def test_deep_nesting_is_refused(saved, tmp_path):
    description = json.dumps(description_of(saved))
    bomb = description.replace('"notes": ', '"notes": ' + "[" * 100_000 + "]" * 100_000 + ', "x": ')
    length = int.from_bytes(saved[:8], "little")
    header = json.loads(saved[8 : 8 + length])
    header["__metadata__"]["model"] = bomb
    text = json.dumps(header, separators=(",", ":")).encode()
    assert_refused(tmp_path, len(text).to_bytes(8, "little") + text + saved[8 + length :])
