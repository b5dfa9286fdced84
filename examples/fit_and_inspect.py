"""Fit a model, look at it, save it, and load it again.

    python examples/fit_and_inspect.py

needs the extra packages of ``pip install 'polyadic[app]'``.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib.pyplot as plt
from sklearn.datasets import make_friedman1
from sklearn.model_selection import train_test_split

import polyadic
from polyadic.inspection import (
    ConvergenceDisplay,
    InputRelevanceDisplay,
    PartialDependenceDisplay,
    PredictionDisplay,
)

X, y = make_friedman1(600, noise=1.0, random_state=0)
X, X_test, y, y_test = train_test_split(X, y, random_state=0)

model = polyadic.FeatureLearningRegressor(n_estimators=2, random_state=0)
model.fit(X, y)
print(f"R² on {len(X_test)} held-out rows: {model.score(X_test, y_test):.3f}")

figure, axes = plt.subplots(2, 2, figsize=(10, 8), layout="constrained")
InputRelevanceDisplay.from_estimator(model, ax=axes[0, 0])
ConvergenceDisplay.from_estimator(model, ax=axes[0, 1])
PredictionDisplay.from_estimator(model, X_test, y_test, ax=axes[1, 0])
# The target has 10·sin(π·x0·x1): the two inputs act together.
PartialDependenceDisplay.from_estimator(model, X, [0, 1], ax=axes[1, 1])

with TemporaryDirectory() as folder:
    figure.savefig(Path(folder) / "friedman.png")
    polyadic.save(model, Path(folder) / "friedman.polyadic")
    again = polyadic.load(Path(folder) / "friedman.polyadic")
    assert (again.predict(X_test) == model.predict(X_test)).all()
print("Saved, loaded, and equal to the last bit.")
