"""Pictures: what is drawn, read back from the artists."""

from __future__ import annotations

import pickle
import subprocess
import sys
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

import abctree
from abctree import MissingDependencyError, ParameterError, plots
from abctree.answers import Posterior
from abctree.faces.plots.canvas import number

figure_module = pytest.importorskip("matplotlib.figure")
pytestmark = pytest.mark.xdist_group("plots")  # they share runs


def posterior(theta, weight=None, names="abcdef", continuous=None, bounds=None):
    theta = np.asarray(theta, dtype=float)
    weight = np.ones(len(theta)) if weight is None else np.asarray(weight, dtype=float)
    with np.errstate(divide="ignore"):
        log_weight = np.log(weight)
    return Posterior(
        theta=theta,
        log_weights=log_weight,
        distance=np.zeros(len(theta)),
        epsilon=1.0,
        names=tuple(names[: theta.shape[1]]),
        n_simulations=100,
        continuous=continuous,
        bounds=bounds,
    )


@pytest.fixture(scope="module")
def cloud():
    rng = np.random.default_rng(5)
    theta = rng.normal(size=(600, 3)) * [1.0, 1e-9, 1e6] + [0.0, 3e-9, -2e6]
    return posterior(theta, np.exp(theta[:, 0]))


def run(prior, d_out, n=1500, rng=3, **settings):
    def simulate(theta, rng):
        return theta[:, :d_out] + rng.normal(size=(len(theta), d_out))

    problem = abctree.Problem(prior, simulate, np.zeros(d_out), vectorized=True)
    return abctree.abc_tree(problem, n_simulations=n, rng=rng, **{"proposal": "boxes", **settings})


@pytest.fixture(scope="module")
def flat():
    """A run in two dimensions, with different units."""
    return run({"a": (-5.0, 5.0), "b": (-50.0, 50.0)}, 2)


@pytest.fixture(scope="module")
def deep():
    """A run in three dimensions, one of them unbounded, beside a fixed parameter."""
    return run({"a": (-5.0, 5.0), "fixed": 1.0, "b": stats.norm(0, 3), "c": (-5.0, 5.0)}, 4)


def rectangles(ax):
    """Left, right, bottom, top (K,) of the boxes, and their shades (K,)."""
    boxes = ax.collections[0]
    corner = np.array([path.vertices[:4] for path in boxes.get_paths()])
    low, high = corner.min(axis=1), corner.max(axis=1)
    return low[:, 0], high[:, 0], low[:, 1], high[:, 1], boxes.get_array()


# pair -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", ["result", "mode", "theta"])
def test_pair_of_something_else_says_to_give_the_posterior(flat, wrong):
    given = {"result": flat, "mode": flat.mode(), "theta": flat.table.theta}
    with pytest.raises(ParameterError, match=r"`posterior` must .* result\.posterior\(\)"):
        plots.pair(given[wrong])
    assert plots.pair(flat.posterior()).axes


class Formatter:
    """Of IPython: who writes an object of a kind."""

    def __init__(self):
        self.type_printers = {}

    def for_type(self, kind, printer):
        self.type_printers[kind] = printer


@pytest.mark.parametrize("known", [False, True])
def test_a_notebook_shows_figures_by_itself(cloud, monkeypatch, known):
    png, svg = Formatter(), Formatter()
    if known:  # as after %config InlineBackend.figure_format = "svg"
        svg.for_type(figure_module.Figure, str)
    shell = SimpleNamespace(
        display_formatter=SimpleNamespace(formatters={"image/png": png, "image/svg+xml": svg})
    )
    notebook = SimpleNamespace(get_ipython=lambda: shell, version_info=(9, 0))
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    figure = plots.pair(cloud)
    assert list(png.type_printers) == ([] if known else [figure_module.Figure])
    if not known:
        assert png.type_printers[figure_module.Figure](figure).startswith(b"\x89PNG")


def test_pair_has_a_panel_for_each_pair_and_hides_the_others(cloud):
    axes = np.array(plots.pair(cloud).axes).reshape(3, 3)
    assert [[ax.axison for ax in row] for row in axes] == [
        [True, False, False], [True, True, False], [True, True, True],
    ]  # fmt: skip
    assert [ax.get_xlabel() for ax in axes[2]] == ["a", "b  (10⁻⁹)", "c  (10⁶)"]
    assert [ax.get_ylabel() for ax in axes[:, 0]] == ["", "b\n(10⁻⁹)", "c\n(10⁶)"]


def test_pair_histogram_is_weighted(cloud):
    ax = plots.pair(cloud, bins=12).axes[0]
    height, edges, _ = ax.patches[0].get_data()
    low, high = ax.get_xlim()
    inside = (cloud.theta[:, 0] >= low) & (cloud.theta[:, 0] <= high)
    value, weight = cloud.theta[inside, 0], cloud.weights[inside]
    assert len(height) == 12
    mass = height * np.diff(edges)
    np.testing.assert_allclose(mass, np.histogram(value, edges, weights=weight)[0])
    plain = np.histogram(value, edges)[0] / len(value)
    assert np.abs(mass - plain).sum() > 0.3


@pytest.mark.slow
def test_pair_marks_the_weighted_mean_and_the_shortest_interval(cloud):
    ax = plots.pair(cloud).axes[0]
    line = {line.get_label(): line for line in ax.lines}
    assert line["mean"].get_xdata()[0] == pytest.approx(cloud.mean()[0])
    np.testing.assert_allclose(line["90 %"].get_xdata(), cloud.hdi(0.9)[0])


