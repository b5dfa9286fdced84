"""
Classes and their probabilities
===============================

Three species of iris by the length and width of their petals.  Colours are probabilities: where
they mix, the model does not know.
"""

# %%
# Held-out rows stretch the log odds, so that probabilities are neither timid nor too sure.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_iris
from sklearn.model_selection import train_test_split

from polyadic import FeatureLearningClassifier

X, y = load_iris(return_X_y=True)
X, X_test, y, y_test = train_test_split(X[:, 2:], y, random_state=0, stratify=y)
model = FeatureLearningClassifier(n_estimators=1, random_state=0).fit(X, y)
print(f"right on {len(X_test)} held-out rows: {model.score(X_test, y_test):.3f}")

# %%
# The probability of each class as one of three colours; the line is where the most likely one
# changes.

length, width = np.meshgrid(np.linspace(0.8, 7.2, 240), np.linspace(0, 2.7, 160))
chances = model.predict_proba(np.column_stack([length.ravel(), width.ravel()]))
paint = np.array([[0.12, 0.44, 0.70], [0.80, 0.38, 0.12], [0.18, 0.52, 0.35]])
picture = 1 - (chances @ (1 - paint)).reshape(*length.shape, 3)

figure, place = plt.subplots(figsize=(7, 4.6), layout="constrained")
place.imshow(picture, origin="lower", extent=(0.8, 7.2, 0, 2.7), aspect="auto", alpha=0.55)
place.contour(
    length, width, chances.argmax(1).reshape(length.shape), [0.5, 1.5], colors="k", linewidths=0.8
)
for each, name in enumerate(load_iris().target_names):
    for rows, labels, mark in ((X, y, "o"), (X_test, y_test, "D")):
        own = rows[labels == each]
        place.scatter(
            *own.T,
            marker=mark,
            color=paint[each],
            edgecolor="k",
            linewidth=0.5,
            s=26,
            label=f"{name}" if mark == "o" else None,
        )
place.set(xlabel="petal length, cm", ylabel="petal width, cm", title="diamonds were held out")
place.legend(loc="upper left")
plt.show()
