"""
How sure a prediction is: a curve with bands
============================================

``predict(X, return_std=True)`` has a standard deviation for every row, and ``predict_interval``
bounds that a share of new rows stays between.
"""

# %%
# The temperature at New York's airports over the year 2013, from three hundred hours.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from polyadic import FeatureLearningRegressor

table = pd.read_csv("weather.csv", parse_dates=["time"])
day = table["time"].dt.day_of_year + table["time"].dt.hour / 24
X, y = day.to_frame("day"), table["temp"]
model = FeatureLearningRegressor(random_state=0).fit(X[:300], y[:300])

coverages = (0.5, 0.9)
bounds = model.predict_interval(X[300:], coverage=coverages)
for each, coverage in enumerate(coverages):
    low, high = bounds[:, :, each].T
    inside = ((low <= y[300:]) & (y[300:] <= high)).mean()
    print(f"within the bounds of {coverage:.0%}: {inside:.1%} of 700 hours that the fit never saw")
print(f"mean log density of them: {model.log_score(X[300:], y[300:]):.2f}")

# %%
# The band is wide where a day says little of its temperature, and beyond the year, where no row is.

days = pd.DataFrame({"day": np.linspace(-60, 425, 500)})
mean, std = model.predict(days, return_std=True)
figure, place = plt.subplots(figsize=(9, 4.6), layout="constrained")
place.scatter(X[300:], y[300:], s=5, color="tab:grey", alpha=0.5, label="hours held out")
place.scatter(X[:300], y[:300], s=14, color="k", zorder=3, label="hours of the fit")
bounds = model.predict_interval(days, coverage=coverages)
for each, shade in enumerate((0.35, 0.18)):
    low, high = bounds[:, :, each].T
    place.fill_between(days["day"], low, high, color="tab:blue", alpha=shade, linewidth=0)
place.plot(days["day"], mean, color="tab:blue")
place.axvspan(-60, 1, color="tab:grey", alpha=0.1)
place.axvspan(366, 425, color="tab:grey", alpha=0.1)
place.set(
    xlim=(-60, 425),
    xlabel="day of the year",
    ylabel="temperature, °F",
    title="mean, and bands of 50 % and 90 %",
)
place.legend(loc="lower center")
plt.show()
