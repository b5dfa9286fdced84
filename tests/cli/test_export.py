"""`polyadic export`: the graph that is written predicts what the command does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import polyadic
from tests.cli.command import say

pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

GOLDEN = Path(__file__).parents[1] / "golden"
QUICK = ["--rank", "3", "--n-basis", "4", "--effort", "0.1", "--n-estimators", "1"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with a table of text, numbers and gaps, and a model of it."""
    folder = tmp_path_factory.mktemp("export")
    rng = np.random.RandomState(0)
    size, kind = rng.rand(80), np.where(rng.rand(80) < 0.4, "red", "blue")
    price = size + (kind == "red")
    lines = [f"{'' if k % 9 == 0 else size[k]},{kind[k]},{price[k]}" for k in range(80)]
    (folder / "t.csv").write_text("\n".join(["size,kind,price", *lines]))
    say("fit", folder / "t.csv", "--target", "price", "--out", folder / "m.polyadic", *QUICK)
    return folder


def test_the_graph_predicts_what_the_command_does(folder, tmp_path):
    told = say("export", folder / "m.polyadic", "--out", tmp_path / "m.onnx")
    assert "takes size, kind\ngives prediction, std\n" in told
    words = ["--by-name", "--std", "--out", tmp_path / "p.csv"]
    say("predict", folder / "m.polyadic", folder / "t.csv", *words)
    wanted = np.loadtxt(tmp_path / "p.csv", delimiter=",", skiprows=1)
    rows = np.genfromtxt(folder / "t.csv", delimiter=",", skip_header=1, dtype=None, encoding=None)
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    columns = {"size": rows["f0"][:, None], "kind": rows["f1"][:, None].astype(object)}
    found = session.run(["prediction", "std"], columns)
    np.testing.assert_allclose(np.column_stack(found), wanted, atol=1e-9)


def test_precision_and_deviations_are_chosen(folder, tmp_path):
    words = ["--out", tmp_path / "m.onnx", "--dtype", "float32", "--no-std"]
    assert "gives prediction\n" in say("export", folder / "m.polyadic", *words)
    (output,) = onnxruntime.InferenceSession(tmp_path / "m.onnx").get_outputs()
    assert output.type == "tensor(float)"


def test_what_cannot_be_written_is_refused(folder, tmp_path):
    model = folder / "m.polyadic"
    assert "must end in .onnx" in say("export", model, "--out", tmp_path / "m.pt", code=2)
    (tmp_path / "m.onnx").write_text("there")
    assert "pass --force" in say("export", model, "--out", tmp_path / "m.onnx", code=2)
    assert (tmp_path / "m.onnx").read_text() == "there"


def test_deviations_that_a_model_does_not_know_are_refused(tmp_path):
    """Only where they are asked for: by default the graph gives what there is."""
    out = tmp_path / "m.onnx"
    said = say("export", GOLDEN / "one-map.polyadic", "--std", "--out", out, code=2)
    assert "--std cannot be written: the model has no uncertainty" in said
    assert not out.exists()
    assert "gives prediction\n" in say("export", GOLDEN / "one-map.polyadic", "--out", out)


def test_deviations_of_classes_are_refused(tmp_path):
    X, out = np.random.RandomState(0).rand(40, 2), tmp_path / "m.onnx"
    model = polyadic.KernelMachineClassifier(rank=1, n_basis=2, max_iter=1, random_state=0)
    polyadic.save(model.fit(X, (X[:, 0] > 0.5).astype(int)), tmp_path / "m.polyadic")
    said = say("export", tmp_path / "m.polyadic", "--std", "--out", out, code=2)
    assert "--std is about numbers, and this model predicts classes. Leave it out" in said
    assert not out.exists()
    assert "gives label" in say("export", tmp_path / "m.polyadic", "--out", out)
