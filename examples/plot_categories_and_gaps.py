"""
A table as it is: text, dates and gaps
======================================

A category has a kernel of its own, a date becomes several numbers, and a gap is filled in with
what the rest of the row makes likely, and flagged.  So a table with holes costs accuracy, but no
work.
"""

# %%
# What a fit took each column for stands in ``schema_``.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.colors import ListedColormap
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import train_test_split

from polyadic import FeatureLearningRegressor

table = pd.read_csv("weather.csv", parse_dates=["time"])
X, y = table.drop(columns="temp"), table["temp"]
model = FeatureLearningRegressor(n_estimators=1, effort=0.2, random_state=0).fit(X, y)
print("gaps, in per cent:", (100 * X.isna().mean()).round(1).to_dict())
for column in model.schema_.columns:
    print(f"{column.name:>12}  {column.kind}")

# %%
# Now more and more cells are lost, at random and in training and test rows alike.  Boosting, which
# has gaps and categories built in too, sees the date as the day of the year and the hour.


def encoded(rows):
    """Write the date as numbers and text as a category, which is what boosting takes."""
    date = rows["time"].dt
    numbers = {
        "day": date.day_of_year,
        "hour": date.hour,
        "airport": rows["airport"].astype("category"),
    }
    return rows.drop(columns=["time", "airport"]).assign(**numbers)


rng = np.random.default_rng(0)
shares, errors = (0.0, 0.1, 0.25, 0.5), {"polyadic": [], "HistGradientBoosting": []}
for share in shares:
    holes = X.mask(rng.random(X.shape) < share)
    parts = train_test_split(holes, y, random_state=0)
    for name, columns, regressor in (
        (
            "polyadic",
            parts[:2],
            FeatureLearningRegressor(n_estimators=1, effort=0.2, random_state=0),
        ),
        (
            "HistGradientBoosting",
            map(encoded, parts[:2]),
            HistGradientBoostingRegressor(random_state=0),
        ),
    ):
        train, test = columns
        predicted = regressor.fit(train, parts[2]).predict(test)
        errors[name].append(np.sqrt(np.mean((predicted - parts[3]) ** 2)))

# %%
# Left: the table as it came, a cell a dot, gaps in orange.  Right: both models lose about as much,
# and one of them had to be told what a date is.

figure, axes = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained", width_ratios=[1, 1.3])
axes[0].imshow(
    X[:120].isna(), aspect="auto", cmap=ListedColormap(["#dfe8f0", "#c2571a"]), interpolation="none"
)
axes[0].set_xticks(range(X.shape[1]), X.columns, rotation=60, ha="right", rotation_mode="anchor")
axes[0].set(ylabel="row", title="120 rows and their gaps")
for (name, values), mark in zip(errors.items(), ("o-", "s--"), strict=True):
    axes[1].plot([100 * share for share in shares], values, mark, label=name)
axes[1].axhline(y.std(), color="tab:grey", linestyle=":", label="the mean of all hours")
axes[1].set(
    xlabel="more cells removed, per cent",
    ylabel="error of the temperature, °F (RMSE)",
    ylim=(0, None),
)
axes[1].legend()
plt.show()