@pytest.mark.parametrize("far", [-9.0, 0.5, 9.0])
def test_pair_limits_include_the_truth(cloud, far):
    axes = np.array(plots.pair(cloud, truth={"a": far}).axes).reshape(3, 3)
    for ax in axes[:, 0]:
        low, high = ax.get_xlim()
        assert low < far < high
    assert any(line.get_label() == "truth" for line in axes[0, 0].lines)
    assert not any(line.get_label() == "truth" for line in axes[1, 1].lines)


def test_pair_limits_show_nearly_all_of_the_weight(cloud):
    axes = np.array(plots.pair(cloud).axes).reshape(3, 3)
    for j in range(3):
        low, high = axes[j, j].get_xlim()
        inside = (cloud.theta[:, j] >= low) & (cloud.theta[:, j] <= high)
        assert cloud.weights[inside].sum() > 0.99


def test_pair_limits_stay_inside_the_bounds_of_the_prior():
    theta = np.linspace(0.001, 0.999, 200)[:, None]
    low, high = plots.pair(posterior(theta, bounds=np.array([[0.0, 1.0]]))).axes[0].get_xlim()
    assert (low, high) == (0.0, 1.0)
    low, high = plots.pair(posterior(theta)).axes[0].get_xlim()
    assert low < 0.0
    assert high > 1.0


def test_pair_shows_the_named_parameters_in_their_order(cloud):
    axes = plots.pair(cloud, names=["c", "a"]).axes
    assert [ax.get_xlabel().split()[0] for ax in axes[2:]] == ["c", "a"]


def test_pair_marks_the_truth_of_a_series_by_its_labels(cloud):
    truth = pytest.importorskip("pandas").Series({"c": 3.0, "b": 2.0, "a": 1.0})
    lines = [line for ax in plots.pair(cloud, truth=truth).axes for line in ax.get_lines()]
    marked = [line.get_xdata()[0] for line in lines if line.get_label() == "truth"]
    assert marked == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("n", [0, 1, 2])
def test_pair_works_with_few_draws(n):
    figure = plots.pair(posterior(np.arange(2.0 * n).reshape(n, 2) + 0.25), truth=[0.5, 40.0])
    figure.draw_without_rendering()
    texts = [text.get_text() for ax in figure.axes for text in ax.texts]
    assert ("no draws" in texts) == (n == 0)
    assert figure.axes[3].get_xlim()[1] > 40.0


def test_pair_works_when_no_draw_has_weight():
    figure = plots.pair(posterior([[1.0, 2.0]], [0.0]))
    assert [text.get_text() for text in figure.axes[0].texts] == ["no draws"]


def test_pair_draws_a_constant_as_one_bar():
    theta = np.column_stack([np.full(50, 3.0), np.linspace(0.1, 1.1, 50)])
    axes = np.array(plots.pair(posterior(theta)).axes).reshape(2, 2)
    (bar,) = axes[0, 0].patches
    assert bar.get_height() == pytest.approx(1.0)
    assert bar.get_x() < 3.0 < bar.get_x() + bar.get_width()
    assert axes[0, 0].get_title() == "a\n= 3"
    assert len(axes[1, 1].patches) == 2, (
        "a continuous parameter is a histogram, filled and outlined"
    )


def test_pair_draws_a_discrete_parameter_as_bars_of_its_probabilities():
    theta = np.array([[1.0], [2.0], [2.0], [5.0]])
    ax = plots.pair(posterior(theta, [1.0, 2.0, 3.0, 4.0])).axes[0]
    centre = [bar.get_x() + bar.get_width() / 2.0 for bar in ax.patches]
    np.testing.assert_allclose(centre, [1.0, 2.0, 5.0])
    np.testing.assert_allclose([bar.get_height() for bar in ax.patches], [0.1, 0.5, 0.4])
    low, high = ax.get_xlim()
    assert low <= min(bar.get_x() for bar in ax.patches)
    assert high >= max(bar.get_x() + bar.get_width() for bar in ax.patches)


def test_pair_believes_the_prior_on_what_is_discrete():
    theta = np.array([[0.5], [0.5], [2.25]])
    discrete = plots.pair(posterior(theta, continuous=np.array([False]))).axes[0]
    assert len(discrete.patches) == 2
    assert discrete.patches[0].get_height() == pytest.approx(2.0 / 3.0)
    whole = posterior(np.arange(40.0)[:, None], continuous=np.array([True]))
    assert hasattr(plots.pair(whole).axes[0].patches[0], "get_data"), "a histogram, not bars"


def test_pair_scatter_is_darker_where_weights_are_larger():
    ax = plots.pair(posterior([[0.1, 0.2], [1.3, 1.4], [2.5, 0.3]], [1.0, 4.0, 2.0])).axes[2]
    points = ax.collections[0]
    order = np.argsort(points.get_offsets()[:, 0])
    np.testing.assert_allclose(points.get_alpha()[order] / points.get_alpha().max(), [0.25, 1, 0.5])


