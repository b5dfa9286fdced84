"""
Which inputs matter, and how far each one reaches
=================================================

A fit learns a kernel and a length scale for every input, and inputs that tell nothing leave the
model.  The diabetes data have ten inputs; a handful of them carry the prediction.
"""

# %%
# Relevance is how much predictions change when an input's value comes from another row, as a part
# of their variance.  The length scale is in units of the input's range: beyond 1 the model sees
# little more than a straight line along that input.

import matplotlib.pyplot as plt
import pandas as pd
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

from polyadic import FeatureLearningRegressor
from polyadic.inspection import InputRelevanceDisplay, PartialDependenceDisplay

X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
X, X_test, y, y_test = train_test_split(X, y, random_state=0)
model = FeatureLearningRegressor(n_estimators=2, random_state=0).fit(X, y)
print(f"R² on {len(X_test)} held-out rows: {model.score(X_test, y_test):.3f}")
inputs = pd.DataFrame(model.inputs_).sort_values("relevance", ascending=False)
print(inputs[["name", "kernel", "length_scale", "relevance"]].to_string(index=False))

# %%
# On the left the relevance of all inputs; on the right what the three that matter most do, all
# else being as in the rows.

figure, axes = plt.subplots(
    1, 4, figsize=(13, 3.8), layout="constrained", width_ratios=[1.5, 1, 1, 1]
)
InputRelevanceDisplay.from_estimator(model, ax=axes[0])
for place, name in zip(axes[1:], inputs["name"][:3], strict=True):
    PartialDependenceDisplay.from_estimator(model, X, [name], ax=place)
    place.set_ylim(80, 260)
plt.show()
