"""
Weights of feature maps, learned together with the model
========================================================

This is the paper's method: many candidate maps, one fit.  Every map has a weight λ, and how λ is
regularised decides how many maps are left.
"""

# %%
# Eight damped Fourier maps, of periods from fast to slow, for the temperature at New York's
# airports.  Named maps take numbers without gaps.

import matplotlib.pyplot as plt
import pandas as pd
from sklearn.model_selection import train_test_split

import polyadic
from polyadic.features import DampedFourierFeatures

table = pd.read_csv("weather.csv", parse_dates=["time"])
table["day"], table["hour"] = table["time"].dt.day_of_year, table["time"].dt.hour
columns = ["day", "hour", "humidity", "pressure", "wind_speed"]
table = table.dropna(subset=columns)
X, X_test, y, y_test = train_test_split(table[columns], table["temp"], random_state=0)
periods = (1.2, 1.6, 2.0, 3.0, 4.0, 6.0, 10.0, 20.0)
maps = [DampedFourierFeatures(period, 0.7) for period in periods]

# %%
# One fit for each regularisation, beside the cross-validated search over the same maps.

fits = {}
for mixing in ("simplex", "l1", "l2", "fixed_norm"):
    fits[mixing] = polyadic.FeatureLearningRegressor(
        maps, mixing=mixing, n_basis=8, rank=6, alpha=0.1, max_iter=10, random_state=0
    ).fit(X, y)
    print(
        f"{mixing:>10}: R² {fits[mixing].score(X_test, y_test):.3f} on {len(X_test)} held-out rows"
    )
search = polyadic.KernelMachineRegressorCV(
    maps, n_basis=8, rank=6, alpha=0.1, max_iter=10, cv=3, random_state=0
).fit(X, y)
print(f"    search: R² {search.score(X_test, y_test):.3f}, which chose {search.feature_map_}")

# %%
# Bars are the weights of the maps; dots the cross-validated error of each map alone, which took a
# fit for every map and fold.

figure, axes = plt.subplots(2, 2, figsize=(10, 6), layout="constrained", sharex=True)
for place, (mixing, model) in zip(axes.flat, fits.items(), strict=True):
    place.bar(range(8), model.feature_weights_, color="tab:blue", alpha=0.8)
    place.axhline(0, color="k", linewidth=0.6)
    place.set_title(f"mixing={mixing!r}, R² {model.score(X_test, y_test):.3f}")
    place.set_xticks(range(8), [f"{period:g}" for period in periods])
    errors = place.twinx()
    errors.plot(
        range(8), search.cv_results_["mean_test_mse"], "o", color="tab:orange", markersize=5
    )
    errors.set_ylabel("error of a map alone", color="tab:orange")
for place in axes[:, 0]:
    place.set_ylabel("weight λ", color="tab:blue")
for place in axes[1]:
    place.set_xlabel("period of the map")
plt.show()
