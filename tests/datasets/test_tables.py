"""The five small sets: where they are found, what is accepted, how they are fetched."""

from __future__ import annotations

import hashlib
import json
import shutil
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import numpy as np
import pytest

from polyadic import datasets
from polyadic.datasets._catalog import CATALOG

NAMES = sorted(CATALOG)


@pytest.fixture
def no_network(monkeypatch):
    """Point every download at a port where nobody listens."""
    serve_from(monkeypatch, "http://127.0.0.1:9")


def serve_from(monkeypatch, address):
    from sklearn.datasets import _openml

    # Between retries; whatever else is running in this process may sleep.
    awake = SimpleNamespace(**{**vars(time), "sleep": lambda seconds: None})
    monkeypatch.setattr(_openml, "time", awake)
    for name in ("_DATA_INFO", "_DATA_FEATURES", "_DATA_QUALITIES"):
        path = getattr(_openml, name).split("openml.org", 1)[1]
        monkeypatch.setattr(_openml, name, address + path)


@pytest.fixture
def server(monkeypatch):
    """Serve `pages` (path to bytes) on this machine in place of OpenML."""
    pages: dict[str, bytes] = {}
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            content = pages.get(self.path)
            self.send_response(404 if content is None else 200)
            self.send_header("Content-Length", str(len(content or b"")))
            self.end_headers()
            self.wfile.write(content or b"")

        def log_message(self, *args):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        threading.Thread(target=http.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{http.server_port}"
        serve_from(monkeypatch, address)
        yield pages, asked, address
        http.shutdown()


def table(data_folder, name):
    return np.loadtxt(data_folder / f"{name}.csv", delimiter=",", skiprows=1)


@pytest.mark.parametrize("name", NAMES)
def test_loads_the_csv_layout(data_folder, name):
    bunch = datasets.load(name, data_folder)
    expected = table(data_folder, name)
    np.testing.assert_array_equal(bunch.data, expected[:, :-1])
    np.testing.assert_array_equal(bunch.target, expected[:, -1])
    header = (data_folder / f"{name}.csv").read_text().splitlines()[0]
    assert [*bunch.feature_names, "target"] == header.split(",")
    assert "CC BY 4.0" in bunch.DESCR


def test_the_named_folder_comes_before_the_variable_and_the_cache(
    data_folder, tmp_path, cache, monkeypatch
):
    folders = [tmp_path / "named", tmp_path / "variable", cache]
    for folder in folders:
        folder.mkdir(parents=True)
        shutil.copy(data_folder / "yacht.csv", folder)
    monkeypatch.setenv("POLYADIC_DATA", str(folders[1]))
    assert datasets.load_yacht(folders[0]).source == str(folders[0] / "yacht.csv")
    assert datasets.load_yacht().source == str(folders[1] / "yacht.csv")
    monkeypatch.delenv("POLYADIC_DATA")
    assert datasets.load_yacht().source == str(cache / "yacht.csv")


@pytest.mark.parametrize("change", ["value", "row", "text", "ragged"])
def test_content_that_is_not_the_set_is_refused(data_folder, tmp_path, change):
    lines = (data_folder / "yacht.csv").read_text().splitlines()
    if change == "value":
        lines[5] = "9" + lines[5]
    elif change == "row":
        del lines[5]
    else:
        lines[5] = lines[5].replace("-", "x") if change == "text" else f"{lines[5]},1"
    (tmp_path / "yacht.csv").write_text("\n".join(lines))
    with pytest.raises(ValueError, match=r"yacht\.csv is not"):
        datasets.load_yacht(tmp_path)


@pytest.mark.parametrize("name", NAMES)
def test_without_a_network_the_error_says_what_to_put_where(no_network, cache, name):
    with pytest.raises(FileNotFoundError) as caught:
        datasets.load(name)
    message = str(caught.value)
    assert str(cache) in message
    assert f"Put {name}.csv there" in message
    assert f"https://archive.ics.uci.edu/dataset/{CATALOG[name].uci_id}" in message
    assert "Downloading failed (OpenML: " in message
    assert not (cache / f"{name}.csv").exists()


def test_an_unknown_set_is_named():
    with pytest.raises(ValueError, match="`name` must be one of airfoil"):
        datasets.load("boston")


def openml_pages(name, rows, address):
    """Return the four answers of OpenML that scikit-learn asks for."""
    known = CATALOG[name]
    names = [*known.columns, "target"]
    arff = "\n".join(
        [f"@RELATION {name}", *(f"@ATTRIBUTE {column} REAL" for column in names), "@DATA"]
        + [",".join(map(repr, row)) for row in rows.tolist()]
    ).encode()
    description = {
        "id": str(known.openml_id),
        "name": name,
        "description": f"The set {name}.",
        "version": "1",
        "format": "ARFF",
        "status": "active",
        "url": f"{address}/data/v1/download/1/{name}.arff",
        "file_id": "1",
        "default_target_attribute": "target",
        "md5_checksum": hashlib.md5(arff).hexdigest(),
    }
    features = [
        {
            "index": str(index),
            "name": column,
            "data_type": "numeric",
            "is_ignore": "false",
            "is_row_identifier": "false",
            "number_of_missing_values": "0",
        }
        for index, column in enumerate(names)
    ]
    qualities = [{"name": "NumberOfInstances", "value": str(float(len(rows)))}]
    api = f"/api/v1/json/data/{{}}{known.openml_id}"
    return {
        api.format(""): json.dumps({"data_set_description": description}).encode(),
        api.format("features/"): json.dumps({"data_features": {"feature": features}}).encode(),
        api.format("qualities/"): json.dumps({"data_qualities": {"quality": qualities}}).encode(),
        f"/data/v1/download/1/{name}.arff": arff,
    }


def test_openml_is_asked_once_and_the_answer_is_kept(data_folder, server, cache, capfd):
    pages, asked, address = server
    expected = table(data_folder, "yacht")
    pages.update(openml_pages("yacht", expected, address))
    bunch = datasets.load_yacht()
    assert bunch.source == "OpenML"
    np.testing.assert_array_equal(bunch.data, expected[:, :-1])
    assert "Yacht Hydrodynamics from OpenML" in capfd.readouterr().err
    before = len(asked)
    again = datasets.load_yacht()
    assert len(asked) == before
    assert again.source == str(cache / "yacht.csv")
    np.testing.assert_array_equal(again.data, expected[:, :-1])


def test_a_wrong_download_is_not_kept(data_folder, server, cache):
    pages, _, address = server
    wrong = table(data_folder, "yacht")
    wrong[0, 0] += 1000.0
    pages.update(openml_pages("yacht", wrong, address))
    with pytest.raises(FileNotFoundError, match="buoyancy_position must add up to"):
        datasets.load_yacht()
    assert not (cache / "yacht.csv").exists()
