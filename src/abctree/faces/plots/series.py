"""Pictures over time: how a run went, and what the posterior predicts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from abctree.answers.result import Result
from abctree.errors import ParameterError
from abctree.faces.plots.canvas import (
    DRAWS,
    INK,
    TRUTH,
    check_parallel,
    figure_of,
    grid_of_axes,
    one_axes,
    quieten,
)
from abctree.keywords import checks_keywords
from abctree.types import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

#: Levels are compared with this much room for rounding.
_ROUNDING = 1e-12


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
        _plain_ticks(ax.xaxis)
        if np.isfinite(value).any():
            ax.set_yscale("log")
            _plain_ticks(ax.yaxis)
        quieten(ax)
    lower.set_xlabel("simulations")
    return figure_of(upper)


def _plain_ticks(axis: Axis) -> None:
    """Ticks at 1, 2 and 5 of each decade, as plain numbers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


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
        raise ParameterError(
            f"`draws` must be of shape (n, {len(x)}), but got {draws.shape}. One series a row."
        )
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