def test_pair_contours_hold_their_share_of_the_weight():
    rng = np.random.default_rng(8)
    theta = rng.normal(size=(20_000, 2)) @ np.array([[1.0, 0.8], [0.0, 0.6]])
    ax = plots.pair(posterior(theta)).axes[2]
    contours = [c for c in ax.collections if hasattr(c, "levels")]
    outer = contours[0].get_paths()[0]  # between the 95 and the 90 % contour
    loops = outer.to_polygons()
    area = [0.5 * abs(np.sum(np.roll(p[:, 0], 1) * p[:, 1] - p[:, 0] * np.roll(p[:, 1], 1)))
            for p in loops]  # fmt: skip
    # The region of highest density of a normal with this mass is an ellipse of known area.
    expected = -2.0 * np.pi * 0.6 * np.log(1.0 - 0.95)
    assert max(area) == pytest.approx(expected, rel=0.12)


@pytest.mark.slow
def test_pair_draws_into_given_axes(cloud):
    figure = figure_module.Figure()
    axes = figure.subplots(3, 3)
    assert plots.pair(cloud, axes=axes) is figure
    assert axes[2, 0].get_xlabel() == "a"
    inner = figure_module.Figure()
    part = inner.subfigures(1, 2)[0]
    assert plots.pair(cloud, names=["a"], axes=part.subplots()) is inner


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"names": ["z"]}, "`names` must be some of a, b, c"),
        ({"names": []}, "`names` must be some of"),
        ({"truth": [1.0]}, "`truth` must be one number for each"),
        ({"truth": "a"}, "`truth` must be numbers, but got 'a'"),
        ({"truth": {"z": 1.0}}, "`truth` must name some of"),
        ({"bins": 0}, "`bins` must be a whole number of at least 1"),
        ({"bins": 2.5}, "`bins` must be a whole number of at least 1, but got 2.5"),
        ({"axes": np.empty((2, 2), dtype=object)}, "`axes` must be 3 x 3 axes"),
    ],
)
def test_pair_explains_wrong_arguments(cloud, arguments, message):
    with pytest.raises(ParameterError, match=message):
        plots.pair(cloud, **arguments)


@pytest.mark.parametrize(
    ("value", "spread", "text"),
    [
        (0.55234, 0.034, "0.552"), (-0.001, 2.0, "0.0"), (1234.56, 210.0, "1235"),
        (3.0, 0.0, "3"), (2.5e-11, 1.2e-12, "2.5e-11"), (float("nan"), 1.0, "nan"),
        (12_345_678.0, 2.0, "12345678"),
    ],
)  # fmt: skip
def test_number_has_two_digits_of_its_spread(value, spread, text):
    assert number(value, spread) == text


# texts ------------------------------------------------------------------------------------------


def texts_of(figure):
    """All texts that are seen, with their boxes in pixels."""
    figure.draw_without_rendering()
    found = []
    for ax in figure.axes:
        legend = [ax.get_legend()] if ax.get_legend() else []
        found += [text for box in (*legend, *figure.legends) for text in box.get_texts()]
        if ax.axison:
            for axis in (ax.xaxis, ax.yaxis):
                low, high = sorted(axis.get_view_interval())
                ticks = [t for t in axis.get_major_ticks() if low <= t.get_loc() <= high]
                found += [tick.label1 for tick in ticks if tick.label1.get_visible()]
                found += [axis.label, axis.get_offset_text()]
            found.append(ax.title)
    return [(t.get_text(), t.get_window_extent()) for t in dict.fromkeys(found) if t.get_text()]


def misplaced(figure):
    """Texts that leave the figure, and pairs that lie on each other."""
    width, height = figure.bbox.width, figure.bbox.height
    texts = texts_of(figure)
    out = [
        name
        for name, box in texts
        if box.x0 < -0.5 or box.y0 < -0.5 or box.x1 > width + 0.5 or box.y1 > height + 0.5
    ]
    for i, (name, one) in enumerate(texts):
        for other, two in texts[:i]:
            across = min(one.x1, two.x1) - max(one.x0, two.x0)
            if across > 0.5 and min(one.y1, two.y1) - max(one.y0, two.y0) > 0.5:
                out.append((name, other))
    return out


@pytest.fixture(scope="module")
def tiny():
    """Names of 20 letters, values of 1e-5, a log prior, and whole numbers."""
    prior = {
        "rate_of_transcriptio": stats.loguniform(1e-7, 1e-3),
        "diffusion_of_protein": (0.0, 1e-4),
        "size": (1e6, 2e6),
        "count": abctree.Integers(0, 9),
    }

    def simulate(theta, rng):
        scaled = [np.log(theta[:, 0]), theta[:, 1] * 1e5, theta[:, 2] / 1e5, theta[:, 3]]
        return np.column_stack(scaled) + rng.normal(size=theta.shape)

    problem = abctree.Problem(prior, simulate, [-10.0, 5.0, 15.0, 4.0], vectorized=True)
    return abctree.abc_tree(problem, n_simulations=2000, rng=1, proposal="boxes")


@pytest.mark.slow
@pytest.mark.parametrize("k", [1, 2, 4])
def test_pair_has_texts_that_neither_leave_the_figure_nor_lie_on_each_other(tiny, k):
    figure = plots.pair(tiny.posterior(ess=200), names=tiny.problem.names[:k])
    assert misplaced(figure) == []
    assert len(texts_of(figure)) > 6 * k
    for ax in figure.axes:  # the twin: titles of one size for all
        ax.title.set_fontsize(40.0)
    assert misplaced(figure)


