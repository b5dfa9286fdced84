"""
Quantiles of delays, and counts of them
=======================================

``loss`` changes what is predicted: ``"quantile"`` draws the bounds that a share of the flights
stays under, ``"poisson"`` predicts the mean of counts, and both are fitted by the same machine.
"""

# %%
# Three fits on the time of departure and the distance, for 3000 of the year's flights.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import polyadic

flights = polyadic.datasets.load_nycflights()
table = pd.DataFrame(flights.data, columns=flights.feature_names).assign(delay=flights.target)
some = table.sample(6000, random_state=0)
train, test = some[:3000], some[3000:]
inputs = ["DepTime", "Distance"]
bounds = {}
for quantile in (0.1, 0.5, 0.9):
    bounds[quantile] = polyadic.FeatureLearningRegressor(
        loss="quantile", quantile=quantile, n_estimators=1, random_state=0
    ).fit(train[inputs], train["delay"])
    below = (test["delay"] < bounds[quantile].predict(test[inputs])).mean()
    print(f"{below:.3f} of 3000 unseen flights are below the quantile of {quantile}")

# %%
# How many flights of a day were more than an hour late: counts, by the day of the year and of the
# week.  A mean of counts is never negative, and its noise grows with it.

dates = {"year": 2013, "month": table["Month"], "day": table["DayofMonth"]}
table["date"] = pd.to_datetime(pd.DataFrame(dates))
days = table.groupby("date").agg(late=("delay", lambda delay: (delay > 60).sum()))
days["day"], days["weekday"] = days.index.day_of_year, days.index.day_name()
counts = polyadic.FeatureLearningRegressor(
    loss="poisson", n_estimators=1, effort=0.3, random_state=0
)
counts.fit(days[["day", "weekday"]], days["late"])

# %%
# Late in the evening the worst tenth of the flights is much later, and so they are in summer and
# before holidays.

hours = pd.DataFrame(
    {"DepTime": np.linspace(300, 1430, 200), "Distance": table["Distance"].median()}
)
figure, axes = plt.subplots(1, 2, figsize=(11.5, 4.4), layout="constrained", width_ratios=[1, 1.2])
axes[0].scatter(train["DepTime"] / 60, train["delay"], s=4, alpha=0.25, color="tab:grey")
for quantile, colour in zip(bounds, ("tab:blue", "k", "tab:red"), strict=True):
    axes[0].plot(
        hours["DepTime"] / 60,
        bounds[quantile].predict(hours),
        color=colour,
        label=f"quantile of {quantile}",
    )
axes[0].set(
    xlabel="hour of departure", ylabel="delay at arrival, minutes", ylim=(-60, 180), xlim=(5, 24)
)
axes[0].legend()
axes[1].plot(days.index, days["late"], ".", color="tab:grey", markersize=5, label="a day")
for weekday, colour in (("Thursday", "tab:orange"), ("Saturday", "tab:blue")):
    mean = counts.predict(days[["day", "weekday"]].assign(weekday=weekday))
    axes[1].plot(days.index, mean, color=colour, label=f"mean of a {weekday}, Poisson loss")
axes[1].set(ylabel="flights more than an hour late", ylim=(0, None))
axes[1].legend()
plt.show()
