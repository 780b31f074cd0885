"""Pictures of how a run went, of what failed in it, and of what the posterior predicts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import binned_statistic_dd

from abctree.answers.result import Result
from abctree.answers.run import check_is_run
from abctree.answers.weighted import Weighted
from abctree.errors import ParameterError, wrong
from abctree.faces.plots.canvas import (
    DRAWS,
    FAINT,
    INK,
    TRUTH,
    check_parallel,
    figure_of,
    finished,
    fit_texts,
    grid_of_axes,
    legend_above,
    one_axes,
    plain_ticks,
    quieten,
)
from abctree.keywords import checks_keywords
from abctree.problem.form import WrongTypeError, floats
from abctree.problem.ridge import varies
from abctree.types import BoolArray, FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@checks_keywords
def progress(result: Result, axes: object = None) -> Figure:
    """Tolerance, acceptance rate, effective sample size, evidence and seconds of every round.

    Over the simulations made, on log axes.  The evidence is Z(ε), read from the whole table at the
    tolerance of the round, with two standard errors.  The pilot has no tolerance and is left out.
    A round that accepted nothing has no place on a log axis: it leaves a gap.

    Parameters
    ----------
    result : Result
        A run.
    axes : five matplotlib Axes, optional
        In this order.  Default: of a new figure.

    Raises
    ------
    ParameterError
        If `axes` are not five.
    """
    check_is_run(result)
    if axes is None:
        grid = grid_of_axes(None, (3, 2), (7.5, 6.4)).ravel()
        grid[5].set_axis_off()
    else:
        grid = grid_of_axes(axes, (1, 5)).ravel()
    played = result.rounds[1:]
    end = np.array([r.last for r in played], dtype=np.float64)
    found = [result.evidence(r.epsilon) for r in played]
    evidence = np.array([z.estimate for z in found])
    _over(grid[0], end, "tolerance ε", [r.epsilon for r in played])
    _over(grid[1], end, "acceptance rate", [r.acceptance_rate for r in played])
    _over(grid[2], end, "effective sample size", [r.ess for r in played])
    _over(grid[3], end, "evidence at ε", evidence)
    _over(grid[4], end, "seconds", result.seconds_by_round[1:])
    known = evidence > 0.0
    error = np.exp(2.0 * np.array([z.standard_error for z in found])[known] / evidence[known])
    band = evidence[known] / error, evidence[known] * error
    grid[3].fill_between(end[known], *band, color=DRAWS, alpha=0.2, linewidth=0)
    return finished(grid[0])


def _over(ax: Axes, end: FloatArray, label: str, values: Sequence[float] | FloatArray) -> None:
    """Values of rounds over the simulations at their ends; none where nobody knows them."""
    value = np.array(values, dtype=np.float64)
    value[~(value > 0.0)] = np.nan
    ax.plot(end[: len(value)], value, color=DRAWS, marker="o", markersize=3.5, linewidth=1.2)
    ax.set(ylabel=label, xlabel="simulations", xscale="log")
    plain_ticks(ax.xaxis)
    if np.isfinite(value).any():
        ax.set_yscale("log")
        plain_ticks(ax.yaxis)
    quieten(ax)


@checks_keywords
def predictive(
    x: Result | FloatArray | Sequence[float],
    observed: FloatArray | Sequence[float] | None = None,
    draws: FloatArray | None = None,
    weights: FloatArray | None = None,
    ax: Axes | None = None,
) -> Figure:
    """An observed series over the median and the central 50 and 90 % of simulated ones.

    Bands hold at each x by itself, not for a whole path at once.

    Parameters
    ----------
    x : Result or (m,) array
        A run, whose `Result.predict` makes 200 new simulations, drawn as they are if all have the
        shape of the data, else as summaries.  Or where series were observed, such as years; then
        `observed` and `draws` are needed.
    observed : (m,) array, optional
        The observation.
    draws : (n, m) array, optional
        Simulated series; none leave the observation alone.
    weights : (n,) array, optional
        Of the simulated series, up to a constant.  Default: equal.
    ax : matplotlib Axes, optional
        Default: of a new figure.

    Raises
    ------
    ParameterError
        If the shapes do not fit.
    """
    label = ("", "")
    if isinstance(x, Result):
        label, observed, draws = _predicted(x)
        x = np.arange(len(observed), dtype=np.float64)
    if observed is None or draws is None:
        raise ParameterError(
            "`observed` and `draws` must be given with `x`, but are None. Or give a run alone."
        )
    x, observed = np.asarray(x, dtype=np.float64), np.asarray(observed, dtype=np.float64)
    draws = np.asarray(draws, dtype=np.float64)
    check_parallel("observed", len(observed), len(x), "values, one for each x")
    if draws.ndim != 2 or draws.shape[1] != len(x):
        raise wrong("draws", f"be of shape (n, {len(x)})", draws.shape, "One series a row.")
    weights = np.ones(len(draws)) if weights is None else np.asarray(weights, dtype=np.float64)
    check_parallel("weights", len(weights), len(draws), "values, one for each series")
    ax = one_axes(ax, 7.0, 3.2)
    quieten(ax)
    if weights.sum() > 0.0:
        band = weighted_quantiles(draws, weights, (0.05, 0.25, 0.5, 0.75, 0.95))
        ax.fill_between(x, band[0], band[4], color=DRAWS, alpha=0.18, linewidth=0, label="90 %")
        ax.fill_between(x, band[1], band[3], color=DRAWS, alpha=0.30, linewidth=0, label="50 %")
        ax.plot(x, band[2], color=DRAWS, linewidth=1.4, label="median")
    ax.plot(
        x, observed, color=INK, linewidth=0.8, marker="o", markersize=4.0,
        markerfacecolor=TRUTH, markeredgecolor="white", markeredgewidth=0.6, label="observed",
    )  # fmt: skip
    ax.set(xlabel=label[0], ylabel=label[1])
    if label[0]:  # a number
        from matplotlib.ticker import MaxNLocator

        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    legend_above(ax)
    return finished(ax)


def _predicted(result: Result) -> tuple[tuple[str, str], FloatArray, FloatArray]:
    """Labels of the axes, the observation (m,) and simulations (n, m) of posterior draws."""
    found = result.predict()
    try:
        data, observed = found.array, floats(result.problem.observed, "observed")
    except (ParameterError, WrongTypeError):
        data, observed = found.summary, found.observed
    if data.shape[1:] != observed.shape:
        data, observed = found.summary, found.observed
    what = "summary" if data is found.summary else "datum"
    label = f"number of the {what}", "data" if what == "datum" else what
    return label, observed.ravel(), data.reshape(len(data), -1)


@checks_keywords
def weighted_quantiles(
    value: FloatArray, weight: FloatArray, levels: Sequence[float] | FloatArray
) -> FloatArray:
    """Quantiles of each column: the smallest value with P(column <= value) >= level.

    Parameters
    ----------
    value : (n, m) array
        Draws of m numbers; at least one row.
    weight : (n,) array
        >= 0, not all 0.
    levels : (k,) array_like
        In [0, 1].

    Returns
    -------
    (k, m) array

    Raises
    ------
    ParameterError
        If there is no weight.
    """
    if not (weight > 0.0).any():
        raise ParameterError("`weight` must have a positive entry, but has none.")
    wanted = np.asarray(levels, dtype=np.float64)
    columns = [Weighted.of(column, weight).quantile(wanted) for column in value.T]
    return np.reshape(columns, (-1, len(wanted))).T


# What failed --------------------------------------------------------------------------------------

#: Simulations that a cell should hold on average, and least and most cells along a parameter.
_IN_A_CELL, _FEWEST, _MOST = 20, 4, 30
#: Share of the simulations that the picture shows along a parameter: tails may be endless.
_SHOWN = 0.99


@checks_keywords
def failures(result: Result, ax: Axes | None = None) -> Figure:
    """Share of the simulations of each round that failed; the pilot is round 0.

    Where none failed the picture says so.

    Parameters
    ----------
    result : Result
        A run whose table has all its simulations.
    ax : matplotlib Axes, optional
        Default: of a new figure.

    Raises
    ------
    ParameterError
        If the table has the closest simulations only.
    """
    _failed(result)
    ax = one_axes(ax, 5.0, 2.6)

    from matplotlib.ticker import MaxNLocator

    share = result.failures.by_round
    ax.bar(np.arange(len(share)), share, color=TRUTH, width=0.8)
    if not result.failures.count:
        said = f"none of {result.n_simulations} simulations failed"
        ax.text(0.5, 0.5, said, transform=ax.transAxes, ha="center", va="center", color=FAINT)
    ax.set_xlabel("round")
    ax.set_ylabel("share that failed")
    ax.set_ylim(0.0, max(1.05 * float(share.max(initial=0.0)), 0.01))
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    quieten(ax)
    return finished(ax)


@checks_keywords
def failure_map(
    result: Result, parameters: Sequence[str] | None = None, ax: Axes | None = None
) -> Figure:
    """Share of the simulations that failed, over one parameter or two.

    All simulations of the run count, wherever they were drawn from.  A cell without any is empty.
    The outermost simulations, 1 % along each parameter, are left out.

    Parameters
    ----------
    result : Result
        A run whose table has all its simulations.
    parameters : sequence of str, optional
        Names of one or two.  Default: those two along which the share varies most.
    ax : matplotlib Axes, optional
        Default: of a new figure.

    Raises
    ------
    ParameterError
        If the table has the closest simulations only, or a name is wrong.
    """
    failed, theta = _failed(result), result.table.theta
    columns = _columns(result.problem.names, theta, failed, parameters)
    n_cells = int((len(theta) / _IN_A_CELL) ** (1.0 / len(columns)))
    edges = [_edges(theta[:, j], int(np.clip(n_cells, _FEWEST, _MOST))) for j in columns]
    share = _share(theta[:, columns], failed, edges)
    ax = one_axes(ax, 4.6, 3.6)
    names = [result.problem.names[j] for j in columns]
    ax.set_xlabel(names[0])
    if len(columns) == 1:
        ax.stairs(share, edges[0], baseline=None, color=TRUTH, linewidth=1.6)
        ax.set_ylabel("share that failed")
        ax.set_ylim(-0.02, 1.02)
    else:
        cells = ax.pcolormesh(*edges, share.T, cmap="Reds", vmin=0.0, vmax=1.0)
        ax.set_facecolor(FAINT)
        ax.set_ylabel(names[1])
        figure_of(ax).colorbar(cells, ax=ax, label="share that failed")
    fit_texts([(ax, ax.xaxis.label), (ax, ax.yaxis.label)])
    quieten(ax)
    return finished(ax)


def _failed(result: Result) -> BoolArray:
    check_is_run(result)
    failed = ~np.isfinite(result.table.distance)
    if np.count_nonzero(failed) < result.failures.count:
        raise ParameterError(
            f"`result` must hold all its simulations, but its table has the closest "
            f"{len(result.table)} of {result.n_simulations} only, and not those that failed."
        )
    return np.asarray(failed)


def _columns(
    names: tuple[str, ...], theta: FloatArray, failed: BoolArray, wanted: Sequence[str] | None
) -> list[int]:
    if wanted is None:
        free = np.flatnonzero(varies(theta)).tolist()
        if not free:
            raise wrong("result", "hold simulations at different parameters", f"{len(theta)}")
        return sorted(sorted(free, key=lambda j: -_variation(theta[:, j], failed))[:2])
    if not 1 <= len(wanted) <= 2 or not set(wanted) <= set(names):
        raise wrong("parameters", f"be one or two of {list(names)}", list(wanted))
    return [names.index(name) for name in wanted]


def _variation(column: FloatArray, failed: BoolArray) -> float:
    """How much of the variance of failing or not a parameter explains."""
    edges = _edges(column, _FEWEST)
    made, _ = np.histogram(column, edges)
    return float(np.nansum(made * (_share(column, failed, [edges]) - failed.mean()) ** 2))


def _edges(column: FloatArray, n: int) -> FloatArray:
    tail = 0.5 * (1.0 - _SHOWN)
    low, high = np.quantile(column, [tail, 1.0 - tail])
    if low == high:  # nearly all are at one value
        low, high = column.min(), column.max()
    return np.linspace(low, high, n + 1)


def _share(theta: FloatArray, failed: BoolArray, edges: list[FloatArray]) -> FloatArray:
    """Mean of each cell; nan where there is none."""
    cells: Any = edges  # which SciPy's stubs do not know as a list
    return np.asarray(binned_statistic_dd(theta, failed, "mean", cells).statistic)
