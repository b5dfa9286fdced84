"""Classifiers: labels, probabilities and weights, against scikit-learn and by their properties."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

import polyadic
from polyadic import FeatureLearningClassifier, KernelMachineClassifier
from polyadic.features import DampedFourierFeatures, PurePowerFeatures
from tests.small import FAR_APART as MAPS

SMALL = {"n_basis": 4, "rank": 3, "max_iter": 6, "random_state": 0}


def classifier(maps=MAPS, **parameters):
    return FeatureLearningClassifier(maps, **{**SMALL, **parameters})


def two_classes(n=300, seed=0):
    X, y = make_classification(n, 4, n_informative=3, n_redundant=0, random_state=seed)
    return X, np.array(["no", "yes"])[y]


def three_classes():
    X, y = load_iris(return_X_y=True)
    return X, y + 5


@pytest.mark.parametrize("rows", [two_classes, three_classes])
def test_labels_and_probabilities_go_together(rows):
    X, y = rows()
    model = classifier().fit(X[::2], y[::2])
    p, labels, scores = model.predict_proba(X), model.predict(X), model.decision_function(X)
    np.testing.assert_array_equal(model.classes_, np.unique(y))
    assert labels.dtype == y.dtype
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_array_equal(labels, model.classes_[p.argmax(axis=1)])
    np.testing.assert_allclose(model.predict_log_proba(X), np.log(p), rtol=1e-9)
    if len(model.classes_) == 2:
        np.testing.assert_allclose(scores, np.log(p[:, 1] / p[:, 0]), atol=1e-6)
    else:
        rest = np.log(p) - scores
        np.testing.assert_allclose(rest - rest[:, :1], 0.0, atol=1e-6)
    assert model.score(X[1::2], y[1::2]) > 0.85
    assert model.score(X, y) == (labels == y).mean()


def test_a_linear_model_is_logistic_regression():
    """One input and two basis functions: log odds are a line, and the problem is convex."""
    X, y = two_classes()
    X = X[:, :1]
    low, high = X.min(), X.max()
    model = KernelMachineClassifier(
        PurePowerFeatures(), n_basis=2, rank=1, alpha=1.0, max_iter=300, tol=0.0
    ).fit(X, y)
    # The features are scaled to unit norm, and the penalty is on both of their weights.
    psi = model.members_[0].layout.factors((X - low) / (high - low), PurePowerFeatures())[0]
    start = model.target_scaling_.mean[0]
    signs = np.where(y == "yes", 1.0, -1.0)

    from scipy.optimize import minimize

    def objective(v):
        return np.logaddexp(0, -signs * (psi @ v + start)).sum() + 0.5 * v @ v

    best = minimize(objective, np.zeros(2), tol=1e-12)
    np.testing.assert_allclose(model.loss_curve_[-1] * len(y), best.fun, rtol=1e-7)
    np.testing.assert_allclose(model.decision_function(X), psi @ best.x + start, atol=1e-3)


def test_separable_classes_give_finite_confident_answers():
    X = np.linspace(0, 1, 200)[:, None]
    y = (X[:, 0] > 0.4).astype(int)
    for model in (
        KernelMachineClassifier(n_basis=8, rank=2, alpha=1e-8, max_iter=60, random_state=0),
        FeatureLearningClassifier(random_state=0, n_estimators=1),
    ):
        p = model.fit(X, y).predict_proba(X)
        assert np.isfinite(p).all()
        assert np.isfinite(model.predict_log_proba(X)).all()
        assert (model.predict(X) == y).mean() > 0.98
        assert p[0, 0] > 0.97
        assert p[-1, 1] > 0.97


def test_probabilities_are_calibrated_on_noise():
    """Where labels are noise, the model says how often each class comes, and no more."""
    rng = np.random.RandomState(0)
    X, y = rng.standard_normal((600, 4)), (rng.uniform(size=600) < 0.3).astype(int)
    model = FeatureLearningClassifier(random_state=0, n_estimators=2).fit(X, y)
    fresh = rng.uniform(size=4000) < 0.3
    p = model.predict_proba(rng.standard_normal((4000, 4)))
    constant = log_loss(fresh, np.full(4000, y.mean()))
    assert log_loss(fresh, p[:, 1]) < constant * 1.03


@pytest.mark.slow
def test_learned_features_beat_a_linear_model():
    rng = np.random.RandomState(0)
    X = rng.uniform(-1, 1, (900, 3))
    y = np.digitize(np.sin(4 * X[:, 0]) + X[:, 1] * X[:, 2], [-0.5, 0.5])
    train, test = slice(0, 600), slice(600, None)
    model = FeatureLearningClassifier(random_state=0, n_estimators=2).fit(X[train], y[train])
    linear = LogisticRegression().fit(X[train], y[train])
    mine, theirs = (log_loss(y[test], m.predict_proba(X[test])) for m in (model, linear))
    assert mine < 0.3 * theirs
    assert model.score(X[test], y[test]) > 0.93
    assert all(each.relevance > 0.05 for each in model.inputs_)


def test_class_weights_are_weights_of_rows():
    X, y = two_classes()
    weight = np.where(y == "yes", 5.0, 1.0)
    by_class = classifier(class_weight={"yes": 5.0, "no": 1.0}).fit(X, y)
    by_row = classifier().fit(X, y, sample_weight=weight)
    np.testing.assert_array_equal(by_class.predict_proba(X), by_row.predict_proba(X))
    few = y == "no"
    few[:200] = True
    balanced = classifier(class_weight="balanced").fit(X[few], y[few])
    plain = classifier().fit(X[few], y[few])
    assert (balanced.predict(X) == "yes").sum() >= (plain.predict(X) == "yes").sum()


@pytest.mark.parametrize("weight", [-2, np.nan, np.inf, "5", None])
def test_class_weights_must_be_weights(tmp_path, weight):
    X, y = two_classes(60)
    model = classifier(class_weight={"no": 1.0, "yes": weight})
    pandas = pytest.importorskip("pandas")
    rows = pandas.DataFrame(X, columns=list("abcd")).assign(y=y)
    rows.to_csv(tmp_path / "rows.csv", index=False)
    words = rf"`class_weight` .*not negative.*got {weight!r} for the class 'yes'. Use"
    for given in ((X, y), (polyadic.open_rows(tmp_path / "rows.csv", target="y"),)):
        with pytest.raises(ValueError, match=words):
            model.fit(*given)


def test_class_weights_that_fit_no_class_name_the_labels(tmp_path):
    X, y = two_classes(60)
    with pytest.raises(ValueError, match=r"`class_weight` .*got 'x'.*labels \[False, True\] are"):
        classifier(class_weight={"x": 5}).fit(X, y == "yes")
    pandas = pytest.importorskip("pandas")
    rows = pandas.DataFrame(X, columns=list("abcd")).assign(y=y)
    rows.to_csv(tmp_path / "rows.csv", index=False)
    nothing = classifier(class_weight={"no": 0, "yes": 0})
    for given in ((X, y), (polyadic.open_rows(tmp_path / "rows.csv", target="y"),)):
        with pytest.raises(ValueError, match=r"`class_weight` .*got 0 for all of \['no', 'yes'\]"):
            nothing.fit(*given)


def test_a_weight_is_a_count():
    X, y = three_classes()
    weight = np.random.RandomState(0).randint(0, 4, len(y))
    weighted = classifier().fit(X, y, sample_weight=weight)
    index = np.repeat(np.arange(len(y)), weight)
    repeated = classifier().fit(X[index], y[index])
    np.testing.assert_allclose(
        weighted.predict_proba(X), repeated.predict_proba(X), rtol=1e-5, atol=1e-7
    )


def test_classes_are_those_of_rows_that_count():
    X, y = three_classes()
    model = classifier().fit(X, y, sample_weight=(y < 7).astype(float))
    assert model.classes_.tolist() == [5, 6]
    with pytest.raises(ValueError, match="at least two classes, got one class"):
        classifier().fit(X, y, sample_weight=(y < 6).astype(float))


@pytest.mark.slow
def test_many_classes():
    """Labels are chosen a few rows at a time where classes are many."""
    rng = np.random.RandomState(0)
    X = rng.uniform(size=(1500, 1))
    y = (X[:, 0] * 120).astype(int)
    model = KernelMachineClassifier(
        DampedFourierFeatures(1.5, 0.9), n_basis=32, rank=2, alpha=1e-3, max_iter=12, random_state=0
    ).fit(X, y)
    assert len(model.classes_) == 120
    assert (np.abs(model.predict(X) - y) <= 1).mean() > 0.9


def test_labels_of_few_rows_at_a_time(monkeypatch):
    X, y = three_classes()
    model = classifier().fit(X, y)
    at_once = model.predict(X)
    monkeypatch.setattr("polyadic.estimators._classes._AT_A_TIME", 20)
    np.testing.assert_array_equal(model.predict(X), at_once)


@pytest.mark.parametrize("maps", [MAPS, "auto"], ids=["named", "auto"])
def test_files_bring_them_back(tmp_path, maps):
    X, y = two_classes(120)
    small = {"max_iter": 3, "rank": 2, "n_basis": 2} if maps != "auto" else {}
    model = FeatureLearningClassifier(maps, random_state=0, n_estimators=1, **small).fit(X, y)
    polyadic.save(model, tmp_path / "model.polyadic")
    again = polyadic.load(tmp_path / "model.polyadic")
    np.testing.assert_array_equal(again.classes_, model.classes_)
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_rows_in_files_and_tensors(tmp_path):
    X, y = three_classes()
    np.save(tmp_path / "rows.npy", np.column_stack([X, y]))
    source = polyadic.open_rows(tmp_path / "rows.npy", target="x4")
    model, plain = classifier(scale_inputs=False), classifier(scale_inputs=False)
    model.fit(source)
    plain.fit(X, y)
    assert model.classes_.tolist() == [5, 6, 7]
    np.testing.assert_allclose(model.predict_proba(source), plain.predict_proba(X), atol=1e-6)
    np.testing.assert_array_equal(model.predict(source), plain.predict(X))
    assert model.score(source) == plain.score(X, y)
    two = polyadic.open_rows(tmp_path / "rows.npy", target=["x3", "x4"])
    with pytest.raises(ValueError, match="one column of labels, got 2"):
        classifier().fit(two)
    torch = pytest.importorskip("torch")
    tensors = classifier(scale_inputs=False, engine="torch")
    tensors.fit(torch.as_tensor(X), torch.as_tensor(y))
    p = tensors.predict_proba(torch.as_tensor(X))
    assert isinstance(p, torch.Tensor)
    np.testing.assert_allclose(p.numpy(), plain.predict_proba(X), atol=1e-6)
    np.testing.assert_array_equal(tensors.predict(torch.as_tensor(X)).numpy(), plain.predict(X))


@pytest.mark.slow
@pytest.mark.cluster
def test_rows_on_a_cluster():
    from tests.contract.clusters import client

    X, y = three_classes()
    with client().as_current():
        import dask.array as da

        lazy, labels = da.from_array(X, chunks=(60, 4)), da.from_array(y, chunks=60)
        model = classifier().fit(lazy, labels)
        plain = classifier().fit(X, y)
        p = model.predict_proba(lazy)
        np.testing.assert_allclose(p.compute(), plain.predict_proba(X), atol=1e-6)
        np.testing.assert_array_equal(model.predict(lazy).compute(), plain.predict(X))
        assert model.score(lazy, labels) == plain.score(X, y)


def test_tables_with_text_and_gaps():
    pandas = pytest.importorskip("pandas")
    rng = np.random.RandomState(0)
    frame = pandas.DataFrame(
        {"colour": rng.choice(["red", "green", "blue"], 400), "size": rng.uniform(size=400)}
    )
    frame.loc[rng.uniform(size=400) < 0.1, "size"] = np.nan
    y = pandas.Series(np.where((frame["colour"] == "red") | (frame["size"] > 0.7), "a", "b"))
    model = FeatureLearningClassifier(random_state=0, n_estimators=1)
    model.fit(frame[:300], y[:300].astype("category"))
    assert model.score(frame[300:], y[300:]) > 0.95
    assert [each.kind for each in model.inputs_] == ["category", "number"]


def test_labels_must_be_there_and_be_classes():
    X, y = two_classes()
    missing = np.where(np.arange(len(y)) == 7, None, y)
    with pytest.raises(ValueError, match=r"missing in 1 of 300 rows: row 7 \(the first"):
        classifier().fit(X, missing)
    mixed = np.where(np.arange(len(y)) == 7, 1, y.astype(object))
    for labels in (mixed, mixed.tolist()):  # of lists NumPy would make text
        with pytest.raises(ValueError, match=r"`y` .*one kind, got 1 and '\w+'.*y.astype\(str\)"):
            classifier().fit(X, labels)
    with pytest.raises(ValueError, match="missing in 1 of 300 rows: row 0"):
        classifier().fit(X, [float("nan"), *y[1:].tolist()])
    pairs = np.empty(len(y), dtype=object)
    pairs[:] = [(1, int(each == "yes")) for each in y]
    with pytest.raises(TypeError, match=r"`y` must have text, whole numbers or flags"):
        classifier().fit(X, pairs)
    with pytest.raises(ValueError, match="Unknown label type"):
        classifier().fit(X, X[:, 0])


def test_a_fit_that_fails_leaves_the_classes():
    X, y = two_classes()
    model = classifier().fit(X, y)
    before = model.predict_proba(X)
    with pytest.raises(ValueError, match="class"):
        model.fit(X, np.zeros(len(X)))
    np.testing.assert_array_equal(model.predict_proba(X), before)
    assert model.classes_.tolist() == ["no", "yes"]


def test_an_interrupted_fit_goes_on_to_the_same_digit(tmp_path):
    X, y = three_classes()
    whole = classifier().fit(X, y)
    path = tmp_path / "fit.checkpoint"
    tired = classifier(checkpoint=path)

    import polyadic.model.als as als

    passes = iter(range(4))
    usual = als._loss_sweep

    def tire(*arguments):
        if next(passes, None) is None:
            raise KeyboardInterrupt
        return usual(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(als, "_loss_sweep", tire)
        with pytest.raises(KeyboardInterrupt):
            tired.fit(X, y)
    assert path.exists()
    again = classifier(checkpoint=path).fit(X, y)
    np.testing.assert_array_equal(again.predict_proba(X), whole.predict_proba(X))


def test_a_callback_can_ask_for_the_labels_of_a_fit_so_far():
    callbacks = pytest.importorskip("sklearn.callback", reason="scikit-learn has no callbacks yet")
    X, y = two_classes(120)
    monitor = callbacks.ScoringMonitor(scoring="accuracy")
    model = classifier(max_iter=3).set_callbacks(monitor).fit(X, y)
    logs = monitor.get_logs().data
    scores = [task["accuracy"] for task in logs if task["task_name"] == "epoch"]
    assert len(scores) == 3
    assert scores[-1] == pytest.approx(model.score(X, y))