@pytest.mark.slow
@pytest.mark.parametrize("draw", [
    lambda run: plots.pair([run.posterior(), run.posterior(ess=60)]),
    plots.mode, plots.tolerance, plots.progress, plots.predictive,
    lambda run: plots.calibration(run.calibration()),
])  # fmt: skip
def test_other_pictures_have_texts_that_are_where_they_belong(tiny, draw):
    assert misplaced(draw(tiny)) == []


@cache
def oddly_named(names):
    return run(dict.fromkeys(names, (-5.0, 5.0)), 2, n=300)


@pytest.mark.parametrize("draw", [
    plots.mode, plots.tolerance, plots.partitions, plots.failure_map,
    lambda run: plots.calibration(run.calibration(n=50)),
    lambda run: plots.pair({name: run.posterior() for name in run.problem.names}),
])  # fmt: skip
@pytest.mark.filterwarnings("error::UserWarning:matplotlib")
def test_names_that_are_no_mathematics_and_long_leave_a_picture(draw):
    figure = draw(oddly_named(("$\\foo$" + "x" * 100, "a$^$" + "x" * 100)))
    figure.draw_without_rendering()  # which warns where names leave no room


@pytest.mark.parametrize("draw", [
    plots.failure_map, plots.partition, lambda run: plots.pair(run.posterior()),
])  # fmt: skip
def test_names_of_a_hundred_letters_are_cut_where_they_would_cover_others(draw):
    names = ("rate_of_recovery_" * 6 + "1", "rate_of_recovery_" * 6 + "2")
    assert misplaced(draw(oddly_named(names))) == []


def test_a_formula_is_drawn_as_one_but_for_what_does_not_parse():
    figure = plots.failure_map(run({r"$\alpha$": (0.0, 1.0), "b$^$": (0.0, 1.0)}, 2, n=300))
    axes = figure.axes[0]
    labels = axes.xaxis.label, axes.yaxis.label
    assert [label.get_parse_math() for label in labels] == [True, False]


def test_a_legend_has_names_that_begin_with_an_underscore():
    found = run({"_a": (-5.0, 5.0), "_b": (-5.0, 5.0)}, 2, n=300)
    for figure in plots.calibration(found.calibration(n=50)), plots.pair({"_a": found.posterior()}):
        legend = next(filter(None, (ax.get_legend() for ax in figure.axes)))
        assert " _a" in [text.get_text() for text in legend.get_texts()]


@pytest.mark.slow
def test_pair_has_few_ticks_on_a_short_log_axis():
    prior = {"rate": stats.loguniform(0.001, 10.0), "other": stats.loguniform(0.001, 10.0)}
    problem = abctree.Problem(
        prior, lambda t, rng: 5.0 * np.log(t) + rng.normal(size=t.shape), 5.0 * np.log([0.5, 4.0]),
        vectorized=True,
    )  # fmt: skip
    draws = abctree.abc_tree(problem, n_simulations=2000, rng=1, proposal="boxes").adjusted(ess=200)
    figure = plots.pair(draws)
    assert {figure.axes[j].get_xscale() for j in (0, 2, 3)} == {"log"}
    low, high = figure.axes[2].get_xlim()
    assert 2.0 < high / low < 20.0
    assert misplaced(figure) == []
    assert any(name == "0.5" for name, _ in texts_of(figure))


def told(figure):
    """What the legends say."""
    legends = [ax.get_legend() for ax in figure.axes if ax.get_legend()] + figure.legends
    return [text.get_text() for legend in legends for text in legend.get_texts()]


def test_pair_says_what_its_lines_bars_and_shades_are(tiny):
    said = told(plots.pair(tiny.posterior(ess=200)))
    assert said == ["posterior", "mean", "shortest 90 %", "prior",
                    "densest 95 %", "densest 75 %", "densest 25 %"]  # fmt: skip
    few = told(plots.pair(tiny.posterior(ess=40), truth={"count": 3}, prior=False))
    assert few == ["posterior", "mean", "shortest 90 %", "truth", "draws"]
    assert "prior" in told(plots.pair(tiny.posterior(), names=["size"]))


def test_pair_has_log_axes_where_the_prior_is_one_of_the_logarithm(tiny):
    axes = np.array(plots.pair(tiny.posterior(ess=200)).axes).reshape(4, 4)
    assert [ax.get_xscale() for ax in axes[3]] == ["log", "linear", "linear", "linear"]
    assert axes[1, 0].get_xscale() == "log"
    low, high = axes[0, 0].get_xlim()
    assert 1e-7 <= low < high <= 1e-3


def test_pair_draws_the_density_of_the_prior(flat, tiny):
    def prior_of(figure, j):
        k = int(np.sqrt(len(figure.axes)))
        (line,) = [x for x in figure.axes[j * (k + 1)].lines if x.get_label() == "prior"]
        return line.get_ydata()

    np.testing.assert_allclose(prior_of(plots.pair(flat.posterior()), 0), 0.1, rtol=0.05)
    figure = plots.pair(tiny.posterior(ess=200))
    # Of a log-uniform prior per decade, which is the unit of its axis; of ten whole numbers.
    np.testing.assert_allclose(prior_of(figure, 0), 0.25, rtol=0.05)
    np.testing.assert_allclose(prior_of(figure, 3), 0.1, rtol=0.05)


