"""
A feature map of your own: directions that come round
=====================================================

A wind of 359° is next to one of 1°, which no length scale can know.  A map of one's own is a
subclass of ``FeatureMap`` with one method; it is fitted, saved and loaded like the others.
"""

# %%
# Cosines and sines of whole multiples of the angle close the circle.

from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import polyadic
from polyadic.features import FeatureMap, FourierFeatures


class Round(FeatureMap):
    """1, cos(2πx), sin(2πx), cos(4πx), …: functions on a circle of length one."""

    is_complex = False

    def plain(self, x: np.ndarray, n_basis: int) -> np.ndarray:
        """Return the n × `n_basis` feature matrix of the column `x`."""
        order = np.arange(n_basis)
        turns = 2 * np.pi * np.outer(x, (order + 1) // 2)
        return np.where(order % 2 | (order == 0), np.cos(turns), np.sin(turns))


table = pd.read_csv("weather.csv").dropna(subset=["wind_dir", "pressure"])
X, y = table[["wind_dir"]].to_numpy() / 360, table["pressure"].to_numpy()


def fit(feature_map, **more):
    """Fit the pressure over the direction of the wind."""
    machine = polyadic.KernelMachineRegressor(
        feature_map, rank=1, alpha=0.01, scale_inputs=False, random_state=0, **more
    )
    return machine.fit(X, y)


closed = fit(Round(), quantized=False, n_basis=7)
ours = fit(FourierFeatures(2.0), n_basis=8)

# %%
# On a circle the difference is seen at once: in the north the usual features, which know nothing
# of the circle, tear.

angles = np.linspace(0, 1, 361)[:, None]
figure, place = plt.subplots(
    figsize=(6, 5.4), subplot_kw={"projection": "polar"}, layout="constrained"
)
place.set_theta_zero_location("N")
place.set_theta_direction(-1)
place.scatter(2 * np.pi * X, y, s=5, alpha=0.25, color="tab:grey", label="an hour")
place.plot(
    2 * np.pi * angles,
    ours.predict(angles),
    color="tab:orange",
    label="Fourier features of period 2",
)
place.plot(
    2 * np.pi * angles,
    closed.predict(angles),
    color="tab:blue",
    linewidth=2.5,
    label="functions on a circle",
)
place.set_rlim(1000, 1030)
place.set_title("Pressure, millibar, by the direction of the wind")
place.legend(loc="lower left", bbox_to_anchor=(-0.12, -0.08))
plt.show()

# %%
# A file names its maps; which classes may be made of them is for the caller to say.

with TemporaryDirectory() as folder:
    path = Path(folder) / "pressure.polyadic"
    polyadic.save(closed, path)
    again = polyadic.load(path, feature_maps=[Round])
assert (again.predict(X) == closed.predict(X)).all()
north = np.array([[0.0], [1.0]])
for name, model in {"on a circle": closed, "Fourier": ours}.items():
    print(f"From 0° to 360°, {name}: {abs(np.diff(model.predict(north))[0]):.2f} millibar")
