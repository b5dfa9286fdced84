"""
All about a model on one page: the report
=========================================

``polyadic report model.polyadic --train table.csv`` writes a page that needs nothing else: errors
beside those of other models, what is missed, how sure it is, which inputs matter and what they do.
In Python it is one call.
"""

# %%
# Rows that the model has not seen measure everything.  With the rows of the fit, ridge regression
# and boosting learn from the same rows as the model.

from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib.pyplot as plt
import pandas as pd
from sklearn.model_selection import train_test_split

from polyadic import FeatureLearningRegressor
from polyadic.report import Subject, write_report

table = pd.read_csv("weather.csv", parse_dates=["time"])
X, X_new, y, y_new = train_test_split(table.drop(columns="temp"), table["temp"], random_state=0)
model = FeatureLearningRegressor(random_state=0).fit(X, y)

known = {"target": "temp", "measured_on": "new rows", "rows_are": "the new rows"}
subject = Subject.of(model, X_new, y_new, fit_rows=(X, y), **known)
with TemporaryDirectory() as folder:
    path = Path(folder) / "weather.html"
    numbers = write_report(subject, path)
    page = path.read_text(encoding="utf-8")

# %%
# All numbers of the page come back too.  These are the errors of its first table.

compared = [numbers["errors"]["model"], *numbers["errors"]["baselines"]]
names = [each["name"].replace(" of the fit's target", "") for each in compared]
errors = [each["rmse"] for each in compared]
spread = [2 * each["standard_errors"]["rmse"] for each in compared]
figure, axes = plt.subplots(figsize=(8, 3), layout="constrained")
axes.barh(names, errors, xerr=spread, color=["#b0470f", *["#9aa7b5"] * 3])
axes.invert_yaxis()
axes.set(xlabel="root mean squared error, °F, with two standard errors")
plt.show()

# %%
# And this is the page itself.


class Framed:
    """A page inside of a page."""

    def _repr_html_(self):
        style = "width: 100%; height: 44rem; border: 1px solid #9aa7b5; border-radius: 8px"
        return f'<iframe title="Report" style="{style}" srcdoc="{escape(page)}"></iframe>'


Framed()