def test_pair_draws_several_posteriors_over_each_other(flat):
    two = {"raw": flat.posterior(ess=300), "near": flat.posterior(ess=110)}
    figure = plots.pair(two)
    assert told(figure)[:2] == ["raw", "near"]
    means = [x.get_xdata()[0] for x in figure.axes[0].lines if x.get_label() == "mean"]
    assert means == [pytest.approx(draws.mean()[0]) for draws in two.values()]
    contours = [c for c in figure.axes[2].collections if hasattr(c, "levels")]
    assert len(contours) == 2
    narrow, wide = sorted((c.get_datalim(figure.axes[2].transData) for c in contours),
                          key=lambda box: box.width)  # fmt: skip
    assert narrow.width < wide.width
    assert told(plots.pair([*two.values()]))[0].startswith("ε = ")
    other = posterior(np.zeros((3, 2)), names="xy")
    with pytest.raises(ParameterError, match="`posterior` must be of the same parameters"):
        plots.pair([flat.posterior(), other])
    with pytest.raises(ParameterError, match="`posterior` must be a Posterior, or a list"):
        plots.pair([])


def test_mode_has_its_ellipses_inside_the_axes_and_says_what_they_are(flat):
    figure = plots.mode(flat)
    said = told(figure)
    assert {"mode", "error of the mode, 90%", "normal posterior, 90%"} <= {*said}
    ax = figure.axes[2]
    ellipses = [x for x in ax.lines if x.get_label() != "mode"]
    assert len(ellipses) == 2
    for line in ellipses:
        inside = ax.dataLim.frozen()
        inside.update_from_data_xy([[ax.get_xlim()[0], ax.get_ylim()[0]],
                                    [ax.get_xlim()[1], ax.get_ylim()[1]]], ignore=True)  # fmt: skip
        assert all(inside.contains(*point) for point in line.get_xydata())
    assert ax.get_xlim() == figure.axes[0].get_xlim()


def test_failures_of_a_run_without_any_says_so(flat):
    texts = [text.get_text() for text in plots.failures(flat).axes[0].texts]
    assert texts == ["none of 1500 simulations failed"]


def test_tolerance_draws_what_the_table_says_at_each(flat):
    figure = plots.tolerance(flat, n=5)
    assert [ax.get_ylabel().split()[0] for ax in figure.axes] == ["a", "b"]
    line = {x.get_label(): x for x in figure.axes[1].lines}
    epsilon, mean = line["mean"].get_data()
    assert len(epsilon) == 5
    assert (np.diff(epsilon) < 0).all()
    np.testing.assert_allclose(mean, [flat.posterior(epsilon=e).mean()[1] for e in epsilon])
    answer = flat.answer()
    assert line["answer"].get_xydata().tolist() == [[answer.epsilon, answer.mean()[1]]]
    assert told(figure) == ["90 %", "mean", "adjusted", "answer"]
    for n in (1, 2.5):
        with pytest.raises(ParameterError, match="`n` must be a whole number of at least 2"):
            plots.tolerance(flat, n=n)


# partition --------------------------------------------------------------------------------------


@pytest.mark.parametrize("show", ["posterior", "proposal"])
def test_partition_draws_every_box_where_it_is(flat, show):
    ax = plots.partition(flat, fold=1, show=show).axes[0]
    left, right, bottom, top, shade = rectangles(ax)
    measured = flat.partitions[1]
    assert len(left) == len(measured) > 5
    np.testing.assert_allclose(left, -5.0 + 10.0 * measured.boxes.lower[:, 0], atol=1e-9)
    np.testing.assert_allclose(top, -50.0 + 100.0 * measured.boxes.upper[:, 1], atol=1e-9)
    played = flat.rounds[-1]
    mass = measured.prior_mass * (
        played.arms[1].mean if show == "posterior" else played.mixtures[1].on_boxes(-1).value
    )
    drawn = shade * (right - left) * (top - bottom)
    np.testing.assert_allclose(drawn / drawn.sum(), mass / mass.sum(), rtol=1e-9)


def test_partition_title_and_labels_say_what_it_is(flat):
    ax = plots.partition(flat, round=2).axes[0]
    assert ax.get_title() == f"round 2, ε = {flat.rounds[2].epsilon:.3g}"
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("a", "b")
    assert plots.partition(flat, round=0).axes[0].get_title() == "pilot"
    swapped = plots.partition(flat, dims=("b", "a")).axes[0]
    assert swapped.get_xlabel() == "b"
    np.testing.assert_allclose(swapped.get_xlim(), (-50.0, 50.0))


def test_partition_of_the_pilot_is_one_box(flat):
    left, right, *_ = rectangles(plots.partition(flat, round=0, show="proposal").axes[0])
    np.testing.assert_allclose([left, right], [[-5.0], [5.0]])


def test_partition_in_the_cube_tiles_the_unit_square(flat):
    left, right, bottom, top, _ = rectangles(plots.partition(flat, coordinates="cube").axes[0])
    assert ((right - left) * (top - bottom)).sum() == pytest.approx(1.0)


def test_partition_slices_more_than_two_dimensions(deep):
    ax = plots.partition(deep, dims=("a", "c"), coordinates="cube").axes[0]
    left, right, bottom, top, _ = rectangles(ax)
    assert 1 < len(left) < len(deep.partition)
    assert ((right - left) * (top - bottom)).sum() == pytest.approx(1.0)
    assert "\nslice at b = " in ax.get_title()
    assert "fixed" not in ax.get_title()


