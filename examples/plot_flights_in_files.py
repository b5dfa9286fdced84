"""
Rows in files that need not fit into memory
===========================================

``polyadic.open_rows`` reads nothing until a fit asks for rows, and a fit never holds more than
``memory_limit`` allows.  The result is the one that arrays in memory would give.
"""

# %%
# The flights are written to one Parquet file a month, as a nightly job might.

from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import polyadic
from polyadic.features import DampedFourierFeatures

flights = polyadic.datasets.load_nycflights()
table = pd.DataFrame(flights.data, columns=flights.feature_names).assign(delay=flights.target)

folder = TemporaryDirectory()
for month, rows in table.groupby("Month"):
    rows.to_parquet(Path(folder.name) / f"{int(month):02}.parquet", index=False)

# %%
# December is kept for the test.  A checkpoint lets the same call go on after an interruption.

files = sorted(Path(folder.name).glob("*.parquet"))
rows, new = (polyadic.open_rows(part, target="delay") for part in (files[:-1], files[-1:]))
model = polyadic.FeatureLearningRegressor(
    [DampedFourierFeatures(period, 0.7) for period in (2.0, 6.0)],
    n_basis=16,
    rank=8,
    max_iter=5,
    memory_limit="1GB",
    checkpoint=Path(folder.name) / "flights.checkpoint",
    random_state=0,
)
model.fit(rows)
print(f"{model.n_samples_fit_:,} rows fitted, {model.n_samples_dropped_} left out")
print(f"R² on the flights of December, unseen rows: {model.score(new):.3f}")

# %%
# The loss after every sweep over the files, and what the model says of December: ten thousand
# flights, and the mean delay of each thirtieth of them, ordered by prediction.

predicted = model.predict(new)
actual = table.loc[table["Month"] == 12, "delay"].to_numpy()
groups = np.array_split(np.argsort(predicted), 30)

figure, axes = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
polyadic.inspection.ConvergenceDisplay.from_estimator(model, ax=axes[0])
some = np.random.default_rng(0).permutation(len(actual))[:10_000]
axes[1].scatter(predicted[some], actual[some], s=3, alpha=0.15, color="tab:grey", label="a flight")
axes[1].plot(
    [predicted[group].mean() for group in groups],
    [actual[group].mean() for group in groups],
    "o-",
    color="tab:orange",
    label="mean of a thirtieth",
)
axes[1].axline((0, 0), slope=1, color="k", linewidth=0.8, linestyle=":")
axes[1].set(
    xlim=(-60, 120), ylim=(-60, 160), xlabel="predicted delay, minutes", ylabel="delay, minutes"
)
axes[1].legend()
plt.show()
folder.cleanup()
