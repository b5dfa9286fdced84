"""Bring a feature map of your own: cosines, which suit functions that are even about 0.

python examples/own_feature_map.py
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import polyadic
from polyadic.features import FeatureMap, PurePowerFeatures


class Cosines(FeatureMap):
    """The cosines cos(π·k·x/stretch) with k = 0, 1, 2 and so on."""

    is_complex = False

    def __init__(self, stretch: float) -> None:
        self.stretch = stretch

    def plain(self, x: np.ndarray, n_basis: int) -> np.ndarray:
        """Return the n × `n_basis` feature matrix of the column `x`."""
        return np.cos(np.pi / self.stretch * np.outer(x, np.arange(n_basis)))


rng = np.random.RandomState(0)
X = rng.rand(400, 3)
y = np.cos(5 * X[:, 0]) * X[:, 1] + 0.5 * X[:, 2] ** 2 + 0.05 * rng.randn(400)

maps = [Cosines(1.0), Cosines(2.0), PurePowerFeatures()]
model = polyadic.FeatureLearningRegressor(
    maps, quantized=False, n_basis=6, rank=4, random_state=0
).fit(X[:300], y[:300])
print(f"R² on 100 held-out rows: {model.score(X[300:], y[300:]):.3f}")
for feature_map, weight in zip(model.feature_maps_, model.feature_weights_, strict=True):
    print(f"  λ = {weight:.3f}  {feature_map}")

with TemporaryDirectory() as folder:
    path = Path(folder) / "model.polyadic"
    polyadic.save(model, path)
    # A file names its maps; which classes may be made of them is for the caller to say.
    again = polyadic.load(path, feature_maps=[Cosines])
    assert (again.predict(X) == model.predict(X)).all()