def test_partition_of_an_unbounded_prior_has_finite_limits(deep):
    ax = plots.partition(deep, dims=("a", "b")).axes[0]
    np.testing.assert_allclose(ax.get_ylim(), stats.norm(0, 3).ppf([0.0005, 0.9995]))
    np.testing.assert_allclose(ax.get_xlim(), (-5.0, 5.0))
    ax.figure.draw_without_rendering()


@pytest.mark.parametrize("d", [2, 10])
def test_partition_of_normal_priors_shades_boxes_that_reach_to_infinity(d):
    """In ten dimensions every box does: a warning is an error here."""
    result = run({name: stats.norm(0, 3) for name in "abcdefghij"[:d]}, d, n_folds=1)
    measured = result.partition
    endless = np.isinf(measured.log_volume)
    for show in ("posterior", "proposal"):
        shade = rectangles(plots.partition(result, show=show).axes[0])[-1]
        assert np.isfinite(shade).all()
        assert shade.max() > 0.0
        if d == 2:  # in two dimensions some are finite, and the others are no part of them
            assert not endless.all()
            assert (shade[endless] == 0.0).all()
        else:
            assert endless.all()


def test_partition_falls_back_to_quantiles_where_theta_has_no_boxes():
    result = run({"n": abctree.Integers(0, 9), ("x", "y"): abctree.MultivariateNormal(
        [0.0, 0.0], [[1.0, 0.5], [0.5, 1.0]])}, 3, n=400)  # fmt: skip
    ax = plots.partition(result).axes[0]
    # x = mean + L11 z1 has a dimension to itself; y depends on two.
    assert ax.get_xlabel() == "n (quantile of the prior)"
    assert ax.get_xlim() == (0.0, 1.0)
    assert ax.get_ylabel() == "x"
    with pytest.raises(ParameterError, match=r"two different names of \['n', 'x'\]"):
        plots.partition(result, dims=("n", "y"))


def test_partition_in_one_dimension_says_what_to_do_instead():
    with pytest.raises(ParameterError, match="two free parameters"):
        plots.partition(run({"a": (-5.0, 5.0)}, 1, n=200))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"round": 99}, "`round` must be in"),
        ({"fold": 5}, r"`fold` must be in 0 \.\. 4"),
        ({"dims": ("a", "a")}, "`dims` must be two different names"),
        ({"dims": ("a", "z")}, "`dims` must be two different names"),
        ({"coordinates": "polar"}, "`coordinates` must be"),
        ({"show": "nothing"}, "`show` must be"),
    ],
)
def test_partition_explains_wrong_arguments(flat, arguments, message):
    with pytest.raises(ParameterError, match=message):
        plots.partition(flat, **arguments)


def test_partitions_show_the_accepted_draws_of_each_round_in_red(flat):
    chosen = [1, 3, -1]
    figure = plots.partitions(flat, rounds=chosen)
    for ax, index in zip(figure.axes, chosen, strict=True):
        played = flat.rounds[index]
        assert f"ε = {played.epsilon:.3g}" in ax.get_title()
        dots = ax.collections[1]
        assert len(dots.get_offsets()) == played.n_accepted
        red, green, blue, _ = dots.get_facecolor()[0]
        assert red > 2.0 * max(green, blue)
        rows = slice(played.first, played.last)
        accepted = flat.table.distance[rows] < played.epsilon
        np.testing.assert_allclose(dots.get_offsets(), flat.table.theta[rows][accepted], rtol=1e-9)


def test_partitions_choose_at_most_five_rounds_and_the_last(flat):
    figure = plots.partitions(flat)
    assert len(figure.axes) == min(5, len(flat.rounds) - 1)
    assert figure.axes[-1].get_title().startswith(f"round {flat.rounds[-1].index},")


def test_partitions_need_axes_for_each_round(flat):
    axes = figure_module.Figure().subplots(1, 2)
    with pytest.raises(ParameterError, match="`axes` must be 1 x 3 axes"):
        plots.partitions(flat, rounds=[1, 2, 3], axes=axes)
    with pytest.raises(ParameterError, match="`rounds` must name"):
        plots.partitions(flat, rounds=[])
    assert plots.partitions(flat, rounds=[1, 2], axes=axes) is axes[0].figure


# progress ---------------------------------------------------------------------------------------


def test_progress_shows_every_round_on_log_axes(flat):
    upper, lower, draws, evidence, seconds, _ = plots.progress(flat).axes
    played = flat.rounds[1:]
    np.testing.assert_array_equal(upper.lines[0].get_xdata(), [r.last for r in played])
    np.testing.assert_array_equal(upper.lines[0].get_ydata(), [r.epsilon for r in played])
    np.testing.assert_allclose(
        lower.lines[0].get_ydata(), [r.n_accepted / (r.last - r.first) for r in played]
    )
    np.testing.assert_array_equal(draws.lines[0].get_ydata(), [r.ess for r in played])
    found = [flat.evidence(r.epsilon) for r in played]
    np.testing.assert_array_equal(evidence.lines[0].get_ydata(), [z.estimate for z in found])
    assert 0.0 < seconds.lines[0].get_ydata()[0] <= seconds.lines[0].get_ydata()[-1]
    assert seconds.lines[0].get_ydata()[-1] <= flat.seconds
    assert {scale for ax in (upper, lower, draws, evidence, seconds)
            for scale in (ax.get_xscale(), ax.get_yscale())} == {"log"}  # fmt: skip


