"""Losses: slopes against finite differences, parabolas against the loss, known values."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp, xlogy

from polyadic.model.losses import (
    AbsoluteError,
    Gamma,
    Huber,
    Logistic,
    LossSum,
    Multinomial,
    Poisson,
    Quantile,
    SquaredError,
    class_loss,
    invert_link,
    loss_of,
)

SINGLE = {
    "squared error": SquaredError(),
    "absolute error": AbsoluteError(),
    "huber": Huber(0.4),
    "low quantile": Quantile(0.05),
    "high quantile": Quantile(0.9),
    "poisson": Poisson(),
    "gamma": Gamma(),
    "logistic": Logistic((-1.0, 3.0)),
}
CLASSES = Multinomial((0.0, 2.0, 5.0, 7.0))
# Losses whose parabola lies above them everywhere once a step is cautious.
BOUNDED = [name for name in SINGLE if name not in ("poisson", "gamma")]

every_loss = pytest.mark.parametrize("loss", SINGLE.values(), ids=list(SINGLE))


def draw_targets(loss, n, rng):
    if isinstance(loss, Logistic | Multinomial):
        return rng.choice(loss.labels, n)
    if isinstance(loss, Poisson):
        return rng.poisson(2.0, n).astype(float)
    if isinstance(loss, Gamma):
        return rng.gamma(0.7, 3.0, n) + 1e-12
    return rng.standard_normal(n) * 2


@every_loss
def test_slopes_are_derivatives(loss):
    rng = np.random.RandomState(0)
    y, f = draw_targets(loss, 500, rng), rng.uniform(-4, 4, 500)
    h = 1e-6
    slope = (loss.value(y, f + h) - loss.value(y, f - h)) / (2 * h)
    for caution in (0, 1, 3):
        z, weight = loss.linearise(y[:, None], f, 0, caution=caution)
        assert (weight > 0).all()
        np.testing.assert_allclose(weight * (f - z), slope, rtol=1e-4, atol=2e-4)


@pytest.mark.parametrize("name", BOUNDED)
def test_cautious_parabolas_lie_above_the_loss(name):
    loss, rng = SINGLE[name], np.random.RandomState(1)
    y, f = draw_targets(loss, 4000, rng), rng.uniform(-12, 12, 4000)
    other = rng.uniform(-15, 15, 4000)
    z, weight = loss.linearise(y[:, None], f, 0, caution=1)
    above = loss.value(y, f) + 0.5 * weight * ((other - z) ** 2 - (f - z) ** 2)
    assert (above - loss.value(y, other) >= -1e-9 * (1 + np.abs(above))).all()


@pytest.mark.parametrize("name", ["poisson", "gamma"])
def test_parabolas_of_means_lie_above_the_loss_nearby(name):
    """However far a step wants to go, more caution makes it short enough."""
    loss, rng = SINGLE[name], np.random.RandomState(2)
    y, f = draw_targets(loss, 4000, rng), rng.uniform(-6, 6, 4000)
    for caution in (4, 8):
        z, _weight = loss.linearise(y[:, None], f, 0, caution=caution)
        assert (loss.value(y, z) <= loss.value(y, f) + 1e-12).all()
        assert (np.abs(z - f) <= 30 * 4.0**-caution * 40).all()


def test_all_classes_at_once_lie_above_the_loss():
    rng, n = np.random.RandomState(3), 3000
    y, f = draw_targets(CLASSES, n, rng)[:, None], rng.uniform(-9, 9, (4, n))
    other = rng.uniform(-9, 9, (4, n))
    context = CLASSES.context(iter(f))
    np.testing.assert_allclose(context, logsumexp(f, axis=0), rtol=1e-12)
    above = CLASSES.total(y, iter(f))
    for target in range(4):
        z, weight = CLASSES.linearise(y, f[target], target, context, caution=1)
        above += 0.5 * weight * ((other[target] - z) ** 2 - (f[target] - z) ** 2)
    assert (above >= CLASSES.total(y, iter(other)) - 1e-9).all()


def test_values_are_what_textbooks_say():
    rng, n = np.random.RandomState(4), 200
    f = rng.uniform(-3, 3, n)
    y = rng.standard_normal(n)
    rest = y - f
    pinball = np.maximum(0.9 * rest, -0.1 * rest)
    np.testing.assert_allclose(Quantile(0.9).value(y, f), pinball, atol=0.0026)
    np.testing.assert_allclose(AbsoluteError().value(y, f), np.abs(rest), atol=0.0051)
    huber = np.where(np.abs(rest) < 0.4, rest**2 / 2, 0.4 * (np.abs(rest) - 0.2))
    np.testing.assert_allclose(Huber(0.4).value(y, f), huber, atol=1e-12)
    counts = rng.poisson(2.0, n)
    deviance = xlogy(counts, counts) - counts * f - counts + np.exp(f)
    np.testing.assert_allclose(Poisson().value(counts, f), deviance, atol=1e-12)
    amounts = rng.gamma(2.0, 1.0, n)
    deviance = amounts * np.exp(-f) - 1 - np.log(amounts) + f
    np.testing.assert_allclose(Gamma().value(amounts, f), deviance, atol=1e-12)
    labels = rng.choice([-1.0, 3.0], n)
    p = np.where(labels == 3.0, 1, -1) * f
    np.testing.assert_allclose(Logistic((-1.0, 3.0)).value(labels, f), np.log1p(np.exp(-p)))
    codes, F = rng.randint(0, 4, n), rng.uniform(-30, 30, (n, 4))
    found = CLASSES.total(np.array(CLASSES.labels)[codes][:, None], iter(F.T))
    wanted = logsumexp(F, axis=1) - F[np.arange(n), codes]
    np.testing.assert_allclose(found, wanted, atol=1e-10)
    np.testing.assert_allclose(invert_link("softmax", F), np.exp(F - logsumexp(F, axis=1)[:, None]))


@every_loss
@pytest.mark.parametrize("weighted", [False, True])
def test_starts_cost_less_than_other_constants(loss, weighted):
    rng = np.random.RandomState(5)
    y = draw_targets(loss, 400, rng)
    weight = rng.randint(1, 4, 400).astype(float) if weighted else None
    middle, spread = loss.start(y[:, None], weight)
    assert spread.shape == middle.shape == (1,)
    assert spread[0] > 0
    y = loss.relative(y, middle[0], spread[0])
    constant = 0.0 if loss.is_relative else middle[0]

    def cost(f):
        return np.average(loss.value(y, np.full(400, f)), weights=weight)

    slack = 0.02 if isinstance(loss, Huber) else 1e-4
    assert all(cost(constant) <= cost(constant + d) + slack for d in (-0.3, -0.05, 0.05, 0.3))


def test_starts_of_classes_are_their_shares():
    y = np.repeat([0.0, 2.0, 5.0, 7.0], [10, 20, 30, 40])[:, None]
    middle, _ = CLASSES.start(y, None)
    np.testing.assert_allclose(np.exp(middle), [0.1, 0.2, 0.3, 0.4])
    doubled = CLASSES.start(np.repeat(y, 2, axis=0), None)[0]
    np.testing.assert_allclose(CLASSES.start(y, np.full(100, 2.0))[0], doubled)
    missing, _ = CLASSES.start(y[:60], None)
    assert np.isfinite(missing).all()
    assert np.argmin(missing) == 3


def test_probabilities_keep_their_digits_in_the_tails():
    p = invert_link("logit", np.array([[-200.0], [0.0], [50.0]]))
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert 0 < p[0, 1] < 1e-80
    assert 0 < p[2, 0] < 1e-20


def test_losses_by_name():
    assert loss_of("squared_error") is None
    assert loss_of("quantile", 0.2) == Quantile(0.2)
    assert loss_of("gamma") == Gamma()
    assert class_loss(np.array([1.0, 4.0])) == Logistic((1.0, 4.0))
    assert class_loss(np.array([1.0, 4.0, 5.0])) == Multinomial((1.0, 4.0, 5.0))


def test_sums_add_up():
    total = LossSum(1.0, 2.0) + LossSum(2.0, 4.0)
    assert (total.value, total.weight, total.mean) == (3.0, 6.0, 0.5)


@pytest.mark.parametrize(
    ("loss", "low", "high", "words"),
    [
        (Poisson(), -1.0, 2.0, "zero or more"),
        (Poisson(), 0.0, 0.0, "zero or more"),
        (Gamma(), 0.0, 2.0, "positive"),
    ],
)
def test_targets_without_a_loss_are_refused(loss, low, high, words):
    with pytest.raises(ValueError, match=f"`y` must be {words}"):
        loss.check(np.array([low]), np.array([high]))


def test_tensors_have_the_losses_of_arrays():
    torch = pytest.importorskip("torch")
    rng = np.random.RandomState(6)
    for loss in SINGLE.values():
        y, f = draw_targets(loss, 50, rng), rng.uniform(-3, 3, 50)
        for caution in (0, 1):
            arrays = (loss.value(y, f), *loss.linearise(y[:, None], f, 0, caution=caution))
            y_, f_ = torch.as_tensor(y), torch.as_tensor(f)
            tensors = (loss.value(y_, f_), *loss.linearise(y_[:, None], f_, 0, caution=caution))
            for array, tensor in zip(arrays, tensors, strict=True):
                np.testing.assert_allclose(tensor.numpy(), array, rtol=1e-12, atol=1e-12)
    y, f = draw_targets(CLASSES, 50, rng)[:, None], rng.uniform(-3, 3, (4, 50))
    context = CLASSES.context(iter(torch.as_tensor(f)))
    np.testing.assert_allclose(context.numpy(), CLASSES.context(iter(f)))
    found = CLASSES.linearise(torch.as_tensor(y), torch.as_tensor(f)[1], 1, context)
    for mine, wanted in zip(
        found, CLASSES.linearise(y, f[1], 1, CLASSES.context(iter(f))), strict=True
    ):
        np.testing.assert_allclose(mine.numpy(), wanted)
