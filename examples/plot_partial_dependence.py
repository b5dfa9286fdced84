"""
What inputs do, alone and together
==================================

A model is a sum of products of curves, so means over the rows are exact and cheap: partial
dependence of one input or of two, and how much two of them work together.
"""

# %%
# The temperature at New York's airports, where everyone knows what should come out: seasons, warm
# afternoons, and a swing from night to day that is not the same in every season.

import matplotlib.pyplot as plt
import pandas as pd

from polyadic import FeatureLearningRegressor
from polyadic.inspection import (
    PartialDependenceDisplay,
    interaction_strengths,
    permutation_importance,
)

table = pd.read_csv("weather.csv", parse_dates=["time"])
table["day"], table["hour"] = table["time"].dt.day_of_year, table["time"].dt.hour
X, y = table[["day", "hour", "humidity", "pressure", "wind_speed", "airport"]], table["temp"]
model = FeatureLearningRegressor(n_estimators=2, effort=0.3, random_state=0).fit(X[:700], y[:700])
print(f"R² on 300 held-out rows: {model.score(X[700:], y[700:]):.3f}")

# %%
# Importance is by how much the error on held-out rows grows when a column is shuffled, and an
# interaction is what two inputs do beyond the sum of both: both are in degrees.

names = list(X)
importance = permutation_importance(model, X[700:], y[700:]).mean(axis=1)
strengths = interaction_strengths(model, X[:700], names)
pairs = {f"{names[i]} × {names[j]}": value for (i, j), value in strengths.items()}
pairs = pd.Series(pairs).nlargest(5)
print(pairs.round(2).to_string())

figure, axes = plt.subplots(2, 3, figsize=(12, 7), layout="constrained")
order = importance.argsort()
axes[0, 0].barh([names[place] for place in order], importance[order])
axes[0, 0].set_xlabel("importance, °F")
axes[1, 0].barh(pairs.index[::-1], pairs[::-1], color="tab:orange")
axes[1, 0].set_xlabel("interaction, °F")
for place, inputs in zip(
    axes[:, 1:].flat, (["day"], ["hour"], ["humidity"], ["hour", "day"]), strict=True
):
    PartialDependenceDisplay.from_estimator(model, X[:700], inputs, ax=place)
plt.show()