def test_progress_leaves_a_gap_where_nothing_was_accepted():
    result = run({"a": (-5.0, 5.0)}, 1, n=300, schedule=[4.0, 1e-12])
    figure = plots.progress(result)
    rate = figure.axes[1].lines[0].get_ydata()
    assert np.isnan(rate[-1])
    assert rate[0] > 0.0
    figure.draw_without_rendering()


# predictive -------------------------------------------------------------------------------------


def band(collection):
    """Lower and upper ends at each of the distinct x of a filled band."""
    vertices = collection.get_paths()[0].vertices
    x = np.unique(vertices[:, 0])
    return np.array([[f(vertices[vertices[:, 0] == at, 1]) for at in x] for f in (np.min, np.max)])


def test_predictive_bands_are_weighted_quantiles():
    rng = np.random.default_rng(2)
    draws = rng.normal([0.0, 5.0, 10.0], size=(4000, 3))
    tilt = np.exp(draws[:, 0])  # under these weights the first column is N(1, 1)
    ax = plots.predictive([1, 2, 4], [0.5, 5.0, 10.0], draws, tilt).axes[0]
    outer, inner = (band(c) for c in ax.collections)
    z = stats.norm.ppf([0.05, 0.25])
    # Quantiles at 5 % of n draws have sd sqrt(.05 .95 / n) / φ(z): .05 at the ESS of 1 500.
    np.testing.assert_allclose(outer[0, 1:] - [5.0, 10.0], z[0], atol=0.25)
    np.testing.assert_allclose(outer[1, 1:] - [5.0, 10.0], -z[0], atol=0.25)
    np.testing.assert_allclose(inner[:, 0], [1.0 + z[1], 1.0 - z[1]], atol=0.2)
    plain = plots.predictive([1, 2, 4], [0.5, 5.0, 10.0], draws).axes[0]
    assert band(plain.collections[1])[0, 0] == pytest.approx(z[1], abs=0.2)
    lines = {line.get_label(): line for line in ax.lines}
    np.testing.assert_array_equal(lines["observed"].get_ydata(), [0.5, 5.0, 10.0])
    np.testing.assert_allclose(lines["median"].get_ydata(), [1.0, 5.0, 10.0], atol=0.2)


@pytest.mark.parametrize("n", [0, 1, 2])
def test_predictive_works_with_few_draws(n):
    ax = plots.predictive([0, 1], [1.0, 2.0], np.ones((n, 2))).axes[0]
    assert len(ax.lines) == (1 if n == 0 else 2)
    assert len(ax.collections) == (0 if n == 0 else 2)


def test_predictive_of_a_run_has_words_for_all_that_it_shows(flat):
    ax = plots.predictive(flat).axes[0]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("number of the datum", "data")
    told = [text.get_text() for text in ax.get_legend().get_texts()]
    assert told == ["90 %", "50 %", "median", "observed"]
    np.testing.assert_allclose(band(ax.collections[0]), flat.predict().interval(), atol=0.3)
    with pytest.raises(ParameterError, match="`observed` and `draws` must be given"):
        plots.predictive([0, 1])


def test_predictive_explains_shapes_that_do_not_fit():
    with pytest.raises(ParameterError, match="`observed` must have 2 values"):
        plots.predictive([0, 1], [1.0], np.ones((3, 2)))
    with pytest.raises(ParameterError, match="`weights` must have 3 values"):
        plots.predictive([0, 1], [1.0, 2.0], np.ones((3, 2)), [1.0])
    with pytest.raises(ParameterError, match="`draws` must be of shape"):
        plots.predictive([0, 1], [1.0, 2.0], np.ones((2, 3)))


def test_weighted_quantiles_agree_with_the_posteriors(cloud):
    levels = [0.0, 0.05, 0.5, 0.731, 1.0]
    np.testing.assert_array_equal(
        plots.weighted_quantiles(cloud.theta, cloud.weights, levels), cloud.quantile(levels)
    )
    with pytest.raises(ParameterError, match="`weight` must have a positive entry"):
        plots.weighted_quantiles(cloud.theta, np.zeros(len(cloud)), levels)


# failures ---------------------------------------------------------------------------------------


def failing(prior, fails, n=2000, **settings):
    def simulate(theta, rng):
        y = theta[:, :1] + rng.normal(size=(len(theta), 1))
        return np.where(fails(theta)[:, None], np.nan, y)

    problem = abctree.Problem(prior, simulate, [1.0], vectorized=True)
    given = {"proposal": "boxes", **settings}
    return abctree.abc_tree(problem, n_simulations=n, rng=3, **given)


@pytest.fixture(scope="module")
def corner():
    """Fails where a > 3 and b > 0; c has no say."""
    prior = {"c": (0.0, 1.0), "a": (-5.0, 5.0), "fixed": 1.0, "b": (-50.0, 50.0)}
    return failing(prior, lambda t: (t[:, 1] > 3.0) & (t[:, 3] > 0.0))


