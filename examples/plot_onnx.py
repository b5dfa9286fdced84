"""
Shipped without Python: export to ONNX
======================================

``polyadic.to_onnx`` writes a model that predicts wherever ONNX runs: in a browser, a database, a
service in another language.  Text, gaps and dates are part of the graph.
"""

# %%
# One fit of the messy table, one line that exports it, and onnxruntime beside ``predict``.

from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
import onnxruntime
import pandas as pd

import polyadic

table = pd.read_csv("weather.csv", parse_dates=["time"])
X, y = table.drop(columns="temp"), table["temp"]
model = polyadic.FeatureLearningRegressor(n_estimators=2, effort=0.3, random_state=0).fit(X, y)

with TemporaryDirectory() as folder:
    path = Path(folder) / "weather.onnx"
    polyadic.to_onnx(model, path)
    print(f"{path.stat().st_size / 1e6:.2f} MB")
    session = onnxruntime.InferenceSession(path)
for each in session.get_inputs():
    print(f"{each.name:>12}  {each.type}")


def by_onnx(rows):
    """Predict by onnxruntime, which knows nothing of polyadic."""
    return session.run(["prediction"], polyadic.onnx_inputs(model, rows))[0]


# %%
# Left: the two agree to rounding.  Right: seconds that the prediction of so many rows takes on the
# machine that built this page.

sizes, seconds = (1, 10, 100, 1000), {"predict": [], "onnxruntime": []}
for size in sizes:
    for name, predict in (("predict", model.predict), ("onnxruntime", by_onnx)):
        times = []
        for _ in range(5):
            start = perf_counter()
            predict(X[:size])
            times.append(perf_counter() - start)
        seconds[name].append(min(times))

difference = by_onnx(X) - model.predict(X)
figure, axes = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
axes[0].scatter(model.predict(X), np.abs(difference) + 1e-17, s=8, alpha=0.5)
axes[0].set(
    yscale="log", ylim=(1e-17, 1), xlabel="predict, °F", ylabel="difference to onnxruntime, °F"
)
for (name, values), mark in zip(seconds.items(), ("o-", "s--"), strict=True):
    axes[1].plot(sizes, values, mark, label=name)
axes[1].set(xscale="log", yscale="log", xlabel="rows", ylabel="seconds")
axes[1].legend()
plt.show()
print(f"greatest difference: {np.abs(difference).max():.1e} °F of a spread of {y.std():.1f}")
