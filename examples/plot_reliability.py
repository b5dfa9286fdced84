"""
Probabilities that can be trusted: a reliability diagram
========================================================

Of all flights that a model gives a chance of 30 % to be late, 30 % should be late.  Held-out rows
stretch the log odds of a fit, which calibrates them; boosting and naive Bayes are beside it.
"""

# %%
# Late is more than a quarter of an hour at arrival, told from what is known when a plane takes off.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.calibration import calibration_curve
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import log_loss
from sklearn.naive_bayes import GaussianNB

import polyadic

flights = polyadic.datasets.load_nycflights()
known = [
    flights.feature_names.index(name)
    for name in ("Month", "DayofMonth", "DayOfWeek", "PlaneAge", "Distance", "DepTime")
]
rows = np.random.default_rng(0).permutation(len(flights.target))[:33_000]
X, late = flights.data[rows][:, known], flights.target[rows] > 15
X, X_test, late, late_test = X[:3000], X[3000:], late[:3000], late[3000:]

classifiers = {
    "polyadic": polyadic.FeatureLearningClassifier(n_estimators=1, effort=0.3, random_state=0),
    "HistGradientBoosting": HistGradientBoostingClassifier(random_state=0),
    "naive Bayes": GaussianNB(),
}
chances = {
    name: each.fit(X, late).predict_proba(X_test)[:, 1] for name, each in classifiers.items()
}
for name, chance in chances.items():
    print(f"{name:>21}: log-loss {log_loss(late_test, chance):.3f}")
print(f"{'the share of all':>21}: log-loss {log_loss(late_test, np.full(30_000, late.mean())):.3f}")

# %%
# Each point is a tenth of the 30,000 test flights.  On the line, a chance is what it says.

figure, axes = plt.subplots(
    2, 1, figsize=(6.4, 6.6), layout="constrained", sharex=True, height_ratios=[3, 1]
)
axes[0].plot([0, 1], [0, 1], color="k", linewidth=0.8, linestyle=":")
for (name, chance), mark in zip(chances.items(), ("o-", "s--", "^-."), strict=True):
    share, said = calibration_curve(late_test, chance, n_bins=10, strategy="quantile")
    axes[0].plot(said, share, mark, label=f"{name}, log-loss {log_loss(late_test, chance):.3f}")
    axes[1].hist(chance, bins=40, range=(0, 1), histtype="step", linewidth=1.5)
axes[0].set(ylabel="share that was late", title="Late by more than 15 minutes")
axes[0].legend()
axes[1].set(xlabel="chance that the model gave", ylabel="flights")
plt.show()
