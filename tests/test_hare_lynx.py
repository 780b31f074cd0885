"""The example of hares and lynxes: its data and rates, its paragraph and its picture."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest
from scipy.special import ndtr

import abctree
from abctree.answers import Posterior
from examples.hare_lynx import (
    Prediction,
    paragraph,
    pelts,
    picture,
    predict,
    problem,
    simulate,
)
from examples.hare_lynx import __main__ as command
from examples.hare_lynx.model import LOG_SD, USUAL_RATES

from .conftest import command as call
from .test_problems import seeds_of, z_of_mean

pytestmark = pytest.mark.xdist_group("hare and lynx")  # they share runs

ROOT = Path(__file__).resolve().parents[1]

# The model --------------------------------------------------------------------------------------


def test_data_are_the_published_figures():
    data = pelts()
    assert data["year"].tolist() == list(range(1900, 1921))
    assert data["hare"][:4].tolist() == [30.0, 47.2, 70.2, 77.4]
    assert data["lynx"][-3:].tolist() == [9.7, 10.1, 8.6]
    assert data["hare"].sum() == pytest.approx(715.7)
    assert data["lynx"].sum() == pytest.approx(423.5)


def test_distance_is_a_root_mean_square_log_error():
    made = problem()
    theta = np.tile(list(USUAL_RATES.values()), (20, 1))
    index = np.arange(20)
    done = made.measurement.measured(made.simulate(theta, index, 3), theta, index)
    series = made.model.simulator(theta, seeds_of(20))
    logs = made.model.summary(series)
    observed = np.log1p(made.observed[1:])
    error = np.sqrt(((np.log1p(series[:, 1:]) - observed) ** 2).mean(axis=(1, 2)))
    np.testing.assert_allclose(made.distance(logs, made.observed_summary), error)
    assert done.distance.min() > 0
    assert (made.model.summary(made.observed[None])[0] == made.observed_summary).all()


def test_series_starts_at_the_data_of_1900():
    theta = np.tile(list(USUAL_RATES.values()), (5, 1))
    assert (simulate(theta, seeds_of(5))[:, 0] == [30.0, 4.0]).all()


def test_rates_are_per_thousand_pelts():
    # Lynxes neither born nor dying: each hare is eaten at rate θ2 · 4 a year.
    series = simulate(np.tile([0.0, 0.05, 0.0, 0.0], (4000, 1)), seeds_of(4000))
    for year in (1, 10):
        assert z_of_mean(series[:, year, 0], 30 * math.exp(-0.2 * year)) < 4
        assert z_of_mean(series[:, year, 0], 30 * math.exp(-0.21 * year)) > 6
    assert (series[:, :, 1] == 4).all()
    dying = simulate(np.tile([0.0, 0.0, 0.0, 0.8], (4000, 1)), seeds_of(4000))
    assert z_of_mean(dying[:, 2, 1], 4 * math.exp(-1.6)) < 4


def test_prior_has_the_usual_rates_as_medians():
    made = problem()
    middle = made.prior.from_cube(np.full((1, 4), 0.5))[0]
    np.testing.assert_allclose(middle, list(USUAL_RATES.values()))
    wide = made.prior.from_cube(np.full((1, 4), ndtr(1.0)))[0]
    np.testing.assert_allclose(np.log(wide / middle), LOG_SD)


def test_usual_rates_are_closer_than_the_prior():
    made = problem()
    index = np.arange(300)
    cube = np.random.default_rng(0).random((300, 4))

    def distances(theta):
        return made.measurement.measured(made.simulate(theta, index, 1), theta, index).distance

    usual = distances(np.tile(list(USUAL_RATES.values()), (300, 1)))
    assert np.median(usual) < 0.6 * np.median(distances(made.prior.from_cube(cube)))


# What is said -------------------------------------------------------------------------------------


def posterior_of(theta, weight=None):
    theta = np.asarray(theta, dtype=float).reshape(-1, 4)
    return Posterior(
        theta=theta,
        log_weights=np.log(np.ones(len(theta)) if weight is None else np.asarray(weight)),
        distance=np.full(len(theta), 0.2),
        epsilon=0.3,
        names=problem().names,
        n_simulations=1000,
    )


@pytest.fixture(scope="module")
def small():
    return abctree.abc_tree(problem(), n_simulations=1500, rng=2, proposal="boxes")


def observed_series():
    data = pelts()
    return np.stack([data["hare"], data["lynx"]], axis=1)


@pytest.mark.slow
def test_demo_runs_the_example_and_tells_what_it_says(tmp_path, monkeypatch, capsys):
    """The lines of the Makefile, with fewer simulations and in another folder."""
    lines = re.findall(
        r"^\t\$\(BIN\)/(.*examples.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE
    )
    run, tell = (line.replace("demo-output", str(tmp_path)).split() for line in lines)
    assert run[:2] == ["abctree", "run"]
    assert tell == ["python", "-m", "examples.hare_lynx", str(tmp_path)]
    monkeypatch.chdir(ROOT)
    done = call(*run[1:], "-n", 600, "--quiet")
    assert done.exit_code == 0, done.output
    command.main(tell[3:])
    said = (tmp_path / "hare-lynx.txt").read_text()
    assert said in capsys.readouterr().out
    result = abctree.load(tmp_path, problem())
    posterior = result.posterior()
    again = paragraph(result, posterior, predict(posterior, rng=result.root))
    assert " ".join(said.split()) == again
    assert (tmp_path / "hare-lynx.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_paragraph_is_made_of_the_numbers(small):
    rng = np.random.default_rng(4)
    low = posterior_of(np.exp(rng.normal(np.log([0.5, 0.03, 0.02, 0.8]), 0.1, size=(400, 4))))
    high = posterior_of(low.theta * [2.0, 1.0, 1.0, 2.0])
    for posterior in (low, high):
        said = paragraph(small, posterior, predict(posterior, rng=1, n=50))
        a, m, b = np.quantile(posterior.theta[:, 0], [0.05, 0.5, 0.95], method="inverted_cdf")
        assert f"grow at a rate of {m:.2f} ({a:.2f} to {b:.2f}) a year" in said
        period = 2.0 * np.pi / np.sqrt(posterior.theta[:, 0] * posterior.theta[:, 3])
        assert f"cycles of {np.quantile(period, 0.5, method='inverted_cdf'):.1f} (" in said
        assert "worth 400 independent ones" in said
        error = 100.0 * np.max(posterior.mcse() / posterior.std())
        assert f"sampling error of a mean, up to {error:.0f} % of a standard deviation" in said
        assert "\n" not in said


@pytest.mark.slow
def test_paragraph_uses_the_weights(small):
    theta = np.repeat([[0.5, 0.03, 0.02, 0.8], [0.9, 0.03, 0.02, 0.8]], 20, axis=0)
    theta = theta * np.linspace(0.99, 1.01, 40)[:, None]
    posterior = posterior_of(theta, np.repeat([1.0, 1e-6], 20))
    said = paragraph(small, posterior, predict(posterior, rng=1, n=20))
    assert "grow at a rate of 0.4976 (0.4953 to 0.4999) a year" in said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "said"),
    [(0, "Nothing was learned"), (1, "rests on 1 draws, worth 1.0"), (2, "worth 2.0 independent")],
)
def test_paragraph_and_picture_work_with_few_draws(small, n, said):
    posterior = posterior_of(np.array([[0.5, 0.03, 0.02, 0.8], [0.6, 0.02, 0.03, 0.9]])[:n])
    prediction = predict(posterior, rng=1, n=30)
    assert said in paragraph(small, posterior, prediction)
    assert len(picture(posterior, prediction).axes) == 16 + 2


def test_prediction_counts_what_its_bands_hold():
    observed = observed_series()
    spread = np.linspace(-1.0, 1.0, 101)[:, None, None]
    series = observed + spread * np.ones_like(observed)
    series[:, 3, 0] += 50.0  # hares of 1903: far above the count
    series[:, 7, 1] += 0.7  # lynx of 1907: beyond the central half, within 90 %
    prediction = Prediction(pelts()["year"], observed, series)
    inside, half = prediction.inside(0.9), prediction.inside(0.5)
    assert (inside.sum(), half.sum()) == (39, 38)
    assert not inside[2, 0]
    assert not half[6, 1]
    ((species, year, count, low, high),) = prediction.misses()
    assert (species, year, count) == ("hare", 1903, 77.4)
    assert (low, high) == pytest.approx((77.4 + 50 - 0.9, 77.4 + 50 + 0.9), abs=0.03)


def test_prediction_simulates_from_the_weighted_draws():
    slow, fast = [0.1, 0.03, 0.02, 0.8], [0.9, 0.03, 0.02, 0.8]
    posterior = posterior_of([slow, fast], [3.0, 1.0])
    prediction = predict(posterior, rng=3, n=400)
    assert prediction.series.shape == (400, 21, 2)
    np.testing.assert_array_equal(prediction.series[:, 0], np.tile(observed_series()[0], (400, 1)))
    # After a year the two rates are told apart; a quarter of the series is of the fast one.
    apart = simulate(np.array([slow] * 200 + [fast] * 200), np.arange(400, dtype=np.uint64))
    border = (apart[:200, 1, 0].mean() + apart[200:, 1, 0].mean()) / 2.0
    share = np.mean(prediction.series[:, 1, 0] > border)
    assert abs(share - 0.25) < 0.05
    again = predict(posterior, rng=3, n=400)
    np.testing.assert_array_equal(prediction.series, again.series)


@pytest.mark.slow
def test_picture_shows_four_rates_and_two_series(small):
    pytest.importorskip("matplotlib.figure")
    posterior = small.posterior(ess=30)
    figure = picture(posterior, predict(posterior, rng=1, n=100))
    labels = {ax.get_ylabel() for ax in figure.axes} | {ax.get_xlabel() for ax in figure.axes}
    assert {"hare, thousand pelts", "lynx, thousand pelts", *problem().names} <= labels
    assert len(figure.axes) == 16 + 2


def test_paragraph_compares_with_the_closest_draws_and_with_the_prior(small):
    posterior = small.posterior(ess=80)
    said = paragraph(small, posterior, predict(posterior, rng=1, n=20))
    closer = small.posterior(ess=0.25 * posterior.ess)
    moved = np.max(np.abs(closer.mean() - posterior.mean()) / posterior.std())
    assert f"(epsilon {closer.epsilon:.2g}) the means move by at most {moved:.2f} standard" in said
    # 90 % of a lognormal with log sd .75 lie between median e^{-1.234} and median e^{1.234}.
    before = np.array([0.55, 0.028, 0.024, 0.80]) * 2.0 * np.sinh(0.75 * 1.6448536)
    ratio = before / np.ptp(posterior.quantile([0.05, 0.95]), axis=0)
    assert f"intervals {ratio.min():.1f} to {ratio.max():.1f} times as wide" in said
