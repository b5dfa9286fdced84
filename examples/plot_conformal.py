"""
Intervals with a promise: conformal prediction with MAPIE
=========================================================

A model's own intervals are as good as its assumptions.  Conformal prediction corrects them on rows
that the fit has not seen, and then promises their coverage.  MAPIE does so with any regressor that
has standard deviations: its ``StdConformityScore`` asks for ``predict(X, return_std=True)``.
"""

# %%
# Delays of flights have heavy tails, and their spread depends on the hour: not what a normal
# distribution expects.

import matplotlib.pyplot as plt
import numpy as np
from mapie.conformity_scores import StdConformityScore
from mapie.regression import SplitConformalRegressor

import polyadic

flights = polyadic.datasets.load_nycflights()
rows = np.random.default_rng(0).permutation(len(flights.target))[:9000]
names = [flights.feature_names.index(name) for name in ("DepTime", "Distance", "Month")]
X = flights.data[rows][:, names].astype(float)
y = flights.target[rows].astype(float)
fit, calibrate, test = slice(0, 2000), slice(2000, 4000), slice(4000, None)

model = polyadic.FeatureLearningRegressor(n_estimators=1, random_state=0).fit(X[fit], y[fit])
conformal = SplitConformalRegressor(
    model, confidence_level=0.9, conformity_score=StdConformityScore(), prefit=True
).conformalize(X[calibrate], y[calibrate])

# %%
# Both are asked for 90 %.  The coverage of each hour of the day tells whether bounds are wide where
# they should be.

own = model.predict_interval(X[test], coverage=0.9)
_, corrected = conformal.predict_interval(X[test])
intervals = {"the model's own": own, "corrected by MAPIE": corrected[:, :, 0]}
hour = X[test, 0] / 60

figure, axes = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
some = np.argsort(hour)[::12]
axes[0].scatter(hour[some], y[test][some], s=6, color="tab:grey", alpha=0.6)
for (name, bounds), colour in zip(intervals.items(), ("tab:blue", "tab:orange"), strict=True):
    inside = (bounds[:, 0] <= y[test]) & (y[test] <= bounds[:, 1])
    print(
        f"{name}: {inside.mean():.1%} of 5000 unseen flights inside, "
        f"{np.diff(bounds).mean():.0f} minutes wide in the mean"
    )
    hours = [each for each in range(6, 23) if (hour // 1 == each).sum() > 40]
    axes[1].plot(
        hours, [inside[hour // 1 == each].mean() for each in hours], "o-", color=colour, label=name
    )
    axes[0].plot(hour[some], bounds[some], ".", markersize=2, color=colour)
axes[0].set(xlabel="hour of departure", ylabel="delay, minutes", ylim=(-110, 220), xlim=(5, 24))
axes[1].axhline(0.9, color="k", linestyle=":", linewidth=0.8)
axes[1].set(xlabel="hour of departure", ylabel="share inside", ylim=(0.7, 1))
axes[1].legend()
plt.show()
