"""Pictures of how a run went, of what failed in it, and of what the posterior predicts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from abctree.answers.result import Result
from abctree.errors import ParameterError, wrong
from abctree.faces.plots.canvas import (
    DRAWS,
    FAINT,
    INK,
    TRUTH,
    check_parallel,
    figure_of,
    grid_of_axes,
    one_axes,
    plain_ticks,
    quieten,
)
from abctree.keywords import checks_keywords
from abctree.types import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Levels are compared with this much room for rounding.
_ROUNDING = 1e-12
#: Simulations that a cell should hold on average, and least and most cells along a parameter.
_IN_A_CELL, _FEWEST, _MOST = 20, 4, 30
#: Share of the simulations that the picture shows along a parameter: tails may be endless.
_SHOWN = 0.99


@checks_keywords
def progress(result: Result, axes: object = None) -> Figure:
    """Tolerance and acceptance rate of every round over the simulations made, on log axes.

    The pilot has no tolerance and is left out.  A round that accepted nothing has no place on a
    log axis: it leaves a gap.

    Parameters
    ----------
    result : Result
        A run.
    axes : two matplotlib Axes, optional
        For the tolerance and for the acceptance rate.  Default: of a new figure.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ParameterError
        If `axes` are not two.
    MissingDependencyError
        If matplotlib is not installed.
    """
    upper, lower = grid_of_axes(axes, (2, 1), (5.0, 4.6))[:, 0]
    played = result.rounds[1:]
    end = np.array([r.last for r in played], dtype=np.float64)
    series = (
        (upper, "tolerance ε", [r.epsilon for r in played]),
        (lower, "acceptance rate", [r.acceptance_rate for r in played]),
    )
    for ax, label, values in series:
        value = np.array(values, dtype=np.float64)
        value[~(value > 0.0)] = np.nan
        ax.plot(end, value, color=DRAWS, marker="o", markersize=3.5, linewidth=1.2)
        ax.set_ylabel(label)
        ax.set_xscale("log")
        plain_ticks(ax.xaxis)
        if np.isfinite(value).any():
            ax.set_yscale("log")
            plain_ticks(ax.yaxis)
        quieten(ax)
    lower.set_xlabel("simulations")
    return figure_of(upper)


@checks_keywords
def failures(result: Result, ax: Axes | None = None) -> Figure:
    """Share of the simulations of each round that failed; the pilot is round 0.

    Parameters
    ----------
    result : Result
        A run whose table has all its simulations.
    ax : matplotlib Axes, optional
        Default: of a new figure.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ParameterError
        If the table has the closest simulations only.
    MissingDependencyError
        If matplotlib is not installed.
    """
    _failed(result)
    ax = one_axes(ax, 5.0, 2.6)

    from matplotlib.ticker import MaxNLocator

    share = result.failures.by_round
    ax.bar(np.arange(len(share)), share, color=TRUTH, width=0.8)
    ax.set_xlabel("round")
    ax.set_ylabel("share that failed")
    ax.set_ylim(0.0, max(1.05 * float(share.max(initial=0.0)), 0.01))
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    quieten(ax)
    return figure_of(ax)


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

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ParameterError
        If the table has the closest simulations only, or a name is wrong.
    MissingDependencyError
        If matplotlib is not installed.
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
    quieten(ax)
    return figure_of(ax)


def _failed(result: Result) -> BoolArray:
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
        free = [j for j in range(len(names)) if theta[:, j].min() < theta[:, j].max()]
        varies = {j: _variation(theta[:, j], failed) for j in free}
        return sorted(sorted(free, key=lambda j: -varies[j])[:2])
    if not 1 <= len(wanted) <= 2 or not set(wanted) <= set(names):
        raise wrong("parameters", f"be one or two of {list(names)}", list(wanted))
    return [names.index(name) for name in wanted]


def _variation(column: FloatArray, failed: BoolArray) -> float:
    """How much of the variance of failing or not a parameter explains."""
    cell = _cell(column, _edges(column, _FEWEST))
    made = np.bincount(cell, minlength=_FEWEST)
    share = np.bincount(cell, weights=failed, minlength=_FEWEST) / np.maximum(made, 1)
    return float(made @ (share - failed.mean()) ** 2)


def _edges(column: FloatArray, n: int) -> FloatArray:
    tail = 0.5 * (1.0 - _SHOWN)
    low, high = np.quantile(column, [tail, 1.0 - tail])
    if low == high:  # nearly all are at one value
        low, high = column.min(), column.max()
    return np.linspace(low, high, n + 1)


def _cell(column: FloatArray, edges: FloatArray) -> IntArray:
    return np.clip(np.searchsorted(edges, column, side="right") - 1, 0, len(edges) - 2)


def _share(theta: FloatArray, failed: BoolArray, edges: list[FloatArray]) -> FloatArray:
    made, _ = np.histogramdd(theta, edges)
    lost, _ = np.histogramdd(theta[failed], edges)
    return np.where(made > 0, lost / np.maximum(made, 1), np.nan)


@checks_keywords
def predictive(
    x: FloatArray | Sequence[float],
    observed: FloatArray | Sequence[float],
    draws: FloatArray,
    weights: FloatArray | None = None,
    ax: Axes | None = None,
) -> Figure:
    """An observed series over the median and the central 50 and 90 % of simulated ones.

    Bands hold at each x by itself, not for a whole path at once.

    Parameters
    ----------
    x : (m,) array
        Where the series were observed, such as years.
    observed : (m,) array
        The observation.
    draws : (n, m) array
        Simulated series; none leave the observation alone.
    weights : (n,) array, optional
        Of the simulated series, up to a constant.  Default: equal.
    ax : matplotlib Axes, optional
        Default: of a new figure.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ParameterError
        If the shapes do not fit.
    MissingDependencyError
        If matplotlib is not installed.
    """
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
    return figure_of(ax)


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
    kept = weight > 0.0
    if not kept.any():
        raise ParameterError("`weight` must have a positive entry, but has none.")
    value, weight = value[kept], weight[kept]
    order = np.argsort(value, axis=0, kind="stable")
    cumulative = np.cumsum(weight[order], axis=0)
    wanted = np.asarray(levels, dtype=np.float64)
    index = np.array(
        [np.searchsorted(c / c[-1], wanted - _ROUNDING).clip(max=len(c) - 1) for c in cumulative.T]
    ).reshape(-1, len(wanted))
    return np.take_along_axis(np.take_along_axis(value, order, axis=0), index.T, axis=0)