def test_failures_has_the_share_of_every_round(corner):
    ax = figure_module.Figure().add_subplot()
    assert plots.failures(corner, ax=ax) is ax.figure
    heights = [bar.get_height() for bar in ax.patches]
    failed = np.isinf(corner.table.distance)
    assert heights == [failed[r.first : r.last].mean() for r in corner.rounds]
    assert heights[0] > 0.05


def test_failure_map_shows_where_simulations_fail(corner):
    ax = figure_module.Figure().add_subplot()
    assert plots.failure_map(corner, ax=ax) is ax.figure
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("a", "b")  # c and the fixed one have no say
    cells = ax.collections[0]
    corners = cells.get_coordinates()
    middle = 0.25 * (corners[1:, 1:] + corners[:-1, 1:] + corners[1:, :-1] + corners[:-1, :-1])
    share = np.ma.filled(cells.get_array(), np.nan).reshape(middle.shape[:2])
    width = np.array([corners[0, 1, 0] - corners[0, 0, 0], corners[1, 0, 1] - corners[0, 0, 1]])
    clear = (np.abs(middle - [3.0, 0.0]) > 0.5 * width).all(axis=2) & np.isfinite(share)
    expected = ((middle[..., 0] > 3.0) & (middle[..., 1] > 0.0)).astype(float)
    np.testing.assert_array_equal(share[clear], expected[clear])
    assert clear.sum() > 20
    assert len(set(expected[clear])) == 2


def test_failure_map_over_one_parameter_is_a_line(corner):
    line = failing({"a": (-5.0, 5.0)}, lambda t: t[:, 0] > 2.0)
    ax = plots.failure_map(line).axes[0]
    values, edges, _ = ax.patches[0].get_data()
    sure = np.isfinite(values) & ((edges[1:] < 2.0) | (edges[:-1] > 2.0))
    np.testing.assert_array_equal(values[sure], edges[:-1][sure] > 2.0)
    assert len(plots.failure_map(corner, ["c"]).axes) == 1
    with pytest.raises(ParameterError, match="`parameters` must be one or two of"):
        plots.failure_map(corner, ["a", "d"])


def test_what_cannot_be_drawn_is_told_in_one_sentence(corner):
    one = abctree.rejection(
        abctree.Problem({"a": (0.0, 1.0)}, lambda t, r: t[0], 0.5), n_simulations=200, keep=1, rng=1
    )
    for draw, told in (
        (lambda: plots.failure_map(one), "`result` must hold simulations at different parameters"),
        (lambda: plots.calibration(corner), r"`found` must be what result.calibration\(\) or"),
        (lambda: plots.comparison(corner), "`found` must be what abctree.compare gives, but got a"),
    ):
        with pytest.raises(ParameterError, match=told):
            draw()


def test_failures_are_not_drawn_from_the_closest_simulations_alone():
    def simulate(theta, rng):
        return None if theta[0] > 3.0 else theta

    problem = abctree.Problem({"a": (-5.0, 5.0)}, simulate, [1.0])
    for drawn in (plots.failures, plots.failure_map):
        with pytest.raises(ParameterError, match="must hold all its simulations"):
            drawn(abctree.rejection(problem, n_simulations=300, keep=20, rng=1))
        assert drawn(abctree.rejection(problem, n_simulations=300, rng=1)).axes


# matplotlib -------------------------------------------------------------------------------------


def test_plots_say_how_to_install_matplotlib(cloud, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingDependencyError, match=r"pip install abctree\[plots\]"):
        plots.pair(cloud)


@pytest.mark.slow
def test_plots_import_matplotlib_when_asked_to_draw_and_never_pyplot():
    code = (
        "import sys; from abctree.faces import plots; assert 'matplotlib' not in sys.modules\n"
        "plots.predictive([0, 1], [1, 2], [[1, 2], [2, 3]]).savefig(sys.argv[1])\n"
        "assert 'matplotlib.figure' in sys.modules and 'matplotlib.pyplot' not in sys.modules"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "/dev/null"],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr


# Mode -------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("method", ["map_tree", "abc_tree", "smc", "rejection", "closest"])
def test_mode_draws_the_mode_of_any_run(method):
    keep = {"keep": 300} if method == "closest" else {}
    function = abctree.rejection if method == "closest" else getattr(abctree, method)
    result = function(abctree.problems.gauss(2), n_simulations=2000, rng=1, **keep)
    mode = result.mode()
    figure = plots.mode(mode)
    (drawn,) = [line for line in figure.axes[2].lines if line.get_label() == "mode"]
    np.testing.assert_array_equal(drawn.get_xydata(), [mode.theta])
    titles = [ax.get_title() for ax in plots.mode(result).axes]
    assert titles == [ax.get_title() for ax in figure.axes]


def test_mode_of_something_else_says_what_to_give(flat):
    alone = pickle.loads(pickle.dumps(flat.mode()))
    for wrong in (flat.posterior(), None, "mode", alone):
        with pytest.raises(ParameterError, match=r"`result` must be .* result\.mode\(\) of a run"):
            plots.mode(wrong)


RUNS_ALONE = ("progress", "tolerance", "failures", "failure_map", "partition", "partitions")


@pytest.mark.parametrize("name", RUNS_ALONE)
def test_what_is_no_run_is_told_in_a_sentence(name):
    with pytest.raises(abctree.ParameterError, match="`result` must be a run, but got a int"):
        getattr(abctree.plots, name)(3)
